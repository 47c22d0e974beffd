/*
 * The channels of one comm id on one rank: an edge to and from each base peer, the boards of its node,
 * and node scratch; each in D banks. Made once per id, kept for its successors (rule 10).
 *
 * Two ranks alone on a node have a pair besides: the same two boards, with numbers and cells of their
 * own, whose slots change hands (ring.h). It serves the plans in which both sides share and read all
 * alike (rule 8), and its numbers stay equal on both sides, since all its calls are such.
 */
#ifndef TU_TRANSPORT_CHANNELS_H
#define TU_TRANSPORT_CHANNELS_H

#include "transport/distance.h"
#include "transport/ring.h"

struct tu_edge {
    uint32_t rank; /* in the comm */
    struct tu_peer *peer;
    struct tu_ring_out out[TU_MAX_BANKS];
    struct tu_ring_in in[TU_MAX_BANKS];
};

/* The board of another member of the node. */
struct tu_board {
    uint32_t rank; /* in the comm */
    struct tu_peer *peer;
    struct tu_ring_in in[TU_MAX_BANKS];
};

/*
 * Node scratch of one bank: S slots in each member's window. Use u lies in slot u mod S, and starts
 * when every member has published done >= u - S + 1 (rule 7).
 */
struct tu_node_scratch {
    uint32_t next;  /* number of the next call's first use */
    uint32_t done;  /* all lower uses are done here */
    uint32_t limit; /* lower uses may start, as far as is known here; 0: look first */
    uint64_t given; /* bit i: use done + i is done here */
};

/* A slot of node scratch is this many times a board's: the larger the slices, the fewer the waits, and
   only one slice's p-th part lies in a member's slot. */
enum { TU_SCRATCH_SHARES = 2 };

struct tu_channels_params {
    struct tu_window *window;
    struct tu_counters *counters;
    uint32_t comm; /* id */
    uint32_t rank;
    uint32_t first_number;  /* of every ring; cells hold the number before it until the first use */
    uint32_t scratch_slots; /* S, a power of two */
    size_t slot_bytes, share_bytes; /* of an edge's slot, of a board's */
    uint64_t far_ns;                /* a member's core is far if a line from it takes so long */
    uint32_t edges;
    const uint32_t *edge_rank; /* [edges] ascending */
    const uint32_t *my_place;  /* [edges] place of this rank in that peer's list of edges */
    struct tu_peer *const *edge_peer;
    uint32_t members; /* of the node, this rank included */
    uint32_t local;   /* place of this rank among them */
    const uint32_t *member_rank;
    struct tu_peer *const *member_peer; /* [members]; NULL for this rank */
};

struct tu_channels {
    struct tu_window *window;
    uint32_t comm, rank, banks, edges, members, local;
    uint32_t scratch_slots;
    size_t slot_bytes, share_bytes, scratch_bytes; /* of a slot */
    struct tu_distance distance;                   /* from the other members */
    struct tu_edge *edge;                          /* ascending by rank */
    struct tu_board *board;                        /* [members]; the own one is unused */
    struct tu_ring_out own[TU_MAX_BANKS];          /* the own board */
    struct tu_ring_out pair_out[TU_MAX_BANKS];     /* if members == 2 */
    struct tu_ring_in pair_in[TU_MAX_BANKS];
    struct tu_node_scratch scratch[TU_MAX_BANKS];
    uint64_t scratch_slot; /* own scratch: offset of bank 0's slot 0, 0 until first use */
};

/* Local. Lays the channels over the comm block, which must be reserved. */
tutti_status tu_channels_make(const struct tu_channels_params *params,
                              struct tu_channels **channels);
void tu_channels_free(struct tu_channels *channels);

/* NULL if this rank has no edge to or from that rank. */
struct tu_edge *tu_channels_edge(const struct tu_channels *channels, uint32_t rank);
struct tu_board *tu_channels_board(const struct tu_channels *channels, uint32_t rank);

/* Takes this rank's slots of the pair out of the window, unless done before, and tells the other. */
tutti_status tu_pair_slots(struct tu_channels *channels);

/* ---- node scratch ---- */

/* Takes this rank's scratch out of the window, unless done before, and tells the node. */
tutti_status tu_scratch_open(struct tu_channels *channels);

/* May use `number` start, as far as every member has told, and is its scratch in place? */
bool tu_scratch_free(struct tu_channels *channels, uint32_t bank, uint32_t number);

/* The scratch of the node's member `member` for use `number`. Only after tu_scratch_free. */
uint8_t *tu_scratch_at(const struct tu_channels *channels, uint32_t bank, uint32_t number,
                       uint32_t member);

/* This rank is done with use `number`: tells the node as far as all earlier ones are done too. */
void tu_scratch_done(struct tu_channels *channels, uint32_t bank, uint32_t number);

#endif
