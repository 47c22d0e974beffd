/*
 * Allreduce "flat": within a node, everybody shows its vector and folds all of them.
 *
 * Why: one hand-off between cores is all that a small vector can afford, and this takes one. Each
 * rank folds in rank order, so the bits agree for every operation, commutative or not.
 *
 *     rank 0   share x0 ----.            wait 1, wait 2    target = (x0 op x1) op x2
 *     rank 1   share x1 ----+-> boards   wait 2, wait 0    target = (x0 op x1) op x2
 *     rank 2   share x2 ----'            wait 0, wait 1    target = (x0 op x1) op x2
 *
 * The fold comes after the own SHARE, since source and target may be the same.
 *
 * Cost: one synchronisation; p - 1 folds of m on every rank; no scratch.
 * Restrictions: one node; for vectors so small that p readers of everything do not matter.
 * Source: folklore.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

static void steps(struct tu_builder *b, uint32_t p, uint32_t me, struct tu_ref *operand) {
    operand[me] = tu_src(0, 1);
    uint32_t share = tu_share(b, 0, 1, &operand[me], 1, p - 1, TU_AT_ONCE);
    struct tu_after after = {share, TU_NO_STEP};
    for (uint32_t i = 1; i < p; i++) {
        uint32_t of = (me + i) % p;
        after.a = tu_wait_board(b, of, 0, 0, 1, after);
        operand[of] = tu_arrived(after.a, 0, 1);
    }
    tu_reduce(b, tu_dst(0, 1), operand, p, after);
}

tutti_status tu_allreduce_flat(const struct tu_shape *shape, struct tu_plan **plan) {
    uint32_t p = shape->nodes->ranks;
    struct tu_ref *operand = malloc(p * sizeof *operand);
    struct tu_builder b;

    tu_builder_init(&b, "flat", shape->rank, p, 1);
    b.plan.in_order = true;
    b.plan.left_fold = true;
    if (!operand)
        b.status = TUTTI_ERR_MEMORY;
    else if (p == 1)
        tu_copy(&b, tu_dst(0, 1), tu_src(0, 1), TU_AT_ONCE);
    else
        steps(&b, p, shape->rank, operand);
    free(operand);
    return tu_plan_finish(&b, plan);
}
