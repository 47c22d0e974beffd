/*
 * Who shares memory with whom. Ranks that say the same host and label (TUTTI_NODE) try to map each
 * other's windows; those that can form a node. What others must know of a rank is collected here.
 */
#ifndef TU_RUNTIME_TOPOLOGY_H
#define TU_RUNTIME_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/bootstrap.h"
#include "runtime/memory.h"

struct tu_rank_info {
    char host[64];
    uint32_t node;       /* label: lowest rank of its node */
    int32_t pid;         /* meaningful on the same host */
    uint64_t start_time; /* of the process, as the process table tells */
    void *window;        /* node peers and self: the rank's window, mapped here; else NULL */
};

struct tu_topology {
    uint32_t rank, size;
    struct tu_rank_info *info; /* [size] */
    uint32_t ranks_on_host;    /* ranks with this host's name: more than cores means yielding */
};

/*
 * Collective over the job: exchanges host, label, version, agreed knobs and window; checks that
 * version and knobs agree (tu_config_agree); maps the windows of node peers; agrees on nodes.
 * share = false makes this rank a node of its own (no window is mapped but the own one). A failure of
 * one rank is a failure of all: each names the rank and its reason. Afterwards `window` has no
 * name any more.
 */
tutti_status tu_topology_make(struct tu_env *env, struct tu_boot *boot, struct tu_shmem *window,
                              bool share, struct tu_topology **topology);
void tu_topology_free(struct tu_topology *topology);

/*
 * Collective like tu_topology_make(), and takes its place on a rank that can't go on (bad knob, no
 * memory): the others then fail at once, with this rank's status and the text in env->error, instead of
 * waiting for it. Nothing else may follow but to close the bootstrap.
 */
void tu_topology_refuse(struct tu_env *env, struct tu_boot *boot, tutti_status status);

/*
 * Asks the process table for ranks of this host whose process has ended since: returns true and sets
 * *rank for the next one found, once each, else false. A rank that ended after a proper finalize is
 * told, too. Cheap enough for every 10 ms.
 */
bool tu_topology_died(struct tu_topology *topology, uint32_t *rank);

#endif
