/* What the calls of random programs have used: a test that never meets a thing proves nothing of it. */
#ifndef TU_TESTS_SIM_COVERAGE_H
#define TU_TESTS_SIM_COVERAGE_H

#include "api/job.h"

enum coverage_thing {
    COVER_BOARDS,
    COVER_PAIRS, /* boards that change hands */
    COVER_NODE_SCRATCH,
    COVER_MAPPED_EDGES, /* between ranks of a node */
    COVER_WIRE_EDGES,
    COVER_WIRE_SLOTS,  /* messages over the wire that are more than a line */
    COVER_SHARE_SLOTS, /* the same for boards */
    COVER_SEGMENTS,    /* more than one */
    COVER_STRAIGHT,    /* programs whose steps are taken one by one */
    COVER_BRANCHED,    /* others */
    COVER_LENT,        /* vectors that peers read where they are */
    COVER_THINGS,
};

enum coverage_knob { COVER_RING, COVER_BANKS, COVER_SCRATCH, COVER_WIDTH, COVER_KNOBS };

enum { COVERAGE_ALGORITHMS = 32, COVERAGE_VALUES = 17 };

struct coverage {
    uint32_t algorithm[COVERAGE_ALGORITHMS];       /* calls, by place in the table */
    uint32_t forced[COVERAGE_ALGORITHMS];          /* those where a knob names it */
    uint32_t thing[COVER_THINGS];                  /* calls */
    uint32_t knob[COVER_KNOBS][COVERAGE_VALUES];   /* worlds, by value */
    uint32_t ranks[65];                            /* worlds, by ranks */
    uint32_t dups, frees, naps, declined, delayed; /* ops; naps; worlds */
};

/* A call that this rank has prepared on the comm. */
void coverage_of_call(struct coverage *coverage, const tutti_comm *comm, tutti_call call);
void coverage_print(const struct coverage *coverage);

/* True if everything was met at least so often; else tells what was not. */
bool coverage_is_whole(const struct coverage *coverage, uint32_t least);

#endif
