/* Looking inside: what runs, and what was counted. */
#include <string.h>

#include "api/job.h"

const char *tutti_last_error(const tutti_job *job) {
    return job && job->magic == TU_JOB_MAGIC ? job->env.error : "";
}

const char *tutti_algorithm(tutti_comm *comm, tutti_call call, size_t count, tutti_type type,
                            tutti_op op) {
    struct tu_choice choice;
    size_t bytes = 0;
    if (!tu_comm_usable(comm) || (unsigned)call >= TU_COLLECTIVES)
        return NULL;
    if (call == TUTTI_CALL_ALLREDUCE && ((unsigned)op >= TU_OPS || (unsigned)type >= TU_TYPES ||
                                         !comm->job->kernels->fold[type][op]))
        return NULL;
    if (call != TUTTI_CALL_BARRIER &&
        (!tu_type_bytes(type) || !tu_multiply(count, tu_type_bytes(type), &bytes)))
        return NULL;
    tutti_status status =
        tu_select(&comm->job->env, comm->nodes, (enum tu_collective)call, bytes, &choice);
    return status ? NULL : choice.algorithm->name;
}

const char *tutti_transports(const tutti_comm *comm) {
    if (!tu_comm_usable(comm))
        return NULL;
    bool shm = false, wire = false;
    for (uint32_t i = 0; i < comm->job->peers; i++) {
        shm = shm || comm->job->peer[i].window;
        wire = wire || !comm->job->peer[i].window;
    }
    if (shm)
        return wire ? "shm+verbs" : "shm";
    return wire ? "verbs" : "none";
}

tutti_status tutti_get_counters(const tutti_job *job, tutti_counters *counters) {
    if (!job || job->magic != TU_JOB_MAGIC || !counters || counters->size != sizeof *counters)
        return tu_fail(NULL, TUTTI_ERR_ARG,
                       "tutti_get_counters: no job, or counters->size is not set");
    const struct tu_counters *c = &job->counters;
    *counters = (tutti_counters){.size = sizeof *counters,
                                 .lines = c->lines,
                                 .writes = c->writes,
                                 .cells = c->cells,
                                 .bytes = c->bytes,
                                 .requests = c->requests,
                                 .doorbells = c->doorbells,
                                 .completions = c->completions,
                                 .receives = c->receives,
                                 .window_bytes = job->window.bytes,
                                 .window_used_bytes = tu_window_used(&job->window),
                                 .heap_bytes = job->heap.bytes,
                                 .heap_used_bytes = job->heap.used_bytes};
    return TUTTI_OK;
}
