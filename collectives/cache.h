/* Bound plans of a comm, bounded in bytes; the least recently used one goes first. */
#ifndef TU_COLLECTIVES_CACHE_H
#define TU_COLLECTIVES_CACHE_H

#include "collectives/program.h"
#include "collectives/select.h"

struct tu_cached {
    const struct tu_algorithm *algorithm;
    uint32_t root, blocks;
    uint32_t users; /* prepared calls; not evicted while > 0 */
    struct tu_bound *bound;
    struct tu_cached *next;
};

/* What calls of one kind need, worked out: codes repeat a handful of them. */
struct tu_prepared {
    enum tu_collective collective;
    uint32_t root;
    size_t count, element_bytes;
    struct tu_cached *plan;
    struct tu_cut cut;
    struct tu_program program[TU_MAX_BANKS]; /* of each bank that has run it */
    uint32_t users; /* calls under way or waiting, and who else holds it; kept while > 0 */
    struct tu_prepared *next;
};

enum { TU_PREPARED_MOST = 16 }; /* kept, besides those in use */

struct tu_cache {
    struct tu_env *env;
    const struct tu_nodes *nodes;
    struct tu_channels *channels;
    uint32_t rank;
    size_t bytes, most_bytes;
    struct tu_cached *first;      /* most recently made or looked up first */
    struct tu_prepared *prepared; /* most recently made or looked up first */
    uint32_t prepared_kept;
};

void tu_cache_init(struct tu_cache *cache, struct tu_env *env, const struct tu_nodes *nodes,
                   struct tu_channels *channels, uint32_t rank, size_t most_bytes);
void tu_cache_free(struct tu_cache *cache);

/*
 * What a call needs before it takes a number: the plan that is chosen for it, how its vector is cut, and
 * memory for its larger messages. The caller becomes one of its users.
 */
tutti_status tu_cache_prepare(struct tu_cache *cache, enum tu_collective collective, uint32_t root,
                              size_t count, size_t element_bytes, struct tu_prepared **prepared);

#endif
