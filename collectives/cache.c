/* The plan cache: a list in order of use. Codes repeat a handful of calls, so the first entries hit. */
#include "collectives/cache.h"

#include <stdlib.h>

#include "runtime/env.h"

void tu_cache_init(struct tu_cache *cache, struct tu_env *env, const struct tu_nodes *nodes,
                   struct tu_channels *channels, uint32_t rank, size_t most_bytes) {
    *cache = (struct tu_cache){
        .env = env, .nodes = nodes, .channels = channels, .rank = rank, .most_bytes = most_bytes};
}

static void drop(struct tu_cache *cache, struct tu_cached **link) {
    struct tu_cached *cached = *link;
    for (int c = 0; c < TU_COLLECTIVES; c++)
        if (cache->memo[c].cached == cached)
            cache->memo[c].cached = NULL;
    *link = cached->next;
    cache->bytes -= cached->bound->plan->bytes;
    tu_bound_free(cached->bound);
    free(cached);
}

void tu_cache_free(struct tu_cache *cache) {
    while (cache->first)
        drop(cache, &cache->first);
}

/* Drops the least recently used plans until the bound holds, or only those in use are left. */
static void shrink(struct tu_cache *cache) {
    while (cache->bytes > cache->most_bytes) {
        struct tu_cached **oldest = NULL;
        for (struct tu_cached **link = &cache->first; *link; link = &(*link)->next)
            if ((*link)->users == 0 && (!oldest || (*link)->last < (*oldest)->last))
                oldest = link;
        if (!oldest)
            return;
        drop(cache, oldest);
    }
}

static tutti_status make(struct tu_cache *cache, const struct tu_choice *choice, uint32_t root,
                         struct tu_cached **made) {
    struct tu_shape shape = {
        .nodes = cache->nodes, .rank = cache->rank, .root = root, .blocks = choice->blocks};
    struct tu_plan *plan = NULL;
    tutti_status status = choice->algorithm->generate(&shape, &plan);
    if (status)
        return tu_fail(cache->env, status, "no memory for a plan of %s on %u ranks",
                       choice->algorithm->name, cache->nodes->ranks);
    struct tu_bound *bound = NULL;
    status = tu_bind(cache->env, plan, cache->channels, &bound);
    if (status)
        return status;
    struct tu_cached *cached = tu_alloc(0, 1, sizeof *cached);
    if (!cached) {
        tu_bound_free(bound);
        return tu_fail(cache->env, TUTTI_ERR_MEMORY, "no memory for the plan cache");
    }
    *cached = (struct tu_cached){.algorithm = choice->algorithm,
                                 .root = root,
                                 .blocks = choice->blocks,
                                 .bound = bound,
                                 .next = cache->first};
    bound->serial = ++cache->clock;
    cache->bytes += bound->plan->bytes;
    cache->first = cached;
    *made = cached;
    return TUTTI_OK;
}

tutti_status tu_cache_get(struct tu_cache *cache, const struct tu_choice *choice, uint32_t root,
                          struct tu_cached **found) {
    struct tu_cached **link = &cache->first;
    while (*link && ((*link)->algorithm != choice->algorithm || (*link)->root != root ||
                     (*link)->blocks != choice->blocks))
        link = &(*link)->next;
    struct tu_cached *cached = *link;
    if (!cached) {
        shrink(cache);
        tutti_status status = make(cache, choice, root, &cached);
        if (status)
            return status;
    } else if (link != &cache->first) { /* to the front */
        *link = cached->next;
        cached->next = cache->first;
        cache->first = cached;
    }
    cached->last = ++cache->clock;
    *found = cached;
    return TUTTI_OK;
}

static tutti_status prepare(struct tu_cache *cache, enum tu_collective collective,
                            struct tu_memo *memo) {
    struct tu_choice choice;
    tutti_status status =
        tu_select(cache->env, cache->nodes, collective, memo->count * memo->element_bytes, &choice);
    if (!status)
        status = tu_cache_get(cache, &choice, memo->root, &memo->cached);
    if (!status)
        status = tu_cut_make(cache->env, memo->cached->bound, memo->count, memo->element_bytes,
                             &memo->cut);
    return status ? status : tu_bound_prepare(memo->cached->bound, &memo->cut);
}

tutti_status tu_cache_prepare(struct tu_cache *cache, enum tu_collective collective, uint32_t root,
                              size_t count, size_t element_bytes, struct tu_cached **cached,
                              struct tu_cut *cut) {
    struct tu_memo *last = &cache->memo[collective];
    if (!last->cached || last->count != count || last->element_bytes != element_bytes ||
        last->root != root) {
        struct tu_memo memo = {.count = count, .element_bytes = element_bytes, .root = root};
        tutti_status status = prepare(cache, collective, &memo);
        if (status)
            return status;
        *last = memo;
    }
    last->cached->last = ++cache->clock;
    *cached = last->cached;
    *cut = last->cut;
    return TUTTI_OK;
}
