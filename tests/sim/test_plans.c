/*
 * Random plans in the real executor, over the hostile network: sets that the checker calls free of
 * deadlock end and give what they say, with the shortest ring for which it does so, whatever is mixed
 * and outstanding; sets with a circle do not.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/plan/random_set.h"
#include "tests/sim/plans.h"
#include "tests/sim/random.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

enum { SEEDS = 2000, RUNS = 3, MOST_SLOTS = 8 };

struct counts {
    uint32_t ended[MOST_SLOTS + 1], hung[MOST_SLOTS + 1]; /* runs, by ring slots */
};

struct sets {
    struct random_set set[PLANS_SETS];
    uint64_t seed;
};

/* Does each of them end with so many slots, as its writers can rely on? */
static bool all_end(const struct sets *sets, uint32_t slots) {
    for (uint32_t i = 0; i < PLANS_SETS; i++)
        if (!random_set_ends(&sets->set[i], slots, NULL))
            return false;
    return true;
}

/* ---- one run ---- */

static void draw_program(struct plans_program *program, const struct sets *sets, uint64_t seed) {
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 20, 100, 600, 1500};
    uint64_t random = sim_stream(seed, 5);

    *program = (struct plans_program){.seed = seed, .ranks = sets->set[0].ranks};
    for (uint32_t i = 0; i < PLANS_SETS; i++)
        program->set[i] = sets->set[i].plan;
    program->calls = 1 + sim_below(&random, PLANS_CALLS);
    for (uint32_t i = 0; i < program->calls; i++) {
        program->call[i].set = sim_below(&random, PLANS_SETS);
        program->call[i].count = counts[sim_below(&random, sizeof counts / sizeof *counts)];
    }
}

/* Everything else about the world is drawn. */
static void draw_world(struct world *world, const struct sets *sets, uint64_t seed,
                       uint32_t slots) {
    const struct random_set *set = &sets->set[0];

    world_make(world, seed, 1);
    world->ranks = world->settings.ranks = set->ranks;
    for (uint32_t r = 0; r < set->ranks; r++)
        world->label[r] = set->label[r];
    world_let_choose(world);
    world->config.ring_slots = world->config.board_cells = (int)slots;
    world->config.eager_bytes = world->config.share_bytes = 4096;
    world->config.window_bytes = world_window(world, 1);
    world->config.late_ms = 0;
}

/* True if every rank has ended every call and gone well. Fails the test if any was not right. */
static bool run(struct sim *sim, const struct sets *sets, uint64_t seed, uint32_t slots,
                bool expect) {
    struct world world;
    struct plans_program program;
    char text[400];
    bool ended = true;

    draw_program(&program, sets, seed);
    for (uint32_t i = 0; expect && i < program.calls; i++)
        plans_expect(&program, i);
    draw_world(&world, sets, seed, slots);
    world.config.timeout_ms = expect ? 0 : 1000; /* else the simulation tells who hangs */
    world.settings.body = plans_run;
    world.settings.context = &program;
    bool right = sim_run(sim, &world.settings);
    plans_forget(&program);
    for (uint32_t r = 0; r < program.ranks; r++) {
        ended = ended && program.status[r] == TUTTI_OK;
    }
    cr_assert(right, "seed %llu (%u slots): %s\n  %s", (unsigned long long)sets->seed, slots,
              sim->failure, world_text(&world, text, sizeof text));
    return ended;
}

/* ---- sets of two plans ---- */

static void make(struct sets *sets, uint64_t seed) {
    sets->seed = seed;
    for (uint32_t i = 0; i < PLANS_SETS; i++)
        random_set_make(&sets->set[i], seed, i);
}

static void tear_down(struct sets *sets) {
    for (uint32_t i = 0; i < PLANS_SETS; i++)
        random_set_free(&sets->set[i]);
}

static void expect_ends(struct sim *sim, const struct sets *sets, struct counts *counts) {
    uint32_t slots = 1;

    while (slots <= MOST_SLOTS && !all_end(sets, slots))
        slots *= 2;
    for (uint64_t k = 0; slots <= MOST_SLOTS && k < RUNS; k++) {
        bool ended = run(sim, sets, sim_stream(sets->seed, 10 + k), slots, true);
        cr_assert(ended, "seed %llu: free of deadlock with %u slots, but it hangs",
                  (unsigned long long)sets->seed, slots);
        counts->ended[slots]++;
    }
}

/* With 1 and 2 slots a writer can rely on all of them, and has no others. */
static void expect_hangs(struct sim *sim, struct sets *sets, struct counts *counts) {
    struct sets one = *sets;

    for (uint32_t slots = 1; slots <= 2; slots++)
        for (uint32_t i = 0; i < PLANS_SETS; i++) {
            if (random_set_ends(&sets->set[i], slots, NULL))
                continue;
            one.set[0] = one.set[1] = sets->set[i];
            bool ended = run(sim, &one, sim_stream(sets->seed, 20 + slots), slots, false);
            cr_assert(!ended, "seed %llu: plan %u has a circle with %u slots, but it ends",
                      (unsigned long long)sets->seed, i, slots);
            counts->hung[slots]++;
        }
}

Test(plans, end_exactly_if_they_have_no_circle, .timeout = 600) {
    struct seeds seeds = seeds_of_test(SEEDS);
    struct sim *sim = sim_make();
    struct counts counts = {.ended = {0}};
    struct sets sets;

    for (uint64_t seed = seeds.first; seed < seeds.end; seed++) {
        make(&sets, seed);
        expect_ends(sim, &sets, &counts);
        if (seed % 4 == 0)
            expect_hangs(sim, &sets, &counts);
        tear_down(&sets);
    }
    sim_free(sim);
    fprintf(stderr,
            "runs that ended with 1, 2, 4, 8 slots: %u %u %u %u; that hung with 1, 2: %u %u\n",
            counts.ended[1], counts.ended[2], counts.ended[4], counts.ended[8], counts.hung[1],
            counts.hung[2]);
    uint32_t some = (uint32_t)(seeds.end - seeds.first) / 100;
    cr_assert(counts.ended[1] >= some && counts.ended[2] >= some && counts.ended[4] >= some &&
              counts.hung[1] >= some && counts.hung[2] >= some);
}
