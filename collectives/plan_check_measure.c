/* Plan checker: what the plans cost, for the closed forms that tests hold them to. */
#include "collectives/plan_check_parts.h"

void tu_proof_count_dependents(const struct tu_proof *proof, uint32_t *count) {
    for (uint32_t g = 0; g < proof->steps; g++)
        for (int i = 0; i < 2; i++)
            if (tu_proof_step(proof, g)->after[i] != TU_NO_STEP)
                count[tu_proof_after(proof, g, i)]++;
}

/* Messages of edges on the longest path. Boards do not count, being of the node; neither do releases
 * of slots, since they depend on the ring. */
static uint32_t longest_path(struct tu_proof *proof, uint32_t *messages) {
    uint32_t longest = 0;

    for (uint32_t i = 0; i < proof->steps; i++) {
        uint32_t g = proof->order[i];
        const struct tu_step *step = tu_proof_step(proof, g);
        for (int k = 0; k < 2; k++)
            if (step->after[k] != TU_NO_STEP && messages[tu_proof_after(proof, g, k)] > messages[g])
                messages[g] = messages[tu_proof_after(proof, g, k)];
        if (step->kind == TU_WAIT) {
            uint32_t writer = tu_proof_writer(proof, g);
            uint32_t told = messages[writer] + (tu_proof_step(proof, writer)->kind == TU_WRITE);
            messages[g] = messages[g] < told ? told : messages[g];
        }
        longest = longest < messages[g] ? messages[g] : longest;
    }
    return longest;
}

/* Distinct peers of the rank's edges. seen[r]: the last rank that had r for a peer, plus one. */
static uint32_t count_peers(const struct tu_plan *plan, uint32_t *seen) {
    uint32_t peers = 0;

    for (uint32_t c = 0; c < plan->channels; c++) {
        const struct tu_plan_channel *channel = &plan->channel[c];
        if ((channel->kind != TU_EDGE_IN && channel->kind != TU_EDGE_OUT) ||
            seen[channel->peer] == plan->rank + 1)
            continue;
        seen[channel->peer] = plan->rank + 1;
        peers++;
    }
    return peers;
}

static void measure_rank(const struct tu_plan *plan, struct tu_check_result *result) {
    uint64_t sent = 0, folds = 0;

    for (uint32_t s = 0; s < plan->steps; s++) {
        const struct tu_step *step = &plan->step[s];
        if (step->kind == TU_WRITE)
            sent += step->n;
        if (step->kind == TU_REDUCE)
            folds += (uint64_t)(step->args - 1) * step->dst[0].n;
    }
    result->sent_blocks = result->sent_blocks < sent ? sent : result->sent_blocks;
    result->reduced_blocks = result->reduced_blocks < folds ? folds : result->reduced_blocks;
    if (result->scratch_blocks < plan->scratch_blocks)
        result->scratch_blocks = plan->scratch_blocks;
}

bool tu_proof_measure(struct tu_proof *proof) {
    uint32_t *messages = tu_proof_alloc(proof, proof->steps, sizeof(*messages));
    uint32_t *seen = tu_proof_alloc(proof, proof->ranks, sizeof(*seen));

    if (!messages || !seen)
        return tu_proof_no_memory(proof);
    proof->result->rounds = longest_path(proof, messages);
    for (uint32_t r = 0; r < proof->ranks; r++) {
        uint32_t peers = count_peers(proof->plan[r], seen);
        proof->result->peers = proof->result->peers < peers ? peers : proof->result->peers;
        measure_rank(proof->plan[r], proof->result);
    }
    return true;
}
