/*
 * Failure: a comm is ruined, or a rank is lost. Every member of the comm returns: each learns it from
 * the launcher, the process table or the wire, or from a poison cell that other members write.
 * Nothing can write into a caller's buffer after its call has ended here, since all transports write
 * into the window only (rule 17).
 */
#include <stdarg.h>
#include <stdio.h>

#include "api/job.h"
#include "runtime/text.h"

const char *tu_rank_text(const tutti_job *job, uint32_t rank, char *text, size_t bytes) {
    snprintf(text, bytes, "rank %u (%s)", rank, job->topology->info[rank].host);
    return text;
}

/* ---- poison ---- */

/* A poison cell: the status (its sign turned), then origin + 1 and culprit + 1. 0: no poison. */
enum { RANK_BITS = 28, RANK_MASK = (1 << RANK_BITS) - 1 };

static uint64_t poison_of(const tutti_comm *comm) {
    uint64_t status = (uint64_t)(0 - comm->ruin), origin = comm->ruin_origin + UINT64_C(1);
    uint64_t culprit = comm->ruin_culprit == TU_NO_RANK ? 0 : comm->ruin_culprit + UINT64_C(1);
    return (status << RANK_BITS | (origin & RANK_MASK)) << RANK_BITS | (culprit & RANK_MASK);
}

static uint64_t poison_at(const tutti_comm *comm) {
    const struct tu_window_shape *shape = &comm->job->window.shape;
    return tu_window_comm(shape, comm->id) + tu_window_part(shape, TU_PART_POISON);
}

/* Tells every peer; from the first one that can't be told now on, they are tried again. */
static void spread(tutti_comm *comm) {
    tutti_job *job = comm->job;
    uint64_t value = poison_of(comm);
    uint32_t from = comm->poison_owed ? comm->poison_from : 0;
    comm->poison_owed = false;
    for (uint32_t i = from; i < job->peers; i++) {
        struct tu_peer *peer = &job->peer[i];
        if (job->lost[peer->rank] || !peer->transport)
            continue;
        if (peer->transport->ops->cell(peer->transport, peer->index, poison_at(comm), value) !=
                TU_AGAIN ||
            comm->poison_owed)
            continue;
        comm->poison_owed = true;
        comm->poison_from = i;
    }
}

static void ruin(tutti_comm *comm, tutti_status status, uint32_t origin, uint32_t culprit) {
    comm->ruin = status;
    comm->ruin_origin = origin;
    comm->ruin_culprit = culprit;
    tu_calls_end(comm, status);
    spread(comm);
}

tutti_status tu_comm_fail(tutti_comm *comm, tutti_status status, uint32_t culprit,
                          const char *format, ...) {
    if (comm->ruin)
        return comm->ruin;
    va_list arguments;
    va_start(arguments, format);
    tu_text_vformat(comm->reason, sizeof comm->reason, format, arguments);
    va_end(arguments);
    tu_fail(&comm->job->env, status, "%s", comm->reason);
    ruin(comm, status, comm->rank, culprit);
    return status;
}

static void take_poison(tutti_comm *comm, uint64_t value) {
    tutti_job *job = comm->job;
    uint32_t culprit = (uint32_t)(value & RANK_MASK) - 1;
    uint32_t origin = (uint32_t)(value >> RANK_BITS & RANK_MASK) - 1;
    tutti_status status = (tutti_status)(0 - (int32_t)(value >> 2 * RANK_BITS));
    char who[96], about[96] = "";
    if (culprit == comm->rank)
        tu_text_format(about, sizeof about, "this rank");
    else if (culprit != TU_NO_RANK)
        tu_rank_text(job, culprit, about, sizeof about);
    tu_text_format(comm->reason, sizeof comm->reason, "communicator %u was given up by %s: %s%s%s",
                   comm->id, tu_rank_text(job, origin, who, sizeof who), tu_status_name(status),
                   about[0] ? ", because of " : "", about);
    tu_fail(&job->env, status, "%s", comm->reason);
    ruin(comm, status, origin, culprit);
}

static void check_poison(tutti_comm *comm) {
    _Atomic uint64_t *cell = (_Atomic uint64_t *)(void *)(comm->job->window.base + poison_at(comm));
    uint64_t value = atomic_load_explicit(cell, memory_order_acquire);
    if (value && !comm->ruin)
        take_poison(comm, value);
    if (comm->poison_owed)
        spread(comm);
}

void tu_poison_check(tutti_job *job) {
    for (uint32_t id = 0; id < TU_MAX_COMMS; id++)
        if (job->comm[id])
            check_poison(job->comm[id]);
}

/* ---- lost ranks ---- */

void tu_rank_lost(tutti_job *job, uint32_t rank, tutti_status status, const char *how) {
    char who[96];
    if (job->lost[rank])
        return;
    job->lost[rank] = 1;
    job->losses++;
    tu_rank_text(job, rank, who, sizeof who);
    for (uint32_t id = 0; id < TU_MAX_COMMS; id++)
        if (job->comm[id] && !tu_comm_usable(job->comm[id]) && !job->comm[id]->ruin)
            job->comm[id]->ruin = status; /* freed: its id is not used again */
        else if (job->comm[id])
            tu_comm_fail(job->comm[id], status, rank, "%s %s; communicator %u can't go on", who,
                         how, id);
}
