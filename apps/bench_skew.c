/*
 * Ranks that do not arrive together: each waits for a random time before a call, and moments of arrival
 * and end are kept. A call's time is that from the last arrival to the last end, whatever the ranks that
 * came before have waited. All ranks must read one clock.
 */
#include "apps/bench.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 1 << 14 };

struct bench_skew {
    struct bench_world *world;
    double longest_s;
    uint64_t random;
    size_t calls; /* kept */
    double arrived[MOST_CALLS], ended[MOST_CALLS], last[MOST_CALLS];
};

struct bench_skew *bench_skew_open(struct bench_world *world, double longest_us) {
    if (longest_us < 0)
        return NULL;
    if (world->hosts > 1)
        bench_fail(world, "--skew compares clocks: all ranks must run on one host, not %d",
                   world->hosts);
    struct bench_skew *skew = calloc(1, sizeof *skew);
    if (!skew)
        bench_fail(world, "no memory for the moments of %d calls", MOST_CALLS);
    skew->world = world;
    skew->longest_s = longest_us * 1e-6;
    skew->random = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(world->rank + 1);
    return skew;
}

void bench_skew_close(struct bench_skew *skew) {
    free(skew);
}

uint64_t bench_skew_most(void) {
    return MOST_CALLS;
}

/* From 0 to 1: xorshift64*. */
static double draw(struct bench_skew *skew) {
    uint64_t x = skew->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    skew->random = x;
    return (double)(x * UINT64_C(0x2545f4914f6cdd1d) >> 11) * 0x1p-53;
}

void bench_skew_arrive(struct bench_skew *skew) {
    double now = bench_now(), until = now + draw(skew) * skew->longest_s;
    while (now < until)
        now = bench_now();
    skew->arrived[skew->calls] = now;
}

void bench_skew_end(struct bench_skew *skew) {
    skew->ended[skew->calls++] = bench_now();
}

static void latest(struct bench_skew *skew, double *moment) {
    struct bench_world *world = skew->world;
    if (world->backend->allreduce(world, moment, skew->last, skew->calls, BENCH_F64, BENCH_MAX))
        bench_fail(world, "allreduce of moments: %s", world->backend->error(world));
    memcpy(moment, skew->last, skew->calls * sizeof *moment);
}

double bench_skew_seconds(struct bench_skew *skew) {
    double sum = 0;
    latest(skew, skew->arrived);
    latest(skew, skew->ended);
    for (size_t i = 0; i < skew->calls; i++)
        sum += skew->ended[i] - skew->arrived[i];
    skew->calls = 0;
    return sum;
}
