/*
 * instructions CALLS: two ranks in one thread take turns to start and to test allreduces of 8 bytes.
 * Nobody ever waits, so what drive() executes is what calls cost: test_instructions.py counts it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

enum { RANKS = 2, BYTES_MOST = 1 << 16 };

/* Where the two meet while they open and close. */
struct table {
    pthread_barrier_t barrier;
    char block[RANKS][BYTES_MOST];
};

struct rank {
    struct table *table;
    int rank;
    tutti_job *job;
    tutti_status status;
    char error[512];
    float source[2], target[2];
};

static int gather(void *context, const void *mine, void *received, size_t bytes) {
    struct rank *rank = context;
    struct table *table = rank->table;
    if (bytes > BYTES_MOST)
        return 1;
    memcpy(table->block[rank->rank], mine, bytes);
    pthread_barrier_wait(&table->barrier);
    for (size_t r = 0; r < RANKS; r++)
        memcpy((char *)received + r * bytes, table->block[r], bytes);
    pthread_barrier_wait(&table->barrier);
    return 0;
}

static void *open_job(void *argument) {
    struct rank *rank = argument;
    tutti_options options = {.size = sizeof options,
                             .allgather = gather,
                             .allgather_context = rank,
                             .rank = rank->rank,
                             .ranks = RANKS,
                             .error = rank->error,
                             .error_bytes = sizeof rank->error};
    rank->status = tutti_init(&options, &rank->job);
    return NULL;
}

static void *close_job(void *argument) {
    struct rank *rank = argument;
    rank->status = tutti_finalize(rank->job);
    return NULL;
}

/* Both ranks at once. */
static void together(struct rank *rank, void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, &rank[1])) {
        fprintf(stderr, "instructions: no second thread\n");
        exit(1);
    }
    body(&rank[0]);
    pthread_join(thread, NULL);
    for (int r = 0; r < RANKS; r++)
        if (rank[r].status) {
            fprintf(stderr, "instructions: rank %d: %s %s\n", r,
                    tutti_status_string(rank[r].status), rank[r].error);
            exit(1);
        }
}

/* Counted, by its name. Returns how many calls were not done at the first test of the last rank. */
long drive(struct rank *rank, long calls) __attribute__((noinline));

long drive(struct rank *rank, long calls) {
    long late = 0;
    for (long i = 0; i < calls; i++) {
        tutti_request request[RANKS];
        for (int r = 0; r < RANKS; r++)
            tutti_iallreduce(rank[r].source, rank[r].target, 2, TUTTI_F32, TUTTI_SUM,
                             tutti_world(rank[r].job), &request[r]);
        for (int r = 0; r < RANKS; r++)
            while (tutti_test(rank[r].job, &request[r]) == TUTTI_IN_PROGRESS)
                late++;
    }
    return late;
}

int main(int argc, char **argv) {
    static struct table table;
    struct rank rank[RANKS];
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    memset(rank, 0, sizeof rank);
    pthread_barrier_init(&table.barrier, NULL, RANKS);
    for (int r = 0; r < RANKS; r++) {
        rank[r].table = &table;
        rank[r].rank = r;
        rank[r].source[0] = (float)r + 1;
        rank[r].source[1] = (float)r + 10;
    }
    together(rank, open_job);
    long late = drive(rank, calls);
    bool right = true;
    for (int r = 0; r < RANKS; r++)
        right = right && rank[r].target[0] == 3 && rank[r].target[1] == 21;
    together(rank, close_job);
    printf("%ld calls, %ld more tests, %s\n", calls, late, right ? "right" : "wrong");
    return !right;
}
