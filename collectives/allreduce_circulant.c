/*
 * Allreduce "circulant": reduce-scatter, then allgather, both on the circulant graph.
 *
 * Why: it moves the least volume possible, 2 m (p - 1) / p per rank, in 2 ceil(log2 p) rounds, for
 * every p. Each block is reduced to its final value by one rank only, so all ranks get the same bits.
 *
 * The vector has p blocks; rank r ends the first phase with block r reduced. Let W[j] be its partial
 * sum of block r + j (mod p). Rounds k = q - 1 .. 0 of the first phase send W[s_k .. s_{k+1} - 1] to
 * r + s_k, and fold what comes from r - s_k into W[0 .. s_{k+1} - s_k - 1]. The second phase goes the
 * same way back: rounds k = 0 .. q - 1 send the first s_{k+1} - s_k finished blocks to r - s_k and
 * get blocks r + s_k .. r + s_{k+1} - 1 from r + s_k. p = 5, skips 1 2 3, rank 0:
 *               sends                    receives and folds         has
 *     k = 2     blocks 3 4 to 3          0 1 from 2                 0 1 partly, 2 of its own
 *     k = 1     block 2 to 2             0   from 3                 0 1
 *     k = 0     block 1 to 1             0   from 4                 0 finished
 *     k = 0     block 0 to 4             1   from 1                 0 1
 *     k = 1     block 0 to 3             2   from 2                 0 1 2
 *     k = 2     blocks 0 1 to 2          3 4 from 3                 0 1 2 3 4
 *
 * One message per round: its blocks follow each other but for one wrap. The target holds the partial
 * sums, so there is no scratch. A block that nothing was folded into yet is sent from the source (at
 * p = 5: block 2 at k = 1). The COPY of a round of the second phase overwrites what the WRITE of the
 * same round of the first phase read, and so comes after it; that also makes it safe for source and
 * target to be the same.
 *
 * Cost: 2q rounds, 2 (p - 1) blocks of m / p sent, p - 1 block folds; 2q peers.
 * Restrictions: the operation must be commutative (block r is folded in the order of the graph).
 * Source: J. L. Traeff, arXiv 2410.14234.
 */
#include "collectives/algorithms.h"

/* The block that lies `offset` above mine. */
static uint32_t block_at(const struct tu_circulant *part, uint32_t offset) {
    return part->first + tu_group_up(&part->group, offset);
}

static uint32_t up(const struct tu_circulant *part, uint32_t skip) {
    return tu_group_rank(&part->group, tu_group_up(&part->group, skip));
}

static uint32_t down(const struct tu_circulant *part, uint32_t skip) {
    return tu_group_rank(&part->group, tu_group_down(&part->group, skip));
}

static struct tu_ref in_space(uint32_t space, uint32_t first, uint32_t n) {
    return space == TU_SRC ? tu_src(first, n) : tu_dst(first, n);
}

/* End of the offsets that round k sends from the target. After the first round, partial sums are
 * those below half of the group; everything else lies where it lay at the start. */
static uint32_t in_target(const struct tu_circulant *part, const struct tu_skips *skips,
                          uint32_t k) {
    uint32_t half = part->group.size / 2, high = skips->s[k + 1];
    if (part->space == TU_DST)
        return high;
    if (k + 1 == skips->q)
        return skips->s[k];
    return half < high ? half : high;
}

static void send_partial(struct tu_builder *b, struct tu_circulant *part,
                         const struct tu_skips *skips, uint32_t k, struct tu_after ready) {
    uint32_t low = skips->s[k], high = skips->s[k + 1], middle = in_target(part, skips, k);
    struct tu_ref piece[2];
    uint32_t pieces = 0;

    if (middle > low)
        piece[pieces++] = tu_dst(block_at(part, low), middle - low);
    if (middle < high)
        piece[pieces++] = tu_src(block_at(part, middle), high - middle);
    part->written[k] =
        tu_write(b, up(part, low), block_at(part, low), high - low, piece, pieces, ready);
}

static void reduce_round(struct tu_builder *b, struct tu_circulant *part,
                         const struct tu_skips *skips, uint32_t k) {
    bool at_start = k + 1 == skips->q;
    uint32_t s = skips->s[k], n = skips->s[k + 1] - s, mine = block_at(part, 0);
    struct tu_after ready = at_start ? part->after : (struct tu_after){part->reduced, TU_NO_STEP};

    send_partial(b, part, skips, k, ready);
    uint32_t wait = tu_wait(b, down(part, s), mine, n, ready);
    struct tu_ref operand[2] = {in_space(at_start ? part->space : TU_DST, mine, n),
                                tu_arrived(wait, mine, n)};
    part->reduced = tu_reduce(b, tu_dst(mine, n), operand, 2, (struct tu_after){wait, TU_NO_STEP});
}

static void gather_round(struct tu_builder *b, struct tu_circulant *part,
                         const struct tu_skips *skips, uint32_t k) {
    uint32_t s = skips->s[k], n = skips->s[k + 1] - s, theirs = block_at(part, s);
    struct tu_ref finished = tu_dst(block_at(part, 0), n);

    tu_write(b, down(part, s), finished.first, n, &finished, 1,
             (struct tu_after){part->reduced, part->copied});
    uint32_t wait =
        tu_wait(b, up(part, s), theirs, n, (struct tu_after){part->written[k], TU_NO_STEP});
    part->copied = tu_copy(b, tu_dst(theirs, n), tu_arrived(wait, theirs, n),
                           (struct tu_after){wait, part->copied});
}

void tu_circulant_steps(struct tu_builder *b, struct tu_circulant *part, uint32_t parts) {
    struct tu_skips skips = tu_skips_of(part->group.size);

    for (uint32_t i = 0; i < parts; i++)
        part[i].reduced = part[i].copied = TU_NO_STEP;
    for (uint32_t k = skips.q; k-- > 0;)
        for (uint32_t i = 0; i < parts; i++)
            reduce_round(b, &part[i], &skips, k);
    for (uint32_t k = 0; k < skips.q; k++)
        for (uint32_t i = 0; i < parts; i++)
            gather_round(b, &part[i], &skips, k);
    for (uint32_t i = 0; i < parts; i++) {
        struct tu_circulant *one = &part[i];
        if (skips.q > 0)
            one->after = (struct tu_after){one->reduced, one->copied};
        else if (one->space == TU_SRC)
            one->after.a = tu_copy(b, tu_dst(one->first, 1), tu_src(one->first, 1), one->after);
    }
}

tutti_status tu_allreduce_circulant(const struct tu_shape *shape, struct tu_plan **plan) {
    struct tu_circulant all = {.group = {.size = shape->nodes->ranks, .me = shape->rank},
                               .space = TU_SRC,
                               .after = TU_AT_ONCE};
    struct tu_builder b;

    tu_builder_init(&b, "circulant", shape->rank, all.group.size, all.group.size);
    tu_circulant_steps(&b, &all, 1);
    return tu_plan_finish(&b, plan);
}
