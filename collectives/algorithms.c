/* The table of algorithms: names, claims, and what each can't serve. */
#include "collectives/algorithms.h"

#include <string.h>

static const char *any_nodes(const struct tu_nodes *nodes) {
    (void)nodes;
    return NULL;
}

static const char *one_node(const struct tu_nodes *nodes) {
    return nodes->nodes == 1 ? NULL : "all ranks must share one node";
}

static const struct tu_algorithm table[] = {
    {.name = "circulant",
     .collective = TU_BARRIER,
     .unsuitable = any_nodes,
     .generate = tu_barrier_circulant},
    {.name = "board",
     .collective = TU_BARRIER,
     .unsuitable = one_node,
     .generate = tu_barrier_board},
    {.name = "board", .collective = TU_BCAST, .unsuitable = one_node, .generate = tu_bcast_board},
    {.name = "circulant",
     .collective = TU_BCAST,
     .unsuitable = any_nodes,
     .generate = tu_bcast_circulant},
    {.name = "ordered",
     .collective = TU_ALLREDUCE,
     .in_order = true,
     .left_fold = true,
     .unsuitable = any_nodes,
     .generate = tu_allreduce_ordered},
    {.name = "circulant",
     .collective = TU_ALLREDUCE,
     .commutative = true,
     .unsuitable = any_nodes,
     .generate = tu_allreduce_circulant},
    {.name = "flat",
     .collective = TU_ALLREDUCE,
     .in_order = true,
     .left_fold = true,
     .unsuitable = one_node,
     .generate = tu_allreduce_flat},
    {.name = "two_phase",
     .collective = TU_ALLREDUCE,
     .in_order = true,
     .left_fold = true,
     .unsuitable = one_node,
     .generate = tu_allreduce_two_phase},
    {.name = "accumulate",
     .collective = TU_ALLREDUCE,
     .commutative = true,
     .unsuitable = one_node,
     .generate = tu_allreduce_accumulate},
    {.name = "two_level",
     .collective = TU_ALLREDUCE,
     .commutative = true,
     .unsuitable = any_nodes,
     .generate = tu_allreduce_two_level},
    {.name = "leaders",
     .collective = TU_ALLREDUCE,
     .commutative = true,
     .unsuitable = any_nodes,
     .generate = tu_allreduce_leaders},
};

const struct tu_algorithm *tu_algorithms(uint32_t *n) {
    *n = sizeof table / sizeof *table;
    return table;
}

const struct tu_algorithm *tu_algorithm_find(enum tu_collective collective, const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].collective == collective && strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
