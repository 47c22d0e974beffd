/* Rank arithmetic: skips, nodes, lanes and base peers. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/shape.h"

static struct tu_nodes *nodes_of(const uint32_t *label, uint32_t ranks) {
    struct tu_nodes *nodes = NULL;
    cr_assert_eq(tu_nodes_make(label, ranks, &nodes), TUTTI_OK);
    return nodes;
}

static void expect_skips(uint32_t p) {
    struct tu_skips skips = tu_skips_of(p);
    cr_assert_eq(skips.s[skips.q], p);
    cr_assert_eq(skips.s[0], 1);
    cr_assert(((uint64_t)1 << skips.q) >= p && (skips.q == 0 || ((uint64_t)1 << (skips.q - 1)) < p),
              "p = %u: q = %u", p, skips.q);
    for (uint32_t k = 0; k < skips.q; k++)
        cr_assert_eq(skips.s[k], (uint32_t)(((uint64_t)skips.s[k + 1] + 1) / 2), "p = %u", p);
}

Test(shape, skips, .timeout = 10) {
    for (uint32_t p = 1; p < 5000; p++)
        expect_skips(p);
    for (uint32_t bit = 12; bit < 32; bit++)
        for (int32_t d = -1; d <= 1; d++)
            expect_skips(((uint32_t)1 << bit) + (uint32_t)d);
    expect_skips(UINT32_MAX);
}

Test(shape, nodes_are_numbered_by_lowest_rank, .timeout = 10) {
    /* nodes {0 3 7} {1} {2 4} {5 6} */
    const uint32_t label[8] = {900, 5, 0, 900, 0, UINT32_MAX, UINT32_MAX, 900};
    const uint32_t node_of[8] = {0, 1, 2, 0, 2, 3, 3, 0}, local_of[8] = {0, 0, 0, 1, 1, 0, 1, 2};
    const uint32_t first[5] = {0, 3, 4, 6, 8}, member[8] = {0, 3, 7, 1, 2, 4, 5, 6};
    struct tu_nodes *nodes = nodes_of(label, 8);
    cr_assert_eq(nodes->ranks, 8);
    cr_assert_eq(nodes->nodes, 4);
    cr_assert_eq(nodes->lanes, 3);
    cr_assert_arr_eq(nodes->node_of, node_of, sizeof node_of);
    cr_assert_arr_eq(nodes->local_of, local_of, sizeof local_of);
    cr_assert_arr_eq(nodes->first, first, sizeof first);
    cr_assert_arr_eq(nodes->member, member, sizeof member);
    cr_assert_eq(tu_node_size(nodes, 0), 3);
    cr_assert_eq(tu_node_size(nodes, 1), 1);
    tu_nodes_free(nodes);
}

Test(shape, small_nodes_serve_several_lanes, .timeout = 10) {
    const uint32_t label[8] = {0, 0, 1, 1, 2, 3, 3, 3}; /* 2 + 2 + 1 + 3 */
    const uint32_t lane[3][4] = {{0, 2, 4, 5}, {1, 3, 4, 6}, {0, 2, 4, 7}};
    struct tu_nodes *nodes = nodes_of(label, 8);
    cr_assert_eq(nodes->lanes, 3);
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t i = 0; i < 4; i++)
            cr_assert_eq(tu_lane_member(nodes, l, i), lane[l][i], "lane %u, node %u", l, i);
    tu_nodes_free(nodes);
}

Test(shape, base_peers_of_a_known_shape, .timeout = 10) {
    const uint32_t label[8] = {0, 0, 1, 1, 2, 3, 3, 3};
    /* rank 4: 4 +- 1, 2, 4 in the comm; node 2 +- 1, 2 in lanes 0, 1, 2: 2 5 0, 3 6 1, 2 7 0 */
    const uint32_t of_4[8] = {0, 1, 2, 3, 5, 6, 7, UINT32_MAX};
    /* rank 1: 0 2, 3 7, 5 in the comm; node 0 +- 1, 2 in lane 1: 3 6, 4 */
    const uint32_t of_1[8] = {0, 2, 3, 4, 5, 6, 7, UINT32_MAX};
    struct tu_nodes *nodes = nodes_of(label, 8);
    uint32_t peer[8];
    memset(peer, 0xff, sizeof peer);
    cr_assert_eq(tu_base_peers(nodes, 4, peer, 8), 7);
    cr_assert_arr_eq(peer, of_4, sizeof peer);
    memset(peer, 0xff, sizeof peer);
    cr_assert_eq(tu_base_peers(nodes, 1, peer, 8), 7);
    cr_assert_arr_eq(peer, of_1, sizeof peer);
    memset(peer, 0xff, sizeof peer);
    cr_assert_eq(tu_base_peers(nodes, 4, peer, 2), 7, "the number is told without room");
    cr_assert_eq(peer[1], 1);
    cr_assert_eq(peer[2], UINT32_MAX);
    cr_assert_eq(tu_base_peers(nodes, 4, NULL, 0), 7);
    tu_nodes_free(nodes);
}

/* Ascending, without the rank itself, no more than can be, and mutual. */
static void expect_base_peers(const uint32_t *label, uint32_t p) {
    struct tu_nodes *nodes = nodes_of(label, p);
    struct tu_skips of_ranks = tu_skips_of(p), of_nodes = tu_skips_of(nodes->nodes);
    unsigned char *pair = calloc((size_t)p * p, 1);
    uint32_t *peer = malloc(p * sizeof *peer);
    for (uint32_t r = 0; r < p; r++) {
        uint32_t n = tu_base_peers(nodes, r, peer, p),
                 size = tu_node_size(nodes, nodes->node_of[r]);
        uint32_t served = (nodes->lanes - nodes->local_of[r] + size - 1) / size;
        cr_assert_leq(n, 2 * of_ranks.q + 2 * of_nodes.q * served);
        for (uint32_t i = 0; i < n; i++) {
            cr_assert(peer[i] < p && peer[i] != r && (i == 0 || peer[i - 1] < peer[i]),
                      "p = %u, rank %u, peer %u: %u", p, r, i, peer[i]);
            pair[(size_t)r * p + peer[i]] = 1;
        }
    }
    for (uint32_t r = 0; r < p; r++)
        for (uint32_t s = 0; s < r; s++)
            cr_assert_eq(pair[(size_t)r * p + s], pair[(size_t)s * p + r], "p = %u: %u %u", p, r,
                         s);
    free(peer);
    free(pair);
    tu_nodes_free(nodes);
}

Test(shape, base_peers_are_mutual, .timeout = 60) {
    uint32_t label[300];
    for (uint32_t p = 1; p <= 300; p += p < 40 ? 1 : 37) {
        for (uint32_t r = 0; r < p; r++)
            label[r] = r; /* one rank per node */
        expect_base_peers(label, p);
        for (uint32_t r = 0; r < p; r++)
            label[r] = r / 5;
        expect_base_peers(label, p);
        for (uint32_t r = 0; r < p; r++)
            label[r] = r % 7;
        expect_base_peers(label, p);
        srand(p);
        for (uint32_t r = 0; r < p; r++)
            label[r] = (uint32_t)rand() % (1 + p / 3);
        expect_base_peers(label, p);
    }
}

Test(shape, one_rank_per_node_has_the_circulant_peers_only, .timeout = 10) {
    uint32_t label[1000], peer[64];
    for (uint32_t r = 0; r < 1000; r++)
        label[r] = r;
    struct tu_nodes *nodes = nodes_of(label, 1000);
    cr_assert_eq(tu_base_peers(nodes, 0, peer, 64), 19); /* 2q, and +500 is -500 */
    for (uint32_t i = 0; i < 19; i++)
        cr_assert_eq(peer[i] + peer[18 - i], 1000);
    tu_nodes_free(nodes);
}
