/*
 * Every algorithm on nodes: those of one node for node sizes to 256, those of two levels on shapes
 * that are even, uneven, in turn and random, and those that know no nodes on the same shapes.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "prove.h"
#include "scale.h"

static void print_time(const char *what, const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double s = (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
    fprintf(stderr, "%-40s %6.2f s\n", what, s);
}

static struct measure prove_on(const char *name, const struct tu_nodes *nodes, uint32_t ring_slots,
                               bool structure_only) {
    struct prove one = {.algorithm = algorithm_of(TU_ALLREDUCE, name),
                        .nodes = nodes,
                        .ring_slots = ring_slots,
                        .structure_only = structure_only};
    return prove(&one);
}

/* ---- the table ---- */

Test(table, names_and_claims, .timeout = 10) {
    uint32_t n = 0;
    const struct tu_algorithm *table = tu_algorithms(&n);
    cr_assert_eq(n, 11);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(tu_algorithm_find(table[i].collective, table[i].name), &table[i],
                     "%s is there twice", table[i].name);
        cr_assert(!table[i].left_fold || table[i].in_order, "%s", table[i].name);
        if (table[i].collective == TU_ALLREDUCE)
            cr_assert_neq(table[i].commutative, table[i].in_order, "%s", table[i].name);
    }
    cr_assert_null(tu_algorithm_find(TU_BARRIER, "flat"));
    cr_assert_null(tu_algorithm_find(TU_ALLREDUCE, "ring"));
}

Test(table, suitable_nodes, .timeout = 10) {
    struct tu_nodes *one = one_node(4), *two = nodes_in_blocks((const uint32_t[]){3, 1, 0});
    uint32_t n = 0;
    const struct tu_algorithm *table = tu_algorithms(&n);
    for (uint32_t i = 0; i < n; i++) {
        bool node_only = !strcmp(table[i].name, "flat") || !strcmp(table[i].name, "two_phase") ||
                         !strcmp(table[i].name, "accumulate") || !strcmp(table[i].name, "board");
        cr_assert_null(table[i].unsuitable(one), "%s", table[i].name);
        cr_assert_eq(table[i].unsuitable(two) != NULL, node_only, "%s", table[i].name);
    }
    tu_nodes_free(one);
    tu_nodes_free(two);
}

static bool same_plan(const struct tu_plan *a, const struct tu_plan *b) {
    return a->bytes == b->bytes && a->steps == b->steps && a->refs == b->refs &&
           !memcmp(a->step, b->step, a->steps * sizeof *a->step) &&
           !memcmp(a->ref, b->ref, a->refs * sizeof *a->ref) &&
           !memcmp(a->channel, b->channel, a->channels * sizeof *a->channel);
}

/* A shape gives the same plan each time, whatever was made before. */
Test(table, generators_are_pure, .timeout = 10) {
    struct tu_nodes *nodes = random_nodes(19, 7), *one = one_node(6);
    uint32_t n = 0;
    const struct tu_algorithm *table = tu_algorithms(&n);
    for (uint32_t i = 0; i < 2 * n; i++) {
        struct prove case_of = {
            .algorithm = &table[i / 2], .nodes = i % 2 ? nodes : one, .root = 3, .blocks = 5};
        if (table[i / 2].unsuitable(case_of.nodes))
            continue;
        struct tu_plan **first = make_plans(&case_of), **second = make_plans(&case_of);
        for (uint32_t r = 0; r < case_of.nodes->ranks; r++)
            cr_assert(same_plan(first[r], second[r]), "%s, rank %u", table[i / 2].name, r);
        free_plans(first, case_of.nodes->ranks);
        free_plans(second, case_of.nodes->ranks);
    }
    tu_nodes_free(nodes);
    tu_nodes_free(one);
}

/* ---- one node ---- */

/* All fold p - 1 times (whole vectors, or each its own block), and none sends a message. */
static void prove_in_node(const char *name, uint32_t p, uint32_t ring_slots) {
    struct tu_nodes *nodes = one_node(p);
    struct measure measure = prove_on(name, nodes, ring_slots, p > 128);
    cr_assert_eq(measure.check.sent_blocks + measure.check.peers + measure.check.rounds, 0);
    cr_assert_eq(measure.check.reduced_blocks, p - 1, "p = %u: %lu", p,
                 measure.check.reduced_blocks);
    cr_assert_eq(measure.check.scratch_blocks, 0);
    tu_nodes_free(nodes);
}

static void prove_in_nodes(const char *name) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t p = 1; p <= EVERY_RANK_COUNT_TO; p++)
        for (uint32_t ring_slots = 1; ring_slots <= (p <= 16 ? 4 : 1); ring_slots *= 2)
            prove_in_node(name, p, ring_slots);
    prove_in_node(name, 200, 1);
    prove_in_node(name, 256, 4);
    print_time(name, &start);
}

Test(one_node, flat, .timeout = 120) {
    prove_in_nodes("flat");
}

Test(one_node, two_phase, .timeout = 120) {
    prove_in_nodes("two_phase");
}

Test(one_node, two_level, .timeout = 120) {
    prove_in_nodes("two_level");
}

/* Each passes p - 1 blocks by, one step after the other, in step with the ranks beside it. */
static void prove_accumulate(uint32_t p, uint32_t ring_slots, bool structure_only) {
    struct tu_nodes *nodes = one_node(p);
    struct measure measure = prove_on("accumulate", nodes, ring_slots, structure_only);
    cr_assert_eq(measure.check.rounds, p - 1, "p = %u: %u", p, measure.check.rounds);
    if (p <= 128)
        cr_assert_eq(measure.one_ported_rounds, p - 1);
    cr_assert_eq(measure.check.peers, p < 3 ? p - 1 : 2);
    cr_assert_eq(measure.check.sent_blocks, 0);
    cr_assert_eq(measure.check.reduced_blocks, p - 1);
    cr_assert_eq(measure.check.scratch_blocks, 0);
    tu_nodes_free(nodes);
}

Test(one_node, accumulate, .timeout = 120) {
    static const uint32_t sample[] = {200, 256, 347, 600};
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t p = 1; p <= EVERY_RANK_COUNT_TO; p++)
        for (uint32_t ring_slots = 1; ring_slots <= (p <= 16 ? 4 : 1); ring_slots *= 2)
            prove_accumulate(p, ring_slots, false);
    for (int i = 0; i < LARGE_SAMPLES; i++)
        prove_accumulate(sample[i], 1, true);
    print_time("accumulate", &start);
}

/* Nothing but boards, and as few steps as can be. */
static void prove_boards(uint32_t p, uint32_t root, uint32_t ring_slots) {
    struct tu_nodes *nodes = one_node(p);
    struct prove barrier = {
        .algorithm = algorithm_of(TU_BARRIER, "board"), .nodes = nodes, .ring_slots = ring_slots};
    struct prove bcast = {.algorithm = algorithm_of(TU_BCAST, "board"),
                          .nodes = nodes,
                          .root = root,
                          .ring_slots = ring_slots};
    struct measure of_barrier = prove(&barrier), of_bcast = prove(&bcast);
    cr_assert_eq(of_barrier.most_steps, p == 1 ? 0 : p);
    cr_assert_eq(of_bcast.most_steps, p == 1 ? 0 : 2);
    const struct tu_check_result *both[] = {&of_barrier.check, &of_bcast.check};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(both[i]->sent_blocks + both[i]->peers + both[i]->rounds +
                         both[i]->reduced_blocks + both[i]->scratch_blocks,
                     0);
    tu_nodes_free(nodes);
}

Test(one_node, boards, .timeout = 120) {
    static const uint32_t sample[] = {200, 256, 347, 600};
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t p = 1; p <= EVERY_RANK_COUNT_TO; p++)
        for (uint32_t ring_slots = 1; ring_slots <= (p <= 16 ? 4 : 1); ring_slots *= 2)
            for (uint32_t root = 0; root < p; root += p <= 16 ? 1 : p - 1)
                prove_boards(p, root, ring_slots);
    for (int i = 0; i < LARGE_SAMPLES; i++)
        prove_boards(sample[i], sample[i] / 2, 1);
    print_time("boards", &start);
}

Test(one_node, leaders, .timeout = 120) {
    struct tu_nodes *nodes = one_node(64);
    struct measure measure = prove_on("leaders", nodes, 1, false);
    cr_assert_eq(measure.check.reduced_blocks, 63);
    tu_nodes_free(nodes);
}

/* ---- shapes ---- */

static const uint32_t shape[][10] = {
    {2, 2},          {3, 1},          {1, 3},    {2, 2, 1, 3},    {5, 5},
    {2, 2, 2, 2, 2}, {1, 1, 1},       {1, 1},    {4, 4, 4, 4},    {1, 2, 3, 4, 5, 6},
    {6, 5, 1, 1},    {7, 3, 3, 2, 1}, {1, 8, 1}, {2, 1, 2, 1, 3}, {1, 1, 1, 1, 1, 1, 1, 4, 2}};
enum { SHAPES = sizeof shape / sizeof *shape };

static void prove_shape(const struct tu_nodes *nodes) {
    static const char *const name[] = {"ordered", "circulant", "two_level", "leaders"};
    for (int i = 0; i < 4; i++)
        for (uint32_t ring_slots = 1; ring_slots <= 4; ring_slots *= 2)
            prove_on(name[i], nodes, ring_slots, false);
}

Test(shapes, named, .timeout = 120) {
    for (int i = 0; i < SHAPES; i++) {
        struct tu_nodes *in_blocks = nodes_in_blocks(shape[i]);
        struct tu_nodes *in_turn = nodes_in_turn(shape[i]);
        prove_shape(in_blocks);
        prove_shape(in_turn);
        tu_nodes_free(in_blocks);
        tu_nodes_free(in_turn);
    }
}

Test(shapes, random, .timeout = 120) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t seed = 0; seed < RANDOM_SHAPES; seed++) {
        struct tu_nodes *nodes = random_nodes(1 + seed % 48, seed);
        prove_shape(nodes);
        tu_nodes_free(nodes);
    }
    print_time("random shapes", &start);
}

Test(shapes, other_collectives, .timeout = 120) {
    for (uint32_t seed = 0; seed < 60; seed++) {
        struct tu_nodes *nodes = random_nodes(1 + seed, seed);
        struct prove barrier = {
            .algorithm = algorithm_of(TU_BARRIER, "circulant"), .nodes = nodes, .ring_slots = 1};
        struct prove bcast = {.algorithm = algorithm_of(TU_BCAST, "circulant"),
                              .nodes = nodes,
                              .root = seed / 2,
                              .blocks = 4,
                              .ring_slots = 1};
        prove(&barrier);
        prove(&bcast);
        tu_nodes_free(nodes);
    }
}

/* ---- two levels ---- */

static struct tu_nodes *even_nodes(uint32_t nodes, uint32_t size, bool in_turn) {
    uint32_t list[600] = {0};
    for (uint32_t i = 0; i < nodes; i++)
        list[i] = size;
    return in_turn ? nodes_in_turn(list) : nodes_in_blocks(list);
}

/* N nodes of L ranks: each rank carries 1 / L of the vector across the network, in 2 ceil(log2 N)
 * rounds and with a circulant's peers. */
static void prove_two_level(uint32_t n, uint32_t size, bool in_turn, bool structure_only) {
    struct tu_nodes *nodes = even_nodes(n, size, in_turn);
    struct measure measure = prove_on("two_level", nodes, 1, structure_only);
    uint32_t q = tu_skips_of(n).q;
    cr_assert_eq(measure.check.rounds, 2 * q, "%u x %u", n, size);
    cr_assert_eq(measure.check.sent_blocks, 2 * (n - 1));
    cr_assert_eq(measure.all_sent_blocks, (uint64_t)2 * (n - 1) * n * size);
    cr_assert_eq(measure.check.reduced_blocks, n * (size - 1) + n - 1);
    cr_assert_leq(measure.check.peers, 2 * q);
    cr_assert_eq(measure.check.scratch_blocks, 0);
    tu_nodes_free(nodes);
}

/* Leaders: ceil(log2 N) rounds with N - 1 vectors sent; everything is folded by them. */
static void prove_leaders(uint32_t n, uint32_t size, bool in_turn, bool structure_only) {
    struct tu_nodes *nodes = even_nodes(n, size, in_turn);
    struct measure measure = prove_on("leaders", nodes, 1, structure_only);
    uint32_t q = tu_skips_of(n).q;
    cr_assert_eq(measure.check.rounds, q, "%u x %u", n, size);
    cr_assert_eq(measure.check.sent_blocks, n - 1);
    cr_assert_eq(measure.all_sent_blocks, (uint64_t)(n - 1) * n);
    cr_assert_eq(measure.check.reduced_blocks, size - 1 + n - 1);
    cr_assert_leq(measure.check.peers, 2 * q);
    cr_assert_eq(measure.check.scratch_blocks, 0);
    tu_nodes_free(nodes);
}

Test(two_levels, even_nodes, .timeout = 120) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t n = 1; n <= 24; n++)
        for (uint32_t size = 1; size <= 8; size++) {
            prove_two_level(n, size, size % 2, false);
            prove_leaders(n, size, n % 2, false);
        }
    print_time("even nodes, up to 24 of 8", &start);
}

Test(two_levels, many_nodes, .timeout = 120) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    const uint32_t n[] = {33, 64, 100, 128, 300};
    for (int i = 0; i < 5; i++) {
        prove_two_level(n[i], 2, true, i > 3);
        prove_leaders(n[i], 2, false, i > 3);
    }
    prove_two_level(512, 8, false, true);
    prove_leaders(128, 32, false, true);
    print_time("many nodes, up to 4096 ranks", &start);
}

/* A single rank among large nodes carries all lanes at once. */
Test(two_levels, one_rank_against_large_nodes, .timeout = 120) {
    const uint32_t size[] = {40, 1, 40, 0};
    struct tu_nodes *nodes = nodes_in_blocks(size);
    struct measure measure = prove_on("two_level", nodes, 1, false);
    cr_assert_eq(measure.check.sent_blocks, 40 * 2 * 2);
    cr_assert_eq(measure.check.rounds, 4);
    tu_nodes_free(nodes);
}
