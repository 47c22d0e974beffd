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
    free(run->memory);
    free(run->scratch);
    tu_program_free(&run->program[0]);
    tu_program_free(&run->program[1]);
    *run = (struct tu_run){.env = run->env};
}

/* ---- memory ---- */

static uint32_t words_of(uint32_t steps) {
    return steps / 64 + 1;
}

static size_t segment_memory(const struct tu_plan *plan) {
    size_t per_step = sizeof(uint8_t *) + sizeof(uint32_t);
    return tu_round_up(words_of(plan->steps) * sizeof(uint64_t) + plan->steps * per_step, 64);
}

static void lay_out(struct tu_run *run, const struct tu_bound *bound) {
    const struct tu_plan *plan = bound->plan;
    uint8_t *at = run->memory;
    for (uint32_t w = 0; w < run->width; w++) {
        struct tu_segment *segment = &run->segment[w];
        segment->done = (uint64_t *)(void *)at;
        segment->data = (const uint8_t **)(void *)(segment->done + words_of(plan->steps));
        segment->users = (uint32_t *)(void *)(segment->data + plan->steps);
        for (uint32_t i = 0; i < plan->steps; i++)
            segment->users[i] = plan->step[i].users;
        at += segment_memory(plan);
    }
    run->operand = (const void **)(void *)at;
    run->base = (uint32_t *)(void *)(run->operand + bound->operands);
}

static tutti_status make_room(struct tu_run *run, const struct tu_bound *bound) {
    const struct tu_plan *plan = bound->plan;
    size_t need = run->width * segment_memory(plan) + bound->operands * sizeof(void *) +
                  plan->channels * sizeof(uint32_t);
    run->laid_out = 0;
    if (need > run->memory_bytes) {
        void *memory = tu_alloc(64, 1, need);
        if (!memory)
            return tu_fail(run->env, TUTTI_ERR_MEMORY, "no memory for the %u steps of plan %s",
                           plan->steps, plan->algorithm);
        free(run->memory);
        run->memory = memory;
        run->memory_bytes = need;
    }
    lay_out(run, bound);
    run->laid_out = bound->serial;
    return TUTTI_OK;
}

/* Private scratch: segment w's lies at w times a slice's. */
static tutti_status make_scratch(struct tu_run *run) {
    size_t bytes = run->program[0].scratch_bytes * run->width;
    if (bytes <= run->scratch_bytes)
        return TUTTI_OK;
    uint8_t *scratch = tu_alloc(64, 1, bytes);
    if (!scratch)
        return tu_fail(run->env, TUTTI_ERR_MEMORY, "no memory for %zu bytes of scratch", bytes);
    free(run->scratch);
    run->scratch = scratch;
    run->scratch_bytes = bytes;
    return TUTTI_OK;
}

static size_t last_slice(const struct tu_run *run) {
    return run->work.count - (run->cut.segments - 1) * run->cut.slice;
}

static tutti_status make_program(struct tu_run *run, uint32_t which, size_t elements) {
    struct tu_program *program = &run->program[which];
    if (tu_program_fits(program, run->bound, elements, run->work.element_bytes))
        return TUTTI_OK;
    return tu_program_make(run->env, run->bound, run->bank, elements, run->work.element_bytes,
                           program);
}

/* Everything that is kept for the next call of this size: mostly it is there. */
static tutti_status make_ready(struct tu_run *run) {
    tutti_status status = TUTTI_OK;
    if (!run->bound->serial || run->laid_out != run->bound->serial)
        status = make_room(run, run->bound);
    if (!status)
        status = make_program(run, 0, run->cut.slice);
    if (!status && run->cut.segments > 1 && last_slice(run) != run->cut.slice)
        status = make_program(run, 1, last_slice(run));
    return status ? status : make_scratch(run);
}

/* ---- start ---- */

/* The call's numbers on every channel (rule 1), whether this rank has steps on them or not. */
static void take_numbers(struct tu_run *run) {
    const struct tu_plan *plan = run->bound->plan;
    struct tu_node_scratch *scratch = &run->bound->channels->scratch[run->bank];
    for (uint32_t i = 0; i < plan->channels; i++) {
        uint32_t *next = run->ring[i].next;
        run->base[i] = *next;
        *next += plan->channel[i].uses * run->cut.segments;
    }
    run->scratch_base = scratch->next;
    if (plan->node_run)
        scratch->next += run->cut.segments;
}

static void start_segment(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t place = run->next_place;
    size_t at = run->next_segment * run->cut.slice * run->work.element_bytes;
    bool shorter = run->next_segment + 1 == run->cut.segments && run->next_segment &&
                   last_slice(run) != run->cut.slice;

    segment->active = true;
    segment->node_free = false;
    segment->number = run->next_segment++;
    run->next_place = place + 1 == run->width ? 0 : place + 1;
    segment->left = plan->steps;
    segment->node_left = run->bound->node_steps;
    segment->skip = 0;
    segment->program = &run->program[shorter];
    segment->base[TU_SRC] = (uint8_t *)(uintptr_t)run->work.source + at;
    segment->base[TU_DST] = (uint8_t *)run->work.target + at;
    segment->base[TU_SCRATCH] = run->scratch + place * run->program[0].scratch_bytes;
    for (uint32_t i = 0; i < plan->steps / 64; i++)
        segment->done[i] = 0;
    segment->done[plan->steps / 64] = ~UINT64_C(0) << plan->steps % 64;
}

/* Announcements of new slots, and credits that could not be sent before. */
static void settle(struct tu_run *run) {
    const struct tu_plan *plan = run->bound->plan;
    run->unsettled = false;
    for (uint32_t i = 0; i < plan->channels; i++) {
        uint32_t kind = plan->channel[i].kind;
        bool in = kind == TU_EDGE_IN || kind == TU_BOARD_IN;
        if (in && tu_ring_owes(run->ring[i].in) && tu_ring_settle(run->ring[i].in) == TU_AGAIN)
            run->unsettled = true;
    }
}

tutti_status tu_run_start(struct tu_run *run, struct tu_bound *bound, const struct tu_cut *cut,
                          const struct tu_work *work) {
    run->bound = bound;
    run->ring = bound->ring[run->bank];
    run->work = *work;
    run->cut = *cut;
    tutti_status status = make_ready(run);
    if (status)
        return status;
    run->next_segment = run->next_place = 0;
    run->segments_done = 0;
    run->state = TU_RUN_GOING;
    run->places = cut->segments < run->width ? cut->segments : run->width;
    for (uint32_t w = 0; w < run->places; w++)
        run->segment[w].active = false;
    take_numbers(run);
    run->unsettled = bound->wire && cut->slots; /* slots may be new */
    return TUTTI_OK;
}

/* ---- giving back ---- */

/* Uses of peers' boards that nobody here reads; those far ahead of the oldest open use wait. */
static uint32_t give_back_skips(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t given = 0;
    while (segment->skip < plan->skips) {
        const struct tu_plan_skip *skip = &plan->skip[segment->skip];
        struct tu_ring_in *ring = run->ring[skip->channel].in;
        uint32_t number = run->base[skip->channel] +
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
        const struct tu_op *wait = &segment->program->op[op->drop[d]];
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

/* One pass over the steps left. Dependencies point backwards, so a pass runs whole chains. */
static uint32_t pass(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_hooks *hooks = run->env->hooks;
    uint32_t words = words_of(run->bound->plan->steps), before = segment->left;
    for (uint32_t word = 0; word < words; word++) {
        const struct tu_op *ops = &segment->program->op[64 * word];
        for (uint64_t left = ~segment->done[word]; left; left &= left - 1) {
            const struct tu_op *op = &ops[__builtin_ctzll(left)];
            if (!ready(segment, op) || declined(hooks))
                continue;
            if (tu_step_try(run, segment, op))
                step_done(run, segment, op);
            else if (run->state == TU_RUN_FAILED)
                return before - segment->left;
        }
    }
    return before - segment->left;
}

static uint32_t advance_segment(struct tu_run *run, struct tu_segment *segment) {
    uint32_t moved = 0;
    if (segment->skip < run->bound->plan->skips)
        moved += give_back_skips(run, segment);
    if (segment->left)
        moved += pass(run, segment);
    if (segment->left == 0 && segment->skip == run->bound->plan->skips) {
        segment->active = false;
        run->segments_done++;
        moved++;
    }
    return moved;
}

static uint32_t advance_segments(struct tu_run *run) {
    uint32_t moved = 0;
    for (uint32_t w = 0; w < run->places && run->state == TU_RUN_GOING; w++) {
        struct tu_segment *segment = &run->segment[w];
        if (!segment->active && w == run->next_place && run->next_segment < run->cut.segments)
            start_segment(run, segment);
        if (segment->active)
            moved += advance_segment(run, segment);
    }
    return moved;
}

uint32_t tu_run_advance(struct tu_run *run) {
    uint32_t moved = advance_segments(run), all = moved;
    /* one segment alone has done all that it can in one pass */
    while (moved && run->cut.segments > 1 && run->state == TU_RUN_GOING &&
           run->segments_done < run->cut.segments)
        all += moved = advance_segments(run);
    if (run->unsettled)
        settle(run);
    if (run->segments_done == run->cut.segments && !run->unsettled && run->state == TU_RUN_GOING)
        run->state = TU_RUN_DONE;
    return all;
}

void tu_run_abandon(struct tu_run *run) {
    if (run->state != TU_RUN_DONE)
        run->laid_out = 0; /* counts of users are not back where they started */
    run->state = TU_RUN_IDLE;
}

uint32_t tu_run_awaited(const struct tu_run *run, uint32_t *rank, uint32_t room) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t n = 0;
    for (uint32_t w = 0; w < run->places; w++) {
        const struct tu_segment *segment = &run->segment[w];
        for (uint32_t i = 0; segment->active && i < plan->steps; i++) {
            const struct tu_op *op = &segment->program->op[i];
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
