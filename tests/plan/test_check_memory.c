/*
 * The checker when memory runs out: at whichever allocation it happens, it says so, and nothing stays
 * allocated.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "failing_memory.h"
#include "prove.h"

static void expect_told(const struct prove *prove) {
    struct tu_plan **plan = make_plans(prove);
    struct tu_check check = {.collective = prove->algorithm->collective,
                             .nodes = prove->nodes,
                             .root = prove->root,
                             .ring_slots = 1};
    struct tu_check_result result;
    bool right = false;
    long n = 0;

    while (!right) {
        long before = memory_held();
        memory_fails_after(n++);
        right = tu_plan_check((const struct tu_plan *const *)plan, &check, &result);
        memory_fails_after(-1);
        cr_assert_str_eq(result.error, right ? "" : "out of memory", "allocation %ld", n);
        cr_assert_eq(memory_held(), before, "allocation %ld: %ld are left", n,
                     memory_held() - before);
    }
    cr_assert_gt(n, 30, "the allocations are not wrapped");
    free_plans(plan, prove->nodes->ranks);
}

Test(check, memory_runs_out, .timeout = 60) {
    struct tu_nodes *nodes = nodes_in_blocks((const uint32_t[]){3, 1, 2, 0});
    uint32_t n;
    const struct tu_algorithm *table = tu_algorithms(&n);

    for (uint32_t i = 0; i < n; i++) {
        struct prove one = {.algorithm = &table[i], .nodes = nodes, .blocks = 3};
        if (!table[i].unsuitable(nodes))
            expect_told(&one);
    }
    tu_nodes_free(nodes);
}

/* Node blocks, so many that the clocks grow; expressions, so many that their table grows. */
Test(check, memory_runs_out_in_large_proofs, .timeout = 60) {
    struct tu_nodes *nodes = one_rank_per_node(48);
    struct prove one = {
        .algorithm = algorithm_of(TU_ALLREDUCE, "circulant"), .nodes = nodes, .ring_slots = 1};
    struct prove barrier = {
        .algorithm = algorithm_of(TU_BARRIER, "circulant"), .nodes = nodes, .ring_slots = 1};

    expect_told(&one);
    expect_told(&barrier);
    tu_nodes_free(nodes);
}
