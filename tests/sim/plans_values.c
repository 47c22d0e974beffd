/*
 * What plans compute: follows the values through the steps of all ranks, whatever the order in which
 * these would run. Blocks are written once, so there is one outcome.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/plans.h"
#include "tests/sim/random.h"

enum { LONGEST = 3 };

struct rank_values {
    bool *done;                                 /* [steps] */
    uint64_t (*message)[LONGEST][PLANS_PERIOD]; /* [steps] of what sends or waits */
    uint64_t (*scratch)[PLANS_PERIOD];
    uint64_t source[PLANS_PERIOD], target[PLANS_PERIOD];
};

struct flow {
    struct tu_plan *const *plan;
    uint32_t ranks;
    struct rank_values rank[SIM_MAX_RANKS];
};

static uint64_t mix(uint64_t a, uint64_t b) {
    return (a ^ a >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + b;
}

uint64_t plans_source(const struct plans_program *program, uint32_t call, uint32_t rank, size_t i) {
    return sim_stream(program->seed + call * UINT64_C(0x100000001) + rank, i % PLANS_PERIOD);
}

void plans_fold(void *out, void *also, const void *const *a, int n, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value, next;
        memcpy(&value, (const char *)a[0] + i * sizeof value, sizeof value);
        for (int k = 1; k < n; k++) {
            memcpy(&next, (const char *)a[k] + i * sizeof next, sizeof next);
            value = mix(value, next);
        }
        memcpy((char *)out + i * sizeof value, &value, sizeof value);
        if (also)
            memcpy((char *)also + i * sizeof value, &value, sizeof value);
    }
}

/* ---- steps ---- */

/* The step at the other end of a WAIT. */
static uint32_t post_of(const struct flow *flow, const struct tu_plan *plan,
                        const struct tu_step *wait, uint32_t *writer) {
    const struct tu_plan_channel *in = &plan->channel[wait->channel];
    uint32_t s = 0;

    *writer = in->peer;
    for (const struct tu_plan *from = flow->plan[in->peer]; s < from->steps; s++) {
        const struct tu_step *step = &from->step[s];
        bool board = step->kind == TU_SHARE || step->kind == TU_SIGNAL;
        bool posts = in->kind == TU_BOARD_IN ? board
                                             : step->kind == TU_WRITE &&
                                                   from->channel[step->channel].peer == plan->rank;
        if (posts && step->use == wait->use)
            break;
    }
    return s;
}

static bool ready(const struct flow *flow, uint32_t r, const struct tu_step *step) {
    uint32_t writer;

    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP && !flow->rank[r].done[step->after[i]])
            return false;
    if (step->kind != TU_WAIT)
        return true;
    uint32_t post = post_of(flow, flow->plan[r], step, &writer);
    return flow->rank[writer].done[post];
}

static const uint64_t *value_of(const struct flow *flow, uint32_t r, const struct tu_ref *ref) {
    const struct rank_values *values = &flow->rank[r];

    assert(ref->n == 1);
    switch (ref->space) {
    case TU_SRC:
        return values->source;
    case TU_DST:
        return values->target;
    case TU_SCRATCH:
        return values->scratch[ref->first];
    default:
        return values->message[ref->step][ref->first - flow->plan[r]->step[ref->step].first];
    }
}

static void run_compute(struct flow *flow, uint32_t r, const struct tu_step *step) {
    uint64_t result[PLANS_PERIOD];
    const void *operand[2];

    assert(step->args <= 2);
    for (uint32_t i = 0; i < step->args; i++)
        operand[i] = value_of(flow, r, &flow->plan[r]->ref[step->arg + i]);
    plans_fold(result, NULL, operand, (int)step->args, PLANS_PERIOD);
    for (uint32_t i = 0; i < step->dsts; i++) {
        uint64_t *to = (uint64_t *)(uintptr_t)value_of(flow, r, &step->dst[i]);
        memcpy(to, result, sizeof result);
    }
}

static void run_step(struct flow *flow, uint32_t r, uint32_t s) {
    const struct tu_step *step = &flow->plan[r]->step[s];
    struct rank_values *values = &flow->rank[r];
    uint32_t writer;

    values->done[s] = true;
    if (step->kind == TU_WAIT) {
        uint32_t post = post_of(flow, flow->plan[r], step, &writer);
        memcpy(values->message[s], flow->rank[writer].message[post], sizeof values->message[s]);
    } else if (step->kind == TU_REDUCE || step->kind == TU_COPY) {
        run_compute(flow, r, step);
    } else {
        for (uint32_t i = 0; i < step->args; i++)
            memcpy(values->message[s][i], value_of(flow, r, &flow->plan[r]->ref[step->arg + i]),
                   sizeof values->message[s][i]);
    }
}

static bool pass(struct flow *flow) {
    bool moved = false;

    for (uint32_t r = 0; r < flow->ranks; r++)
        for (uint32_t s = 0; s < flow->plan[r]->steps; s++)
            if (!flow->rank[r].done[s] && ready(flow, r, &flow->plan[r]->step[s])) {
                run_step(flow, r, s);
                moved = true;
            }
    return moved;
}

/* ---- the whole ---- */

void plans_expect(struct plans_program *program, uint32_t call) {
    struct flow flow = {.plan = program->set[program->call[call].set], .ranks = program->ranks};

    for (uint32_t r = 0; r < flow.ranks; r++) {
        struct rank_values *values = &flow.rank[r];
        values->done = calloc(flow.plan[r]->steps, sizeof *values->done);
        values->message = calloc(flow.plan[r]->steps, sizeof *values->message);
        values->scratch = calloc(flow.plan[r]->scratch_blocks + 1, sizeof *values->scratch);
        for (size_t i = 0; i < PLANS_PERIOD; i++)
            values->source[i] = plans_source(program, call, r, i);
    }
    while (pass(&flow))
        continue;
    program->expected[call] = calloc(flow.ranks, sizeof *program->expected[call]);
    for (uint32_t r = 0; r < flow.ranks; r++) {
        struct rank_values *values = &flow.rank[r];
        for (uint32_t s = 0; s < flow.plan[r]->steps; s++)
            assert(values->done[s]);
        memcpy(program->expected[call][r], values->target, sizeof values->target);
        free(values->done);
        free(values->message);
        free(values->scratch);
    }
}

void plans_forget(struct plans_program *program) {
    for (uint32_t i = 0; i < program->calls; i++) {
        free(program->expected[i]);
        program->expected[i] = NULL;
    }
}
