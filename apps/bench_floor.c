/*
 * What two cores of this host can do at best: two threads of this process, each pinned to a core, play
 * the steps of which collectives are made. The best of several trials counts, since other processes
 * only slow them down. The same thing run on two machines tells how they differ; run before and after
 * on one, whether its cores have moved (virtual machines' cores do).
 */
#define _GNU_SOURCE /* thread affinity */
#include "apps/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    APART = 128, /* bytes between lines: hardware fetches neighbours */
    TRIALS = 9,
    HANDOFF_TRIALS = 5,
    TURNS = 2000, /* of a trial */
    YIELDS = 500,
    DATA_TRIALS = 40,
    SHARED_BYTES = 64 << 10, /* fits a core's own cache */
    SMALL_BYTES = 32 << 10,
    LARGE_BYTES = 16 << 20,
    SHIFT_BYTES =
        2 << 10, /* from and to must not look alike in the last 12 bits: that alone costs */
    FLOOR_SLEEP_MS = 350, /* longer than measuring takes */
    REFRESH_SLEEP_MS = 15,
};

/* Two threads; thread 0 keeps the times. */
struct duet {
    _Alignas(APART) _Atomic uint64_t line[2];
    _Alignas(APART) _Atomic uint64_t answer;
    _Alignas(APART) _Atomic int phase;
    int cpu[2];
    uint64_t *data;   /* SHARED_BYTES */
    uint64_t *own[2]; /* of each thread, likewise */
    void (*play)(struct duet *duet, int me);
    double best[3];
};

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void keep_best(double *best, double value) {
    if (*best == 0 || value < *best)
        *best = value;
}

/* ---- lines: release stores and acquire loads; the line is the whole message ---- */

static void wait_for(_Atomic uint64_t *line, uint64_t number) {
    while (atomic_load_explicit(line, memory_order_acquire) < number)
        pause_briefly();
}

/* Both are there; the phases of a duet are numbered. */
static void meet(struct duet *duet, int *phase) {
    *phase += 2;
    atomic_fetch_add_explicit(&duet->phase, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&duet->phase, memory_order_acquire) < *phase)
        pause_briefly();
}

static void ping_pong(struct duet *duet, int me, int trials) {
    _Atomic uint64_t *line = &duet->answer;
    uint64_t number = 0;
    for (int trial = 0; trial < trials; trial++) {
        double start = bench_now();
        for (int i = 0; i < TURNS; i++, number += 2) {
            if (me == 1)
                wait_for(line, number + 1);
            atomic_store_explicit(line, number + 1 + (uint64_t)me, memory_order_release);
            if (me == 0)
                wait_for(line, number + 2);
        }
        if (me == 0)
            keep_best(&duet->best[0], (bench_now() - start) / TURNS / 2 * 1e9);
    }
}

static void play_handoff(struct duet *duet, int me) {
    ping_pong(duet, me, HANDOFF_TRIALS);
}

static void exchange(struct duet *duet, int me, _Atomic uint64_t *mine, _Atomic uint64_t *other) {
    uint64_t number = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double start = bench_now();
        for (int i = 0; i < TURNS; i++) {
            number++;
            atomic_store_explicit(mine, number, memory_order_release);
            wait_for(other, number);
        }
        if (me == 0)
            keep_best(&duet->best[1], (bench_now() - start) / TURNS * 1e9);
    }
}

/* ---- data ---- */

/* As collectives do: copied from and to memory of one's own. */
static void write_data(struct duet *duet, int me) {
    memcpy(duet->data, duet->own[me], SHARED_BYTES);
    __asm__ volatile("" : : "r"(duet->data) : "memory");
}

static void read_data(struct duet *duet, int me) {
    memcpy(duet->own[me], duet->data, SHARED_BYTES);
    __asm__ volatile("" : : "r"(duet->own[me]) : "memory");
}

static void time_write(struct duet *duet, double *best) {
    double start = bench_now();
    write_data(duet, 0);
    keep_best(best, bench_now() - start);
}

static void play_data(struct duet *duet, int me) {
    int phase = 0;
    for (int trial = 0; trial < DATA_TRIALS; trial++) {
        if (me == 0)
            write_data(duet, 0);
        meet(duet, &phase);
        if (me == 1)
            read_data(duet, 1);
        meet(duet, &phase);
        if (me == 0) /* the other has read it */
            time_write(duet, &duet->best[0]);
        meet(duet, &phase);
        if (me == 1)
            write_data(duet, 1);
        meet(duet, &phase);
        if (me == 0) {
            double start = bench_now();
            read_data(duet, 0);
            keep_best(&duet->best[1], bench_now() - start);
            time_write(duet, &duet->best[2]); /* I have read it last */
        }
        meet(duet, &phase);
    }
}

/* The lines of an exchange lie apart, in memory of their own. */
static void play_exchange(struct duet *duet, int me) {
    _Atomic uint64_t *line = (_Atomic uint64_t *)(void *)duet->data;
    size_t apart = APART / sizeof *line;
    exchange(duet, me, &line[(size_t)me * apart], &line[(size_t)!me * apart]);
}

/* On one core: what one has written, the other sees once it has been switched to. */
static void play_yield(struct duet *duet, int me) {
    _Atomic uint64_t *line = &duet->answer;
    uint64_t number = (uint64_t)me; /* that I wait for; 0 is there */
    for (int trial = 0; trial < TRIALS; trial++) {
        double start = bench_now();
        for (int i = 0; i < YIELDS; i++, number += 2) {
            while (atomic_load_explicit(line, memory_order_acquire) < number)
                sched_yield();
            atomic_store_explicit(line, number + 1, memory_order_release);
        }
        if (me == 0)
            keep_best(&duet->best[0], (bench_now() - start) / YIELDS / 2 * 1e9);
    }
}

/* ---- threads ---- */

struct player {
    struct duet *duet;
    int me;
};

static void *play(void *argument) {
    struct player *player = argument;
    player->duet->play(player->duet, player->me);
    return NULL;
}

static int start(pthread_t *thread, struct player *player) {
    pthread_attr_t attributes;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(player->duet->cpu[player->me], &one);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    int error = pthread_create(thread, &attributes, play, player);
    pthread_attr_destroy(&attributes);
    return error;
}

/* False if there can't be two threads. The second waits for the first, so the first must be sure. */
static bool play_duet(struct duet *duet, int cpu0, int cpu1,
                      void (*part)(struct duet *duet, int me)) {
    struct player player[2] = {{duet, 0}, {duet, 1}};
    pthread_t thread;
    cpu_set_t before, one;
    duet->cpu[0] = cpu0;
    duet->cpu[1] = cpu1;
    duet->play = part;
    atomic_store_explicit(&duet->answer, 0, memory_order_relaxed);
    atomic_store_explicit(&duet->phase, 0, memory_order_relaxed);
    memset(duet->data, 0, SHARED_BYTES);
    memset(duet->best, 0, sizeof duet->best);
    CPU_ZERO(&one);
    CPU_SET(cpu0, &one);
    if (sched_getaffinity(0, sizeof before, &before) || sched_setaffinity(0, sizeof one, &one))
        return false;
    bool started = start(&thread, &player[1]) == 0;
    if (started) {
        part(duet, 0);
        pthread_join(thread, NULL);
    }
    sched_setaffinity(0, sizeof before, &before);
    return started;
}

static struct duet *open_duet(void) {
    struct duet *duet = aligned_alloc(APART, sizeof *duet);
    if (!duet)
        return NULL;
    memset(duet, 0, sizeof *duet);
    duet->data = aligned_alloc(APART, (size_t)3 * (SHARED_BYTES + SHIFT_BYTES));
    if (duet->data) {
        memset(duet->data, 0, (size_t)3 * (SHARED_BYTES + SHIFT_BYTES));
        for (int i = 0; i < 2; i++)
            duet->own[i] = duet->data + (size_t)(i + 1) * (SHARED_BYTES + SHIFT_BYTES) / 8;
        return duet;
    }
    free(duet);
    return NULL;
}

static void close_duet(struct duet *duet) {
    free(duet->data);
    free(duet);
}

/* The first two cores that this process may be given, whatever it is pinned to now. Returns how many
   there are. */
static int find_cpus(int cpu[2]) {
    cpu_set_t before, all;
    int found = 0;
    cpu[0] = cpu[1] = -1;
    if (sched_getaffinity(0, sizeof before, &before))
        return 0;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all); /* the kernel leaves what the cpuset has */
    if (sched_getaffinity(0, sizeof all, &all) == 0)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &all) && found++ < 2)
                cpu[found - 1] = i;
    sched_setaffinity(0, sizeof before, &before);
    return found;
}

/* ---- one core ---- */

static double time_copy(char *to, const char *from, size_t bytes, int times) {
    double best = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double begin = bench_now();
        for (int i = 0; i < times; i++) {
            memcpy(to, from, bytes);
            __asm__ volatile("" : : "r"(to) : "memory");
        }
        keep_best(&best, bench_now() - begin);
    }
    return (double)bytes * times / best * 1e-9;
}

typedef float vector __attribute__((vector_size(32), aligned(4), may_alias));

static inline __attribute__((always_inline)) void add_vectors(float *to, const float *from,
                                                              size_t n) {
    for (size_t i = 0; i + 8 <= n; i += 8)
        *(vector *)(void *)(to + i) += *(const vector *)(const void *)(from + i);
}

static void add_generic(float *to, const float *from, size_t n) {
    add_vectors(to, from, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void add_avx2(float *to, const float *from, size_t n) {
    add_vectors(to, from, n);
}
#endif

static double time_reduce(void *to, const void *from, size_t bytes, int times) {
    void (*add)(float *, const float *, size_t) = add_generic;
    double best = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        add = add_avx2;
#endif
    for (int trial = 0; trial < TRIALS; trial++) {
        double begin = bench_now();
        for (int i = 0; i < times; i++)
            add(to, from, bytes / sizeof(float));
        keep_best(&best, bench_now() - begin);
    }
    return (double)bytes * times / best * 1e-9;
}

static void measure_core(struct bench_floor *floor) {
    char *from = malloc((size_t)2 * LARGE_BYTES + SHIFT_BYTES);
    if (from) {
        char *to = from + LARGE_BYTES + SHIFT_BYTES;
        memset(from, 0, (size_t)2 * LARGE_BYTES + SHIFT_BYTES); /* pages of its own */
        floor->copy_gbs = time_copy(to, from, SMALL_BYTES, 50);
        floor->copy_large_gbs = time_copy(to, from, LARGE_BYTES, 1);
        memset(to, 0, LARGE_BYTES);
        floor->reduce_gbs = time_reduce(to, from, SMALL_BYTES, 50);
        floor->reduce_large_gbs = time_reduce(to, from, LARGE_BYTES, 1);
    }
    free(from);
}

/* ---- all ---- */

static const char *mode_of(double exchange_ns) {
    if (exchange_ns == 0)
        return "one core";
    if (exchange_ns < 40)
        return "threads of a core";
    return exchange_ns < 140 ? "near cores" : "far cores";
}

static double gbs(double seconds) {
    return SHARED_BYTES / seconds * 1e-9;
}

static void measure_moving(struct bench_floor *floor, struct duet *duet) {
    int a = floor->cpu[0], b = floor->cpu[1];
    if (play_duet(duet, a, b, play_handoff))
        floor->handoff_ns = duet->best[0];
    if (play_duet(duet, a, b, play_data)) {
        floor->rewrite_gbs = gbs(duet->best[0]);
        floor->read_gbs = gbs(duet->best[1]);
        floor->takeover_gbs = gbs(duet->best[2]);
    }
}

static void measure_pair(struct bench_floor *floor, struct duet *duet) {
    measure_moving(floor, duet);
    if (play_duet(duet, floor->cpu[0], floor->cpu[1], play_exchange))
        floor->exchange_ns = duet->best[1];
}

void bench_floor_measure(struct bench_floor *floor) {
    struct duet *duet = open_duet();
    memset(floor, 0, sizeof *floor);
    floor->cores = find_cpus(floor->cpu);
    if (duet && floor->cpu[1] >= 0)
        measure_pair(floor, duet);
    if (duet && floor->cpu[0] >= 0 && play_duet(duet, floor->cpu[0], floor->cpu[0], play_yield))
        floor->yield_ns = duet->best[0];
    if (duet)
        close_duet(duet);
    floor->mode = mode_of(floor->exchange_ns);
    measure_core(floor);
}

void bench_floor_refresh(struct bench_floor *floor) {
    struct duet *duet = open_duet();
    if (duet && floor->cpu[1] >= 0)
        measure_moving(floor, duet);
    if (duet)
        close_duet(duet);
}

/* ---- while the other ranks sleep ---- */

static void sleep_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

void bench_floor_alone(struct bench_world *world, struct bench_floor *floor) {
    bench_barrier(world);
    if (world->rank == 0)
        bench_floor_measure(floor);
    else
        sleep_ms(FLOOR_SLEEP_MS);
    bench_barrier(world);
}

void bench_refresh_alone(struct bench_world *world, struct bench_floor *floor) {
    bench_barrier(world);
    if (world->rank == 0)
        bench_floor_refresh(floor);
    else
        sleep_ms(REFRESH_SLEEP_MS);
    bench_barrier(world);
}
