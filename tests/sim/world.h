/* Random worlds for simulated ranks: their number, their nodes, their knobs and their network. */
#ifndef TU_TESTS_SIM_WORLD_H
#define TU_TESTS_SIM_WORLD_H

#include "tests/sim/ranks.h"

struct world {
    uint32_t ranks;
    uint32_t label[SIM_MAX_RANKS]; /* of its node */
    struct tu_config config;
    struct sim_settings settings; /* body and context are the caller's to set */
};

/* `comms`: most communicators at a time. */
void world_make(struct world *world, uint64_t seed, uint32_t comms);

/* Forces no algorithm: for worlds whose nodes are changed after they were drawn. */
void world_let_choose(struct world *world);

/* Window that this many communicators need, for the nodes and knobs of this world. */
size_t world_window(const struct world *world, uint32_t comms);

/* One line: "5 ranks (0 0 1 1 2) R 2 D 1 S 4 W 2, allreduce two_level, ..." */
const char *world_text(const struct world *world, char *text, size_t bytes);

#endif
