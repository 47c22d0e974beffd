/*
 * Plan checker, part 4: races on the bytes of one rank, its source, target and scratch. Steps that
 * conflict must be ordered by the rank's own dependencies. Source and target count as the same
 * memory, since a caller may give one buffer for both. Also: an arrival is read only after its WAIT,
 * and the steps that touch node blocks form a chain.
 *
 * Plan order is one of the orders in which the steps may run, so each access is compared with the
 * last write before it and, if it writes, with the reads since then; the rest follows.
 */
#include "collectives/plan_check_parts.h"

struct reading {
    uint32_t step;
    uint32_t next; /* an earlier reading, plus one */
};

struct block {
    uint32_t write;   /* last step that wrote it, plus one */
    uint32_t reading; /* the last reading since then, plus one */
};

struct ancestry {
    struct tu_proof *proof;
    const struct tu_plan *plan;
    uint32_t base;
    uint32_t words;
    uint64_t *before; /* [steps][words] which steps are done before step s starts */
    struct block *buffer, *scratch;
    struct reading *reading;
    uint32_t readings;
};

static bool is_before(const struct ancestry *a, uint32_t s, uint32_t t) {
    return a->before[(size_t)t * a->words + s / 64] >> (s % 64) & 1;
}

static void find_ancestors(struct ancestry *a) {
    for (uint32_t s = 0; s < a->plan->steps; s++) {
        uint64_t *row = a->before + (size_t)s * a->words;
        for (int i = 0; i < 2; i++) {
            uint32_t t = a->plan->step[s].after[i];
            if (t == TU_NO_STEP)
                continue;
            const uint64_t *from = a->before + (size_t)t * a->words;
            for (uint32_t w = 0; w <= t / 64; w++)
                row[w] |= from[w];
            row[t / 64] |= (uint64_t)1 << (t % 64);
        }
    }
}

/* ---- races ---- */

static bool race(struct ancestry *a, uint32_t s, uint32_t t, const char *did, const char *does,
                 const struct tu_ref *ref, uint32_t block) {
    static const char *const name[] = {"source", "target", "scratch"};
    char what[64];

    tu_proof_describe(a->proof, a->base + s, what, sizeof(what));
    return tu_proof_fail(a->proof, a->base + t,
                         "race: %s %s block %u, which step %u (%s) %s, and does not depend on it",
                         does, name[ref->space], block, s, what, did);
}

static bool read_block(struct ancestry *a, uint32_t s, const struct tu_ref *ref, uint32_t number,
                       struct block *block) {
    if (block->write && !is_before(a, block->write - 1, s))
        return race(a, block->write - 1, s, "writes", "reads", ref, number);
    if (block->reading && a->reading[block->reading - 1].step == s)
        return true;
    a->reading[a->readings] = (struct reading){.step = s, .next = block->reading};
    block->reading = ++a->readings;
    return true;
}

static bool write_block(struct ancestry *a, uint32_t s, const struct tu_ref *ref, uint32_t number,
                        struct block *block) {
    if (block->write && block->write - 1 != s && !is_before(a, block->write - 1, s))
        return race(a, block->write - 1, s, "writes", "writes", ref, number);
    for (uint32_t i = block->reading; i; i = a->reading[i - 1].next)
        if (a->reading[i - 1].step != s && !is_before(a, a->reading[i - 1].step, s))
            return race(a, a->reading[i - 1].step, s, "reads", "writes", ref, number);
    *block = (struct block){.write = s + 1};
    return true;
}

static bool touch(struct ancestry *a, uint32_t s, const struct tu_ref *ref, bool write) {
    struct tu_span span[2];
    uint32_t spans = tu_spans(a->plan, ref->first, ref->n, span);
    struct block *region = ref->space == TU_SCRATCH ? a->scratch : a->buffer;

    if (ref->space > TU_SCRATCH)
        return true;
    for (uint32_t i = 0; i < spans; i++)
        for (uint32_t b = span[i].first; b < span[i].first + span[i].n; b++) {
            struct block *block = &region[tu_region_block(a->plan, ref->space, b)];
            if (!(write ? write_block(a, s, ref, b, block) : read_block(a, s, ref, b, block)))
                return false;
        }
    return true;
}

static bool step_is_ordered(struct ancestry *a, uint32_t s) {
    const struct tu_step *step = &a->plan->step[s];

    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *ref = &a->plan->ref[step->arg + i];
        if (ref->space == TU_ARRIVED && !is_before(a, ref->step, s))
            return tu_proof_fail(a->proof, a->base + s,
                                 "reads what step %u brought, but does not depend on it",
                                 ref->step);
        if (!touch(a, s, ref, false))
            return false;
    }
    for (uint32_t i = 0; i < step->dsts; i++)
        if (!touch(a, s, &step->dst[i], true))
            return false;
    return true;
}

static bool node_steps_are_a_chain(struct ancestry *a) {
    uint32_t last = TU_NO_STEP;

    for (uint32_t s = 0; a->plan->node_run > 0 && s < a->plan->steps; s++) {
        if (!tu_touches_node(a->plan, &a->plan->step[s]))
            continue;
        if (last != TU_NO_STEP && !is_before(a, last, s))
            return tu_proof_fail(a->proof, a->base + s,
                                 "touches node blocks, but does not depend on step %u, which was "
                                 "the last to do so",
                                 last);
        last = s;
    }
    return true;
}

/* ---- ranks ---- */

static bool allocate(struct ancestry *a) {
    struct tu_proof *proof = a->proof;
    const struct tu_plan *plan = a->plan;
    size_t readings = 0;

    for (uint32_t s = 0; s < plan->steps; s++)
        for (uint32_t i = 0; i < plan->step[s].args; i++)
            if (plan->ref[plan->step[s].arg + i].space <= TU_SCRATCH)
                readings += plan->ref[plan->step[s].arg + i].n;
    a->words = plan->steps / 64 + 1;
    a->before = tu_proof_alloc(proof, (size_t)plan->steps * a->words, sizeof(*a->before));
    a->buffer = tu_proof_alloc(proof, plan->blocks, sizeof(*a->buffer));
    a->scratch = tu_proof_alloc(proof, plan->scratch_blocks, sizeof(*a->scratch));
    a->reading = tu_proof_alloc(proof, readings, sizeof(*a->reading));
    return readings < TU_NO_STEP && a->before && a->buffer && a->scratch && a->reading;
}

static bool rank_is_right(struct tu_proof *proof, uint32_t rank) {
    struct tu_proof_memory *mark = proof->memory;
    struct ancestry a = {.proof = proof, .plan = proof->plan[rank], .base = proof->step_base[rank]};

    if (!allocate(&a))
        return tu_proof_no_memory(proof);
    find_ancestors(&a);
    if (!node_steps_are_a_chain(&a))
        return false;
    for (uint32_t s = 0; s < a.plan->steps; s++)
        if (!step_is_ordered(&a, s))
            return false;
    tu_proof_release(proof, mark);
    return true;
}

bool tu_proof_private(struct tu_proof *proof) {
    for (uint32_t r = 0; r < proof->ranks; r++)
        if (!rank_is_right(proof, r))
            return false;
    return true;
}
