/* Selection by size and nodes. All thresholds stand in one table. */
#include "collectives/select.h"

#include <assert.h>
#include <string.h>

#include "runtime/env.h"

/* Bytes of the whole vector, or as named. */
static const struct {
    size_t flat_pair;  /* one node of 2 ranks: "flat" up to here, then "accumulate" */
    size_t flat;       /* one node of more: "flat" up to ranks * bytes, then "two_phase" */
    size_t accumulate; /* beyond bytes / ranks, what a step of it moves, "accumulate" */
    size_t ordered;    /* one rank per node: ranks * bytes gathered up to here */
    size_t leaders;    /* several nodes: nodes * bytes up to here go through leaders */
    size_t bcast_block;
    uint32_t bcast_blocks; /* most blocks of a broadcast segment */
    uint32_t barrier;      /* one node of up to so many ranks: all look at all boards */
} limit = {
    .flat_pair = 32 << 10,
    .flat = 160 << 10,
    .accumulate = 16 << 10,
    .ordered = 32 << 10,
    .leaders = 16 << 10,
    .bcast_block = 8 << 10,
    .bcast_blocks = 16,
    .barrier = 8,
};

static const char *forced_name(const struct tu_env *env, enum tu_collective collective) {
    switch (collective) {
    case TU_BARRIER:
        return env->config.barrier;
    case TU_BCAST:
        return env->config.bcast;
    default:
        return env->config.allreduce;
    }
}

static const char *const knob_name[TU_COLLECTIVES] = {"TUTTI_BARRIER", "TUTTI_BCAST",
                                                      "TUTTI_ALLREDUCE"};

/* "circulant, flat, ordered" */
static void list_names(enum tu_collective collective, char *text, size_t bytes) {
    uint32_t n;
    const struct tu_algorithm *all = tu_algorithms(&n);
    text[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].collective != collective)
            continue;
        if (text[0])
            strncat(text, ", ", bytes - strlen(text) - 1);
        strncat(text, all[i].name, bytes - strlen(text) - 1);
    }
}

tutti_status tu_select_check(struct tu_env *env) {
    for (int c = 0; c < TU_COLLECTIVES; c++) {
        const char *name = forced_name(env, (enum tu_collective)c);
        char names[256];
        if (!name[0] || tu_algorithm_find((enum tu_collective)c, name))
            continue;
        list_names((enum tu_collective)c, names, sizeof names);
        return tu_fail(env, TUTTI_ERR_CONFIG, "%s=%s is no algorithm; there are: %s", knob_name[c],
                       name, names);
    }
    return TUTTI_OK;
}

static const char *on_one_node(uint32_t ranks, size_t bytes) {
    if (bytes > (ranks == 2 ? limit.flat_pair : limit.accumulate * ranks))
        return "accumulate";
    return ranks == 2 || bytes <= limit.flat / ranks ? "flat" : "two_phase";
}

static const char *allreduce_name(const struct tu_nodes *nodes, size_t bytes) {
    if (nodes->nodes == 1)
        return on_one_node(nodes->ranks, bytes);
    if (nodes->lanes == 1)
        return bytes <= limit.ordered / nodes->ranks ? "ordered" : "circulant";
    return bytes <= limit.leaders / nodes->nodes ? "leaders" : "two_level";
}

static const char *chosen_name(const struct tu_nodes *nodes, enum tu_collective collective,
                               size_t bytes) {
    bool one_node = nodes->nodes == 1;
    switch (collective) {
    case TU_BARRIER:
        return one_node && nodes->ranks <= limit.barrier ? "board" : "circulant";
    case TU_BCAST:
        return one_node ? "board" : "circulant";
    default:
        return allreduce_name(nodes, bytes);
    }
}

/* Of a circulant broadcast. */
static uint32_t bcast_blocks(const struct tu_nodes *nodes, size_t bytes) {
    size_t blocks = bytes / limit.bcast_block;
    if (nodes->ranks <= 2 || blocks <= 1)
        return 1; /* with one receiver, segments are pipeline enough */
    return blocks < limit.bcast_blocks ? (uint32_t)blocks : limit.bcast_blocks;
}

tutti_status tu_select(struct tu_env *env, const struct tu_nodes *nodes,
                       enum tu_collective collective, size_t bytes, struct tu_choice *choice) {
    const char *name = forced_name(env, collective);
    bool forced = name[0] != 0;
    if (!forced)
        name = chosen_name(nodes, collective, bytes);
    const struct tu_algorithm *algorithm = tu_algorithm_find(collective, name);
    assert(algorithm);
    const char *reason = algorithm->unsuitable ? algorithm->unsuitable(nodes) : NULL;
    if (reason)
        return tu_fail(env, TUTTI_ERR_UNSUPPORTED, "%s=%s can't serve %u ranks on %u nodes: %s",
                       knob_name[collective], name, nodes->ranks, nodes->nodes, reason);
    choice->algorithm = algorithm;
    bool in_blocks = collective == TU_BCAST && strcmp(name, "circulant") == 0;
    choice->blocks = in_blocks ? bcast_blocks(nodes, bytes) : 0;
    return TUTTI_OK;
}
