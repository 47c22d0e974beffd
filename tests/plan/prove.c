/* Proofs of whole algorithms, see prove.h. */
#include "prove.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- node shapes ---- */

static struct tu_nodes *nodes_of(uint32_t *label, uint32_t ranks) {
    struct tu_nodes *nodes = NULL;
    cr_assert_eq(tu_nodes_make(label, ranks, &nodes), TUTTI_OK);
    free(label);
    return nodes;
}

struct tu_nodes *one_rank_per_node(uint32_t ranks) {
    uint32_t *label = malloc(ranks * sizeof *label);
    for (uint32_t r = 0; r < ranks; r++)
        label[r] = r;
    return nodes_of(label, ranks);
}

struct tu_nodes *one_node(uint32_t ranks) {
    return nodes_of(calloc(ranks, sizeof(uint32_t)), ranks);
}

static uint32_t sum_of(const uint32_t *size) {
    uint32_t sum = 0;
    while (*size)
        sum += *size++;
    return sum;
}

struct tu_nodes *nodes_in_blocks(const uint32_t *size) {
    uint32_t ranks = sum_of(size), *label = malloc(ranks * sizeof *label), r = 0;
    for (uint32_t node = 0; size[node]; node++)
        for (uint32_t i = 0; i < size[node]; i++)
            label[r++] = node;
    return nodes_of(label, ranks);
}

struct tu_nodes *nodes_in_turn(const uint32_t *size) {
    uint32_t ranks = sum_of(size), *label = malloc(ranks * sizeof *label), r = 0;
    for (uint32_t turn = 0; r < ranks; turn++)
        for (uint32_t node = 0; size[node]; node++)
            if (turn < size[node])
                label[r++] = node;
    return nodes_of(label, ranks);
}

struct tu_nodes *random_nodes(uint32_t ranks, uint32_t seed) {
    uint32_t *label = malloc(ranks * sizeof *label);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1, nodes = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        nodes = nodes ? nodes : 1 + (state >> 33) % ranks;
        label[r] = (uint32_t)((state >> 40) % nodes);
    }
    return nodes_of(label, ranks);
}

const char *nodes_text(const struct tu_nodes *nodes, char *text, size_t bytes) {
    size_t used = 0;
    for (uint32_t i = 0; i < nodes->nodes && i < 8 && used < bytes; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, i ? "+%u" : "%u", tu_node_size(nodes, i));
    if (nodes->nodes > 8 && used < bytes)
        snprintf(text + used, bytes - used, "+... (%u nodes)", nodes->nodes);
    return text;
}

/* ---- plans ---- */

const struct tu_algorithm *algorithm_of(enum tu_collective collective, const char *name) {
    const struct tu_algorithm *algorithm = tu_algorithm_find(collective, name);
    cr_assert(algorithm != NULL, "no algorithm %s", name);
    return algorithm;
}

struct tu_plan **make_plans(const struct prove *prove) {
    uint32_t p = prove->nodes->ranks;
    struct tu_plan **plan = calloc(p, sizeof *plan);
    for (uint32_t r = 0; r < p; r++) {
        struct tu_shape shape = {
            .nodes = prove->nodes, .rank = r, .root = prove->root, .blocks = prove->blocks};
        cr_assert_eq(prove->algorithm->generate(&shape, &plan[r]), TUTTI_OK);
    }
    return plan;
}

void free_plans(struct tu_plan **plan, uint32_t ranks) {
    for (uint32_t r = 0; r < ranks; r++)
        tu_plan_free(plan[r]);
    free(plan);
}

/* ---- base edges ---- */

static bool is_base_edge(const struct tu_plan_channel *channel, const uint32_t *peer, uint32_t n) {
    if (channel->kind != TU_EDGE_OUT && channel->kind != TU_EDGE_IN)
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (peer[i] == channel->peer)
            return true;
    return false;
}

static void expect_base_edges(struct tu_plan *const *plan, const struct tu_nodes *nodes) {
    uint32_t *peer = malloc(nodes->ranks * sizeof *peer);
    char text[96];
    for (uint32_t r = 0; r < nodes->ranks; r++) {
        uint32_t n = tu_base_peers(nodes, r, peer, nodes->ranks);
        for (uint32_t c = 0; c < plan[r]->channels; c++)
            cr_assert(is_base_edge(&plan[r]->channel[c], peer, n),
                      "%s on %s: rank %u and rank %u are no base peers", plan[r]->algorithm,
                      nodes_text(nodes, text, sizeof text), r, plan[r]->channel[c].peer);
    }
    free(peer);
}

uint32_t most_base_peers(const struct tu_nodes *nodes) {
    uint32_t most = 0;
    for (uint32_t r = 0; r < nodes->ranks; r++) {
        uint32_t n = tu_base_peers(nodes, r, NULL, 0);
        most = n > most ? n : most;
    }
    return most;
}

/* ---- one-ported rounds ---- */

/* Ranks run their plans in order. Of each step: the round after which it is done; ROUND_OPEN before. */
enum { ROUND_OPEN = UINT32_MAX };

struct rounds {
    struct tu_plan *const *plan;
    uint32_t ranks;
    uint32_t **done;          /* [ranks][steps] */
    uint32_t *next;           /* [ranks] the step to run */
    uint32_t *sent, *arrived; /* [ranks] the last round used */
};

static uint32_t later(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* The step at rank `peer` that posts the use which the WAIT of `rank` is for. */
static uint32_t posting_step(const struct rounds *rounds, const struct tu_plan_channel *channel,
                             uint32_t rank, uint32_t use) {
    const struct tu_plan *plan = rounds->plan[channel->peer];
    for (uint32_t s = 0; s < plan->steps; s++) {
        const struct tu_step *step = &plan->step[s];
        if (step->kind > TU_SIGNAL || step->kind == TU_WAIT || step->use != use)
            continue;
        const struct tu_plan_channel *out = &plan->channel[step->channel];
        if (channel->kind == TU_EDGE_IN ? out->kind == TU_EDGE_OUT && out->peer == rank
                                        : out->kind == TU_BOARD_OUT)
            return s;
    }
    cr_assert_fail("rank %u waits in vain", rank);
    return 0;
}

/* False if the step can't run yet. */
static bool run_step(struct rounds *rounds, uint32_t r, uint32_t s) {
    const struct tu_step *step = &rounds->plan[r]->step[s];
    uint32_t round = 0;
    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP)
            round = later(round, rounds->done[r][step->after[i]]);
    if (step->kind == TU_WRITE) {
        round = later(round, rounds->sent[r]) + 1;
        rounds->sent[r] = round;
    } else if (step->kind == TU_WAIT) {
        const struct tu_plan_channel *channel = &rounds->plan[r]->channel[step->channel];
        uint32_t from = posting_step(rounds, channel, r, step->use);
        uint32_t arrival = rounds->done[channel->peer][from];
        if (arrival == ROUND_OPEN)
            return false;
        if (channel->kind == TU_EDGE_IN)
            arrival = rounds->arrived[r] = later(arrival, rounds->arrived[r] + 1);
        round = later(round, arrival);
    }
    rounds->done[r][s] = round;
    return true;
}

static uint32_t one_ported_rounds(struct tu_plan *const *plan, uint32_t p) {
    struct rounds rounds = {.plan = plan,
                            .ranks = p,
                            .done = calloc(p, sizeof *rounds.done),
                            .next = calloc(p, sizeof(uint32_t)),
                            .sent = calloc(p, sizeof(uint32_t)),
                            .arrived = calloc(p, sizeof(uint32_t))};
    uint32_t last = 0;
    for (uint32_t r = 0; r < p; r++) {
        rounds.done[r] = malloc((plan[r]->steps + 1) * sizeof(uint32_t));
        memset(rounds.done[r], 0xff, (plan[r]->steps + 1) * sizeof(uint32_t));
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < p; r++)
            while (rounds.next[r] < plan[r]->steps && run_step(&rounds, r, rounds.next[r])) {
                last = later(last, rounds.done[r][rounds.next[r]++]);
                moved = true;
            }
    }
    for (uint32_t r = 0; r < p; r++) {
        cr_assert_eq(rounds.next[r], plan[r]->steps, "rank %u does not end", r);
        free(rounds.done[r]);
    }
    free(rounds.done);
    free(rounds.next);
    free(rounds.sent);
    free(rounds.arrived);
    return last;
}

/* ---- proofs ---- */

static void expect_claims(const struct prove *prove, struct tu_plan *const *plan) {
    for (uint32_t r = 0; r < prove->nodes->ranks; r++) {
        cr_assert_str_eq(plan[r]->algorithm, prove->algorithm->name);
        cr_assert_eq(plan[r]->in_order, prove->algorithm->in_order);
        cr_assert_eq(plan[r]->left_fold, prove->algorithm->left_fold);
    }
}

static void sum_up(struct tu_plan *const *plan, uint32_t p, struct measure *measure) {
    for (uint32_t r = 0; r < p; r++) {
        measure->most_steps = later(measure->most_steps, plan[r]->steps);
        for (uint32_t s = 0; s < plan[r]->steps; s++)
            if (plan[r]->step[s].kind == TU_WRITE)
                measure->all_sent_blocks += plan[r]->step[s].n;
    }
}

struct measure prove(const struct prove *prove) {
    uint32_t p = prove->nodes->ranks;
    struct tu_plan **plan = make_plans(prove);
    struct measure measure = {.most_steps = 0};
    struct tu_check check = {.collective = prove->algorithm->collective,
                             .nodes = prove->nodes,
                             .root = prove->root,
                             .ring_slots = prove->ring_slots,
                             .structure_only = prove->structure_only,
                             .in_order = prove->algorithm->in_order,
                             .left_fold = prove->algorithm->left_fold};
    char text[96];
    bool right = tu_plan_check((const struct tu_plan *const *)plan, &check, &measure.check);
    cr_assert(right, "%s, p = %u, nodes %s, root %u, %u blocks, R = %u: %s", prove->algorithm->name,
              p, nodes_text(prove->nodes, text, sizeof text), prove->root, prove->blocks,
              prove->ring_slots, measure.check.error);
    expect_claims(prove, plan);
    expect_base_edges(plan, prove->nodes);
    sum_up(plan, p, &measure);
    if (p <= 128)
        measure.one_ported_rounds = one_ported_rounds(plan, p);
    free_plans(plan, p);
    return measure;
}
