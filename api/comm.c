/* Communicators: making, duplicating and freeing them, and agreeing on ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"

enum { CACHE_BYTES = 4 << 20, ID_WORDS = TU_MAX_COMMS / 64 };

/* ---- channels of a comm ---- */

struct lists {
    uint32_t *edge_rank, *place, *member;
    struct tu_peer **edge_peer, **member_peer;
};

/* Place of `rank` in the list of edges of `of`. */
static uint32_t place_in(const struct tu_nodes *nodes, uint32_t of, uint32_t rank,
                         uint32_t *scratch) {
    uint32_t n = tu_base_peers(nodes, of, scratch, nodes->ranks);
    for (uint32_t i = 0; i < n; i++)
        if (scratch[i] == rank)
            return i;
    return UINT32_MAX;
}

static tutti_status fill(tutti_comm *comm, struct lists *l, struct tu_channels_params *p) {
    const tutti_job *job = comm->job;
    const struct tu_nodes *nodes = comm->nodes;
    uint32_t *scratch = tu_alloc(0, nodes->ranks, sizeof *scratch);
    if (!scratch)
        return TUTTI_ERR_MEMORY;
    p->edges = tu_base_peers(nodes, comm->rank, l->edge_rank, nodes->ranks);
    for (uint32_t i = 0; i < p->edges; i++) {
        l->place[i] = place_in(nodes, l->edge_rank[i], comm->rank, scratch);
        l->edge_peer[i] = tu_peer_of(job, l->edge_rank[i]);
    }
    free(scratch);
    uint32_t node = nodes->node_of[comm->rank];
    p->members = tu_node_size(nodes, node);
    p->local = nodes->local_of[comm->rank];
    for (uint32_t m = 0; m < p->members; m++) {
        l->member[m] = nodes->member[nodes->first[node] + m];
        l->member_peer[m] = tu_peer_of(job, l->member[m]);
    }
    return TUTTI_OK;
}

static void free_lists(struct lists *l) {
    free(l->edge_rank);
    free(l->place);
    free(l->member);
    free(l->edge_peer);
    free(l->member_peer);
}

static tutti_status make_channels(tutti_comm *comm) {
    tutti_job *job = comm->job;
    size_t n = comm->size;
    uint32_t first = job->env.hooks ? job->env.hooks->first_number : 0;
    struct lists l = {.edge_rank = tu_alloc(0, n, sizeof *l.edge_rank),
                      .place = tu_alloc(0, n, sizeof *l.place),
                      .member = tu_alloc(0, n, sizeof *l.member),
                      .edge_peer = tu_alloc(0, n, sizeof(struct tu_peer *)),
                      .member_peer = tu_alloc(0, n, sizeof(struct tu_peer *))};
    struct tu_channels_params params = {
        .window = &job->window,
        .counters = &job->counters,
        .comm = comm->id,
        .rank = comm->rank,
        .first_number = first ? first : 1,
        .scratch_slots = (uint32_t)job->env.config.scratch_slots,
        .slot_bytes = job->env.config.eager_bytes,
        .share_bytes = job->env.config.share_bytes,
        .far_ns = (uint64_t)job->env.config.far_ns,
        .edge_rank = l.edge_rank,
        .my_place = l.place,
        .edge_peer = l.edge_peer,
        .member_rank = l.member,
        .member_peer = l.member_peer,
    };
    tutti_status status = TUTTI_ERR_MEMORY;
    if (l.edge_rank && l.place && l.member && l.edge_peer && l.member_peer)
        status = fill(comm, &l, &params);
    if (status)
        tu_fail(&job->env, status, "no memory for a communicator of %u ranks", comm->size);
    else
        status = tu_channels_make(&params, &comm->channels);
    free_lists(&l);
    return status;
}

/* ---- life ---- */

/* A comm that was freed lends its rings, numbers and records to the next one of its id. */
static void revive(tutti_comm *comm) {
    comm->magic = TU_COMM_MAGIC;
    comm->rejected = 0;
    comm->fingerprint = 0;
    comm->requests = 0;
}

tutti_status tu_comm_open(tutti_job *job, uint32_t id, tutti_comm **opened) {
    if (job->comm[id]) {
        revive(job->comm[id]);
        *opened = job->comm[id];
        return TUTTI_OK;
    }
    tutti_comm *comm = tu_alloc(64, 1, sizeof *comm);
    if (!comm)
        return tu_fail(&job->env, TUTTI_ERR_MEMORY, "no memory for a communicator");
    comm->id = id;
    comm->job = job;
    comm->rank = job->boot->rank;
    comm->size = job->boot->size;
    comm->nodes = job->nodes;
    comm->banks = (uint32_t)job->env.config.banks;
    tutti_status status = tu_window_reserve_comm(&job->window, id);
    if (!status)
        status = make_channels(comm);
    if (status) {
        free(comm);
        return status;
    }
    comm->record = (struct tu_record *)(void *)(job->window.base +
                                                tu_window_record(&job->window.shape, id, 0));
    tu_cache_init(&comm->cache, &job->env, comm->nodes, comm->channels, comm->rank, CACHE_BYTES);
    for (uint32_t b = 0; b < comm->banks; b++)
        tu_run_init(&comm->bank[b].run, &job->env, job->kernels, job->stream_from, b,
                    (uint32_t)job->env.config.segments);
    revive(comm);
    job->comm[id] = comm;
    *opened = comm;
    return TUTTI_OK;
}

void tu_comm_close(tutti_comm *comm) {
    comm->magic = 0;
    for (uint32_t b = 0; b < comm->banks; b++)
        tu_run_free(&comm->bank[b].run);
    tu_cache_free(&comm->cache);
    tu_channels_free(comm->channels);
    free(comm);
}

struct tu_env *tu_comm_env(const tutti_comm *comm) {
    bool known = comm && (comm->magic == TU_COMM_MAGIC || comm->magic == TU_COMM_FREED);
    return known ? &comm->job->env : NULL;
}

/* ---- ids ---- */

/* An allreduce of 64-bit words inside the library, in its place among the comm's calls. */
static tutti_status combine(tutti_comm *comm, int64_t *word, size_t words, tutti_op op) {
    return tutti_allreduce(TUTTI_IN_PLACE, word, words, TUTTI_I64, op, comm);
}

/* The lowest id that is free on every rank: not in use, and not retired with a ruined comm. */
static tutti_status agree_on_id(tutti_comm *comm, uint32_t *id) {
    const tutti_job *job = comm->job;
    int64_t free_ids[ID_WORDS] = {0};
    for (uint32_t i = 0; i < TU_MAX_COMMS; i++)
        if (!job->comm[i] || (!tu_comm_usable(job->comm[i]) && !job->comm[i]->ruin))
            free_ids[i / 64] |= (int64_t)(UINT64_C(1) << i % 64);
    tutti_status status = combine(comm, free_ids, ID_WORDS, TUTTI_BAND);
    if (status)
        return status;
    for (uint32_t i = 0; i < ID_WORDS; i++)
        if (free_ids[i]) {
            *id = i * 64 + (uint32_t)__builtin_ctzll((uint64_t)free_ids[i]);
            return TUTTI_OK;
        }
    return tu_fail(&comm->job->env, TUTTI_ERR_LIMIT, "all %d communicators are in use",
                   TU_MAX_COMMS);
}

tutti_status tutti_comm_dup(tutti_comm *comm, tutti_comm **dup) {
    if (tu_comm_usable(comm) && !dup)
        comm->rejected++;
    if (!tu_comm_usable(comm) || !dup)
        return tu_fail(tu_comm_env(comm), TUTTI_ERR_ARG, "tutti_comm_dup: %s",
                       dup ? "no communicator, or a freed one" : "dup is NULL");
    uint32_t id = 0;
    tutti_status status = agree_on_id(comm, &id);
    if (status)
        return status;
    tutti_comm *made = NULL;
    tutti_status mine = tu_comm_open(comm->job, id, &made);
    /* nobody uses it before all have made it; and all hear if one could not */
    int64_t worst = mine;
    status = combine(comm, &worst, 1, TUTTI_MIN);
    if (!status && worst)
        status = mine ? mine
                      : tu_fail(&comm->job->env, (tutti_status)worst,
                                "another rank could not make the communicator");
    if (status) {
        if (made)
            made->magic = TU_COMM_FREED;
        return status;
    }
    *dup = made;
    return TUTTI_OK;
}

tutti_status tutti_comm_free(tutti_comm *comm) {
    if (!tu_comm_usable(comm))
        return tu_fail(tu_comm_env(comm), TUTTI_ERR_ARG,
                       "tutti_comm_free: no communicator, or a freed one");
    if (comm->id == 0)
        return tu_fail(&comm->job->env, TUTTI_ERR_ARG,
                       "tutti_comm_free: the communicator of all ranks lives as long as the job");
    if (comm->requests || comm->running || comm->first)
        return tu_fail(&comm->job->env, TUTTI_ERR_BUSY,
                       "tutti_comm_free: %u requests have not been waited for", comm->requests);
    comm->magic = TU_COMM_FREED;
    return TUTTI_OK;
}

tutti_comm *tutti_world(tutti_job *job) {
    return job && job->magic == TU_JOB_MAGIC ? job->comm[0] : NULL;
}

int tutti_rank(const tutti_comm *comm) {
    return tu_comm_usable(comm) ? (int)comm->rank : -1;
}

int tutti_size(const tutti_comm *comm) {
    return tu_comm_usable(comm) ? (int)comm->size : -1;
}
