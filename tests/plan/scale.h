/*
 * How far the tests of plans go. Sanitizers make them some 20 times slower and find their errors in
 * small cases as well as in large ones.
 */
#ifndef TU_TESTS_PLAN_SCALE_H
#define TU_TESTS_PLAN_SCALE_H

enum {
#ifdef TU_SANITIZED
    EVERY_RANK_COUNT_TO = 64,
    SCHEDULES_TO = 599,
    FULL_SAMPLES = 1, /* of each list of larger rank counts, from its start */
    LARGE_SAMPLES = 0,
    RANDOM_SHAPES = 100,
    RANDOM_PLANS = 800,
    MUTATIONS_PER_CLASS = 8,
#else
    EVERY_RANK_COUNT_TO = 128,
    SCHEDULES_TO = 1399,
    FULL_SAMPLES = 8,
    LARGE_SAMPLES = 4,
    RANDOM_SHAPES = 600,
    RANDOM_PLANS = 5000,
    MUTATIONS_PER_CLASS = 40,
#endif
};

#endif
