/*
 * Generators when memory runs out: at whichever allocation it happens, the status says so, no plan is
 * handed out and nothing stays allocated. Linked with malloc and its kin wrapped.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "collectives/shape.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *memory);

/* Criterion gives each test a process of its own. */
static long until_failure = -1; /* allocations that still succeed; -1: all */
static long held;

static bool fails(void) {
    return until_failure >= 0 && until_failure-- == 0;
}

static void *got(void *memory) {
    held += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t bytes) {
    return fails() ? NULL : got(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return fails() ? NULL : got(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    if (fails())
        return NULL;
    return old ? __real_realloc(old, bytes) : got(__real_realloc(old, bytes));
}

void __wrap_free(void *memory) {
    held -= memory != NULL;
    __real_free(memory);
}

/* Lets the first, second, ... allocation fail, until the call needs no more. */
static void expect_told(const struct tu_algorithm *algorithm, const struct tu_shape *shape) {
    tutti_status status = TUTTI_ERR_MEMORY;
    for (long n = 0; status != TUTTI_OK; n++) {
        struct tu_plan *plan = NULL;
        long before = held;
        until_failure = n;
        status = algorithm->generate(shape, &plan);
        until_failure = -1;
        cr_assert(status == TUTTI_OK || status == TUTTI_ERR_MEMORY, "%s: %d", algorithm->name,
                  (int)status);
        cr_assert_eq(plan != NULL, status == TUTTI_OK, "%s, allocation %ld", algorithm->name, n);
        tu_plan_free(plan);
        cr_assert_eq(held, before, "%s, allocation %ld: %ld are left", algorithm->name, n,
                     held - before);
        cr_assert(status != TUTTI_OK || n >= 3, "%s: the allocations are not wrapped",
                  algorithm->name);
    }
}

static void expect_told_on(const uint32_t *label, uint32_t ranks) {
    uint32_t n = 0;
    const struct tu_algorithm *table = tu_algorithms(&n);
    struct tu_nodes *nodes = NULL;
    for (long allocation = 0; !nodes; allocation++) {
        until_failure = allocation;
        tutti_status status = tu_nodes_make(label, ranks, &nodes);
        until_failure = -1;
        cr_assert_eq(status, nodes ? TUTTI_OK : TUTTI_ERR_MEMORY);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < ranks && !table[i].unsuitable(nodes); r++) {
            struct tu_shape shape = {.nodes = nodes, .rank = r, .root = 1, .blocks = 9};
            expect_told(&table[i], &shape);
        }
    tu_nodes_free(nodes);
    cr_assert_eq(held, 0);
}

Test(memory, on_one_node, .timeout = 30) {
    expect_told_on((const uint32_t[]){0, 0, 0, 0, 0}, 5);
}

Test(memory, on_several_nodes, .timeout = 30) {
    expect_told_on((const uint32_t[]){0, 1, 2, 0, 0, 3, 4, 1, 0}, 9);
}
