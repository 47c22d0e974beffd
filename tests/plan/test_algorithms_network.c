/*
 * Every algorithm that needs no nodes, proved: fully for p = 1 .. 128 and samples to 600, structure
 * for samples to 4096; and held to its closed forms.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

#include "prove.h"
#include "scale.h"

static const uint32_t full_sample[] = {200, 255, 256, 257, 511, 512, 513, 600};
static const uint32_t large_sample[] = {1000, 1024, 4095, 4096};

static void print_time(const char *what, const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double s = (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
    fprintf(stderr, "%-40s %6.2f s\n", what, s);
}

/* What the closed forms speak of. */
struct found {
    uint32_t p, q, peers; /* peers: of the circulant graph */
    struct measure measure;
};

typedef void expectation(const struct found *found);

static void prove_one(const struct tu_algorithm *algorithm, uint32_t p, uint32_t ring_slots,
                      bool structure_only, expectation *expect) {
    struct tu_nodes *nodes = one_rank_per_node(p);
    struct prove one = {.algorithm = algorithm,
                        .nodes = nodes,
                        .ring_slots = ring_slots,
                        .structure_only = structure_only};
    struct found found = {
        .p = p, .q = tu_skips_of(p).q, .peers = most_base_peers(nodes), .measure = prove(&one)};
    expect(&found);
    tu_nodes_free(nodes);
}

static void prove_all(enum tu_collective collective, const char *name, expectation *expect,
                      uint32_t largest) {
    const struct tu_algorithm *algorithm = algorithm_of(collective, name);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t p = 1; p <= EVERY_RANK_COUNT_TO; p++) {
        for (uint32_t ring_slots = 1; ring_slots <= 4; ring_slots *= 2)
            prove_one(algorithm, p, ring_slots, false, expect);
    }
    for (int i = 0; i < FULL_SAMPLES; i++)
        prove_one(algorithm, full_sample[i], 1, false, expect);
    for (int i = 0; i < LARGE_SAMPLES && large_sample[i] <= largest; i++)
        prove_one(algorithm, large_sample[i], 1, true, expect);
    print_time(collective == TU_BARRIER ? "barrier" : name, &start);
}

/* In q, 2q, ... rounds, whether one looks at dependencies or at ports. */
static void expect_rounds(const struct found *found, uint32_t rounds) {
    cr_assert_eq(found->measure.check.rounds, rounds, "p = %u: %u rounds", found->p,
                 found->measure.check.rounds);
    if (found->measure.one_ported_rounds || found->p == 1)
        cr_assert_eq(found->measure.one_ported_rounds, rounds, "p = %u: %u one-ported rounds",
                     found->p, found->measure.one_ported_rounds);
}

static void expect_volume(const struct found *found, uint64_t sent, uint64_t reduced) {
    const struct tu_check_result *check = &found->measure.check;
    cr_assert_eq(check->sent_blocks, sent, "p = %u: %lu", found->p, check->sent_blocks);
    cr_assert_eq(found->measure.all_sent_blocks, sent * found->p, "p = %u: %lu in all", found->p,
                 found->measure.all_sent_blocks);
    cr_assert_eq(check->reduced_blocks, reduced, "p = %u: %lu", found->p, check->reduced_blocks);
    cr_assert_eq(check->peers, found->peers, "p = %u: %u peers", found->p, check->peers);
    cr_assert_eq(check->scratch_blocks, 0);
}

/* ---- barrier ---- */

static void expect_barrier(const struct found *found) {
    expect_rounds(found, found->q);
    expect_volume(found, 0, 0);
    cr_assert_eq(found->measure.most_steps, 2 * found->q);
}

Test(barrier, circulant, .timeout = 120) {
    prove_all(TU_BARRIER, "circulant", expect_barrier, 4096);
}

/* ---- allreduce ---- */

static void expect_ordered(const struct found *found) {
    expect_rounds(found, found->q);
    expect_volume(found, found->p - 1, found->p - 1);
    cr_assert_eq(found->measure.most_steps, 2 * found->q + 1);
}

/* Each rank's plan names all ranks: beyond a thousand it makes no sense. */
Test(allreduce, ordered, .timeout = 120) {
    prove_all(TU_ALLREDUCE, "ordered", expect_ordered, 1024);
}

static void expect_circulant(const struct found *found) {
    expect_rounds(found, 2 * found->q);
    expect_volume(found, 2 * (uint64_t)(found->p - 1), found->p - 1);
    cr_assert_eq(found->measure.most_steps, found->p == 1 ? 1 : 6 * found->q);
}

Test(allreduce, circulant, .timeout = 120) {
    prove_all(TU_ALLREDUCE, "circulant", expect_circulant, 4096);
}

/* ---- broadcast ---- */

static void prove_bcast(uint32_t p, uint32_t root, uint32_t n, uint32_t ring_slots,
                        bool structure_only) {
    struct tu_nodes *nodes = one_rank_per_node(p);
    struct prove one = {.algorithm = algorithm_of(TU_BCAST, "circulant"),
                        .nodes = nodes,
                        .root = root,
                        .blocks = n,
                        .ring_slots = ring_slots,
                        .structure_only = structure_only};
    struct measure measure = prove(&one);
    uint32_t rounds = p == 1 ? 0 : n - 1 + tu_skips_of(p).q;
    if (p <= 128)
        cr_assert_eq(measure.one_ported_rounds, rounds, "p = %u, n = %u: %u rounds", p, n,
                     measure.one_ported_rounds);
    cr_assert_eq(measure.check.sent_blocks, rounds, "p = %u, n = %u: %lu sent", p, n,
                 measure.check.sent_blocks);
    cr_assert_eq(measure.all_sent_blocks, (uint64_t)n * (p - 1)); /* no block goes anywhere twice */
    cr_assert_leq(measure.check.peers, most_base_peers(nodes));
    cr_assert_eq(measure.check.scratch_blocks + measure.check.reduced_blocks, 0);
    tu_nodes_free(nodes);
}

static void prove_bcasts(uint32_t n) {
    struct timespec start;
    char what[40];
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t p = 1; p <= EVERY_RANK_COUNT_TO; p++) {
        prove_bcast(p, 0, n, 1, false);
        prove_bcast(p, p - 1, n, 1, false);
        prove_bcast(p, p / 3, n, 2, false);
        prove_bcast(p, p / 2, n, 4, false);
    }
    for (int i = 0; i < FULL_SAMPLES; i++)
        prove_bcast(full_sample[i], full_sample[i] / 5, n, 1, false);
    for (int i = 0; i < LARGE_SAMPLES; i++)
        prove_bcast(large_sample[i], 1, n, 1, true);
    snprintf(what, sizeof what, "bcast circulant, %u blocks", n);
    print_time(what, &start);
}

Test(bcast, circulant_1, .timeout = 120) {
    prove_bcasts(1);
}

Test(bcast, circulant_2, .timeout = 120) {
    prove_bcasts(2);
}

Test(bcast, circulant_3, .timeout = 120) {
    prove_bcasts(3);
}

Test(bcast, circulant_5, .timeout = 120) {
    prove_bcasts(5);
}

Test(bcast, circulant_8, .timeout = 120) {
    prove_bcasts(8);
}

Test(bcast, circulant_17, .timeout = 120) {
    prove_bcasts(17);
}

/* Every root of small jobs. */
Test(bcast, circulant_from_every_root, .timeout = 120) {
    for (uint32_t p = 1; p <= 20; p++)
        for (uint32_t root = 0; root < p; root++)
            for (uint32_t n = 1; n <= 7; n += 3)
                prove_bcast(p, root, n, 1, false);
}

/* A caller that names no number of blocks gets one. */
Test(bcast, circulant_without_a_number_of_blocks, .timeout = 10) {
    struct tu_nodes *nodes = one_rank_per_node(5);
    struct prove one = {.algorithm = algorithm_of(TU_BCAST, "circulant"), .nodes = nodes};
    struct tu_plan **plan = make_plans(&one);
    cr_assert_eq(plan[0]->blocks, 1);
    free_plans(plan, 5);
    tu_nodes_free(nodes);
}
