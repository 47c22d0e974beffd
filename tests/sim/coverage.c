/* Counting what was used: see coverage.h. */
#include "tests/sim/coverage.h"

#include <assert.h>
#include <stdio.h>

static const char *const thing_name[COVER_THINGS] = {
    "boards",      "pairs",    "node scratch", "edges in a node", "wire edges",   "wire slots",
    "board slots", "segments", "straight",     "branched",        "lent vectors",
};
static const char *const knob_name[COVER_KNOBS] = {"R", "D", "S", "W"};
static const uint32_t knob_most[COVER_KNOBS] = {16, 4, 4, 4};
static const bool knob_power[COVER_KNOBS] = {true, false, true, false}; /* powers of two only */

static uint32_t place_of(const struct tu_algorithm *algorithm) {
    uint32_t n;
    const struct tu_algorithm *all = tu_algorithms(&n);

    assert(n <= COVERAGE_ALGORITHMS && algorithm >= all && algorithm < all + n);
    return (uint32_t)(algorithm - all);
}

/* Edges of this kind that the plan has. */
static bool has_edges(const struct tu_bound *bound, bool mapped) {
    for (uint32_t i = 0; i < bound->plan->channels; i++) {
        const struct tu_plan_channel *channel = &bound->plan->channel[i];
        if (channel->kind != TU_EDGE_OUT && channel->kind != TU_EDGE_IN)
            continue;
        const struct tu_edge *edge = tu_channels_edge(bound->channels, channel->peer);
        if ((edge->peer->window != NULL) == mapped)
            return true;
    }
    return false;
}

static bool has_boards(const struct tu_plan *plan) {
    for (uint32_t i = 0; i < plan->channels; i++)
        if (plan->channel[i].kind >= TU_BOARD_OUT)
            return true;
    return false;
}

static bool is_forced(const tutti_comm *comm, tutti_call call) {
    const struct tu_config *config = &comm->job->env.config;
    const char *const word[] = {config->barrier, config->bcast, config->allreduce};
    return word[call][0] != 0;
}

/* Programs of this kind that were made for such calls. */
static bool has_program(const struct tu_prepared *prepared, bool straight) {
    for (uint32_t bank = 0; bank < TU_MAX_BANKS; bank++)
        if (prepared->program[bank].memory && prepared->program[bank].straight == straight)
            return true;
    return false;
}

/* Has a call under way lent its vector? */
static bool has_lent(const tutti_comm *comm) {
    for (uint32_t bank = 0; bank < comm->banks; bank++)
        if (comm->bank[bank].call && comm->bank[bank].run.lent)
            return true;
    return false;
}

void coverage_of_call(struct coverage *coverage, const tutti_comm *comm, tutti_call call) {
    static const enum tu_collective collective[] = {TU_BARRIER, TU_BCAST, TU_ALLREDUCE};
    const struct tu_prepared *prepared = comm->checked[collective[call]].task.prepared;

    if (!prepared)
        return;
    const struct tu_bound *bound = prepared->plan->bound;
    bool wire = has_edges(bound, false), boards = has_boards(bound->plan);
    bool met[COVER_THINGS] = {
        [COVER_BOARDS] = boards,
        [COVER_PAIRS] = bound->pair,
        [COVER_NODE_SCRATCH] = bound->plan->node_run > 0,
        [COVER_MAPPED_EDGES] = has_edges(bound, true),
        [COVER_WIRE_EDGES] = wire,
        [COVER_WIRE_SLOTS] = wire && prepared->cut.slots,
        [COVER_SHARE_SLOTS] = boards && prepared->cut.share,
        [COVER_SEGMENTS] = prepared->cut.segments > 1,
        [COVER_STRAIGHT] = has_program(prepared, true),
        [COVER_BRANCHED] = has_program(prepared, false),
        [COVER_LENT] = has_lent(comm),
    };
    coverage->algorithm[place_of(prepared->plan->algorithm)]++;
    coverage->forced[place_of(prepared->plan->algorithm)] += is_forced(comm, call);
    for (uint32_t i = 0; i < COVER_THINGS; i++)
        coverage->thing[i] += met[i];
}

/* Is it a value that the knob may have? */
static bool is_value(uint32_t knob, uint32_t value) {
    return value >= 1 && value <= knob_most[knob] &&
           (!knob_power[knob] || (value & (value - 1)) == 0);
}

void coverage_print(const struct coverage *c) {
    static const char *const collective[TU_COLLECTIVES] = {"barrier", "bcast", "allreduce"};
    uint32_t n, large = 0;
    const struct tu_algorithm *all = tu_algorithms(&n);

    fprintf(stderr, "calls (of them with an algorithm forced):");
    for (uint32_t i = 0; i < n; i++)
        fprintf(stderr, " %s %s %u (%u),", collective[all[i].collective], all[i].name,
                c->algorithm[i], c->forced[i]);
    for (uint32_t i = 0; i < COVER_THINGS; i++)
        fprintf(stderr, "%s %s %u", i ? "," : "\n  of them with", thing_name[i], c->thing[i]);
    fprintf(stderr, "\nworlds:");
    for (uint32_t k = 0; k < COVER_KNOBS; k++)
        for (uint32_t v = 1; v <= knob_most[k]; v++)
            if (is_value(k, v))
                fprintf(stderr, " %s=%u %u,", knob_name[k], v, c->knob[k][v]);
    for (uint32_t r = 33; r <= 64; r++)
        large += c->ranks[r];
    fprintf(stderr, "\n  2 ranks %u, 33 to 64 %u, steps left for later %u, slow credits %u; ",
            c->ranks[2], large, c->declined, c->delayed);
    fprintf(stderr, "dups %u, frees %u, naps %u\n", c->dups, c->frees, c->naps);
}

static bool enough(uint32_t met, uint32_t least, const char *what, uint32_t value) {
    if (met < least)
        fprintf(stderr, "only %u times: %s %u\n", met, what, value);
    return met >= least;
}

bool coverage_is_whole(const struct coverage *c, uint32_t least) {
    uint32_t n, large = 0;
    const struct tu_algorithm *all = tu_algorithms(&n);
    bool whole = true;

    for (uint32_t i = 0; i < n; i++) {
        whole = enough(c->algorithm[i], least, all[i].name, i) && whole;
        whole = enough(c->forced[i], least, "forced", i) && whole;
    }
    for (uint32_t i = 0; i < COVER_THINGS; i++)
        whole = enough(c->thing[i], least, thing_name[i], i) && whole;
    for (uint32_t k = 0; k < COVER_KNOBS; k++)
        for (uint32_t v = 1; v <= knob_most[k]; v++)
            whole = (!is_value(k, v) || enough(c->knob[k][v], least, knob_name[k], v)) && whole;
    for (uint32_t r = 33; r <= 64; r++)
        large += c->ranks[r];
    whole = enough(c->ranks[2], least, "ranks", 2) && whole;
    whole = enough(large, least / 4, "ranks of more than", 32) && whole;
    whole = enough(c->dups, least, "dup", 0) && enough(c->frees, least, "free", 0) && whole;
    whole = enough(c->naps, least, "nap", 0) && enough(c->declined, least, "later", 0) && whole;
    return enough(c->delayed, least, "slow credits", 0) && whole;
}
