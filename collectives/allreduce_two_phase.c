/*
 * Allreduce "two_phase": within a node, each rank folds its block out of everybody's vector, then
 * all collect the finished blocks.
 *
 * Why: "flat" folds everything p times; here each rank folds 1 / p of it, for one more
 * synchronisation. One rank makes each block, folding in rank order, so the bits agree for every
 * operation, commutative or not.
 *
 *     p = 3          shared          folds block r of all     node scratch     collects
 *     rank 0      a0 a1 a2           a0 op b0 op c0           0 . .            1 of rank 1, 2 of 2
 *     rank 1      b0 b1 b2           a1 op b1 op c1           . 1 .            2 of rank 2, 0 of 0
 *     rank 2      c0 c1 c2           a2 op b2 op c2           . . 2            0 of rank 0, 1 of 1
 *
 * The fold writes the target and the rank's own block of node scratch in one pass, then a SIGNAL says
 * so. It comes after the own SHARE, since source and target may be the same. The WAITs of each phase
 * form a chain, and so do the steps that touch node scratch. Each rank starts with its upper
 * neighbour's block, so that no block is read by all at once.
 *
 * Cost: two synchronisations; 2 m copied (in and out), m read from peers and m / p folded p - 1 times
 * per rank; one block of node scratch per rank.
 * Restrictions: one node.
 * Source: folklore.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

static uint32_t fold_my_block(struct tu_builder *b, uint32_t p, uint32_t me,
                              struct tu_ref *operand) {
    struct tu_ref vector = tu_src(0, p);
    struct tu_after after = {TU_NO_STEP, tu_share(b, 0, p, &vector, 1, p - 1, TU_AT_ONCE)};

    operand[me] = tu_src(me, 1);
    for (uint32_t i = 1; i < p; i++) {
        uint32_t of = (me + i) % p;
        after.a = tu_wait_board(b, of, 0, 0, p, (struct tu_after){after.a, TU_NO_STEP});
        operand[of] = tu_arrived(after.a, me, 1);
    }
    return tu_reduce2(b, tu_dst(me, 1), tu_node(me, 1), operand, p, after);
}

static void collect_blocks(struct tu_builder *b, uint32_t p, uint32_t me, uint32_t folded) {
    uint32_t wait = folded, last = folded;

    tu_signal(b, p - 1, (struct tu_after){folded, TU_NO_STEP});
    for (uint32_t i = 1; i < p; i++) {
        uint32_t of = (me + i) % p;
        wait = tu_wait_board(b, of, 1, 0, 0, (struct tu_after){wait, TU_NO_STEP});
        last = tu_copy(b, tu_dst(of, 1), tu_node(of, 1), (struct tu_after){wait, last});
    }
}

tutti_status tu_allreduce_two_phase(const struct tu_shape *shape, struct tu_plan **plan) {
    uint32_t p = shape->nodes->ranks, me = shape->rank;
    struct tu_ref *operand = malloc(p * sizeof *operand);
    struct tu_builder b;

    tu_builder_init(&b, "two_phase", me, p, p);
    b.plan.in_order = true;
    b.plan.left_fold = true;
    b.plan.node_run = p > 1 ? 1 : 0;
    if (!operand)
        b.status = TUTTI_ERR_MEMORY;
    else if (p == 1)
        tu_copy(&b, tu_dst(0, 1), tu_src(0, 1), TU_AT_ONCE);
    else
        collect_blocks(&b, p, me, fold_my_block(&b, p, me, operand));
    free(operand);
    return tu_plan_finish(&b, plan);
}
