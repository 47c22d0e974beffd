/*
 * Finds out who shares memory with whom, in up to four exchanges: what each rank says of itself (cards),
 * rank 0's knobs, who has mapped whose window (reach), and, if a rank can't go on, its reason. Every
 * decision is made by every rank from the same data, so that all take the same way.
 */
#include "runtime/topology.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/env.h"
#include "runtime/process.h"
#include "runtime/text.h"
#include "runtime/topology_nodes.h"
#include "runtime/topology_watch.h"

enum { REASON_BYTES = 512 };

struct topology {
    struct tu_topology open; /* what others see */
    struct tu_env *env;
    struct tu_boot *boot;
    struct tu_card *card; /* [size], only while making */
    struct tu_groups groups;
    struct tu_shmem *peer; /* [length of the own group] what is mapped of others */
    struct tu_watch *watch;
};

/* What a rank says after it has tried to map its group. Goes on with a row of bits. */
struct reach {
    int32_t status;
    uint32_t zero;
    uint64_t row[];
};
_Static_assert(sizeof(struct reach) == 8, "travels between ranks");

static struct topology *topology_of(struct tu_topology *topology) {
    return (struct topology *)topology; /* its first member */
}

static tutti_status exchange(struct topology *topology, const char *key, const void *mine,
                             size_t bytes, const uint32_t *rank, uint32_t ranks, void *out) {
    struct tu_boot *boot = topology->boot;

    return boot->ops->exchange(boot, key, mine, bytes, rank, ranks, out,
                               topology->env->config.init_timeout_ms);
}

/* ---- ranks that can't go on ---------------------------------------------------------------- */

/*
 * All ranks know that `rank` can't go on, and learn why; `own` is this rank's own status. Those that
 * could have gone on take over status and text; they don't log it as an error, since it was logged
 * where it was decided.
 */
static tutti_status give_up(struct topology *topology, uint32_t rank, int32_t status,
                            tutti_status own) {
    struct tu_env *env = topology->env;
    char own_text[sizeof env->error], mine[REASON_BYTES] = "", theirs[REASON_BYTES];
    tutti_status heard;

    memcpy(own_text, env->error, sizeof own_text);
    tu_text_format(mine, sizeof mine, "%s", own_text);
    heard = exchange(topology, "reason", mine, sizeof mine, &rank, 1, theirs);
    if (own != TUTTI_OK) {
        memcpy(env->error, own_text, sizeof own_text);
        return own;
    }
    if (heard != TUTTI_OK) {
        return heard;
    }
    theirs[sizeof theirs - 1] = 0;
    tu_text_one_line(theirs);
    tu_text_format(env->error, sizeof env->error, "rank %u (host %s) can't go on: %s", rank,
                   topology->card[rank].host, theirs);
    tu_log(env, TU_LOG_INFO, "%s", env->error);
    return (tutti_status)status;
}

/* ---- cards --------------------------------------------------------------------------------- */

static void fill_card(const struct topology *topology, const struct tu_shmem *window, bool share,
                      tutti_status status, struct tu_card *card) {
    const struct tu_env *env = topology->env;

    memset(card, 0, sizeof *card);
    card->magic = TU_CARD_MAGIC;
    card->format = TU_CARD_FORMAT;
    card->status = status;
    card->share = share;
    tu_text_format(card->version, sizeof card->version, "%s", TUTTI_VERSION);
    tu_text_format(card->host, sizeof card->host, "%s", env->host);
    tu_text_format(card->label, sizeof card->label, "%s", env->config.node);
    card->launcher_node = topology->boot->launcher_node;
    card->pid = getpid();
    card->start_time = tu_process_start_time(card->pid);
    card->pid_namespace = tu_process_namespace();
    if (window) {
        tu_shmem_export(window, &card->window);
    }
}

static tutti_status check_format(struct topology *topology) {
    const struct tu_card *zero = &topology->card[0];

    for (uint32_t rank = 0; rank < topology->boot->size; rank++) {
        const struct tu_card *card = &topology->card[rank];

        if (card->magic != TU_CARD_MAGIC || card->format != zero->format) {
            return tu_fail(topology->env, TUTTI_ERR_CONFIG,
                           "ranks differ in the version of tutti: rank 0 has %.23s (format %u), "
                           "rank %u has %.23s (format %u); install the same library on all hosts "
                           "(or check LD_LIBRARY_PATH)",
                           zero->version, zero->format, rank, card->version, card->format);
        }
    }
    return TUTTI_OK;
}

/* Exchanges the cards. A rank that can't go on, or one of another format, ends it for all. */
static tutti_status exchange_cards(struct topology *topology, const struct tu_card *mine) {
    uint32_t size = topology->boot->size;
    tutti_status status =
        exchange(topology, "card", mine, sizeof *mine, NULL, size, topology->card);

    if (status != TUTTI_OK) {
        return status;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        struct tu_card *card = &topology->card[rank];

        card->version[sizeof card->version - 1] = 0;
        card->host[sizeof card->host - 1] = 0;
        card->label[sizeof card->label - 1] = 0;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        if (topology->card[rank].status != TUTTI_OK) {
            return give_up(topology, rank, topology->card[rank].status, (tutti_status)mine->status);
        }
    }
    return check_format(topology);
}

/* ---- knobs --------------------------------------------------------------------------------- */

/* *agreed is what the comparison says; it is told to the others later. */
static tutti_status exchange_knobs(struct topology *topology, tutti_status *agreed) {
    char mine[TU_CONFIG_PACK_BYTES], theirs[TU_CONFIG_PACK_BYTES];
    const uint32_t rank0 = 0;
    tutti_status status;

    tu_config_pack(&topology->env->config, mine);
    status = exchange(topology, "knobs", mine, sizeof mine, &rank0, 1, theirs);
    if (status == TUTTI_OK) {
        *agreed = tu_config_agree(topology->env, theirs, topology->card[0].host);
    }
    return status;
}

/* ---- reach --------------------------------------------------------------------------------- */

/* Maps what can be mapped of the own group, and sets its bits. */
static void map_group(struct topology *topology, uint64_t *row) {
    const struct tu_groups *groups = &topology->groups;
    uint32_t self = topology->boot->rank, first = groups->first[self];

    for (uint32_t i = 0; i < groups->length[self]; i++) {
        uint32_t rank = groups->order[first + i];
        bool mapped = rank == self;
        char why[256] = "";

        if (!mapped) {
            mapped = tu_shmem_try_attach(&topology->card[rank].window, &topology->peer[i], why,
                                         sizeof why) == TUTTI_OK;
        }
        if (mapped) {
            row[i / 64] |= UINT64_C(1) << (i % 64);
        } else {
            tu_log(topology->env, TU_LOG_INFO,
                   "rank %u is on this host but can't share memory with this rank: %s", rank, why);
        }
    }
}

/* All ranks' rows are here: settles the nodes, if all can go on. */
static tutti_status settle(struct topology *topology, const struct reach *all, size_t each,
                           tutti_status own) {
    uint32_t size = topology->boot->size;
    uint32_t *node;

    for (uint32_t rank = 0; rank < size; rank++) {
        const struct reach *one = (const struct reach *)((const char *)all + rank * each);

        if (one->status != TUTTI_OK) {
            return give_up(topology, rank, one->status, own);
        }
    }
    node = tu_alloc(0, size, sizeof *node);
    if (!node || !tu_groups_split(&topology->groups, size, all->row,
                                  (uint32_t)(each / sizeof(uint64_t)), node)) {
        free(node);
        return tu_fail(topology->env, TUTTI_ERR_MEMORY, "no memory for the nodes of %u ranks",
                       size);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        topology->open.info[rank].node = node[rank];
    }
    free(node);
    return TUTTI_OK;
}

static tutti_status exchange_reach(struct topology *topology, tutti_status own) {
    uint32_t size = topology->boot->size;
    size_t each = sizeof(struct reach) + tu_groups_words(&topology->groups) * sizeof(uint64_t);
    void *memory;
    tutti_status status =
        tu_alloc_for(topology->env, "the nodes", 0, (size_t)size + 1, each, &memory);
    struct reach *all = memory, *mine;

    if (status != TUTTI_OK) {
        return status;
    }
    mine = (struct reach *)((char *)memory + size * each);
    mine->status = own;
    if (own == TUTTI_OK) {
        map_group(topology, mine->row);
    }
    status = exchange(topology, "reach", mine, each, NULL, size, all);
    if (status == TUTTI_OK) {
        status = settle(topology, all, each, own);
    }
    free(memory);
    return status;
}

/* ---- the result ---------------------------------------------------------------------------- */

static void drop_other_nodes(struct topology *topology) {
    const struct tu_groups *groups = &topology->groups;
    uint32_t self = topology->boot->rank, first = groups->first[self];
    struct tu_rank_info *info = topology->open.info;

    for (uint32_t i = 0; i < groups->length[self]; i++) {
        uint32_t rank = groups->order[first + i];

        if (rank == self) {
            continue;
        }
        if (info[rank].node == info[self].node) {
            info[rank].window = topology->peer[i].memory;
            continue;
        }
        if (topology->peer[i].memory) {
            tu_log(topology->env, TU_LOG_INFO,
                   "rank %u is on this host but on another node: it, or a rank of this node, could "
                   "not map all windows",
                   rank);
        }
        tu_shmem_destroy(&topology->peer[i]);
    }
}

static void watch_host(struct topology *topology) {
    const struct tu_card *self = &topology->card[topology->boot->rank];

    for (uint32_t rank = 0; rank < topology->boot->size; rank++) {
        const struct tu_card *card = &topology->card[rank];

        if (rank != topology->boot->rank && strcmp(card->host, self->host) == 0 &&
            card->pid_namespace == self->pid_namespace) {
            tu_watch_add(topology->watch, rank, card->pid, card->start_time);
        }
    }
}

static void fill_info(struct topology *topology) {
    const struct tu_card *self = &topology->card[topology->boot->rank];

    for (uint32_t rank = 0; rank < topology->boot->size; rank++) {
        const struct tu_card *card = &topology->card[rank];
        struct tu_rank_info *info = &topology->open.info[rank];

        memcpy(info->host, card->host, sizeof info->host);
        info->pid = card->pid;
        info->start_time = card->start_time;
        topology->open.ranks_on_host += strcmp(card->host, self->host) == 0;
    }
}

/* ---- making -------------------------------------------------------------------------------- */

static tutti_status allocate(struct tu_env *env, struct tu_boot *boot, struct topology **topology) {
    struct topology *made = NULL;
    void *memory;
    tutti_status status = tu_alloc_for(env, "the topology", 0, 1, sizeof *made, &memory);

    if (status != TUTTI_OK) {
        return status;
    }
    made = memory;
    made->env = env;
    made->boot = boot;
    made->open.rank = boot->rank;
    made->open.size = boot->size;
    made->open.info = tu_alloc(0, boot->size, sizeof *made->open.info);
    made->card = tu_alloc(0, boot->size, sizeof *made->card);
    if (!made->open.info || !made->card) {
        tu_topology_free(&made->open);
        return tu_fail(env, TUTTI_ERR_MEMORY, "no memory for what is known of %u ranks",
                       boot->size);
    }
    *topology = made;
    return TUTTI_OK;
}

static tutti_status group_ranks(struct topology *topology) {
    uint32_t self = topology->boot->rank;

    fill_info(topology);
    if (!tu_groups_make(topology->card, topology->boot->size, &topology->groups)) {
        return tu_fail(topology->env, TUTTI_ERR_MEMORY, "no memory for groups of %u ranks",
                       topology->boot->size);
    }
    topology->peer = tu_alloc(0, topology->groups.length[self], sizeof *topology->peer);
    topology->watch = tu_watch_create(topology->open.ranks_on_host);
    if (!topology->peer || !topology->watch) {
        return tu_fail(topology->env, TUTTI_ERR_MEMORY, "no memory for %u ranks of this host",
                       topology->groups.length[self]);
    }
    return TUTTI_OK;
}

static tutti_status make(struct topology *topology, struct tu_shmem *window, bool share) {
    struct tu_card mine;
    tutti_status status, agreed = TUTTI_OK;

    fill_card(topology, window, share, TUTTI_OK, &mine);
    status = exchange_cards(topology, &mine);
    if (status == TUTTI_OK) {
        status = group_ranks(topology);
    }
    if (status == TUTTI_OK) {
        status = exchange_knobs(topology, &agreed);
    }
    if (status == TUTTI_OK) {
        status = exchange_reach(topology, agreed);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    tu_shmem_unlink(window); /* all have mapped it that ever will */
    drop_other_nodes(topology);
    topology->open.info[topology->boot->rank].window = window->memory;
    watch_host(topology);
    return TUTTI_OK;
}

tutti_status tu_topology_make(struct tu_env *env, struct tu_boot *boot, struct tu_shmem *window,
                              bool share, struct tu_topology **topology) {
    struct topology *made = NULL;
    tutti_status status = allocate(env, boot, &made);

    if (status != TUTTI_OK) {
        return status;
    }
    status = make(made, window, share);
    if (status != TUTTI_OK) {
        tu_topology_free(&made->open);
        return status;
    }
    free(made->card);
    made->card = NULL;
    *topology = &made->open;
    return TUTTI_OK;
}

void tu_topology_refuse(struct tu_env *env, struct tu_boot *boot, tutti_status status) {
    struct topology *topology = NULL;
    struct tu_card mine;
    char text[sizeof env->error];

    memcpy(text, env->error, sizeof text);
    if (allocate(env, boot, &topology) == TUTTI_OK) {
        fill_card(topology, NULL, false, status, &mine);
        exchange_cards(topology, &mine);
        tu_topology_free(&topology->open);
    }
    memcpy(env->error, text, sizeof text);
}

void tu_topology_free(struct tu_topology *topology) {
    struct topology *made = topology ? topology_of(topology) : NULL;

    if (!made) {
        return;
    }
    for (uint32_t i = 0; made->peer && i < made->groups.length[made->open.rank]; i++) {
        tu_shmem_destroy(&made->peer[i]);
    }
    free(made->peer);
    tu_watch_free(made->watch);
    tu_groups_free(&made->groups);
    free(made->card);
    free(made->open.info);
    free(made);
}

bool tu_topology_died(struct tu_topology *topology, uint32_t *rank) {
    return tu_watch_ended(topology_of(topology)->watch, rank);
}
