/* Segments, dependencies and credits of a call under way: see run.h. The steps are in step.c. */
#include "collectives/run.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"

void tu_run_init(struct tu_run *run, struct tu_env *env, const struct tu_kernels *kernels,
                 size_t stream_from, uint32_t bank, uint32_t width) {
    *run = (struct tu_run){
        .env = env, .kernels = kernels, .stream_from = stream_from, .bank = bank, .width = width};
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

tutti_status tu_run_prepare(struct tu_run *run, const struct tu_work *work,
                            const struct tu_bound *bound, const struct tu_cut *cut,
                            struct tu_program *program) {
    bool stream = work->count >= run->stream_from / work->element_bytes;
    tutti_status status = tu_program_make(run->env, bound, cut, work->element_bytes, stream,
                                          run->bank, run->width, program);
    size_t scratch = program->scratch_bytes * run->width;
    if (!status && scratch > run->scratch_bytes)
        status = make_scratch(run, scratch);
    if (status)
        tu_program_free(program);
    return status;
}

/* The call's numbers on every channel (rule 1), whether this rank has steps on them or not. */
static inline void take_numbers(struct tu_run *run) {
    const struct tu_program *program = run->program;
    const struct tu_series *end = program->series + program->channels;
    for (struct tu_series *s = program->series; s < end; s++) {
        uint32_t base = *s->next;
        s->base = base;
        *s->next = base + s->take;
    }
    if (program->node_steps) {
        struct tu_node_scratch *scratch = &run->program->bound->channels->scratch[run->bank];
        run->scratch_base = scratch->next;
        scratch->next += run->program->cut->segments;
    }
}

/* Puts the next slice in this place. */
static void start_segment(struct tu_run *run, uint32_t place) {
    struct tu_program *program = run->program;
    const struct tu_work *work = run->work;
    struct tu_segment *segment = &program->segment[place];
    uint32_t number = run->next_segment++;
    size_t at = number * program->cut->slice * work->element_bytes;
    run->next_place = place + 1 == run->width ? 0 : place + 1;
    segment->active = true;
    segment->node_free = false;
    segment->number = number;
    segment->op = program->op[number + 1 == program->cut->segments];
    segment->node_left = program->node_steps;
    segment->skip = 0;
    segment->base[TU_SRC] = (uint8_t *)(uintptr_t)work->source + at;
    segment->base[TU_DST] = (uint8_t *)work->target + at;
    segment->base[TU_SCRATCH] = run->scratch + place * program->scratch_bytes;
    for (uint32_t i = 1; i < program->words; i++)
        segment->done[i - 1] = 0;
    segment->done[program->words - 1] = program->beyond;
}

static __attribute__((noinline)) void start_pipeline(struct tu_run *run) {
    uint32_t segments = run->program->cut->segments;
    run->places = segments < run->width ? segments : run->width;
    run->next_segment = 0;
    for (uint32_t w = 0; w < run->places; w++)
        run->program->segment[w].active = false;
    start_segment(run, 0);
}

/* The rest of the only segment is the same in all calls. */
static inline void start_straight(const struct tu_run *run) {
    struct tu_segment *segment = &run->program->segment[0];
    segment->base[TU_SRC] = (uint8_t *)(uintptr_t)run->work->source;
    segment->base[TU_DST] = run->work->target;
    segment->base[TU_SCRATCH] = run->scratch;
    segment->next = segment->op;
}

void tu_run_start(struct tu_run *run, const struct tu_work *work, uint32_t fingerprint,
                  struct tu_program *program) {
    run->work = work;
    run->fingerprint = fingerprint;
    run->program = program;
    run->lent = NULL;
    run->state = TU_RUN_GOING;
    run->segments_done = 0;
    run->unsettled = program->slots;
    if (program->shares)
        tu_distance_count(program->bound->channels, program->cut->segments);
    take_numbers(run);
    if (program->straight)
        start_straight(run);
    else
        start_pipeline(run);
}

/* ---- giving back ---- */

/* Announcements of new slots, and credits that could not be sent before. */
static void settle(struct tu_run *run) {
    const struct tu_plan *plan = run->program->bound->plan;
    run->unsettled = false;
    for (uint32_t i = 0; i < plan->channels; i++) {
        uint32_t kind = plan->channel[i].kind;
        bool in = kind == TU_EDGE_IN || kind == TU_BOARD_IN;
        struct tu_ring_in *ring = run->program->bound->ring[run->bank][i].in;
        if (in && tu_ring_unsettled(ring) && tu_ring_settle(ring) == TU_AGAIN)
            run->unsettled = true;
    }
}

/* Uses of peers' boards that nobody here reads; those far ahead of the oldest open use wait. */
static __attribute__((noinline)) uint32_t give_back_skips(struct tu_run *run,
                                                          struct tu_segment *segment) {
    const struct tu_plan *plan = run->program->bound->plan;
    uint32_t given = 0;
    while (segment->skip < plan->skips) {
        const struct tu_plan_skip *skip = &plan->skip[segment->skip];
        struct tu_ring_in *ring = run->program->bound->ring[run->bank][skip->channel].in;
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

static inline void release(struct tu_run *run, const struct tu_segment *segment,
                           const struct tu_op *wait) {
    tu_run_give_back(run, wait->ring.in, tu_run_number(segment, wait));
}

/* One user fewer of an arrival; the last one gives it back to its writer. */
static inline void drop(struct tu_run *run, const struct tu_segment *segment,
                        const struct tu_op *wait) {
    if (wait->users > 1) {
        if (--segment->users[wait->index] > 0)
            return;
        segment->users[wait->index] = wait->users;
    }
    release(run, segment, wait);
}

static __attribute__((noinline)) void give_back_all(struct tu_run *run, struct tu_segment *segment,
                                                    const struct tu_op *op) {
    if (op->kind == TU_WAIT && op->users == 0)
        release(run, segment, op);
    for (uint32_t d = 0; d < op->drops; d++)
        drop(run, segment, &segment->op[op->drop[d]]);
    if (op->node && --segment->node_left == 0)
        tu_scratch_done(run->program->bound->channels, run->bank,
                        run->scratch_base + segment->number);
}

/* What the step was the last to need. */
static inline void give_back(struct tu_run *run, struct tu_segment *segment,
                             const struct tu_op *op) {
    if (op->gives == TU_GIVE_ONE)
        release(run, segment, &segment->op[*op->drop]);
    else if (op->gives)
        give_back_all(run, segment, op);
}

/* ---- advance ---- */

static bool is_done(const struct tu_segment *segment, uint32_t step) {
    return step == TU_NO_STEP || segment->done[step / 64] >> step % 64 & 1;
}

/* `done`: of its own word. */
static inline bool ready(const struct tu_segment *segment, const struct tu_op *op, uint64_t done) {
    return !(op->after & ~done) &&
           (!op->far || (is_done(segment, op->after_far[0]) && is_done(segment, op->after_far[1])));
}

static bool declined(const struct tu_hooks *hooks) {
    return hooks && hooks->decline && hooks->decline(hooks->context);
}

/* The steps left of one word; returns those done. Dependencies point backwards, so a pass runs whole
   chains. */
static __attribute__((noinline)) uint64_t pass_word(struct tu_run *run, struct tu_segment *segment,
                                                    uint32_t word) {
    const struct tu_hooks *hooks = run->env->hooks;
    const struct tu_op *ops = &segment->op[64 * word];
    uint64_t done = segment->done[word];
    for (uint64_t left = ~done; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        const struct tu_op *op = &ops[i];
        if (!ready(segment, op, done) || declined(hooks))
            continue;
        if (op->try(run, segment, op)) {
            give_back(run, segment, op);
            done |= UINT64_C(1) << i;
        } else if (run->state == TU_RUN_FAILED) {
            break;
        }
    }
    return done;
}

/* One pass over its steps. Returns how much has moved. */
static uint32_t advance_segment(struct tu_run *run, struct tu_segment *segment) {
    const struct tu_program *program = run->program;
    uint32_t moved = 0, word = 0;
    bool all = true;
    do {
        uint64_t before = segment->done[word], done = pass_word(run, segment, word);
        segment->done[word] = done;
        moved += done != before;
        all = all && done == UINT64_MAX;
    } while (++word < program->words);
    if (segment->skip < program->skips)
        moved += give_back_skips(run, segment);
    if (all && segment->skip == program->skips) {
        segment->active = false;
        run->segments_done++;
        moved++;
    }
    return moved;
}

/* One pass over the segments under way. */
static uint32_t advance_segments(struct tu_run *run) {
    uint32_t moved = 0;
    for (uint32_t w = 0; w < run->places; w++) {
        struct tu_segment *segment = &run->program->segment[w];
        if (!segment->active && w == run->next_place &&
            run->next_segment < run->program->cut->segments)
            start_segment(run, w);
        if (segment->active)
            moved += advance_segment(run, segment);
    }
    return moved;
}

/* Segments follow each other as far as they come. (One alone does all that it can in one pass.) */
static __attribute__((noinline)) uint32_t advance_pipeline(struct tu_run *run) {
    uint32_t segments = run->program->cut->segments, now, moved = 0;
    do {
        now = advance_segments(run);
        moved += now;
    } while (now && segments > 1 && run->state == TU_RUN_GOING && run->segments_done < segments);
    return moved;
}

/* A straight program: step by step, until one has to wait. */
static inline uint32_t advance_straight(struct tu_run *run) {
    const struct tu_hooks *hooks = run->env->hooks;
    struct tu_segment *segment = &run->program->segment[0];
    const struct tu_op *first = segment->next, *op = first;
    const struct tu_op *end = segment->op + run->program->steps;
    for (; op < end && !declined(hooks) && op->try(run, segment, op); op++)
        give_back(run, segment, op);
    segment->next = op;
    return (uint32_t)(op - first);
}

/* Are all steps done? */
static inline bool is_through(const struct tu_run *run) {
    const struct tu_program *program = run->program;
    const struct tu_segment *only = &program->segment[0];
    return program->straight ? only->next == only->op + program->steps
                             : run->segments_done == program->cut->segments;
}

/* Has all memory come back that was lent to readers? */
static bool all_returned(struct tu_run *run) {
    for (uint32_t i = 0; run->lent && i < run->lent->readers; i++)
        if (!tu_ring_returned(run->lent, i, run->lent_number))
            return false;
    run->lent = NULL;
    return true;
}

uint32_t tu_run_advance(struct tu_run *run) {
    run->stuck.cell = NULL;
    uint32_t moved = run->program->straight ? advance_straight(run) : advance_pipeline(run);
    if (run->unsettled)
        settle(run);
    if (is_through(run) && !run->unsettled && run->state == TU_RUN_GOING && all_returned(run))
        run->state = TU_RUN_DONE;
    return moved;
}

void tu_run_end(struct tu_run *run) {
    if (run->state != TU_RUN_DONE)
        tu_program_free(run->program); /* counts of users are not back where they started */
    run->state = TU_RUN_IDLE;
}

/* Members of the node that have not given back this use of the own board. */
static uint32_t laggards(const struct tu_run *run, const struct tu_ring_out *ring, uint32_t number,
                         uint32_t *rank, uint32_t room) {
    const struct tu_channels *channels = run->program->bound->channels;
    uint32_t n = 0;
    for (uint32_t m = 0, i = 0; m < channels->members; m++) {
        if (m == channels->local || tu_ring_returned(ring, i++, number))
            continue;
        if (n < room)
            rank[n] = channels->board[m].rank;
        n++;
    }
    return n;
}

/* Ranks without which this SHARE has no room. (A pair's room comes with what it waits for itself.) */
static uint32_t without_room(const struct tu_run *run, const struct tu_segment *segment,
                             const struct tu_op *op, uint32_t *rank, uint32_t room) {
    const struct tu_ring_out *ring = op->ring.out;
    uint32_t depth = op->bytes > ring->payload ? ring->pieces : ring->slots;
    return ring->twin ? 0 : laggards(run, ring, tu_run_number(segment, op) - depth, rank, room);
}

static uint32_t awaited_by(const struct tu_run *run, const struct tu_segment *segment,
                           const struct tu_op *op, uint32_t *rank, uint32_t room) {
    const struct tu_plan_channel *channel = &run->program->bound->plan->channel[op->channel];
    if (channel->kind == TU_BOARD_OUT)
        return without_room(run, segment, op, rank, room);
    if (room)
        *rank = channel->peer;
    return 1;
}

/* Is it a message that is not sent or has not come, though its turn has come? */
static bool waits(const struct tu_program *program, const struct tu_segment *segment,
                  const struct tu_op *op) {
    uint64_t done = program->straight ? (UINT64_C(1) << (segment->next - segment->op)) - 1
                                      : segment->done[op->index / 64];
    return op->kind < TU_REDUCE && !(done >> op->index % 64 & 1) && ready(segment, op, done);
}

uint32_t tu_run_awaited(const struct tu_run *run, uint32_t *rank, uint32_t room) {
    const struct tu_program *program = run->program;
    uint32_t n = 0;
    if (run->lent && is_through(run))
        return laggards(run, run->lent, run->lent_number, rank, room);
    for (uint32_t w = 0; w < (program->straight ? 1 : run->places); w++) {
        const struct tu_segment *segment = &program->segment[w];
        for (uint32_t i = 0; segment->active && i < program->steps; i++) {
            if (!waits(program, segment, &segment->op[i]))
                continue;
            uint32_t kept = n < room ? n : room;
            n += awaited_by(run, segment, &segment->op[i], rank + kept, room - kept);
        }
    }
    return n;
}
