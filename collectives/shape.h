/*
 * What a generator may know: the ranks of a comm, the nodes they sit on, and the few numbers that
 * make one plan differ from another. And the rank arithmetic that follows from it, all of it pure.
 */
#ifndef TU_COLLECTIVES_SHAPE_H
#define TU_COLLECTIVES_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/plan.h"

enum { TU_MAX_SKIPS = 33 };

/* Circulant skips: s[q] = p, s[k] = ceil(s[k+1] / 2), s[0] = 1; q = ceil(log2 p). p = 1: q = 0. */
struct tu_skips {
    uint32_t q;
    uint32_t s[TU_MAX_SKIPS];
};
struct tu_skips tu_skips_of(uint32_t p);

/*
 * The nodes of a comm. Node numbers run from 0 in the order of each node's lowest rank; members of
 * a node are in rank order.
 *
 * LANES, for plans of two levels: lanes = size of the largest node; the member of node i in lane l
 * is its local rank l mod (size of node i), so on smaller nodes a rank serves several lanes. Lane 0
 * holds the leaders.
 */
struct tu_nodes {
    uint32_t ranks, nodes, lanes;
    uint32_t *node_of;  /* [ranks] */
    uint32_t *local_of; /* [ranks] place among the members of its node */
    uint32_t *first;    /* [nodes + 1] members of node i: member[first[i] .. first[i + 1]) */
    uint32_t *member;   /* [ranks] */
};

/* label[r]: any number, equal for ranks that share memory. */
tutti_status tu_nodes_make(const uint32_t *label, uint32_t ranks, struct tu_nodes **nodes);
void tu_nodes_free(struct tu_nodes *nodes);
uint32_t tu_node_size(const struct tu_nodes *nodes, uint32_t node);
uint32_t tu_lane_member(const struct tu_nodes *nodes, uint32_t lane, uint32_t node);

/*
 * Base peers of a rank: r +- s_k in the circulant of the comm, and, in each lane that it serves, the
 * lane members at node index +- s_k in the circulant of the nodes. Ascending, without duplicates and
 * without the rank itself. Returns their number; writes at most `room` of them.
 */
uint32_t tu_base_peers(const struct tu_nodes *nodes, uint32_t rank, uint32_t *peer, uint32_t room);

enum tu_collective { TU_BARRIER, TU_BCAST, TU_ALLREDUCE, TU_COLLECTIVES };

/* All that shapes a plan: the key of the plan cache. */
struct tu_shape {
    const struct tu_nodes *nodes;
    uint32_t rank;
    uint32_t root;   /* broadcast */
    uint32_t blocks; /* broadcast in n blocks: n; else 0 */
};

struct tu_algorithm {
    const char *name; /* its one word: file, function, knob value, label, trace */
    enum tu_collective collective;
    bool commutative; /* needs a commutative operation */
    bool in_order;    /* claims; the checker holds the plans to them */
    bool left_fold;
    /* NULL if the algorithm can serve these nodes, else the reason in a few words */
    const char *(*unsuitable)(const struct tu_nodes *nodes);
    tutti_status (*generate)(const struct tu_shape *shape, struct tu_plan **plan);
};

/* All algorithms, one table; *n is set to its length. */
const struct tu_algorithm *tu_algorithms(uint32_t *n);
/* NULL if there is none of that name. */
const struct tu_algorithm *tu_algorithm_find(enum tu_collective collective, const char *name);

#endif
