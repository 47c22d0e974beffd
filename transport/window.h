/*
 * The window: the one arena of a rank that its peers write into, and its layout.
 *
 * From the bottom up lie the blocks of the comms, one per comm id, all of one size: cells and lines,
 * whose offsets every rank can compute for every other one. From the top down, slots (large pieces
 * and node scratch) are handed out on first use; their offsets are told to those who need them.
 * What was handed out is never taken back: a ring keeps its slots for its successor (rule 10).
 * Behind the window, in the same segment, lies the heap of tutti_alloc (runtime/heap.h): node peers have
 * it mapped and may read it at offsets from the window's base; a wire does not know it.
 *
 * A comm block, each cell in a stride of its own so that no two writers share a line:
 *   poison             any peer -> me   status and origin, 0: none
 *   info               me -> node       offset + 1 of my scratch slots
 *   beat               me -> node       number of my last beat, and verdict (distance.h)
 *   record             me -> all        what my last calls were
 *   done     [D]       me -> node       uses of node scratch that I am done with
 *   credit   [P][D]    edge reader -> me   consumed count of my edge to it
 *   announce [P][D]    edge reader -> me   offset + 1 of its slots for my edge to it
 *   bcredit  [D][M]    node reader -> me   consumed count of my board
 *   pslot    [D]       me -> the other     offset + 1 of my slots of the pair (channels.h)   *
 *   pcredit  [D]       the other -> me     consumed count of my side of the pair, told only
 *                                          when it read my memory in place                   *
 *   line     [P][D][R] edge writer -> me   line cells of the edge from it
 *   board    [D][K]    me -> node          line cells of my board
 *   pair     [D][R]    either -> either    line cells of the pair                            *
 * (*) not if all nodes are of one rank.
 */
#ifndef TU_TRANSPORT_WINDOW_H
#define TU_TRANSPORT_WINDOW_H

#include <stdint.h>

#include "runtime/memory.h"
#include "transport/transport.h"

struct tu_env;

enum {
    TU_CELL_STRIDE = 128,
    TU_MAX_BANKS = 4,
    TU_MAX_COMMS = 4096,
    TU_RECORDS = 8, /* calls that a rank's record of a comm remembers */
    TU_RECORD_BYTES = 64,
    TU_SLOT_HEAD = 64, /* in front of a slot's data; its last 8 bytes are the line header */
};

/* The same on all ranks of a job. */
struct tu_window_shape {
    uint32_t peers;   /* P: most edges of a rank */
    uint32_t members; /* M: largest node */
    uint32_t banks;   /* D */
    uint32_t slots;   /* R */
    uint32_t cells;   /* K: of a board, for small messages; at least R */
};

struct tu_window {
    struct tu_env *env;
    struct tu_shmem *shmem;
    uint8_t *base;
    size_t bytes;      /* of the window; node peers have mapped the heap behind it too */
    size_t heap_at;    /* its offset from base */
    size_t heap_bytes; /* 0: no peer can see memory of tutti_alloc */
    struct tu_window_shape shape;
    uint32_t comms; /* blocks of ids below this are reserved */
    size_t top;     /* everything from here on is handed out */
    size_t scratch; /* offset of the landing place of remote reads */
};

/* What lies in a comm's block. */
enum tu_window_part {
    TU_PART_POISON,
    TU_PART_INFO,
    TU_PART_BEAT,
    TU_PART_RECORD,
    TU_PART_DONE,
    TU_PART_CREDIT,
    TU_PART_ANNOUNCE,
    TU_PART_BOARD_CREDIT,
    TU_PART_PAIR_SLOT,
    TU_PART_PAIR_CREDIT,
    TU_PART_LINE, /* from here on line cells */
    TU_PART_BOARD,
    TU_PART_PAIR,
    TU_PARTS,
};

/* Offset of a part from the block's start; TU_PARTS gives the block's size. */
size_t tu_window_part(const struct tu_window_shape *shape, enum tu_window_part part);

/* Offsets in a window, whoever's it is. `peer`, `member`: place in the owner's list. */
size_t tu_window_comm(const struct tu_window_shape *shape, uint32_t comm);
size_t tu_window_credit(const struct tu_window_shape *s, uint32_t comm, uint32_t peer,
                        uint32_t bank);
size_t tu_window_announce(const struct tu_window_shape *s, uint32_t comm, uint32_t peer,
                          uint32_t bank);
size_t tu_window_line(const struct tu_window_shape *s, uint32_t comm, uint32_t peer, uint32_t bank);
size_t tu_window_board(const struct tu_window_shape *s, uint32_t comm, uint32_t bank);
size_t tu_window_pair_slot(const struct tu_window_shape *s, uint32_t comm, uint32_t bank);
size_t tu_window_pair_credit(const struct tu_window_shape *s, uint32_t comm, uint32_t bank);
size_t tu_window_pair(const struct tu_window_shape *s, uint32_t comm, uint32_t bank);
size_t tu_window_board_credit(const struct tu_window_shape *s, uint32_t comm, uint32_t bank,
                              uint32_t member);
size_t tu_window_done(const struct tu_window_shape *s, uint32_t comm, uint32_t bank);
size_t tu_window_record(const struct tu_window_shape *s, uint32_t comm, uint32_t record);

/*
 * Local. Lays a window out over the first `bytes` of a created segment, at least a page; what is behind
 * them is the heap.
 */
tutti_status tu_window_open(struct tu_env *env, struct tu_shmem *shmem, size_t bytes,
                            const struct tu_window_shape *shape, struct tu_window *window);

/*
 * Whether [memory, memory + bytes) lies in this rank's heap; then node peers can read it in place, at
 * *offset from their mapping of this window's base.
 */
static inline bool tu_window_heap_offset(const struct tu_window *window, const void *memory,
                                         size_t bytes, uint64_t *offset) {
    uintptr_t at = (uintptr_t)memory - (uintptr_t)window->base - window->heap_at; /* wraps around */
    if (at >= window->heap_bytes || bytes > window->heap_bytes - at)
        return false;
    *offset = window->heap_at + at;
    return true;
}

/* Makes the blocks of all ids up to `comm` usable by peers. TUTTI_ERR_MEMORY if there is no room. */
tutti_status tu_window_reserve_comm(struct tu_window *window, uint32_t comm);

/* Hands out `bytes` at a multiple of a page, zeroed. TUTTI_ERR_MEMORY if there is no room. */
tutti_status tu_window_take(struct tu_window *window, size_t bytes, uint64_t *offset);

/* Of the window, without the heap. */
size_t tu_window_used(const struct tu_window *window);

/* What handing out `bytes` takes, and what a window takes for itself. */
size_t tu_window_taken(size_t bytes);
size_t tu_window_own(void);

#endif
