/*
 * What the parts of the plan checker share: all plans as one numbered set of steps, channels and
 * uses, and how a violation is reported. Nothing outside the checker includes this.
 *
 * Steps of all ranks are numbered through (step g of the set is step g - step_base[r] of rank r),
 * channels likewise. Use u of channel c is number use_base[c] + u.
 */
#ifndef TU_COLLECTIVES_PLAN_CHECK_PARTS_H
#define TU_COLLECTIVES_PLAN_CHECK_PARTS_H

#include "collectives/plan_check.h"

struct tu_proof_memory;

struct tu_proof {
    const struct tu_plan *const *plan;
    const struct tu_check *check;
    struct tu_check_result *result;
    uint32_t ranks, steps, channels;
    uint32_t slots; /* of a ring, as a writer can rely on them */

    /* tu_proof_structure() */
    uint32_t *step_base;    /* [ranks + 1] */
    uint32_t *channel_base; /* [ranks + 1] */
    uint32_t *rank_of_step; /* [steps] */
    uint32_t *rank_of_channel;
    size_t *use_base;   /* [channels + 1] */
    uint32_t *use_step; /* [uses] the step of this end; TU_NO_STEP: a board's use that is skipped */

    /* tu_proof_matching() */
    uint32_t *other_end;     /* [channels] EDGE: the other end; BOARD_IN: the writer's BOARD_OUT */
    uint32_t *board_base;    /* [ranks + 1] readers of rank r's board: */
    uint32_t *board_channel; /* ... board_channel[board_base[r] .. board_base[r + 1]) */

    /* tu_proof_order() */
    uint32_t *order; /* [steps] all steps, each after everything that it needs */

    struct tu_proof_memory *memory;
};

/* The parts, in this order; each needs the earlier ones to have succeeded. */
bool tu_proof_structure(struct tu_proof *proof); /* each plan for itself */
bool tu_proof_matching(struct tu_proof *proof);  /* both ends of every channel */
bool tu_proof_order(struct tu_proof *proof);     /* no deadlock */
bool tu_proof_private(struct tu_proof *proof);   /* races on a rank's own bytes */
bool tu_proof_node(struct tu_proof *proof);      /* races on node blocks */
bool tu_proof_values(struct tu_proof *proof);    /* what the target holds at the end */
bool tu_proof_barrier(struct tu_proof *proof);   /* nobody leaves before everybody came */
bool tu_proof_measure(struct tu_proof *proof);   /* fills the result */

/* True if the blocks of `part` follow each other in `whole` in the same order; *at is set to the
 * place of the first one. Both must be legal ranges. */
bool tu_range_contains(const struct tu_plan *plan, struct tu_span whole, struct tu_span part,
                       uint32_t *at);

/* One step of part 1. next[c]: the next use of the rank's channel c. */
bool tu_proof_step_is_right(struct tu_proof *proof, uint32_t g, uint32_t *next);

/* Records a violation at step g, at a rank, or of the whole; always false. */
bool tu_proof_fail(struct tu_proof *proof, uint32_t g, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
bool tu_proof_fail_rank(struct tu_proof *proof, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
bool tu_proof_no_memory(struct tu_proof *proof);
/* "WAIT for 5, use 1" */
void tu_proof_describe(const struct tu_proof *proof, uint32_t g, char *text, size_t bytes);

/* Zeroed memory that lives until the proof ends, or until a release to an earlier mark. NULL if
 * memory is out. */
void *tu_proof_alloc(struct tu_proof *proof, size_t n, size_t bytes);
void tu_proof_release(struct tu_proof *proof, struct tu_proof_memory *mark);

/* ---- looking around ---- */

static inline const struct tu_plan *tu_proof_plan(const struct tu_proof *proof, uint32_t g) {
    return proof->plan[proof->rank_of_step[g]];
}

static inline const struct tu_step *tu_proof_step(const struct tu_proof *proof, uint32_t g) {
    uint32_t rank = proof->rank_of_step[g];
    return &proof->plan[rank]->step[g - proof->step_base[rank]];
}

static inline const struct tu_plan_channel *tu_proof_channel(const struct tu_proof *proof,
                                                             uint32_t c) {
    uint32_t rank = proof->rank_of_channel[c];
    return &proof->plan[rank]->channel[c - proof->channel_base[rank]];
}

/* The step that g depends on by after[i], which there is. */
static inline uint32_t tu_proof_after(const struct tu_proof *proof, uint32_t g, int i) {
    return proof->step_base[proof->rank_of_step[g]] + tu_proof_step(proof, g)->after[i];
}

/* The channel of a step that has one, and the number of its use. */
static inline uint32_t tu_proof_channel_of(const struct tu_proof *proof, uint32_t g) {
    return proof->channel_base[proof->rank_of_step[g]] + tu_proof_step(proof, g)->channel;
}

static inline bool tu_posts(const struct tu_step *step) {
    return step->kind == TU_WRITE || step->kind == TU_SHARE || step->kind == TU_SIGNAL;
}

static inline bool tu_touches_node(const struct tu_plan *plan, const struct tu_step *step) {
    for (uint32_t i = 0; i < step->args; i++)
        if (plan->ref[step->arg + i].space == TU_NODE)
            return true;
    return (step->dsts > 0 && step->dst[0].space == TU_NODE) ||
           (step->dsts > 1 && step->dst[1].space == TU_NODE);
}

/* Adds to count[g] how often later steps of the rank name g as a dependency. */
void tu_proof_count_dependents(const struct tu_proof *proof, uint32_t *count);

/* The channels in which the uses of the outgoing channel c are read. Returns their number. */
static inline uint32_t tu_proof_readers(const struct tu_proof *proof, uint32_t c,
                                        const uint32_t **reader) {
    uint32_t rank = proof->rank_of_channel[c];
    if (tu_proof_channel(proof, c)->kind == TU_EDGE_OUT) {
        *reader = &proof->other_end[c];
        return 1;
    }
    *reader = proof->board_channel + proof->board_base[rank];
    return proof->board_base[rank + 1] - proof->board_base[rank];
}

/* The WRITE, SHARE or SIGNAL that the WAIT g is for. */
static inline uint32_t tu_proof_writer(const struct tu_proof *proof, uint32_t g) {
    uint32_t c = proof->other_end[tu_proof_channel_of(proof, g)];
    return proof->use_step[proof->use_base[c] + tu_proof_step(proof, g)->use];
}

/* The place of a block in the memory of its space. */
static inline uint32_t tu_region_block(const struct tu_plan *plan, uint32_t space, uint32_t block) {
    return plan->replicate && (space == TU_SRC || space == TU_DST) ? 0 : block;
}

#endif
