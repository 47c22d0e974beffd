/*
 * Rule 4: credits have a cell of their own, told as soon as they lag. Two plans of two ranks that end
 * for this reason only, with rings of every length:
 *
 *   one way   rank 0 writes more than its ring holds, rank 1 sends nothing back: no message could
 *             carry a credit.
 *   ride      rank 1 answers each of the first R_eff messages; rank 0 reaches its WAITs for the
 *             answers only after all of its WRITEs. Credits that rode in the answers would lie there
 *             unseen, and what comes after the last answer lags by less than half a ring.
 *
 *             rank 0, one after another       rank 1, one after another
 *             WRITE * (R + R_eff)             (WAIT, WRITE the answer) * R_eff
 *             WAIT for the answers            WAIT * R
 *
 * And that a peer whose ring is full holds up nobody else:
 *
 *   away      rank 0 of 5 broadcasts, once more than a ring holds, while rank 2 is away. It sends to
 *             ranks 2 and 3, among others, who pass it on; all but rank 2 must have it before that comes
 *             back.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/sim/plans.h"
#include "tests/sim/random.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

enum { SEEDS = 200 };

static const struct tu_after nothing = {TU_NO_STEP, TU_NO_STEP};

static struct tu_plan *finished(struct tu_builder *b) {
    struct tu_plan *plan = NULL;

    b->plan.replicate = true;
    b->plan.message_blocks = 1;
    cr_assert_eq(tu_plan_finish(b, &plan), TUTTI_OK);
    return plan;
}

static struct tu_plan *writer(uint32_t messages, uint32_t answers) {
    struct tu_builder b;
    struct tu_ref own = tu_src(0, 1);
    struct tu_after after = nothing;

    tu_builder_init(&b, "credits", 0, 2, 1);
    for (uint32_t i = 0; i < messages; i++)
        after.a = tu_write(&b, 1, 0, 1, &own, 1, after);
    for (uint32_t i = 0; i < answers; i++)
        after.a = tu_wait(&b, 1, 0, 1, after);
    struct tu_ref result = answers ? tu_arrived(after.a, 0, 1) : own;
    tu_copy(&b, tu_dst(0, 1), result, after);
    return finished(&b);
}

static struct tu_plan *reader(uint32_t messages, uint32_t answers) {
    struct tu_builder b;
    struct tu_ref own = tu_src(0, 1);
    struct tu_after after = nothing;
    uint32_t wait = TU_NO_STEP;

    tu_builder_init(&b, "credits", 1, 2, 1);
    for (uint32_t i = 0; i < messages; i++) {
        after.a = wait = tu_wait(&b, 0, 0, 1, after);
        if (i < answers)
            after.a = tu_write(&b, 0, 0, 1, &own, 1, after);
    }
    after.b = wait;
    tu_copy(&b, tu_dst(0, 1), tu_arrived(wait, 0, 1), after);
    return finished(&b);
}

/* A calm program: the plan must end by itself, not because others are about. */
static bool ends(struct sim *sim, uint64_t seed, uint32_t slots, bool answered) {
    uint32_t reliable = slots / 2 + 1, messages = slots + reliable;
    uint32_t answers = answered ? reliable : 0;
    struct tu_plan *plan[2] = {writer(messages, answers), reader(messages, answers)};
    struct plans_program program = {
        .seed = seed, .ranks = 2, .calls = 2, .set = {plan}, .call = {{0, 1}, {0, 30}}};
    struct world world;
    char text[400];

    for (uint32_t i = 0; i < program.calls; i++)
        plans_expect(&program, i);
    world_make(&world, seed, 1);
    world.ranks = world.settings.ranks = 2;
    world.label[0] = 0;
    world.label[1] = seed % 2;
    world_let_choose(&world);
    world.config.ring_slots = world.config.board_cells = (int)slots;
    world.config.window_bytes = world_window(&world, 1);
    world.settings.body = plans_run;
    world.settings.context = &program;
    bool right = sim_run(sim, &world.settings) && !program.status[0] && !program.status[1];
    if (!right)
        fprintf(stderr, "seed %llu: %s\n  %s\n", (unsigned long long)seed, sim->failure,
                world_text(&world, text, sizeof text));
    plans_forget(&program);
    tu_plan_free(plan[0]);
    tu_plan_free(plan[1]);
    return right;
}

static void expect_ends(bool answered) {
    struct seeds seeds = seeds_of_test(SEEDS);
    struct sim *sim = sim_make();
    uint64_t failed = 0;

    for (uint64_t seed = seeds.first; seed < seeds.end && (seeds.keep_on || !failed); seed++)
        failed += !ends(sim, seed, 1u << seed / 2 % 5, answered);
    cr_assert(failed == 0, "%llu of %llu seeds failed", (unsigned long long)failed,
              (unsigned long long)(seeds.end - seeds.first));
    sim_free(sim);
}

Test(credits, come_without_a_message, .timeout = 120) {
    expect_ends(false);
}

Test(credits, are_seen_before_the_wait, .timeout = 120) {
    expect_ends(true);
}

/* ---- a full ring ---- */

enum { AWAY_NS = 1000000000, AWAY_RANKS = 5, AWAY_RANK = 2, AWAY_CALLS = 2 };

/* The context: when each rank had all. */
static void broadcast(struct sim_rank *rank, void *context) {
    uint64_t *end_ns = context;
    tutti_job *job;

    if (sim_init(rank, &job))
        sim_fail(rank, "init: %s", rank->log);
    if (rank->rank == AWAY_RANK)
        sim_sleep(rank, AWAY_NS);
    for (int32_t i = 0; i < AWAY_CALLS; i++) {
        int32_t word = rank->rank == 0 ? i : -1;
        if (tutti_bcast(&word, 1, TUTTI_I32, 0, tutti_world(job)) || word != i)
            sim_fail(rank, "broadcast %d: %s", i, tutti_last_error(job));
    }
    end_ns[rank->rank] = rank->sim->network->now_ns;
    if (sim_finalize(rank))
        sim_fail(rank, "finalize: %s", rank->log);
}

Test(credits, hold_up_nobody_else, .timeout = 60) {
    struct sim *sim = sim_make();
    uint64_t end_ns[AWAY_RANKS];
    struct world world;

    world_make(&world, 1, 1);
    world.ranks = world.settings.ranks = AWAY_RANKS;
    for (uint32_t r = 0; r < AWAY_RANKS; r++)
        world.label[r] = r;
    world_let_choose(&world);
    world.config.ring_slots = world.config.board_cells = AWAY_CALLS - 1;
    world.config.banks = 1;
    world.config.window_bytes = world_window(&world, 1);
    world.settings.body = broadcast;
    world.settings.context = end_ns;
    cr_assert(sim_run(sim, &world.settings), "%s", sim->failure);
    for (uint32_t r = 1; r < AWAY_RANKS; r++)
        if (r != AWAY_RANK)
            cr_assert_lt(end_ns[r], AWAY_NS, "rank %u waited for rank %d", r, AWAY_RANK);
    sim_free(sim);
}
