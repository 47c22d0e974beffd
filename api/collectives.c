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

static inline tutti_status check_comm(const tutti_comm *comm, const char *function) {
    if (!tu_comm_usable(comm))
        return tu_fail(tu_comm_env(comm), TUTTI_ERR_ARG, "%s: no communicator, or a freed one",
                       function);
    if (comm->ruin)
        return tu_fail(&comm->job->env, TUTTI_ERR_COMM, "%s: communicator %u was ruined: %s",
                       function, comm->id, comm->reason);
    return TUTTI_OK;
}

static inline tutti_status check_type(tutti_comm *comm, const char *function, size_t count,
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

static inline tutti_status check_buffer(tutti_comm *comm, const char *function, const char *name,
                                        const void *buffer, size_t count) {
    if (buffer || count == 0)
        return TUTTI_OK;
    return reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ARG,
                                "%s: %s is NULL, but the count is %zu", function, name, count));
}

static inline tutti_status check_op(tutti_comm *comm, const char *function, tutti_type type,
                                    tutti_op op, struct tu_work *work) {
    struct tu_env *env = &comm->job->env;
    if ((unsigned)op >= TU_OPS)
        return reject(comm, tu_fail(env, TUTTI_ERR_OP, "%s: unknown or unsupported operation %d",
                                    function, op));
    work->fold = comm->job->kernels->fold[type][op];
    work->stream = comm->job->kernels->stream[type][op];
    if (!work->fold)
        return reject(comm, tu_fail(env, TUTTI_ERR_TYPE, "%s: %s is not defined on %s", function,
                                    tu_op_name(op), tu_type_name(type)));
    return TUTTI_OK;
}

static bool overlap(const void *a, const void *b, size_t bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return bytes && (x < y ? y - x < bytes : x - y < bytes);
}

static inline tutti_status check_root(tutti_comm *comm, const char *function, int root) {
    if (root >= 0 && (uint32_t)root < comm->size)
        return TUTTI_OK;
    return reject(comm, tu_fail(&comm->job->env, TUTTI_ERR_ROOT, "%s: root %d is not in 0..%u",
                                function, root, comm->size - 1));
}

static inline tutti_status check_buffers(tutti_comm *comm, const char *function, const void *source,
                                         void *target, size_t count, size_t bytes) {
    struct tu_env *env = &comm->job->env;
    tutti_status status = check_buffer(comm, function, "target", target, count);
    if (!status && (const void *)target == TUTTI_IN_PLACE)
        status =
            reject(comm, tu_fail(env, TUTTI_ERR_ARG,
                                 "%s: TUTTI_IN_PLACE is for the source, not the target", function));
    if (status || source == TUTTI_IN_PLACE)
        return status;
    status = check_buffer(comm, function, "source", source, count);
    if (!status && overlap(source, target, bytes))
        status =
            reject(comm, tu_fail(env, TUTTI_ERR_ARG,
                                 "%s: source and target overlap; use TUTTI_IN_PLACE", function));
    return status;
}

/* ---- what to run ---- */

/* Were these arguments those of the last such call? Then they need no checks. (By value, so that they stay
   in registers.) */
static inline bool repeats(const struct tu_checked *last, struct tu_arguments now) {
    const struct tu_arguments *then = &last->arguments;
    return last->task.prepared && then->source == now.source && then->target == now.target &&
           then->count == now.count && then->type == now.type && then->op == now.op &&
           then->root == now.root;
}

/* What the last call of this kind had prepared serves all vectors of its size. */
static bool serves(const struct tu_prepared *prepared, const struct tu_work *work, uint32_t root) {
    return prepared && prepared->count == work->count &&
           prepared->element_bytes == work->element_bytes && prepared->root == root;
}

/* Puts a checked call, which is to be repeated soon, in the place of the last one of its kind. (Member by
   member: codes that take other buffers in every call come here.) */
static tutti_status keep(tutti_comm *comm, const struct tu_arguments *arguments,
                         const struct tu_work *work, uint32_t kind) {
    struct tu_checked *last = &comm->checked[tu_kind_collective(kind)];
    struct tu_task *task = &last->task;
    uint32_t root = (uint32_t)arguments->root;
    if (!serves(task->prepared, work, root)) {
        if (task->prepared)
            task->prepared->users--;
        task->prepared = NULL;
        tutti_status status = tu_cache_prepare(&comm->cache, tu_kind_collective(kind), root,
                                               work->count, work->element_bytes, &task->prepared);
        if (status)
            return refuse(comm, status);
    }
    last->arguments = *arguments;
    task->work = *work;
    task->what.count = work->count;
    task->what.root = arguments->root;
    task->what.kind = kind;
    task->hash = tu_hash(&task->what);
    return TUTTI_OK;
}

static __attribute__((noinline)) tutti_status check_barrier(tutti_comm *comm) {
    const struct tu_arguments none = {.source = NULL};
    const struct tu_work work = {.element_bytes = 1};
    return keep(comm, &none, &work, TU_BARRIER);
}

static __attribute__((noinline)) tutti_status check_bcast(tutti_comm *comm, const char *function,
                                                          struct tu_arguments a) {
    struct tu_work work = {.source = a.target, .target = a.target, .count = a.count};
    tutti_status status = check_type(comm, function, a.count, a.type, &work.element_bytes);
    if (!status)
        status = check_root(comm, function, a.root);
    if (!status)
        status = check_buffer(comm, function, "buffer", a.target, a.count);
    return status ? status : keep(comm, &a, &work, tu_kind(TU_BCAST, a.type, 0));
}

static __attribute__((noinline)) tutti_status
check_allreduce(tutti_comm *comm, const char *function, struct tu_arguments a) {
    struct tu_work work = {.source = a.source == TUTTI_IN_PLACE ? a.target : a.source,
                           .target = a.target,
                           .count = a.count};
    tutti_status status = check_type(comm, function, a.count, a.type, &work.element_bytes);
    if (!status)
        status = check_op(comm, function, a.type, a.op, &work);
    if (!status)
        status = check_buffers(comm, function, a.source, a.target, a.count,
                               a.count * work.element_bytes);
    return status ? status : keep(comm, &a, &work, tu_kind(TU_ALLREDUCE, a.type, a.op));
}

/* After these the call stands in comm->checked[]. */

static inline tutti_status ready_barrier(const char *function, tutti_comm *comm) {
    tutti_status status = check_comm(comm, function);
    if (status || comm->checked[TU_BARRIER].task.prepared)
        return status;
    return check_barrier(comm);
}

static inline tutti_status ready_bcast(const char *function, struct tu_arguments now,
                                       tutti_comm *comm) {
    tutti_status status = check_comm(comm, function);
    if (status || repeats(&comm->checked[TU_BCAST], now))
        return status;
    return check_bcast(comm, function, now);
}

static inline tutti_status ready_allreduce(const char *function, struct tu_arguments now,
                                           tutti_comm *comm) {
    tutti_status status = check_comm(comm, function);
    if (status || repeats(&comm->checked[TU_ALLREDUCE], now))
        return status;
    return check_allreduce(comm, function, now);
}

/* ---- blocking ---- */

static inline tutti_status run(tutti_comm *comm, enum tu_collective collective) {
    struct tu_call call;
    call.comm = comm;
    call.task = &comm->checked[collective].task;
    tu_call_start(&call);
    return tu_call_wait(comm->job, &call);
}

tutti_status tutti_barrier(tutti_comm *comm) {
    tutti_status status = ready_barrier("tutti_barrier", comm);
    return status ? status : run(comm, TU_BARRIER);
}

tutti_status tutti_bcast(void *buffer, size_t count, tutti_type type, int root, tutti_comm *comm) {
    struct tu_arguments a = {.target = buffer, .count = count, .type = type, .root = root};
    tutti_status status = ready_bcast("tutti_bcast", a, comm);
    return status ? status : run(comm, TU_BCAST);
}

tutti_status tutti_allreduce(const void *source, void *target, size_t count, tutti_type type,
                             tutti_op op, tutti_comm *comm) {
    struct tu_arguments a = {source, target, count, type, op, .root = 0};
    tutti_status status = ready_allreduce("tutti_allreduce", a, comm);
    return status ? status : run(comm, TU_ALLREDUCE);
}

/* ---- nonblocking ---- */

static inline tutti_status start(const char *function, tutti_comm *comm,
                                 enum tu_collective collective, tutti_request *request) {
    struct tu_call *call = NULL;
    if (!request)
        return reject(comm,
                      tu_fail(&comm->job->env, TUTTI_ERR_ARG, "%s: request is NULL", function));
    tutti_status status = tu_request_new(comm->job, &call);
    if (status)
        return refuse(comm, status);
    call->comm = comm;
    call->own_task = comm->checked[collective].task;
    call->task = &call->own_task;
    comm->requests++;
    *request = (tutti_request)call->generation << 32 | call->index;
    tu_call_start(call);
    return TUTTI_OK;
}

tutti_status tutti_ibarrier(tutti_comm *comm, tutti_request *request) {
    tutti_status status = ready_barrier("tutti_ibarrier", comm);
    return status ? status : start("tutti_ibarrier", comm, TU_BARRIER, request);
}

tutti_status tutti_ibcast(void *buffer, size_t count, tutti_type type, int root, tutti_comm *comm,
                          tutti_request *request) {
    struct tu_arguments a = {.target = buffer, .count = count, .type = type, .root = root};
    tutti_status status = ready_bcast("tutti_ibcast", a, comm);
    return status ? status : start("tutti_ibcast", comm, TU_BCAST, request);
}

tutti_status tutti_iallreduce(const void *source, void *target, size_t count, tutti_type type,
                              tutti_op op, tutti_comm *comm, tutti_request *request) {
    struct tu_arguments a = {source, target, count, type, op, .root = 0};
    tutti_status status = ready_allreduce("tutti_iallreduce", a, comm);
    return status ? status : start("tutti_iallreduce", comm, TU_ALLREDUCE, request);
}
