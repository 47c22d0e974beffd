/* Running hand-made plans on one rank: see plans.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "tests/sim/plans.h"
#include "tests/sim/random.h"

/* One that is not in the table: it is only looked at in reports. */
static const struct tu_algorithm by_hand = {.name = "by hand", .collective = TU_ALLREDUCE};

struct runner {
    struct sim_rank *rank;
    struct plans_program *program;
    tutti_job *job;
    tutti_comm *comm;
    struct tu_cached set[PLANS_SETS];
    struct tu_prepared prepared[PLANS_CALLS];
    struct tu_call call[PLANS_CALLS];
    uint32_t open[PLANS_OUTSTANDING], opens;
};

static uint32_t draw(struct runner *r, uint32_t below) {
    return sim_below(&r->rank->random, below);
}

static void expect_ok(struct runner *r, tutti_status status, const char *what) {
    if (status)
        sim_fail(r->rank, "%s: %s: %s", what, tutti_status_string(status),
                 r->job ? tutti_last_error(r->job) : r->rank->log);
}

/* ---- plans ---- */

static void bind_sets(struct runner *r) {
    for (uint32_t i = 0; i < PLANS_SETS; i++) {
        struct tu_cached *set = &r->set[i];
        if (!r->program->set[i])
            continue;
        set->algorithm = &by_hand;
        expect_ok(r,
                  tu_bind(&r->job->env, r->program->set[i][r->rank->rank], r->comm->channels,
                          &set->bound),
                  "bind");
    }
}

static void free_sets(struct runner *r) {
    for (uint32_t i = 0; i < PLANS_SETS; i++)
        if (r->set[i].bound) {
            r->set[i].bound->plan = NULL; /* it is the program's */
            tu_bound_free(r->set[i].bound);
        }
}

/* ---- calls ---- */

static void start(struct runner *r, uint32_t i) {
    size_t count = r->program->call[i].count;
    struct tu_cached *set = &r->set[r->program->call[i].set];
    struct tu_prepared *prepared = &r->prepared[i];
    struct tu_call *call = &r->call[i];
    uint64_t *source = calloc(count + 1, sizeof *source);

    for (size_t k = 0; k < count; k++)
        source[k] = plans_source(r->program, i, r->rank->rank, k);
    *call = (struct tu_call){
        .comm = r->comm,
        .task = &call->own_task,
        .own_task = {.work = {.source = source,
                              .target = calloc(count + 1, sizeof *source),
                              .count = count,
                              .element_bytes = sizeof *source,
                              .fold = plans_fold},
                     .what = {.kind = tu_kind(TU_ALLREDUCE, TUTTI_I64, TUTTI_BXOR), .count = count},
                     .prepared = prepared}};
    call->own_task.hash = tu_hash(&call->own_task.what);
    prepared->plan = set;
    expect_ok(r, tu_cut_make(&r->job->env, set->bound, count, sizeof *source, &prepared->cut),
              "cut");
    expect_ok(r, tu_bound_prepare(set->bound, &prepared->cut), "prepare");
    r->open[r->opens++] = i;
    tu_call_start(call);
    tu_progress(r->job);
}

static void check(struct runner *r, uint32_t i) {
    const struct tu_work *work = &r->call[i].own_task.work;
    const uint64_t *got = work->target;

    for (size_t k = 0; r->program->expected[i] && k < work->count; k++)
        if (got[k] != r->program->expected[i][r->rank->rank][k % PLANS_PERIOD])
            sim_fail(r->rank, "call %u: element %zu of %zu is wrong", i, k, work->count);
}

static void complete(struct runner *r, uint32_t which) {
    uint32_t i = r->open[which];
    tutti_status status = tu_call_wait(r->job, &r->call[i]);

    r->open[which] = r->open[--r->opens];
    if (status && !r->program->status[r->rank->rank])
        r->program->status[r->rank->rank] = status;
    if (!status)
        check(r, i);
    free((void *)(uintptr_t)r->call[i].own_task.work.source);
    free(r->call[i].own_task.work.target);
    for (uint32_t bank = 0; bank < TU_MAX_BANKS; bank++)
        tu_program_free(&r->prepared[i].program[bank]);
}

static void complete_down_to(struct runner *r, uint32_t most) {
    while (r->opens > most)
        complete(r, draw(r, r->opens));
}

void plans_run(struct sim_rank *rank, void *program) {
    struct runner r = {.rank = rank, .program = program};

    expect_ok(&r, sim_init(rank, &r.job), "init");
    r.comm = tutti_world(r.job);
    bind_sets(&r);
    for (uint32_t i = 0; i < r.program->calls && !r.comm->ruin; i++) {
        complete_down_to(&r, PLANS_OUTSTANDING - 1);
        if (!r.comm->ruin)
            start(&r, i);
        if (draw(&r, 3) == 0)
            complete_down_to(&r, draw(&r, PLANS_OUTSTANDING));
    }
    complete_down_to(&r, 0);
    free_sets(&r);
    bool whole = !r.program->status[rank->rank];
    tutti_status status = sim_finalize(rank);
    if (whole && !r.program->status[rank->rank])
        r.program->status[rank->rank] = status;
}
