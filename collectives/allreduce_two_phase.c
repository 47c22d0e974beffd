/*
 * Allreduce "two_phase": within a node, each rank folds its block out of everybody's vector, then
 * all collect the finished blocks.
 *
 * Why: "flat" folds everything p times; here each rank folds 1 / p of it, for one more
 * synchronisation. One rank makes each block, folding in rank order, so the bits agree for every
 * operation, commutative or not.
 *
 *     p = 3       shares       folds block r of all      shares     collects
 *     rank 0      a1 a2        a0 op b0 op c0            0          1 of rank 1, 2 of 2
 *     rank 1      b2 b0        a1 op b1 op c1            1          2 of rank 2, 0 of 0
 *     rank 2      c0 c1        a2 op b2 op c2            2          0 of rank 0, 1 of 1
 *
 * The fold writes the target, from where its block is shared. It comes after the own first SHARE, since
 * source and target may be the same. The WAITs of each phase form a chain. Each rank starts with its upper
 * neighbour's block, so that no block is read by all at once.
 *
 * Cost: two synchronisations; per rank m copied into shared memory, m (p-1) / p read from peers in each
 * phase, m / p folded p - 1 times.
 * Restrictions: one node.
 * Source: folklore.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

/* Blocks of rank `of` that others fold: all but its own. */
static uint32_t first_shared(uint32_t p, uint32_t of) {
    return (of + 1) % p;
}

static uint32_t fold_my_block(struct tu_builder *b, uint32_t p, uint32_t me,
                              struct tu_ref *operand) {
    uint32_t first = first_shared(p, me);
    struct tu_ref others = tu_src(first, p - 1);
    struct tu_after after = {TU_NO_STEP, tu_share(b, first, p - 1, &others, 1, p - 1, TU_AT_ONCE)};

    operand[me] = tu_src(me, 1);
    for (uint32_t i = 1; i < p; i++) {
        uint32_t of = (me + i) % p;
        after.a = tu_wait_board(b, of, 0, first_shared(p, of), p - 1,
                                (struct tu_after){after.a, TU_NO_STEP});
        operand[of] = tu_arrived(after.a, me, 1);
    }
    return tu_reduce(b, tu_dst(me, 1), operand, p, after);
}

static void collect_blocks(struct tu_builder *b, uint32_t p, uint32_t me, uint32_t folded) {
    uint32_t wait = folded, last = folded;
    struct tu_ref mine = tu_dst(me, 1);

    tu_share(b, me, 1, &mine, 1, p - 1, (struct tu_after){folded, TU_NO_STEP});
    for (uint32_t i = 1; i < p; i++) {
        uint32_t of = (me + i) % p;
        wait = tu_wait_board(b, of, 1, of, 1, (struct tu_after){wait, TU_NO_STEP});
        last = tu_copy(b, tu_dst(of, 1), tu_arrived(wait, of, 1), (struct tu_after){wait, last});
    }
}

tutti_status tu_allreduce_two_phase(const struct tu_shape *shape, struct tu_plan **plan) {
    uint32_t p = shape->nodes->ranks, me = shape->rank;
    struct tu_ref *operand = malloc(p * sizeof *operand);
    struct tu_builder b;

    tu_builder_init(&b, "two_phase", me, p, p);
    b.plan.in_order = true;
    b.plan.left_fold = true;
    if (!operand)
        b.status = TUTTI_ERR_MEMORY;
    else if (p == 1)
        tu_copy(&b, tu_dst(0, 1), tu_src(0, 1), TU_AT_ONCE);
    else
        collect_blocks(&b, p, me, fold_my_block(&b, p, me, operand));
    free(operand);
    return tu_plan_finish(&b, plan);
}
