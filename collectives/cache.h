/* Bound plans of a comm, bounded in bytes; the least recently used one goes first. */
#ifndef TU_COLLECTIVES_CACHE_H
#define TU_COLLECTIVES_CACHE_H

#include "collectives/bind.h"
#include "collectives/select.h"

struct tu_cached {
    const struct tu_algorithm *algorithm;
    uint32_t root, blocks;
    uint32_t users; /* calls under way or waiting; not evicted while > 0 */
    uint64_t last;  /* use */
    struct tu_bound *bound;
    struct tu_cached *next;
};

/* The last call of a collective: codes repeat themselves, and then nothing has to be looked up. */
struct tu_memo {
    struct tu_cached *cached; /* NULL: none */
    size_t count, element_bytes;
    uint32_t root;
    struct tu_cut cut;
};

struct tu_cache {
    struct tu_env *env;
    const struct tu_nodes *nodes;
    struct tu_channels *channels;
    uint32_t rank;
    size_t bytes, most_bytes;
    uint64_t clock;
    struct tu_cached *first; /* most recently made or found by search first */
    struct tu_memo memo[TU_COLLECTIVES];
};

void tu_cache_init(struct tu_cache *cache, struct tu_env *env, const struct tu_nodes *nodes,
                   struct tu_channels *channels, uint32_t rank, size_t most_bytes);
void tu_cache_free(struct tu_cache *cache);

/*
 * What a call needs before it takes a number: the plan that is chosen for it, how its vector is cut,
 * and memory for its larger messages. A repetition of the last call costs a comparison.
 */
tutti_status tu_cache_prepare(struct tu_cache *cache, enum tu_collective collective, uint32_t root,
                              size_t count, size_t element_bytes, struct tu_cached **cached,
                              struct tu_cut *cut);

/*
 * Finds or makes the bound plan of a choice. It stays valid at least until its users are 0 again and
 * another plan is made. Unused plans go when the bound is exceeded.
 */
tutti_status tu_cache_get(struct tu_cache *cache, const struct tu_choice *choice, uint32_t root,
                          struct tu_cached **cached);

#endif
