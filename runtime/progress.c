/* The one waiting place. */
#include "runtime/progress.h"

#include <sched.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/env.h"

static const uint64_t ns_per_us = 1000;

/* ---- waiting ------------------------------------------------------------------------------- */

void tu_waiter_init(struct tu_waiter *waiter, int spin_polls, int cores, int ranks_on_node) {
    if (spin_polls < 0) {
        spin_polls = ranks_on_node > cores ? 0 : TU_WAIT_SPIN_POLLS;
    }
    *waiter = (struct tu_waiter){.spin_polls = (uint32_t)spin_polls};
    tu_wait_begin(waiter);
}

static void first_stage(struct tu_waiter *waiter) {
    waiter->stage = waiter->spin_polls ? TU_WAIT_SPIN : TU_WAIT_YIELD;
    waiter->polls = 0;
    waiter->still_ns = 0;
    waiter->slice_us = TU_WAIT_SLICE_MIN_US;
}

void tu_wait_begin(struct tu_waiter *waiter) {
    waiter->begun_ns = 0;
    first_stage(waiter);
}

/* Reads the clock; true if it is time for the caller to look at what is slow. */
static bool look_at_clock(struct tu_waiter *waiter) {
    waiter->now_ns = tu_now_ns();
    waiter->clock_passes = 0;
    if (!waiter->begun_ns) {
        waiter->begun_ns = waiter->now_ns;
    }
    if (waiter->now_ns - waiter->checked_ns < TU_WAIT_PERIOD_MS * 1000 * ns_per_us) {
        return false;
    }
    waiter->checked_ns = waiter->now_ns;
    return true;
}

/* Where something always moves, or one stage is never left, the clock is still looked at sometimes. */
static bool pass_without_clock(struct tu_waiter *waiter) {
    return ++waiter->clock_passes >= TU_WAIT_CLOCK_PASSES && look_at_clock(waiter);
}

static void sleep_slice(struct tu_waiter *waiter) {
    struct timespec slice = {.tv_nsec = (long)(waiter->slice_us * ns_per_us)};

    nanosleep(&slice, NULL); /* a signal only ends it early */
    waiter->sleeps++;
}

/* Long waits are looked at less often: a late peer is noticed after a small part of its delay. */
static void choose_slice(struct tu_waiter *waiter) {
    uint64_t part = (waiter->now_ns - waiter->still_ns) / ns_per_us / TU_WAIT_SLICE_PART;

    if (part > waiter->slice_us) {
        waiter->slice_us = part < TU_WAIT_SLICE_MAX_US ? (uint32_t)part : TU_WAIT_SLICE_MAX_US;
    }
}

static bool spin(struct tu_waiter *waiter) {
    waiter->spins++;
    if (++waiter->polls >= waiter->spin_polls) {
        waiter->stage = TU_WAIT_YIELD;
    }
    tu_pause();
    return pass_without_clock(waiter);
}

bool tu_wait_step(struct tu_waiter *waiter) {
    if (waiter->stage == TU_WAIT_SPIN) {
        return spin(waiter);
    }
    if (waiter->stage == TU_WAIT_YIELD) {
        sched_yield();
        waiter->yields++;
    } else {
        sleep_slice(waiter);
        bool look = look_at_clock(waiter);
        choose_slice(waiter);
        return look;
    }
    bool look = look_at_clock(waiter);
    if (!waiter->still_ns) {
        waiter->still_ns = waiter->now_ns;
    } else if (waiter->now_ns - waiter->still_ns >= TU_WAIT_YIELD_US * ns_per_us) {
        waiter->stage = TU_WAIT_SLEEP;
    }
    return look;
}

bool tu_wait_moved(struct tu_waiter *waiter) {
    first_stage(waiter);
    return pass_without_clock(waiter);
}

uint64_t tu_wait_elapsed_ns(const struct tu_waiter *waiter) {
    return waiter->begun_ns ? waiter->now_ns - waiter->begun_ns : 0;
}
