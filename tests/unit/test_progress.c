/* The waiting place: stages, their cost, and looks at what is slow. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include "capture.h"
#include "runtime/clock.h"
#include "runtime/progress.h"

static const uint64_t ms = 1000000;

static uint64_t cpu_ns(void) {
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 * ms + (uint64_t)used.tv_nsec;
}

/* ---- waiting ------------------------------------------------------------------------------- */

Test(wait, first_stage_follows_cores, .timeout = 10) {
    struct tu_waiter w;

    tu_waiter_init(&w, -1, 2, 2);
    cr_expect_eq(w.stage, TU_WAIT_SPIN);
    cr_expect_eq(w.spin_polls, TU_WAIT_SPIN_POLLS);
    tu_waiter_init(&w, -1, 2, 3);
    cr_expect_eq(w.stage, TU_WAIT_YIELD);
    tu_waiter_init(&w, 50, 2, 3); /* the user's word counts */
    cr_expect_eq(w.stage, TU_WAIT_SPIN);
    cr_expect_eq(w.spin_polls, 50);
    tu_waiter_init(&w, 0, 8, 1);
    cr_expect_eq(w.stage, TU_WAIT_YIELD);
}

Test(wait, spinning_reads_no_clock, .timeout = 10) {
    struct tu_waiter w;

    tu_waiter_init(&w, 100, 2, 2);
    tu_wait_begin(&w);
    for (int i = 0; i < 100; i++) {
        cr_expect_eq(w.stage, TU_WAIT_SPIN);
        cr_expect_not(tu_wait_step(&w));
    }
    cr_expect_eq(w.now_ns, 0);
    cr_expect_eq(w.spins, 100);
    cr_expect_eq(w.stage, TU_WAIT_YIELD);
    cr_expect_eq(tu_wait_elapsed_ns(&w), 0);
    cr_expect(tu_wait_step(&w), "the first look is due at once");
    cr_expect_eq(w.yields, 1);
    cr_expect_neq(w.now_ns, 0);
}

Test(wait, waiting_long_costs_little, .timeout = 10) {
    struct tu_waiter w;
    uint64_t begun = tu_now_ns(), cpu = cpu_ns(), wall;
    int looks = 0;

    tu_waiter_init(&w, -1, 2, 2);
    tu_wait_begin(&w);
    while (tu_now_ns() - begun < 300 * ms) {
        looks += tu_wait_step(&w);
    }
    wall = tu_now_ns() - begun;
    cpu = cpu_ns() - cpu;
    cr_expect_eq(w.spins, TU_WAIT_SPIN_POLLS);
    cr_expect_gt(w.yields, 0);
    cr_expect_gt(w.sleeps, 20, "%lu", (unsigned long)w.sleeps);
    cr_expect_lt(w.sleeps, 320, "%lu", (unsigned long)w.sleeps);
    cr_expect_lt(cpu, 60 * ms, "%lu us of processor time", (unsigned long)(cpu / 1000));
    cr_expect_gt(looks, 5, "%d", looks);
    cr_expect_leq((uint64_t)looks, wall / (TU_WAIT_PERIOD_MS * ms) + 1, "%d", looks);
    cr_expect_leq(tu_wait_elapsed_ns(&w), wall);
    cr_expect_gt(tu_wait_elapsed_ns(&w), 200 * ms);
}

/* Each look tells the truth about the time. */
Test(wait, looks_are_a_period_apart, .timeout = 10) {
    struct tu_waiter w;
    uint64_t before = 0;
    int looks = 0;

    tu_waiter_init(&w, 0, 2, 2);
    tu_wait_begin(&w);
    while (looks < 8) {
        if (tu_wait_step(&w)) {
            cr_expect_leq(tu_now_ns() - w.now_ns, 5 * ms);
            cr_expect(looks == 0 || w.now_ns - before >= TU_WAIT_PERIOD_MS * ms);
            before = w.now_ns;
            looks++;
        }
    }
}

Test(wait, sleeps_grow_and_are_bounded, .timeout = 10) {
    struct tu_waiter w;
    uint32_t slice = 0;

    tu_waiter_init(&w, 0, 2, 2);
    tu_wait_begin(&w);
    while (w.sleeps < 120) {
        if (w.stage == TU_WAIT_SLEEP) {
            cr_expect_geq(w.slice_us, slice);
            cr_expect_geq(w.slice_us, TU_WAIT_SLICE_MIN_US);
            cr_expect_leq(w.slice_us, TU_WAIT_SLICE_MAX_US);
            slice = w.slice_us;
        }
        tu_wait_step(&w);
    }
    cr_expect_eq(slice, TU_WAIT_SLICE_MAX_US);
}

Test(wait, yields_about_a_millisecond, .timeout = 10) {
    struct tu_waiter w;
    uint64_t begun;

    tu_waiter_init(&w, 0, 2, 2);
    tu_wait_begin(&w);
    begun = tu_now_ns();
    while (w.stage != TU_WAIT_SLEEP) {
        tu_wait_step(&w);
    }
    cr_expect_geq(tu_now_ns() - begun, TU_WAIT_YIELD_US * ms / 1000);
    cr_expect_lt(tu_now_ns() - begun, 100 * ms);
    cr_expect_eq(w.sleeps, 0);
}

static void go_to_sleep(struct tu_waiter *w) {
    for (uint64_t before = w->sleeps; w->sleeps < before + 3;) {
        tu_wait_step(w);
    }
}

Test(wait, movement_starts_over, .timeout = 10) {
    struct tu_waiter w;

    tu_waiter_init(&w, 10, 2, 2);
    tu_wait_begin(&w);
    go_to_sleep(&w);
    cr_expect_eq(w.stage, TU_WAIT_SLEEP);
    tu_wait_moved(&w);
    cr_expect_eq(w.stage, TU_WAIT_SPIN);
    cr_expect_eq(w.slice_us, TU_WAIT_SLICE_MIN_US);
    cr_expect_neq(tu_wait_elapsed_ns(&w), 0, "the wait itself goes on");
    for (int i = 0; i < 9; i++) {
        tu_wait_step(&w);
    }
    cr_expect_eq(w.stage, TU_WAIT_SPIN);
    tu_wait_moved(&w); /* polls count in a row only */
    for (int i = 0; i < 9; i++) {
        tu_wait_step(&w);
    }
    cr_expect_eq(w.stage, TU_WAIT_SPIN);
    go_to_sleep(&w);
    tu_wait_begin(&w);
    cr_expect_eq(w.stage, TU_WAIT_SPIN);
    cr_expect_eq(tu_wait_elapsed_ns(&w), 0);
}

/* A call that waits beside others that always move, and endless spinning, still have deadlines. */
Test(wait, looks_come_without_idling, .timeout = 20) {
    struct tu_waiter w;
    uint64_t begun = tu_now_ns();
    int looks = 0;

    tu_waiter_init(&w, 1000, 2, 2);
    tu_wait_begin(&w);
    while (tu_now_ns() - begun < 100 * ms) {
        looks += tu_wait_moved(&w);
    }
    cr_expect_gt(looks, 2, "%d", looks);
    cr_expect_eq(w.yields + w.sleeps, 0);
    tu_waiter_init(&w, INT32_MAX, 2, 2);
    tu_wait_begin(&w);
    begun = tu_now_ns();
    for (looks = 0; tu_now_ns() - begun < 100 * ms;) {
        looks += tu_wait_step(&w);
    }
    cr_expect_gt(looks, 2, "%d", looks);
    cr_expect_eq(w.yields + w.sleeps, 0);
}

static void ignore(int number) {
    (void)number;
}

Test(wait, signals_end_only_a_slice, .timeout = 10) {
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    struct sigaction action = {.sa_handler = ignore};
    struct tu_waiter w;
    uint64_t begun = tu_now_ns();

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    tu_waiter_init(&w, 0, 2, 2);
    tu_wait_begin(&w);
    while (tu_now_ns() - begun < 50 * ms) {
        tu_wait_step(&w);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    cr_expect_eq(w.stage, TU_WAIT_SLEEP);
    cr_expect_geq(tu_wait_elapsed_ns(&w), 40 * ms);
}

/* ---- waking -------------------------------------------------------------------------------- */

/* Turns are taken by three threads, one after the other, with pauses about as long as a wait spins,
   yields or begins to sleep: each is met anywhere on its way to sleep, and when it sleeps. */
enum { TURNS = 1500, PLAYERS = 3 };

struct player {
    pthread_t thread;
    struct tu_waiter waiter;
    atomic_uint *turn;
    uint32_t number, random;
    uint64_t paused_us, met[3]; /* stage in which the turn came */
};

static uint32_t draw(struct player *player, uint32_t below) {
    player->random = player->random * 1664525u + 1013904223u;
    return (player->random >> 8) % below;
}

static void pause_a_bit(struct player *player) {
    static const uint32_t most_us[] = {1, 20, 1100, 1500, 3000};
    struct timespec pause = {.tv_nsec = 1000L * draw(player, most_us[draw(player, 5)])};

    nanosleep(&pause, NULL);
    player->paused_us += (uint64_t)pause.tv_nsec / 1000;
}

static void *play(void *context) {
    struct player *player = context;

    for (uint32_t turn = player->number; turn < TURNS; turn += PLAYERS) {
        tu_wait_begin(&player->waiter);
        while (atomic_load_explicit(player->turn, memory_order_acquire) != turn)
            tu_wait_step(&player->waiter);
        player->met[player->waiter.stage]++;
        pause_a_bit(player);
        atomic_store_explicit(player->turn, turn + 1, memory_order_release);
    }
    return NULL;
}

Test(wait, nobody_sleeps_through_a_turn, .timeout = 60) {
    struct player player[PLAYERS];
    atomic_uint turn = 0;
    uint64_t begun = tu_now_ns(), paused_us = 0, sleeps = 0, met[3] = {0};

    for (uint32_t i = 0; i < PLAYERS; i++) {
        player[i] = (struct player){.turn = &turn, .number = i, .random = i};
        tu_waiter_init(&player[i].waiter, -1, PLAYERS, PLAYERS);
        pthread_create(&player[i].thread, NULL, play, &player[i]);
    }
    for (uint32_t i = 0; i < PLAYERS; i++) {
        pthread_join(player[i].thread, NULL);
        paused_us += player[i].paused_us;
        sleeps += player[i].waiter.sleeps;
        for (int stage = TU_WAIT_SPIN; stage <= TU_WAIT_SLEEP; stage++)
            met[stage] += player[i].met[stage];
    }
    uint64_t took_us = (tu_now_ns() - begun) / 1000;
    cr_expect_lt(took_us, paused_us + TURNS * (uint64_t)TU_WAIT_SLICE_MAX_US + 5000000,
                 "%lu us of pauses took %lu us", (unsigned long)paused_us, (unsigned long)took_us);
    cr_expect_gt(sleeps, TURNS / 4, "%lu sleeps", (unsigned long)sleeps);
    cr_expect_gt(met[TU_WAIT_YIELD], TURNS / 50, "%lu while yielding", (unsigned long)met[1]);
    cr_expect_gt(met[TU_WAIT_SLEEP], TURNS / 50, "%lu while sleeping", (unsigned long)met[2]);
}
