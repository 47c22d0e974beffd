/*
 * Misuse: what a wrong call answers, that it leaves buffers alone and the job usable; calls that do not
 * match between ranks; and a rank that dies.
 */
#include <signal.h>

#include "launched.h"

#define ANSWERS(call, want, ...)                                                                   \
    do {                                                                                           \
        tutti_status status_ = (call);                                                             \
        REQUIRE(status_ == (want), "%s, not %s", tutti_status_string(status_),                     \
                tutti_status_string(want));                                                        \
        __VA_ARGS__;                                                                               \
    } while (0)

static void says(struct ranks *ranks, const char *text) {
    REQUIRE(strstr(tutti_last_error(ranks->job), text), "the text does not say \"%s\"", text);
}

static void arguments(struct ranks *ranks) {
    float source[4] = {1, 2, 3, 4}, target[4] = {9, 9, 9, 9};
    tutti_comm *world = ranks->world, *dup = NULL;
    ANSWERS(tutti_allreduce(NULL, target, 4, TUTTI_F32, TUTTI_SUM, world), TUTTI_ERR_ARG,
            says(ranks, "source is NULL"));
    ANSWERS(tutti_allreduce(source, NULL, 4, TUTTI_F32, TUTTI_SUM, world), TUTTI_ERR_ARG,
            says(ranks, "target is NULL"));
    ANSWERS(tutti_allreduce(source, target, SIZE_MAX / 2, TUTTI_F32, TUTTI_SUM, world),
            TUTTI_ERR_COUNT, says(ranks, "more than memory can hold"));
    ANSWERS(tutti_allreduce(source, target, 4, (tutti_type)99, TUTTI_SUM, world), TUTTI_ERR_TYPE,
            says(ranks, "unknown type 99"));
    ANSWERS(tutti_allreduce(source, target, 4, TUTTI_F32, (tutti_op)99, world), TUTTI_ERR_OP,
            says(ranks, "operation 99"));
    ANSWERS(tutti_allreduce(source, target, 4, TUTTI_F32, TUTTI_MAXLOC, world), TUTTI_ERR_OP);
    ANSWERS(tutti_allreduce(source, target, 4, TUTTI_F32, TUTTI_BAND, world), TUTTI_ERR_TYPE,
            says(ranks, "not defined on f32"));
    ANSWERS(tutti_allreduce(source, source + 1, 3, TUTTI_F32, TUTTI_SUM, world), TUTTI_ERR_ARG,
            says(ranks, "overlap"));
    ANSWERS(tutti_bcast(target, 4, TUTTI_F32, ranks->size, world), TUTTI_ERR_ROOT,
            says(ranks, "root"));
    ANSWERS(tutti_bcast(target, 4, TUTTI_F32, -1, world), TUTTI_ERR_ROOT);
    ANSWERS(tutti_bcast(NULL, 4, TUTTI_F32, 0, world), TUTTI_ERR_ARG);
    ANSWERS(tutti_allreduce(source, target, 4, TUTTI_F32, TUTTI_SUM, NULL), TUTTI_ERR_ARG);
    ANSWERS(tutti_iallreduce(source, target, 4, TUTTI_F32, TUTTI_SUM, world, NULL), TUTTI_ERR_ARG);
    ANSWERS(tutti_comm_free(world), TUTTI_ERR_ARG);
    ANSWERS(tutti_comm_dup(world, NULL), TUTTI_ERR_ARG);
    for (int i = 0; i < 4; i++)
        REQUIRE(target[i] == 9, "a rejected call touched its target");
    SUCCEED(tutti_comm_dup(world, &dup));
    SUCCEED(tutti_comm_free(dup));
    ANSWERS(tutti_comm_free(dup), TUTTI_ERR_ARG);
    ANSWERS(tutti_barrier(dup), TUTTI_ERR_ARG);
    SUCCEED(tutti_allreduce(source, target, 4, TUTTI_F32, TUTTI_MAX, world));
    SUCCEED(tutti_allreduce(NULL, NULL, 0, TUTTI_F32, TUTTI_MAX, world));
}

static void requests(struct ranks *ranks) {
    float x = 1, y;
    tutti_request request = TUTTI_REQUEST_NULL, stale;
    SUCCEED(tutti_wait(ranks->job, &request));
    SUCCEED(tutti_iallreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, ranks->world, &request));
    ANSWERS(tutti_finalize(ranks->job), TUTTI_ERR_BUSY, says(ranks, "1 requests"));
    stale = request;
    SUCCEED(tutti_wait(ranks->job, &request));
    ANSWERS(tutti_wait(ranks->job, &stale), TUTTI_ERR_ARG, says(ranks, "completed before"));
    SUCCEED(tutti_iallreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, ranks->world, &request));
    ANSWERS(tutti_test(ranks->job, &stale), TUTTI_ERR_ARG);
    SUCCEED(tutti_wait(ranks->job, &request));
    stale = 12345;
    ANSWERS(tutti_wait(ranks->job, &stale), TUTTI_ERR_ARG);
    ANSWERS(tutti_wait(ranks->job, NULL), TUTTI_ERR_ARG);
}

/* Others may have found it before this rank made its call. */
static bool found_mismatch(struct ranks *ranks, tutti_status status) {
    return status == TUTTI_ERR_MISMATCH ||
           (status == TUTTI_ERR_COMM && strstr(tutti_last_error(ranks->job), "MISMATCH"));
}

/* After a mismatch every rank returns, the comm is ruined, others go on. */
static void expect_mismatch(struct ranks *ranks, tutti_comm *comm, tutti_status status) {
    float x = 1, y;
    REQUIRE(found_mismatch(ranks, status), "%s", tutti_status_string(status));
    ANSWERS(tutti_barrier(comm), TUTTI_ERR_COMM);
    SUCCEED(tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, ranks->world));
    REQUIRE(y == (float)ranks->size, "the world is wrong");
}

static void counts_differ(struct ranks *ranks) {
    tutti_comm *comm;
    float x[8] = {0}, y[8];
    SUCCEED(tutti_comm_dup(ranks->world, &comm));
    size_t count = ranks->rank == 0 ? 2 : 3;
    tutti_status status = tutti_allreduce(x, y, count, TUTTI_F32, TUTTI_SUM, comm);
    expect_mismatch(ranks, comm, status);
}

static void kinds_differ(struct ranks *ranks) {
    tutti_comm *comm;
    float x[8] = {0}, y[8];
    SUCCEED(tutti_comm_dup(ranks->world, &comm));
    tutti_status status = ranks->rank == 0 ? tutti_allreduce(x, y, 8, TUTTI_F32, TUTTI_SUM, comm)
                                           : tutti_barrier(comm);
    expect_mismatch(ranks, comm, status);
}

/* Rank 0 and rank 1 both believe to be the root: no message tells, the next call does. */
static void crossed_roots(struct ranks *ranks) {
    tutti_comm *comm;
    int32_t x = ranks->rank;
    SUCCEED(tutti_comm_dup(ranks->world, &comm));
    tutti_status status = tutti_bcast(&x, 1, TUTTI_I32, ranks->rank % 2, comm);
    if (status == TUTTI_OK)
        status = tutti_barrier(comm);
    REQUIRE(found_mismatch(ranks, status), "%s", tutti_status_string(status));
    if (ranks->size == 2 && status == TUTTI_ERR_MISMATCH &&
        !strstr(tutti_last_error(ranks->job), "given up"))
        says(ranks, "from root");
    SUCCEED(tutti_barrier(ranks->world));
}

/* The same with more than a board holds: both wait for room that nobody makes. */
static void crossed_large(struct ranks *ranks) {
    enum { COUNT = 1 << 21 };
    static int32_t x[COUNT];
    tutti_comm *comm;
    SUCCEED(tutti_comm_dup(ranks->world, &comm));
    tutti_status status = tutti_bcast(x, COUNT, TUTTI_I32, ranks->rank % 2, comm);
    if (status == TUTTI_OK)
        status = tutti_barrier(comm);
    REQUIRE(found_mismatch(ranks, status), "%s", tutti_status_string(status));
    SUCCEED(tutti_barrier(ranks->world));
}

/* One rank's call was rejected, the others' not: the next call finds it. */
static void rejected_on_one(struct ranks *ranks) {
    tutti_comm *comm;
    float x = 1, y;
    SUCCEED(tutti_comm_dup(ranks->world, &comm));
    if (ranks->rank == 0)
        ANSWERS(tutti_allreduce(NULL, &y, 1, TUTTI_F32, TUTTI_SUM, comm), TUTTI_ERR_ARG);
    expect_mismatch(ranks, comm, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, comm));
}

/* Survivors get a status that names the dead rank, and can finalize. */
static void killed(struct ranks *ranks) {
    float x = 1, y;
    char name[32];
    int victim = ranks->size - 1;
    SUCCEED(tutti_barrier(ranks->world));
    if (ranks->rank == victim)
        raise(SIGKILL);
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 3 && status == TUTTI_OK; i++)
        status = tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, ranks->world);
    /* a call that had all it needed succeeds; then the next one finds the comm ruined */
    REQUIRE(status == TUTTI_ERR_DEAD || status == TUTTI_ERR_UNREACHABLE || status == TUTTI_ERR_COMM,
            "%s", tutti_status_string(status));
    snprintf(name, sizeof name, "rank %d (", victim);
    says(ranks, name);
    tutti_finalize(ranks->job);
    ranks->job = NULL;
}

/* A rank that comes too late for TUTTI_TIMEOUT_MS, which the test sets. */
static void deadline(struct ranks *ranks) {
    tutti_comm *comm;
    SUCCEED(tutti_comm_dup(ranks->world, &comm));
    if (ranks->rank == 0)
        sleep(3);
    tutti_status status = TUTTI_OK;
    /* the messages of the others are there: rank 0's first barrier may succeed */
    for (int i = 0; i < 3 && status == TUTTI_OK; i++)
        status = tutti_barrier(comm);
    REQUIRE(status == TUTTI_ERR_TIMEOUT || (ranks->rank == 0 && status == TUTTI_ERR_COMM), "%s",
            tutti_status_string(status));
    if (ranks->rank == 1 && ranks->size <= 3) /* then all wait for rank 0 itself */
        says(ranks, "rank 0");
    sleep(4); /* the process must not end before rank 0 has seen it */
    tutti_finalize(ranks->job);
    ranks->job = NULL;
}

/* Where shared memory has room for lines only: a large call says so, small ones go on. */
static void no_room(struct ranks *ranks) {
    enum { COUNT = 1 << 18 };
    static float x[COUNT], y[COUNT];
    float one = 1, sum;
    for (int i = 0; i < 2; i++) {
        y[0] = 9;
        ANSWERS(tutti_allreduce(x, y, COUNT, TUTTI_F32, TUTTI_SUM, ranks->world), TUTTI_ERR_MEMORY,
                says(ranks, "/dev/shm"));
        REQUIRE(y[0] == 9, "a rejected call touched its target");
        SUCCEED(tutti_allreduce(&one, &sum, 1, TUTTI_F32, TUTTI_SUM, ranks->world));
        REQUIRE(sum == (float)ranks->size, "the small sum is %g", (double)sum);
    }
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"arguments", arguments},
                                                 {"requests", requests},
                                                 {"counts_differ", counts_differ},
                                                 {"kinds_differ", kinds_differ},
                                                 {"crossed_roots", crossed_roots},
                                                 {"crossed_large", crossed_large},
                                                 {"rejected_on_one", rejected_on_one},
                                                 {"killed", killed},
                                                 {"deadline", deadline},
                                                 {"no_room", no_room},
                                                 {0}};
    return launched_main(argc, argv, tests);
}
