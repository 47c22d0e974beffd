/* The model, see model.h. All is small: arrays are as long as may ever be needed. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often each rank is in it, four bits each, and a hash that tells operand orders apart. */
struct value {
    uint64_t counts, hash;
};

enum state { IDLE, RUNNING, DONE };

struct step_state {
    uint8_t state;
    bool arrived;      /* WAIT */
    uint32_t progress; /* micro steps done: operands read, then targets written */
    uint32_t users;    /* WAIT: named by so many steps that are not done */
    struct value *got; /* WRITE, SHARE: the message; REDUCE: the fold so far */
};

/* One direction between two ranks: an edge, or a board as one of its readers has it. */
struct line {
    uint32_t writer, reader;
    bool board;
    uint32_t uses;
    uint32_t *post, *wait;              /* [uses] steps at both ends; TU_NO_STEP: not read */
    bool *sent, *back;                  /* [uses] the message is under way; given back */
    uint32_t consumed, published, seen; /* by the reader; told; known to the writer */
    struct value *slot;                 /* [ring_slots][blocks] */
    uint32_t *slot_use;                 /* [ring_slots] which use lies there, plus one */
};

struct model {
    const struct tu_plan *const *plan;
    const struct tu_check *check;
    const struct model_options *options;
    uint32_t ranks, lines, blocks;
    uint64_t random;
    uint32_t slow; /* a rank that seldom does anything as long as others can; or nobody */
    struct step_state *step[MODEL_RANKS];
    bool started[MODEL_RANKS];
    uint32_t left[MODEL_RANKS]; /* steps not done */
    struct line *line;
    uint32_t *line_of[MODEL_RANKS]; /* [channels] first line of a channel */
    struct value *buffer[MODEL_RANKS], *source[MODEL_RANKS], *scratch[MODEL_RANKS];
    struct value *node; /* [nodes][node blocks] */
    uint32_t node_blocks;
    char *text;
    bool wrong;
};

uint64_t model_random(uint64_t *state, uint64_t below) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static struct value leaf(uint32_t rank) {
    return (struct value){(uint64_t)1 << (4 * rank), (rank + 1) * 0x9e3779b97f4a7c15u};
}

static struct value fold(struct value a, struct value b) {
    uint64_t hash = (a.hash ^ (a.hash >> 29)) * 0xbf58476d1ce4e5b9u + b.hash;
    return (struct value){a.counts + b.counts, hash * 0x94d049bb133111ebu + 1};
}

static void wrong(struct model *m, uint32_t rank, uint32_t s, const char *what) {
    if (!m->wrong)
        snprintf(m->text, 256, "rank %u step %u: %s", rank, s, what);
    m->wrong = true;
}

/* ---- references ---- */

/* Block number k of a range. */
static uint32_t block_of(const struct tu_plan *plan, uint32_t first, uint32_t n, uint32_t k) {
    if (n > plan->wrap)
        return first + k;
    uint32_t group = first / plan->wrap * plan->wrap;
    return group + (first - group + k) % plan->wrap;
}

static struct value *private_block(struct model *m, uint32_t rank, uint32_t space, uint32_t b) {
    const struct tu_plan *plan = m->plan[rank];
    uint32_t place = plan->replicate ? 0 : b;
    if (space == TU_SCRATCH)
        return &m->scratch[rank][b];
    if (space == TU_NODE)
        return &m->node[m->check->nodes->node_of[rank] * m->node_blocks + b];
    return space == TU_SRC ? &m->source[rank][place] : &m->buffer[rank][place];
}

static struct line *line_of_wait(struct model *m, uint32_t rank, uint32_t wait) {
    return &m->line[m->line_of[rank][m->plan[rank]->step[wait].channel]];
}

static struct value read_block(struct model *m, uint32_t rank, const struct tu_ref *ref,
                               uint32_t k);

/* Block k of the message of step s, read from where its pieces lie now. */
static struct value read_message(struct model *m, uint32_t rank, uint32_t s, uint32_t k) {
    const struct tu_step *step = &m->plan[rank]->step[s];
    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *piece = &m->plan[rank]->ref[step->arg + i];
        if (k < piece->n)
            return read_block(m, rank, piece, k);
        k -= piece->n;
    }
    wrong(m, rank, s, "message is too short");
    return (struct value){0, 0};
}

/* Block k of what a WAIT brought, from the slot, or from the source of a board by reference. */
static struct value read_arrived(struct model *m, uint32_t rank, const struct tu_ref *ref,
                                 uint32_t k) {
    const struct tu_step *wait = &m->plan[rank]->step[ref->step];
    const struct line *line = line_of_wait(m, rank, ref->step);
    uint32_t block = block_of(m->plan[rank], ref->first, ref->n, k), at = 0;
    uint32_t slot = wait->use % m->options->ring_slots;

    while (at < wait->n && block_of(m->plan[rank], wait->first, wait->n, at) != block)
        at++;
    if (!m->step[rank][ref->step].arrived || at == wait->n)
        wrong(m, rank, ref->step, "read before it arrived");
    else if (m->options->by_reference && line->board)
        return read_message(m, line->writer, line->post[wait->use], at);
    else if (line->slot_use[slot] != wait->use + 1)
        wrong(m, rank, ref->step, "overwritten before it was read");
    return m->wrong ? (struct value){0, 0} : line->slot[slot * m->blocks + at];
}

static struct value read_block(struct model *m, uint32_t rank, const struct tu_ref *ref,
                               uint32_t k) {
    if (ref->space == TU_ARRIVED)
        return read_arrived(m, rank, ref, k);
    return *private_block(m, rank, ref->space, block_of(m->plan[rank], ref->first, ref->n, k));
}

/* ---- channels ---- */

static void advance(struct model *m, struct line *line) {
    uint32_t lag = m->options->flush ? 1 : (m->options->ring_slots + 1) / 2;
    while (line->consumed < line->uses &&
           (line->wait[line->consumed] == TU_NO_STEP || line->back[line->consumed]))
        line->consumed++;
    if (line->consumed - line->published >= lag)
        line->published = line->consumed;
}

static uint32_t first_line(struct model *m, uint32_t rank, uint32_t s, uint32_t *n) {
    const struct tu_plan *plan = m->plan[rank];
    const struct tu_step *step = &plan->step[s];
    uint32_t first = m->line_of[rank][step->channel];
    *n = 1;
    if (step->kind == TU_SHARE || step->kind == TU_SIGNAL)
        for (*n = 0; first + *n < m->lines && m->line[first + *n].board &&
                     m->line[first + *n].writer == rank;)
            ++*n;
    return first;
}

static bool has_slot(struct model *m, uint32_t rank, uint32_t s) {
    const struct tu_step *step = &m->plan[rank]->step[s];
    uint32_t n, first = first_line(m, rank, s, &n), use = step->use;
    if (step->kind != TU_WRITE && step->readers == 0) /* it is not sent */
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (use - m->line[first + i].seen >= m->options->ring_slots &&
            use >= m->line[first + i].seen)
            return false;
    return true;
}

/* By reference a board's source is free again when all readers have consumed. */
static bool is_consumed(struct model *m, uint32_t rank, uint32_t s) {
    uint32_t n, first = first_line(m, rank, s, &n), use = m->plan[rank]->step[s].use;
    for (uint32_t i = 0; m->plan[rank]->step[s].readers > 0 && i < n; i++)
        if (m->line[first + i].consumed <= use)
            return false;
    return true;
}

static void send(struct model *m, uint32_t rank, uint32_t s) {
    uint32_t n, first = first_line(m, rank, s, &n), use = m->plan[rank]->step[s].use;
    for (uint32_t i = 0; i < n; i++)
        if (m->line[first + i].wait[use] != TU_NO_STEP)
            m->line[first + i].sent[use] = true;
}

static void arrive(struct model *m, struct line *line, uint32_t use) {
    const struct tu_step *post = &m->plan[line->writer]->step[line->post[use]];
    uint32_t slot = use % m->options->ring_slots, before = line->slot_use[slot];

    if (before != 0 && !line->back[before - 1])
        wrong(m, line->reader, line->wait[before - 1], "its slot is overwritten");
    line->sent[use] = false;
    line->slot_use[slot] = use + 1;
    for (uint32_t k = 0; k < post->n; k++)
        line->slot[slot * m->blocks + k] = m->step[line->writer][line->post[use]].got[k];
    m->step[line->reader][line->wait[use]].arrived = true;
}

/* ---- steps ---- */

static void give_back(struct model *m, uint32_t rank, uint32_t wait) {
    struct line *line = line_of_wait(m, rank, wait);
    line->back[m->plan[rank]->step[wait].use] = true;
    advance(m, line);
}

static void finish_step(struct model *m, uint32_t rank, uint32_t s) {
    const struct tu_plan *plan = m->plan[rank];
    const struct tu_step *step = &plan->step[s];

    m->step[rank][s].state = DONE;
    if (step->kind == TU_WAIT && m->step[rank][s].users == 0)
        give_back(m, rank, s);
    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *ref = &plan->ref[step->arg + i];
        bool again = false;
        for (uint32_t k = 0; k < i; k++)
            again = again || (plan->ref[step->arg + k].space == TU_ARRIVED &&
                              plan->ref[step->arg + k].step == ref->step);
        if (ref->space == TU_ARRIVED && !again && --m->step[rank][ref->step].users == 0)
            give_back(m, rank, ref->step);
    }
    if (--m->left[rank] > 0 || m->check->collective != TU_BARRIER)
        return;
    for (uint32_t r = 0; r < m->ranks; r++)
        if (!m->started[r])
            wrong(m, rank, s, "left the barrier before somebody came");
}

/* One micro step of a message: all blocks are read at once, and then the step is done. */
static void run_post(struct model *m, uint32_t rank, uint32_t s) {
    struct step_state *state = &m->step[rank][s];
    bool by_reference = m->options->by_reference && m->plan[rank]->step[s].kind == TU_SHARE;

    if (state->progress++ == 0) {
        for (uint32_t k = 0; !by_reference && k < m->plan[rank]->step[s].n; k++)
            state->got[k] = read_message(m, rank, s, k);
        send(m, rank, s);
    } else if (!by_reference || is_consumed(m, rank, s)) {
        finish_step(m, rank, s);
    }
}

/* One micro step of a computation: an operand, or a destination. */
static void run_compute(struct model *m, uint32_t rank, uint32_t s) {
    const struct tu_plan *plan = m->plan[rank];
    const struct tu_step *step = &plan->step[s];
    struct step_state *state = &m->step[rank][s];
    uint32_t i = state->progress++;

    if (i < step->args) {
        for (uint32_t k = 0; k < step->dst[0].n; k++) {
            struct value value = read_block(m, rank, &plan->ref[step->arg + i], k);
            state->got[k] = i == 0 ? value : fold(state->got[k], value);
        }
        return;
    }
    const struct tu_ref *dst = &step->dst[i - step->args];
    for (uint32_t k = 0; k < dst->n; k++)
        *private_block(m, rank, dst->space, block_of(plan, dst->first, dst->n, k)) = state->got[k];
    if (state->progress == step->args + step->dsts)
        finish_step(m, rank, s);
}

static bool may_start(struct model *m, uint32_t rank, uint32_t s) {
    const struct tu_step *step = &m->plan[rank]->step[s];

    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP && m->step[rank][step->after[i]].state != DONE)
            return false;
    if (step->kind == TU_WAIT)
        return m->step[rank][s].arrived;
    return step->kind == TU_REDUCE || step->kind == TU_COPY || has_slot(m, rank, s);
}

/* ---- events ---- */

enum event_kind { EVENT_START, EVENT_STEP, EVENT_ARRIVAL, EVENT_CREDIT };

struct event {
    enum event_kind kind;
    uint32_t rank, step; /* or line and use */
};

struct events {
    struct event *event;
    uint32_t n, room;
};

static void offer(struct events *events, enum event_kind kind, uint32_t rank, uint32_t step) {
    if (events->n == events->room) {
        events->room = events->room ? 2 * events->room : 256;
        events->event = realloc(events->event, events->room * sizeof(*events->event));
    }
    events->event[events->n++] = (struct event){kind, rank, step};
}

static void offer_steps(struct model *m, struct events *events, uint32_t rank) {
    for (uint32_t s = 0; s < m->plan[rank]->steps; s++) {
        const struct step_state *state = &m->step[rank][s];
        bool share = m->plan[rank]->step[s].kind == TU_SHARE && m->options->by_reference;
        bool stuck = share && state->progress > 0 && !is_consumed(m, rank, s);
        if (state->state == RUNNING ? !stuck : state->state == IDLE && may_start(m, rank, s))
            offer(events, EVENT_STEP, rank, s);
    }
}

static void offer_all(struct model *m, struct events *events) {
    events->n = 0;
    for (uint32_t r = 0; r < m->ranks; r++) {
        if (!m->started[r])
            offer(events, EVENT_START, r, 0);
        else
            offer_steps(m, events, r);
    }
    for (uint32_t i = 0; i < m->lines; i++) {
        struct line *line = &m->line[i];
        for (uint32_t use = 0; use < line->uses; use++)
            if (line->sent[use])
                offer(events, EVENT_ARRIVAL, i, use);
        if (line->published > line->seen)
            offer(events, EVENT_CREDIT, i, 0);
    }
}

/* Any of them, but rarely one of the slow rank. */
static struct event choose(struct model *m, const struct events *events) {
    struct event event = events->event[model_random(&m->random, events->n)];

    for (uint32_t i = 0; i < 4 * m->ranks; i++) {
        bool local = event.kind == EVENT_START || event.kind == EVENT_STEP;
        if (!local || event.rank != m->slow)
            break;
        event = events->event[model_random(&m->random, events->n)];
    }
    return event;
}

static void start_rank(struct model *m, uint32_t rank) {
    m->started[rank] = true;
    for (uint32_t i = 0; i < m->lines; i++) /* boards' uses that it skips are given back */
        if (m->line[i].reader == rank)
            advance(m, &m->line[i]);
}

static void run_event(struct model *m, struct event event) {
    if (event.kind == EVENT_START) {
        start_rank(m, event.rank);
    } else if (event.kind == EVENT_ARRIVAL) {
        arrive(m, &m->line[event.rank], event.step);
    } else if (event.kind == EVENT_CREDIT) {
        m->line[event.rank].seen = m->line[event.rank].published;
    } else {
        const struct tu_step *step = &m->plan[event.rank]->step[event.step];
        struct step_state *state = &m->step[event.rank][event.step];
        if (state->state == IDLE && step->kind != TU_WAIT)
            state->state = RUNNING;
        else if (step->kind == TU_WAIT)
            finish_step(m, event.rank, event.step);
        else if (step->kind == TU_REDUCE || step->kind == TU_COPY)
            run_compute(m, event.rank, event.step);
        else
            run_post(m, event.rank, event.step);
    }
}

/* ---- the start ---- */

/* The step of `rank` that is use number `use` of its channel c. */
static uint32_t step_of_use(const struct tu_plan *plan, uint32_t c, uint32_t use) {
    for (uint32_t s = 0; s < plan->steps; s++)
        if (plan->step[s].kind <= TU_SIGNAL && plan->step[s].channel == c &&
            plan->step[s].use == use)
            return s;
    return TU_NO_STEP;
}

static void add_line(struct model *m, uint32_t writer, uint32_t out, uint32_t reader, uint32_t in) {
    struct line *line = &m->line[m->lines++];
    uint32_t uses = m->plan[writer]->channel[out].uses;

    *line = (struct line){.writer = writer,
                          .reader = reader,
                          .board = m->plan[writer]->channel[out].kind == TU_BOARD_OUT,
                          .uses = uses,
                          .post = malloc(uses * sizeof(uint32_t)),
                          .wait = malloc(uses * sizeof(uint32_t)),
                          .sent = calloc(uses, sizeof(bool)),
                          .back = calloc(uses, sizeof(bool)),
                          .slot = calloc(m->options->ring_slots * m->blocks, sizeof(struct value)),
                          .slot_use = calloc(m->options->ring_slots, sizeof(uint32_t))};
    for (uint32_t use = 0; use < uses; use++) {
        line->post[use] = step_of_use(m->plan[writer], out, use);
        line->wait[use] = step_of_use(m->plan[reader], in, use);
    }
    m->line_of[reader][in] = m->lines - 1;
}

static void add_lines(struct model *m, uint32_t writer, uint32_t out) {
    const struct tu_plan_channel *channel = &m->plan[writer]->channel[out];
    uint32_t kind = channel->kind == TU_EDGE_OUT ? TU_EDGE_IN : TU_BOARD_IN;

    m->line_of[writer][out] = m->lines;
    for (uint32_t r = 0; r < m->ranks; r++)
        for (uint32_t c = 0; c < m->plan[r]->channels; c++)
            if ((channel->kind == TU_BOARD_OUT || r == channel->peer) &&
                m->plan[r]->channel[c].kind == kind && m->plan[r]->channel[c].peer == writer)
                add_line(m, writer, out, r, c);
}

static void set_up_steps(struct model *m, uint32_t rank) {
    const struct tu_plan *plan = m->plan[rank];

    m->left[rank] = plan->steps;
    m->step[rank] = calloc(plan->steps + 1, sizeof(struct step_state));
    for (uint32_t s = 0; s < plan->steps; s++) {
        m->step[rank][s].users = plan->step[s].users;
        m->step[rank][s].got = calloc(m->blocks + 1, sizeof(struct value));
    }
}

static uint32_t most(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static void set_up(struct model *m) {
    uint32_t lines = 0;

    for (uint32_t r = 0; r < m->ranks; r++) {
        const struct tu_plan *plan = m->plan[r];
        uint32_t node_size = tu_node_size(m->check->nodes, m->check->nodes->node_of[r]);
        m->blocks = most(m->blocks, most(plan->blocks, plan->scratch_blocks));
        m->node_blocks = most(m->node_blocks, plan->node_run * node_size);
        lines += plan->channels;
    }
    m->line = calloc(lines + 1, sizeof(*m->line));
    m->node = calloc(m->check->nodes->nodes * m->node_blocks + 1, sizeof(*m->node));
    for (uint32_t r = 0; r < m->ranks; r++) {
        m->line_of[r] = calloc(m->plan[r]->channels + 1, sizeof(uint32_t));
        m->scratch[r] = calloc(m->blocks, sizeof(struct value));
        m->buffer[r] = calloc(m->blocks, sizeof(struct value));
        m->source[r] =
            m->options->in_place ? m->buffer[r] : calloc(m->blocks, sizeof(struct value));
        for (uint32_t b = 0; b < m->blocks; b++)
            m->source[r][b] = leaf(r);
        set_up_steps(m, r);
    }
    for (uint32_t r = 0; r < m->ranks; r++)
        for (uint32_t c = 0; c < m->plan[r]->channels; c++)
            if (m->plan[r]->channel[c].kind == TU_EDGE_OUT ||
                m->plan[r]->channel[c].kind == TU_BOARD_OUT)
                add_lines(m, r, c);
}

static void tear_down(struct model *m) {
    for (uint32_t i = 0; i < m->lines; i++) {
        struct line *line = &m->line[i];
        free(line->post);
        free(line->wait);
        free(line->sent);
        free(line->back);
        free(line->slot);
        free(line->slot_use);
    }
    for (uint32_t r = 0; r < m->ranks; r++) {
        for (uint32_t s = 0; s < m->plan[r]->steps; s++)
            free(m->step[r][s].got);
        free(m->step[r]);
        free(m->line_of[r]);
        free(m->scratch[r]);
        free(m->buffer[r]);
        if (!m->options->in_place)
            free(m->source[r]);
    }
    free(m->line);
    free(m->node);
}

/* ---- the end ---- */

static struct value left_fold_of_all(uint32_t ranks) {
    struct value value = leaf(0);
    for (uint32_t r = 1; r < ranks; r++)
        value = fold(value, leaf(r));
    return value;
}

static void look_at_targets(struct model *m) {
    struct value all = left_fold_of_all(m->ranks);
    uint32_t blocks = m->plan[0]->replicate ? 1 : m->plan[0]->blocks;
    bool bcast = m->check->collective == TU_BCAST;

    for (uint32_t r = 0; r < m->ranks; r++)
        for (uint32_t b = 0; b < blocks; b++) {
            struct value got = m->buffer[r][b], zero = m->buffer[0][b];
            uint64_t counts = bcast ? leaf(m->check->root).counts : all.counts;
            if (bcast && r == m->check->root)
                continue;
            if (got.counts != counts)
                wrong(m, r, 0, "the target is wrong");
            if (!bcast && got.hash != zero.hash)
                wrong(m, r, 0, "bits differ from rank 0");
            if (!bcast && m->check->left_fold && got.hash != all.hash)
                wrong(m, r, 0, "not a left fold");
        }
}

enum model_end model_run(const struct tu_plan *const *plan, const struct tu_check *check,
                         const struct model_options *options, char text[256]) {
    struct model m = {.plan = plan,
                      .check = check,
                      .options = options,
                      .ranks = check->nodes->ranks,
                      .random = options->seed,
                      .text = text};
    struct events events = {.n = 0};
    uint32_t left = 0;

    set_up(&m);
    m.slow = (uint32_t)model_random(&m.random, 2 * (uint64_t)m.ranks);
    for (offer_all(&m, &events); !m.wrong && events.n > 0; offer_all(&m, &events))
        run_event(&m, choose(&m, &events));
    for (uint32_t r = 0; r < m.ranks; r++)
        left += m.left[r];
    if (!m.wrong && left == 0 && check->collective != TU_BARRIER && !check->structure_only)
        look_at_targets(&m);
    tear_down(&m);
    free(events.event);
    return m.wrong ? MODEL_WRONG : left > 0 ? MODEL_DEADLOCK : MODEL_RIGHT;
}
