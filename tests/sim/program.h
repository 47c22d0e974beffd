/*
 * Random programs of collective calls: drawn from a seed, the same for all ranks, run by every rank in
 * its own way (blocking or not, in place or not, requests completed in any order, by waiting or by
 * testing, with naps in between), and checked: results, bits, buffers that must not change.
 */
#ifndef TU_TESTS_SIM_PROGRAM_H
#define TU_TESTS_SIM_PROGRAM_H

#include "tests/sim/coverage.h"
#include "tests/sim/ranks.h"
#include "tests/sim/values.h"

enum { PROGRAM_OPS = 40, PROGRAM_COMMS = 3, PROGRAM_OUTSTANDING = 3 };

enum op_kind {
    OP_CALL,
    OP_DUP,
    OP_FREE,
    OP_END, /* no more ops on this rank */
};

struct op {
    enum op_kind kind;
    uint32_t comm;  /* place of the communicator */
    uint32_t other; /* DUP: place of the new one */
    bool swap;      /* CALL: may be started after the next op, a call on another communicator */
    tutti_call call;
    struct value_kind values;
    size_t count;
    int root;
    bool rejected;   /* CALL: one with bad arguments is made before */
    bool wrong;      /* CALL: not all ranks make it, so its result says nothing */
    uint8_t *result; /* of the first rank that has it */
};

/* How a rank failed first; status TUTTI_OK: it did not. */
struct program_failure {
    tutti_status status;
    uint32_t op; /* `ops`: finalize */
    char text[400];
};

struct program {
    uint64_t seed;
    uint32_t ranks, ops;
    struct op op[PROGRAM_OPS];
    uint32_t naps;   /* of 1024 times: a rank sleeps */
    uint64_t nap_ns; /* at most */
    bool one_naps;   /* only `napper` does */
    uint32_t napper;
    struct coverage *coverage; /* what rank 0's calls use is counted here; NULL: not */

    /* Programs that go wrong: calls may fail, and the first failure of each rank is kept. */
    bool may_fail;
    struct program_failure failure[SIM_MAX_RANKS];
    /* What a rank does in place of op i (mostly that); NULL: nothing. */
    struct op *(*instead)(struct sim_rank *rank, struct program *program, uint32_t i);
    void *context;
};

struct program_limits {
    uint32_t ops;
    size_t bytes; /* of one vector, at most */
    bool comms;   /* dup and free */
};

void program_make(struct program *program, uint64_t seed, uint32_t ranks,
                  const struct program_limits *limits);
/* The values of a call: any type with an operation that it has. */
void program_draw_values(struct value_kind *values, uint64_t *random);

void program_free(struct program *program);

/* Runs it on a rank: from init to finalize. */
void program_run(struct sim_rank *rank, void *program);

#endif
