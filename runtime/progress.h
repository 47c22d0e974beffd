/*
 * The one waiting place. A wait goes through
 * three stages: it spins for a bounded number of polls, then yields its core, then, after a
 * millisecond in which nothing moved, sleeps. Sleeps are bounded slices, after each of which the
 * caller polls again: so no wake-up can be lost, and writers need no fence on their fast path.
 *
 *     tu_wait_begin(&waiter);
 *     while (!done)
 *         if (progress passes moved something ? tu_wait_moved(&waiter) : tu_wait_step(&waiter))
 *             look at what is slow to look at: lost peers, deadlines, who is late
 */
#ifndef TU_RUNTIME_PROGRESS_H
#define TU_RUNTIME_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;

enum {
    TU_WAIT_PERIOD_MS = 10,  /* between two looks at what is slow to look at */
    TU_WAIT_YIELD_US = 1000, /* of nothing, before sleeping */
    TU_WAIT_SLICE_PART = 16, /* a sleep is this part of the time that nothing moved, within */
    TU_WAIT_SLICE_MIN_US = 50,
    TU_WAIT_SLICE_MAX_US = 4000,
    TU_WAIT_SPIN_POLLS = 500,    /* bound of spinning where every rank has a core */
    TU_WAIT_CLOCK_PASSES = 4096, /* passes without a look at the clock, at most */
};

enum tu_wait_stage { TU_WAIT_SPIN, TU_WAIT_YIELD, TU_WAIT_SLEEP };

/* One per job, used by the thread that is in the job. */
struct tu_waiter {
    uint32_t spin_polls; /* bound of spinning; 0: waits start at yielding */
    enum tu_wait_stage stage;
    uint32_t polls;                 /* in a row that moved nothing, while spinning */
    uint32_t clock_passes;          /* since the clock was read */
    uint32_t slice_us;              /* of the next sleep */
    uint64_t begun_ns;              /* when this wait first read the clock; 0: not yet */
    uint64_t still_ns;              /* when the yielding began; 0: not read yet */
    uint64_t checked_ns;            /* when the caller was last told to look */
    uint64_t now_ns;                /* the last reading of the clock */
    uint64_t spins, yields, sleeps; /* counts, of all waits */
};

/*
 * spin_polls: TUTTI_SPIN; below 0 the bound follows from the cores that this node's ranks may use: with
 * more ranks than cores, spinning takes the core away from the rank that is waited for.
 */
void tu_waiter_init(struct tu_waiter *waiter, int spin_polls, int cores, int ranks_on_node);

/* A new wait. Does not read the clock. */
void tu_wait_begin(struct tu_waiter *waiter);

/* Is it spinning? Then the caller may look at a single word for a while, with tu_pause() in between,
   before it makes another pass. */
static inline bool tu_wait_spins(const struct tu_waiter *waiter) {
    return waiter->stage == TU_WAIT_SPIN;
}

/* Tells the core that this is a spin loop: a sibling thread gets its resources, and energy is saved. */
static inline void tu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* yield is no pause on most cores */
#endif
}

/*
 * After a pass that moved nothing: spins, yields or sleeps. True if TU_WAIT_PERIOD_MS have passed since
 * it (or tu_wait_moved) last said so; then waiter->now_ns is fresh.
 */
bool tu_wait_step(struct tu_waiter *waiter);

/* After a pass that moved something: back to the first stage. Returns as tu_wait_step does. */
bool tu_wait_moved(struct tu_waiter *waiter);

/*
 * How long this wait lasts, for deadlines: counted from the end of its first spinning, and 0 before.
 */
uint64_t tu_wait_elapsed_ns(const struct tu_waiter *waiter);

#endif
