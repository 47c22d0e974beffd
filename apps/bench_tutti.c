/* The benchmark's calls by tutti. */
#define _GNU_SOURCE /* setenv */
#include <stdio.h>
#include <stdlib.h>

#include "apps/bench.h"
#include "tutti/tutti.h"

struct tutti_state {
    tutti_job *job;
    tutti_comm *comm;
    char error[1024]; /* why there is no job */
};

/* bench's numbers are tutti's. */
static tutti_type type_of(enum bench_type type) {
    static const tutti_type of[BENCH_TYPES] = {TUTTI_I32, TUTTI_I64, TUTTI_F32, TUTTI_F64};
    return of[type];
}

static tutti_op op_of(enum bench_op op) {
    static const tutti_op of[BENCH_OPS] = {TUTTI_SUM,  TUTTI_PROD, TUTTI_MIN,  TUTTI_MAX,
                                           TUTTI_LAND, TUTTI_LOR,  TUTTI_LXOR, TUTTI_BAND,
                                           TUTTI_BOR,  TUTTI_BXOR};
    return of[op];
}

static tutti_call call_of(enum bench_call call) {
    switch (call) {
    case BENCH_ALLREDUCE:
        return TUTTI_CALL_ALLREDUCE;
    case BENCH_BCAST:
        return TUTTI_CALL_BCAST;
    default:
        return TUTTI_CALL_BARRIER;
    }
}

static int open_tutti(struct bench_world *world) {
    struct tutti_state *state = calloc(1, sizeof *state);
    if (!state)
        return 1;
    tutti_options options = {
        .size = sizeof options, .error = state->error, .error_bytes = sizeof state->error};
    world->state = state;
    tutti_status status = tutti_init(&options, &state->job);
    if (status)
        return 1;
    state->comm = tutti_world(state->job);
    world->rank = tutti_rank(state->comm);
    world->size = tutti_size(state->comm);
    snprintf(world->version, sizeof world->version, "tutti %s", tutti_version_string());
    return 0;
}

static void close_tutti(struct bench_world *world) {
    struct tutti_state *state = world->state;
    tutti_finalize(state->job);
    free(state);
}

static int reopen(struct bench_world *world, const char *algorithm) {
    close_tutti(world);
    world->state = NULL;
    if (setenv("TUTTI_ALLREDUCE", algorithm, 1))
        return 1;
    return open_tutti(world);
}

static int barrier(struct bench_world *world) {
    struct tutti_state *state = world->state;
    return tutti_barrier(state->comm);
}

static int bcast(struct bench_world *world, void *buffer, size_t count, enum bench_type type,
                 int root) {
    struct tutti_state *state = world->state;
    return tutti_bcast(buffer, count, type_of(type), root, state->comm);
}

static int allreduce(struct bench_world *world, const void *source, void *target, size_t count,
                     enum bench_type type, enum bench_op op) {
    struct tutti_state *state = world->state;
    return tutti_allreduce(source, target, count, type_of(type), op_of(op), state->comm);
}

static uint64_t heap_used(const struct tutti_state *state) {
    tutti_counters c = {.size = sizeof c};
    return tutti_get_counters(state->job, &c) ? 0 : c.heap_used_bytes;
}

static void *alloc(struct bench_world *world, size_t bytes, const char **kind) {
    struct tutti_state *state = world->state;
    void *memory = NULL;
    uint64_t before = heap_used(state);
    if (tutti_alloc(state->job, bytes, &memory))
        return NULL;
    *kind = heap_used(state) > before ? "shared" : "private";
    return memory;
}

static void release(struct bench_world *world, void *memory) {
    struct tutti_state *state = world->state;
    tutti_free(state->job, memory);
}

static const char *error(struct bench_world *world) {
    struct tutti_state *state = world->state;
    if (!state)
        return "no memory";
    return state->job ? tutti_last_error(state->job) : state->error;
}

static const char *algorithm(struct bench_world *world, enum bench_call call, size_t count,
                             enum bench_type type, enum bench_op op) {
    struct tutti_state *state = world->state;
    const char *name = tutti_algorithm(state->comm, call_of(call), count, type_of(type), op_of(op));
    return name ? name : "";
}

static const char *transports(struct bench_world *world) {
    struct tutti_state *state = world->state;
    const char *name = tutti_transports(state->comm);
    return name ? name : "";
}

static bool counts(struct bench_world *world, uint64_t count[BENCH_COUNTS]) {
    struct tutti_state *state = world->state;
    tutti_counters c = {.size = sizeof c};
    if (tutti_get_counters(state->job, &c))
        return false;
    count[BENCH_LINES] = c.lines;
    count[BENCH_WRITES] = c.writes;
    count[BENCH_CELLS] = c.cells;
    count[BENCH_BYTES] = c.bytes;
    count[BENCH_REQUESTS] = c.requests;
    count[BENCH_DOORBELLS] = c.doorbells;
    count[BENCH_COMPLETIONS] = c.completions;
    return true;
}

static uint64_t window(struct bench_world *world, uint64_t *used_bytes) {
    struct tutti_state *state = world->state;
    tutti_counters c = {.size = sizeof c};
    if (tutti_get_counters(state->job, &c))
        return 0;
    *used_bytes = c.window_used_bytes;
    return c.window_bytes;
}

const struct bench_backend bench_backend = {
    .program = "tutti-bench",
    .open = open_tutti,
    .close = close_tutti,
    .reopen = reopen,
    .barrier = barrier,
    .bcast = bcast,
    .allreduce = allreduce,
    .alloc_name = "tutti_alloc",
    .alloc = alloc,
    .release = release,
    .error = error,
    .algorithm = algorithm,
    .transports = transports,
    .counts = counts,
    .window = window,
};
