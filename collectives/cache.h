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

struct tu_cache {
    struct tu_env *env;
    const struct tu_nodes *nodes;
    struct tu_channels *channels;
    uint32_t rank;
    size_t bytes, most_bytes;
    uint64_t clock;
    struct tu_cached *first; /* most recently made or found by search first */
};

void tu_cache_init(struct tu_cache *cache, struct tu_env *env, const struct tu_nodes *nodes,
                   struct tu_channels *channels, uint32_t rank, size_t most_bytes);
void tu_cache_free(struct tu_cache *cache);

/*
 * Finds or makes the bound plan of a choice. It stays valid at least until its users are 0 again and
 * another plan is made. Unused plans go when the bound is exceeded.
 */
tutti_status tu_cache_get(struct tu_cache *cache, const struct tu_choice *choice, uint32_t root,
                          struct tu_cached **cached);

#endif
