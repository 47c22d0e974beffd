/* Segments, dependencies and credits of a call under way: see run.h. The steps are in step.h. */
#include "collectives/run.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/step.h"
#include "runtime/env.h"

void tu_run_init(struct tu_run *run, struct tu_env *env, uint32_t bank, uint32_t width) {
    *run = (struct tu_run){.env = env, .bank = bank, .width = width};
}

void tu_run_free(struct tu_run *run) {
    free(run->scratch);
    *run = (struct tu_run){.env = run->env};
}

/* ---- start ---- */

/* Private scratch: segment w's lies at w times a slice's. */
static tutti_status make_scratch(struct tu_run *run, size_t bytes) {
    uint8_t *scratch = tu_alloc(64, 1, bytes);
    if (!scratch)
        return tu_fail(run->env, TUTTI_ERR_MEMORY, "no memory for %zu bytes of scratch", bytes);
    free(run->scratch);
    run->scratch = scratch;
    run->scratch_bytes = bytes;
    return TUTTI_OK;
}

/* What the first call of a size needs; later ones find it there. */
static tutti_status make_ready(struct tu_run *run) {
    tutti_status status = TUTTI_OK;
    if (!run->program->memory)
        status = tu_program_make(run->env, run->bound, run->cut, run->work->element_bytes,
                                 run->bank, run->width, run->program);
    size_t scratch = run->program->scratch_bytes * run->width;
    if (!status && scratch > run->scratch_bytes)
        status = make_scratch(run, scratch);
    return status;
}

/* The call's numbers on every channel (rule 1), whether this rank has steps on them or not. */
static void take_numbers(struct tu_run *run) {
    const struct tu_plan *plan = run->bound->plan;
    struct tu_series *series = run->program->series;
    for (uint32_t i = 0; i < plan->channels; i++) {
        series[i].base = *series[i].next;
        *series[i].next = series[i].base + series[i].take;
    }
    if (plan->node_run) {
        struct tu_node_scratch *scratch = &run->bound->channels->scratch[run->bank];
        run->scratch_base = scratch->next;
        scratch->next += run->cut->segments;
    }
}

static void start_segment(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_program *program = run->program;
    uint32_t steps = run->bound->plan->steps, place = run->next_place;
    size_t at = run->next_segment * run->cut->slice * run->work->element_bytes;

    segment->active = true;
    segment->node_free = false;
    segment->number = run->next_segment++;
    segment->op = program->op[run->next_segment == run->cut->segments];
    run->next_place = place + 1 == run->width ? 0 : place + 1;
    segment->left = steps;
    segment->node_left = run->bound->node_steps;
    segment->skip = 0;
    segment->base[TU_SRC] = (uint8_t *)(uintptr_t)run->work->source + at;
    segment->base[TU_DST] = (uint8_t *)run->work->target + at;
    segment->base[TU_SCRATCH] = run->scratch + place * program->scratch_bytes;
    uint32_t last = program->words - 1;
    for (uint32_t i = 0; i < last; i++)
        segment->done[i] = 0;
    segment->done[last] = ~UINT64_C(0) << steps % 64;
}

tutti_status tu_run_start(struct tu_run *run, const struct tu_bound *bound,
                          const struct tu_cut *cut, const struct tu_work *work,
                          struct tu_program *program) {
    run->bound = bound;
    run->cut = cut;
    run->work = work;
    run->program = program;
    tutti_status status = make_ready(run);
    if (status)
        return status;
    run->next_segment = run->next_place = 0;
    run->segments_done = 0;
    run->state = TU_RUN_GOING;
    run->places = cut->segments < run->width ? cut->segments : run->width;
    take_numbers(run);
    start_segment(run, &program->segment[0]);
    for (uint32_t w = 1; w < run->places; w++)
        program->segment[w].active = false;
    run->unsettled = bound->wire && cut->slots; /* slots may be new */
    return TUTTI_OK;
}

/* ---- giving back ---- */

/* Announcements of new slots, and credits that could not be sent before. */
static void settle(struct tu_run *run) {
    const struct tu_plan *plan = run->bound->plan;
    run->unsettled = false;
    for (uint32_t i = 0; i < plan->channels; i++) {
        uint32_t kind = plan->channel[i].kind;
        bool in = kind == TU_EDGE_IN || kind == TU_BOARD_IN;
        struct tu_ring_in *ring = run->bound->ring[run->bank][i].in;
        if (in && tu_ring_unsettled(ring) && tu_ring_settle(ring) == TU_AGAIN)
            run->unsettled = true;
    }
}

/* Uses of peers' boards that nobody here reads; those far ahead of the oldest open use wait. */
static uint32_t give_back_skips(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t given = 0;
    while (segment->skip < plan->skips) {
        const struct tu_plan_skip *skip = &plan->skip[segment->skip];
        struct tu_ring_in *ring = run->bound->ring[run->bank][skip->channel].in;
        uint32_t number = run->program->series[skip->channel].base +
                          segment->number * plan->channel[skip->channel].uses + skip->use;
        if (!tu_ring_near(ring, number))
            break;
        tu_run_give_back(run, ring, number);
        segment->skip++;
        given++;
    }
    return given;
}

static void release(struct tu_run *run, struct tu_segment *segment, const struct tu_op *wait) {
    tu_run_give_back(run, wait->ring.in, tu_run_number(run, segment, wait));
}

/* Arrivals that this step was the last to name go back to their writers. */
static void step_done(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op) {
    segment->done[op->index / 64] |= op->bit;
    segment->left--;
    if (op->kind == TU_WAIT && op->users == 0)
        release(run, segment, op);
    for (uint32_t d = 0; d < op->drops; d++) {
        const struct tu_op *wait = &segment->op[op->drop[d]];
        if (--segment->users[op->drop[d]] > 0)
            continue;
        segment->users[op->drop[d]] = wait->users;
        release(run, segment, wait);
    }
    if (op->node && --segment->node_left == 0)
        tu_scratch_done(run->bound->channels, run->bank, run->scratch_base + segment->number);
}

/* ---- advance ---- */

static bool ready(const struct tu_segment *segment, const struct tu_op *op) {
    return (segment->done[op->after_word[0]] & op->after_bit[0]) == op->after_bit[0] &&
           (segment->done[op->after_word[1]] & op->after_bit[1]) == op->after_bit[1];
}

static bool declined(const struct tu_hooks *hooks) {
    return hooks && hooks->decline && hooks->decline(hooks->context);
}

/* The steps left of one word. Dependencies point backwards, so a pass runs whole chains. */
static inline void pass_word(struct tu_run *run, struct tu_segment *segment, uint32_t word) {
    const struct tu_hooks *hooks = run->env->hooks;
    const struct tu_op *ops = &segment->op[64 * word];
    for (uint64_t left = ~segment->done[word]; left; left &= left - 1) {
        const struct tu_op *op = &ops[__builtin_ctzll(left)];
        if (!ready(segment, op) || declined(hooks))
            continue;
        if (tu_step_try(run, segment, op))
            step_done(run, segment, op);
        else if (run->state == TU_RUN_FAILED)
            return;
    }
}

static inline uint32_t advance_segment(struct tu_run *run, struct tu_segment *segment) {
    uint32_t moved = segment->left;
    for (uint32_t word = 0; word < run->program->words && run->state == TU_RUN_GOING; word++)
        pass_word(run, segment, word);
    moved -= segment->left;
    if (segment->skip < run->bound->plan->skips)
        moved += give_back_skips(run, segment);
    if (segment->left == 0 && segment->skip == run->bound->plan->skips) {
        segment->active = false;
        run->segments_done++;
        moved++;
    }
    return moved;
}

/* One pass over the segments under way. */
static inline uint32_t advance_segments(struct tu_run *run) {
    uint32_t moved = 0;
    for (uint32_t w = 0; w < run->places; w++) {
        struct tu_segment *segment = &run->program->segment[w];
        if (!segment->active && w == run->next_place && run->next_segment < run->cut->segments)
            start_segment(run, segment);
        if (segment->active)
            moved += advance_segment(run, segment);
    }
    return moved;
}

uint32_t tu_run_advance(struct tu_run *run) {
    uint32_t moved, all = 0;
    run->stuck.cell = NULL;
    do { /* one segment alone has done all that it can in one pass */
        moved = advance_segments(run);
        all += moved;
    } while (moved && run->cut->segments > 1 && run->state == TU_RUN_GOING &&
             run->segments_done < run->cut->segments);
    if (run->unsettled)
        settle(run);
    if (run->segments_done == run->cut->segments && !run->unsettled && run->state == TU_RUN_GOING)
        run->state = TU_RUN_DONE;
    return all;
}

void tu_run_abandon(struct tu_run *run) {
    if (run->state != TU_RUN_DONE)
        tu_program_free(run->program); /* counts of users are not back where they started */
    run->state = TU_RUN_IDLE;
}

uint32_t tu_run_awaited(const struct tu_run *run, uint32_t *rank, uint32_t room) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t n = 0;
    for (uint32_t w = 0; w < run->places; w++) {
        const struct tu_segment *segment = &run->program->segment[w];
        for (uint32_t i = 0; segment->active && i < plan->steps; i++) {
            const struct tu_op *op = &segment->op[i];
            if (segment->done[op->index / 64] & op->bit || !ready(segment, op) ||
                op->kind >= TU_REDUCE)
                continue;
            uint32_t peer = plan->channel[op->channel].peer;
            if (plan->channel[op->channel].kind == TU_BOARD_OUT)
                continue; /* some reader lags; its own steps tell */
            if (n < room)
                rank[n] = peer;
            n++;
        }
    }
    return n;
}
