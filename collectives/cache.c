/* The plan cache: a list in order of use. Codes repeat a handful of calls, so the first entries hit. */
#include "collectives/cache.h"

#include <stdlib.h>

#include "runtime/env.h"

void tu_cache_init(struct tu_cache *cache, struct tu_env *env, const struct tu_nodes *nodes,
                   struct tu_channels *channels, uint32_t rank, size_t most_bytes) {
    *cache = (struct tu_cache){
        .env = env, .nodes = nodes, .channels = channels, .rank = rank, .most_bytes = most_bytes};
}

static void drop_plan(struct tu_cache *cache, struct tu_cached **link) {
    struct tu_cached *cached = *link;
    *link = cached->next;
    cache->bytes -= cached->bound->plan->bytes;
    tu_bound_free(cached->bound);
    free(cached);
}

static void drop_prepared(struct tu_cache *cache, struct tu_prepared **link) {
    struct tu_prepared *prepared = *link;
    *link = prepared->next;
    for (uint32_t bank = 0; bank < TU_MAX_BANKS; bank++)
        tu_program_free(&prepared->program[bank]);
    prepared->plan->users--;
    cache->prepared_kept--;
    free(prepared);
}

void tu_cache_free(struct tu_cache *cache) {
    while (cache->prepared)
        drop_prepared(cache, &cache->prepared);
    while (cache->first)
        drop_plan(cache, &cache->first);
}

/* The least recently used of those that nobody uses, or NULL. */
static struct tu_prepared **idle_prepared(struct tu_cache *cache) {
    struct tu_prepared **oldest = NULL;
    for (struct tu_prepared **link = &cache->prepared; *link; link = &(*link)->next)
        if ((*link)->users == 0)
            oldest = link;
    return oldest;
}

static struct tu_cached **idle_plan(struct tu_cache *cache) {
    struct tu_cached **oldest = NULL;
    for (struct tu_cached **link = &cache->first; *link; link = &(*link)->next)
        if ((*link)->users == 0)
            oldest = link;
    return oldest;
}

/* Drops what was used least recently until the bounds hold, or only what is in use is left. */
static void shrink(struct tu_cache *cache) {
    bool full = cache->bytes > cache->most_bytes;
    struct tu_prepared **prepared;
    struct tu_cached **plan;
    while ((full || cache->prepared_kept > TU_PREPARED_MOST) && (prepared = idle_prepared(cache)))
        drop_prepared(cache, prepared);
    while (cache->bytes > cache->most_bytes && (plan = idle_plan(cache)))
        drop_plan(cache, plan);
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
    cache->bytes += bound->plan->bytes;
    cache->first = cached;
    *made = cached;
    return TUTTI_OK;
}

/* Finds or makes the bound plan of a choice. */
static tutti_status get_plan(struct tu_cache *cache, const struct tu_choice *choice, uint32_t root,
                             struct tu_cached **found) {
    struct tu_cached **link = &cache->first;
    while (*link && ((*link)->algorithm != choice->algorithm || (*link)->root != root ||
                     (*link)->blocks != choice->blocks))
        link = &(*link)->next;
    struct tu_cached *cached = *link;
    if (!cached)
        return make(cache, choice, root, found);
    *link = cached->next; /* to the front */
    cached->next = cache->first;
    *found = cache->first = cached;
    return TUTTI_OK;
}

static tutti_status work_out(struct tu_cache *cache, struct tu_prepared *p) {
    struct tu_choice choice;
    tutti_status status =
        tu_select(cache->env, cache->nodes, p->collective, p->count * p->element_bytes, &choice);
    if (!status)
        status = get_plan(cache, &choice, p->root, &p->plan);
    if (!status)
        status = tu_cut_make(cache->env, p->plan->bound, p->count, p->element_bytes, &p->cut);
    return status ? status : tu_bound_prepare(p->plan->bound, &p->cut);
}

static tutti_status add_prepared(struct tu_cache *cache, const struct tu_prepared *key) {
    struct tu_prepared *made = tu_alloc(0, 1, sizeof *made);
    if (!made)
        return tu_fail(cache->env, TUTTI_ERR_MEMORY, "no memory for the plan cache");
    *made = *key;
    tutti_status status = work_out(cache, made);
    if (status) {
        free(made);
        return status;
    }
    made->plan->users++;
    made->next = cache->prepared;
    cache->prepared = made;
    cache->prepared_kept++;
    return TUTTI_OK;
}

static bool alike(const struct tu_prepared *a, const struct tu_prepared *b) {
    return a->count == b->count && a->element_bytes == b->element_bytes &&
           a->collective == b->collective && a->root == b->root;
}

static tutti_status look_up(struct tu_cache *cache, const struct tu_prepared *key) {
    struct tu_prepared **link = &cache->prepared, *found;
    while (*link && !alike(*link, key))
        link = &(*link)->next;
    found = *link;
    if (!found) {
        shrink(cache);
        return add_prepared(cache, key);
    }
    *link = found->next;
    found->next = cache->prepared;
    cache->prepared = found;
    return TUTTI_OK;
}

tutti_status tu_cache_prepare(struct tu_cache *cache, enum tu_collective collective, uint32_t root,
                              size_t count, size_t element_bytes, struct tu_prepared **prepared) {
    struct tu_prepared key = {
        .collective = collective, .root = root, .count = count, .element_bytes = element_bytes};
    tutti_status status = look_up(cache, &key);
    if (status)
        return status;
    *prepared = cache->prepared;
    cache->prepared->users++;
    return TUTTI_OK;
}
