/* The command line of the benchmark. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/bench.h"

enum {
    KEY_MIN = 256,
    KEY_MAX,
    KEY_FACTOR,
    KEY_TYPE,
    KEY_OP,
    KEY_ROOT,
    KEY_SECONDS,
    KEY_LIMIT,
    KEY_SKEW,
    KEY_CHECK_ONLY,
    KEY_COLD,
    KEY_BARE,
    KEY_ALLOC,
    KEY_PIN,
    KEY_FLOOR,
    KEY_JSON,
    KEY_WRITE
};

static const struct argp_option argp_options[] = {
    {"min", KEY_MIN, "BYTES", 0, "Smallest size, such as 8 or 4K (default 8)", 0},
    {"max", KEY_MAX, "BYTES", 0, "Largest size (default 32M)", 0},
    {"factor", KEY_FACTOR, "N", 0, "From size to size (default 4)", 0},
    {"type", KEY_TYPE, "TYPE", 0, "i32, i64, f32 or f64 (default f32)", 0},
    {"op", KEY_OP, "OP", 0,
     "sum, prod, min, max; on integers also land, lor, lxor, band, bor, bxor (default sum)", 0},
    {"root", KEY_ROOT, "RANK", 0,
     "Root of a broadcast, or \"rotate\": another one for each call (default 0)", 0},
    {"seconds", KEY_SECONDS, "S", 0,
     "Time for each size (default 0.2); how late the last rank of \"late\" comes (default 2)", 0},
    {"limit", KEY_LIMIT, "S", 0,
     "Most time for each size; one that takes longer ends as soon as it can, with fewer blocks, "
     "and "
     "larger ones are left out (default 60)",
     0},
    {"skew", KEY_SKEW, "US", 0,
     "Let each rank come to each call up to so many microseconds late, at random. A call's time is "
     "then that from the last arrival to the last end: it is no longer than without skew where "
     "waiting does no harm. On one host",
     0},
    {"check-only", KEY_CHECK_ONLY, NULL, 0, "Check results, measure nothing", 0},
    {"cold", KEY_COLD, NULL, 0,
     "Let so many buffers take turns that none is in a cache; sources are then not changed between "
     "calls",
     0},
    {"bare", KEY_BARE, NULL, 0, "Neither change the source nor read the result between calls", 0},
    {"alloc", KEY_ALLOC, NULL, 0,
     "Take buffers from the library (tutti_alloc, MPI_Alloc_mem) instead of malloc. What each size "
     "has got "
     "is a column of its own",
     0},
    {"pin", KEY_PIN, NULL, 0,
     "Pin each rank to the core of its number on its host, of those it may run on", 0},
    {"floor", KEY_FLOOR, NULL, 0,
     "Measure the cores first, and what moving cores change again before each size", 0},
    {"json", KEY_JSON, "FILE", 0, "Write JSON too; \"-\": only that, to standard output", 0},
    {"write", KEY_WRITE, "FILE", 0,
     "Write what \"tune\" has found, as the line of select.c's table", 0},
    {0}};

static const char about[] =
    "Checks and times a collective call, for sizes from --min to --max. \"floor\" measures what "
    "two "
    "cores of this host can do. \"late\" lets the last rank come to an allreduce seconds late, and "
    "tells the processor time that the others take meanwhile. \"tune\" finds out up to which size "
    "this job should reduce by the algorithm for small vectors.\v"
    "The calls are timed in blocks. A block's time is that of the slowest rank; minimum, median "
    "and maximum are those of the blocks. Before each call the caller changes every cache line "
    "of its source and after it reads every one of its result; the time that this takes by "
    "itself, measured likewise, is subtracted. Counters are those of the rank that has "
    "most. With --floor, an allreduce between ranks of one host is also given as a multiple of "
    "what "
    "it takes at least (docs/PERFORMANCE.md).\n\nThe exit status is 1 if a result was wrong or a "
    "call failed, 64 for wrong usage.";

/* ---- names ---- */

static const char *const call_names[] = {"allreduce", "bcast", "barrier", "floor",
                                         "late",      "tune",  NULL};
static const char *const type_names[] = {"i32", "i64", "f32", "f64", NULL};
static const char *const op_names[] = {"sum",  "prod", "min", "max",  "land", "lor",
                                       "lxor", "band", "bor", "bxor", NULL};

const char *bench_call_name(enum bench_call call) {
    return call_names[call];
}

const char *bench_type_name(enum bench_type type) {
    return type_names[type];
}

const char *bench_op_name(enum bench_op op) {
    return op_names[op];
}

size_t bench_type_bytes(enum bench_type type) {
    return type == BENCH_I32 || type == BENCH_F32 ? 4 : 8;
}

static int read_name(struct argp_state *state, const char *const *names, const char *what,
                     const char *text) {
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    argp_error(state, "unknown %s \"%s\"", what, text);
    return 0;
}

/* ---- numbers ---- */

static size_t read_bytes(struct argp_state *state, const char *option, const char *text) {
    static const char suffixes[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, *end & ~0x20) : NULL;
    int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    bool bad = errno || end == text || *text == '-' || (*end && (!suffix || end[1]));
    if (bad || value > (unsigned long long)PTRDIFF_MAX >> shift)
        argp_error(state, "%s: \"%s\" is no number of bytes (such as 8, 4K or 32M)", option, text);
    return (size_t)(value << shift);
}

static long read_number(struct argp_state *state, const char *option, const char *text, long min) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < min || value > INT_MAX)
        argp_error(state, "%s: \"%s\" is no number from %ld on", option, text, min);
    return value;
}

static double read_seconds(struct argp_state *state, const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0 && value <= 3600))
        argp_error(state, "%s: \"%s\" is no time up to 3600", option, text);
    return value;
}

static double read_skew(struct argp_state *state, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1e6))
        argp_error(state, "--skew: \"%s\" is no number of microseconds up to 1000000", text);
    return value;
}

/* ---- parsing ---- */

static void check(struct argp_state *state, struct bench_options *o) {
    bool floating = o->type == BENCH_F32 || o->type == BENCH_F64;
    if (o->min_bytes > o->max_bytes)
        argp_error(state, "--min is larger than --max");
    if (o->call == BENCH_ALLREDUCE && floating && o->op >= BENCH_LAND)
        argp_error(state, "--op %s is not defined on %s", bench_op_name(o->op),
                   bench_type_name(o->type));
    if (o->skew_us >= 0 && o->call != BENCH_ALLREDUCE && o->call != BENCH_BARRIER)
        argp_error(state, "--skew: no rank waits for the last one in %s", bench_call_name(o->call));
    if (o->seconds == 0)
        o->seconds = o->call == BENCH_LATE ? 2 : 0.2;
    if (o->write && o->call != BENCH_TUNE)
        argp_error(state, "--write: only tune finds something to write");
    if (o->cold && o->bare)
        argp_error(state, "--cold and --bare exclude each other: cold results are read");
}

static error_t parse_flag(int key, struct bench_options *o) {
    switch (key) {
    case KEY_CHECK_ONLY:
        o->check_only = true;
        return 0;
    case KEY_COLD:
        o->cold = true;
        return 0;
    case KEY_BARE:
        o->bare = true;
        return 0;
    case KEY_ALLOC:
        o->alloc = true;
        return 0;
    case KEY_PIN:
        o->pin = true;
        return 0;
    case KEY_FLOOR:
        o->floor = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct bench_options *o = state->input;
    switch (key) {
    case KEY_MIN:
        o->min_bytes = read_bytes(state, "--min", text);
        return 0;
    case KEY_MAX:
        o->max_bytes = read_bytes(state, "--max", text);
        return 0;
    case KEY_FACTOR:
        o->factor = (size_t)read_number(state, "--factor", text, 2);
        return 0;
    case KEY_TYPE:
        o->type = (enum bench_type)read_name(state, type_names, "type", text);
        return 0;
    case KEY_OP:
        o->op = (enum bench_op)read_name(state, op_names, "operation", text);
        return 0;
    case KEY_ROOT:
        o->root =
            strcmp(text, "rotate") == 0 ? BENCH_ROTATE : (int)read_number(state, "--root", text, 0);
        return 0;
    case KEY_SECONDS:
        o->seconds = read_seconds(state, "--seconds", text);
        return 0;
    case KEY_LIMIT:
        o->limit_s = read_seconds(state, "--limit", text);
        return 0;
    case KEY_SKEW:
        o->skew_us = read_skew(state, text);
        return 0;
    case KEY_JSON:
        o->json = text;
        return 0;
    case KEY_WRITE:
        o->write = text;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "one collective at a time, not \"%s\" too", text);
        o->call = (enum bench_call)read_name(state, call_names, "collective", text);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which collective?");
        return 0;
    case ARGP_KEY_SUCCESS:
        check(state, o);
        return 0;
    default:
        return parse_flag(key, o);
    }
}

/* Sends what is written to a stream's file elsewhere; returns what it was. */
static int divert(int file, int to) {
    int saved = dup(file);
    if (saved >= 0)
        dup2(to, file);
    return saved;
}

static void restore(int file, int saved) {
    if (saved >= 0) {
        dup2(saved, file);
        close(saved);
    }
}

void bench_parse(int argc, char **argv, bool speaks, struct bench_options *options) {
    static const struct argp argp = {.options = argp_options,
                                     .parser = parse,
                                     .args_doc = "allreduce|bcast|barrier|floor|late|tune",
                                     .doc = about};
    *options = (struct bench_options){.call = BENCH_ALLREDUCE,
                                      .min_bytes = 8,
                                      .max_bytes = (size_t)32 << 20,
                                      .factor = 4,
                                      .type = BENCH_F32,
                                      .op = BENCH_SUM,
                                      .limit_s = 60,
                                      .skew_us = -1};
    int null = speaks ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC), out = -1, err = -1;
    if (null >= 0) { /* argp writes and exits; once for all ranks is enough */
        out = divert(STDOUT_FILENO, null);
        err = divert(STDERR_FILENO, null);
    }
    argp_parse(&argp, argc, argv, 0, NULL, options);
    restore(STDOUT_FILENO, out);
    restore(STDERR_FILENO, err);
    if (null >= 0)
        close(null);
}
