/*
 * The benchmark's calls by an MPI: with its own mpi.h, or, with BENCH_MPI_ABI, with the standard ABI, so
 * that one program runs on every library that has it.
 */
#ifdef BENCH_MPI_ABI
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench.h"

struct mpi_state {
    char error[MPI_MAX_ERROR_STRING + 64];
};

static MPI_Datatype type_of(enum bench_type type) {
    switch (type) {
    case BENCH_I32:
        return MPI_INT32_T;
    case BENCH_I64:
        return MPI_INT64_T;
    case BENCH_F32:
        return MPI_FLOAT;
    default:
        return MPI_DOUBLE;
    }
}

static MPI_Op op_of(enum bench_op op) {
    switch (op) {
    case BENCH_SUM:
        return MPI_SUM;
    case BENCH_PROD:
        return MPI_PROD;
    case BENCH_MIN:
        return MPI_MIN;
    case BENCH_MAX:
        return MPI_MAX;
    case BENCH_LAND:
        return MPI_LAND;
    case BENCH_LOR:
        return MPI_LOR;
    case BENCH_LXOR:
        return MPI_LXOR;
    case BENCH_BAND:
        return MPI_BAND;
    case BENCH_BOR:
        return MPI_BOR;
    default:
        return MPI_BXOR;
    }
}

/* Keeps the text of a failure. */
static int note(struct bench_world *world, int code) {
    struct mpi_state *state = world->state;
    int length = 0;
    if (code == MPI_SUCCESS)
        return 0;
    if (MPI_Error_string(code, state->error, &length))
        snprintf(state->error, sizeof state->error, "MPI error %d", code);
    return 1;
}

static int fits(struct bench_world *world, size_t count) {
    struct mpi_state *state = world->state;
    if (count <= INT_MAX)
        return 0;
    snprintf(state->error, sizeof state->error, "%zu elements are more than an int holds", count);
    return 1;
}

/* Name and number, without the build's details that some libraries add. */
static void keep_name(struct bench_world *world, const char *text) {
    size_t length = 0, blanks = 0;
    for (const char *c = text; *c && !strchr("\n,", *c); c++) {
        bool blank = *c == ' ' || *c == '\t';
        blanks = blank ? blanks + 1 : 0;
        if (blanks <= 1 && length + 1 < sizeof world->version)
            world->version[length++] = blank ? ' ' : *c;
    }
    world->version[length] = 0;
}

static int open_mpi(struct bench_world *world) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    world->state = calloc(1, sizeof(struct mpi_state));
    if (!world->state || note(world, MPI_Init(NULL, NULL)))
        return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world->size);
    if (MPI_Get_library_version(version, &length))
        version[0] = 0;
    keep_name(world, version);
    return 0;
}

static void close_mpi(struct bench_world *world) {
    free(world->state);
    MPI_Finalize();
}

static int barrier(struct bench_world *world) {
    return note(world, MPI_Barrier(MPI_COMM_WORLD));
}

static int bcast(struct bench_world *world, void *buffer, size_t count, enum bench_type type,
                 int root) {
    return fits(world, count) ||
           note(world, MPI_Bcast(buffer, (int)count, type_of(type), root, MPI_COMM_WORLD));
}

static int allreduce(struct bench_world *world, const void *source, void *target, size_t count,
                     enum bench_type type, enum bench_op op) {
    return fits(world, count) ||
           note(world, MPI_Allreduce(source, target, (int)count, type_of(type), op_of(op),
                                     MPI_COMM_WORLD));
}

static void *alloc(struct bench_world *world, size_t bytes, const char **kind) {
    void *memory = NULL;
    if (note(world, MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory)))
        return NULL;
    *kind = "MPI's";
    return memory;
}

static void release(struct bench_world *world, void *memory) {
    note(world, MPI_Free_mem(memory));
}

static const char *error(struct bench_world *world) {
    struct mpi_state *state = world->state;
    return state ? state->error : "no memory";
}

/* ---- MPI does not tell ---- */

static const char *algorithm(struct bench_world *world, enum bench_call call, size_t count,
                             enum bench_type type, enum bench_op op) {
    (void)world, (void)call, (void)count, (void)type, (void)op;
    return "";
}

static const char *transports(struct bench_world *world) {
    (void)world;
    return "";
}

static bool counts(struct bench_world *world, uint64_t count[BENCH_COUNTS]) {
    (void)world, (void)count;
    return false;
}

static uint64_t window(struct bench_world *world, uint64_t *used_bytes) {
    (void)world, (void)used_bytes;
    return 0;
}

const struct bench_backend bench_backend = {
    .program = "mpi-bench",
    .open = open_mpi,
    .close = close_mpi,
    .barrier = barrier,
    .bcast = bcast,
    .allreduce = allreduce,
    .alloc_name = "MPI_Alloc_mem",
    .alloc = alloc,
    .release = release,
    .error = error,
    .algorithm = algorithm,
    .transports = transports,
    .counts = counts,
    .window = window,
};
