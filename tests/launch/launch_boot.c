/*
 * The bootstrap and the topology under a real launcher: launch_boot CASE [NUMBER]. A rank that saw
 * what it should says "ok RANK CASE" and returns 0.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bootstrap.h"
#include "runtime/clock.h"
#include "runtime/env.h"
#include "runtime/topology.h"

enum { WINDOW_BYTES = 1 << 20, BLOCK_BYTES = 3000 };

/* One rank of a case. */
struct rank {
    struct tu_env env;
    struct tu_boot *boot;
    struct tu_shmem window;
    struct tu_topology *topology;
    uint32_t number; /* of the command line */
    const char *wrong;
};

static bool expect(struct rank *rank, bool right, const char *what) {
    if (!right && !rank->wrong) {
        rank->wrong = what;
        fprintf(stderr, "rank %d: expected: %s; last error: %s\n", rank->env.rank, what,
                rank->env.error);
    }
    return right;
}

static bool open_boot(struct rank *rank) {
    memset(&rank->env, 0, sizeof rank->env);
    rank->env.rank = -1;
    if (!expect(rank, tu_config_load(&rank->env) == TUTTI_OK, "knobs")) {
        return false;
    }
    return expect(rank, tu_boot_open(&rank->env, NULL, &rank->boot) == TUTTI_OK, "open");
}

static void close_boot(struct rank *rank) {
    rank->boot->ops->close(rank->boot);
    rank->boot = NULL;
}

static tutti_status fence(struct rank *rank) {
    return rank->boot->ops->fence(rank->boot, 10000);
}

/* As of rank r in round n; all differ. */
static void fill(unsigned char *block, uint32_t r, uint32_t n) {
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        block[i] = (unsigned char)(r * 17 + n * 101 + i * 7 + (i >> 8));
    }
}

static tutti_status exchange(struct rank *rank, uint32_t n, const uint32_t *from, uint32_t count,
                             unsigned char *out, int timeout_ms) {
    unsigned char mine[BLOCK_BYTES];

    fill(mine, rank->boot->rank, n);
    return rank->boot->ops->exchange(rank->boot, "test", mine, sizeof mine, from, count, out,
                                     timeout_ms);
}

static void check_exchange(struct rank *rank, uint32_t n, const uint32_t *from, uint32_t count) {
    unsigned char *out = calloc(count + 1, BLOCK_BYTES), wanted[BLOCK_BYTES];

    expect(rank, exchange(rank, n, from, count, out, 20000) == TUTTI_OK, "an exchange");
    for (uint32_t i = 0; i < count; i++) {
        fill(wanted, from ? from[i] : i, n);
        expect(rank, memcmp(wanted, out + (size_t)i * BLOCK_BYTES, BLOCK_BYTES) == 0, "its bytes");
    }
    free(out);
}

static bool make_topology(struct rank *rank) {
    struct tu_env *env = &rank->env;

    return expect(rank, tu_shmem_create(env, WINDOW_BYTES, &rank->window) == TUTTI_OK, "window") &&
           expect(rank, tu_shmem_reserve(env, &rank->window, 0, 4096) == TUTTI_OK, "reserve") &&
           expect(rank,
                  tu_topology_make(env, rank->boot, &rank->window, true, &rank->topology) ==
                      TUTTI_OK,
                  "topology");
}

static void free_topology(struct rank *rank) {
    tu_topology_free(rank->topology);
    tu_shmem_destroy(&rank->window);
}

/* ---- cases --------------------------------------------------------------------------------- */

/* Exchanges with all, some and none of the ranks; `number` times from open to close. */
static void run_exchange(struct rank *rank) {
    for (uint32_t life = 0; life < rank->number && open_boot(rank); life++) {
        uint32_t last = rank->boot->size - 1, some[] = {last, 0, last};

        for (uint32_t n = 0; n < 3; n++) {
            check_exchange(rank, life * 8 + n, NULL, rank->boot->size);
        }
        check_exchange(rank, life * 8 + 3, some, 3);
        check_exchange(rank, life * 8 + 4, NULL, 0);
        expect(rank, fence(rank) == TUTTI_OK, "fence");
        close_boot(rank);
    }
}

/* Jobs inside each other: PMIx stays usable for the outer one. */
static void run_nested(struct rank *rank) {
    struct rank inner = {0};

    if (open_boot(rank) && open_boot(&inner)) {
        check_exchange(&inner, 1, NULL, inner.boot->size);
        check_exchange(rank, 2, NULL, rank->boot->size);
        close_boot(&inner);
        check_exchange(rank, 3, NULL, rank->boot->size);
        expect(rank, !inner.wrong, "the inner job");
        close_boot(rank);
    }
}

/* Nodes: by host and label; every window of the node can be read and written. */
static void run_topology(struct rank *rank) {
    for (uint32_t life = 0; life < rank->number && open_boot(rank); life++) {
        uint32_t self = rank->boot->rank, peers = 0;
        struct tu_rank_info *info;

        if (!make_topology(rank)) {
            return;
        }
        info = rank->topology->info;
        memset(rank->window.memory, (int)self + 1, 64);
        expect(rank, fence(rank) == TUTTI_OK, "fence");
        for (uint32_t r = 0; r < rank->boot->size; r++) {
            const unsigned char *window = info[r].window;

            expect(rank, (info[r].node == info[self].node) == (window != NULL), "node's windows");
            expect(rank, !window || window[63] == r + 1, "bytes of a window");
            peers += window != NULL;
        }
        printf("node %u: rank %u of %u, on host %u\n", info[self].node, self, peers,
               rank->topology->ranks_on_host);
        expect(rank, fence(rank) == TUTTI_OK, "fence");
        free_topology(rank);
        close_boot(rank);
    }
}

static bool is_named(const struct rank *rank, uint32_t who) {
    char name[32];

    snprintf(name, sizeof name, "rank %u (host ", who);
    return strstr(rank->env.error, name) != NULL;
}

/* Rank `number` never joins. The others end soon after the deadline and name it. */
static void run_missing(struct rank *rank) {
    const char *own = getenv("PMIX_RANK");
    uint64_t start_ns = tu_now_ns(), took_ms;
    tutti_status status;

    if (own && (uint32_t)atoi(own) == rank->number) {
        rank->env.rank = atoi(own);
        sleep(6);
        return;
    }
    if (!open_boot(rank)) {
        return;
    }
    status = exchange(rank, 0, &(uint32_t){0}, 1, (unsigned char[BLOCK_BYTES]){0}, 1500);
    took_ms = (tu_now_ns() - start_ns) / 1000000u;
    expect(rank, status == TUTTI_ERR_TIMEOUT, "TIMEOUT");
    expect(rank, is_named(rank, rank->number), "the missing rank's name");
    expect(rank, !is_named(rank, rank->boot->rank), "no other name");
    expect(rank, took_ms >= 1500 && took_ms < 4500, "the time");
    close_boot(rank);
}

/*
 * Rank `number` ends properly instead of joining, which nobody reports: the others find out at once, or,
 * if the launcher's fence has missed it, at the deadline.
 */
static void run_leaves(struct rank *rank) {
    unsigned char *all;
    uint64_t start_ns;
    tutti_status status;

    if (!open_boot(rank)) {
        return;
    }
    expect(rank, fence(rank) == TUTTI_OK, "fence");
    start_ns = tu_now_ns();
    if (rank->boot->rank != rank->number) {
        all = calloc(rank->boot->size, BLOCK_BYTES);
        status = exchange(rank, 0, NULL, rank->boot->size, all, 1500);
        expect(rank, status == TUTTI_ERR_DEAD || status == TUTTI_ERR_TIMEOUT, "DEAD or TIMEOUT");
        expect(rank, is_named(rank, rank->number), "the name of the rank that left");
        expect(rank, tu_now_ns() - start_ns < UINT64_C(5000000000), "the time");
        free(all);
    }
    close_boot(rank);
}

/* Waits for the event and for the process table, and says how long each took. */
static void await_death(struct rank *rank, uint64_t since_ns, bool same_host) {
    bool told = false, seen = !same_host;
    uint32_t who;
    enum tu_loss how;

    while ((!told || !seen) && tu_now_ns() - since_ns < UINT64_C(10000000000)) {
        if (rank->boot->ops->lost(rank->boot, &who, &how)) {
            told = expect(rank, who == rank->number && how == TU_LOSS_KILLED, "the killed rank");
            printf("told after %.1f ms\n", (double)(tu_now_ns() - since_ns) / 1e6);
        }
        if (tu_topology_died(rank->topology, &who) && who == rank->number) { /* others end, too */
            seen = true;
            printf("seen after %.1f ms\n", (double)(tu_now_ns() - since_ns) / 1e6);
        }
        usleep(200);
    }
    expect(rank, told, "the launcher's event");
    expect(rank, seen, "the end of a process");
}

/*
 * Rank `number` is killed while the others wait in an exchange, which has no deadline: it ends with the
 * name, and further ones fail at once.
 */
static void run_killed(struct rank *rank) {
    unsigned char *all;
    uint64_t start_ns;
    tutti_status status;
    bool same_host;

    if (!open_boot(rank) || !make_topology(rank)) {
        return;
    }
    expect(rank, fence(rank) == TUTTI_OK, "fence");
    start_ns = tu_now_ns();
    if (rank->boot->rank == rank->number) {
        usleep(300000);
        raise(SIGKILL);
    }
    same_host = strcmp(rank->topology->info[rank->number].host, rank->env.host) == 0;
    all = calloc(rank->boot->size, BLOCK_BYTES);
    status = exchange(rank, 0, NULL, rank->boot->size, all, 0);
    free(all);
    expect(rank, status == TUTTI_ERR_DEAD, "DEAD");
    expect(rank, is_named(rank, rank->number), "the dead rank's name");
    printf("exchange ended after %.1f ms: %s\n", (double)(tu_now_ns() - start_ns) / 1e6,
           rank->env.error);
    await_death(rank, start_ns, same_host);
    expect(rank, fence(rank) == TUTTI_ERR_DEAD, "DEAD for a fence");
    expect(rank, exchange(rank, 1, NULL, 0, NULL, 0) == TUTTI_ERR_DEAD, "DEAD again");
    free_topology(rank);
    close_boot(rank);
}

/* Rank `number` can't go on: the others fail with its reason, and the next job works. */
static void run_refuses(struct rank *rank) {
    if (!open_boot(rank)) {
        return;
    }
    if (rank->boot->rank == rank->number) {
        tu_fail(&rank->env, TUTTI_ERR_MEMORY, "no window");
        tu_topology_refuse(&rank->env, rank->boot, TUTTI_ERR_MEMORY);
    } else {
        tutti_status status;

        expect(rank, tu_shmem_create(&rank->env, WINDOW_BYTES, &rank->window) == TUTTI_OK,
               "window");
        status = tu_topology_make(&rank->env, rank->boot, &rank->window, true, &rank->topology);
        expect(rank, status == TUTTI_ERR_MEMORY, "MEMORY");
        expect(rank, is_named(rank, rank->number) && strstr(rank->env.error, "no window"),
               "the reason");
        tu_shmem_destroy(&rank->window);
    }
    close_boot(rank);
    run_topology(rank);
}

/* Without a launcher: a job of one rank. */
static void run_single(struct rank *rank) {
    if (open_boot(rank)) {
        expect(rank, rank->boot->size == 1, "one rank");
        check_exchange(rank, 0, NULL, 1);
        close_boot(rank);
        run_topology(rank);
    }
}

/* By a launcher without PMIx. */
static void run_foreign(struct rank *rank) {
    tu_config_defaults(&rank->env.config);
    expect(rank, tu_boot_open(&rank->env, NULL, &rank->boot) == TUTTI_ERR_LAUNCH, "LAUNCH");
    expect(rank, strstr(rank->env.error, "PMI_SIZE=4") && strstr(rank->env.error, "prterun"),
           "launcher and remedy");
}

static const struct {
    const char *name;
    void (*run)(struct rank *rank);
} cases[] = {
    {"exchange", run_exchange}, {"nested", run_nested}, {"topology", run_topology},
    {"missing", run_missing},   {"leaves", run_leaves}, {"killed", run_killed},
    {"refuses", run_refuses},   {"single", run_single}, {"foreign", run_foreign},
};

int main(int argc, char **argv) {
    struct rank rank = {.number = argc > 2 ? (uint32_t)atoi(argv[2]) : 1, .env = {.rank = -1}};

    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run(&rank);
            if (!rank.wrong) {
                printf("ok %d %s\n", rank.env.rank, argv[1]);
            }
            return rank.wrong != NULL;
        }
    }
    fprintf(stderr, "no such case\n");
    return 2;
}
