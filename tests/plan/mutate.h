/*
 * Mutations of right plans. Those of most classes are wrong whatever the plan, and the checker must
 * reject each. The others may be harmless (a dependency that nothing needs): if the checker accepts
 * one, the model must run it right, apart from and in place, whatever the seed.
 */
#ifndef TU_TESTS_PLAN_MUTATE_H
#define TU_TESTS_PLAN_MUTATE_H

#include "collectives/plan_check.h"

enum mutation {
    DROPPED_WAIT,
    DROPPED_POST,                           /* a WRITE, SHARE or SIGNAL */
    MISSING_EDGE,                           /* all WRITEs of an edge, and its channel */
    WRONG_PEER,                             /* of an edge */
    SWAPPED_OFFSET,                         /* another first block, of a message or a reference */
    UNEQUAL_RANGE,                          /* a WAIT for one block less */
    REUSED_SLOT,                            /* the number of the use before */
    EARLY_RELEASE,                          /* one user less */
    LATE_RELEASE,                           /* one more */
    COUNTED_TWICE,                          /* an operand once more */
    LEFT_OUT,                               /* an operand less */
    SWAPPED_OPERANDS,                       /* where the claim is rank order */
    DROPPED_STEP,                           /* a REDUCE or COPY */
    BOARD_USES,                             /* one more at a reader */
    BOARD_READERS,                          /* one more at the writer */
    LATER_STEP,                             /* a dependency on itself */
    CERTAIN_MUTATIONS,                      /* the rest may be harmless */
    DROPPED_DEPENDENCY = CERTAIN_MUTATIONS, /* one that no other implies */
    WEAKER_DEPENDENCY,                      /* on what that step depends on */
    DROPPED_MESSAGE,                        /* at both ends */
    OTHER_BUFFER,                           /* target instead of source */
    MUTATIONS
};

const char *mutation_name(enum mutation mutation);

/* Copies of all plans, one of them with the n-th mutation of the class; NULL if there are no more.
 * Free with mutated_free(). */
struct tu_plan **mutated(const struct tu_plan *const *plan, uint32_t ranks, enum mutation mutation,
                         uint32_t n);
void mutated_free(struct tu_plan **plan, uint32_t ranks);

struct mutation_count {
    uint32_t made, caught;
    uint32_t shown; /* caught, and the model goes wrong too (dependencies and buffers only) */
};

/*
 * Adds up all mutations of all classes. The test fails if one of a certain class is accepted, or if
 * an accepted one of the others goes wrong in the model (`seeds` runs of each kind; MODEL_RANKS
 * ranks at most). The plans must be right. Skips mutations so as to try at most `most` per class.
 */
void mutate_all(const struct tu_plan *const *plan, const struct tu_check *check, uint32_t most,
                uint32_t seeds, struct mutation_count count[MUTATIONS]);
void mutation_print(const char *what, const struct mutation_count count[MUTATIONS]);

#endif
