/*
 * Programs of calls that run hand-made plans instead of an algorithm's: bound to the channels of the
 * communicator of all ranks, and run by the executor like any other call, a few outstanding at a time.
 * Results are compared with what the plans say, computed apart (plans_values.c).
 */
#ifndef TU_TESTS_SIM_PLANS_H
#define TU_TESTS_SIM_PLANS_H

#include "collectives/plan.h"
#include "tests/sim/ranks.h"

enum { PLANS_SETS = 2, PLANS_CALLS = 8, PLANS_OUTSTANDING = 3, PLANS_PERIOD = 11 };

struct plans_program {
    uint64_t seed;
    uint32_t ranks, calls;
    struct tu_plan *const *set[PLANS_SETS]; /* [ranks] each: a plan for every rank */
    struct {
        uint32_t set;
        size_t count; /* elements of 64 bits; they repeat themselves after PLANS_PERIOD */
    } call[PLANS_CALLS];
    uint64_t (*expected[PLANS_CALLS])[PLANS_PERIOD]; /* [ranks], or NULL: it never ends */
    tutti_status status[SIM_MAX_RANKS];              /* the first failure of each rank */
};

/* Runs it on a rank: from init to finalize. Wrong results fail the simulation, statuses do not. */
void plans_run(struct sim_rank *rank, void *program);

/* ---- values ---- */

/* What a rank contributes to a call. */
uint64_t plans_source(const struct plans_program *program, uint32_t call, uint32_t rank, size_t i);

/* The operation of plans' REDUCEs: no two orders of operands give the same. */
void plans_fold(void *out, void *also, const void *const *a, int n, size_t count);

/* Sets expected[call]. The plans must end. */
void plans_expect(struct plans_program *program, uint32_t call);
void plans_forget(struct plans_program *program);

#endif
