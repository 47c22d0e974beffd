/* Working plans out in bytes: see program.h. */
#include "collectives/program.h"

#include <stdlib.h>

#include "runtime/env.h"

/* The making of one. */
struct maker {
    const struct tu_bound *bound;
    const struct tu_plan *plan;
    struct tu_partition part;
    size_t element_bytes;
    bool stream;    /* what goes to the target is stored past the caches */
    bool lend;      /* the vector is worth it */
    bool to_target; /* some step of this rank writes to the target */
    bool one_way;   /* its messages all come, or all go */
    const struct tu_series *series;
    struct tu_move *move; /* the next free ones */
    uint32_t *drop;
};

/* ---- blocks ---- */

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
static size_t straight_elements(const struct maker *m, uint32_t first, uint32_t n) {
    return tu_partition_at(&m->part, first + n) - tu_partition_at(&m->part, first);
}

/* Elements of a range, wrapped or not. */
static size_t range_elements(const struct maker *m, uint32_t first, uint32_t n) {
    if (n == 0)
        return 0;
    uint32_t head = straight(m->plan, first, n);
    size_t elements = straight_elements(m, first, head);
    if (head < n)
        elements += straight_elements(m, block_of(m->plan, first, head), n - head);
    return elements;
}

/* Element offset of block `d` of the reference's range in its space; sets *base. */
static size_t place(const struct maker *m, const struct tu_ref *ref, uint32_t d, uint32_t *base) {
    const struct tu_plan *plan = m->plan;
    uint32_t block = block_of(plan, ref->first, d), owner;
    const struct tu_step *wait;
    *base = ref->space;
    switch (ref->space) {
    case TU_SRC:
    case TU_DST: /* replicated blocks are all the whole slice */
        return plan->replicate ? 0 : tu_partition_at(&m->part, block);
    case TU_SCRATCH:
        return tu_partition_at(&m->part, block);
    case TU_ARRIVED:
        *base = tu_base_arrived(ref->step);
        wait = &plan->step[ref->step];
        return range_elements(m, wait->first,
                              block >= wait->first ? block - wait->first
                                                   : block + plan->wrap - wait->first);
    default:
        owner = m->bound->owner[block];
        *base = tu_base_node(plan, owner);
        return tu_partition_at(&m->part, block) - tu_partition_at(&m->part, owner * plan->node_run);
    }
}

static void add_move(struct maker *m, const struct tu_ref *ref, uint32_t d, size_t amount) {
    struct tu_move *move = m->move++;
    move->offset = place(m, ref, d, &move->base) * m->element_bytes;
    move->amount = amount;
}

/* ---- steps ---- */

/* The pieces of a WRITE or SHARE; what has arrived lies packed, wrapped or not. */
static void make_message(struct maker *m, const struct tu_step *step, struct tu_op *op) {
    const struct tu_plan *plan = m->plan;
    for (uint32_t a = 0; a < step->args; a++) {
        const struct tu_ref *ref = &plan->ref[step->arg + a];
        uint32_t head = ref->space == TU_ARRIVED ? ref->n : straight(plan, ref->first, ref->n);
        add_move(m, ref, 0, range_elements(m, ref->first, head) * m->element_bytes);
        if (head < ref->n)
            add_move(m, ref, head,
                     range_elements(m, block_of(plan, ref->first, head), ref->n - head) *
                         m->element_bytes);
    }
    op->moves = (uint32_t)(m->move - op->move);
}

/* The destination may wrap; then it is done in two parts. */
static void make_computation(struct maker *m, const struct tu_step *step, struct tu_op *op) {
    const struct tu_plan *plan = m->plan;
    const struct tu_ref *dst = &step->dst[0];
    op->moves = (uint32_t)step->dsts + step->args;
    for (uint32_t d = 0; d < dst->n; op->parts++) {
        uint32_t first = block_of(plan, dst->first, d);
        uint32_t n = straight(plan, first, dst->n - d);
        size_t elements = straight_elements(m, first, n);
        size_t amount = step->kind == TU_COPY ? elements * m->element_bytes : elements;
        for (uint32_t i = 0; i < step->dsts; i++)
            add_move(m, &step->dst[i], d, amount);
        for (uint32_t a = 0; a < step->args; a++)
            add_move(m, &plan->ref[step->arg + a], d, amount);
        d += n;
    }
}

static void find_drops(struct maker *m, const struct tu_step *step, struct tu_op *op) {
    for (uint32_t a = 0; a < step->args; a++) {
        const struct tu_ref *ref = &m->plan->ref[step->arg + a];
        bool known = ref->space != TU_ARRIVED;
        for (uint32_t i = 0; i < op->drops && !known; i++)
            known = op->drop[i] == ref->step;
        if (!known) {
            *m->drop++ = ref->step;
            op->drops++;
        }
    }
}

static void add_after(struct tu_op *op, uint32_t step) {
    if (step == TU_NO_STEP)
        return;
    if (step / 64 == op->index / 64) {
        op->after |= UINT64_C(1) << step % 64;
        return;
    }
    op->after_far[op->far] = step;
    op->far = true;
}

static uint8_t lend_of(const struct maker *m, const struct tu_step *step, const struct tu_op *op) {
    bool all_read = step->readers + 1u == m->bound->channels->members;
    if (!m->lend || step->kind != TU_SHARE || !all_read || op->moves != 1 ||
        op->move->base != TU_SRC)
        return TU_LEND_NEVER; /* who does not read it would not tell that it is given back */
    return m->to_target ? TU_LEND_APART : TU_LEND;
}

static bool writes_target(const struct tu_plan *plan) {
    for (uint32_t i = 0; i < plan->steps; i++)
        for (uint32_t d = 0; d < plan->step[i].dsts; d++)
            if (plan->step[i].dst[d].space == TU_DST)
                return true;
    return false;
}

static bool is_one_way(const struct tu_plan *plan) {
    bool in = false, out = false;
    for (uint32_t i = 0; i < plan->steps; i++) {
        uint8_t kind = plan->step[i].kind;
        in = in || kind == TU_WAIT;
        out = out || kind == TU_WRITE || kind == TU_SHARE || kind == TU_SIGNAL;
    }
    return in != out;
}

static enum tu_give gives_of(const struct maker *m, const struct tu_op *op) {
    if (op->drops == 1 && !op->node && m->plan->step[*op->drop].users == 1)
        return TU_GIVE_ONE;
    bool unused = op->kind == TU_WAIT && op->users == 0;
    return op->drops || op->node || unused ? TU_GIVE_SOME : TU_GIVE_NOTHING;
}

static void make_op(struct maker *m, uint32_t bank, uint32_t i, struct tu_op *op) {
    const struct tu_step *step = &m->plan->step[i];
    bool message = step->kind != TU_REDUCE && step->kind != TU_COPY;
    *op = (struct tu_op){
        .kind = step->kind,
        .node = m->bound->node_step[i],
        .idle = (step->kind == TU_SHARE || step->kind == TU_SIGNAL) && step->readers == 0,
        .dsts = step->dsts,
        .index = i,
        .after_far = {TU_NO_STEP, TU_NO_STEP},
        .channel = step->channel,
        .use = step->use,
        .move = m->move,
        .users = step->users,
        .drop = m->drop,
    };
    for (int a = 0; a < 2; a++)
        add_after(op, step->after[a]);
    if (message) {
        op->series = &m->series[step->channel];
        op->uses = m->plan->channel[step->channel].uses;
        op->ring = m->bound->ring[bank][step->channel];
        op->bytes = range_elements(m, step->first, step->n) * m->element_bytes;
        make_message(m, step, op);
    } else {
        make_computation(m, step, op);
    }
    find_drops(m, step, op);
    op->stream = m->stream && step->dsts && step->dst[0].space == TU_DST;
    op->lend = lend_of(m, step, op);
    op->one_way = m->one_way;
    op->gives = gives_of(m, op);
    op->try = tu_step_choose(op);
}

/* ---- the whole ---- */

/* Most that the ops of a slice can need: pieces, parts and destinations may come twice. */
static size_t most_moves(const struct tu_plan *plan) {
    return 2 * ((size_t)plan->refs + 2 * (size_t)plan->steps);
}

static size_t bases_of(const struct tu_bound *bound) {
    return TU_SCRATCH + 1 + bound->plan->steps + bound->channels->members;
}

/* How often a program has each of its parts. */
struct sizes {
    size_t ops, moves, drops, series, operands, words, users, bases;
};

static struct sizes sizes_of(const struct tu_bound *bound, size_t slices, size_t width) {
    const struct tu_plan *plan = bound->plan;
    return (struct sizes){.ops = slices * plan->steps,
                          .moves = slices * most_moves(plan),
                          .drops = slices * plan->refs,
                          .series = plan->channels,
                          .operands = bound->operands,
                          .words = width * (plan->steps / 64 + 1),
                          .users = width * plan->steps,
                          .bases = width * bases_of(bound)};
}

/* Lays the parts out in the program's memory, those of 4 bytes last. */
static void lay_out(const struct tu_bound *bound, const struct sizes *n, uint32_t width,
                    struct tu_program *program, struct maker *m) {
    const struct tu_plan *plan = bound->plan;
    program->op[0] = program->memory;
    m->move = (struct tu_move *)(void *)(program->op[0] + n->ops);
    program->series = (struct tu_series *)(void *)(m->move + n->moves);
    m->series = program->series;
    program->operand = (const void **)(void *)(program->series + n->series);
    uint64_t *words = (uint64_t *)(void *)(program->operand + n->operands);
    uint8_t **bases = (uint8_t **)(void *)(words + n->words);
    uint32_t *users = (uint32_t *)(void *)(bases + n->bases);
    m->drop = users + n->users;
    program->steps = plan->steps;
    program->words = plan->steps / 64 + 1;
    program->channels = plan->channels;
    program->skips = plan->skips;
    program->node_steps = bound->node_steps;
    program->beyond = ~UINT64_C(0) << plan->steps % 64;
    for (uint32_t w = 0; w < width; w++) {
        struct tu_segment *segment = &program->segment[w];
        segment->done = words + w * program->words;
        segment->base = bases + w * bases_of(bound);
        segment->users = users + w * plan->steps;
        for (uint32_t i = 0; i < plan->steps; i++)
            segment->users[i] = plan->step[i].users;
    }
}

static tutti_status make_room(struct tu_env *env, const struct tu_plan *plan, const struct sizes *n,
                              struct tu_program *program) {
    size_t bytes = n->ops * sizeof(struct tu_op) + n->moves * sizeof(struct tu_move) +
                   n->series * sizeof(struct tu_series) + n->operands * sizeof(void *) +
                   n->words * sizeof(uint64_t) + n->bases * sizeof(uint8_t *) +
                   (n->users + n->drops) * sizeof(uint32_t);
    program->memory = tu_alloc(_Alignof(struct tu_op), 1, bytes);
    return program->memory ? TUTTI_OK
                           : tu_fail(env, TUTTI_ERR_MEMORY, "no memory for the %u steps of plan %s",
                                     plan->steps, plan->algorithm);
}

static void make_ops(struct maker *m, uint32_t bank, size_t elements, struct tu_op *op) {
    m->part = tu_partition_of(m->plan, elements);
    for (uint32_t i = 0; i < m->plan->steps; i++)
        make_op(m, bank, i, &op[i]);
}

/* Does some step that waits, or sends, come in front of this one without being needed by it? */
static bool overtakes(const struct tu_step *step, uint64_t waits, uint64_t sends, uint64_t before) {
    bool local = step->kind == TU_REDUCE || step->kind == TU_COPY;
    return step->kind != TU_WAIT && (waits | (local ? 0 : sends)) & ~before;
}

/* With one use of each channel, room for a message never depends on a step behind it. */
static bool is_straight(const struct tu_bound *bound, const struct tu_cut *cut) {
    const struct tu_plan *plan = bound->plan;
    uint64_t waits = 0, sends = 0, before[64] = {0};
    if (cut->segments > 1 || plan->steps >= 64 || plan->skips || bound->node_steps)
        return false;
    for (uint32_t i = 0; i < plan->channels; i++)
        if (plan->channel[i].uses > 1)
            return false;
    for (uint32_t i = 0; i < plan->steps; i++) {
        const struct tu_step *step = &plan->step[i];
        for (int a = 0; a < 2; a++)
            if (step->after[a] != TU_NO_STEP)
                before[i] |= before[step->after[a]] | UINT64_C(1) << step->after[a];
        if (overtakes(step, waits, sends, before[i]))
            return false;
        if (step->kind == TU_WAIT)
            waits |= UINT64_C(1) << i;
        else if (step->kind != TU_REDUCE && step->kind != TU_COPY)
            sends |= UINT64_C(1) << i;
    }
    return true;
}

static size_t vector_bytes(const struct tu_cut *cut, size_t element_bytes) {
    return ((cut->segments - 1) * cut->slice + cut->last) * element_bytes;
}

tutti_status tu_program_make(struct tu_env *env, const struct tu_bound *bound,
                             const struct tu_cut *cut, size_t element_bytes, bool stream,
                             uint32_t bank, uint32_t width, struct tu_program *program) {
    const struct tu_plan *plan = bound->plan;
    bool shorter = cut->last != cut->slice;
    struct sizes n = sizes_of(bound, shorter ? 2 : 1, width);
    tutti_status status = make_room(env, plan, &n, program);
    if (status)
        return status;
    struct maker m = {.bound = bound,
                      .plan = plan,
                      .element_bytes = element_bytes,
                      .stream = stream,
                      .lend = vector_bytes(cut, element_bytes) >= env->config.lend_bytes,
                      .to_target = writes_target(plan),
                      .one_way = is_one_way(plan)};
    program->bound = bound;
    program->cut = cut;
    lay_out(bound, &n, width, program, &m);
    make_ops(&m, bank, cut->slice, program->op[0]);
    program->scratch_bytes =
        tu_round_up(tu_partition_at(&m.part, plan->scratch_blocks) * element_bytes, 64);
    program->op[1] = program->op[0] + (shorter ? plan->steps : 0);
    if (shorter)
        make_ops(&m, bank, cut->last, program->op[1]);
    program->slots = bound->wire && cut->slots;
    program->shares = cut->share && !bound->pair;
    program->straight = is_straight(bound, cut);
    if (program->straight) { /* the same in all calls */
        program->segment[0].active = true;
        program->segment[0].number = 0;
        program->segment[0].op = program->op[1];
    }
    for (uint32_t i = 0; i < plan->channels; i++)
        program->series[i] = (struct tu_series){.next = bound->ring[bank][i].next,
                                                .take = plan->channel[i].uses * cut->segments};
    return TUTTI_OK;
}

void tu_program_free(struct tu_program *program) {
    free(program->memory);
    *program = (struct tu_program){.memory = NULL};
}
