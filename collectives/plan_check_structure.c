/*
 * Plan checker, part 1: each plan for itself. Everything is in bounds, shapes agree, uses are
 * numbered in plan order, and what tu_plan_finish() made is what the steps say. Later parts index
 * without looking. Steps are looked at in plan_check_steps.c. (That an arrival is read only after
 * its WAIT needs dependencies: part 4.)
 */
#include "collectives/plan_check_parts.h"

/* ---- what tu_plan_finish() made ---- */

static bool users_are_right(struct tu_proof *proof, const struct tu_plan *plan, uint32_t *last,
                            uint32_t *users) {
    for (uint32_t s = 0; s < plan->steps; s++) {
        last[s] = TU_NO_STEP;
        users[s] = 0;
        for (uint32_t i = 0; i < plan->step[s].args; i++) {
            const struct tu_ref *ref = &plan->ref[plan->step[s].arg + i];
            if (ref->space == TU_ARRIVED && last[ref->step] != s) {
                last[ref->step] = s;
                users[ref->step]++;
            }
        }
    }
    for (uint32_t s = 0; s < plan->steps; s++)
        if (plan->step[s].users != users[s])
            return tu_proof_fail(proof, proof->step_base[plan->rank] + s,
                                 "states %u users, but %u steps name it", plan->step[s].users,
                                 users[s]);
    return true;
}

/* Uses without a step are skips of boards, listed by channel and use; others have all their steps. */
static bool skips_are_right(struct tu_proof *proof, const struct tu_plan *plan) {
    uint32_t skips = 0;

    for (uint32_t i = 0; i < plan->channels; i++) {
        uint32_t c = proof->channel_base[plan->rank] + i;
        for (uint32_t use = 0; use < plan->channel[i].uses; use++) {
            if (proof->use_step[proof->use_base[c] + use] != TU_NO_STEP)
                continue;
            if (plan->channel[i].kind != TU_BOARD_IN)
                return tu_proof_fail_rank(proof, plan->rank, "channel %u states %u uses, has %u", i,
                                          plan->channel[i].uses, use);
            if (skips >= plan->skips || plan->skip[skips].channel != i ||
                plan->skip[skips].use != use)
                return tu_proof_fail_rank(proof, plan->rank,
                                          "use %u of the board of %u is neither waited for nor "
                                          "listed as skipped",
                                          use, plan->channel[i].peer);
            skips++;
        }
    }
    if (skips != plan->skips)
        return tu_proof_fail_rank(proof, plan->rank, "lists %u skips instead of %u", plan->skips,
                                  skips);
    return true;
}

static bool longest_are_right(struct tu_proof *proof, const struct tu_plan *plan) {
    uint32_t message = 0, share = 0;

    for (uint32_t s = 0; s < plan->steps; s++) {
        const struct tu_step *step = &plan->step[s];
        if (step->kind > TU_SIGNAL)
            continue;
        uint32_t kind = plan->channel[step->channel].kind;
        uint32_t *longest = kind == TU_EDGE_IN || kind == TU_EDGE_OUT ? &message : &share;
        *longest = *longest < step->n ? step->n : *longest;
    }
    if (plan->message_blocks < message || plan->share_blocks < share)
        return tu_proof_fail_rank(proof, plan->rank,
                                  "states longest messages of %u and %u blocks, but has %u and %u",
                                  plan->message_blocks, plan->share_blocks, message, share);
    return true;
}

/* ---- plans ---- */

static bool head_is_right(struct tu_proof *proof, uint32_t rank) {
    const struct tu_plan *plan = proof->plan[rank], *zero = proof->plan[0];

    if (plan->rank != rank || plan->size != proof->ranks)
        return tu_proof_fail_rank(proof, rank, "the plan says rank %u of %u", plan->rank,
                                  plan->size);
    if (plan->blocks == 0 || plan->wrap == 0)
        return tu_proof_fail_rank(proof, rank, "%u blocks, wrap %u", plan->blocks, plan->wrap);
    if (plan->blocks != zero->blocks || plan->wrap != zero->wrap ||
        plan->replicate != zero->replicate || plan->in_order != zero->in_order ||
        plan->left_fold != zero->left_fold)
        return tu_proof_fail_rank(proof, rank, "blocks, wrap or claims are not those of rank 0");
    if (plan->message_blocks != zero->message_blocks || plan->share_blocks != zero->share_blocks)
        return tu_proof_fail_rank(proof, rank,
                                  "states longest messages of %u and %u blocks, rank 0 of %u and "
                                  "%u: they would cut the vector in different places",
                                  plan->message_blocks, plan->share_blocks, zero->message_blocks,
                                  zero->share_blocks);
    if (plan->node_run != zero->node_run) /* cuts the vector, too */
        return tu_proof_fail_rank(proof, rank, "%u node blocks per member, rank 0 says %u",
                                  plan->node_run, zero->node_run);
    return true;
}

static bool channel_is_right(struct tu_proof *proof, uint32_t rank, uint32_t i, uint32_t *seen) {
    const struct tu_plan_channel *channel = &proof->plan[rank]->channel[i];
    const struct tu_nodes *nodes = proof->check->nodes;
    uint32_t peer = channel->peer, most = proof->plan[rank]->steps;

    if (channel->kind > TU_BOARD_IN || peer >= proof->ranks ||
        (peer == rank) != (channel->kind == TU_BOARD_OUT))
        return tu_proof_fail_rank(proof, rank, "channel %u: kind %u, peer %u", i, channel->kind,
                                  peer);
    if (channel->kind == TU_BOARD_IN) {
        most = proof->plan[peer]->steps;
        if (nodes->node_of[peer] != nodes->node_of[rank])
            return tu_proof_fail_rank(proof, rank,
                                      "channel %u: the board of rank %u, on another "
                                      "node",
                                      i, peer);
    }
    if (channel->uses == 0 || channel->uses > most)
        return tu_proof_fail_rank(proof, rank, "channel %u (peer %u) states %u uses", i, peer,
                                  channel->uses);
    uint32_t *mark = &seen[channel->kind * proof->ranks + peer];
    if (*mark == rank + 1)
        return tu_proof_fail_rank(proof, rank, "channel %u (peer %u) is there twice", i, peer);
    *mark = rank + 1;
    return true;
}

/* Numbers steps, channels and uses through. */
static bool number(struct tu_proof *proof) {
    uint64_t steps = 0, channels = 0;

    proof->step_base = tu_proof_alloc(proof, (size_t)proof->ranks + 1, sizeof(uint32_t));
    proof->channel_base = tu_proof_alloc(proof, (size_t)proof->ranks + 1, sizeof(uint32_t));
    if (!proof->step_base || !proof->channel_base)
        return tu_proof_no_memory(proof);
    for (uint32_t r = 0; r < proof->ranks; r++) {
        proof->step_base[r] = (uint32_t)steps;
        proof->channel_base[r] = (uint32_t)channels;
        steps += proof->plan[r]->steps;
        channels += proof->plan[r]->channels;
        if (steps >= TU_NO_STEP || channels >= TU_NO_STEP)
            return tu_proof_fail_rank(proof, r, "too many steps to check");
    }
    proof->step_base[proof->ranks] = proof->steps = (uint32_t)steps;
    proof->channel_base[proof->ranks] = proof->channels = (uint32_t)channels;
    return true;
}

static bool number_uses(struct tu_proof *proof) {
    size_t uses = 0;

    proof->rank_of_step = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    proof->rank_of_channel = tu_proof_alloc(proof, proof->channels, sizeof(uint32_t));
    proof->use_base = tu_proof_alloc(proof, (size_t)proof->channels + 1, sizeof(size_t));
    if (!proof->rank_of_step || !proof->rank_of_channel || !proof->use_base)
        return tu_proof_no_memory(proof);
    for (uint32_t r = 0; r < proof->ranks; r++) {
        for (uint32_t g = proof->step_base[r]; g < proof->step_base[r + 1]; g++)
            proof->rank_of_step[g] = r;
        for (uint32_t c = proof->channel_base[r]; c < proof->channel_base[r + 1]; c++) {
            proof->rank_of_channel[c] = r;
            proof->use_base[c] = uses;
            uses += proof->plan[r]->channel[c - proof->channel_base[r]].uses;
        }
    }
    proof->use_base[proof->channels] = uses;
    proof->use_step = tu_proof_alloc(proof, uses, sizeof(uint32_t));
    if (!proof->use_step)
        return tu_proof_no_memory(proof);
    for (size_t i = 0; i < uses; i++)
        proof->use_step[i] = TU_NO_STEP;
    return true;
}

static bool channels_are_right(struct tu_proof *proof) {
    struct tu_proof_memory *mark = proof->memory;
    uint32_t *seen = tu_proof_alloc(proof, (size_t)proof->ranks * 4, sizeof(*seen));

    if (!seen)
        return tu_proof_no_memory(proof);
    for (uint32_t r = 0; r < proof->ranks; r++)
        for (uint32_t i = 0; i < proof->plan[r]->channels; i++)
            if (!channel_is_right(proof, r, i, seen))
                return false;
    tu_proof_release(proof, mark);
    return true;
}

static bool plans_are_right(struct tu_proof *proof) {
    struct tu_proof_memory *mark = proof->memory;
    uint32_t most_steps = 0, most_channels = 0;

    for (uint32_t r = 0; r < proof->ranks; r++) {
        const struct tu_plan *plan = proof->plan[r];
        most_steps = most_steps < plan->steps ? plan->steps : most_steps;
        most_channels = most_channels < plan->channels ? plan->channels : most_channels;
    }
    uint32_t *next = tu_proof_alloc(proof, most_channels, sizeof(*next));
    uint32_t *last = tu_proof_alloc(proof, most_steps, sizeof(*last));
    uint32_t *users = tu_proof_alloc(proof, most_steps, sizeof(*users));
    if (!next || !last || !users)
        return tu_proof_no_memory(proof);
    for (uint32_t r = 0; r < proof->ranks; r++) {
        const struct tu_plan *plan = proof->plan[r];
        for (uint32_t c = 0; c < plan->channels; c++)
            next[c] = 0;
        for (uint32_t g = proof->step_base[r]; g < proof->step_base[r + 1]; g++)
            if (!tu_proof_step_is_right(proof, g, next))
                return false;
        if (!skips_are_right(proof, plan) || !users_are_right(proof, plan, last, users) ||
            !longest_are_right(proof, plan))
            return false;
    }
    tu_proof_release(proof, mark);
    return true;
}

bool tu_proof_structure(struct tu_proof *proof) {
    for (uint32_t r = 0; r < proof->ranks; r++)
        if (!head_is_right(proof, r))
            return false;
    return number(proof) && channels_are_right(proof) && number_uses(proof) &&
           plans_are_right(proof);
}
