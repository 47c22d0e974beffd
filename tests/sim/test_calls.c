/* Random programs of calls in random worlds. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

enum { SEEDS = 10000 };

/* Large worlds run short programs of small vectors, so that all seeds take about as long. */
static struct program_limits limits_of(const struct world *world) {
    if (world->ranks > 17)
        return (struct program_limits){.ops = 6, .bytes = 3 << 10, .comms = true};
    if (world->ranks > 9)
        return (struct program_limits){.ops = 12, .bytes = 8 << 10, .comms = true};
    return (struct program_limits){.ops = 24, .bytes = 20 << 10, .comms = true};
}

static void count_world(struct coverage *coverage, const struct world *world) {
    const struct tu_config *config = &world->config;
    const struct sim_profile *network = &world->settings.network;

    coverage->knob[COVER_RING][config->ring_slots]++;
    coverage->knob[COVER_BANKS][config->banks]++;
    coverage->knob[COVER_SCRATCH][config->scratch_slots]++;
    coverage->knob[COVER_WIDTH][config->segments]++;
    coverage->ranks[world->ranks]++;
    coverage->declined += world->settings.decline > 0;
    coverage->delayed += network->cell_ns > 16 * network->word_ns;
}

static bool run_seed(struct sim *sim, uint64_t seed, struct coverage *coverage) {
    struct world world;
    struct program program;
    char text[400];

    world_make(&world, seed, PROGRAM_COMMS + 1);
    struct program_limits limits = limits_of(&world);
    program_make(&program, seed, world.ranks, &limits);
    count_world(coverage, &world);
    program.coverage = coverage;
    world.settings.body = program_run;
    world.settings.context = &program;
    bool right = sim_run(sim, &world.settings);
    program_free(&program);
    if (!right)
        fprintf(stderr, "seed %llu: %s\n  %s\n  again: SIM_SEED=%llu sim_calls --jobs 1\n",
                (unsigned long long)seed, sim->failure, world_text(&world, text, sizeof text),
                (unsigned long long)seed);
    return right;
}

Test(calls, are_right_in_all_worlds, .timeout = 900) {
    struct seeds seeds = seeds_of_test(SEEDS);
    struct sim *sim = sim_make();
    struct coverage coverage = {.dups = 0};
    uint64_t failed = 0;

    for (uint64_t seed = seeds.first; seed < seeds.end && (seeds.keep_on || !failed); seed++)
        failed += !run_seed(sim, seed, &coverage);
    cr_assert(failed == 0, "%llu seeds failed", (unsigned long long)failed);
    sim_free(sim);
    coverage_print(&coverage);
    cr_assert(coverage_is_whole(&coverage, (uint32_t)(seeds.end - seeds.first) / 200));
}
