/* Running a random program on one rank, and checking what comes out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/program.h"
#include "tests/sim/random.h"

enum { GUARD = 32, GUARD_BYTE = 0xa5, UNSET_BYTE = 0x5a, SCRIBBLE = 0xee };

/* A call under way; afterwards its buffers, which nobody may touch any more. */
struct under_way {
    struct op *op;
    uint32_t number;
    tutti_request request;
    bool in_place;
    bool shared; /* memory of tutti_alloc */
    uint8_t *memory, *source, *target;
    size_t memory_bytes, bytes;
};

struct runner {
    struct sim_rank *rank;
    struct program *program;
    tutti_job *job;
    tutti_comm *comm[PROGRAM_COMMS];
    struct under_way call[PROGRAM_OPS];
    uint32_t calls;
    struct under_way *open[PROGRAM_OUTSTANDING];
    uint32_t opens;
};

static uint32_t draw(struct runner *r, uint32_t below) {
    return sim_below(&r->rank->random, below);
}

/* Where to count, on the rank that does so. */
static struct coverage *coverage_of(struct runner *r) {
    static struct coverage nowhere;
    return r->program->coverage && r->rank->rank == 0 ? r->program->coverage : &nowhere;
}

static void nap(struct runner *r) {
    if (r->program->one_naps && r->rank->rank != r->program->napper)
        return;
    if (!sim_chance(&r->rank->random, r->program->naps))
        return;
    coverage_of(r)->naps++;
    sim_sleep(r->rank, sim_random(&r->rank->random) % r->program->nap_ns);
}

static void keep_failure(struct runner *r, tutti_status status, uint32_t number, const char *text) {
    struct program_failure *failure = &r->program->failure[r->rank->rank];

    if (failure->status == TUTTI_OK) {
        failure->status = status;
        failure->op = number;
        snprintf(failure->text, sizeof failure->text, "%s", text);
    }
}

/* True if it went well. */
static bool expect_ok(struct runner *r, tutti_status status, const char *what, uint32_t number) {
    if (status == TUTTI_OK)
        return true;
    if (!r->program->may_fail)
        sim_fail(r->rank, "op %u: %s: %s: %s", number, what, tutti_status_string(status),
                 tutti_last_error(r->job));
    keep_failure(r, status, number, tutti_last_error(r->job));
    return false;
}

/* ---- buffers ---- */

static void *take_memory(struct runner *r, struct under_way *call) {
    void *memory = NULL;

    call->shared = draw(r, 2);
    if (!call->shared)
        return malloc(call->memory_bytes);
    if (!expect_ok(r, tutti_alloc(r->job, call->memory_bytes, &memory), "alloc", call->number))
        sim_fail(r->rank, "op %u: no memory", call->number);
    return memory;
}

/* Guards all around, source and target at odd addresses. */
static void make_buffers(struct runner *r, struct under_way *call) {
    struct op *op = call->op;
    size_t shift = draw(r, 9), bytes = op->count * tutti_type_size(op->values.type);
    size_t before = GUARD + shift, between = GUARD + shift * 5 % 9; /* the sum may be odd, too */

    call->bytes = op->call == TUTTI_CALL_BARRIER ? 0 : bytes;
    call->memory_bytes = before + between + GUARD + 2 * call->bytes;
    call->memory = take_memory(r, call);
    memset(call->memory, GUARD_BYTE, call->memory_bytes);
    call->source = call->memory + before;
    call->target = call->source + call->bytes + between;
    memset(call->target, UNSET_BYTE, call->bytes);
    call->in_place = op->call == TUTTI_CALL_ALLREDUCE && draw(r, 2);
    bool contributes = op->call == TUTTI_CALL_ALLREDUCE || (int)r->rank->rank == op->root;
    if (op->call == TUTTI_CALL_BARRIER || !contributes)
        return;
    bool target = call->in_place || op->call == TUTTI_CALL_BCAST;
    values_fill(&op->values, r->rank->rank, target ? call->target : call->source, op->count);
}

static bool filled(const uint8_t *from, const uint8_t *to, uint8_t byte) {
    while (from < to && *from == byte)
        from++;
    return from == to;
}

static void check_guards(struct runner *r, const struct under_way *call) {
    const uint8_t *source_end = call->source + call->bytes,
                  *target_end = call->target + call->bytes;

    if (!filled(call->memory, call->source, GUARD_BYTE) ||
        !filled(source_end, call->target, GUARD_BYTE) ||
        !filled(target_end, call->memory + call->memory_bytes, GUARD_BYTE))
        sim_fail(r->rank, "op %u wrote outside its buffers", call->number);
    bool separate = call->op->call == TUTTI_CALL_ALLREDUCE && !call->in_place;
    bool same = separate
                    ? values_equal(&call->op->values, r->rank->rank, call->source, call->op->count)
                    : filled(call->source, source_end, GUARD_BYTE);
    if (!same)
        sim_fail(r->rank, "op %u changed its source", call->number);
}

/* The first one who has the result looks whether it is right; all others, for the same bits. */
static void check_result(struct runner *r, const struct under_way *call) {
    struct op *op = call->op;
    size_t wrong = 0;

    if (call->bytes == 0 || op->wrong)
        return;
    if (op->result) {
        if (memcmp(op->result, call->target, call->bytes) != 0)
            sim_fail(r->rank, "op %u: other bits than on another rank", call->number);
        return;
    }
    bool right =
        op->call == TUTTI_CALL_BCAST
            ? values_equal(&op->values, (uint32_t)op->root, call->target, op->count)
            : values_reduced(&op->values, r->program->ranks, call->target, op->count, &wrong);
    if (!right)
        sim_fail(r->rank, "op %u: element %zu of %zu is wrong", call->number, wrong, op->count);
    op->result = malloc(call->bytes);
    memcpy(op->result, call->target, call->bytes);
}

/* The buffers belong to the program again, which uses them for something else. */
static void reuse_buffers(struct runner *r, struct under_way *call, bool right) {
    check_guards(r, call);
    if (right)
        check_result(r, call);
    memset(call->memory, SCRIBBLE, call->memory_bytes);
}

/* ---- completing ---- */

static void complete(struct runner *r, uint32_t which) {
    struct under_way *call = r->open[which];
    tutti_status status = TUTTI_IN_PROGRESS;

    for (uint32_t tests = draw(r, 2) ? 0 : draw(r, 40); tests && status == TUTTI_IN_PROGRESS;
         tests--) {
        status = tutti_test(r->job, &call->request);
        sim_pause(r->rank);
    }
    if (status == TUTTI_IN_PROGRESS)
        status = tutti_wait(r->job, &call->request);
    bool right = expect_ok(r, status, "completing", call->number);
    r->open[which] = r->open[--r->opens];
    reuse_buffers(r, call, right);
    nap(r);
}

static void complete_down_to(struct runner *r, uint32_t most) {
    while (r->opens > most)
        complete(r, draw(r, r->opens));
}

static void complete_comm(struct runner *r, uint32_t comm) {
    for (uint32_t i = 0; i < r->opens;) {
        uint32_t which = draw(r, r->opens);
        which = r->open[which]->op->comm == comm ? which : i;
        if (r->open[which]->op->comm == comm)
            complete(r, which);
        else
            i++;
    }
}

/* ---- starting ---- */

static tutti_status blocking(const struct op *op, const void *source, void *target,
                             tutti_comm *comm) {
    switch (op->call) {
    case TUTTI_CALL_BARRIER:
        return tutti_barrier(comm);
    case TUTTI_CALL_BCAST:
        return tutti_bcast(target, op->count, op->values.type, op->root, comm);
    default:
        return tutti_allreduce(source, target, op->count, op->values.type, op->values.op, comm);
    }
}

static tutti_status nonblocking(const struct op *op, const void *source, void *target,
                                tutti_comm *comm, tutti_request *request) {
    switch (op->call) {
    case TUTTI_CALL_BARRIER:
        return tutti_ibarrier(comm, request);
    case TUTTI_CALL_BCAST:
        return tutti_ibcast(target, op->count, op->values.type, op->root, comm, request);
    default:
        return tutti_iallreduce(source, target, op->count, op->values.type, op->values.op, comm,
                                request);
    }
}

/* A call that is no call: it must be answered at once. */
static void make_rejected(struct runner *r, const struct op *op, uint32_t number) {
    tutti_status status = tutti_bcast(NULL, 1, TUTTI_I32, 0, r->comm[op->comm]);

    if (status == TUTTI_OK)
        sim_fail(r->rank, "op %u: a call with bad arguments went well", number);
    if (status != TUTTI_ERR_ARG)
        expect_ok(r, status, "rejected call", number);
}

static void start(struct runner *r, struct op *op, uint32_t number, bool may_block) {
    struct under_way *call = &r->call[r->calls++];
    tutti_comm *comm = r->comm[op->comm];

    call->op = op;
    call->number = number;
    make_buffers(r, call);
    if (op->rejected)
        make_rejected(r, op, number);
    const void *source = call->in_place ? TUTTI_IN_PLACE : call->source;
    void *target = call->bytes == 0 && draw(r, 2) ? NULL : call->target;
    if (may_block && draw(r, 2)) {
        tutti_status status = blocking(op, source, target, comm);
        reuse_buffers(r, call, expect_ok(r, status, "blocking call", number));
    } else {
        tutti_status status = nonblocking(op, source, target, comm, &call->request);
        if (expect_ok(r, status, "nonblocking call", number))
            r->open[r->opens++] = call;
        else
            reuse_buffers(r, call, false);
    }
    coverage_of_call(coverage_of(r), comm, op->call);
    nap(r);
}

static void duplicate(struct runner *r, const struct op *op, uint32_t number) {
    tutti_comm *made = NULL;

    if (expect_ok(r, tutti_comm_dup(r->comm[op->comm], &made), "dup", number))
        r->comm[op->other] = made;
    coverage_of(r)->dups++;
}

static void free_comm(struct runner *r, const struct op *op, uint32_t number) {
    complete_comm(r, op->comm);
    expect_ok(r, tutti_comm_free(r->comm[op->comm]), "free", number);
    r->comm[op->comm] = NULL;
    coverage_of(r)->frees++;
}

/* Two calls, of which no rank knows which one another rank starts first. */
static void start_both(struct runner *r, struct op *op, uint32_t number) {
    uint32_t first = draw(r, 2), second = 1 - first;

    complete_down_to(r, PROGRAM_OUTSTANDING - 2);
    start(r, &op[first], number + first, false);
    if (r->comm[op[second].comm])
        start(r, &op[second], number + second, false);
}

/* Returns how many ops were done. */
static uint32_t run_op(struct runner *r, struct op *op, uint32_t i) {
    bool swap = op->swap && r->comm[op[1].comm];

    if (!r->comm[op->comm]) /* it could not be made */
        return 1;
    if (op->kind == OP_DUP)
        duplicate(r, op, i);
    else if (op->kind == OP_FREE)
        free_comm(r, op, i);
    else if (swap)
        start_both(r, op, i);
    else {
        complete_down_to(r, PROGRAM_OUTSTANDING - 1);
        start(r, op, i, true);
    }
    return swap ? 2 : 1;
}

static void run_ops(struct runner *r) {
    struct program *program = r->program;

    for (uint32_t i = 0; i < program->ops;) {
        struct op *op = program->instead ? program->instead(r->rank, program, i) : &program->op[i];
        if (op && op->kind == OP_END)
            return;
        i += op ? run_op(r, op, i) : 1;
        if (draw(r, 3) == 0)
            complete_down_to(r, draw(r, PROGRAM_OUTSTANDING));
    }
}

/* ---- the whole ---- */

/* The shared ones while the job lives, the others when it has ended. */
static void check_late_writes(struct runner *r, bool shared) {
    for (uint32_t i = 0; i < r->calls; i++) {
        const struct under_way *call = &r->call[i];
        if (call->shared != shared)
            continue;
        if (!filled(call->memory, call->memory + call->memory_bytes, SCRIBBLE))
            sim_fail(r->rank, "op %u wrote to its buffers after its end", call->number);
        if (shared)
            expect_ok(r, tutti_free(r->job, call->memory), "free", call->number);
        else
            free(call->memory);
    }
}

void program_run(struct sim_rank *rank, void *context) {
    struct runner r = {.rank = rank, .program = context};
    tutti_status status = sim_init(rank, &r.job);

    if (status)
        sim_fail(rank, "init: %s: %s", tutti_status_string(status), rank->log);
    r.comm[0] = tutti_world(r.job);
    run_ops(&r);
    complete_down_to(&r, 0);
    check_late_writes(&r, true);
    status = sim_finalize(rank);
    if (status && !r.program->may_fail)
        sim_fail(rank, "finalize: %s: %s", tutti_status_string(status), rank->log);
    if (status)
        keep_failure(&r, status, r.program->ops, rank->log);
    check_late_writes(&r, false);
}
