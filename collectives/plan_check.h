/*
 * Proof that the plans of all ranks together are right: see "plan_check" in docs/ARCHITECTURE.md.
 */
#ifndef TU_COLLECTIVES_PLAN_CHECK_H
#define TU_COLLECTIVES_PLAN_CHECK_H

#include "collectives/plan.h"
#include "collectives/shape.h"

struct tu_check {
    enum tu_collective collective;
    const struct tu_nodes *nodes;
    uint32_t root;            /* broadcast */
    uint32_t ring_slots;      /* R: proofs use R_eff = R / 2 + 1 */
    bool structure_only;      /* skip the symbolic values */
    bool in_order, left_fold; /* claims to prove */
};

/* Measured on the way, for the tests' closed forms. */
struct tu_check_result {
    uint32_t rounds;         /* WRITEs on the longest path */
    uint32_t peers;          /* most distinct edge peers of a rank, in either direction */
    uint64_t sent_blocks;    /* most blocks that a rank WRITEs */
    uint64_t reduced_blocks; /* most block folds (operands - 1) of a rank */
    uint32_t scratch_blocks;
    bool by_reference; /* the plans end also if a SHARE is done only when its readers consumed it */
    char error[256];   /* what is wrong: rank, step, reason; "" if nothing */
};

/* True if everything holds. plan[r] is rank r's. */
bool tu_plan_check(const struct tu_plan *const *plan, const struct tu_check *check,
                   struct tu_check_result *result);

#endif
