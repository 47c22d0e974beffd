/*
 * Allreduce "ordered": every rank gathers all contributions, then folds them by itself in rank order.
 *
 * Why: for small vectors the rounds are all that counts, and here there are q = ceil(log2 p) of them,
 * half of a reduction followed by a distribution. Folding raw contributions in rank order gives the
 * same bits everywhere, for any operation, commutative or not. Nothing is copied: messages are put
 * together from the source and the slots in which earlier ones lie, and so is the fold.
 *
 * Block i is the whole contribution of rank i. In round k a rank holds s_k blocks from its own one
 * upwards; it sends the first s_{k+1} - s_k to r - s_k and gets as many from r + s_k:
 *     p = 5, skips 1 2 3, rank 0         holds
 *     round 0   from 1: 1                0 1
 *     round 1   from 2: 2                0 1 2
 *     round 2   from 3: 3 4              0 1 2 3 4
 *     target = (((x0 op x1) op x2) op x3) op x4
 *
 * Cost: q rounds, (p - 1) m sent, p - 1 folds of m on every rank; 2q peers; no scratch.
 * Restrictions: for small p * m; slots are held until the fold.
 * Source: the gathering of J. L. Traeff, arXiv 2410.14234, on unreduced contributions.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

/* Where the blocks lie: mine, then what came in round 0, 1, ... */
struct gathered {
    struct tu_skips skips;
    struct tu_ref own;
    uint32_t wait[TU_MAX_SKIPS];
};

/* Block number `index`, which lies `offset` above mine. */
static struct tu_ref block_at(const struct gathered *gathered, uint32_t index, uint32_t offset) {
    uint32_t k = 0;
    if (offset == 0)
        return gathered->own;
    while (offset >= gathered->skips.s[k + 1])
        k++;
    return tu_arrived(gathered->wait[k], index, 1);
}

/* The message of round k: the first `n` blocks that I hold. Returns the number of pieces. */
static uint32_t pieces_of(const struct gathered *gathered, const struct tu_group *group, uint32_t n,
                          struct tu_ref *piece) {
    uint32_t pieces = 0;
    piece[pieces++] = gathered->own;
    for (uint32_t k = 0, at = 1; at < n; k++) {
        uint32_t end = gathered->skips.s[k + 1] < n ? gathered->skips.s[k + 1] : n;
        piece[pieces++] = tu_arrived(gathered->wait[k], tu_group_up(group, at), end - at);
        at = end;
    }
    return pieces;
}

static uint32_t fold(struct tu_builder *b, const struct gathered *gathered,
                     const struct tu_group *group, struct tu_after after) {
    struct tu_ref *operand = malloc(group->size * sizeof *operand);
    if (!operand) {
        b->status = TUTTI_ERR_MEMORY;
        return TU_NO_STEP;
    }
    for (uint32_t i = 0; i < group->size; i++)
        operand[i] = block_at(gathered, i, (i + group->size - group->me) % group->size);
    uint32_t step = tu_reduce(b, tu_dst(group->me, 1), operand, group->size, after);
    free(operand);
    return step;
}

/*
 * The WAITs form a chain, so that the last one stands for all. The target may be the source, hence
 * the fold must come after every WRITE of my block: each WAIT also follows the WRITE of the round
 * before, which costs nothing, since that one has had a whole round's time.
 */
struct tu_after tu_ordered_steps(struct tu_builder *b, const struct tu_group *group,
                                 struct tu_ref own, struct tu_after after) {
    struct gathered gathered = {.skips = tu_skips_of(group->size), .own = own};
    struct tu_ref piece[TU_MAX_SKIPS + 1];

    if (group->size == 1 && own.space == TU_DST)
        return after;
    if (group->size == 1)
        return (struct tu_after){tu_copy(b, tu_dst(group->me, 1), own, after), TU_NO_STEP};
    for (uint32_t k = 0; k < gathered.skips.q; k++) {
        uint32_t s = gathered.skips.s[k], n = gathered.skips.s[k + 1] - s;
        uint32_t pieces = pieces_of(&gathered, group, n, piece);
        struct tu_after have = k == 0 ? after : (struct tu_after){after.a, TU_NO_STEP};
        uint32_t write = tu_write(b, tu_group_rank(group, tu_group_down(group, s)), group->me, n,
                                  piece, pieces, have);
        uint32_t from = tu_group_up(group, s);
        gathered.wait[k] = tu_wait(b, tu_group_rank(group, from), from, n, after);
        after = (struct tu_after){gathered.wait[k], write};
    }
    return (struct tu_after){fold(b, &gathered, group, after), TU_NO_STEP};
}

tutti_status tu_allreduce_ordered(const struct tu_shape *shape, struct tu_plan **plan) {
    struct tu_group all = {.size = shape->nodes->ranks, .me = shape->rank};
    struct tu_builder b;

    tu_builder_init(&b, "ordered", shape->rank, all.size, all.size);
    b.plan.replicate = true;
    b.plan.in_order = true;
    b.plan.left_fold = true;
    tu_ordered_steps(&b, &all, tu_src(all.me, 1), TU_AT_ONCE);
    return tu_plan_finish(&b, plan);
}
