/* Simulated ranks: their turns, and the simulation's end. See ranks.h. */
#include "tests/sim/ranks.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "tests/sim/clock.h"
#include "tests/sim/random.h"

enum {
    PATIENCE_NS = 2000000000, /* of nothing at all, before it is a deadlock */
    SILENT_STEP_NS = 5000000,
    TURN_NS = 1000, /* of one turn, at most */
};

/* ---- turns ---- */

/* Nothing has moved while everybody had several turns. */
static bool is_quiet(const struct sim *sim) {
    return sim->quiet > 4 * sim->settings.ranks + 8;
}

static uint64_t next_wake(const struct sim *sim) {
    uint64_t next = UINT64_MAX;

    for (uint32_t r = 0; r < sim->settings.ranks; r++)
        if (sim->rank[r].state == SIM_ASLEEP && sim->rank[r].wake_ns < next)
            next = sim->rank[r].wake_ns;
    return next;
}

/* When something happens by itself; UINT64_MAX: never. */
static uint64_t next_thing(const struct sim *sim) {
    uint64_t event = sim_network_next(sim->network), wake = next_wake(sim);
    return event < wake ? event : wake;
}

/* Nothing comes any more, unless somebody's patience ends. */
static bool is_suspicious(const struct sim *sim) {
    return is_quiet(sim) && next_thing(sim) == UINT64_MAX;
}

static void give_up(struct sim *sim, const char *text) {
    if (sim->failed)
        return;
    sim->failed = true;
    snprintf(sim->failure, sizeof sim->failure, "%s", text);
}

static void deadlock(struct sim *sim) {
    char text[sizeof sim->failure - 64];

    sim_report(sim, text, sizeof text);
    if (sim->failed)
        return;
    sim->failed = true;
    snprintf(sim->failure, sizeof sim->failure, "nothing moves any more:%s", text);
}

static void jump(struct sim *sim, uint64_t to_ns) {
    sim_network_pass(sim->network, to_ns > sim->network->now_ns ? to_ns - sim->network->now_ns : 0);
}

static void pass_time(struct sim *sim) {
    uint64_t next = next_thing(sim);

    if (!is_quiet(sim)) {
        sim_network_pass(sim->network, sim_below(&sim->random, TURN_NS));
    } else if (next != UINT64_MAX) {
        jump(sim, next);
    } else {
        sim_network_pass(sim->network, SILENT_STEP_NS / sim->settings.ranks);
        if (sim->network->now_ns - sim->noise_ns > PATIENCE_NS)
            deadlock(sim);
    }
    for (uint32_t r = 0; r < sim->settings.ranks; r++)
        if (sim->rank[r].state == SIM_ASLEEP && sim->rank[r].wake_ns <= sim->network->now_ns) {
            sim->rank[r].state = SIM_READY;
            sim->quiet = 0;
            sim->noise_ns = sim->network->now_ns;
        }
}

static uint32_t in_state(const struct sim *sim, enum sim_state state) {
    uint32_t n = 0;

    for (uint32_t r = 0; r < sim->settings.ranks; r++)
        n += sim->rank[r].state == state;
    return n;
}

static struct sim_rank *draw(struct sim *sim) {
    for (;;) {
        struct sim_rank *rank = &sim->rank[sim_below(&sim->random, sim->settings.ranks)];
        if (rank->state == SIM_READY && sim_below(&sim->random, 8) < rank->weight)
            return rank;
    }
}

/* Whose turn it is; NULL: it is over. */
static struct sim_rank *choose(struct sim *sim) {
    pass_time(sim);
    while (!sim->failed && in_state(sim, SIM_READY) == 0) {
        uint64_t next = next_wake(sim);
        if (in_state(sim, SIM_OVER) == sim->settings.ranks)
            return NULL;
        if (next == UINT64_MAX)
            give_up(sim, "ranks wait in the bootstrap for ever");
        else
            jump(sim, next);
        pass_time(sim);
    }
    return sim->failed ? NULL : draw(sim);
}

static void switch_away(struct sim_rank *rank) {
    struct sim *sim = rank->sim;
    struct sim_rank *next = choose(sim);

    if (next != rank)
        fiber_switch(&rank->fiber, next ? &next->fiber : &sim->thread);
}

/* ---- quiet ---- */

static uint64_t counted(const struct sim_rank *rank) {
    const struct tu_counters *c = rank->job ? &rank->job->counters : NULL;
    return c ? c->lines + c->writes + c->cells : 0;
}

/* One more wait: has anything moved since the last one? */
static void listen(struct sim_rank *rank) {
    struct sim *sim = rank->sim;
    uint64_t noise = sim->network->landed + sim->network->requests, moved = counted(rank);

    sim->quiet++;
    if (noise == sim->noise && moved == rank->moved)
        return;
    sim->quiet = 0;
    sim->noise = noise;
    sim->noise_ns = sim->network->now_ns;
    rank->moved = moved;
}

void sim_pause(struct sim_rank *rank) {
    listen(rank);
    switch_away(rank);
}

void sim_sleep(struct sim_rank *rank, uint64_t ns) {
    rank->wake_ns = rank->sim->network->now_ns + ns;
    rank->state = SIM_ASLEEP;
    switch_away(rank);
}

/* ---- what the library calls ---- */

static bool idle(void *context) {
    struct sim_rank *rank = context;
    struct sim *sim = rank->sim;

    sim_pause(rank);
    return is_suspicious(sim) || sim_chance(&sim->random, sim->settings.look);
}

static bool decline(void *context) {
    struct sim_rank *rank = context;
    struct sim *sim = rank->sim;

    if (is_suspicious(sim))
        return false;
    if (sim_chance(&sim->random, sim->settings.interrupt))
        switch_away(rank);
    return sim_chance(&sim->random, sim->settings.decline);
}

static void configure(void *context, struct tu_config *config) {
    const struct sim_rank *rank = context;
    const struct sim_settings *settings = &rank->sim->settings;

    if (settings->config)
        *config = *settings->config;
    if (settings->label)
        snprintf(config->node, sizeof config->node, "n%u", settings->label[rank->rank]);
}

static void log_line(void *context, int level, const char *line) {
    struct sim_rank *rank = context;

    snprintf(rank->log, sizeof rank->log, "%s", line);
    if (level == TU_LOG_ERROR && !rank->first_error[0])
        snprintf(rank->first_error, sizeof rank->first_error, "%s", line);
}

/* ---- the bootstrap ---- */

static void end_gathering(struct sim *sim, int code) {
    for (uint32_t r = 0; r < sim->settings.ranks; r++)
        if (sim->rank[r].state == SIM_GATHERING) {
            sim->rank[r].state = SIM_READY;
            sim->rank[r].code = code;
        }
    sim->quiet = 0;
}

static void gather(struct sim *sim) {
    uint32_t ranks = sim->settings.ranks;

    for (uint32_t r = 0; r < ranks; r++)
        if (sim->rank[r].bytes != sim->rank[0].bytes) {
            give_up(sim, "ranks gather blocks of different sizes");
            return;
        }
    for (uint32_t to = 0; to < ranks; to++)
        for (uint32_t from = 0; from < ranks; from++)
            memcpy((char *)sim->rank[to].received + from * sim->rank[from].bytes,
                   sim->rank[from].mine, sim->rank[from].bytes);
}

static int allgather(void *context, const void *mine, void *received, size_t bytes) {
    struct sim_rank *rank = context;
    struct sim *sim = rank->sim;

    rank->mine = mine;
    rank->received = received;
    rank->bytes = bytes;
    rank->state = SIM_GATHERING;
    if (in_state(sim, SIM_GATHERING) == sim->settings.ranks) {
        gather(sim);
        end_gathering(sim, 0);
    } else if (in_state(sim, SIM_OVER) > 0) {
        end_gathering(sim, EOWNERDEAD);
    }
    switch_away(rank);
    return rank->code;
}

tutti_status sim_init(struct sim_rank *rank, tutti_job **job) {
    const struct sim_settings *settings = &rank->sim->settings;

    rank->options = (tutti_options){.size = sizeof rank->options,
                                    .allgather = allgather,
                                    .allgather_context = rank,
                                    .rank = (int)rank->rank,
                                    .ranks = (int)settings->ranks,
                                    .log = log_line,
                                    .log_context = rank};
    rank->hooks =
        (struct tu_hooks){.context = rank,
                          .idle = idle,
                          .decline = settings->decline || settings->interrupt ? decline : NULL,
                          .configure = configure,
                          .wire = &sim_transport,
                          .wire_context = rank->sim->network,
                          .first_number = settings->first_number,
                          .no_sharing = settings->no_sharing};
    tutti_status status = tu_job_open(&rank->options, &rank->hooks, job);
    if (!status)
        rank->job = *job;
    rank->moved = 0;
    return status;
}

tutti_status sim_finalize(struct sim_rank *rank) {
    tutti_job *job = rank->job;
    tutti_status status;

    rank->job = NULL; /* its counters vanish during the call */
    status = tutti_finalize(job);
    if (status == TUTTI_ERR_BUSY)
        rank->job = job;
    return status;
}

/* ---- the whole ---- */

void sim_fail(struct sim_rank *rank, const char *format, ...) {
    struct sim *sim = rank->sim;
    char text[1000], whole[1100];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole, "rank %u: %s", rank->rank, text);
    give_up(sim, whole);
    fiber_switch(&rank->fiber, &sim->thread);
    __builtin_unreachable();
}

/* A fiber runs one body after the other, as long as the simulations succeed. */
static void rank_main(void *context) {
    struct sim_rank *rank = context;
    struct sim *sim = rank->sim;

    for (;;) {
        sim->settings.body(rank, sim->settings.context);
        rank->state = SIM_OVER;
        sim->quiet = 0;
        if (in_state(sim, SIM_GATHERING) > 0)
            end_gathering(sim, EOWNERDEAD);
        switch_away(rank);
    }
}

struct sim *sim_make(void) {
    struct sim *sim = calloc(1, sizeof *sim);

    assert(sim);
    sim->rank = calloc(SIM_MAX_RANKS, sizeof *sim->rank);
    assert(sim->rank);
    fiber_of_thread(&sim->thread);
    return sim;
}

static void free_fibers(struct sim *sim) {
    while (sim->fibers > 0)
        fiber_free(&sim->rank[--sim->fibers].fiber);
}

void sim_free(struct sim *sim) {
    free_fibers(sim);
    free(sim->rank);
    free(sim);
}

struct sim_settings sim_settings_of(uint64_t seed, uint32_t ranks) {
    struct sim_network *calm = sim_network_make(1, 0);
    struct sim_settings settings = {
        .seed = seed, .ranks = ranks, .network = calm->profile, .look = 32};

    sim_network_free(calm);
    return settings;
}

static void prepare_rank(struct sim *sim, uint32_t r) {
    struct sim_rank *rank = &sim->rank[r];
    struct fiber fiber = rank->fiber;

    *rank = (struct sim_rank){.sim = sim,
                              .rank = r,
                              .random = sim_stream(sim->settings.seed, 16 + r),
                              .weight = 1 + sim_below(&sim->random, 8),
                              .fiber = fiber};
    if (r == sim->fibers) {
        fiber_make(&rank->fiber, rank_main, rank);
        sim->fibers++;
    }
}

bool sim_run(struct sim *sim, const struct sim_settings *settings) {
    assert(settings->ranks >= 1 && settings->ranks <= SIM_MAX_RANKS);
    sim->settings = *settings;
    sim->random = sim_stream(settings->seed, 1);
    sim->network = sim_network_make(settings->ranks, sim_stream(settings->seed, 2));
    sim->network->profile = settings->network;
    sim->quiet = 0;
    sim->noise = sim->noise_ns = 0;
    sim->failed = false;
    for (uint32_t r = 0; r < settings->ranks; r++)
        prepare_rank(sim, r);
    sim_clock_follow(&sim->network->now_ns);
    struct sim_rank *first = choose(sim);
    fiber_switch(&sim->thread, &first->fiber);
    sim_clock_follow(NULL);
    if (sim->failed)
        free_fibers(sim); /* they stand where the failure found them */
    sim_network_free(sim->network);
    sim->network = NULL;
    return !sim->failed;
}
