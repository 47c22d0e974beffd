/* Making random sets of plans: see random_set.h. */
#include "tests/plan/random_set.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/random.h"

static uint32_t pick(struct random_set *set, uint32_t below) {
    return sim_below(&set->random, below);
}

/* ---- what is sent ---- */

static void add(struct random_set *set, uint32_t rank, enum tu_step_kind kind, uint32_t peer,
                bool board, uint32_t use) {
    struct random_todo *todo = &set->todo[rank];
    uint32_t at = todo->steps++;
    assert(at < RANDOM_MESSAGES);
    todo->step[at].kind = kind;
    todo->step[at].peer = peer;
    todo->step[at].board = board;
    todo->step[at].use = use;
}

/* A message to another rank, or to some of the node. */
static void add_message(struct random_set *set, uint32_t from, uint32_t to) {
    if (from != to && pick(set, 3) > 0) {
        add(set, from, TU_WRITE, to, false, 0);
        add(set, to, TU_WAIT, from, false, 0);
        return;
    }
    if (tu_node_size(set->nodes, set->nodes->node_of[from]) == 1)
        return;
    uint32_t use = set->board_uses[from]++;
    add(set, from, TU_SHARE, from, true, 0);
    for (uint32_t r = 0; r < set->ranks; r++)
        if (r != from && set->nodes->node_of[r] == set->nodes->node_of[from] && pick(set, 3) > 0) {
            add(set, r, TU_WAIT, from, true, use);
            set->readers[from][use]++;
        }
}

/* Often a few the same way, so that slots are needed again. */
static void add_messages(struct random_set *set) {
    uint32_t from = 0, to = 0;

    for (uint32_t messages = 2 + pick(set, 13); messages > 0; messages--) {
        if (from == to || pick(set, 2)) {
            from = pick(set, set->ranks);
            to = pick(set, set->ranks);
        }
        add_message(set, from, to);
    }
}

/* Steps of one rank in nearly the order of the messages, so that about half of the plans end. */
static void shuffle(struct random_set *set, struct random_todo *todo) {
    for (uint32_t swaps = pick(set, 16); todo->steps > 1 && swaps > 0; swaps--) {
        uint32_t i = pick(set, todo->steps - 1), k = i + 1 + pick(set, 4);
        k = k < todo->steps ? k : i + 1;
        struct random_todo copy = *todo;
        todo->step[i] = copy.step[k];
        todo->step[k] = copy.step[i];
    }
}

/* The blocks of a message: both ends know them by the number of the use alone. */
static struct tu_span message_of(const struct random_set *set, uint32_t from, uint32_t to,
                                 uint32_t use) {
    uint64_t random = sim_stream(set->seed, (from * 64 + to) * UINT64_C(1024) + use);
    static const uint32_t blocks[] = {0, 1, 1, 1, 1, 1, 2, RANDOM_LONGEST};
    uint32_t n = blocks[sim_below(&random, 8)];
    return (struct tu_span){sim_below(&random, RANDOM_BLOCKS - n + 1), n};
}

/* ---- steps ---- */

/* The first step fills scratch block 0, and everything else comes later. */
static struct tu_after random_after(struct random_set *set, uint32_t steps) {
    struct tu_after after = {0, TU_NO_STEP};

    if (pick(set, 4) > 0)
        after.a = steps - 1 - pick(set, steps < 3 ? steps : 3);
    if (pick(set, 3) == 0)
        after.b = pick(set, steps);
    return after;
}

/* A block that a step may read if it comes after step s. */
static struct tu_ref provided(struct random_set *set, const struct tu_builder *b, uint32_t s) {
    const struct tu_step *step = s == TU_NO_STEP ? NULL : &b->plan.step[s];

    if (step && step->kind == TU_WAIT && step->n > 0)
        return tu_arrived(s, step->first + pick(set, step->n), 1);
    if (step && step->dsts > 0)
        return step->dst[pick(set, step->dsts)];
    return tu_scratch(0, 1);
}

/* The use that the next step on this channel gets. */
static uint32_t next_use(const struct tu_builder *b, enum tu_channel_kind kind, uint32_t peer) {
    for (uint32_t c = 0; c < b->plan.channels; c++)
        if (b->plan.channel[c].kind == kind && b->plan.channel[c].peer == peer)
            return b->plan.channel[c].uses;
    return 0;
}

static void append_post(struct random_set *set, struct tu_builder *b, uint32_t rank, uint32_t i) {
    bool board = set->todo[rank].step[i].kind == TU_SHARE;
    uint32_t peer = board ? rank : set->todo[rank].step[i].peer;
    uint32_t use = next_use(b, board ? TU_BOARD_OUT : TU_EDGE_OUT, peer);
    struct tu_after after = random_after(set, b->plan.steps);
    struct tu_span message = message_of(set, rank, peer, use);
    struct tu_ref piece[RANDOM_LONGEST];

    for (uint32_t k = 0; k < message.n; k++)
        piece[k] = provided(set, b, pick(set, 2) ? after.a : after.b);
    if (!board)
        tu_write(b, peer, message.first, message.n, piece, message.n, after);
    else if (message.n == 0)
        tu_signal(b, set->readers[rank][use], after);
    else
        tu_share(b, message.first, message.n, piece, message.n, set->readers[rank][use], after);
}

static void append_wait(struct random_set *set, struct tu_builder *b, uint32_t rank, uint32_t i) {
    uint32_t peer = set->todo[rank].step[i].peer, use = set->todo[rank].step[i].use;
    struct tu_after after = random_after(set, b->plan.steps);

    if (set->todo[rank].step[i].board) {
        struct tu_span message = message_of(set, peer, peer, use);
        tu_wait_board(b, peer, use, message.first, message.n, after);
    } else {
        struct tu_span message = message_of(set, peer, rank, next_use(b, TU_EDGE_IN, peer));
        tu_wait(b, peer, message.first, message.n, after);
    }
}

/* A step that names the WAIT. */
static void append_user(struct random_set *set, struct tu_builder *b, uint32_t wait) {
    struct tu_after after = random_after(set, b->plan.steps);
    after.a = wait;
    struct tu_ref operand[2] = {provided(set, b, wait), provided(set, b, after.b)};
    struct tu_ref to = tu_scratch(b->plan.scratch_blocks++, 1);

    switch (pick(set, 4)) {
    case 0:
        tu_reduce(b, to, operand, 2, after);
        break;
    case 1:
        tu_reduce2(b, to, tu_scratch(b->plan.scratch_blocks++, 1), operand, 2, after);
        break;
    default:
        tu_copy(b, to, operand[0], after);
    }
}

/* Some WAITs get steps that name them, perhaps much later. */
static void append_users(struct random_set *set, struct tu_builder *b, uint32_t *held,
                         uint32_t *n_held, uint32_t left) {
    for (uint32_t i = *n_held; i-- > 0;) {
        if (left > 0 && pick(set, 3) > 0)
            continue;
        append_user(set, b, held[i]);
        if (left == 0 || pick(set, 3) > 0) /* else there will be another */
            held[i] = held[--*n_held];
    }
}

/* Target = all scratch blocks folded, one after the other. */
static void append_result(struct tu_builder *b) {
    uint32_t steps = b->plan.steps;
    uint32_t last = tu_copy(b, tu_dst(0, 1), tu_scratch(0, 1), (struct tu_after){0, TU_NO_STEP});

    for (uint32_t s = 1; s < steps; s++)
        for (uint32_t i = 0; i < b->plan.step[s].dsts; i++) {
            struct tu_ref operand[2] = {tu_dst(0, 1), b->plan.step[s].dst[i]};
            last = tu_reduce(b, tu_dst(0, 1), operand, 2, (struct tu_after){last, s});
        }
}

/* ---- the whole ---- */

static void build_rank(struct random_set *set, uint32_t rank) {
    const struct random_todo *todo = &set->todo[rank];
    uint32_t held[RANDOM_MESSAGES], n_held = 0;
    struct tu_builder b;

    tu_builder_init(&b, "random", rank, set->ranks, RANDOM_BLOCKS);
    b.plan.replicate = true;
    b.plan.message_blocks = b.plan.share_blocks = RANDOM_LONGEST; /* also of ranks that have none */
    b.plan.scratch_blocks = 1;
    tu_copy(&b, tu_scratch(0, 1), tu_src(0, 1), (struct tu_after){TU_NO_STEP, TU_NO_STEP});
    for (uint32_t i = 0; i < todo->steps; i++) {
        if (todo->step[i].kind == TU_WAIT)
            append_wait(set, &b, rank, i);
        else
            append_post(set, &b, rank, i);
        const struct tu_step *step = &b.plan.step[b.plan.steps - 1];
        if (step->kind == TU_WAIT && step->n > 0 && pick(set, 2) == 0)
            held[n_held++] = b.plan.steps - 1;
        append_users(set, &b, held, &n_held, todo->steps - i - 1);
    }
    append_result(&b);
    for (uint32_t r = 0; r < set->ranks; r++)
        if (set->nodes->node_of[r] == set->nodes->node_of[rank])
            tu_board_uses(&b, r, set->board_uses[r]);
    tutti_status status = tu_plan_finish(&b, &set->plan[rank]);
    assert(status == TUTTI_OK);
    (void)status;
}

/* One node, one rank per node, or any two. */
static void draw_nodes(struct random_set *set, uint64_t world) {
    uint64_t random = sim_stream(world, 1);
    uint32_t shape = sim_below(&random, 6);

    set->ranks = 2 + sim_below(&random, RANDOM_RANKS - 1);
    for (uint32_t r = 0; r < set->ranks; r++)
        set->label[r] = shape == 0 ? 0 : shape == 1 ? r : sim_below(&random, 2);
    tutti_status status = tu_nodes_make(set->label, set->ranks, &set->nodes);
    assert(status == TUTTI_OK);
    (void)status;
}

void random_set_make(struct random_set *set, uint64_t world, uint64_t seed) {
    memset(set, 0, sizeof *set);
    set->seed = set->random = sim_stream(world, 2 + seed);
    draw_nodes(set, world);
    add_messages(set);
    for (uint32_t r = 0; r < set->ranks; r++)
        shuffle(set, &set->todo[r]);
    for (uint32_t r = 0; r < set->ranks; r++)
        build_rank(set, r);
}

void random_set_free(struct random_set *set) {
    for (uint32_t r = 0; r < set->ranks; r++)
        tu_plan_free(set->plan[r]);
    tu_nodes_free(set->nodes);
}

bool random_set_ends(const struct random_set *set, uint32_t ring_slots, bool *by_reference) {
    struct tu_check check = {.collective = TU_ALLREDUCE,
                             .nodes = set->nodes,
                             .ring_slots = ring_slots,
                             .structure_only = true};
    struct tu_check_result result;
    bool right = tu_plan_check((const struct tu_plan *const *)set->plan, &check, &result);

    if (!right && !strstr(result.error, "deadlock"))
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)set->seed, result.error);
    assert(right || strstr(result.error, "deadlock"));
    if (by_reference)
        *by_reference = result.by_reference;
    return right;
}

bool random_set_ends_with(const struct random_set *set, uint32_t slots) {
    return random_set_ends(set, 2 * (slots - 1), NULL); /* R / 2 + 1 of them count */
}
