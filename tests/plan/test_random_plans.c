/*
 * Random plans of zero to a few messages per channel, over edges and boards, with random dependencies
 * and slots held for random times: those that the checker calls free of deadlock end in the model,
 * whatever happens, and those that it rejects for R slots end in none of its runs with R slots.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "scale.h"

enum { MOST_RANKS = 5, MOST_STEPS = 64, RUNS = 6 };

/* What one rank still has to do, in random order. */
struct todo {
    struct {
        enum tu_step_kind kind;
        uint32_t peer; /* the reader of a WRITE, the writer of a WAIT */
        bool board;
        uint32_t use; /* WAIT on a board */
    } step[MOST_STEPS];
    uint32_t steps;
};

struct random_set {
    uint64_t random;
    uint32_t ranks;
    struct tu_nodes *nodes;
    struct todo todo[MOST_RANKS];
    uint32_t board_uses[MOST_RANKS], readers[MOST_RANKS][MOST_STEPS];
    struct tu_plan *plan[MOST_RANKS];
};

static uint32_t pick(struct random_set *set, uint32_t below) {
    return (uint32_t)model_random(&set->random, below);
}

static void add(struct random_set *set, uint32_t rank, enum tu_step_kind kind, uint32_t peer,
                bool board, uint32_t use) {
    struct todo *todo = &set->todo[rank];
    uint32_t at = todo->steps++;
    cr_assert(at < MOST_STEPS);
    todo->step[at].kind = kind;
    todo->step[at].peer = peer;
    todo->step[at].board = board;
    todo->step[at].use = use;
}

/* A message from a random rank to another, or to some of its node. */
static void add_message(struct random_set *set) {
    uint32_t from = pick(set, set->ranks), to = pick(set, set->ranks);

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

/* Steps of one rank in nearly the order of the messages, so that about half of the plans end. */
static void shuffle(struct random_set *set, struct todo *todo) {
    for (uint32_t swaps = pick(set, 10); todo->steps > 1 && swaps > 0; swaps--) {
        uint32_t i = pick(set, todo->steps - 1), k = i + 1 + pick(set, 2);
        k = k < todo->steps ? k : i + 1;
        struct todo copy = *todo;
        todo->step[i] = copy.step[k];
        todo->step[k] = copy.step[i];
    }
}

static struct tu_after random_after(struct random_set *set, uint32_t steps) {
    struct tu_after after = {TU_NO_STEP, TU_NO_STEP};

    if (steps > 0 && pick(set, 4) > 0)
        after.a = steps - 1 - pick(set, steps < 3 ? steps : 3);
    if (steps > 0 && pick(set, 3) == 0)
        after.b = pick(set, steps);
    return after;
}

static void append(struct random_set *set, struct tu_builder *b, uint32_t rank, uint32_t i,
                   uint32_t *shares) {
    const struct todo *todo = &set->todo[rank];
    struct tu_after after = random_after(set, b->plan.steps);
    struct tu_ref own = tu_src(0, 1);
    uint32_t peer = todo->step[i].peer;

    if (todo->step[i].kind == TU_WRITE)
        tu_write(b, peer, 0, 1, &own, 1, after);
    else if (todo->step[i].kind == TU_SHARE)
        tu_share(b, 0, 1, &own, 1, set->readers[rank][(*shares)++], after);
    else if (todo->step[i].board)
        tu_wait_board(b, peer, todo->step[i].use, 0, 1, after);
    else
        tu_wait(b, peer, 0, 1, after);
}

/* Some WAITs get a step that names them, perhaps much later, each with a scratch block of its own. */
static void append_users(struct random_set *set, struct tu_builder *b, uint32_t *held,
                         uint32_t *n_held, uint32_t left) {
    for (uint32_t i = *n_held; i-- > 0;) {
        if (left > 0 && pick(set, 3) > 0)
            continue;
        struct tu_after after = random_after(set, b->plan.steps);
        after.a = held[i];
        uint32_t block = b->plan.scratch_blocks++;
        tu_copy(b, tu_scratch(block, 1), tu_arrived(held[i], 0, 1), after);
        if (left == 0 || pick(set, 3) > 0) /* else there will be another */
            held[i] = held[--*n_held];
    }
}

static void build_rank(struct random_set *set, uint32_t rank) {
    uint32_t held[MOST_STEPS], n_held = 0, shares = 0;
    struct tu_builder b;

    tu_builder_init(&b, "random", rank, set->ranks, MOST_STEPS);
    b.plan.replicate = true;
    b.plan.message_blocks = b.plan.share_blocks = 1; /* also of ranks that have none */
    for (uint32_t i = 0; i < set->todo[rank].steps; i++) {
        append(set, &b, rank, i, &shares);
        if (set->todo[rank].step[i].kind == TU_WAIT && pick(set, 2) == 0)
            held[n_held++] = b.plan.steps - 1;
        append_users(set, &b, held, &n_held, set->todo[rank].steps - i - 1);
    }
    for (uint32_t r = 0; r < set->ranks; r++)
        if (set->nodes->node_of[r] == set->nodes->node_of[rank])
            tu_board_uses(&b, r, set->board_uses[r]);
    cr_assert_eq(tu_plan_finish(&b, &set->plan[rank]), TUTTI_OK);
}

static void build(struct random_set *set, uint64_t seed) {
    uint32_t label[MOST_RANKS];

    memset(set, 0, sizeof(*set));
    set->random = seed;
    set->ranks = 2 + pick(set, MOST_RANKS - 1);
    for (uint32_t r = 0; r < set->ranks; r++)
        label[r] = pick(set, 2);
    cr_assert_eq(tu_nodes_make(label, set->ranks, &set->nodes), TUTTI_OK);
    for (uint32_t messages = 2 + pick(set, 9); messages > 0; messages--)
        add_message(set);
    for (uint32_t r = 0; r < set->ranks; r++)
        shuffle(set, &set->todo[r]);
    for (uint32_t r = 0; r < set->ranks; r++)
        build_rank(set, r);
}

static void tear_down(struct random_set *set) {
    for (uint32_t r = 0; r < set->ranks; r++)
        tu_plan_free(set->plan[r]);
    tu_nodes_free(set->nodes);
}

/* True if the checker finds no deadlock with the slots of a ring of that length. */
static bool is_acyclic(struct random_set *set, uint32_t ring_slots, bool *by_reference) {
    struct tu_check check = {.collective = TU_ALLREDUCE,
                             .nodes = set->nodes,
                             .ring_slots = ring_slots,
                             .structure_only = true};
    struct tu_check_result result;
    bool right = tu_plan_check((const struct tu_plan *const *)set->plan, &check, &result);
    cr_assert(right || strstr(result.error, "deadlock"), "%s", result.error);
    *by_reference = result.by_reference;
    return right;
}

static void expect_ends(struct random_set *set, struct model_options options, uint64_t seed,
                        enum model_end wanted) {
    struct tu_check check = {
        .collective = TU_ALLREDUCE, .nodes = set->nodes, .structure_only = true};
    char text[256] = "";

    for (uint64_t run = 0; run < RUNS; run++) {
        options.seed = seed * RUNS + run;
        enum model_end end =
            model_run((const struct tu_plan *const *)set->plan, &check, &options, text);
        cr_assert_eq(end, wanted, "seed %lu, %u slots, flush %d: %d instead of %d (%s)", seed,
                     options.ring_slots, options.flush, end, wanted, text);
    }
}

/* R slots, credits lagging by half a ring: the checker's promise. R slots, credits at once: exactly
 * what the checker finds for a ring on which a writer can rely for R slots. */
static void try_slots(struct random_set *set, uint64_t seed, uint32_t slots, uint32_t count[3]) {
    bool by_reference, unused;
    struct model_options lagging = {.ring_slots = slots};
    struct model_options flushing = {.ring_slots = slots, .flush = true};

    if (is_acyclic(set, slots, &by_reference)) {
        expect_ends(set, lagging, seed, MODEL_RIGHT);
        flushing.by_reference = by_reference;
        expect_ends(set, flushing, seed, MODEL_RIGHT);
        count[2] += by_reference;
    }
    flushing.by_reference = false;
    bool acyclic = is_acyclic(set, 2 * (slots - 1), &unused);
    expect_ends(set, flushing, seed, acyclic ? MODEL_RIGHT : MODEL_DEADLOCK);
    count[acyclic]++;
}

Test(random_plans, end_exactly_if_they_have_no_circle, .timeout = 120) {
    uint32_t count[3] = {0, 0, 0};

    for (uint64_t seed = 0; seed < RANDOM_PLANS; seed++) {
        struct random_set set;
        build(&set, seed);
        for (uint32_t slots = 1; slots <= 4; slots++)
            try_slots(&set, seed, slots, count);
        tear_down(&set);
    }
    fprintf(stderr, "random plans: %u without, %u with a circle; %u may share by reference\n",
            count[1], count[0], count[2]);
    cr_assert(count[0] > RANDOM_PLANS / 10 && count[1] > RANDOM_PLANS / 10 &&
              count[2] > RANDOM_PLANS / 10);
}
