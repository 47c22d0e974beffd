/* Which algorithm a call runs: by nodes and sizes, or as the user forces it. */
#ifndef TU_COLLECTIVES_SELECT_H
#define TU_COLLECTIVES_SELECT_H

#include "collectives/shape.h"

struct tu_env;

struct tu_choice {
    const struct tu_algorithm *algorithm;
    uint32_t blocks; /* of a broadcast */
};

/* Checks the forced names (TUTTI_ALLREDUCE and so on): an unknown one is TUTTI_ERR_CONFIG. */
tutti_status tu_select_check(struct tu_env *env);

/*
 * Chooses for a call of `bytes` bytes. A forced algorithm that these nodes do not suit is
 * TUTTI_ERR_UNSUPPORTED with the reason.
 */
tutti_status tu_select(struct tu_env *env, const struct tu_nodes *nodes,
                       enum tu_collective collective, size_t bytes, struct tu_choice *choice);

#endif
