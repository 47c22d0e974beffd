/*
 * Every algorithm under every mutation: the checker must reject what is wrong, and what it accepts
 * must run right in the model. The algorithms themselves must run right in the model too.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "mutate.h"
#include "prove.h"
#include "scale.h"

static struct tu_check check_of(const struct prove *prove) {
    return (struct tu_check){.collective = prove->algorithm->collective,
                             .nodes = prove->nodes,
                             .root = prove->root,
                             .ring_slots = prove->ring_slots,
                             .in_order = prove->algorithm->in_order,
                             .left_fold = prove->algorithm->left_fold};
}

/* Right in the checker, hence right in the model. */
static void expect_right(const struct tu_plan *const *plan, const struct tu_check *check,
                         uint32_t seeds) {
    struct tu_check_result result;
    char text[256] = "";

    cr_assert(tu_plan_check(plan, check, &result), "%s", result.error);
    for (uint32_t seed = 0; seed < seeds; seed++) {
        struct model_options options = {.ring_slots = check->ring_slots,
                                        .in_place = seed % 2,
                                        .by_reference = result.by_reference && seed % 4 < 2,
                                        .seed = seed};
        enum model_end end = model_run(plan, check, &options, text);
        cr_assert_eq(end, MODEL_RIGHT, "%s, seed %u ends as %d: %s", plan[0]->algorithm, seed, end,
                     text);
    }
}

static void mutate_one(const struct tu_algorithm *algorithm, const struct tu_nodes *nodes,
                       uint32_t most, struct mutation_count count[MUTATIONS]) {
    for (uint32_t ring_slots = 1; ring_slots <= 4; ring_slots += 3) {
        struct prove one = {.algorithm = algorithm,
                            .nodes = nodes,
                            .root = nodes->ranks / 2,
                            .blocks = algorithm->collective == TU_BCAST ? 3 : 0,
                            .ring_slots = ring_slots};
        struct tu_plan **plan = make_plans(&one);
        struct tu_check check = check_of(&one);
        expect_right((const struct tu_plan *const *)plan, &check, 20);
        mutate_all((const struct tu_plan *const *)plan, &check, most, 6, count);
        free_plans(plan, nodes->ranks);
    }
}

/* What the checker rejects for a dependency or a buffer must mostly go wrong in the model too (the
 * checker asks for more than chance shows), else the model's consent would mean nothing. */
static void expect_model_to_see(const struct mutation_count count[MUTATIONS]) {
    uint32_t caught = count[DROPPED_DEPENDENCY].caught + count[OTHER_BUFFER].caught;
    uint32_t shown = count[DROPPED_DEPENDENCY].shown + count[OTHER_BUFFER].shown;

    cr_assert(caught == 0 || 3 * shown > caught, "the model shows %u of %u", shown, caught);
}

static const uint32_t shape[][6] = {{1, 1},       {1, 1, 1}, {1, 1, 1, 1, 1}, {2},       {3},
                                    {5},          {2, 2},    {3, 1},          {1, 2, 1}, {2, 3},
                                    {2, 2, 1, 3}, {1, 4, 1}, {2, 2, 2}};
enum { SHAPES = sizeof(shape) / sizeof(*shape) };

static void mutate_algorithm(enum tu_collective collective, const char *name) {
    const struct tu_algorithm *algorithm = algorithm_of(collective, name);
    struct mutation_count count[MUTATIONS] = {{.made = 0}};

    for (int i = 0; i < SHAPES; i++) {
        struct tu_nodes *nodes = i % 2 ? nodes_in_turn(shape[i]) : nodes_in_blocks(shape[i]);
        if (!algorithm->unsuitable(nodes))
            mutate_one(algorithm, nodes, MUTATIONS_PER_CLASS, count);
        tu_nodes_free(nodes);
    }
    mutation_print(name, count);
    expect_model_to_see(count);
}

Test(mutations, barrier_circulant, .timeout = 120) {
    mutate_algorithm(TU_BARRIER, "circulant");
}

Test(mutations, barrier_board, .timeout = 120) {
    mutate_algorithm(TU_BARRIER, "board");
}

Test(mutations, bcast_board, .timeout = 120) {
    mutate_algorithm(TU_BCAST, "board");
}

Test(mutations, bcast_circulant, .timeout = 120) {
    mutate_algorithm(TU_BCAST, "circulant");
}

Test(mutations, allreduce_circulant, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "circulant");
}

Test(mutations, allreduce_ordered, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "ordered");
}

Test(mutations, allreduce_flat, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "flat");
}

Test(mutations, allreduce_two_phase, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "two_phase");
}

Test(mutations, allreduce_accumulate, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "accumulate");
}

Test(mutations, allreduce_two_level, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "two_level");
}

Test(mutations, allreduce_leaders, .timeout = 120) {
    mutate_algorithm(TU_ALLREDUCE, "leaders");
}
