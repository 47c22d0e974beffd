/*
 * Random plans in the model: those that the checker calls free of deadlock end in the model,
 * whatever happens, and those that it rejects for R slots end in none of its runs with R slots.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "model.h"
#include "random_set.h"
#include "scale.h"

enum { RUNS = 6 };

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
    bool by_reference;
    struct model_options lagging = {.ring_slots = slots};
    struct model_options flushing = {.ring_slots = slots, .flush = true};

    if (random_set_ends(set, slots, &by_reference)) {
        expect_ends(set, lagging, seed, MODEL_RIGHT);
        flushing.by_reference = by_reference;
        expect_ends(set, flushing, seed, MODEL_RIGHT);
        count[2] += by_reference;
    }
    flushing.by_reference = false;
    bool acyclic = random_set_ends_with(set, slots);
    expect_ends(set, flushing, seed, acyclic ? MODEL_RIGHT : MODEL_DEADLOCK);
    count[acyclic]++;
}

Test(random_plans, end_exactly_if_they_have_no_circle, .timeout = 120) {
    uint32_t count[3] = {0, 0, 0};

    for (uint64_t seed = 0; seed < RANDOM_PLANS; seed++) {
        struct random_set set;
        random_set_make(&set, seed, 0);
        for (uint32_t slots = 1; slots <= 4; slots++)
            try_slots(&set, seed, slots, count);
        random_set_free(&set);
    }
    fprintf(stderr, "random plans: %u without, %u with a circle; %u may share by reference\n",
            count[1], count[0], count[2]);
    cr_assert(count[0] > RANDOM_PLANS / 10 && count[1] > RANDOM_PLANS / 10 &&
              count[2] > RANDOM_PLANS / 10);
}
