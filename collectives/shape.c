/*
 * Rank arithmetic: circulant skips, the nodes of a comm, their lanes, and the base peers that follow
 * from them. Pure functions of the ranks' node labels.
 */
#include "collectives/shape.h"

#include <stdlib.h>

struct tu_skips tu_skips_of(uint32_t p) {
    struct tu_skips skips = {.q = 0};
    while (((uint64_t)1 << skips.q) < p)
        skips.q++;
    skips.s[skips.q] = p;
    for (uint32_t k = skips.q; k > 0; k--)
        skips.s[k - 1] = skips.s[k] - skips.s[k] / 2;
    return skips;
}

/* ---- nodes ------------------------------------------------------------------------------------ */

struct labelled {
    uint32_t label, rank;
};

static int by_label_then_rank(const void *left, const void *right) {
    const struct labelled *a = left, *b = right;
    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static struct tu_nodes *nodes_alloc(uint32_t ranks) {
    struct tu_nodes *nodes = calloc(1, sizeof *nodes);
    if (!nodes)
        return NULL;
    nodes->ranks = ranks;
    nodes->node_of = calloc(ranks, sizeof *nodes->node_of);
    nodes->local_of = calloc(ranks, sizeof *nodes->local_of);
    nodes->first = calloc((size_t)ranks + 1, sizeof *nodes->first);
    nodes->member = calloc(ranks, sizeof *nodes->member);
    if (nodes->node_of && nodes->local_of && nodes->first && nodes->member)
        return nodes;
    tu_nodes_free(nodes);
    return NULL;
}

/* node_of := lowest rank of the node; local_of := place among its members. */
static void find_lowest(struct tu_nodes *nodes, const struct labelled *sorted) {
    uint32_t start = 0;
    for (uint32_t i = 0; i < nodes->ranks; i++) {
        if (sorted[i].label != sorted[start].label)
            start = i;
        nodes->node_of[sorted[i].rank] = sorted[start].rank;
        nodes->local_of[sorted[i].rank] = i - start;
    }
}

/* Numbers the nodes in the order of their lowest ranks, and counts members in first[node + 1]. */
static void number_nodes(struct tu_nodes *nodes) {
    for (uint32_t r = 0; r < nodes->ranks; r++) {
        uint32_t lowest = nodes->node_of[r];
        nodes->node_of[r] = lowest == r ? nodes->nodes++ : nodes->node_of[lowest];
        uint32_t size = ++nodes->first[nodes->node_of[r] + 1];
        if (size > nodes->lanes)
            nodes->lanes = size;
    }
}

static void list_members(struct tu_nodes *nodes) {
    for (uint32_t i = 0; i < nodes->nodes; i++)
        nodes->first[i + 1] += nodes->first[i];
    for (uint32_t r = 0; r < nodes->ranks; r++)
        nodes->member[nodes->first[nodes->node_of[r]] + nodes->local_of[r]] = r;
}

tutti_status tu_nodes_make(const uint32_t *label, uint32_t ranks, struct tu_nodes **nodes) {
    struct labelled *sorted = malloc(ranks * sizeof *sorted);
    struct tu_nodes *made = nodes_alloc(ranks);
    if (!sorted || !made) {
        free(sorted);
        tu_nodes_free(made);
        return TUTTI_ERR_MEMORY;
    }
    for (uint32_t r = 0; r < ranks; r++)
        sorted[r] = (struct labelled){.label = label[r], .rank = r};
    qsort(sorted, ranks, sizeof *sorted, by_label_then_rank);
    find_lowest(made, sorted);
    free(sorted);
    number_nodes(made);
    list_members(made);
    *nodes = made;
    return TUTTI_OK;
}

void tu_nodes_free(struct tu_nodes *nodes) {
    if (!nodes)
        return;
    free(nodes->node_of);
    free(nodes->local_of);
    free(nodes->first);
    free(nodes->member);
    free(nodes);
}

uint32_t tu_node_size(const struct tu_nodes *nodes, uint32_t node) {
    return nodes->first[node + 1] - nodes->first[node];
}

uint32_t tu_lane_member(const struct tu_nodes *nodes, uint32_t lane, uint32_t node) {
    return nodes->member[nodes->first[node] + lane % tu_node_size(nodes, node)];
}

/* ---- base peers ------------------------------------------------------------------------------- */

/* The smallest rank above `above` seen so far; `above` = -1 to start. */
struct next_peer {
    int64_t above, best;
};

static void offer(struct next_peer *next, uint32_t rank) {
    if (rank > next->above && (next->best < 0 || rank < next->best))
        next->best = rank;
}

static void offer_ranks(struct next_peer *next, const struct tu_skips *skips, uint32_t rank) {
    uint32_t p = skips->s[skips->q];
    for (uint32_t k = 0; k < skips->q; k++) {
        offer(next, (uint32_t)(((uint64_t)rank + skips->s[k]) % p));
        offer(next, (uint32_t)(((uint64_t)rank + p - skips->s[k]) % p));
    }
}

static void offer_lanes(struct next_peer *next, const struct tu_nodes *nodes,
                        const struct tu_skips *skips, uint32_t rank) {
    uint32_t node = nodes->node_of[rank], size = tu_node_size(nodes, node);
    for (uint32_t lane = nodes->local_of[rank]; lane < nodes->lanes; lane += size) {
        for (uint32_t k = 0; k < skips->q; k++) {
            uint32_t s = skips->s[k];
            offer(next, tu_lane_member(nodes, lane, (node + s) % nodes->nodes));
            offer(next, tu_lane_member(nodes, lane, (node + nodes->nodes - s) % nodes->nodes));
        }
    }
}

/* Ascending and without duplicates by taking the smallest that is above the last one, each time:
 * quadratic in a short list, and needs no memory. */
uint32_t tu_base_peers(const struct tu_nodes *nodes, uint32_t rank, uint32_t *peer, uint32_t room) {
    struct tu_skips of_ranks = tu_skips_of(nodes->ranks), of_nodes = tu_skips_of(nodes->nodes);
    struct next_peer next = {.above = -1};
    uint32_t n = 0;
    for (;;) {
        next.best = -1;
        offer_ranks(&next, &of_ranks, rank);
        offer_lanes(&next, nodes, &of_nodes, rank);
        if (next.best < 0)
            return n;
        if (n < room)
            peer[n] = (uint32_t)next.best;
        n++;
        next.above = next.best;
    }
}
