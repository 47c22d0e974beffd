/*
 * Broadcast "board": within a node, the root shows its buffer and everybody takes it.
 *
 * Why: shared memory has one write for any number of readers. A tree or a circulant graph would have
 * ranks wait for each other and copy what all can read at once.
 *
 *     root 1     share x ----.
 *     rank 0     wait 1 -----+-> board of 1     buffer = x
 *     rank 2     wait 1 -----'                  buffer = x
 *
 * Large vectors go in segments: the root writes the next slot while the others read the last ones.
 *
 * Cost: one synchronisation; m copied by every rank, once into the board and p - 1 times, side by
 * side, out of it; no scratch.
 * Restrictions: one node.
 * Source: folklore.
 */
#include "collectives/algorithms.h"

tutti_status tu_bcast_board(const struct tu_shape *shape, struct tu_plan **plan) {
    uint32_t p = shape->nodes->ranks;
    struct tu_ref buffer = tu_src(0, 1);
    struct tu_builder b;

    tu_builder_init(&b, "board", shape->rank, p, 1);
    if (shape->rank == shape->root) {
        if (p > 1)
            tu_share(&b, 0, 1, &buffer, 1, p - 1, TU_AT_ONCE);
    } else {
        struct tu_after after = {tu_wait_board(&b, shape->root, 0, 0, 1, TU_AT_ONCE), TU_NO_STEP};
        tu_copy(&b, tu_dst(0, 1), tu_arrived(after.a, 0, 1), after);
    }
    return tu_plan_finish(&b, plan);
}
