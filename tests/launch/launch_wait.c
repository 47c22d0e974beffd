/*
 * Waiting: ranks that fall asleep at random moments are back soon after the last one has come, and ranks
 * that share a core leave it to each other.
 */
#define _GNU_SOURCE /* sched_setaffinity, clock_gettime */
#include <sched.h>
#include <time.h>

#include "api/job.h"
#include "launched.h"

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- pauses ---- */

enum { CALLS = 600, CORE_CALLS = 200, SLACK_US = 5000000 };

/* Mostly about as long as spinning and yielding last, so that peers are met on the way to sleep. */
static unsigned draw_pause_us(unsigned *state) {
    static const unsigned most[] = {1, 50, 400, 1200, 1200, 2500, 2500, 20000};
    return next(state) % most[next(state) % 8];
}

static void call(struct ranks *ranks, unsigned kind, int32_t number) {
    static int32_t source[2000], target[2000];
    size_t count = kind % 2 ? 1 : 2000;
    target[0] = ranks->rank == 0 ? number : -1;
    source[0] = number;
    if (kind < 2) {
        SUCCEED(tutti_bcast(target, count, TUTTI_I32, 0, ranks->world));
        REQUIRE(target[0] == number, "call %d", number);
        return;
    }
    if (kind < 5)
        SUCCEED(tutti_allreduce(source, target, count, TUTTI_I32, TUTTI_SUM, ranks->world));
    else
        SUCCEED(tutti_barrier(ranks->world));
    REQUIRE(kind >= 5 || target[0] == number * ranks->size, "call %d", number);
}

/*
 * Each sleep is a slice of bounded length, so a call ends at most a slice or two after its last rank has
 * come: all of them together last no longer than all pauses and a slice for each. A machine that does
 * something else may add to that, within a slack.
 */
static void pauses(struct ranks *ranks) {
    unsigned state = 23;
    int64_t slept_us = 0;
    struct tu_waiter *waiter = &ranks->job->waiter;
    SUCCEED(tutti_barrier(ranks->world));
    int64_t begun = now_us();
    for (int i = 0; i < CALLS; i++) {
        unsigned longest = 0, kind = next(&state) % 6;
        for (int r = 0; r < ranks->size; r++) {
            unsigned pause = draw_pause_us(&state);
            longest = pause > longest ? pause : longest;
            if (r == ranks->rank && pause)
                usleep(pause);
        }
        slept_us += longest;
        call(ranks, kind, i);
    }
    int64_t took = now_us() - begun, bound = slept_us + (int64_t)CALLS * TU_WAIT_SLICE_MAX_US;
    REQUIRE(took < bound + SLACK_US, "%lld us of pauses became %lld us", (long long)slept_us,
            (long long)took);
    REQUIRE(waiter->yields > CALLS / 10, "only %llu yields", (unsigned long long)waiter->yields);
    REQUIRE(waiter->sleeps > CALLS / 10, "only %llu sleeps", (unsigned long long)waiter->sleeps);
    if (ranks->rank == 0)
        printf("%lld us of pauses took %lld us; rank 0: %llu spins, %llu yields, %llu sleeps\n",
               (long long)slept_us, (long long)took, (unsigned long long)waiter->spins,
               (unsigned long long)waiter->yields, (unsigned long long)waiter->sleeps);
}

/* ---- one core ---- */

/* As the launcher's binding or taskset would have it. */
static void stay_on_one_core(struct ranks *ranks) {
    cpu_set_t mask, one;
    int core = 0;
    REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0, "sched_getaffinity");
    while (!CPU_ISSET(core, &mask))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

static int64_t time_of_calls(struct ranks *ranks) {
    double one = 1, all;
    for (int i = 0; i < 50; i++)
        SUCCEED(tutti_allreduce(&one, &all, 1, TUTTI_F64, TUTTI_SUM, ranks->world));
    SUCCEED(tutti_barrier(ranks->world));
    int64_t begun = now_us();
    for (int i = 0; i < CORE_CALLS; i++)
        SUCCEED(tutti_allreduce(&one, &all, 1, TUTTI_F64, TUTTI_SUM, ranks->world));
    return now_us() - begun;
}

/* Ranks that share a core find it out and yield at once; told to spin, they wait for each other's
   turns. The two are compared in one run, by a factor that is far from what is usual (over 100). */
static void one_core(struct ranks *ranks) {
    stay_on_one_core(ranks);
    rejoin(ranks);
    int64_t yielding = time_of_calls(ranks);
    REQUIRE(ranks->job->waiter.spin_polls == 0 && ranks->job->waiter.spins == 0,
            "spins although there are more ranks than cores");
    REQUIRE(ranks->job->waiter.yields > CORE_CALLS / 4, "did not yield");
    set_knob(ranks, "TUTTI_SPIN", "2000");
    rejoin(ranks);
    int64_t spinning = time_of_calls(ranks);
    REQUIRE(ranks->job->waiter.spins > 1000, "was told to spin and did not");
    REQUIRE(2 * yielding < spinning, "%d calls took %lld us yielding, %lld us spinning", CORE_CALLS,
            (long long)yielding, (long long)spinning);
    if (ranks->rank == 0)
        printf("%d calls took %lld us yielding, %lld us spinning\n", CORE_CALLS,
               (long long)yielding, (long long)spinning);
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"pauses", pauses}, {"one_core", one_core}, {0}};
    return launched_main(argc, argv, tests);
}
