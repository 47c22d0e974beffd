/*
 * Who this rank talks to: base peers and the members of its node; and the transports to them. Ranks of
 * one node share memory, all others are reached over the wire.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"

/* ---- the list ---- */

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Ranks of all peers, ascending; returns their number. `rank` has room for all. */
static uint32_t list_peers(const tutti_job *job, uint32_t *rank) {
    const struct tu_nodes *nodes = job->nodes;
    uint32_t me = job->boot->rank, node = nodes->node_of[me];
    uint32_t n = tu_base_peers(nodes, me, rank, nodes->ranks), kept = 0;
    for (uint32_t i = nodes->first[node]; i < nodes->first[node + 1]; i++)
        if (nodes->member[i] != me)
            rank[n++] = nodes->member[i];
    qsort(rank, n, sizeof *rank, by_value);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || rank[kept - 1] != rank[i])
            rank[kept++] = rank[i];
    return kept;
}

tutti_status tu_peers_make(tutti_job *job) {
    struct tu_env *env = &job->env;
    uint32_t ranks = job->nodes->ranks;
    void *list = NULL;
    /* base peers and members overlap, and both leave out this rank */
    tutti_status status = tu_alloc_for(env, "peers", 0, 2 * (size_t)ranks, sizeof(uint32_t), &list);
    if (status)
        return status;
    uint32_t *rank = list;
    job->peers = list_peers(job, rank);
    void *peers = NULL;
    status = tu_alloc_for(env, "peers", 0, job->peers + 1, sizeof *job->peer, &peers);
    job->peer = peers;
    for (uint32_t i = 0; !status && i < job->peers; i++) {
        const struct tu_rank_info *info = &job->topology->info[rank[i]];
        bool same = job->nodes->node_of[rank[i]] == job->nodes->node_of[job->boot->rank];
        job->peer[i].rank = rank[i];
        job->peer[i].window = same ? info->window : NULL;
        memcpy(job->peer[i].host, info->host, sizeof job->peer[i].host);
    }
    free(list);
    return status;
}

struct tu_peer *tu_peer_of(const tutti_job *job, uint32_t rank) {
    uint32_t low = 0, high = job->peers;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (job->peer[mid].rank < rank)
            low = mid + 1;
        else
            high = mid;
    }
    return low < job->peers && job->peer[low].rank == rank ? &job->peer[low] : NULL;
}

/* ---- what comes up from a transport ---- */

static void wire_arrived(void *context, uint32_t index, uint32_t immediate) {
    tutti_job *job = context;
    const struct tu_peer *peer = &job->peer[job->wire_peer[index]];
    uint32_t id = immediate >> (TU_IMM_NUMBER_BITS + TU_IMM_BANK_BITS);
    uint32_t bank = immediate >> TU_IMM_NUMBER_BITS & ((1u << TU_IMM_BANK_BITS) - 1);
    tutti_comm *comm = job->comm[id];
    struct tu_edge *edge = comm ? tu_channels_edge(comm->channels, peer->rank) : NULL;
    if (!edge || bank >= comm->banks || !tu_ring_deliver(&edge->in[bank], immediate))
        tu_fail(&job->env, TUTTI_ERR_INTERNAL,
                "rank %u (%s) sent data with the unknown mark %#x; it is ignored", peer->rank,
                peer->host, immediate);
}

static void wire_lost(void *context, uint32_t index, const char *why) {
    tutti_job *job = context;
    tu_poison_check(job); /* what it told before it left counts before its loss */
    tu_rank_lost(job, job->peer[job->wire_peer[index]].rank, TUTTI_ERR_UNREACHABLE, why);
}

/* ---- opening ---- */

/* The peers of one transport, as arrays of the contract. One block of memory. */
struct selection {
    uint32_t n;
    uint32_t *rank, *index;
    const char **host;
    void **window;
};

static tutti_status select_peers(tutti_job *job, bool mapped, struct selection *s) {
    size_t n = job->peers + (size_t)1;
    *s = (struct selection){.rank = tu_alloc(0, n, sizeof *s->rank),
                            .index = tu_alloc(0, n, sizeof *s->index),
                            .host = tu_alloc(0, n, sizeof *s->host),
                            .window = tu_alloc(0, n, sizeof *s->window)};
    if (!s->rank || !s->index || !s->host || !s->window)
        return tu_fail(&job->env, TUTTI_ERR_MEMORY, "no memory for %u peers", job->peers);
    for (uint32_t i = 0; i < job->peers; i++) {
        if ((job->peer[i].window != NULL) != mapped)
            continue;
        s->rank[s->n] = job->peer[i].rank;
        s->index[s->n] = i;
        s->host[s->n] = job->peer[i].host;
        s->window[s->n++] = job->peer[i].window;
    }
    return TUTTI_OK;
}

static void free_selection(struct selection *s) {
    free(s->rank);
    free(s->index);
    free(s->host);
    free(s->window);
}

static tutti_status open_transport(tutti_job *job, const struct tu_transport_ops *ops, bool mapped,
                                   struct tu_transport **transport) {
    struct selection s;
    tutti_status status = select_peers(job, mapped, &s);
    const struct tu_window_shape *shape = &job->window.shape;
    struct tu_transport_params params = {
        .env = &job->env,
        .window = job->window.base,
        .window_bytes = job->window.bytes,
        .rank = job->boot->rank,
        .peers = s.n,
        .peer_rank = s.rank,
        .peer_host = s.host,
        .peer_window = s.window,
        .events = {.context = job, .arrived = wire_arrived, .lost = wire_lost},
        .counters = &job->counters,
        .max_peers = shape->peers,
        .slots_per_peer = shape->banks * shape->slots,
        .context = !mapped && job->env.hooks ? job->env.hooks->wire_context : NULL,
    };
    if (!status)
        status = ops->open(&params, transport);
    if (!status) {
        enum tu_line_format format = ops->capabilities(*transport).format;
        for (uint32_t i = 0; i < s.n; i++) {
            job->peer[s.index[i]].transport = *transport;
            job->peer[s.index[i]].index = i;
            job->peer[s.index[i]].format = format;
        }
        if (!mapped) {
            job->wire_peer = s.index;
            s.index = NULL;
        }
    }
    free_selection(&s);
    return status;
}

/* ---- connecting ---- */

/* How it went on a rank. */
struct outcome {
    int32_t status;
    char host[64];
    char text[188];
};

tutti_status tu_job_agree(tutti_job *job, const char *key, tutti_status mine) {
    uint32_t ranks = job->boot->size;
    struct outcome outcome = {.status = mine};
    snprintf(outcome.host, sizeof outcome.host, "%s", job->env.host);
    if (mine)
        snprintf(outcome.text, sizeof outcome.text, "%.187s", job->env.error);
    struct outcome *all = tu_alloc(0, ranks, sizeof *all);
    uint32_t *rank = tu_alloc(0, ranks, sizeof *rank);
    tutti_status status = TUTTI_ERR_MEMORY;
    if (all && rank) {
        for (uint32_t r = 0; r < ranks; r++)
            rank[r] = r;
        status = job->boot->ops->exchange(job->boot, key, &outcome, sizeof outcome, rank, ranks,
                                          all, job->env.config.init_timeout_ms);
    }
    for (uint32_t r = 0; !status && !mine && r < ranks; r++)
        if (all[r].status)
            status = tu_fail(&job->env, (tutti_status)all[r].status, "rank %u (%s) failed: %s", r,
                             all[r].host, all[r].text);
    free(all);
    free(rank);
    return mine ? mine : status;
}

tutti_status tu_peers_connect(tutti_job *job) {
    if (!job->wire)
        return TUTTI_OK;
    const struct tu_transport_ops *ops = job->wire->ops;
    size_t bytes = ops->address_bytes(job->wire);
    uint32_t n = 0;
    uint8_t *mine = tu_alloc(0, 1, bytes + 1), *all = tu_alloc(0, job->peers + 1, bytes + 1);
    uint32_t *rank = tu_alloc(0, job->peers + 1, sizeof *rank);
    tutti_status status = TUTTI_OK;
    if (!mine || !all || !rank)
        status = tu_fail(&job->env, TUTTI_ERR_MEMORY, "no memory for the addresses of %u peers",
                         job->peers);
    for (uint32_t i = 0; !status && i < job->peers; i++)
        if (!job->peer[i].window)
            rank[n++] = job->peer[i].rank;
    if (!status)
        status = ops->address(job->wire, mine);
    if (!status)
        status = job->boot->ops->exchange(job->boot, "wire", mine, bytes, rank, n, all,
                                          job->env.config.init_timeout_ms);
    for (uint32_t i = 0; !status && i < n; i++)
        status = ops->connect(job->wire, i, all + i * bytes);
    free(mine);
    free(all);
    free(rank);
    return status;
}

static tutti_status check_choice(tutti_job *job) {
    const struct tu_nodes *nodes = job->nodes;
    if (job->env.config.transport != TU_TRANSPORT_SHM || nodes->nodes == 1)
        return TUTTI_OK;
    uint32_t other = nodes->member[nodes->first[nodes->node_of[job->boot->rank] ? 0 : 1]];
    return tu_fail(&job->env, TUTTI_ERR_UNSUPPORTED,
                   "TUTTI_TRANSPORT=shm, but the job is on %u nodes: rank %u (%s) shares no memory "
                   "with rank %u (%s); unset it, or start all ranks on one host",
                   nodes->nodes, job->boot->rank, job->env.host, other,
                   job->topology->info[other].host);
}

tutti_status tu_peers_open(tutti_job *job) {
    const struct tu_transport_ops *wire = &tu_transport_verbs;
    if (job->env.hooks && job->env.hooks->wire)
        wire = job->env.hooks->wire;
    tutti_status status = check_choice(job);
    if (!status)
        status = open_transport(job, &tu_transport_shm, true, &job->shm);
    if (!status && job->nodes->nodes > 1)
        status = open_transport(job, wire, false, &job->wire);
    return status;
}

void tu_peers_free(tutti_job *job) {
    if (job->wire)
        job->wire->ops->close(job->wire);
    if (job->shm)
        job->shm->ops->close(job->shm);
    free(job->wire_peer);
    free(job->peer);
}
