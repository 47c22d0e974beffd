/*
 * Programs that go wrong in random worlds: a rank is cut off in the middle, or ranks make different
 * calls. All ranks come to an end, with an error that names what happened, and nothing is written to
 * buffers that were given back.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

enum { SEEDS = 1500 };

struct run {
    uint64_t seed, random;
    struct world world;
    struct program program;
    /* a cut: */
    uint32_t rank, at;
    uint64_t sleep_ns; /* it is silent for that long */
    bool stops;        /* ... and then ends at once */
    bool cut;          /* it has happened */
    /* a mismatch: */
    struct op other; /* instead of op `at` */
    bool leaves_out; /* ... nothing */
    bool is_other[SIM_MAX_RANKS];
};

static struct program_limits limits_of(const struct world *world, bool comms) {
    if (world->ranks > 17)
        return (struct program_limits){.ops = 4, .bytes = 2 << 10, .comms = comms};
    return (struct program_limits){.ops = 10, .bytes = 12 << 10, .comms = comms};
}

static void prepare(struct run *run, uint64_t seed, bool comms) {
    memset(run, 0, sizeof *run);
    run->seed = seed;
    run->random = sim_stream(seed, 6);
    world_make(&run->world, seed, PROGRAM_COMMS + 1);
    run->world.config.late_ms = 0;
    struct program_limits limits = limits_of(&run->world, comms);
    program_make(&run->program, seed, run->world.ranks, &limits);
    run->program.may_fail = true;
    run->program.context = run;
    run->world.settings.body = program_run;
    run->world.settings.context = &run->program;
}

/* True if nobody hangs, and buffers are as they must be. */
static bool ends(struct sim *sim, struct run *run) {
    char text[400];
    bool right = sim_run(sim, &run->world.settings);

    program_free(&run->program);
    if (!right)
        fprintf(stderr, "seed %llu: %s\n  %s\n", (unsigned long long)run->seed, sim->failure,
                world_text(&run->world, text, sizeof text));
    return right;
}

static bool complain(const struct run *run, uint32_t rank, const char *what) {
    const struct program_failure *failure = &run->program.failure[rank];
    char text[400];

    fprintf(stderr, "seed %llu: rank %u (op %u of %u) %s: %s: %s\n  %s\n",
            (unsigned long long)run->seed, rank, failure->op, run->program.ops, what,
            tutti_status_string(failure->status), failure->text,
            world_text(&run->world, text, sizeof text));
    return false;
}

/* ---- a rank is cut off ---- */

static struct op *cut_before(struct sim_rank *rank, struct program *program, uint32_t i) {
    static struct op end = {.kind = OP_END};
    struct run *run = program->context;

    if (rank->rank != run->rank || i < run->at)
        return &program->op[i];
    if (!run->cut) {
        run->cut = true;
        sim_network_cut(rank->sim->network, rank->rank);
        if (run->sleep_ns)
            sim_sleep(rank, run->sleep_ns);
    }
    return run->stops ? &end : &program->op[i];
}

/* Else the others of its node could tell that it stops. */
static bool is_alone(const struct world *world, uint32_t rank) {
    uint32_t same = 0;

    for (uint32_t r = 0; r < world->ranks; r++)
        same += world->label[r] == world->label[rank];
    return same == 1;
}

static void prepare_cut(struct run *run, uint64_t seed) {
    static const uint64_t sleep_ns[] = {0, 1000000, 400000000};
    struct world *world = &run->world;

    prepare(run, seed, true);
    bool one_node = true;
    for (uint32_t r = 1; r < world->ranks; r++)
        one_node = one_node && world->label[r] == world->label[0];
    for (uint32_t r = 0; one_node && r < world->ranks; r++) /* it shall have an effect */
        world->label[r] = r;
    if (one_node)
        world_let_choose(world);
    world->config.window_bytes = world_window(world, PROGRAM_COMMS + 1);
    run->rank = sim_below(&run->random, world->ranks);
    run->at = sim_below(&run->random, run->program.ops);
    run->sleep_ns = sleep_ns[sim_below(&run->random, 3)];
    run->stops = sim_below(&run->random, 2) && is_alone(world, run->rank);
    run->program.instead = cut_before;
}

/* Those who learn it name it, at least in what they log first (later ones may vanish in their turn);
   itself, it sees the others vanish. */
static bool names_lost(const struct sim *sim, const struct run *run, uint32_t rank) {
    const struct program_failure *failure = &run->program.failure[rank];
    char name[32];

    bool loss = failure->status == TUTTI_ERR_UNREACHABLE || failure->status == TUTTI_ERR_COMM ||
                failure->status == TUTTI_ERR_DEAD;
    snprintf(name, sizeof name, "rank %u (", run->rank);
    return loss && (rank == run->rank || strstr(failure->text, name) ||
                    strstr(sim->rank[rank].first_error, name));
}

static bool cut_is_told(const struct sim *sim, const struct run *run) {
    uint32_t failed = 0, in_call = 0;
    bool right = true;

    for (uint32_t r = 0; r < run->world.ranks; r++) {
        const struct program_failure *failure = &run->program.failure[r];
        failed += failure->status != TUTTI_OK;
        in_call += failure->status != TUTTI_OK && failure->op < run->program.ops;
        if (failure->status && failure->op < run->program.ops && !names_lost(sim, run, r))
            right = complain(run, r, "names another reason");
    }
    for (uint32_t r = 0; in_call && r < run->world.ranks; r++)
        if (!run->program.failure[r].status)
            right = complain(run, r, "has not heard of it");
    return right;
}

Test(errors, a_lost_rank_is_told_to_all, .timeout = 600) {
    struct seeds seeds = seeds_of_test(SEEDS);
    struct sim *sim = sim_make();
    struct run *run = malloc(sizeof *run);
    uint64_t failed = 0, told = 0;

    for (uint64_t seed = seeds.first; seed < seeds.end && (seeds.keep_on || !failed); seed++) {
        prepare_cut(run, seed);
        failed += !ends(sim, run) || !cut_is_told(sim, run);
        told += run->program.failure[(run->rank + 1) % run->world.ranks].status != TUTTI_OK;
    }
    fprintf(stderr, "lost ranks: told in %llu of %llu runs\n", (unsigned long long)told,
            (unsigned long long)(seeds.end - seeds.first));
    cr_assert(failed == 0, "%llu seeds failed", (unsigned long long)failed);
    cr_assert(told * 10 >= (seeds.end - seeds.first) * 8);
    free(run);
    sim_free(sim);
}

/* ---- ranks make different calls ---- */

enum difference { OTHER_COUNT, OTHER_TYPE, OTHER_OP, OTHER_ROOT, OTHER_CALL, LEFT_OUT, REJECTED };

static struct op *perhaps_other(struct sim_rank *rank, struct program *program, uint32_t i) {
    struct run *run = program->context;

    if (i != run->at || !run->is_other[rank->rank])
        return &program->op[i];
    return run->leaves_out ? NULL : &run->other;
}

static void change_call(struct op *op) {
    op->call = op->call == TUTTI_CALL_BARRIER ? TUTTI_CALL_BCAST
               : op->call == TUTTI_CALL_BCAST ? TUTTI_CALL_ALLREDUCE
                                              : TUTTI_CALL_BARRIER;
}

/* Changes what this call has. */
static void change(struct run *run, enum difference difference) {
    struct op *op = &run->other;
    bool barrier = op->call == TUTTI_CALL_BARRIER;

    if (difference == REJECTED)
        op->rejected = true;
    else if (difference == LEFT_OUT && !barrier) /* barriers: nobody could tell which one */
        run->leaves_out = true;
    else if (difference == OTHER_COUNT && !barrier)
        op->count += 1 + sim_below(&run->random, 2) * op->count;
    else if (difference == OTHER_TYPE && !barrier)
        op->values.type ^= 1; /* the operations are the same for both */
    else if (difference == OTHER_OP && op->call == TUTTI_CALL_ALLREDUCE)
        op->values.op ^= 1;
    else if (difference == OTHER_ROOT && op->call == TUTTI_CALL_BCAST)
        op->root = (op->root + 1) % (int)run->world.ranks;
    else
        change_call(op);
}

static void prepare_mismatch(struct run *run, uint64_t seed) {
    struct program *program = &run->program;
    uint32_t others = 0;

    prepare(run, seed, false);
    program->op[program->ops++] = (struct op){.kind = OP_CALL, .call = TUTTI_CALL_BARRIER};
    run->at = sim_below(&run->random, program->ops - 1);
    program->op[run->at].wrong = true;
    run->other = program->op[run->at];
    change(run, (enum difference)sim_below(&run->random, 7));
    for (uint32_t r = 0; r < program->ranks; r++)
        others += run->is_other[r] = sim_below(&run->random, 3) == 0;
    if (others == 0 || others == program->ranks) {
        others = sim_below(&run->random, program->ranks);
        run->is_other[others] = !run->is_other[others];
    }
    program->instead = perhaps_other;
}

static bool names_mismatch(const struct program_failure *failure) {
    bool status = failure->status == TUTTI_ERR_MISMATCH || failure->status == TUTTI_ERR_COMM;

    return status && (strstr(failure->text, "different calls") ||
                      strstr(failure->text, "made another call") ||
                      strstr(failure->text, "TUTTI_ERR_MISMATCH"));
}

static bool mismatch_is_told(const struct run *run) {
    bool right = true;

    for (uint32_t r = 0; r < run->world.ranks; r++)
        if (!names_mismatch(&run->program.failure[r]))
            right = complain(run, r, "names no mismatch");
    return right;
}

Test(errors, different_calls_are_told_to_all, .timeout = 600) {
    struct seeds seeds = seeds_of_test(SEEDS);
    struct sim *sim = sim_make();
    struct run *run = malloc(sizeof *run);
    uint64_t failed = 0;

    for (uint64_t seed = seeds.first; seed < seeds.end && (seeds.keep_on || !failed); seed++) {
        prepare_mismatch(run, seed);
        failed += !ends(sim, run) || !mismatch_is_told(run);
    }
    cr_assert(failed == 0, "%llu seeds failed", (unsigned long long)failed);
    free(run);
    sim_free(sim);
}
