/*
 * Plan checker: a barrier. Each step knows a set of ranks that have come, its own and those that its
 * dependencies and its message know of; what a rank knows when it is through with all its steps must
 * be everybody.
 */
#include "collectives/plan_check_clock.h"
#include "collectives/plan_check_parts.h"

struct barrier {
    struct tu_proof *proof;
    struct tu_clocks clocks;
    uint32_t *set;   /* [steps] ranks that the step knows of */
    uint32_t *count; /* [steps] dependents in the rank */
    uint32_t *end;   /* [ranks] */
};

static uint32_t receivers(const struct tu_proof *proof, uint32_t g) {
    const struct tu_step *step = tu_proof_step(proof, g);

    return step->kind == TU_WRITE ? 1 : tu_posts(step) ? step->readers : 0;
}

static uint32_t only(struct barrier *barrier, uint32_t rank) {
    return tu_clock_with(&barrier->clocks, 0, rank / 32, (uint32_t)1 << rank % 32);
}

static void run_step(struct barrier *barrier, uint32_t g) {
    const struct tu_proof *proof = barrier->proof;
    struct tu_clocks *clocks = &barrier->clocks;
    const struct tu_step *step = tu_proof_step(proof, g);
    uint32_t rank = proof->rank_of_step[g], holds = barrier->count[g] + receivers(proof, g);
    uint32_t set = only(barrier, rank);

    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP)
            set = tu_clock_join(clocks, set, barrier->set[tu_proof_after(proof, g, i)]);
    if (step->kind == TU_WAIT)
        set = tu_clock_join(clocks, set, barrier->set[tu_proof_writer(proof, g)]);
    if (clocks->failed)
        return;
    barrier->set[g] = set;
    tu_clock_hold(clocks, set, holds);
    if (barrier->count[g] == 0)
        barrier->end[rank] = tu_clock_join(clocks, barrier->end[rank], set);
    else
        tu_clock_drop(clocks, set);
}

static bool knows_all(struct barrier *barrier, uint32_t rank) {
    struct tu_proof *proof = barrier->proof;
    uint32_t end = barrier->end[rank] ? barrier->end[rank] : only(barrier, rank);

    if (barrier->clocks.failed)
        return tu_proof_no_memory(proof);
    const uint32_t *set = tu_clock_words(&barrier->clocks, end);
    for (uint32_t r = 0; r < proof->ranks; r++)
        if (!(set[r / 32] >> r % 32 & 1))
            return tu_proof_fail_rank(proof, rank, "may leave the barrier before rank %u came", r);
    return true;
}

bool tu_proof_barrier(struct tu_proof *proof) {
    struct tu_proof_memory *mark = proof->memory;
    struct barrier barrier = {.proof = proof};
    bool right = true;

    barrier.set = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    barrier.count = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    barrier.end = tu_proof_alloc(proof, proof->ranks, sizeof(uint32_t));
    if (!barrier.set || !barrier.count || !barrier.end)
        return tu_proof_no_memory(proof);
    tu_proof_count_dependents(proof, barrier.count);
    tu_clocks_init(&barrier.clocks, proof->ranks / 32 + 1, true);
    for (uint32_t i = 0; !barrier.clocks.failed && i < proof->steps; i++)
        run_step(&barrier, proof->order[i]);
    for (uint32_t r = 0; right && r < proof->ranks; r++)
        right = knows_all(&barrier, r);
    tu_clocks_free(&barrier.clocks);
    tu_proof_release(proof, mark);
    return right;
}
