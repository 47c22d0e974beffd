/* The seeds of a test: see seeds.h. */
#include "tests/sim/seeds.h"

#include <stdlib.h>

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

struct seeds seeds_of_test(uint64_t usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    usual /= 10;
#endif
    uint64_t first = number("SIM_FIRST", 0);
    struct seeds seeds = {.first = first, .end = first + number("SIM_SEEDS", usual)};

    if (getenv("SIM_SEED"))
        seeds = (struct seeds){.first = number("SIM_SEED", 0), .end = number("SIM_SEED", 0) + 1};
    seeds.keep_on = getenv("SIM_KEEP_ON") != NULL;
    return seeds;
}
