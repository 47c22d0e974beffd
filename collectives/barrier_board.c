/*
 * Barrier "board": within a node, everybody says on its board that it has come, and waits for all.
 *
 * Why: with few ranks, looking at p - 1 lines costs less than ceil(log2 p) hand-offs one after the
 * other; and where ranks share cores, a hand-off is a switch between them.
 *
 *     rank 0     signal ---.              wait 1, wait 2
 *     rank 1     signal ---+-> boards     wait 2, wait 0
 *     rank 2     signal ---'              wait 0, wait 1
 *
 * Each looks first at the board of the rank above it, so that not all look at the same one.
 *
 * Cost: one synchronisation; p - 1 lines read.
 * Restrictions: one node, of few ranks.
 * Source: folklore.
 */
#include "collectives/algorithms.h"

tutti_status tu_barrier_board(const struct tu_shape *shape, struct tu_plan **plan) {
    struct tu_group all = {.size = shape->nodes->ranks, .me = shape->rank};
    struct tu_after after = TU_AT_ONCE;
    struct tu_builder b;

    tu_builder_init(&b, "board", all.me, all.size, 1);
    if (all.size > 1)
        after.a = tu_signal(&b, all.size - 1, after);
    for (uint32_t i = 1; i < all.size; i++)
        after.a = tu_wait_board(&b, tu_group_up(&all, i), 0, 0, 0, after);
    return tu_plan_finish(&b, plan);
}
