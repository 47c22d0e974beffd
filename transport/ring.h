/*
 * A ring: one bank of an edge or board, seen from its writer (tu_ring_out) or a reader (tu_ring_in).
 *
 * Uses are numbered without end, and never start anew. Use n lies in slot n mod R: in the slot's line
 * cell if it is no larger than its payload; else its data lies in the slot proper and the cell only
 * says that it has arrived. Both ends know the size, so nothing in the cell has to tell.
 *
 *   to a mapped reader      data is copied into the writer's own slot; the line carries the slot's
 *                           offset in the writer's window, and the reader reads it there
 *   ... out of the heap     the line carries the offset of the data itself: nothing is copied. The
 *                           writer may not change it before the readers have given the use back,
 *                           which they tell at once
 *   over a wire             data is copied into the writer's own slot and written from there into the
 *                           reader's slot, whose place the reader has announced
 *
 * The rings of a *pair* (the boards of two ranks alone on a node, in plans where both share and read
 * alike) change hands: use n of either lies in the window of the one or the other by turns, the turn
 * being n / R. So each writes where it has read last, which costs the cores one transaction instead of
 * two, and no credit is needed: a rank may write use n when it has given back the other's use n - R,
 * which lay in the same place; having sent that, the other had given back mine.
 *
 * A writer may use n while n - consumed < R for every reader (rules 2 to 4 of flow control: consumed
 * is a prefix, told when it lags by (R + 1) / 2, in a cell of its own). Credit for n - R also says
 * that the own slot of n - R was fetched, so that it may be filled again.
 */
#ifndef TU_TRANSPORT_RING_H
#define TU_TRANSPORT_RING_H

#include <stdatomic.h>

#include "transport/line.h"
#include "transport/window.h"

/* A rank of the job that this rank has channels with. */
struct tu_peer {
    uint32_t rank; /* in the job */
    char host[64];
    uint8_t *window;                /* mapped, or NULL */
    struct tu_transport *transport; /* shm if mapped, else the wire */
    uint32_t index;                 /* in the transport */
    enum tu_line_format format;
};

struct tu_ring_out {
    uint32_t next;    /* number of the next call's first use */
    uint32_t limit;   /* lower numbers may be used, as far as is known here */
    uint32_t slots;   /* cells: R, of a board K */
    uint32_t pieces;  /* slots for data: R */
    uint32_t readers; /* their credit cells lie at credit + i * TU_CELL_STRIDE */
    const uint8_t *credit;
    uint8_t *cell[2];              /* mapped: line cell of slot 0, in even and odd turns */
    uint32_t turn_shift;           /* log2 R */
    uint32_t stride, payload;      /* of a cell, and the most that it carries */
    const struct tu_ring_in *twin; /* pair: the other's ring, which stands in for credits */
    struct tu_peer *peer;          /* the reader (edges) */
    struct tu_window *window;      /* own */
    struct tu_counters *counters;
    uint64_t slot;           /* own slots: offset, 0 until first use */
    size_t slot_stride;      /* with the head */
    uint64_t peer_cell;      /* wire: offset of line cell 0 at the reader */
    uint64_t peer_slot;      /* wire: offset of slot 0 at the reader, 0 until it is known */
    const uint8_t *announce; /* wire: cell in which the reader tells it */
    uint32_t immediate;      /* wire: comm and bank; the number is added */
};

struct tu_ring_in {
    uint32_t next;      /* number of the next call's first use */
    uint32_t consumed;  /* all lower numbers were given back */
    uint32_t published; /* what the writer was told of that */
    uint32_t prompt_to; /* ... and is told at once up to here */
    bool prompt;
    uint32_t slots;
    uint64_t given;           /* bit i: number consumed + i was given back */
    const uint8_t *cell[2];   /* line cell of slot 0, in even and odd turns */
    uint32_t turn_shift;      /* log2 R */
    uint32_t stride, payload; /* of a cell, and the most that it carries */
    uint32_t lag;         /* the writer is told when `published` lags so much; 0: never (a pair) */
    struct tu_peer *peer; /* the writer */
    struct tu_window *window;
    struct tu_counters *counters;
    uint64_t credit; /* offset of the credit cell in the writer's window */
    uint64_t slot;   /* wire: own slots, 0 until first use */
    size_t slot_stride;
    uint64_t announce; /* wire: offset of the announcement cell in the writer's window */
    bool announced;
    uint8_t *unpacked; /* wire: payloads of line cells, TU_LINE_PAYLOAD each */
};

/* Immediates: the queue pair names the peer, these 32 bits comm, bank and low bits of the number. */
enum { TU_IMM_NUMBER_BITS = 18, TU_IMM_BANK_BITS = 2, TU_IMM_COMM_BITS = 12 };
_Static_assert(TU_IMM_NUMBER_BITS + TU_IMM_BANK_BITS + TU_IMM_COMM_BITS == 32, "an immediate");
_Static_assert(TU_MAX_COMMS <= 1 << TU_IMM_COMM_BITS, "comms fit");
_Static_assert(TU_MAX_BANKS <= 1 << TU_IMM_BANK_BITS, "banks fit");

static inline uint32_t tu_immediate_of(uint32_t comm, uint32_t bank) {
    return (comm << TU_IMM_BANK_BITS | bank) << TU_IMM_NUMBER_BITS;
}

/* Numbers wrap at 2^32, so R is a power of two and the slot survives the wrap. */
static inline uint32_t tu_ring_place(uint32_t number, uint32_t slots) {
    return number & (slots - 1);
}

/* ---- writer ---------------------------------------------------------------------------------- */

/* Numbers below the limit are free. Looks at the credit cells again. */
bool tu_ring_refresh(struct tu_ring_out *ring, uint32_t number);

/* May use `number` be written? The difference is signed: a skipped use can be consumed in advance. */
static inline bool tu_ring_free(struct tu_ring_out *ring, uint32_t number) {
    return (int32_t)(number - ring->limit) < 0 || tu_ring_refresh(ring, number);
}

/* The same for a use whose data needs a slot. */
static inline bool tu_ring_slot_free(struct tu_ring_out *ring, uint32_t number) {
    return tu_ring_free(ring, number + (ring->slots - ring->pieces));
}

/* Mapped: the line cell of a use. */
static inline uint8_t *tu_ring_out_cell(const struct tu_ring_out *ring, uint32_t number) {
    return ring->cell[number >> ring->turn_shift & 1] +
           (size_t)tu_ring_place(number, ring->slots) * ring->stride;
}

/* A line over a wire; the payload may be reused on return. TU_AGAIN: nothing happened. */
tutti_status tu_ring_wire_line(struct tu_ring_out *ring, struct tu_line_header header,
                               const void *payload, size_t bytes);

/* Mapped: sends what lies in the use's cell. */
static inline void tu_ring_publish(struct tu_ring_out *ring, uint8_t *cell,
                                   struct tu_line_header header, size_t bytes) {
    tu_line_publish(cell, header);
    ring->counters->lines++;
    ring->counters->bytes += bytes;
}

/* Where to put the data of a larger use; its slots must be there (tu_ring_out_slots). */
uint8_t *tu_ring_slot(const struct tu_ring_out *ring, uint32_t number);

/* Could this larger use be sent, or has the reader not announced its slots yet? */
bool tu_ring_sendable(struct tu_ring_out *ring, uint32_t number);

/* Sends what lies in the slot. Only if sendable. TU_AGAIN: nothing happened. */
tutti_status tu_ring_send(struct tu_ring_out *ring, struct tu_line_header header, size_t bytes);

/* Mapped: shares what lies at this offset of the own heap, in place. */
void tu_ring_lend(struct tu_ring_out *ring, struct tu_line_header header, uint64_t offset);

/* Has reader i given use `number` back, as far as it has told? */
bool tu_ring_returned(const struct tu_ring_out *ring, uint32_t i, uint32_t number);

/* Takes slots of `bytes` out of the window, unless done before. */
tutti_status tu_ring_out_slots(struct tu_ring_out *ring, size_t bytes);

/* ---- reader ---------------------------------------------------------------------------------- */

static inline const uint8_t *tu_ring_cell(const struct tu_ring_in *ring, uint32_t number) {
    return ring->cell[number >> ring->turn_shift & 1] +
           (size_t)tu_ring_place(number, ring->slots) * ring->stride;
}

/* The header of use `number` has arrived: is the rest of its `bytes` there too? */
static inline bool tu_ring_whole(const struct tu_ring_in *ring, uint32_t number, size_t bytes) {
    return bytes > ring->payload || /* a line that tells of it */
           ring->peer->format == TU_FORMAT_CACHELINE ||
           tu_line_arrived(tu_ring_cell(ring, number), ring->peer->format, number, bytes);
}

/* Where its data lies. Only after it has arrived, and until it is given back. */
const uint8_t *tu_ring_data(struct tu_ring_in *ring, uint32_t number, size_t bytes);

/* Can `number` be given back, or is it too far ahead of the oldest one? (Skipped uses only.) */
static inline bool tu_ring_near(const struct tu_ring_in *ring, uint32_t number) {
    return number - ring->consumed < 64;
}

/* Nobody here needs use `number` any more. Tells the writer nothing yet. */
static inline void tu_ring_give_back(struct tu_ring_in *ring, uint32_t number) {
    if (number == ring->consumed && !ring->given) {
        ring->consumed++;
        return;
    }
    ring->given |= UINT64_C(1) << (number - ring->consumed);
    while (ring->given & 1) {
        ring->given >>= 1;
        ring->consumed++;
    }
}

/* True if the writer must be told: credit lags half a ring, or the writer waits for it. */
static inline bool tu_ring_owes(const struct tu_ring_in *ring) {
    return ring->prompt || (ring->lag && ring->consumed - ring->published >= ring->lag);
}

/* The same, or the slots are new: only at the start of a call that uses them. */
static inline bool tu_ring_unsettled(const struct tu_ring_in *ring) {
    return tu_ring_owes(ring) || (ring->slot && !ring->announced);
}

/* Tells it. TU_AGAIN: not all was told. */
tutti_status tu_ring_settle(struct tu_ring_in *ring);

/* Takes slots for data over a wire out of the window, unless done before or not needed. */
tutti_status tu_ring_in_slots(struct tu_ring_in *ring, size_t bytes);

/* A write with immediate has arrived: marks its use. False if the immediate makes no sense. */
bool tu_ring_deliver(struct tu_ring_in *ring, uint32_t immediate);

#endif
