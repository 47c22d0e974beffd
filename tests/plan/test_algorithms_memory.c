/*
 * Generators when memory runs out: at whichever allocation it happens, the status says so, no plan is
 * handed out and nothing stays allocated. Linked with malloc and its kin wrapped.
 */
#include <criterion/criterion.h>

#include "collectives/shape.h"
#include "failing_memory.h"

/* Lets the first, second, ... allocation fail, until the call needs no more. */
static void expect_told(const struct tu_algorithm *algorithm, const struct tu_shape *shape) {
    tutti_status status = TUTTI_ERR_MEMORY;
    for (long n = 0; status != TUTTI_OK; n++) {
        struct tu_plan *plan = NULL;
        long before = memory_held();
        memory_fails_after(n);
        status = algorithm->generate(shape, &plan);
        memory_fails_after(-1);
        cr_assert(status == TUTTI_OK || status == TUTTI_ERR_MEMORY, "%s: %d", algorithm->name,
                  (int)status);
        cr_assert_eq(plan != NULL, status == TUTTI_OK, "%s, allocation %ld", algorithm->name, n);
        tu_plan_free(plan);
        cr_assert_eq(memory_held(), before, "%s, allocation %ld: %ld are left", algorithm->name, n,
                     memory_held() - before);
        cr_assert(status != TUTTI_OK || n >= 3, "%s: the allocations are not wrapped",
                  algorithm->name);
    }
}

static void expect_told_on(const uint32_t *label, uint32_t ranks) {
    uint32_t n = 0;
    const struct tu_algorithm *table = tu_algorithms(&n);
    struct tu_nodes *nodes = NULL;
    for (long allocation = 0; !nodes; allocation++) {
        memory_fails_after(allocation);
        tutti_status status = tu_nodes_make(label, ranks, &nodes);
        memory_fails_after(-1);
        cr_assert_eq(status, nodes ? TUTTI_OK : TUTTI_ERR_MEMORY);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < ranks && !table[i].unsuitable(nodes); r++) {
            struct tu_shape shape = {.nodes = nodes, .rank = r, .root = 1, .blocks = 9};
            expect_told(&table[i], &shape);
        }
    tu_nodes_free(nodes);
    cr_assert_eq(memory_held(), 0);
}

Test(memory, on_one_node, .timeout = 30) {
    expect_told_on((const uint32_t[]){0, 0, 0, 0, 0}, 5);
}

Test(memory, on_several_nodes, .timeout = 30) {
    expect_told_on((const uint32_t[]){0, 1, 2, 0, 0, 3, 4, 1, 0}, 9);
}
