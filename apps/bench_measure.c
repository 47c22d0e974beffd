/*
 * One size: results are checked, then calls are timed in blocks.
 *
 * A block is n calls, between which the caller changes a word in each cache line of the source and
 * reads one of each line of the result, as a program does that uses them. What that takes is measured by
 * the same loop without the calls, and subtracted: what the caller pays for lines that the library
 * has left in another core's cache or in memory stays in. Both times are those of the slowest rank.
 * Sources that shall be cold are not changed, as that would fetch them; with skew they are changed before
 * the time begins.
 */
#include "apps/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHECKS = 2, /* full checks with different values */
    BLOCKS = 10,
    LEAST_BLOCKS = 5,
    MOST_BLOCKS = 1000,
    LINE = 64
};
static const uint64_t most_iterations = UINT64_C(1) << 26;

/* The calls of one size. */
struct trial {
    struct bench_world *world;
    const struct bench_options *options;
    struct bench_values values;
    size_t bytes, count;
    char *source, *target;    /* the same for a broadcast */
    size_t stride, instances; /* buffers that take turns; 1 but for cold ones */
    size_t instance;          /* of the next call */
    int root;                 /* of the next broadcast */
    unsigned salt, line_salt;
    bool changed;            /* lines were, since the last fill */
    struct bench_skew *skew; /* NULL: ranks arrive as they come */
    double start_s;          /* of this size */
    uint64_t sink;           /* keeps reads */
};

/* ---- buffers ---- */

/* Of the largest cache; sysconf() is wrong in some virtual machines. */
static size_t cache_bytes(void) {
    static const char *const file[] = {"/sys/devices/system/cpu/cpu0/cache/index3/size",
                                       "/sys/devices/system/cpu/cpu0/cache/index2/size"};
    for (int i = 0; i < 2; i++) {
        size_t kib = 0;
        FILE *in = fopen(file[i], "r");
        bool known = in && fscanf(in, "%zuK", &kib) == 1 && kib;
        if (in)
            fclose(in);
        if (known)
            return kib << 10;
    }
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0)
        bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : (size_t)32 << 20;
}

/* Plain malloc() for all libraries, as programs do; or each library's own. */
static char *get_memory(const struct trial *t, size_t bytes, const char **kind) {
    const struct bench_backend *backend = t->world->backend;
    char *memory;
    *kind = "malloc";
    if (t->options->alloc)
        memory = backend->alloc(t->world, bytes + 1, kind);
    else
        memory = malloc(bytes + 1);
    if (!memory)
        bench_fail(t->world, "no memory for buffers of %zu bytes%s%s", bytes,
                   t->options->alloc ? ": " : "",
                   t->options->alloc ? backend->error(t->world) : "");
    memset(memory, 0, bytes + 1);
    return memory;
}

static void put_memory(const struct trial *t, char *memory) {
    if (t->options->alloc)
        t->world->backend->release(t->world, memory);
    else
        free(memory);
}

/* `memory` gets the word for the source's. */
static void get_buffers(struct trial *t, const char **memory) {
    const char *ignored;
    t->stride = (t->bytes + LINE - 1) / LINE * LINE + LINE;
    t->instances = 1;
    if (t->options->cold && t->bytes)
        t->instances = cache_bytes() / t->stride + 2;
    t->source = get_memory(t, t->stride * t->instances, memory);
    t->target = t->source;
    if (t->options->call == BENCH_ALLREDUCE)
        t->target = get_memory(t, t->stride * t->instances, &ignored);
}

static void free_buffers(struct trial *t) {
    if (t->target != t->source)
        put_memory(t, t->target);
    put_memory(t, t->source);
}

/* Must this rank's source hold values? */
static bool is_sender(const struct trial *t) {
    return t->options->call == BENCH_ALLREDUCE || t->world->rank == t->root;
}

/* New values in all sources, and none in the targets. */
static void fill(struct trial *t) {
    t->salt += (unsigned)t->instances;
    t->changed = false;
    if (t->options->call == BENCH_BARRIER)
        return;
    for (size_t i = 0; i < t->instances; i++) {
        bench_spoil(t->values.type, t->target + i * t->stride, t->count);
        bench_fill(&t->values, t->world->rank, t->salt + (unsigned)i, t->source + i * t->stride,
                   t->count);
        if (!is_sender(t) && !t->values.rootless)
            bench_spoil(t->values.type, t->target + i * t->stride, t->count);
    }
}

/* ---- calls ---- */

static void next_root(struct trial *t) {
    if (t->options->root == BENCH_ROTATE && ++t->root == t->world->size)
        t->root = 0;
}

static inline void call(struct trial *t, size_t at) {
    struct bench_world *world = t->world;
    int status;
    switch (t->options->call) {
    case BENCH_ALLREDUCE:
        status = world->backend->allreduce(world, t->source + at, t->target + at, t->count,
                                           t->values.type, t->values.op);
        break;
    case BENCH_BCAST:
        status = world->backend->bcast(world, t->source + at, t->count, t->values.type, t->root);
        break;
    default:
        status = world->backend->barrier(world);
    }
    if (__builtin_expect(status, 0))
        bench_fail(world, "%s of %zu bytes: %s", bench_call_name(t->options->call), t->bytes,
                   world->backend->error(world));
}

/* Before and after a call: what a program does that has something to reduce. */
static inline void before(struct trial *t) {
    t->line_salt++;
    if (is_sender(t))
        bench_change(&t->values, t->world->rank, t->line_salt, t->source, t->count);
}

static inline void after(struct trial *t, size_t at) {
    t->sink += bench_read(t->target + at, t->bytes);
    __asm__ volatile("" : : "r"(t->sink) : "memory"); /* the reads have a use */
}

static void run_calls(struct trial *t, uint64_t n) {
    bool change = !t->options->cold && !t->options->bare, read = !t->options->bare;
    t->changed = t->changed || change;
    for (uint64_t i = 0; i < n; i++) {
        size_t at = t->instance * t->stride;
        next_root(t);
        if (change)
            before(t);
        if (t->skew)
            bench_skew_arrive(t->skew);
        call(t, at);
        if (read)
            after(t, at);
        if (t->skew)
            bench_skew_end(t->skew);
        if (++t->instance == t->instances)
            t->instance = 0;
    }
}

/* What run_calls() does besides calling while time runs, in one buffer. Values are put back, since the
   last result is checked. */
static void run_touches(struct trial *t, uint64_t n) {
    bool change = !t->options->cold && !t->skew;
    unsigned line_salt = t->line_salt;
    int root = t->root;
    for (uint64_t i = 0; i < n; i++) {
        next_root(t);
        if (change)
            before(t);
        after(t, 0);
    }
    t->root = root;
    t->line_salt = line_salt;
    if (change && is_sender(t))
        bench_change(&t->values, t->world->rank, line_salt, t->source, t->count);
}

/* ---- checks ---- */

static void check_last(struct trial *t) {
    size_t last = (t->instance ? t->instance : t->instances) - 1, wrong = t->count;
    double wanted = 0, found = 0;
    if (t->options->call != BENCH_BARRIER)
        wrong = bench_check(&t->values, t->root, t->salt + (unsigned)last,
                            t->changed ? &t->line_salt : NULL, t->target + last * t->stride,
                            t->count, &wanted, &found);
    bool any = bench_max(t->world, wrong < t->count) > 0;
    if (wrong < t->count)
        bench_fail(t->world, "%s of %zu %s: element %zu is %.17g, not %.17g",
                   bench_call_name(t->options->call), t->count, bench_type_name(t->values.type),
                   wrong, found, wanted);
    if (any) { /* the one that knows more is about to say it */
        sleep(1);
        exit(1);
    }
}

static void check_calls(struct trial *t) {
    for (int i = 0; i < CHECKS; i++) {
        next_root(t);
        fill(t);
        call(t, 0);
        t->instance = t->instances > 1 ? 1 : 0;
        check_last(t);
        t->instance = 0;
    }
}

/* ---- time ---- */

struct block {
    double calls_s, touches_s; /* of the slowest rank */
    double passed_s;           /* with all that is not timed */
    double age_s;              /* of the measurement of this size, at its end */
    uint64_t count[BENCH_COUNTS];
};

static void run_block(struct trial *t, uint64_t n, struct block *block) {
    struct bench_world *world = t->world;
    uint64_t counts[BENCH_COUNTS] = {0};
    memset(block->count, 0, sizeof block->count);
    bench_barrier(world);
    world->backend->counts(world, counts);
    double start = bench_now();
    run_calls(t, n);
    double end = bench_now();
    if (world->backend->counts(world, block->count))
        for (int i = 0; i < BENCH_COUNTS; i++)
            block->count[i] -= counts[i];
    block->calls_s = block->passed_s = bench_max(world, end - start);
    if (t->skew)
        block->calls_s = bench_skew_seconds(t->skew);
    start = bench_now();
    if (!t->options->bare && t->bytes)
        run_touches(t, n);
    end = bench_now();
    double time[2] = {end - start, end - t->start_s};
    bench_max_times(world, time, 2);
    block->touches_s = time[0];
    block->passed_s += time[0];
    block->age_s = time[1];
}

/* Calls that fill `seconds`, agreed. */
static uint64_t find_iterations(struct trial *t, double seconds) {
    uint64_t n = 1;
    for (;;) {
        struct block block;
        run_block(t, n, &block);
        double factor = seconds / (block.passed_s > 1e-9 ? block.passed_s : 1e-9);
        if (factor > 16)
            factor = 16;
        bool enough = factor < 2 || n > most_iterations;
        n = (uint64_t)((double)n * factor);
        if (t->skew && n >= bench_skew_most())
            return bench_skew_most();
        if (n == 0)
            n = 1;
        if (enough)
            return n;
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *value, int n) {
    qsort(value, (size_t)n, sizeof *value, by_value);
    return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

/* From the seconds of blocks. Touching takes the same in all blocks but for disturbances, of which one
   must not be taken off a call. */
static void set_times(struct bench_row *row, double *calls_s, double *touches_s) {
    int n = row->blocks;
    double touches = median_of(touches_s, n), us = 1e6 / (double)row->iterations;
    double median = median_of(calls_s, n) - touches;
    double least = calls_s[0] - touches, most = calls_s[n - 1] - touches;
    row->min_us = least > 0 ? least * us : 0;
    row->median_us = median > 0 ? median * us : 0;
    row->max_us = most > 0 ? most * us : 0;
}

static void set_counts(struct trial *t, struct bench_row *row, const uint64_t *sum) {
    int64_t most[BENCH_COUNTS], all[BENCH_COUNTS];
    double calls = (double)row->iterations * row->blocks;
    for (int i = 0; i < BENCH_COUNTS; i++)
        most[i] = all[i] = (int64_t)sum[i];
    bench_max_words(t->world, most, BENCH_COUNTS);
    bench_sum_words(t->world, all, BENCH_COUNTS);
    for (int i = 0; i < BENCH_COUNTS; i++) {
        row->most[i] = (double)most[i] / calls;
        row->mean[i] = (double)all[i] / calls / t->world->size;
    }
}

static void time_calls(struct trial *t, struct bench_row *row) {
    double calls_s[MOST_BLOCKS], touches_s[MOST_BLOCKS], spent = 0;
    uint64_t sum[BENCH_COUNTS] = {0}, ignored[BENCH_COUNTS];
    row->iterations = find_iterations(t, t->options->seconds / BLOCKS);
    row->counted = t->world->backend->counts(t->world, ignored);
    while (!row->slow && (row->blocks < LEAST_BLOCKS ||
                          (spent < t->options->seconds && row->blocks < MOST_BLOCKS))) {
        struct block block;
        run_block(t, row->iterations, &block);
        calls_s[row->blocks] = block.calls_s;
        touches_s[row->blocks++] = block.touches_s;
        spent += block.passed_s;
        row->slow = block.age_s > t->options->limit_s;
        for (int i = 0; i < BENCH_COUNTS; i++)
            sum[i] += block.count[i];
    }
    set_times(row, calls_s, touches_s);
    set_counts(t, row, sum);
}

void bench_measure(struct bench_world *world, const struct bench_options *options, size_t bytes,
                   struct bench_row *row) {
    struct trial trial = {.world = world,
                          .options = options,
                          .values = {.call = options->call,
                                     .type = options->type,
                                     .op = options->op,
                                     .ranks = world->size},
                          .count = bytes / bench_type_bytes(options->type),
                          .root = options->root == BENCH_ROTATE ? 0 : options->root,
                          .start_s = bench_now()};
    trial.bytes = trial.count * bench_type_bytes(options->type);
    row->bytes = trial.bytes;
    row->count = trial.count;
    row->algorithm =
        world->backend->algorithm(world, options->call, row->count, options->type, options->op);
    row->transports = world->backend->transports(world);
    get_buffers(&trial, &row->memory);
    trial.skew = options->check_only ? NULL : bench_skew_open(world, options->skew_us);
    check_calls(&trial);
    if (!options->check_only) {
        trial.values.rootless = options->root == BENCH_ROTATE; /* each sends what it received */
        fill(&trial);
        time_calls(&trial, row);
        run_calls(&trial, 1);
        check_last(&trial);
    }
    bench_skew_close(trial.skew);
    free_buffers(&trial);
}
