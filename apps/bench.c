/* main() of the benchmark, and what its parts share: failing, and calls over all ranks. */
#include "apps/bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

_Noreturn void bench_fail(const struct bench_world *world, const char *format, ...) {
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: rank %d: %s\n", world->backend->program, world->rank, text);
    exit(1);
}

/* ---- over all ranks ---- */

void bench_barrier(struct bench_world *world) {
    if (world->backend->barrier(world))
        bench_fail(world, "barrier: %s", world->backend->error(world));
}

void bench_max_times(struct bench_world *world, double *time, size_t times) {
    double most[8];
    if (times > sizeof most / sizeof *most)
        bench_fail(world, "%zu times at once", times);
    if (world->backend->allreduce(world, time, most, times, BENCH_F64, BENCH_MAX))
        bench_fail(world, "allreduce of times: %s", world->backend->error(world));
    memcpy(time, most, times * sizeof *time);
}

double bench_max(struct bench_world *world, double value) {
    bench_max_times(world, &value, 1);
    return value;
}

static void combine(struct bench_world *world, int64_t *word, size_t words, enum bench_op op) {
    int64_t *result = malloc(words * sizeof *result);
    if (!result)
        bench_fail(world, "no memory for %zu words", words);
    if (world->backend->allreduce(world, word, result, words, BENCH_I64, op))
        bench_fail(world, "allreduce of %zu words: %s", words, world->backend->error(world));
    memcpy(word, result, words * sizeof *result);
    free(result);
}

void bench_sum_words(struct bench_world *world, int64_t *word, size_t words) {
    combine(world, word, words, BENCH_SUM);
}

void bench_max_words(struct bench_world *world, int64_t *word, size_t words) {
    combine(world, word, words, BENCH_MAX);
}

/* ---- the run ---- */

/* Launchers tell the rank before the library can. */
static bool may_be_rank0(void) {
    static const char *const variable[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        const char *rank = getenv(variable[i]);
        if (rank && *rank)
            return strcmp(rank, "0") == 0;
    }
    return true;
}

/* The core of each rank, or NULL if not all are pinned to one. */
static int *gather_cpus(struct bench_world *world) {
    bool all = true;
    int64_t *word = calloc((size_t)world->size, sizeof *word);
    int *cpu = calloc((size_t)world->size, sizeof *cpu);
    if (!word || !cpu)
        bench_fail(world, "no memory for %d ranks", world->size);
    word[world->rank] = world->cpu;
    bench_sum_words(world, word, (size_t)world->size);
    for (int r = 0; r < world->size; r++) {
        cpu[r] = (int)word[r];
        all = all && cpu[r] >= 0;
    }
    free(word);
    if (all)
        return cpu;
    free(cpu);
    return NULL;
}

/* The floor is that of ranks of one host which all reduce, or do no more than meet. */
static void set_floor(const struct bench_world *world, const struct bench_options *options,
                      const struct bench_floor *floor, struct bench_row *row) {
    if (floor && world->hosts == 1 && options->call != BENCH_BCAST)
        row->floor_us = bench_floor_us(floor, row->handoff_ns, world->size, row->bytes);
}

/* The floor as it is now, cores move. Returns the hand-off. */
static double refresh(struct bench_world *world, const struct bench_options *options,
                      struct bench_floor *floor) {
    if (!options->floor)
        return 0;
    bench_refresh_alone(world, floor);
    return world->rank == 0 ? floor->handoff_ns : 0;
}

static void measure_sizes(struct bench_world *world, const struct bench_options *options,
                          struct bench_floor *floor, struct bench_report *report) {
    bool once = options->call == BENCH_BARRIER;
    double handoff_ns = refresh(world, options, floor);
    for (size_t bytes = once ? 0 : options->min_bytes; bytes <= options->max_bytes;
         bytes = bytes ? bytes * options->factor : bench_type_bytes(options->type)) {
        struct bench_row row = {.bytes = bytes, .handoff_ns = handoff_ns};
        bench_measure(world, options, bytes, &row);
        set_floor(world, options, floor, &row);
        row.handoff_after_ns = handoff_ns = refresh(world, options, floor);
        bench_report_row(report, &row);
        if (once || row.slow || bytes > SIZE_MAX / options->factor)
            break;
    }
}

int main(int argc, char **argv) {
    struct bench_world world = {.backend = &bench_backend, .cpu = -1};
    struct bench_options options;
    struct bench_floor floor;
    uint64_t used = 0;

    bench_parse(argc, argv, may_be_rank0(), &options);
    if (bench_backend.open(&world))
        bench_fail(&world, "%s", bench_backend.error(&world));
    bench_place(&world, options.pin);
    int *cpu_of = gather_cpus(&world);
    struct bench_floor *known = options.floor || options.call == BENCH_FLOOR ? &floor : NULL;
    if (known)
        bench_floor_alone(&world, known);
    struct bench_report *report = bench_report_open(&world, &options, known, cpu_of);
    if (options.call == BENCH_LATE)
        bench_late(&world, &options, report);
    else if (options.call == BENCH_TUNE)
        bench_tune(&world, &options, report);
    else if (options.call != BENCH_FLOOR)
        measure_sizes(&world, &options, known, report);
    uint64_t window = bench_backend.window(&world, &used);
    int status = bench_report_close(report, window, used);
    free(cpu_of);
    bench_backend.close(&world);
    return status;
}
