/*
 * Allreduce "accumulate": within a node, the sums grow in place, in node scratch, while they pass
 * from rank to rank.
 *
 * Why: "two_phase" copies every vector into shared memory, and each rank then reads all of them. Here
 * each byte of a vector is folded into the sum straight from the caller's buffer: only 1 / p of it is
 * ever copied in. Every line has one writer at a time, who is the one that reads it, so it moves from
 * core to core once per step. Each element is summed in one fixed order and copied by all, so the
 * bits agree.
 *
 * Block b grows in the node scratch of rank b. p = 3, vectors a, b, c of ranks 0, 1, 2:
 *             rank 0                      rank 1                      rank 2
 *     step 0  block 0 = a0                block 1 = b1                block 2 = c2
 *     step 1  block 2 = c2 op a2          block 0 = a0 op b0          block 1 = b1 op c1
 *     step 2  block 1 = b1 op c1 op a1    block 2 = c2 op a2 op b2    block 0 = a0 op b0 op c0
 *     then    copies 0 and 2              copies 0 and 1              copies 1 and 2
 * Step t may start when the rank below has done t - 1; an empty WRITE says so, as only the rank above
 * has to know. The last step writes the target too, in the same pass, and a SIGNAL tells all. The other
 * blocks are copied to the target after the rank's own steps, since source and target may be the same;
 * first the one that the rank above has finished, so that no block is read by all at once.
 *
 * Cost: p synchronisations, one after the other; per rank m / p copied in, m - m / p folded and as
 * much copied out. For large vectors, where the work outweighs the p synchronisations. One block of
 * node scratch per rank.
 * Restrictions: one node; the operation must be commutative.
 * Source: folklore; a ring reduce-scatter in which the data stays and the ranks pass by.
 */
#include "collectives/algorithms.h"

/* Returns the last step. */
static uint32_t add_in_place(struct tu_builder *b, const struct tu_group *all) {
    uint32_t p = all->size, me = all->me, up = tu_group_up(all, 1), down = tu_group_down(all, 1);
    uint32_t heard = TU_NO_STEP, done = tu_copy(b, tu_node(me, 1), tu_src(me, 1), TU_AT_ONCE);

    for (uint32_t t = 1; t < p; t++) {
        uint32_t block = tu_group_down(all, t);
        struct tu_ref operand[2] = {tu_node(block, 1), tu_src(block, 1)};
        tu_write(b, up, 0, 0, NULL, 0, (struct tu_after){done, TU_NO_STEP});
        heard = tu_wait(b, down, 0, 0, (struct tu_after){heard, TU_NO_STEP});
        struct tu_after after = {heard, done};
        done = t + 1 < p ? tu_reduce(b, operand[0], operand, 2, after)
                         : tu_reduce2(b, tu_dst(block, 1), operand[0], operand, 2, after);
    }
    return done;
}

static void collect_blocks(struct tu_builder *b, const struct tu_group *all, uint32_t added) {
    uint32_t wait = added, last = added;

    tu_signal(b, all->size - 1, (struct tu_after){added, TU_NO_STEP});
    for (uint32_t i = 1; i < all->size; i++) {
        uint32_t of = tu_group_up(all, i), block = tu_group_up(all, i + 1);
        wait = tu_wait_board(b, of, 0, 0, 0, (struct tu_after){wait, TU_NO_STEP});
        last = tu_copy(b, tu_dst(block, 1), tu_node(block, 1), (struct tu_after){wait, last});
    }
}

tutti_status tu_allreduce_accumulate(const struct tu_shape *shape, struct tu_plan **plan) {
    struct tu_group all = {.size = shape->nodes->ranks, .me = shape->rank};
    struct tu_builder b;

    tu_builder_init(&b, "accumulate", all.me, all.size, all.size);
    b.plan.node_run = all.size > 1 ? 1 : 0;
    if (all.size == 1)
        tu_copy(&b, tu_dst(0, 1), tu_src(0, 1), TU_AT_ONCE);
    else
        collect_blocks(&b, &all, add_in_place(&b, &all));
    return tu_plan_finish(&b, plan);
}
