/*
 * Allreduce "leaders": the first rank of each node folds the node's vectors, the leaders exchange
 * theirs by ordered gathering, and each tells its node.
 *
 * Why: for small vectors on several nodes. It takes ceil(log2 N) messages over the network instead of
 * ceil(log2 p), and each goes between two ranks only. Every leader folds the same sums of the nodes
 * in the order of the nodes, so all ranks get the same bits.
 *
 * Block i is the sum of node i. Nodes {0 1} {2 3}; leaders 0 and 2:
 *     rank 1   share x1 -> 0                                                    wait 0, target
 *     rank 0   wait 1, y0 = x0 op x1   y0 -> 2, y1 <- 2   target = y0 op y1     share
 *     rank 2   wait 3, y1 = x2 op x3   y1 -> 0, y0 <- 0   target = y0 op y1     share
 *     rank 3   share x3 -> 2                                                    wait 2, target
 *
 * The target of a leader holds its node's sum until the last fold replaces it. A member copies the
 * result after its own SHARE, since source and target may be the same.
 *
 * Cost: ceil(log2 N) rounds and (N - 1) m sent per leader, two synchronisations in the node; the
 * leader folds L + N - 2 times m; no scratch.
 * Restrictions: the operation must be commutative (ranks of a node need not follow each other).
 * Source: folklore; the gathering as in allreduce_ordered.c.
 */
#include "collectives/algorithms.h"

#include <stdlib.h>

struct node {
    const uint32_t *mates; /* [size] its ranks; mates[0] leads */
    uint32_t number, size;
};

static void member_steps(struct tu_builder *b, const struct node *node) {
    struct tu_ref mine = tu_src(node->number, 1);
    uint32_t share = tu_share(b, node->number, 1, &mine, 1, 1, TU_AT_ONCE);
    uint32_t wait =
        tu_wait_board(b, node->mates[0], 0, node->number, 1, (struct tu_after){share, TU_NO_STEP});
    tu_copy(b, tu_dst(node->number, 1), tu_arrived(wait, node->number, 1),
            (struct tu_after){wait, TU_NO_STEP});
    for (uint32_t i = 1; i < node->size; i++) /* those that only the leader reads */
        tu_board_uses(b, node->mates[i], 1);
}

/* Folds the vectors of the node into the target; returns the step. */
static uint32_t fold_node(struct tu_builder *b, const struct node *node) {
    struct tu_ref *operand = malloc(node->size * sizeof *operand);
    struct tu_after after = TU_AT_ONCE;
    if (!operand) {
        b->status = TUTTI_ERR_MEMORY;
        return TU_NO_STEP;
    }
    operand[0] = tu_src(node->number, 1);
    for (uint32_t i = 1; i < node->size; i++) {
        after.a = tu_wait_board(b, node->mates[i], 0, node->number, 1, after);
        operand[i] = tu_arrived(after.a, node->number, 1);
    }
    uint32_t step = tu_reduce(b, tu_dst(node->number, 1), operand, node->size, after);
    free(operand);
    return step;
}

static void leader_steps(struct tu_builder *b, const struct node *node,
                         const struct tu_group *leaders) {
    struct tu_ref sum = tu_src(node->number, 1), result = tu_dst(node->number, 1);
    struct tu_after after = TU_AT_ONCE;
    if (node->size > 1) {
        sum = result;
        after.a = fold_node(b, node);
    }
    after = tu_ordered_steps(b, leaders, sum, after);
    if (node->size > 1)
        tu_share(b, node->number, 1, &result, 1, node->size - 1, after);
}

tutti_status tu_allreduce_leaders(const struct tu_shape *shape, struct tu_plan **plan) {
    const struct tu_nodes *nodes = shape->nodes;
    uint32_t number = nodes->node_of[shape->rank];
    struct node node = {.mates = nodes->member + nodes->first[number],
                        .number = number,
                        .size = tu_node_size(nodes, number)};
    uint32_t *leader = malloc(nodes->nodes * sizeof *leader);
    struct tu_group leaders = {.member = leader, .size = nodes->nodes, .me = number};
    struct tu_builder b;

    tu_builder_init(&b, "leaders", shape->rank, nodes->ranks, nodes->nodes);
    b.plan.replicate = true;
    b.plan.message_blocks = nodes->nodes / 2; /* of leaders, in the last round */
    b.plan.share_blocks = nodes->lanes > 1;   /* of nodes of several ranks */
    for (uint32_t i = 0; leader && i < nodes->nodes; i++)
        leader[i] = tu_lane_member(nodes, 0, i);
    if (!leader)
        b.status = TUTTI_ERR_MEMORY;
    else if (node.mates[0] == shape->rank)
        leader_steps(&b, &node, &leaders);
    else
        member_steps(&b, &node);
    free(leader);
    return tu_plan_finish(&b, plan);
}
