/*
 * What waiting costs: the last rank comes late to an allreduce, and the others tell the processor time
 * that they took meanwhile.
 */
#define _GNU_SOURCE /* nanosleep */
#include "apps/bench.h"

#include <stdlib.h>
#include <time.h>

static double cpu_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

static double wait_for_it(struct bench_world *world, double seconds) {
    float one = 1, sum = 0;
    bench_barrier(world);
    if (world->rank == world->size - 1)
        sleep_seconds(seconds);
    double start = cpu_now();
    if (world->backend->allreduce(world, &one, &sum, 1, BENCH_F32, BENCH_SUM))
        bench_fail(world, "allreduce: %s", world->backend->error(world));
    double took = cpu_now() - start;
    if (sum != (float)world->size)
        bench_fail(world, "the sum of %d ones is not %g", world->size, (double)sum);
    return took;
}

void bench_late(struct bench_world *world, const struct bench_options *options,
                struct bench_report *report) {
    if (world->size < 2)
        bench_fail(world, "late: somebody must wait: start two ranks or more");
    int64_t *cpu_us = calloc((size_t)world->size, sizeof *cpu_us);
    if (!cpu_us)
        bench_fail(world, "no memory for %d ranks", world->size);
    cpu_us[world->rank] = (int64_t)(wait_for_it(world, options->seconds) * 1e6);
    bench_sum_words(world, cpu_us, (size_t)world->size);
    bench_report_late(report, cpu_us, world->size - 1);
    free(cpu_us);
}
