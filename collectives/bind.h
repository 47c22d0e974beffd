/*
 * A plan tied to the channels of a comm, and how a vector is cut into segments for it. Bound plans are
 * what the cache holds; a call adds buffers and a count.
 */
#ifndef TU_COLLECTIVES_BIND_H
#define TU_COLLECTIVES_BIND_H

#include "collectives/plan.h"
#include "transport/channels.h"

/* A plan's channel in one bank. */
union tu_ring {
    struct tu_ring_out *out;
    struct tu_ring_in *in;
    uint32_t *next; /* the first member of both */
};
_Static_assert(offsetof(struct tu_ring_out, next) == 0, "first");
_Static_assert(offsetof(struct tu_ring_in, next) == 0, "first");

struct tu_bound {
    const struct tu_plan *plan; /* owned */
    struct tu_channels *channels;
    union tu_ring *ring[TU_MAX_BANKS]; /* [plan->channels] each */
    uint32_t *owner;    /* [blocks] node member that holds the block in node scratch */
    uint8_t *node_step; /* [steps] 1: touches node scratch */
    uint32_t node_steps;
    uint32_t operands;                            /* most that a step has */
    bool wire;                                    /* some edge goes over a wire */
    bool pair;                                    /* its boards are those of the pair */
    bool slots_ready, share_ready, scratch_ready; /* memory for larger messages is in place */
};

/* How a vector is run: `segments` slices of `slice` elements, the last one of `last`. */
struct tu_cut {
    size_t slice, last;
    uint32_t segments;
    bool slots, share; /* some message on an edge or board is larger than a cell carries */
};

/*
 * Ties `plan` to `channels`; owns it from now on, also on failure. TUTTI_ERR_INTERNAL if the plan uses
 * a channel that does not exist.
 */
tutti_status tu_bind(struct tu_env *env, struct tu_plan *plan, struct tu_channels *channels,
                     struct tu_bound **bound);
void tu_bound_free(struct tu_bound *bound);

/*
 * Cuts `count` elements so that every message fits its slot. TUTTI_ERR_UNSUPPORTED if even one element
 * a block does not.
 */
tutti_status tu_cut_make(struct tu_env *env, const struct tu_bound *bound, size_t count,
                         size_t element_bytes, struct tu_cut *cut);

/* Puts the memory in place that a call with this cut needs, in all banks. Nothing to do mostly. */
tutti_status tu_bound_prepare(struct tu_bound *bound, const struct tu_cut *cut);

#endif
