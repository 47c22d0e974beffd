/*
 * The generators, one per file, and the parts that plans of two levels are composed of. A generator
 * is a pure function of the shape; memory is all that it can run out of.
 */
#ifndef TU_COLLECTIVES_ALGORITHMS_H
#define TU_COLLECTIVES_ALGORITHMS_H

#include "collectives/shape.h"

tutti_status tu_barrier_circulant(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_barrier_board(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_bcast_board(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_bcast_circulant(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_ordered(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_circulant(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_flat(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_two_phase(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_accumulate(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_two_level(const struct tu_shape *shape, struct tu_plan **plan);
tutti_status tu_allreduce_leaders(const struct tu_shape *shape, struct tu_plan **plan);

/* Starts at once. */
#define TU_AT_ONCE ((struct tu_after){TU_NO_STEP, TU_NO_STEP})

/* Members of a group, in the group's own order. */
struct tu_group {
    const uint32_t *member; /* [size] ranks in the comm; NULL: member i is rank i */
    uint32_t size, me;      /* me: my index */
};

static inline uint32_t tu_group_rank(const struct tu_group *group, uint32_t index) {
    return group->member ? group->member[index] : index;
}

/* Index of the member `skip` places above or below me; skip <= size. */
static inline uint32_t tu_group_up(const struct tu_group *group, uint32_t skip) {
    return (uint32_t)(((uint64_t)group->me + skip) % group->size);
}

static inline uint32_t tu_group_down(const struct tu_group *group, uint32_t skip) {
    return (uint32_t)(((uint64_t)group->me + group->size - skip) % group->size);
}

/*
 * Allreduce of one group by ordered gathering, in a plan of replicated blocks with wrap = size: block
 * i belongs to member i. `own` is my contribution (one block of source or target), there once `after`
 * is done. The result lies in the target once the returned steps are done.
 */
struct tu_after tu_ordered_steps(struct tu_builder *b, const struct tu_group *group,
                                 struct tu_ref own, struct tu_after after);

/*
 * Allreduce of one group by circulant reduce-scatter and allgather, over the blocks first .. first +
 * size - 1 of a split plan with wrap = size.
 */
struct tu_circulant {
    struct tu_group group;
    uint32_t first;
    uint32_t space;        /* where my contribution lies: TU_SRC or TU_DST */
    struct tu_after after; /* in: it is there; out: the result lies in the target */
    /* of the generator: the last REDUCE and COPY, and the WRITE of each round of reduction */
    uint32_t reduced, copied, written[TU_MAX_SKIPS];
};

/* All parts have groups of the same size; their rounds alternate. Every member of a group must list
 * the parts that it shares with another one in the same order. */
void tu_circulant_steps(struct tu_builder *b, struct tu_circulant *part, uint32_t parts);

#endif
