/*
 * Which seeds a test runs: SIM_SEEDS of them from SIM_FIRST on (default 0), or SIM_SEED alone. A
 * sanitized build runs fewer.
 */
#ifndef TU_TESTS_SIM_SEEDS_H
#define TU_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct seeds {
    uint64_t first, end;
    bool keep_on; /* SIM_KEEP_ON: count failures instead of stopping at the first */
};

struct seeds seeds_of_test(uint64_t usual);

#endif
