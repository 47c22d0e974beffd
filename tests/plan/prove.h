/*
 * Proofs of whole algorithms: the plans of all ranks, made, checked and measured in one call. A case
 * is an algorithm, a node shape, and what else shapes a plan.
 */
#ifndef TU_TESTS_PLAN_PROVE_H
#define TU_TESTS_PLAN_PROVE_H

#include "collectives/plan_check.h"
#include "collectives/shape.h"

/* ---- node shapes ---- */

struct tu_nodes *one_rank_per_node(uint32_t ranks);
struct tu_nodes *one_node(uint32_t ranks);
/* Nodes of the given sizes (0 ends the list): ranks of a node follow each other, or nodes take turns. */
struct tu_nodes *nodes_in_blocks(const uint32_t *size);
struct tu_nodes *nodes_in_turn(const uint32_t *size);
/* `seed` fixes it; from nearly one node to nearly one rank per node. */
struct tu_nodes *random_nodes(uint32_t ranks, uint32_t seed);
/* "2+2+1+3" of up to 8 nodes, for messages. */
const char *nodes_text(const struct tu_nodes *nodes, char *text, size_t bytes);

/* ---- cases ---- */

struct prove {
    const struct tu_algorithm *algorithm;
    const struct tu_nodes *nodes;
    uint32_t root, blocks; /* broadcast */
    uint32_t ring_slots;
    bool structure_only;
};

/* What is wanted by name; the test fails if there is none. */
const struct tu_algorithm *algorithm_of(enum tu_collective collective, const char *name);

/* All ranks' plans; free with free_plans(). The test fails if one can't be made. */
struct tu_plan **make_plans(const struct prove *prove);
void free_plans(struct tu_plan **plan, uint32_t ranks);

struct measure {
    struct tu_check_result check;
    uint32_t
        one_ported_rounds;    /* with one message sent and one received per round, in plan order */
    uint64_t all_sent_blocks; /* sum over the ranks */
    uint32_t most_steps;
};

/*
 * The test fails unless the plans are right, claim what the table says, and use base edges only.
 * Returns what was measured.
 */
struct measure prove(const struct prove *prove);

/* Most base peers of a rank. */
uint32_t most_base_peers(const struct tu_nodes *nodes);

#endif
