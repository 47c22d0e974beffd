/*
 * What each kind of step does: moving blocks between buffers, slots and node scratch. Functions differ in
 * what is known when a program is made: a message that fits a line, a peer whose memory is mapped, a
 * fold in one part.
 */
#include "collectives/step.h"

#include <string.h>

#include "collectives/run.h"

enum {
    COPY_LONG = 1024,    /* bytes; memcpy copies less by vectors itself */
    STREAM_LEAST = 2048, /* bytes; less comes as fast from another core's cache as from memory */
    AHEAD = 2,           /* uses */
    FETCH_MOST = 2,      /* lines behind the first */
};

static inline uint8_t *address(const struct tu_segment *segment, const struct tu_move *move) {
    return segment->base[move->base] + move->offset;
}

/*
 * Long pieces are copied by a fold of one operand, in the widest vectors that the processor has. memcpy of
 * the common C library moves pieces of 2 KiB up to a good part of the L2 cache with one string instruction
 * ("rep movsb"), which some processors carry out 15 times slower where the target lies a few bytes above
 * the source modulo the page. That is the usual case here: slots start with a page, and what malloc returns
 * for large pieces lies 16 bytes behind the start of one.
 */
static void copy_bytes(const struct tu_run *run, uint8_t *to, const uint8_t *from, size_t bytes,
                       bool stream) {
    tu_kernel *const(*kernel)[TU_OPS] = stream ? run->kernels->stream : run->kernels->fold;
    const void *operand = from;
    size_t words = bytes / sizeof(int32_t), done = 0;
    if (bytes >= COPY_LONG) {
        kernel[TUTTI_I32][TUTTI_BAND](to, NULL, &operand, 1, words);
        done = words * sizeof(int32_t);
    }
    memcpy(to + done, from + done, bytes - done);
}

/* ---- messages ---- */

/* Packs the pieces of a WRITE or SHARE. */
static void gather(const struct tu_run *run, const struct tu_segment *segment,
                   const struct tu_op *op, uint8_t *to, bool stream) {
    for (uint32_t i = 0; i < op->moves; i++) {
        const struct tu_move *move = &op->move[i];
        if (move->amount)
            copy_bytes(run, to, address(segment, move), move->amount, stream);
        to += move->amount;
    }
}

/* A transport's answer: sent, later, or the peer is gone (its loss is told elsewhere). */
static bool sent(tutti_status status) {
    return status == TUTTI_OK;
}

static struct tu_line_header header_of(const struct tu_run *run, uint32_t number) {
    return (struct tu_line_header){.fingerprint = run->fingerprint, .flag = number};
}

/* Nobody reads it: it is given back in advance, and its slot may hold a later use by now. */
static bool send_nothing(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    (void)run;
    (void)segment;
    (void)op;
    return true;
}

/* One piece, into mapped memory. */
static bool send_piece(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    struct tu_ring_out *ring = op->ring.out;
    uint32_t number = tu_run_number(segment, op);
    if (!tu_ring_free(ring, number))
        return false;
    uint8_t *cell = tu_ring_out_cell(ring, number);
    tu_board_copy(tu_line_payload(cell), address(segment, op->move), op->bytes);
    tu_ring_publish(ring, cell, header_of(run, number), op->bytes);
    return true;
}

/* The same where the writer may be ahead of its readers: the cell of a later use, if they are done with it,
   is fetched meanwhile. */
static bool send_ahead(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    struct tu_ring_out *ring = op->ring.out;
    uint32_t later = tu_run_number(segment, op) + AHEAD;
    if (!send_piece(run, segment, op))
        return false;
    if ((int32_t)(later - ring->limit) < 0)
        tu_line_claim(tu_ring_out_cell(ring, later), tu_line_more(op->bytes));
    return true;
}

/* Any number of pieces, into mapped memory. */
static bool send_mapped(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    struct tu_ring_out *ring = op->ring.out;
    uint32_t number = tu_run_number(segment, op);
    if (!tu_ring_free(ring, number))
        return false;
    uint8_t *cell = tu_ring_out_cell(ring, number);
    gather(run, segment, op, tu_line_payload(cell), false);
    tu_ring_publish(ring, cell, header_of(run, number), op->bytes);
    return true;
}

/* Over a wire. */
static bool send_line(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    uint8_t packed[TU_LINE_PAYLOAD];
    uint32_t number = tu_run_number(segment, op);
    if (!tu_ring_free(op->ring.out, number))
        return false;
    gather(run, segment, op, packed, false);
    return sent(tu_ring_wire_line(op->ring.out, header_of(run, number), packed, op->bytes));
}

/* Do readers get it faster out of memory? (What a pair writes lies where it has read, in its own cache.) */
static bool read_far(const struct tu_run *run, const struct tu_op *op) {
    const struct tu_ring_out *ring = op->ring.out;
    return run->program->bound->channels->distance.far && op->bytes >= STREAM_LEAST &&
           ring->cell[0] && !ring->twin;
}

static bool send_slot(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    struct tu_ring_out *ring = op->ring.out;
    uint32_t number = tu_run_number(segment, op);
    if (!tu_ring_slot_free(ring, number) || !tu_ring_sendable(ring, number))
        return false;
    gather(run, segment, op, tu_ring_slot(ring, number), read_far(run, op));
    return sent(tu_ring_send(ring, header_of(run, number), op->bytes));
}

/* A SHARE out of the source: in place if peers can read it there, and nobody writes it meanwhile. */
static bool send_source(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    struct tu_ring_out *ring = op->ring.out;
    const uint8_t *from = address(segment, op->move);
    uint32_t number = tu_run_number(segment, op);
    uint64_t offset;
    bool still = op->lend == TU_LEND || run->work->source != run->work->target;
    if (!still || !tu_window_heap_offset(ring->window, from, op->bytes, &offset))
        return send_slot(run, segment, op);
    if (!tu_ring_free(ring, number))
        return false;
    tu_ring_lend(ring, header_of(run, number), offset);
    if (!run->lent || (int32_t)(number - run->lent_number) > 0) /* slices come in any order */
        run->lent_number = number;
    run->lent = ring;
    return true;
}

static tu_step_fn *choose_send(const struct tu_op *op) {
    if (op->idle)
        return send_nothing;
    if (op->bytes > op->ring.out->payload)
        return op->lend ? send_source : send_slot;
    if (!op->ring.out->cell[0])
        return send_line;
    if (op->moves > 1)
        return send_mapped;
    return op->one_way ? send_ahead : send_piece;
}

/* ---- arrivals ---- */

/* A header has come: is it that of the same call? */
static inline bool fits(struct tu_run *run, const struct tu_op *op, struct tu_line_header header) {
    if (header.fingerprint == run->fingerprint)
        return true;
    run->culprit = run->program->bound->plan->channel[op->channel].peer;
    run->state = TU_RUN_FAILED;
    return false;
}

static inline void found(struct tu_segment *segment, const struct tu_op *op, const uint8_t *data) {
    segment->base[tu_base_arrived(op->index)] = (uint8_t *)(uintptr_t)data;
}

/*
 * A line in mapped memory, whose payload is used where it lies. Who waits looks at the header, whose line
 * comes when it has changed; a second and a third line, if every look asks for them, come together with it.
 * (With more it takes longer: the writer has to take them back one after the other.)
 */
static bool wait_mapped(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    uint32_t number = tu_run_number(segment, op);
    const uint8_t *cell = tu_ring_cell(op->ring.in, number);
    struct tu_line_header header = tu_line_header(cell);
    if (header.flag != number) {
        uint32_t more = tu_line_more(op->bytes);
        run->stuck = (struct tu_stuck){
            .cell = cell, .header = header, .more = more <= FETCH_MOST ? more : 0};
        return false;
    }
    found(segment, op, cell + sizeof header);
    return fits(run, op, header);
}

/* The same from a writer that may be ahead: a later line comes while this one is used. */
static bool wait_ahead(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    bool come = wait_mapped(run, segment, op);
    if (come)
        tu_line_fetch(tu_ring_cell(op->ring.in, tu_run_number(segment, op) + AHEAD), 0,
                      tu_line_more(op->bytes));
    return come;
}

static bool wait_any(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    struct tu_ring_in *ring = op->ring.in;
    uint32_t number = tu_run_number(segment, op);
    const uint8_t *cell = tu_ring_cell(ring, number);
    struct tu_line_header header = tu_line_header(cell);
    if (header.flag != number || !tu_ring_whole(ring, number, op->bytes)) {
        run->stuck = (struct tu_stuck){.cell = cell, .header = header};
        return false;
    }
    if (!fits(run, op, header))
        return false;
    if (op->users || op->bytes > ring->payload)
        found(segment, op, tu_ring_data(ring, number, op->bytes));
    return true;
}

static tu_step_fn *choose_wait(const struct tu_op *op) {
    const struct tu_ring_in *ring = op->ring.in;
    if (ring->peer->format != TU_FORMAT_CACHELINE || op->bytes > ring->payload)
        return wait_any;
    return op->one_way ? wait_ahead : wait_mapped;
}

/* ---- computing ---- */

static inline void fold(const struct tu_run *run, const struct tu_segment *segment,
                        const struct tu_op *op, const struct tu_move *move) {
    uint8_t *out = address(segment, move);
    uint8_t *also = op->dsts == 2 ? address(segment, move + 1) : NULL;
    const void **operand = run->program->operand;
    size_t elements = move->amount;
    int n = (int)(op->moves - op->dsts);
    move += op->dsts;
    for (int a = 0; a < n; a++)
        operand[a] = address(segment, move + a);
    tu_kernel *kernel = op->stream ? run->work->stream : run->work->fold;
    kernel(out, also, operand, n, elements);
}

static void copy(const struct tu_run *run, const struct tu_segment *segment, const struct tu_op *op,
                 const struct tu_move *move) {
    uint8_t *out = address(segment, move);
    const uint8_t *from = address(segment, move + 1);
    if (from != out)
        copy_bytes(run, out, from, move->amount, op->stream);
}

/* May the segment touch its node scratch? Then finds out where it lies. */
static bool node_free(struct tu_run *run, struct tu_segment *segment) {
    struct tu_channels *channels = run->program->bound->channels;
    uint32_t number = run->scratch_base + segment->number;
    if (segment->node_free)
        return true;
    if (!tu_scratch_free(channels, run->bank, number))
        return false;
    for (uint32_t m = 0; m < channels->members; m++)
        segment->base[tu_base_node(run->program->bound->plan, m)] =
            tu_scratch_at(channels, run->bank, number, m);
    segment->node_free = true;
    return true;
}

static bool compute(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    const struct tu_move *move = op->move;
    if (op->node && !node_free(run, segment))
        return false;
    for (uint32_t part = 0; part < op->parts; part++, move += op->moves) {
        if (move->amount == 0)
            continue;
        if (op->kind == TU_COPY)
            copy(run, segment, op, move);
        else
            fold(run, segment, op, move);
    }
    return true;
}

/* A fold in one part, without node scratch. */
static bool compute_fold(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    fold(run, segment, op, op->move);
    return true;
}

/* The same of two operands: what a small vector of a pair takes. */
static bool compute_two(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    const struct tu_move *move = op->move;
    const void *operand[2] = {address(segment, &move[1]), address(segment, &move[2])};
    run->work->fold(address(segment, move), NULL, operand, 2, move->amount);
    return true;
}

static tu_step_fn *choose_compute(const struct tu_op *op) {
    bool simple = op->kind == TU_REDUCE && !op->node && op->parts == 1 && op->move->amount;
    if (!simple)
        return compute;
    return op->dsts == 1 && op->moves == 3 && !op->stream ? compute_two : compute_fold;
}

tu_step_fn *tu_step_choose(const struct tu_op *op) {
    switch (op->kind) {
    case TU_WAIT:
        return choose_wait(op);
    case TU_REDUCE:
    case TU_COPY:
        return choose_compute(op);
    default:
        return choose_send(op);
    }
}
