/* What each kind of step does: moving blocks between buffers, slots and node scratch. */
#include "collectives/run.h"

#include <string.h>

/* ---- where blocks lie ---- */

/* Block number `first + d` of a range: it wraps around inside its group. */
static uint32_t block_of(const struct tu_plan *plan, uint32_t first, uint32_t d) {
    uint32_t block = first + d;
    if (plan->wrap == plan->blocks)
        return block < plan->blocks ? block : block - plan->blocks;
    uint32_t group = first / plan->wrap * plan->wrap;
    bool whole = first == group; /* ranges that start a group may go on into the next ones */
    return whole || block < group + plan->wrap ? block : block - plan->wrap;
}

/* How many of the `n` blocks from `first` on lie one after the other in a buffer. */
static uint32_t straight(const struct tu_plan *plan, uint32_t first, uint32_t n) {
    if (n <= 1 || plan->blocks == 1)
        return n;
    uint32_t end = plan->blocks;
    if (plan->wrap != plan->blocks) {
        uint32_t group = first / plan->wrap * plan->wrap;
        if (first == group)
            return n;
        end = group + plan->wrap;
    }
    return n < end - first ? n : end - first;
}

/* Elements of the n blocks from `first` on, which lie straight. */
static size_t straight_elements(const struct tu_partition *part, uint32_t first, uint32_t n) {
    return tu_partition_at(part, first + n) - tu_partition_at(part, first);
}

/* Elements of a range, wrapped or not. */
static size_t range_elements(const struct tu_plan *plan, const struct tu_partition *part,
                             uint32_t first, uint32_t n) {
    if (n == 0)
        return 0;
    uint32_t head = straight(plan, first, n);
    size_t elements = straight_elements(part, first, head);
    if (head < n)
        elements += straight_elements(part, block_of(plan, first, head), n - head);
    return elements;
}

static size_t range_bytes(const struct tu_run *run, const struct tu_segment *segment,
                          uint32_t first, uint32_t n) {
    return range_elements(run->bound->plan, &segment->part, first, n) * run->work.element_bytes;
}

/* Element offset of a block in source and target: replicated blocks are all the whole slice. */
static size_t place_in_slice(const struct tu_run *run, const struct tu_segment *segment,
                             uint32_t block) {
    return run->bound->plan->replicate ? 0 : tu_partition_at(&segment->part, block);
}

static uint8_t *node_block(const struct tu_run *run, const struct tu_segment *segment,
                           uint32_t block) {
    const struct tu_bound *bound = run->bound;
    uint32_t owner = bound->owner[block];
    size_t at = tu_partition_at(&segment->part, block) -
                tu_partition_at(&segment->part, owner * bound->plan->node_run);
    return tu_scratch_at(bound->channels, run->bank, run->scratch_base + segment->number, owner) +
           at * run->work.element_bytes;
}

/* Address of block `d` of the reference's range. */
static const uint8_t *address(const struct tu_run *run, const struct tu_segment *segment,
                              const struct tu_ref *ref, uint32_t d) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t block = block_of(plan, ref->first, d);
    size_t bytes = run->work.element_bytes, elements;
    switch (ref->space) {
    case TU_SRC:
        elements = segment->offset + place_in_slice(run, segment, block);
        return (const uint8_t *)run->work.source + elements * bytes;
    case TU_DST:
        elements = segment->offset + place_in_slice(run, segment, block);
        return (const uint8_t *)run->work.target + elements * bytes;
    case TU_SCRATCH:
        return segment->scratch + tu_partition_at(&segment->part, block) * bytes;
    case TU_ARRIVED: {
        const struct tu_step *wait = &plan->step[ref->step];
        uint32_t before =
            block >= wait->first ? block - wait->first : block + plan->wrap - wait->first;
        elements = range_elements(plan, &segment->part, wait->first, before);
        return segment->data[ref->step] + elements * bytes;
    }
    default:
        return node_block(run, segment, block);
    }
}

/* ---- messages ---- */

static uint8_t *append(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes)
        memcpy(to, from, bytes);
    return to + bytes;
}

/* Packs the pieces of a WRITE or SHARE. */
static void gather(const struct tu_run *run, const struct tu_segment *segment,
                   const struct tu_step *step, uint8_t *to) {
    const struct tu_plan *plan = run->bound->plan;
    for (uint32_t a = 0; a < step->args; a++) {
        const struct tu_ref *ref = &plan->ref[step->arg + a];
        uint32_t head = ref->space == TU_ARRIVED ? ref->n : straight(plan, ref->first, ref->n);
        to = append(to, address(run, segment, ref, 0), range_bytes(run, segment, ref->first, head));
        if (head < ref->n)
            to = append(to, address(run, segment, ref, head),
                        range_bytes(run, segment, block_of(plan, ref->first, head), ref->n - head));
    }
}

/* A transport's answer: sent, later, or the peer is gone (its loss is told elsewhere). */
static bool sent(tutti_status status) {
    return status == TUTTI_OK;
}

static bool send_line(struct tu_run *run, struct tu_segment *segment, const struct tu_step *step,
                      struct tu_ring_out *ring, struct tu_line_header header, size_t bytes) {
    uint8_t packed[TU_LINE_PAYLOAD];
    const uint8_t *from = packed;
    if (step->args == 1 && bytes && straight(run->bound->plan, step->first, step->n) == step->n)
        from = address(run, segment, &run->bound->plan->ref[step->arg], 0);
    else if (bytes)
        gather(run, segment, step, packed);
    return sent(tu_ring_line(ring, header, from, bytes));
}

static bool try_send(struct tu_run *run, struct tu_segment *segment, const struct tu_step *step) {
    struct tu_ring_out *ring = run->ring[step->channel].out;
    struct tu_line_header header = {
        .fingerprint = run->work.fingerprint,
        .flag = tu_run_number(run, segment, step->channel, step->use),
    };
    if (!tu_ring_free(ring, header.flag))
        return false;
    size_t bytes = range_bytes(run, segment, step->first, step->n);
    if (bytes <= TU_LINE_PAYLOAD)
        return send_line(run, segment, step, ring, header, bytes);
    if (!tu_ring_sendable(ring))
        return false;
    gather(run, segment, step, tu_ring_slot(ring, header.flag));
    return sent(tu_ring_send(ring, header, bytes));
}

static bool try_wait(struct tu_run *run, struct tu_segment *segment, uint32_t i,
                     const struct tu_step *step) {
    const struct tu_ring_in *ring = run->ring[step->channel].in;
    uint32_t number = tu_run_number(run, segment, step->channel, step->use);
    size_t bytes = range_bytes(run, segment, step->first, step->n);
    if (!tu_ring_arrived(ring, number, bytes))
        return false;
    uint32_t fingerprint = tu_ring_fingerprint(ring, number);
    if (fingerprint != run->work.fingerprint) {
        run->culprit = run->bound->plan->channel[step->channel].peer;
        run->state = TU_RUN_FAILED;
        return false;
    }
    if (step->users)
        segment->data[i] = tu_ring_data(ring, number, bytes);
    return true;
}

/* ---- computing ---- */

/* Folds one straight part: blocks d .. d + n of every operand. */
static void fold(const struct tu_run *run, const struct tu_segment *segment,
                 const struct tu_step *step, uint32_t d, uint8_t *out, uint8_t *also,
                 size_t elements) {
    const struct tu_ref *ref = &run->bound->plan->ref[step->arg];
    for (uint32_t a = 0; a < step->args; a++)
        run->operand[a] = address(run, segment, &ref[a], d);
    run->work.fold(out, also, run->operand, (int)step->args, elements);
}

static void copy(const struct tu_run *run, const struct tu_segment *segment,
                 const struct tu_step *step, uint32_t d, uint8_t *out, size_t elements) {
    const uint8_t *from = address(run, segment, &run->bound->plan->ref[step->arg], d);
    if (from != out && elements)
        memcpy(out, from, elements * run->work.element_bytes);
}

/* The destination may wrap; then it is done in two parts. */
static bool compute(struct tu_run *run, struct tu_segment *segment, const struct tu_step *step) {
    const struct tu_plan *plan = run->bound->plan;
    const struct tu_ref *dst = &step->dst[0];
    for (uint32_t d = 0; d < dst->n;) {
        uint32_t first = block_of(plan, dst->first, d);
        uint32_t n = straight(plan, first, dst->n - d);
        size_t elements = straight_elements(&segment->part, first, n);
        uint8_t *out = (uint8_t *)(uintptr_t)address(run, segment, dst, d);
        uint8_t *also = NULL;
        if (step->dsts == 2)
            also = (uint8_t *)(uintptr_t)address(run, segment, &step->dst[1], d);
        if (step->kind == TU_COPY)
            copy(run, segment, step, d, out, elements);
        else if (elements)
            fold(run, segment, step, d, out, also, elements);
        d += n;
    }
    return true;
}

static bool node_free(struct tu_run *run, struct tu_segment *segment) {
    if (!segment->node_free)
        segment->node_free =
            tu_scratch_free(run->bound->channels, run->bank, run->scratch_base + segment->number);
    return segment->node_free;
}

bool tu_step_try(struct tu_run *run, struct tu_segment *segment, uint32_t i) {
    const struct tu_step *step = &run->bound->plan->step[i];
    if (run->bound->node_step[i] && !node_free(run, segment))
        return false;
    switch (step->kind) {
    case TU_WAIT:
        return try_wait(run, segment, i, step);
    case TU_WRITE:
        return try_send(run, segment, step);
    case TU_SHARE:
    case TU_SIGNAL:
        /* What nobody reads is given back in advance, and its slot may hold a later use by now. */
        return step->readers == 0 || try_send(run, segment, step);
    default:
        return compute(run, segment, step);
    }
}
