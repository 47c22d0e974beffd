/*
 * Broadcast "circulant": n blocks in n - 1 + q rounds on the circulant graph, q = ceil(log2 p).
 *
 * Why: this is the least number of rounds for every p and n, without trees: each rank receives and
 * sends one block per round, over 2q edges. n = 1 is the broadcast of small messages (q rounds); for
 * large ones n grows with the size. T = (n - 1 + q) (alpha + m beta / n).
 *
 * Ranks count from the root, v = (r - root) mod p. In round i, with k = i mod q, v sends to v + s_k
 * and receives from v - s_k; schedule.h tells which block. p = 5, skips 1 2 3, n = 2, so rounds 2..5
 * (x = 2 rounds at the start fall away); who receives which block from whom:
 *     round   k    v=1     v=2     v=3     v=4
 *       2     2      -       -    0 of 0     -
 *       3     0   1 of 0     -       -    0 of 3
 *       4     1   0 of 4  1 of 0     -       -
 *       5     2      -    0 of 4  1 of 0  1 of 1
 * Block numbers above n - 1 in the schedule mean the last block, negative ones mean nothing; every
 * rank receives each of the n blocks exactly once.
 *
 * A block is copied out of its slot before it is sent on from the target, so slots are held for one
 * copy only and rings of one slot suffice.
 *
 * Cost: n - 1 + q rounds; n blocks received, at most n - 1 + q sent (by the root); no scratch.
 * Restrictions: n is part of the plan (shape->blocks; 0 counts as 1).
 * Source: J. L. Traeff, ACM TOPC, doi 10.1145/3735139.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

#include "collectives/schedule.h"

/* What the rounds of one rank need to know. */
struct bcast {
    struct tu_skips skips;
    uint32_t n;       /* blocks */
    uint32_t v;       /* my place above the root */
    uint32_t *copied; /* [n] the COPY that brought the block (root: none) */
    int32_t send[TU_MAX_SKIPS], receive[TU_MAX_SKIPS];
    uint32_t wait[TU_MAX_SKIPS]; /* the last WAIT for v - s_k */
};

/* The block of a schedule entry in the phase that starts at `base`, or -1. */
static int64_t block_of(const struct bcast *bcast, int32_t entry, int64_t base) {
    int64_t block = entry + base;
    return block < bcast->n ? block : (int64_t)bcast->n - 1;
}

static void send_round(struct tu_builder *b, const struct bcast *bcast, const struct tu_group *all,
                       uint32_t k, int64_t base) {
    uint32_t p = all->size, s = bcast->skips.s[k];
    int64_t block = block_of(bcast, bcast->send[k], base);
    if (block < 0 || bcast->v == p - s) /* the root needs nothing */
        return;
    uint32_t x = (uint32_t)block;
    struct tu_ref piece = bcast->v == 0 ? tu_src(x, 1) : tu_dst(x, 1);
    struct tu_after after = {bcast->copied[x], TU_NO_STEP};
    tu_write(b, tu_group_rank(all, tu_group_up(all, s)), x, 1, &piece, 1, after);
}

static void receive_round(struct tu_builder *b, struct bcast *bcast, const struct tu_group *all,
                          uint32_t k, int64_t base) {
    int64_t block = block_of(bcast, bcast->receive[k], base);
    if (block < 0 || bcast->v == 0)
        return;
    uint32_t x = (uint32_t)block, from = tu_group_down(all, bcast->skips.s[k]);
    struct tu_after after = {bcast->wait[k], TU_NO_STEP};
    bcast->wait[k] = tu_wait(b, tu_group_rank(all, from), x, 1, after);
    after.a = bcast->wait[k];
    bcast->copied[x] = tu_copy(b, tu_dst(x, 1), tu_arrived(bcast->wait[k], x, 1), after);
}

static void all_rounds(struct tu_builder *b, struct bcast *bcast, const struct tu_group *all) {
    uint32_t q = bcast->skips.q, n = bcast->n;
    if (q == 0)
        return;
    uint32_t x =
        (q - (n - 1) % q) % q; /* rounds that fall away, so that the last one ends a phase */
    for (uint32_t i = x; i < x + n - 1 + q; i++) {
        uint32_t k = i % q;
        int64_t base = (int64_t)(i - k) - x;
        send_round(b, bcast, all, k, base);
        receive_round(b, bcast, all, k, base);
    }
}

tutti_status tu_bcast_circulant(const struct tu_shape *shape, struct tu_plan **plan) {
    uint32_t p = shape->nodes->ranks;
    struct tu_group all = {.size = p, .me = shape->rank};
    struct bcast bcast = {.skips = tu_skips_of(p),
                          .n = shape->blocks ? shape->blocks : 1,
                          .v = tu_group_down(&all, shape->root)};
    struct tu_builder b;

    tu_builder_init(&b, "circulant", shape->rank, p, bcast.n);
    bcast.copied = malloc(bcast.n * sizeof *bcast.copied);
    if (!bcast.copied)
        b.status = TUTTI_ERR_MEMORY;
    for (uint32_t x = 0; bcast.copied && x < bcast.n; x++)
        bcast.copied[x] = TU_NO_STEP;
    for (uint32_t k = 0; k < bcast.skips.q; k++)
        bcast.wait[k] = TU_NO_STEP;
    if (b.status == TUTTI_OK) {
        tu_receive_schedule(&bcast.skips, bcast.v, bcast.receive);
        tu_send_schedule(&bcast.skips, bcast.v, bcast.send);
        all_rounds(&b, &bcast, &all);
    }
    free(bcast.copied);
    return tu_plan_finish(&b, plan);
}
