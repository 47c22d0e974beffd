/*
 * The benchmark of collectives, the same for every library: options, values, timing, machine and
 * output are common, and a backend makes the calls. tutti-bench and mpi-bench differ in nothing else.
 */
#ifndef APPS_BENCH_H
#define APPS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum bench_call {
    BENCH_ALLREDUCE,
    BENCH_BCAST,
    BENCH_BARRIER,
    BENCH_FLOOR,
    BENCH_LATE,
    BENCH_TUNE
};
enum bench_type { BENCH_I32, BENCH_I64, BENCH_F32, BENCH_F64, BENCH_TYPES };
enum bench_op {
    BENCH_SUM,
    BENCH_PROD,
    BENCH_MIN,
    BENCH_MAX,
    BENCH_LAND,
    BENCH_LOR,
    BENCH_LXOR,
    BENCH_BAND,
    BENCH_BOR,
    BENCH_BXOR,
    BENCH_OPS
};
enum { BENCH_ROTATE = -1 }; /* root: another one for each call */

/* ---- backends -------------------------------------------------------------------------------- */

/* What a rank's library did so far. */
enum bench_count {
    BENCH_LINES,
    BENCH_WRITES,
    BENCH_CELLS,
    BENCH_BYTES,
    BENCH_REQUESTS,
    BENCH_DOORBELLS,
    BENCH_COMPLETIONS,
    BENCH_COUNTS
};

struct bench_world;

/* Calls return 0 for success; after a failure error() has the text. */
struct bench_backend {
    const char *program;
    int (*open)(struct bench_world *world); /* sets rank, size, version and state */
    void (*close)(struct bench_world *world);
    /* Closes and opens again, with that algorithm forced upon allreduces. NULL: this can't be. */
    int (*reopen)(struct bench_world *world, const char *algorithm);
    int (*barrier)(struct bench_world *world);
    int (*bcast)(struct bench_world *world, void *buffer, size_t count, enum bench_type type,
                 int root);
    int (*allreduce)(struct bench_world *world, const void *source, void *target, size_t count,
                     enum bench_type type, enum bench_op op);
    const char *alloc_name; /* of the call that alloc makes */
    /* Memory for buffers, page by page as the library gives it; *kind gets a word for it. NULL: none. */
    void *(*alloc)(struct bench_world *world, size_t bytes, const char **kind);
    void (*release)(struct bench_world *world, void *memory);
    const char *(*error)(struct bench_world *world);
    /* What such a call runs; "" if that can't be known. */
    const char *(*algorithm)(struct bench_world *world, enum bench_call call, size_t count,
                             enum bench_type type, enum bench_op op);
    const char *(*transports)(struct bench_world *world);
    /* false: this library does not count. */
    bool (*counts)(struct bench_world *world, uint64_t count[BENCH_COUNTS]);
    /* Bytes of the library's shared memory of this rank; 0: not known. */
    uint64_t (*window)(struct bench_world *world, uint64_t *used_bytes);
};

/* The one that is linked in. */
extern const struct bench_backend bench_backend;

/* The ranks, seen from one. */
struct bench_world {
    const struct bench_backend *backend;
    void *state; /* the backend's */
    int rank, size;
    char version[128]; /* of the library */
    int hosts, local_rank, local_size;
    int cpu; /* the only one that it may run on; -1: there are more */
};

/* Says what failed on which rank, and ends the process; the launcher ends the others. */
_Noreturn void bench_fail(const struct bench_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Over all ranks, in place. They end the process on failure. */
void bench_barrier(struct bench_world *world);
double bench_max(struct bench_world *world, double value);
void bench_max_times(struct bench_world *world, double *time, size_t times);
void bench_sum_words(struct bench_world *world, int64_t *word, size_t words);
void bench_max_words(struct bench_world *world, int64_t *word, size_t words);

/* ---- options --------------------------------------------------------------------------------- */

struct bench_options {
    enum bench_call call;
    size_t min_bytes, max_bytes;
    size_t factor;
    enum bench_type type;
    enum bench_op op;
    int root;
    double seconds; /* per size */
    double limit_s; /* per size: then it ends early, and larger ones are left out */
    double skew_us; /* below 0: ranks arrive as they come */
    bool check_only, cold, bare, alloc, pin, floor;
    const char *json;  /* file, NULL: none */
    const char *write; /* file for what tune found, NULL: none */
};

/* Reads the command line, or ends the process with a usage error. `speaks`: this rank says it. */
void bench_parse(int argc, char **argv, bool speaks, struct bench_options *options);

const char *bench_call_name(enum bench_call call);
const char *bench_type_name(enum bench_type type);
const char *bench_op_name(enum bench_op op);
size_t bench_type_bytes(enum bench_type type);

/* ---- values ---------------------------------------------------------------------------------- */

/* A call whose result is known: all follows from rank, place and salt. */
struct bench_values {
    enum bench_call call;
    enum bench_type type;
    enum bench_op op;
    int ranks;
    bool rootless; /* a broadcast has the same values from each root */
};

/* Element i of rank's source, and of everyone's result. */
int64_t bench_source(const struct bench_values *values, int rank, size_t i, unsigned salt);
int64_t bench_result(const struct bench_values *values, int root, size_t i, unsigned salt);

void bench_fill(const struct bench_values *values, int rank, unsigned salt, void *source,
                size_t count);

/* Sets what no result has. */
void bench_spoil(enum bench_type type, void *target, size_t count);

/* Sets the first element of each cache line as if all were element 0. */
void bench_change(const struct bench_values *values, int rank, unsigned salt, void *source,
                  size_t count);

/*
 * Place of the first wrong element, or `count`. `salt` is that of the last fill; `line_salt` that of the
 * last change, NULL if there was none. `wanted` and `found` get the two values.
 */
size_t bench_check(const struct bench_values *values, int root, unsigned salt,
                   const unsigned *line_salt, const void *target, size_t count, double *wanted,
                   double *found);

/* Reads the first word of each cache line; returns something that depends on all of them. */
uint64_t bench_read(const void *target, size_t bytes);

/* ---- measuring ------------------------------------------------------------------------------- */

struct bench_row {
    size_t bytes, count;
    uint64_t iterations; /* of a block */
    int blocks;          /* 0: only checked */
    bool slow;           /* it took longer than the limit */
    double min_us, median_us, max_us;
    const char *algorithm, *transports;
    const char *memory; /* of the source */
    bool counted;
    double most[BENCH_COUNTS], mean[BENCH_COUNTS]; /* per call, over the ranks */
    double handoff_ns, handoff_after_ns;           /* just before and after; 0: not measured */
    double floor_us;                               /* 0: not known */
};

/* Checks, and unless told not to, times calls of `bytes` bytes. Collective. */
void bench_measure(struct bench_world *world, const struct bench_options *options, size_t bytes,
                   struct bench_row *row);

/* Arrivals at random moments; NULL if longest_us is below 0. Around each call arrive and end, at most
   `most` times before the seconds, their sum, are asked for: collective. */
struct bench_skew;
struct bench_skew *bench_skew_open(struct bench_world *world, double longest_us);
void bench_skew_close(struct bench_skew *skew);
uint64_t bench_skew_most(void);
void bench_skew_arrive(struct bench_skew *skew);
void bench_skew_end(struct bench_skew *skew);
double bench_skew_seconds(struct bench_skew *skew);

/* ---- machine --------------------------------------------------------------------------------- */

/* Seconds since some moment. */
double bench_now(void);

/* Finds out who shares a host; pins this rank to a core of its own if so asked. Collective. */
void bench_place(struct bench_world *world, bool pin);

/* What two cores of this host can do at best; 0: not measured. */
struct bench_floor {
    int cores;  /* that this process may be given */
    int cpu[2]; /* the first two; -1: there is only one */
    const char *mode;
    double exchange_ns;              /* each writes a line and waits for the other's */
    double handoff_ns;               /* one line one way, of a ping-pong */
    double rewrite_gbs;              /* writing what the other has read last */
    double takeover_gbs;             /* writing what I have read last and the other has written */
    double read_gbs;                 /* reading what the other has written */
    double copy_gbs, copy_large_gbs; /* 32 KiB within cache, 16 MiB */
    double reduce_gbs, reduce_large_gbs; /* sum of two f32 vectors, bytes of one */
    double yield_ns;                     /* switch between two threads of a core */
};

/* By two threads of this process, some 100 ms. */
void bench_floor_measure(struct bench_floor *floor);

/* Only what changes when the cores move: hand-off, reading and writing. A few ms. */
void bench_floor_refresh(struct bench_floor *floor);

/* What a call of `bytes` bytes between `ranks` ranks of this host takes at least; 0: not known. */
double bench_floor_us(const struct bench_floor *floor, double handoff_ns, int ranks, size_t bytes);

/* Runs a measurement of the above on rank 0 while the others sleep. Collective. */
void bench_floor_alone(struct bench_world *world, struct bench_floor *floor);
void bench_refresh_alone(struct bench_world *world, struct bench_floor *floor);

/* ---- output ---------------------------------------------------------------------------------- */

struct bench_report;

/* Prints the head (rank 0; elsewhere a report does nothing). NULL floor: not measured. */
struct bench_report *bench_report_open(const struct bench_world *world,
                                       const struct bench_options *options,
                                       const struct bench_floor *floor, const int *cpu_of);
void bench_report_row(struct bench_report *report, const struct bench_row *row);
/* Processor time of the `waiting` ranks from 0 on. */
void bench_report_late(struct bench_report *report, const int64_t *cpu_us, int waiting);
/* Writes the JSON file. Returns 0 for success. */
int bench_report_close(struct bench_report *report, uint64_t window_bytes, uint64_t used_bytes);

/* One rank comes options->seconds late; what the others took meanwhile. Collective. */
void bench_late(struct bench_world *world, const struct bench_options *options,
                struct bench_report *report);

/* What tune found. */
struct bench_tuned {
    const char *entry;        /* of select.c's table */
    const char *algorithm[2]; /* for small vectors, for large ones */
    size_t scale;             /* the entry is that often the size */
    const size_t *bytes;
    const double *us[2];
    size_t sizes;
    size_t up_to; /* the largest size that counts as small; 0: none */
};
void bench_report_tuned(struct bench_report *report, const struct bench_world *world,
                        const struct bench_tuned *tuned);

/* Measures the algorithms for small and for large vectors, and says where to change. Collective. */
void bench_tune(struct bench_world *world, const struct bench_options *options,
                struct bench_report *report);

void bench_floor_print(const struct bench_floor *floor, FILE *out);

#endif
