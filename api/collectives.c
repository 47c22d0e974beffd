/* The collective calls: arguments are checked, everything else is a struct tu_call. */
#include "api/job.h"

/* ---- checks ---- */

/* A rejected call consumes no number, but the number of rejected ones is part of every later
   fingerprint, so that ranks that differ in it find out (rule 18). */
static tutti_status reject(tutti_comm *comm, tutti_status status) {
    comm->rejected++;
    return status;
}

/* A call that can be made again as it is, when there is room, must then fit those of the others. */
static tutti_status refuse(tutti_comm *comm, tutti_status status) {
    bool moment = status == TUTTI_ERR_MEMORY || status == TUTTI_ERR_LIMIT;
    return moment ? status : reject(comm, status);
}

static tutti_status check_comm(const tutti_comm *comm, const char *function) {
    if (!tu_comm_usable(comm))
        return tu_fail(tu_comm_env(comm), TUTTI_ERR_ARG, "%s: no communicator, or a freed one",
                       function);
    if (comm->ruin)
        return tu_fail(&comm->job->env, TUTTI_ERR_COMM, "%s: communicator %u was ruined: %s",
                       function, comm->id, comm->reason);
    return TUTTI_OK;
}

static tutti_status check_type(tutti_comm *comm, const char *function, size_t count,
                               tutti_type type, size_t *element_bytes) {
    struct tu_env *env = &comm->job->env;
    size_t bytes;
    *element_bytes = tu_type_bytes(type);
    if (*element_bytes == 0)
        return reject(comm, tu_fail(env, TUTTI_ERR_TYPE, "%s: unknown type %d", function, type));
    if (!tu_multiply(count, *element_bytes, &bytes) || bytes > PTRDIFF_MAX)
        return reject(comm, tu_fail(env, TUTTI_ERR_COUNT,
                                    "%s: %zu elements of %s are more than memory can hold",
                                    function, count, tu_type_name(type)));
    return TUTTI_OK;
}

static tutti_status check_buffer(tutti_comm *comm, const char *function, const char *name,
                                 const void *buffer, size_t count) {
    if (buffer || count == 0)
        return TUTTI_OK;
    return reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ARG,
                                "%s: %s is NULL, but the count is %zu", function, name, count));
}

static tutti_status check_op(tutti_comm *comm, const char *function, tutti_type type, tutti_op op,
                             tu_kernel **fold) {
    struct tu_env *env = &comm->job->env;
    if ((unsigned)op >= TU_OPS)
        return reject(comm, tu_fail(env, TUTTI_ERR_OP, "%s: unknown or unsupported operation %d",
                                    function, op));
    *fold = comm->job->kernels->fold[type][op];
    if (!*fold)
        return reject(comm, tu_fail(env, TUTTI_ERR_TYPE, "%s: %s is not defined on %s", function,
                                    tu_op_name(op), tu_type_name(type)));
    return TUTTI_OK;
}

static bool overlap(const void *a, const void *b, size_t bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return bytes && (x < y ? y - x < bytes : x - y < bytes);
}

/* ---- making calls ---- */

static struct tu_call call_of(tutti_comm *comm, enum tu_collective collective) {
    return (struct tu_call){
        .comm = comm, .work.element_bytes = 1, .what = {.collective = (uint8_t)collective}};
}

static tutti_status make_bcast(const char *function, void *buffer, size_t count, tutti_type type,
                               int root, tutti_comm *comm, struct tu_call *call) {
    size_t element_bytes = 0;
    tutti_status status = check_comm(comm, function);
    if (!status)
        status = check_type(comm, function, count, type, &element_bytes);
    if (!status && (root < 0 || (uint32_t)root >= comm->size))
        status =
            reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ROOT, "%s: root %d is not in 0..%u",
                                 function, root, comm->size - 1));
    if (!status)
        status = check_buffer(comm, function, "buffer", buffer, count);
    if (status)
        return status;
    *call = call_of(comm, TU_BCAST);
    call->work.source = call->work.target = buffer;
    call->work.count = count;
    call->work.element_bytes = element_bytes;
    call->what.type = (uint8_t)type;
    call->what.root = root;
    call->what.count = count;
    return TUTTI_OK;
}

static tutti_status check_buffers(tutti_comm *comm, const char *function, const void *source,
                                  void *target, size_t count, size_t bytes) {
    tutti_status status = check_buffer(comm, function, "target", target, count);
    if (!status && source != TUTTI_IN_PLACE)
        status = check_buffer(comm, function, "source", source, count);
    if (!status && (const void *)target == TUTTI_IN_PLACE)
        status =
            reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ARG,
                                 "%s: TUTTI_IN_PLACE is for the source, not the target", function));
    if (!status && source != TUTTI_IN_PLACE && overlap(source, target, bytes))
        status =
            reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ARG,
                                 "%s: source and target overlap; use TUTTI_IN_PLACE", function));
    return status;
}

static tutti_status make_allreduce(const char *function, const void *source, void *target,
                                   size_t count, tutti_type type, tutti_op op, tutti_comm *comm,
                                   struct tu_call *call) {
    size_t element_bytes = 0;
    tu_kernel *fold = NULL;
    tutti_status status = check_comm(comm, function);
    if (!status)
        status = check_type(comm, function, count, type, &element_bytes);
    if (!status)
        status = check_op(comm, function, type, op, &fold);
    if (!status)
        status = check_buffers(comm, function, source, target, count, count * element_bytes);
    if (status)
        return status;
    *call = call_of(comm, TU_ALLREDUCE);
    call->work = (struct tu_work){.source = source == TUTTI_IN_PLACE ? target : source,
                                  .target = target,
                                  .count = count,
                                  .element_bytes = element_bytes,
                                  .fold = fold};
    call->what.type = (uint8_t)type;
    call->what.op = (uint8_t)op;
    call->what.count = count;
    return TUTTI_OK;
}

/* ---- blocking ---- */

static tutti_status run(struct tu_call *call) {
    tutti_status status = tu_call_prepare(call);
    if (status)
        return refuse(call->comm, status);
    tu_call_start(call);
    return tu_call_wait(call->comm->job, call);
}

tutti_status tutti_barrier(tutti_comm *comm) {
    tutti_status status = check_comm(comm, "tutti_barrier");
    if (status)
        return status;
    struct tu_call call = call_of(comm, TU_BARRIER);
    return run(&call);
}

tutti_status tutti_bcast(void *buffer, size_t count, tutti_type type, int root, tutti_comm *comm) {
    struct tu_call call;
    tutti_status status = make_bcast("tutti_bcast", buffer, count, type, root, comm, &call);
    return status ? status : run(&call);
}

tutti_status tutti_allreduce(const void *source, void *target, size_t count, tutti_type type,
                             tutti_op op, tutti_comm *comm) {
    struct tu_call call;
    tutti_status status =
        make_allreduce("tutti_allreduce", source, target, count, type, op, comm, &call);
    return status ? status : run(&call);
}

/* ---- nonblocking ---- */

static tutti_status check_request(tutti_comm *comm, const char *function,
                                  const tutti_request *request) {
    if (request)
        return TUTTI_OK;
    return reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ARG, "%s: request is NULL", function));
}

static tutti_status start(const char *function, const struct tu_call *made,
                          tutti_request *request) {
    tutti_comm *comm = made->comm;
    struct tu_call *call = NULL;
    tutti_status status = check_request(comm, function, request);
    if (status)
        return status;
    status = tu_request_new(comm->job, &call);
    if (status)
        return refuse(comm, status);
    uint32_t generation = call->generation, index = call->index;
    *call = *made;
    call->generation = generation;
    call->index = index;
    status = tu_call_prepare(call);
    if (status) {
        tu_request_free(comm->job, call);
        return refuse(comm, status);
    }
    comm->requests++;
    tu_call_start(call);
    tu_progress(comm->job);
    *request = (tutti_request)generation << 32 | index;
    return TUTTI_OK;
}

tutti_status tutti_ibarrier(tutti_comm *comm, tutti_request *request) {
    tutti_status status = check_comm(comm, "tutti_ibarrier");
    if (status)
        return status;
    struct tu_call call = call_of(comm, TU_BARRIER);
    return start("tutti_ibarrier", &call, request);
}

tutti_status tutti_ibcast(void *buffer, size_t count, tutti_type type, int root, tutti_comm *comm,
                          tutti_request *request) {
    struct tu_call call;
    tutti_status status = make_bcast("tutti_ibcast", buffer, count, type, root, comm, &call);
    return status ? status : start("tutti_ibcast", &call, request);
}

tutti_status tutti_iallreduce(const void *source, void *target, size_t count, tutti_type type,
                              tutti_op op, tutti_comm *comm, tutti_request *request) {
    struct tu_call call;
    tutti_status status =
        make_allreduce("tutti_iallreduce", source, target, count, type, op, comm, &call);
    return status ? status : start("tutti_iallreduce", &call, request);
}
