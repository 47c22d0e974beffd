/* The bootstraps without a launcher: caller, local (threads and processes), single. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/env.h"
#include "runtime/bootstrap.h"

/* Cases of one body: which rank misbehaves and how. */
struct scene {
    enum { WELL, DIES, LEAVES, HANGS } what;
    uint32_t rank;
    size_t bytes;
    tutti_status expected; /* of the others */
    const char *text;      /* in their error */
    uint64_t seed;
};

static struct tu_boot *open_boot(struct tu_env *env, const struct tutti_options *options) {
    struct tu_boot *boot = NULL;

    memset(env, 0, sizeof *env);
    env->rank = -1;
    env->log.level = TU_LOG_OFF;
    tu_config_defaults(&env->config);
    return tu_boot_open(env, options, &boot) == TUTTI_OK ? boot : NULL;
}

static unsigned char byte_of(uint32_t rank, int round, size_t i) {
    return (unsigned char)(rank * 7 + (unsigned)round * 31 + i * 13);
}

/* Three exchanges and a fence. 0, or what went wrong. */
static int exchange_thrice(struct tu_boot *boot, size_t bytes) {
    unsigned char *mine = malloc(bytes), *all = malloc(bytes * (boot->size + 1));
    uint32_t some[2] = {boot->size - 1, 0};
    int wrong = 0;

    for (int round = 0; round < 3 && !wrong; round++) {
        const uint32_t *rank = round == 1 ? some : NULL;
        uint32_t ranks = round == 1 ? 2 : boot->size;

        for (size_t i = 0; i < bytes; i++) {
            mine[i] = byte_of(boot->rank, round, i);
        }
        if (boot->ops->exchange(boot, "round", mine, bytes, rank, ranks, all, 0) != TUTTI_OK) {
            wrong = 1;
        }
        for (size_t i = 0; i < bytes * ranks && !wrong; i++) {
            uint32_t from = rank ? rank[i / bytes] : (uint32_t)(i / bytes);

            wrong = all[i] == byte_of(from, round, i % bytes) ? 0 : 2;
        }
    }
    if (!wrong && boot->ops->fence(boot, 0) != TUTTI_OK) {
        wrong = 3;
    }
    free(mine);
    free(all);
    return wrong;
}

/* The scene's rank misbehaves in the second exchange; the others say whether they noticed rightly. */
static int body(const struct tutti_options *options, void *context) {
    const struct scene *scene = context;
    struct tu_env env;
    struct tu_boot *boot = open_boot(&env, options);
    bool actor = boot && scene->what != WELL && boot->rank == scene->rank;
    tutti_status status;
    uint32_t one = 1, all[64];
    int wrong;

    if (!boot || boot->rank != (uint32_t)options->rank || env.rank != options->rank) {
        return 10;
    }
    wrong = exchange_thrice(boot, scene->bytes);
    if (actor && scene->what == DIES) {
        raise(SIGKILL);
    }
    if (actor && scene->what == HANGS) {
        sleep(30);
    }
    if (!actor && !wrong && scene->what != WELL) {
        status = boot->ops->exchange(boot, "last", &one, sizeof one, NULL, boot->size, all, 0);
        if (status != scene->expected || !strstr(env.error, scene->text)) {
            fprintf(stderr, "rank %u: %s: %s\n", boot->rank, tu_status_name(status), env.error);
            wrong = 11;
        }
    }
    boot->ops->close(boot);
    return wrong;
}

Test(local, threads_exchange, .timeout = 60) {
    static const uint32_t ranks[] = {1, 2, 3, 8, 64};
    static const size_t bytes[] = {200000, 64 * 1024 - 16, 64 * 1024 + 1, 300, 40};

    for (size_t i = 0; i < 5; i++) {
        struct scene scene = {.bytes = bytes[i]};

        cr_assert_eq(tu_local_run(TU_LOCAL_THREADS, ranks[i], body, &scene, 0), 0);
    }
}

Test(local, processes_exchange, .timeout = 60) {
    struct scene scene = {.bytes = 1000};

    for (uint32_t ranks = 1; ranks <= 16; ranks *= 2) {
        cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, ranks, body, &scene, 20000), 0);
    }
    scene.bytes = 150000;
    cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, 3, body, &scene, 0), 0);
}

Test(local, a_killed_process_is_noticed_at_once, .timeout = 60) {
    struct scene scene = {.what = DIES,
                          .rank = 2,
                          .bytes = 8,
                          .expected = TUTTI_ERR_DEAD,
                          .text = "nothing came from rank 2"};
    uint64_t start_ns = tu_now_ns();

    cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, 4, body, &scene, 0), 1);
    cr_assert_lt(tu_now_ns() - start_ns, UINT64_C(10000000000));
}

Test(local, a_thread_that_returns_is_noticed_at_once, .timeout = 60) {
    struct scene scene = {.what = LEAVES,
                          .rank = 0,
                          .bytes = 8,
                          .expected = TUTTI_ERR_DEAD,
                          .text = "nothing came from rank 0"};

    cr_assert_eq(tu_local_run(TU_LOCAL_THREADS, 4, body, &scene, 0), 0);
}

Test(local, a_hanging_process_is_named_and_killed, .timeout = 60) {
    struct scene scene = {.what = HANGS,
                          .rank = 1,
                          .bytes = 8,
                          .expected = TUTTI_ERR_TIMEOUT,
                          .text = "nothing came from rank 1"};
    uint64_t start_ns = tu_now_ns(), took_ms;

    cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, 3, body, &scene, 2000), 1);
    took_ms = (tu_now_ns() - start_ns) / 1000000u;
    cr_assert(took_ms >= 2000 && took_ms < 20000, "%lu ms", (unsigned long)took_ms);
}

static int fail_with(const struct tutti_options *options, void *context) {
    (void)context;
    return options->rank % 2;
}

Test(local, counts_failures, .timeout = 60) {
    cr_assert_eq(tu_local_run(TU_LOCAL_THREADS, 5, fail_with, NULL, 0), 2);
    cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, 5, fail_with, NULL, 0), 2);
}

/* ---- caller -------------------------------------------------------------------------------- */

/* Plays two more ranks: their blocks are made of mine. */
struct trick {
    int code;    /* to return */
    bool swap;   /* ranks 1 and 2 */
    bool forget; /* rank 2 */
};

static int play(void *context, const void *mine, void *received, size_t bytes) {
    const struct trick *trick = context;
    unsigned char *block = received;

    for (uint32_t rank = 0; rank < 3; rank++) {
        uint32_t says = trick->swap && rank > 0 ? 3 - rank : rank;

        if (trick->forget && rank == 2) {
            continue;
        }
        memcpy(block + rank * bytes, mine, bytes);
        memcpy(block + rank * bytes + 8, &says, sizeof says); /* in the stamp */
    }
    return trick->code;
}

static tutti_status play_out(struct trick trick, char *text, size_t text_bytes) {
    struct tutti_options options = {
        .size = sizeof options, .allgather = play, .allgather_context = &trick, .ranks = 3};
    struct tu_env env;
    struct tu_boot *boot = open_boot(&env, &options);
    uint32_t mine = 5, all[3] = {0};
    tutti_status status;

    cr_assert(boot);
    cr_assert_eq(boot->launcher_node, UINT32_MAX);
    status = boot->ops->exchange(boot, "try", &mine, sizeof mine, NULL, 3, all, 0);
    cr_assert_eq(all[2], status == TUTTI_OK ? 5u : 0u);
    snprintf(text, text_bytes, "%s", env.error);
    boot->ops->close(boot);
    return status;
}

Test(caller, failures_of_the_allgather) {
    char text[1024];

    cr_assert_eq(play_out((struct trick){0}, text, sizeof text), TUTTI_OK);
    cr_assert_eq(play_out((struct trick){.code = 5}, text, sizeof text), TUTTI_ERR_LAUNCH);
    cr_assert(strstr(text, "returned 5") && !strstr(text, "nothing came"), "%s", text);
    cr_assert_eq(play_out((struct trick){.code = 5, .forget = true}, text, sizeof text),
                 TUTTI_ERR_LAUNCH);
    cr_assert(strstr(text, "nothing came from rank 2"), "%s", text);
    cr_assert_eq(play_out((struct trick){.code = ETIMEDOUT, .forget = true}, text, sizeof text),
                 TUTTI_ERR_TIMEOUT);
    cr_assert_eq(play_out((struct trick){.swap = true}, text, sizeof text), TUTTI_ERR_LAUNCH);
    cr_assert(strstr(text, "in the place of rank 1's"), "%s", text);
}

Test(caller, arguments) {
    struct trick trick = {0};
    struct tutti_options options = {
        .size = sizeof options, .allgather = play, .allgather_context = &trick};
    struct tu_env env;

    cr_assert_null(open_boot(&env, &options));
    cr_assert(strstr(env.error, "ranks 0"), "%s", env.error);
    options.ranks = 2;
    options.rank = 2;
    cr_assert_null(open_boot(&env, &options));
    options.rank = -1;
    cr_assert_null(open_boot(&env, &options));
}

/* ---- which one ------------------------------------------------------------------------------ */

static void clear_launchers(void) {
    static const char *const variable[] = {"PMIX_NAMESPACE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE",
                                           "SLURM_STEP_ID", "MPI_LOCALNRANKS"};

    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        unsetenv(variable[i]);
    }
}

Test(choice, no_launcher_is_one_rank) {
    struct tu_env env;
    struct tu_boot *boot;
    uint32_t rank;
    enum tu_loss how;

    clear_launchers();
    boot = open_boot(&env, NULL);
    cr_assert(boot);
    cr_assert(boot->size == 1 && boot->rank == 0 && env.rank == 0);
    cr_assert(env.host[0]);
    cr_assert_eq(exchange_thrice(boot, 100), 0);
    cr_assert_not(boot->ops->lost(boot, &rank, &how));
    boot->ops->close(boot);
}

Test(choice, a_launcher_without_pmix_is_named) {
    struct tu_env env;

    clear_launchers();
    setenv("PMI_SIZE", "4", 1);
    cr_assert_null(open_boot(&env, NULL));
    cr_assert(strstr(env.error, "PMI_SIZE=4") && strstr(env.error, "prterun"), "%s", env.error);
}
