/*
 * Allreduce "two_level": reduce-scatter in the node, one allreduce per lane across the nodes, collect
 * in the node.
 *
 * Why: every rank of a node drives the network with its own share, so that no rank and no queue pair
 * carries the whole vector, and each byte crosses the network no more often than with one rank per
 * node. Only base edges are used.
 *
 * A lane takes one member of every node (shape.h); a rank of a small node serves several. The vector
 * has one part per lane, each of one block per node. Nodes {0 1} {2}, two lanes, blocks a0 a1 | b0 b1:
 *     rank 0  lane 0     shares a b, folds a of ranks 0 1    allreduce of a with 2    shares a, takes b
 *     rank 1  lane 1     shares a b, folds b of ranks 0 1    allreduce of b with 2    shares b, takes a
 *     rank 2  lanes 0 1  (alone: nothing to share)           both allreduces
 * The lanes of one rank advance side by side, round by round. Each part is folded by one rank per
 * node and finished by one rank in all, so all ranks get the same bits.
 *
 * The fold comes after the own SHARE, since source and target may be the same; the parts of others
 * are copied to the target as they come, while the own ones may still be under way.
 *
 * Cost, N nodes of L ranks: 2 ceil(log2 N) rounds with 2 (N - 1) / N m / L sent per rank, between two
 * synchronisations of the node that copy 2 m; at most 2 ceil(log2 N) peers per lane; no scratch.
 * Restrictions: the operation must be commutative.
 * Source: the multi-lane decomposition of J. L. Traeff, arXiv 1910.13373.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

struct two_level {
    const struct tu_nodes *nodes;
    const uint32_t *mates;      /* [size] the ranks of my node */
    uint32_t node, local, size; /* my node, my place in it, its size */
    uint32_t parts;             /* lanes that I serve: local, local + size, ... */
    struct tu_circulant *part;  /* [parts] */
    uint32_t *member;           /* [parts * nodes] their groups */
    uint32_t *wait;             /* [size] for the vectors of my node's ranks */
    struct tu_ref *operand;     /* [size] */
};

static bool open_two_level(struct two_level *t, const struct tu_shape *shape) {
    const struct tu_nodes *nodes = shape->nodes;
    t->nodes = nodes;
    t->node = nodes->node_of[shape->rank];
    t->local = nodes->local_of[shape->rank];
    t->size = tu_node_size(nodes, t->node);
    t->mates = nodes->member + nodes->first[t->node];
    t->parts = (nodes->lanes - t->local + t->size - 1) / t->size;
    t->part = calloc(t->parts, sizeof *t->part);
    t->member = malloc((size_t)t->parts * nodes->nodes * sizeof *t->member);
    t->wait = malloc(t->size * sizeof *t->wait);
    t->operand = malloc(t->size * sizeof *t->operand);
    return t->part && t->member && t->wait && t->operand;
}

static void close_two_level(struct two_level *t) {
    free(t->part);
    free(t->member);
    free(t->wait);
    free(t->operand);
}

/* The lane's part is the blocks lane * nodes .. lane * nodes + nodes - 1. */
static void list_parts(struct two_level *t) {
    uint32_t n = t->nodes->nodes;
    for (uint32_t i = 0; i < t->parts; i++) {
        uint32_t lane = t->local + i * t->size, *member = t->member + (size_t)i * n;
        for (uint32_t node = 0; node < n; node++)
            member[node] = tu_lane_member(t->nodes, lane, node);
        t->part[i] = (struct tu_circulant){.group = {.member = member, .size = n, .me = t->node},
                                           .first = lane * n,
                                           .space = t->size == 1 ? TU_SRC : TU_DST,
                                           .after = TU_AT_ONCE};
    }
}

/* Shares my vector and folds my lanes' parts out of all vectors of the node, in rank order. Returns
 * the last step. */
static uint32_t reduce_in_node(struct tu_builder *b, struct two_level *t) {
    uint32_t n = t->nodes->nodes, all = n * t->nodes->lanes;
    struct tu_ref vector = tu_src(0, all);
    struct tu_after after = {TU_NO_STEP, tu_share(b, 0, all, &vector, 1, t->size - 1, TU_AT_ONCE)};

    for (uint32_t i = 1; i < t->size; i++) {
        uint32_t of = (t->local + i) % t->size;
        after.a = t->wait[of] =
            tu_wait_board(b, t->mates[of], 0, 0, all, (struct tu_after){after.a, TU_NO_STEP});
    }
    for (uint32_t i = 0; i < t->parts; i++) {
        uint32_t first = t->part[i].first;
        for (uint32_t of = 0; of < t->size; of++)
            t->operand[of] = of == t->local ? tu_src(first, n) : tu_arrived(t->wait[of], first, n);
        uint32_t step = tu_reduce(b, tu_dst(first, n), t->operand, t->size, after);
        t->part[i].after = (struct tu_after){step, TU_NO_STEP};
    }
    return t->part[t->parts - 1].after.a;
}

/* Shares my lanes' parts and collects all others. `shared`: my vector has been shared. */
static void collect_in_node(struct tu_builder *b, struct two_level *t, uint32_t shared) {
    uint32_t n = t->nodes->nodes;

    for (uint32_t i = 0; i < t->parts; i++) {
        struct tu_ref part = tu_dst(t->part[i].first, n);
        tu_share(b, part.first, n, &part, 1, t->size - 1, t->part[i].after);
    }
    for (uint32_t i = 1; i < t->size; i++) {
        uint32_t of = (t->local + i) % t->size, use = 1;
        for (uint32_t lane = of; lane < t->nodes->lanes; lane += t->size) {
            uint32_t wait = tu_wait_board(b, t->mates[of], use++, lane * n, n,
                                          (struct tu_after){shared, TU_NO_STEP});
            tu_copy(b, tu_dst(lane * n, n), tu_arrived(wait, lane * n, n),
                    (struct tu_after){wait, TU_NO_STEP});
        }
    }
}

static void steps(struct tu_builder *b, struct two_level *t) {
    uint32_t folded = TU_NO_STEP;

    list_parts(t);
    if (t->size > 1)
        folded = reduce_in_node(b, t);
    tu_circulant_steps(b, t->part, t->parts);
    if (t->size > 1)
        collect_in_node(b, t, folded);
}

tutti_status tu_allreduce_two_level(const struct tu_shape *shape, struct tu_plan **plan) {
    const struct tu_nodes *nodes = shape->nodes;
    struct two_level two_level;
    struct tu_builder b;

    tu_builder_init(&b, "two_level", shape->rank, nodes->ranks, nodes->lanes * nodes->nodes);
    b.plan.wrap = nodes->nodes;
    b.plan.share_blocks = nodes->lanes > 1 ? b.plan.blocks : 0; /* also of ranks that are alone */
    if (open_two_level(&two_level, shape))
        steps(&b, &two_level);
    else
        b.status = TUTTI_ERR_MEMORY;
    close_two_level(&two_level);
    return tu_plan_finish(&b, plan);
}
