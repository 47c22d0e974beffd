/*
 * For programs that the launch tests start as ranks: one subcommand is one test; exit status 0 is
 * success. A failure prints rank and place, and ends the rank at once, so that the launcher ends the rest.
 */
#ifndef TUTTI_TESTS_LAUNCHED_H
#define TUTTI_TESTS_LAUNCHED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/tutti.h"

struct ranks {
    tutti_job *job;
    tutti_comm *world;
    int rank, size;
};

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, %s:%d: %s: ", ranks->rank, __FILE__, __LINE__, #condition);  \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, " [%s]\n", ranks->job ? tutti_last_error(ranks->job) : "");            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define SUCCEED(call) REQUIRE((call) == TUTTI_OK, "failed")

/* Out of the job and into the next one, which sees the environment as it is now. */
static inline void rejoin(struct ranks *ranks) {
    int rank = ranks->rank;
    SUCCEED(tutti_finalize(ranks->job));
    ranks->job = NULL;
    SUCCEED(tutti_init(NULL, &ranks->job));
    ranks->world = tutti_world(ranks->job);
    ranks->rank = tutti_rank(ranks->world);
    REQUIRE(ranks->rank == rank, "was rank %d before", rank);
}

/* Random numbers: from one state on all ranks, the same ones. */
static inline unsigned next(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void set_knob(struct ranks *ranks, const char *name, const char *value) {
    REQUIRE(setenv(name, value, 1) == 0, "setenv");
}

struct launched_test {
    const char *name;
    void (*run)(struct ranks *ranks);
};

/* Runs the test named by argv[1] between init and finalize. */
static inline int launched_main(int argc, char **argv, const struct launched_test *tests) {
    struct ranks all = {.rank = -1}, *ranks = &all;
    for (; tests->name; tests++)
        if (argc > 1 && strcmp(tests->name, argv[1]) == 0)
            break;
    REQUIRE(tests->name, "no test of that name");
    SUCCEED(tutti_init(NULL, &all.job));
    all.world = tutti_world(all.job);
    all.rank = tutti_rank(all.world);
    all.size = tutti_size(all.world);
    tests->run(ranks);
    printf("ok %d\n", all.rank);
    if (all.job)
        SUCCEED(tutti_finalize(all.job));
    return 0;
}

#endif
