/*
 * Order: many calls back to back, roots that run ahead, requests completed in any order, buffers used
 * again at once, communicators that come and go.
 */
#include "launched.h"

static double sum_of_ranks(const struct ranks *ranks) {
    return ranks->size * (ranks->size - 1) / 2.0;
}

static void allreduce_once(struct ranks *ranks, tutti_comm *comm, size_t count, double salt) {
    static double source[4096], target[4096];
    for (size_t i = 0; i < count; i++) {
        source[i] = ranks->rank + salt + (double)i;
        target[i] = -1;
    }
    SUCCEED(tutti_allreduce(source, target, count, TUTTI_F64, TUTTI_SUM, comm));
    memset(source, 0xff, count * sizeof *source);
    for (size_t i = 0; i < count; i++)
        REQUIRE(target[i] == sum_of_ranks(ranks) + ranks->size * (salt + (double)i),
                "count %zu, element %zu is %g", count, i, target[i]);
}

static void bcast_once(struct ranks *ranks, tutti_comm *comm, size_t count, int root, int salt) {
    static int32_t buffer[8192];
    for (size_t i = 0; i < count; i++)
        buffer[i] = ranks->rank == root ? salt + (int32_t)i : -1;
    SUCCEED(tutti_bcast(buffer, count, TUTTI_I32, root, comm));
    for (size_t i = 0; i < count; i++)
        REQUIRE(buffer[i] == salt + (int32_t)i, "root %d, count %zu, element %zu", root, count, i);
    memset(buffer, 0xff, sizeof buffer);
}

static void mixed(struct ranks *ranks) {
    unsigned state = 7;
    for (int i = 0; i < 1000; i++) {
        unsigned kind = next(&state) % 4, count = next(&state) % 40;
        if (next(&state) % 10 == 0)
            count = next(&state) % 4096;
        if (kind == 0)
            SUCCEED(tutti_barrier(ranks->world));
        else if (kind == 1)
            bcast_once(ranks, ranks->world, 2 * count, (int)(next(&state) % (unsigned)ranks->size),
                       i);
        else
            allreduce_once(ranks, ranks->world, count, i);
    }
}

/* The root does not wait for its readers while there is room, nor may it overwrite what they need. */
static void ahead(struct ranks *ranks) {
    int32_t value[3];
    for (int i = 0; i < 2000; i++) {
        if (ranks->rank != 0 && i % 500 == 0)
            usleep(20000);
        for (int k = 0; k < 3; k++)
            value[k] = ranks->rank == 0 ? i * 3 + k : -1;
        SUCCEED(tutti_bcast(value, 3, TUTTI_I32, 0, ranks->world));
        for (int k = 0; k < 3; k++)
            REQUIRE(value[k] == i * 3 + k, "call %d", i);
        value[0] = value[1] = value[2] = -7;
    }
    for (int i = 0; i < 200; i++)
        bcast_once(ranks, ranks->world, 8000, 0, i);
}

enum { OUTSTANDING = 5, LENGTH = 3000 };

static void requests(struct ranks *ranks) {
    static double source[OUTSTANDING][LENGTH], target[OUTSTANDING][LENGTH];
    unsigned state = 11;
    for (int round = 0; round < 60; round++) {
        tutti_request request[OUTSTANDING];
        size_t count = round % 3 == 0 ? LENGTH : next(&state) % 20;
        for (int k = 0; k < OUTSTANDING; k++) {
            for (size_t i = 0; i < count; i++)
                source[k][i] = ranks->rank * (k + 1) + round;
            SUCCEED(tutti_iallreduce(source[k], target[k], count, TUTTI_F64, TUTTI_SUM,
                                     ranks->world, &request[k]));
        }
        /* every rank completes them in an order of its own */
        for (int n = 0; n < OUTSTANDING; n++) {
            int k = (n * 2 + ranks->rank + round) % OUTSTANDING;
            if ((n + ranks->rank) % 2) {
                SUCCEED(tutti_wait(ranks->job, &request[k]));
            } else {
                tutti_status status;
                while ((status = tutti_test(ranks->job, &request[k])) == TUTTI_IN_PROGRESS)
                    ;
                REQUIRE(status == TUTTI_OK, "test: %s", tutti_status_string(status));
            }
            REQUIRE(request[k] == TUTTI_REQUEST_NULL, "the request is not gone");
            for (size_t i = 0; i < count; i++)
                REQUIRE(target[k][i] == sum_of_ranks(ranks) * (k + 1) + ranks->size * round,
                        "round %d, call %d, element %zu", round, k, i);
        }
    }
}

static void comms(struct ranks *ranks) {
    tutti_comm *held[8] = {0};
    unsigned state = 3;
    for (int i = 0; i < 60; i++) {
        unsigned at = next(&state) % 8;
        if (held[at]) {
            SUCCEED(tutti_comm_free(held[at]));
            held[at] = NULL;
        } else {
            unsigned parent = next(&state) % 8;
            tutti_comm *from = held[parent] ? held[parent] : ranks->world;
            SUCCEED(tutti_comm_dup(from, &held[at]));
            REQUIRE(tutti_size(held[at]) == ranks->size && tutti_rank(held[at]) == ranks->rank,
                    "the duplicate is another group");
        }
        for (unsigned k = 0; k < 8; k++)
            if (held[k] && (k + (unsigned)i) % 3 == 0)
                allreduce_once(ranks, held[k], k * 30 + 1, i);
        bcast_once(ranks, ranks->world, 50, i % ranks->size, i);
    }
}

static void again(struct ranks *ranks) {
    for (int i = 0; i < 3; i++) {
        allreduce_once(ranks, ranks->world, 100, i);
        rejoin(ranks);
    }
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"mixed", mixed},       {"ahead", ahead},
                                                 {"requests", requests}, {"comms", comms},
                                                 {"again", again},       {0}};
    return launched_main(argc, argv, tests);
}
