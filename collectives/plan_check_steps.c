/*
 * Plan checker, part 1b: one step. Its references are in bounds, its operands are of the shape of its
 * destination, its pieces make up its message, and its use is the next one of its channel.
 */
#include "collectives/plan_check_parts.h"

/* ---- ranges ---- */

static bool range_is_legal(const struct tu_plan *plan, uint32_t first, uint32_t n) {
    return n <= plan->wrap || (n % plan->wrap == 0 && first % plan->wrap == 0);
}

/* True if all blocks of a legal range are below the limit. */
static bool range_is_below(const struct tu_plan *plan, uint32_t first, uint32_t n, uint32_t limit) {
    struct tu_span span[2];
    uint32_t spans = tu_spans(plan, first, n, span);

    for (uint32_t i = 0; i < spans; i++)
        if (span[i].first >= limit || span[i].n > limit - span[i].first)
            return false;
    return true;
}

bool tu_range_contains(const struct tu_plan *plan, struct tu_span whole, struct tu_span part,
                       uint32_t *at) {
    uint32_t wrap = plan->wrap;

    if (part.n > whole.n)
        return false;
    if (whole.n > wrap) { /* whole groups, so no wrap inside */
        *at = part.first - whole.first;
        return part.first >= whole.first && *at <= whole.n - part.n &&
               (part.n > wrap || part.first % wrap + part.n <= wrap);
    }
    *at = (part.first % wrap + wrap - whole.first % wrap) % wrap;
    return part.first / wrap == whole.first / wrap && *at <= whole.n - part.n;
}

/* ---- references ---- */

static uint32_t space_limit(const struct tu_proof *proof, const struct tu_plan *plan,
                            uint32_t space) {
    uint64_t limit = plan->blocks;

    if (space == TU_SCRATCH)
        limit = plan->scratch_blocks;
    if (space == TU_NODE)
        limit = (uint64_t)plan->node_run *
                tu_node_size(proof->check->nodes, proof->check->nodes->node_of[plan->rank]);
    bool own = space == TU_SCRATCH && plan->replicate; /* else numbers are places in the slice */
    if (!own && limit > plan->blocks)
        limit = plan->blocks;
    return limit < TU_NO_STEP ? (uint32_t)limit : TU_NO_STEP;
}

/* The caller's buffers that this rank has in this collective. */
static bool space_exists(const struct tu_proof *proof, const struct tu_plan *plan, uint32_t space) {
    bool root = plan->rank == proof->check->root;

    if (space != TU_SRC && space != TU_DST)
        return true;
    if (proof->check->collective == TU_BCAST)
        return root == (space == TU_SRC);
    return proof->check->collective != TU_BARRIER;
}

static bool arrived_is_right(struct tu_proof *proof, uint32_t g, const struct tu_ref *ref) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    uint32_t s = g - proof->step_base[plan->rank], at;

    if (ref->step >= s || plan->step[ref->step].kind != TU_WAIT)
        return tu_proof_fail(proof, g, "reads what step %u brought, which is no earlier WAIT",
                             ref->step);
    const struct tu_step *wait = &plan->step[ref->step];
    if (!tu_range_contains(plan, (struct tu_span){wait->first, wait->n},
                           (struct tu_span){ref->first, ref->n}, &at))
        return tu_proof_fail(proof, g, "blocks %u+%u are not part of %u+%u, which step %u brought",
                             ref->first, ref->n, wait->first, wait->n, ref->step);
    return true;
}

static bool node_ref_is_right(struct tu_proof *proof, uint32_t g, const struct tu_ref *ref) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    struct tu_span span[2];
    uint32_t spans = tu_spans(plan, ref->first, ref->n, span);
    uint32_t owner = ref->first / plan->node_run;

    for (uint32_t i = 0; i < spans; i++)
        if (span[i].first / plan->node_run != owner ||
            (span[i].first + span[i].n - 1) / plan->node_run != owner)
            return tu_proof_fail(proof, g, "node blocks %u+%u lie at several members", ref->first,
                                 ref->n);
    return true;
}

static bool ref_is_right(struct tu_proof *proof, uint32_t g, const struct tu_ref *ref) {
    static const char *const name[] = {"source", "target", "scratch", "arrived", "node"};
    const struct tu_plan *plan = tu_proof_plan(proof, g);

    if (ref->space > TU_NODE)
        return tu_proof_fail(proof, g, "names an unknown space %u", ref->space);
    if (!space_exists(proof, plan, ref->space))
        return tu_proof_fail(proof, g, "names the %s, which it does not have", name[ref->space]);
    if (ref->n == 0 || !range_is_legal(plan, ref->first, ref->n))
        return tu_proof_fail(proof, g, "%s blocks %u+%u are no range (wrap %u)", name[ref->space],
                             ref->first, ref->n, plan->wrap);
    if (ref->space == TU_ARRIVED)
        return arrived_is_right(proof, g, ref);
    if (!range_is_below(plan, ref->first, ref->n, space_limit(proof, plan, ref->space)) ||
        (plan->replicate && ref->n != 1 && (ref->space == TU_SRC || ref->space == TU_DST)))
        return tu_proof_fail(proof, g, "%s blocks %u+%u are out of bounds", name[ref->space],
                             ref->first, ref->n);
    return ref->space != TU_NODE || node_ref_is_right(proof, g, ref);
}

static bool args_are_right(struct tu_proof *proof, uint32_t g) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const struct tu_step *step = tu_proof_step(proof, g);

    if (step->arg > plan->refs || step->args > plan->refs - step->arg)
        return tu_proof_fail(proof, g, "references %u+%u are out of bounds", step->arg, step->args);
    for (uint32_t i = 0; i < step->args; i++)
        if (!ref_is_right(proof, g, &plan->ref[step->arg + i]))
            return false;
    return true;
}

/* ---- steps ---- */

/* Pieces follow each other and make up the message. */
static bool pieces_are_right(struct tu_proof *proof, uint32_t g) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const struct tu_step *step = tu_proof_step(proof, g);
    struct tu_span message = {step->first, step->n};
    uint32_t at = 0, place = 0;

    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *piece = &plan->ref[step->arg + i];
        struct tu_span part = {piece->first, piece->n};
        if (!plan->replicate && (!tu_range_contains(plan, message, part, &place) || place != at))
            return tu_proof_fail(proof, g, "piece %u (%u+%u) is not what comes next in %u+%u", i,
                                 part.first, part.n, message.first, message.n);
        if (part.n > message.n - at)
            return tu_proof_fail(proof, g, "the pieces are longer than %u+%u", message.first,
                                 message.n);
        at += part.n;
    }
    if (at != message.n)
        return tu_proof_fail(proof, g, "the pieces make up %u blocks of %u", at, message.n);
    return true;
}

static bool message_is_right(struct tu_proof *proof, uint32_t g) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const struct tu_step *step = tu_proof_step(proof, g);

    if (!range_is_legal(plan, step->first, step->n) ||
        !range_is_below(plan, step->first, step->n, plan->blocks))
        return tu_proof_fail(proof, g, "message blocks %u+%u are no range within %u (wrap %u)",
                             step->first, step->n, plan->blocks, plan->wrap);
    if (step->kind == TU_SIGNAL && step->n != 0)
        return tu_proof_fail(proof, g, "a SIGNAL has no blocks");
    if (step->kind == TU_WAIT && step->args != 0)
        return tu_proof_fail(proof, g, "a WAIT has no references");
    if (step->dsts != 0)
        return tu_proof_fail(proof, g, "a message has no destination");
    return step->kind == TU_WAIT || pieces_are_right(proof, g);
}

static bool overlap(const struct tu_plan *plan, const struct tu_ref *a, const struct tu_ref *b) {
    struct tu_span s[2], t[2];
    uint32_t ss = tu_spans(plan, a->first, a->n, s), ts = tu_spans(plan, b->first, b->n, t);

    if (a->space != b->space || a->space == TU_ARRIVED)
        return false;
    if (plan->replicate && (a->space == TU_SRC || a->space == TU_DST))
        return true;
    for (uint32_t i = 0; i < ss; i++)
        for (uint32_t k = 0; k < ts; k++)
            if (s[i].first < t[k].first + t[k].n && t[k].first < s[i].first + s[i].n)
                return true;
    return false;
}

/* All operands are of the shape of the destination, and either the same blocks or disjoint. */
static bool operands_are_right(struct tu_proof *proof, uint32_t g, const struct tu_ref *dst) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const struct tu_step *step = tu_proof_step(proof, g);

    if (dst->space == TU_SRC || dst->space == TU_ARRIVED)
        return tu_proof_fail(proof, g, "source and arrived blocks are no destination");
    if (!ref_is_right(proof, g, dst))
        return false;
    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *ref = &plan->ref[step->arg + i];
        bool same_place = ref->first == dst->first && ref->n == dst->n;
        if (ref->n != dst->n || (!plan->replicate && !same_place))
            return tu_proof_fail(proof, g, "operand %u (%u+%u) is not of the shape of %u+%u", i,
                                 ref->first, ref->n, dst->first, dst->n);
        bool one_block = plan->replicate && dst->space == TU_DST;
        if (!same_place && !one_block && overlap(plan, ref, dst))
            return tu_proof_fail(proof, g, "operand %u (%u+%u) overlaps the destination %u+%u", i,
                                 ref->first, ref->n, dst->first, dst->n);
    }
    return true;
}

static bool compute_is_right(struct tu_proof *proof, uint32_t g) {
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const struct tu_step *step = tu_proof_step(proof, g);
    uint32_t most = step->kind == TU_REDUCE ? 2 : 1;

    if (step->dsts < 1 || step->dsts > most)
        return tu_proof_fail(proof, g, "has %u destinations", step->dsts);
    if (step->args < 1 || (step->kind == TU_COPY && step->args != 1))
        return tu_proof_fail(proof, g, "has %u operands", step->args);
    for (uint32_t i = 0; i < step->dsts; i++)
        if (!operands_are_right(proof, g, &step->dst[i]))
            return false;
    if (step->dsts == 2 && overlap(plan, &step->dst[0], &step->dst[1]))
        return tu_proof_fail(proof, g, "the two destinations overlap");
    return true;
}

/* The use is the next one of a channel of the right kind; a board's reader may leave some out. */
static bool use_is_right(struct tu_proof *proof, uint32_t g, uint32_t *next) {
    static const uint32_t wanted[] = {TU_EDGE_OUT, TU_EDGE_IN, TU_BOARD_OUT, TU_BOARD_OUT};
    const struct tu_plan *plan = tu_proof_plan(proof, g);
    const struct tu_step *step = tu_proof_step(proof, g);

    if (step->channel >= plan->channels)
        return tu_proof_fail(proof, g, "channel %u is out of bounds", step->channel);
    uint32_t c = proof->channel_base[plan->rank] + step->channel;
    const struct tu_plan_channel *channel = &plan->channel[step->channel];
    bool board_in = step->kind == TU_WAIT && channel->kind == TU_BOARD_IN;
    if (channel->kind != wanted[step->kind] && !board_in)
        return tu_proof_fail(proof, g, "the channel is of another kind");
    if (step->use >= channel->uses)
        return tu_proof_fail(proof, g, "the channel has %u uses", channel->uses);
    uint32_t *place = &proof->use_step[proof->use_base[c] + step->use];
    if (*place != TU_NO_STEP)
        return tu_proof_fail(proof, g, "a second step with this use");
    if (!board_in && step->use != next[step->channel])
        return tu_proof_fail(proof, g, "use %u comes next in plan order", next[step->channel]);
    next[step->channel]++;
    *place = g;
    return true;
}

bool tu_proof_step_is_right(struct tu_proof *proof, uint32_t g, uint32_t *next) {
    const struct tu_step *step = tu_proof_step(proof, g);
    uint32_t s = g - proof->step_base[proof->rank_of_step[g]];

    if (step->kind > TU_COPY)
        return tu_proof_fail(proof, g, "kind %u", step->kind);
    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP && step->after[i] >= s)
            return tu_proof_fail(proof, g, "depends on step %u, which is not earlier",
                                 step->after[i]);
    if (step->readers != 0 && step->kind != TU_SHARE && step->kind != TU_SIGNAL)
        return tu_proof_fail(proof, g, "has readers");
    if (!args_are_right(proof, g))
        return false;
    if (step->kind == TU_REDUCE || step->kind == TU_COPY)
        return compute_is_right(proof, g);
    return message_is_right(proof, g) && use_is_right(proof, g, next);
}
