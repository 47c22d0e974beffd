/*
 * Sequences of calls on one node, in few banks: where calls of different plans and sizes follow each
 * other on the same channels.
 *
 *   boards    swapped areas, broadcasts and barriers by board, in turn and from every root; from one
 *             call to the next the size jumps between nothing, a line, a cell, a slot and segments
 *   scratch   plans that use node scratch, back to back, while one rank is away again and again and
 *             the others run ahead
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"
#include "transport/line.h"

enum { SEEDS = 1500, OPS = 24, MOST_BYTES = 20 << 10 };

typedef void draw_fn(struct world *world, struct program *program, uint64_t *random);

/* ---- drawing ---- */

/* Nothing; up to a line, a cell of a board, a slot, and just beyond each; several segments. */
static size_t draw_count(uint64_t *random, size_t element_bytes, size_t slot_bytes) {
    const size_t most[] = {TU_LINE_PAYLOAD, TU_BOARD_PAYLOAD, slot_bytes, MOST_BYTES};
    size_t count = most[sim_below(random, 4)] / element_bytes;

    switch (sim_below(random, 8)) {
    case 0:
        return 0;
    case 1:
    case 2:
        return count;
    case 3:
        return count == MOST_BYTES / element_bytes ? count : count + 1;
    default:
        return 1 + sim_below(random, (uint32_t)count);
    }
}

static void draw_op(const struct world *world, uint64_t *random, tutti_call call, struct op *op) {
    op->kind = OP_CALL;
    op->call = call;
    program_draw_values(&op->values, random);
    op->count = draw_count(random, tutti_type_size(op->values.type), world->config.share_bytes);
    op->root = (int)sim_below(random, world->ranks);
}

static void force(struct tu_config *config, const char *allreduce) {
    snprintf(config->allreduce, sizeof config->allreduce, "%s", allreduce);
    snprintf(config->bcast, sizeof config->bcast, "board");
    snprintf(config->barrier, sizeof config->barrier, "board");
}

static void draw_boards(struct world *world, struct program *program, uint64_t *random) {
    static const char *const allreduce[] = {"flat", "flat", "two_phase", "accumulate", ""};
    static const tutti_call call[] = {TUTTI_CALL_ALLREDUCE, TUTTI_CALL_ALLREDUCE, TUTTI_CALL_BCAST,
                                      TUTTI_CALL_BCAST, TUTTI_CALL_BARRIER};

    force(&world->config, allreduce[sim_below(random, 5)]);
    for (uint32_t i = 0; i < program->ops; i++)
        draw_op(world, random, call[sim_below(random, 5)], &program->op[i]);
}

static void draw_scratch(struct world *world, struct program *program, uint64_t *random) {
    force(&world->config, sim_below(random, 2) ? "two_phase" : "accumulate");
    for (uint32_t i = 0; i < program->ops; i++) {
        bool other = sim_below(random, 12) == 0;
        draw_op(world, random, other ? TUTTI_CALL_BCAST : TUTTI_CALL_ALLREDUCE, &program->op[i]);
    }
    program->one_naps = true;
    program->napper = sim_below(random, world->ranks);
    program->naps = 256 + sim_below(random, 512);
}

/* One node, in one bank or two; everything else as drawn. */
static void draw_world(struct world *world, uint64_t seed, uint64_t *random) {
    static const uint32_t ranks[] = {2, 2, 2, 3, 3, 4, 4, 8};

    world_make(world, seed, 1);
    world->ranks = world->settings.ranks = ranks[sim_below(random, 8)];
    memset(world->label, 0, sizeof world->label);
    world->config.banks = 1 + (int)sim_below(random, 2);
    world->config.share_bytes = 4096;
    world->config.window_bytes = world_window(world, 1);
    world->settings.body = program_run;
}

static void draw_program(struct program *program, const struct world *world, uint64_t seed,
                         uint64_t *random) {
    memset(program, 0, sizeof *program);
    program->seed = seed;
    program->ranks = world->ranks;
    program->ops = 2 + sim_below(random, OPS);
    program->naps = sim_below(random, 2) ? 0 : sim_below(random, 256);
    program->nap_ns = UINT64_C(1) << (10 + sim_below(random, 14));
}

/* ---- running ---- */

static bool run_seed(struct sim *sim, uint64_t seed, draw_fn *draw, struct coverage *coverage) {
    uint64_t random = sim_stream(seed, 8);
    struct world world;
    struct program program;
    char text[400];

    draw_world(&world, seed, &random);
    draw_program(&program, &world, seed, &random);
    draw(&world, &program, &random);
    program.coverage = coverage;
    world.settings.context = &program;
    bool right = sim_run(sim, &world.settings);
    program_free(&program);
    if (!right)
        fprintf(stderr, "seed %llu: %s\n  %s\n", (unsigned long long)seed, sim->failure,
                world_text(&world, text, sizeof text));
    return right;
}

static void expect_met(const struct coverage *coverage, enum coverage_thing thing, uint64_t least) {
    cr_assert(coverage->thing[thing] >= least, "thing %d was met %u times only, not %llu", thing,
              coverage->thing[thing], (unsigned long long)least);
}

/* Returns how many seeds were run. */
static uint64_t run_seeds(draw_fn *draw, struct coverage *coverage) {
    struct seeds seeds = seeds_of_test(SEEDS);
    struct sim *sim = sim_make();
    uint64_t failed = 0;

    for (uint64_t seed = seeds.first; seed < seeds.end && (seeds.keep_on || !failed); seed++)
        failed += !run_seed(sim, seed, draw, coverage);
    cr_assert(failed == 0, "%llu of %llu seeds failed", (unsigned long long)failed,
              (unsigned long long)(seeds.end - seeds.first));
    sim_free(sim);
    expect_met(coverage, COVER_BOARDS, (seeds.end - seeds.first) / 2);
    expect_met(coverage, COVER_SHARE_SLOTS, (seeds.end - seeds.first) / 2);
    expect_met(coverage, COVER_SEGMENTS, (seeds.end - seeds.first) / 2);
    return seeds.end - seeds.first;
}

Test(sequences, of_boards, .timeout = 300) {
    struct coverage coverage = {.dups = 0};
    uint64_t seeds = run_seeds(draw_boards, &coverage);

    expect_met(&coverage, COVER_PAIRS, seeds / 2);
}

Test(sequences, of_scratch, .timeout = 300) {
    struct coverage coverage = {.dups = 0};
    uint64_t seeds = run_seeds(draw_scratch, &coverage);

    expect_met(&coverage, COVER_NODE_SCRATCH, seeds * 4);
    cr_assert_gt(coverage.naps, seeds / 4, "%u naps", coverage.naps);
}
