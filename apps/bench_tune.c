/*
 * Finds, for this number of ranks on these hosts, up to which size the algorithm for small vectors is
 * the better one: what the thresholds of collectives/select.c say. Both are forced in turns, each in a
 * job of its own, so that both see the same moods of the machine.
 */
#include "apps/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, MOST_SIZES = 64 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of both algorithms, all sizes and rounds. */
struct times {
    size_t bytes[MOST_SIZES], sizes;
    double us[2][MOST_SIZES][ROUNDS];
};

/* The entry of select.c's table that this job would use. */
static void find_entry(const struct bench_world *world, struct bench_tuned *tuned) {
    *tuned = (struct bench_tuned){.scale = 1, .algorithm = {"flat", "two_phase"}};
    if (world->hosts == 1 && world->size == 2) {
        tuned->entry = "flat_pair";
        tuned->algorithm[1] = "accumulate";
    } else if (world->hosts == 1) {
        tuned->entry = "flat"; /* of what all ranks give together */
        tuned->scale = (size_t)world->size;
    } else if (world->hosts == world->size) {
        tuned->entry = "ordered"; /* of what all ranks give together */
        tuned->scale = (size_t)world->size;
        tuned->algorithm[0] = "ordered";
        tuned->algorithm[1] = "circulant";
    } else {
        tuned->entry = "leaders"; /* of what all nodes give together */
        tuned->scale = (size_t)world->hosts;
        tuned->algorithm[0] = "leaders";
        tuned->algorithm[1] = "two_level";
    }
}

static void set_sizes(const struct bench_options *options, struct times *times) {
    times->sizes = 0;
    size_t least = bench_type_bytes(options->type);
    for (size_t bytes = options->min_bytes > least ? options->min_bytes : least;
         bytes <= options->max_bytes && times->sizes < MOST_SIZES; bytes *= options->factor) {
        times->bytes[times->sizes++] = bytes;
        if (bytes > SIZE_MAX / options->factor)
            break;
    }
}

static void run_round(struct bench_world *world, const struct bench_options *options, int round,
                      const struct bench_tuned *tuned, struct times *times) {
    for (int a = 0; a < 2; a++) {
        if (world->backend->reopen(world, tuned->algorithm[a]))
            bench_fail(world, "tune: %s: %s", tuned->algorithm[a], world->backend->error(world));
        for (size_t i = 0; i < times->sizes; i++) {
            struct bench_row row = {.bytes = times->bytes[i]};
            bench_measure(world, options, times->bytes[i], &row);
            if (strcmp(row.algorithm, tuned->algorithm[a]))
                bench_fail(world, "tune: %s ran where %s was forced", row.algorithm,
                           tuned->algorithm[a]);
            times->us[a][i][round] = row.median_us;
        }
    }
}

/* The largest size up to which the first is to be taken, so that the sum of the logarithms of all sizes'
   times is least; 0: never. */
static size_t best_split(const struct bench_tuned *tuned) {
    double gain = 0, most = 0;
    size_t best = 0;
    for (size_t i = 0; i < tuned->sizes; i++) {
        gain += log(tuned->us[1][i] / tuned->us[0][i]);
        if (gain > most) {
            most = gain;
            best = tuned->bytes[i];
        }
    }
    return best;
}

static void conclude(struct times *times, struct bench_tuned *tuned, double *us) {
    tuned->bytes = times->bytes;
    tuned->sizes = times->sizes;
    for (int a = 0; a < 2; a++) {
        tuned->us[a] = us + a * MOST_SIZES;
        for (size_t i = 0; i < times->sizes; i++) {
            qsort(times->us[a][i], ROUNDS, sizeof(double), by_value);
            us[a * MOST_SIZES + i] = fmax(times->us[a][i][ROUNDS / 2], 1e-6);
        }
    }
    tuned->up_to = best_split(tuned);
}

static void write_entry(const struct bench_world *world, const char *file,
                        const struct bench_tuned *tuned) {
    FILE *out = fopen(file, "w");
    if (!out)
        bench_fail(world, "--write: %s: %s", file, strerror(errno));
    fprintf(out, "    .%s = %zu, /* %d ranks on %d hosts */\n", tuned->entry,
            tuned->up_to * tuned->scale, world->size, world->hosts);
    if (fclose(out))
        bench_fail(world, "--write: %s can't be written", file);
}

void bench_tune(struct bench_world *world, const struct bench_options *options,
                struct bench_report *report) {
    struct bench_options some = *options;
    struct bench_tuned tuned;
    struct times *times = calloc(1, sizeof *times);
    double us[2 * MOST_SIZES];
    if (!times)
        bench_fail(world, "no memory for %d sizes", MOST_SIZES);
    if (!world->backend->reopen || world->size < 2)
        bench_fail(world, "tune: there is nothing to choose between");
    some.call = BENCH_ALLREDUCE;
    some.seconds /= ROUNDS * 2;
    find_entry(world, &tuned);
    set_sizes(options, times);
    for (int round = 0; round < ROUNDS; round++)
        run_round(world, &some, round, &tuned, times);
    conclude(times, &tuned, us);
    bench_report_tuned(report, world, &tuned);
    if (options->write && world->rank == 0)
        write_entry(world, options->write, &tuned);
    free(times);
}
