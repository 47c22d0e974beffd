/*
 * Plan checker, part 6: what the target holds at the end. Runs all plans once, in the order of part
 * 3 (no races, so any order gives the same), on expressions instead of numbers: the contribution of
 * a rank is a leaf. Equal expressions have equal numbers, so equal numbers mean equal bits. Blocks
 * keep their number wherever they go (part 1), hence a leaf need not name its block.
 *
 * It runs twice: with source and target apart, and with both in one buffer.
 */
#include "collectives/plan_check_expression.h"
#include "collectives/plan_check_parts.h"

#include <string.h>

struct values {
    struct tu_proof *proof;
    struct tu_expressions expressions;
    bool in_place;
    size_t *scratch_base, *payload_base; /* [ranks + 1], [steps + 1] */
    uint32_t buffer_blocks;              /* of a rank's target */
    uint32_t *buffer, *scratch, *payload;
    uint32_t *node; /* [ranks][node_run], members of a node side by side */
    size_t *node_base;
    uint32_t *sum; /* [blocks] */
};

/* ---- places ---- */

/* The value of a block of a reference; 0: never written. */
static uint32_t *place_of(struct values *v, const struct tu_plan *plan, uint32_t space,
                          uint32_t block) {
    const struct tu_nodes *nodes = v->proof->check->nodes;

    if (space == TU_SCRATCH)
        return &v->scratch[v->scratch_base[plan->rank] + block];
    if (space == TU_NODE)
        return &v->node[v->node_base[nodes->node_of[plan->rank]] + block];
    return &v->buffer[(size_t)plan->rank * v->buffer_blocks + tu_region_block(plan, space, block)];
}

/* Copies the values of a reference, block by block in the order of its range. */
static bool read_range(struct values *v, uint32_t g, const struct tu_ref *ref, uint32_t *to) {
    const struct tu_plan *plan = tu_proof_plan(v->proof, g);
    bool source = ref->space == TU_SRC && !v->in_place;
    struct tu_span span[2];
    uint32_t spans = tu_spans(plan, ref->first, ref->n, span);

    for (uint32_t i = 0; i < spans; i++)
        for (uint32_t b = span[i].first; b < span[i].first + span[i].n; b++, to++) {
            *to = source ? tu_leaf(plan->rank) : *place_of(v, plan, ref->space, b);
            if (*to == 0)
                return tu_proof_fail(v->proof, g, "reads block %u of space %u, never written%s", b,
                                     ref->space, v->in_place ? " (in place)" : "");
        }
    return true;
}

static bool read_arrived(struct values *v, uint32_t g, const struct tu_ref *ref, uint32_t *to) {
    const struct tu_plan *plan = tu_proof_plan(v->proof, g);
    uint32_t wait = v->proof->step_base[plan->rank] + ref->step, at;
    uint32_t writer = tu_proof_writer(v->proof, wait);
    const struct tu_step *brought = tu_proof_step(v->proof, wait);

    tu_range_contains(plan, (struct tu_span){brought->first, brought->n},
                      (struct tu_span){ref->first, ref->n}, &at);
    memcpy(to, v->payload + v->payload_base[writer] + at, ref->n * sizeof(*to));
    return true;
}

static bool read_values(struct values *v, uint32_t g, const struct tu_ref *ref, uint32_t *to) {
    return ref->space == TU_ARRIVED ? read_arrived(v, g, ref, to) : read_range(v, g, ref, to);
}

static void write_range(struct values *v, uint32_t g, const struct tu_ref *ref,
                        const uint32_t *from) {
    const struct tu_plan *plan = tu_proof_plan(v->proof, g);
    struct tu_span span[2];
    uint32_t spans = tu_spans(plan, ref->first, ref->n, span);

    for (uint32_t i = 0; i < spans; i++)
        for (uint32_t b = span[i].first; b < span[i].first + span[i].n; b++)
            *place_of(v, plan, ref->space, b) = *from++;
}

/* ---- steps ---- */

static bool post(struct values *v, uint32_t g) {
    const struct tu_plan *plan = tu_proof_plan(v->proof, g);
    const struct tu_step *step = tu_proof_step(v->proof, g);
    uint32_t *to = v->payload + v->payload_base[g];

    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *piece = &plan->ref[step->arg + i];
        if (!read_values(v, g, piece, to))
            return false;
        to += piece->n;
    }
    return true;
}

static bool compute(struct values *v, uint32_t g, uint32_t *operand) {
    const struct tu_plan *plan = tu_proof_plan(v->proof, g);
    const struct tu_step *step = tu_proof_step(v->proof, g);

    if (!read_values(v, g, &plan->ref[step->arg], v->sum))
        return false;
    for (uint32_t i = 1; i < step->args; i++) {
        if (!read_values(v, g, &plan->ref[step->arg + i], operand))
            return false;
        for (uint32_t b = 0; b < step->dst[0].n; b++)
            v->sum[b] = tu_fold(&v->expressions, v->sum[b], operand[b]);
    }
    if (v->expressions.failed)
        return tu_proof_no_memory(v->proof);
    for (uint32_t i = 0; i < step->dsts; i++)
        write_range(v, g, &step->dst[i], v->sum);
    return true;
}

static bool run(struct values *v, uint32_t *operand) {
    const struct tu_proof *proof = v->proof;

    for (uint32_t i = 0; i < proof->steps; i++) {
        uint32_t g = proof->order[i];
        const struct tu_step *step = tu_proof_step(proof, g);
        if (tu_posts(step) && !post(v, g))
            return false;
        if ((step->kind == TU_REDUCE || step->kind == TU_COPY) && !compute(v, g, operand))
            return false;
    }
    return true;
}

/* ---- what must come out ---- */

static bool is_the_sum(struct values *v, uint32_t rank, uint32_t b, uint32_t value) {
    struct tu_proof *proof = v->proof;
    const struct tu_plan *plan = proof->plan[0];
    bool left_fold = plan->left_fold || proof->check->left_fold;
    bool in_order = plan->in_order || proof->check->in_order || left_fold;
    const char *place = v->in_place ? " (in place)" : "";
    struct tu_expression_facts facts = tu_expression_facts(&v->expressions, value);

    if (facts.missing != UINT32_MAX)
        return tu_proof_fail_rank(proof, rank, "target block %u lacks rank %u%s", b, facts.missing,
                                  place);
    if (facts.twice != UINT32_MAX)
        return tu_proof_fail_rank(proof, rank, "target block %u has rank %u more than once%s", b,
                                  facts.twice, place);
    if (!facts.each_once)
        return tu_proof_fail_rank(proof, rank, "target block %u has a rank more than once%s", b,
                                  place);
    if (in_order && !facts.in_order)
        return tu_proof_fail_rank(proof, rank, "target block %u is not in rank order%s", b, place);
    if (left_fold && !facts.left_fold)
        return tu_proof_fail_rank(proof, rank, "target block %u is not a left fold%s", b, place);
    return true;
}

static bool allreduce_is_right(struct values *v) {
    for (uint32_t b = 0; b < v->buffer_blocks; b++) {
        uint32_t value = v->buffer[b];
        for (uint32_t r = 0; r < v->proof->ranks; r++) {
            uint32_t other = v->buffer[(size_t)r * v->buffer_blocks + b];
            if (other == 0)
                return tu_proof_fail_rank(v->proof, r, "target block %u is never written", b);
            if ((r == 0 || other != value) && !is_the_sum(v, r, b, other))
                return false;
            if (other != value)
                return tu_proof_fail_rank(v->proof, r,
                                          "target block %u is reduced in another order than on "
                                          "rank 0%s",
                                          b, v->in_place ? " (in place)" : "");
        }
    }
    return true;
}

static bool bcast_is_right(struct values *v) {
    uint32_t root = v->proof->check->root;

    for (uint32_t r = 0; r < v->proof->ranks; r++)
        for (uint32_t b = 0; r != root && b < v->buffer_blocks; b++)
            if (v->buffer[(size_t)r * v->buffer_blocks + b] != tu_leaf(root))
                return tu_proof_fail_rank(v->proof, r, "target block %u is not what the root has",
                                          b);
    return true;
}

/* ---- the start ---- */

static bool lay_out(struct values *v) {
    const struct tu_proof *proof = v->proof;
    const struct tu_nodes *nodes = proof->check->nodes;

    v->scratch_base = tu_proof_alloc(v->proof, (size_t)proof->ranks + 1, sizeof(size_t));
    v->payload_base = tu_proof_alloc(v->proof, (size_t)proof->steps + 1, sizeof(size_t));
    v->node_base = tu_proof_alloc(v->proof, (size_t)nodes->nodes + 1, sizeof(size_t));
    if (!v->scratch_base || !v->payload_base || !v->node_base)
        return false;
    for (uint32_t r = 0; r < proof->ranks; r++)
        v->scratch_base[r + 1] = v->scratch_base[r] + proof->plan[r]->scratch_blocks;
    for (uint32_t g = 0; g < proof->steps; g++) {
        const struct tu_step *step = tu_proof_step(proof, g);
        v->payload_base[g + 1] = v->payload_base[g] + (tu_posts(step) ? step->n : 0);
    }
    for (uint32_t i = 0; i < nodes->nodes; i++) {
        uint32_t run_length = proof->plan[nodes->member[nodes->first[i]]]->node_run;
        v->node_base[i + 1] = v->node_base[i] + (size_t)run_length * tu_node_size(nodes, i);
    }
    v->buffer_blocks = proof->plan[0]->replicate ? 1 : proof->plan[0]->blocks;
    return true;
}

static bool fill(struct values *v) {
    struct tu_proof *proof = v->proof;
    size_t blocks = (size_t)proof->ranks * v->buffer_blocks;
    bool root_only = proof->check->collective == TU_BCAST;

    v->buffer = tu_proof_alloc(proof, blocks, sizeof(uint32_t));
    v->scratch = tu_proof_alloc(proof, v->scratch_base[proof->ranks], sizeof(uint32_t));
    v->payload = tu_proof_alloc(proof, v->payload_base[proof->steps], sizeof(uint32_t));
    v->node = tu_proof_alloc(proof, v->node_base[proof->check->nodes->nodes], sizeof(uint32_t));
    if (!v->buffer || !v->scratch || !v->payload || !v->node)
        return false;
    for (size_t i = 0; v->in_place && i < blocks; i++) {
        uint32_t rank = (uint32_t)(i / v->buffer_blocks);
        v->buffer[i] = root_only && rank != proof->check->root ? 0 : tu_leaf(rank);
    }
    return true;
}

static uint32_t longest_range(const struct tu_proof *proof) {
    uint32_t longest = 0;

    for (uint32_t r = 0; r < proof->ranks; r++)
        for (uint32_t i = 0; i < proof->plan[r]->refs; i++)
            if (longest < proof->plan[r]->ref[i].n)
                longest = proof->plan[r]->ref[i].n;
    return longest;
}

static bool run_once(struct values *v) {
    struct tu_proof *proof = v->proof;
    struct tu_proof_memory *mark = proof->memory;
    uint32_t longest = longest_range(proof);
    uint32_t *operand = tu_proof_alloc(proof, longest, sizeof(uint32_t));

    v->sum = tu_proof_alloc(proof, longest, sizeof(uint32_t));
    if (!operand || !v->sum || !lay_out(v) || !fill(v))
        return tu_proof_no_memory(proof);
    if (!run(v, operand))
        return false;
    if (proof->check->collective == TU_ALLREDUCE && !allreduce_is_right(v))
        return false;
    if (proof->check->collective == TU_BCAST && !bcast_is_right(v))
        return false;
    tu_proof_release(proof, mark);
    return true;
}

bool tu_proof_values(struct tu_proof *proof) {
    struct values v = {.proof = proof};
    bool right = tu_expressions_init(&v.expressions, proof->ranks) || tu_proof_no_memory(proof);

    for (int in_place = 0; right && in_place <= 1; in_place++) {
        v.in_place = in_place;
        right = run_once(&v);
    }
    tu_expressions_free(&v.expressions);
    return right;
}
