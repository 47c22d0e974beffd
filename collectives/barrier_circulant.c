/*
 * Barrier "circulant": dissemination with the circulant skips.
 *
 * Why: dissemination needs ceil(log2 p) rounds for every p, which is the least; with the circulant
 * skips instead of powers of two it uses the same few edges as everything else.
 *
 * Before round k a rank has heard, directly or not, from the s_k - 1 ranks below it. It then sends
 * to r + s_k and hears from r - s_k, so that it knows of the 2 s_k - 1 >= s_{k+1} - 1 ranks below.
 * p = 6, skips 1 2 3; rank 5 knows of itself and
 *     round 0   from 4            4 5
 *     round 1   from 3        2 3 4 5
 *     round 2   from 2    0 1 2 3 4 5     (2 has told of 5, 0, 1 and itself)
 *
 * Cost: q = ceil(log2 p) messages of zero bytes one after the other; 2q peers.
 * Restrictions: none.
 * Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization" (1988);
 * the skips: J. L. Traeff, arXiv 2410.14234.
 */
#include "collectives/algorithms.h"

tutti_status tu_barrier_circulant(const struct tu_shape *shape, struct tu_plan **plan) {
    uint32_t p = shape->nodes->ranks;
    struct tu_group all = {.size = p, .me = shape->rank};
    struct tu_skips skips = tu_skips_of(p);
    struct tu_after heard = TU_AT_ONCE;
    struct tu_builder b;

    tu_builder_init(&b, "circulant", shape->rank, p, 1);
    for (uint32_t k = 0; k < skips.q; k++) {
        tu_write(&b, tu_group_up(&all, skips.s[k]), 0, 0, NULL, 0, heard);
        heard.a = tu_wait(&b, tu_group_down(&all, skips.s[k]), 0, 0, heard);
    }
    return tu_plan_finish(&b, plan);
}
