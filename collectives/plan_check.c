/*
 * The plan checker: runs its parts one after the other, up to the first violation, and keeps what
 * they share. Each part lives in a file of its own.
 */
#include "collectives/plan_check_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct tu_proof_memory {
    struct tu_proof_memory *next;
    max_align_t data[];
};

void *tu_proof_alloc(struct tu_proof *proof, size_t n, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all) ||
        __builtin_add_overflow(all, sizeof(struct tu_proof_memory), &all))
        return NULL;
    struct tu_proof_memory *memory = calloc(1, all);
    if (!memory)
        return NULL;
    memory->next = proof->memory;
    proof->memory = memory;
    return memory->data;
}

void tu_proof_release(struct tu_proof *proof, struct tu_proof_memory *mark) {
    while (proof->memory != mark) {
        struct tu_proof_memory *next = proof->memory->next;
        free(proof->memory);
        proof->memory = next;
    }
}

/* ---- reporting ---- */

void tu_proof_describe(const struct tu_proof *proof, uint32_t g, char *text, size_t bytes) {
    static const char *const kind[] = {"WRITE", "WAIT", "SHARE", "SIGNAL", "REDUCE", "COPY"};
    const struct tu_step *step = tu_proof_step(proof, g);
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const char *name = step->kind <= TU_COPY ? kind[step->kind] : "unknown kind";

    if (step->kind > TU_SIGNAL || step->channel >= plan->channels) {
        snprintf(text, bytes, "%s", name);
        return;
    }
    const struct tu_plan_channel *channel = &plan->channel[step->channel];
    const char *to = step->kind == TU_WRITE         ? " to "
                     : step->kind != TU_WAIT        ? " on the board of "
                     : channel->kind == TU_BOARD_IN ? " for the board of "
                                                    : " for ";
    snprintf(text, bytes, "%s%s%u, use %u", name, to, channel->peer, step->use);
}

bool tu_proof_fail(struct tu_proof *proof, uint32_t g, const char *format, ...) {
    char *text = proof->result->error, what[64];
    size_t room = sizeof(proof->result->error);
    uint32_t rank = proof->rank_of_step[g];
    va_list args;

    tu_proof_describe(proof, g, what, sizeof(what));
    int used =
        snprintf(text, room, "rank %u step %u (%s): ", rank, g - proof->step_base[rank], what);
    va_start(args, format);
    vsnprintf(text + used, room - (size_t)used, format, args);
    va_end(args);
    return false;
}

bool tu_proof_fail_rank(struct tu_proof *proof, uint32_t rank, const char *format, ...) {
    char *text = proof->result->error;
    size_t room = sizeof(proof->result->error);
    va_list args;

    int used = snprintf(text, room, "rank %u: ", rank);
    va_start(args, format);
    vsnprintf(text + used, room - (size_t)used, format, args);
    va_end(args);
    return false;
}

bool tu_proof_no_memory(struct tu_proof *proof) {
    snprintf(proof->result->error, sizeof(proof->result->error), "out of memory");
    return false;
}

/* ---- the whole ---- */

static bool run(struct tu_proof *proof) {
    if (!tu_proof_structure(proof) || !tu_proof_matching(proof) || !tu_proof_order(proof) ||
        !tu_proof_private(proof) || !tu_proof_node(proof))
        return false;
    if (proof->check->collective == TU_BARRIER && !tu_proof_barrier(proof))
        return false;
    if (!proof->check->structure_only && !tu_proof_values(proof))
        return false;
    return tu_proof_measure(proof);
}

bool tu_plan_check(const struct tu_plan *const *plan, const struct tu_check *check,
                   struct tu_check_result *result) {
    struct tu_proof proof = {.plan = plan,
                             .check = check,
                             .result = result,
                             .ranks = check->nodes->ranks,
                             .slots = check->ring_slots / 2 + 1};

    memset(result, 0, sizeof(*result));
    bool right = run(&proof);
    tu_proof_release(&proof, NULL);
    return right;
}
