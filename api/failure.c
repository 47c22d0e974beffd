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

/* A poison cell: origin + 1 below, the status (its sign turned) above. */
static uint64_t poison_of(uint32_t origin, tutti_status status) {
    return (uint64_t)(uint32_t) - (int32_t)status << 32 | (origin + 1);
}

static uint64_t poison_at(const tutti_comm *comm) {
    const struct tu_window_shape *shape = &comm->job->window.shape;
    return tu_window_comm(shape, comm->id) + tu_window_part(shape, TU_PART_POISON);
}

/* Tells every peer; those that can't be told now are tried again. */
static void spread(tutti_comm *comm) {
    tutti_job *job = comm->job;
    uint64_t value = poison_of(comm->ruin_origin, comm->ruin);
    comm->poison_owed = false;
    for (uint32_t i = 0; i < job->peers; i++) {
        struct tu_peer *peer = &job->peer[i];
        if (job->lost[peer->rank] || !peer->transport)
            continue;
        if (peer->transport->ops->cell(peer->transport, peer->index, poison_at(comm), value) ==
            TU_AGAIN)
            comm->poison_owed = true;
    }
}

static void ruin(tutti_comm *comm, tutti_status status, uint32_t origin) {
    comm->ruin = status;
    comm->ruin_origin = origin;
    tu_calls_end(comm, status);
    spread(comm);
}

tutti_status tu_comm_fail(tutti_comm *comm, tutti_status status, const char *format, ...) {
    if (comm->ruin)
        return comm->ruin;
    va_list arguments;
    va_start(arguments, format);
    tu_text_vformat(comm->reason, sizeof comm->reason, format, arguments);
    va_end(arguments);
    tu_fail(&comm->job->env, status, "%s", comm->reason);
    ruin(comm, status, comm->rank);
    return status;
}

static void check_poison(tutti_comm *comm) {
    tutti_job *job = comm->job;
    _Atomic uint64_t *cell = (_Atomic uint64_t *)(void *)(job->window.base + poison_at(comm));
    uint64_t value = atomic_load_explicit(cell, memory_order_acquire);
    if (value && !comm->ruin) {
        uint32_t origin = (uint32_t)value - 1;
        char who[96];
        tutti_status status = (tutti_status) - (int32_t)(value >> 32);
        tu_text_format(comm->reason, sizeof comm->reason,
                       "communicator %u was given up by %s: %s (its own message says why)",
                       comm->id, tu_rank_text(job, origin, who, sizeof who),
                       tu_status_name(status));
        tu_fail(&job->env, status, "%s", comm->reason);
        ruin(comm, status, origin);
    }
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
        if (job->comm[id])
            tu_comm_fail(job->comm[id], status, "%s %s; communicator %u can't go on", who, how, id);
}
