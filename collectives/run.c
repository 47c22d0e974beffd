/* Segments, dependencies and credits of a call under way: see run.h. The steps are in step.c. */
#include "collectives/run.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"

void tu_run_init(struct tu_run *run, struct tu_env *env, uint32_t bank, uint32_t width) {
    *run = (struct tu_run){.env = env, .bank = bank, .width = width};
}

void tu_run_free(struct tu_run *run) {
    free(run->memory);
    free(run->scratch);
    *run = (struct tu_run){.env = run->env};
}

/* ---- memory ---- */

static size_t segment_memory(const struct tu_plan *plan) {
    size_t per_step = sizeof(uint8_t *) + 2 * sizeof(uint32_t) + 1;
    return tu_round_up(plan->steps * per_step, 64);
}

static void lay_out(struct tu_run *run, const struct tu_bound *bound) {
    const struct tu_plan *plan = bound->plan;
    uint8_t *at = run->memory;
    for (uint32_t w = 0; w < run->width; w++) {
        struct tu_segment *segment = &run->segment[w];
        segment->data = (const uint8_t **)(void *)at;
        segment->users = (uint32_t *)(void *)(segment->data + plan->steps);
        segment->named = segment->users + plan->steps;
        segment->done = (uint8_t *)(segment->named + plan->steps);
        at += segment_memory(plan);
    }
    run->operand = (const void **)(void *)at;
    run->base = (uint32_t *)(void *)(run->operand + bound->operands);
}

static tutti_status make_room(struct tu_run *run, const struct tu_bound *bound) {
    const struct tu_plan *plan = bound->plan;
    size_t need = run->width * segment_memory(plan) + bound->operands * sizeof(void *) +
                  plan->channels * sizeof(uint32_t);
    if (!run->memory || need > run->memory_bytes) { /* a plan of one rank may need none */
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

static tutti_status make_scratch(struct tu_run *run, const struct tu_plan *plan) {
    struct tu_partition part = tu_partition_of(plan, run->cut.slice);
    size_t elements = tu_partition_at(&part, plan->scratch_blocks);
    size_t bytes = tu_round_up(elements * run->work.element_bytes, 64);
    if (bytes * run->width > run->scratch_bytes) {
        uint8_t *scratch = tu_alloc(64, run->width, bytes);
        if (!scratch)
            return tu_fail(run->env, TUTTI_ERR_MEMORY, "no memory for %zu bytes of scratch",
                           bytes * run->width);
        free(run->scratch);
        run->scratch = scratch;
        run->scratch_bytes = bytes * run->width;
    }
    for (uint32_t w = 0; w < run->width; w++)
        run->segment[w].scratch = run->scratch + w * bytes;
    return TUTTI_OK;
}

/* ---- start ---- */

/* The call's numbers on every channel (rule 1), whether this rank has steps on them or not. */
static void take_numbers(struct tu_run *run) {
    const struct tu_plan *plan = run->bound->plan;
    struct tu_node_scratch *scratch = &run->bound->channels->scratch[run->bank];
    for (uint32_t i = 0; i < plan->channels; i++) {
        const struct tu_plan_channel *channel = &plan->channel[i];
        bool out = channel->kind == TU_EDGE_OUT || channel->kind == TU_BOARD_OUT;
        uint32_t *next = out ? &run->ring[i].out->next : &run->ring[i].in->next;
        run->base[i] = *next;
        *next += channel->uses * run->cut.segments;
    }
    run->scratch_base = scratch->next;
    if (plan->node_run)
        scratch->next += run->cut.segments;
}

static void start_segment(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_plan *plan = run->bound->plan;
    size_t offset = run->next_segment * run->cut.slice;
    size_t rest = run->work.count - offset;

    segment->active = true;
    segment->node_free = false;
    segment->number = run->next_segment++;
    run->next_place = run->next_place + 1 == run->width ? 0 : run->next_place + 1;
    segment->first = 0;
    segment->left = plan->steps;
    segment->node_left = run->bound->node_steps;
    segment->skip = 0;
    segment->offset = offset;
    segment->elements = rest < run->cut.slice ? rest : run->cut.slice;
    segment->part = tu_partition_of(plan, segment->elements);
    memset(segment->done, 0, plan->steps);
    for (uint32_t i = 0; i < plan->steps; i++) {
        segment->users[i] = plan->step[i].users;
        segment->named[i] = TU_NO_STEP;
    }
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
    tutti_status status =
        bound->serial && run->laid_out == bound->serial ? TUTTI_OK : make_room(run, bound);
    if (!status && bound->plan->scratch_blocks)
        status = make_scratch(run, bound->plan);
    if (status)
        return status;
    run->next_segment = run->next_place = 0;
    run->segments_done = 0;
    run->state = TU_RUN_GOING;
    for (uint32_t w = 0; w < run->width; w++)
        run->segment[w].active = false;
    take_numbers(run);
    run->unsettled = bound->wire && cut->slots; /* slots may be new */
    return TUTTI_OK;
}

/* ---- giving back ---- */

void tu_run_give_back(struct tu_run *run, struct tu_ring_in *ring, uint32_t number) {
    tu_ring_give_back(ring, number);
    if (tu_ring_owes(ring) && tu_ring_settle(ring) == TU_AGAIN)
        run->unsettled = true;
}

/* Uses of peers' boards that nobody here reads; those far ahead of the oldest open use wait. */
static uint32_t give_back_skips(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t given = 0;
    while (segment->skip < plan->skips) {
        const struct tu_plan_skip *skip = &plan->skip[segment->skip];
        struct tu_ring_in *ring = run->ring[skip->channel].in;
        uint32_t number = tu_run_number(run, segment, skip->channel, skip->use);
        if (!tu_ring_near(ring, number))
            break;
        tu_run_give_back(run, ring, number);
        segment->skip++;
        given++;
    }
    return given;
}

/* The step is done: arrivals that it was the last to name go back to their writers. */
static void release_arrivals(struct tu_run *run, struct tu_segment *segment, uint32_t i) {
    const struct tu_plan *plan = run->bound->plan;
    const struct tu_step *step = &plan->step[i];
    for (uint32_t a = 0; a < step->args; a++) {
        const struct tu_ref *ref = &plan->ref[step->arg + a];
        if (ref->space != TU_ARRIVED || segment->named[ref->step] == i)
            continue;
        segment->named[ref->step] = i;
        if (--segment->users[ref->step] > 0)
            continue;
        const struct tu_step *wait = &plan->step[ref->step];
        tu_run_give_back(run, run->ring[wait->channel].in,
                         tu_run_number(run, segment, wait->channel, wait->use));
    }
}

static void step_done(struct tu_run *run, struct tu_segment *segment, uint32_t i) {
    const struct tu_step *step = &run->bound->plan->step[i];
    segment->done[i] = 1;
    segment->left--;
    if (step->kind == TU_WAIT) {
        if (step->users == 0)
            tu_run_give_back(run, run->ring[step->channel].in,
                             tu_run_number(run, segment, step->channel, step->use));
    } else {
        release_arrivals(run, segment, i);
    }
    if (run->bound->node_step[i] && --segment->node_left == 0)
        tu_scratch_done(run->bound->channels, run->bank, run->scratch_base + segment->number);
}

/* ---- advance ---- */

static bool ready(const struct tu_segment *segment, const struct tu_step *step) {
    return (step->after[0] == TU_NO_STEP || segment->done[step->after[0]]) &&
           (step->after[1] == TU_NO_STEP || segment->done[step->after[1]]);
}

/* One pass over the steps left. Dependencies point backwards, so a pass runs whole chains. */
static uint32_t pass(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_plan *plan = run->bound->plan;
    const struct tu_hooks *hooks = run->env->hooks;
    uint32_t moved = 0;
    for (uint32_t i = segment->first; i < plan->steps; i++) {
        if (segment->done[i] || !ready(segment, &plan->step[i]))
            continue;
        if (hooks && hooks->decline && hooks->decline(hooks->context))
            continue;
        if (tu_step_try(run, segment, i)) {
            step_done(run, segment, i);
            moved++;
        } else if (run->state == TU_RUN_FAILED) {
            return moved;
        }
    }
    while (segment->first < plan->steps && segment->done[segment->first])
        segment->first++;
    return moved;
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

uint32_t tu_run_advance(struct tu_run *run) {
    uint32_t all = 0, moved;
    do {
        moved = 0;
        for (uint32_t w = 0; w < run->width && run->state == TU_RUN_GOING; w++) {
            struct tu_segment *segment = &run->segment[w];
            if (!segment->active && w == run->next_place && run->next_segment < run->cut.segments)
                start_segment(run, segment);
            if (segment->active)
                moved += advance_segment(run, segment);
        }
        all += moved;
    } while (moved && run->state == TU_RUN_GOING && run->segments_done < run->cut.segments);
    if (run->unsettled)
        settle(run);
    if (run->state == TU_RUN_GOING && run->segments_done == run->cut.segments && !run->unsettled)
        run->state = TU_RUN_DONE;
    return all;
}

void tu_run_abandon(struct tu_run *run) {
    run->state = TU_RUN_IDLE;
}

uint32_t tu_run_awaited(const struct tu_run *run, uint32_t *rank, uint32_t room) {
    const struct tu_plan *plan = run->bound->plan;
    uint32_t n = 0;
    for (uint32_t w = 0; w < run->width; w++) {
        const struct tu_segment *segment = &run->segment[w];
        for (uint32_t i = segment->first; segment->active && i < plan->steps; i++) {
            const struct tu_step *step = &plan->step[i];
            if (segment->done[i] || !ready(segment, step) || step->kind >= TU_REDUCE)
                continue;
            uint32_t peer = plan->channel[step->channel].peer;
            if (plan->channel[step->channel].kind == TU_BOARD_OUT)
                continue; /* some reader lags; its own steps tell */
            if (n < room)
                rank[n] = peer;
            n++;
        }
    }
    return n;
}
