/*
 * Requests: calls that outlive their start. A handle holds place and generation, so that a stale one is
 * recognised however often its place was used again.
 */
#include <stdlib.h>
#include <string.h>

#include "api/job.h"

static tutti_status grow(tutti_job *job) {
    struct tu_request_pool *pool = &job->requests;
    uint32_t room = pool->room ? 2 * pool->room : 16;
    struct tu_call **call = tu_alloc(0, room, sizeof(struct tu_call *));
    if (!call)
        return tu_fail(&job->env, TUTTI_ERR_MEMORY, "no memory for %u requests", room);
    if (pool->used)
        memcpy(call, pool->call, pool->used * sizeof(struct tu_call *));
    free(pool->call);
    pool->call = call;
    pool->room = room;
    return TUTTI_OK;
}

tutti_status tu_request_new(tutti_job *job, struct tu_call **made) {
    struct tu_request_pool *pool = &job->requests;
    struct tu_call *call = pool->free;
    if (call) {
        pool->free = call->next;
    } else {
        tutti_status status = pool->used == pool->room ? grow(job) : TUTTI_OK;
        if (status)
            return status;
        call = tu_alloc(64, 1, sizeof *call);
        if (!call)
            return tu_fail(&job->env, TUTTI_ERR_MEMORY, "no memory for a request");
        call->index = pool->used;
        pool->call[pool->used++] = call;
    }
    if (++call->generation == 0)
        call->generation = 1;
    *made = call;
    return TUTTI_OK;
}

void tu_request_free(tutti_job *job, struct tu_call *call) {
    call->state = TU_CALL_FREE;
    call->next = job->requests.free;
    job->requests.free = call;
}

void tu_requests_free(tutti_job *job) {
    for (uint32_t i = 0; i < job->requests.used; i++)
        free(job->requests.call[i]);
    free(job->requests.call);
}

/* NULL, with the error told, unless the handle is that of a call that was not completed yet. */
static struct tu_call *find(tutti_job *job, const char *function, tutti_request request) {
    uint32_t index = (uint32_t)request, generation = (uint32_t)(request >> 32);
    struct tu_request_pool *pool = &job->requests;
    struct tu_call *call = index < pool->used ? pool->call[index] : NULL;
    if (call && call->state != TU_CALL_FREE && call->generation == generation)
        return call;
    tu_fail(&job->env, TUTTI_ERR_ARG,
            "%s: this request was completed before, or belongs to another job", function);
    return NULL;
}

static tutti_status complete(tutti_job *job, struct tu_call *call, tutti_request *request) {
    tutti_status status = call->status;
    call->comm->requests--;
    tu_request_free(job, call);
    *request = TUTTI_REQUEST_NULL;
    return status;
}

static tutti_status check(tutti_job *job, const char *function, const tutti_request *request) {
    if (!job || job->magic != TU_JOB_MAGIC)
        return tu_fail(NULL, TUTTI_ERR_ARG, "%s: no job", function);
    if (!request)
        return tu_fail(&job->env, TUTTI_ERR_ARG, "%s: request is NULL", function);
    return TUTTI_OK;
}

tutti_status tutti_test(tutti_job *job, tutti_request *request) {
    tutti_status status = check(job, "tutti_test", request);
    if (status || *request == TUTTI_REQUEST_NULL)
        return status;
    struct tu_call *call = find(job, "tutti_test", *request);
    if (!call)
        return TUTTI_ERR_ARG;
    tu_progress(job);
    if (call->state != TU_CALL_DONE)
        tu_watch_tested(job, call);
    return call->state == TU_CALL_DONE ? complete(job, call, request) : TUTTI_IN_PROGRESS;
}

tutti_status tutti_wait(tutti_job *job, tutti_request *request) {
    tutti_status status = check(job, "tutti_wait", request);
    if (status || *request == TUTTI_REQUEST_NULL)
        return status;
    struct tu_call *call = find(job, "tutti_wait", *request);
    if (!call)
        return TUTTI_ERR_ARG;
    tu_call_wait(job, call);
    return complete(job, call, request);
}
