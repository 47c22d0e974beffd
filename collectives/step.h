/*
 * What each kind of step does: moving blocks between buffers, slots and node scratch. A part of run.c,
 * and here so that it is compiled into the executor's loop.
 */
#ifndef TU_COLLECTIVES_STEP_H
#define TU_COLLECTIVES_STEP_H

#include "collectives/copy.h"
#include "collectives/run.h"

static inline uint8_t *address(const struct tu_segment *segment, const struct tu_move *move) {
    return segment->base[move->base] + move->offset;
}

/* ---- messages ---- */

/* Packs the pieces of a WRITE or SHARE. */
static inline void gather(const struct tu_segment *segment, const struct tu_op *op, uint8_t *to) {
    for (uint32_t i = 0; i < op->moves; i++) {
        const struct tu_move *move = &op->move[i];
        if (move->amount)
            tu_copy_bytes(to, address(segment, move), move->amount);
        to += move->amount;
    }
}

/* A transport's answer: sent, later, or the peer is gone (its loss is told elsewhere). */
static inline bool sent(tutti_status status) {
    return status == TUTTI_OK;
}

static inline bool send_line(const struct tu_segment *segment, const struct tu_op *op,
                             struct tu_line_header header) {
    uint8_t packed[TU_LINE_PAYLOAD];
    if (op->moves == 1 && op->bytes)
        return sent(tu_ring_line(op->ring.out, header, address(segment, op->move), op->bytes));
    gather(segment, op, packed);
    return sent(tu_ring_line(op->ring.out, header, packed, op->bytes));
}

static inline bool try_send(const struct tu_run *run, const struct tu_segment *segment,
                            const struct tu_op *op) {
    struct tu_ring_out *ring = op->ring.out;
    struct tu_line_header header = {
        .fingerprint = run->work->fingerprint,
        .flag = tu_run_number(run, segment, op),
    };
    if (!tu_ring_free(ring, header.flag))
        return false;
    if (op->bytes <= TU_LINE_PAYLOAD)
        return send_line(segment, op, header);
    if (!tu_ring_sendable(ring, header.flag))
        return false;
    gather(segment, op, tu_ring_slot(ring, header.flag));
    return sent(tu_ring_send(ring, header, op->bytes));
}

static inline bool try_wait(struct tu_run *run, struct tu_segment *segment,
                            const struct tu_op *op) {
    const struct tu_ring_in *ring = op->ring.in;
    uint32_t number = tu_run_number(run, segment, op);
    struct tu_line_header header;
    if (!tu_ring_arrived(ring, number, op->bytes, &header)) {
        run->stuck = (struct tu_stuck){.cell = tu_ring_cell(ring, number), .header = header};
        return false;
    }
    if (header.fingerprint != run->work->fingerprint) {
        run->culprit = run->bound->plan->channel[op->channel].peer;
        run->state = TU_RUN_FAILED;
        return false;
    }
    if (op->users)
        segment->base[tu_base_arrived(op->index)] =
            (uint8_t *)(uintptr_t)tu_ring_data(ring, number, op->bytes);
    return true;
}

/* ---- computing ---- */

static inline void fold(const struct tu_run *run, const struct tu_segment *segment,
                        const struct tu_op *op, const struct tu_move *move) {
    uint8_t *out = address(segment, move);
    uint8_t *also = op->dsts == 2 ? address(segment, move + 1) : NULL;
    size_t elements = move->amount;
    int n = (int)(op->moves - op->dsts);
    move += op->dsts;
    for (int a = 0; a < n; a++)
        run->program->operand[a] = address(segment, move + a);
    run->work->fold(out, also, run->program->operand, n, elements);
}

static inline void copy(const struct tu_segment *segment, const struct tu_move *move) {
    uint8_t *out = address(segment, move);
    const uint8_t *from = address(segment, move + 1);
    if (from != out)
        tu_copy_bytes(out, from, move->amount);
}

static inline void compute(const struct tu_run *run, const struct tu_segment *segment,
                           const struct tu_op *op) {
    const struct tu_move *move = op->move;
    for (uint32_t part = 0; part < op->parts; part++, move += op->moves) {
        if (move->amount == 0)
            continue;
        if (op->kind == TU_COPY)
            copy(segment, move);
        else
            fold(run, segment, op, move);
    }
}

/* May the segment touch its node scratch? Then finds out where it lies. */
static inline bool node_free(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_channels *channels = run->bound->channels;
    uint32_t number = run->scratch_base + segment->number;
    if (segment->node_free)
        return true;
    if (!tu_scratch_free(run->bound->channels, run->bank, number))
        return false;
    for (uint32_t m = 0; m < channels->members; m++)
        segment->base[tu_base_node(run->bound->plan, m)] =
            tu_scratch_at(channels, run->bank, number, m);
    segment->node_free = true;
    return true;
}

/* Tries a step of the segment. True if it is done now. */
static inline bool tu_step_try(struct tu_run *run, struct tu_segment *segment,
                               const struct tu_op *op) {
    if (op->node && !node_free(run, segment))
        return false;
    switch (op->kind) {
    case TU_WAIT:
        return try_wait(run, segment, op);
    case TU_WRITE:
    case TU_SHARE:
    case TU_SIGNAL:
        /* what nobody reads is given back in advance, and its slot may hold a later use by now */
        return op->idle || try_send(run, segment, op);
    default:
        compute(run, segment, op);
        return true;
    }
}

#endif
