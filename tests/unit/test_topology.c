/* Nodes: the pure splitting, and the topology of local ranks with labels, refusals and deaths. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/env.h"
#include "runtime/topology.h"
#include "runtime/topology_nodes.h"

/* ---- splitting ------------------------------------------------------------------------------ */

enum { MOST = 140, WORDS = (MOST + 63) / 64 };

struct stage {
    struct tu_card card[MOST];
    struct tu_groups groups;
    uint64_t row[MOST][WORDS];
    uint32_t node[MOST];
    uint32_t size;
};

static struct stage *set_stage(uint32_t size) {
    struct stage *stage = calloc(1, sizeof *stage);

    stage->size = size;
    for (uint32_t rank = 0; rank < size; rank++) {
        stage->card[rank].share = 1;
        snprintf(stage->card[rank].host, sizeof stage->card[rank].host, "host");
    }
    return stage;
}

static void make_groups(struct stage *stage) {
    cr_assert(tu_groups_make(stage->card, stage->size, &stage->groups));
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        for (uint32_t i = 0; i < stage->groups.length[rank]; i++) {
            stage->row[rank][i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
}

/* Rank a has not mapped b. */
static void cut(struct stage *stage, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < stage->groups.length[a]; i++) {
        if (stage->groups.order[stage->groups.first[a] + i] == b) {
            stage->row[a][i / 64] &= ~(UINT64_C(1) << (i % 64));
        }
    }
}

static void split(struct stage *stage) {
    cr_assert(tu_groups_split(&stage->groups, stage->size, stage->row[0], WORDS, stage->node));
    for (uint32_t rank = 0; rank < stage->size; rank++) {
        cr_assert_leq(stage->node[rank], rank);
        cr_assert_eq(stage->node[stage->node[rank]], stage->node[rank]);
    }
}

static void leave_stage(struct stage *stage) {
    tu_groups_free(&stage->groups);
    free(stage);
}

Test(nodes, groups_by_host_label_and_launcher) {
    struct stage *stage = set_stage(9);

    strcpy(stage->card[3].host, "other");
    strcpy(stage->card[5].host, "other");
    strcpy(stage->card[1].label, "a");
    strcpy(stage->card[7].label, "a");
    stage->card[2].launcher_node = stage->card[4].launcher_node = 8;
    stage->card[6].share = 0;
    make_groups(stage);
    split(stage);
    static const uint32_t expected[] = {0, 1, 2, 3, 2, 3, 6, 1, 0};
    for (uint32_t rank = 0; rank < 9; rank++) {
        cr_assert_eq(stage->node[rank], expected[rank], "rank %u: %u", rank, stage->node[rank]);
    }
    cr_assert_eq(stage->groups.longest, 2);
    leave_stage(stage);
}

Test(nodes, one_way_is_no_way) {
    struct stage *stage = set_stage(4);

    make_groups(stage);
    cut(stage, 2, 1); /* 1 maps 2 all the same */
    split(stage);
    cr_assert(stage->node[1] == 0 && stage->node[3] == 0 && stage->node[2] == 2);
    leave_stage(stage);
}

Test(nodes, members_share_with_all_members) {
    struct stage *stage = set_stage(MOST);

    make_groups(stage);
    srand(4);
    for (int i = 0; i < 2000; i++) {
        cut(stage, (uint32_t)rand() % MOST, (uint32_t)rand() % MOST);
    }
    split(stage);
    for (uint32_t a = 0; a < MOST; a++) { /* one group: places are ranks */
        for (uint32_t b = 0; b < MOST; b++) {
            if (a != b && stage->node[a] == stage->node[b]) {
                cr_assert(stage->row[a][b / 64] >> (b % 64) & 1, "%u and %u", a, b);
            }
        }
    }
    leave_stage(stage);
}

/* ---- local ranks ---------------------------------------------------------------------------- */

struct scene {
    const char *label[8]; /* NULL: none */
    uint32_t node[8];     /* expected */
    bool share;
    uint32_t refuses; /* rank, or UINT32_MAX */
    uint32_t differs; /* in a knob: rank, or UINT32_MAX */
    uint32_t dies;    /* rank, or UINT32_MAX */
    int repeat;
};

static struct scene plain(void) {
    return (struct scene){.share = true,
                          .refuses = UINT32_MAX,
                          .differs = UINT32_MAX,
                          .dies = UINT32_MAX,
                          .repeat = 1};
}

static int say(const struct tu_env *env, const char *what) {
    fprintf(stderr, "rank %d: %s: %s\n", env->rank, what, env->error);
    return 1;
}

static int check_nodes(struct tu_env *env, const struct scene *scene, struct tu_topology *topology,
                       struct tu_boot *boot) {
    uint32_t self = boot->rank, next = (self + 1) % boot->size;
    unsigned char *own = topology->info[self].window;

    if (topology->ranks_on_host != boot->size || topology->info[self].pid != getpid()) {
        return say(env, "host");
    }
    memset(own, (int)self + 1, 100);
    boot->ops->fence(boot, 0);
    for (uint32_t rank = 0; rank < boot->size; rank++) {
        const struct tu_rank_info *info = &topology->info[rank];
        const unsigned char *window = info->window;
        bool peer = scene->node[rank] == scene->node[self];

        if (info->node != scene->node[rank] || (window != NULL) != peer ||
            strcmp(info->host, env->host) != 0) {
            return say(env, "node");
        }
        if (window && (window[0] != rank + 1 || window[99] != rank + 1)) {
            return say(env, "window");
        }
    }
    boot->ops->fence(boot, 0);
    if (topology->info[next].window) { /* it is shared, not copied */
        ((unsigned char *)topology->info[next].window)[200] = (unsigned char)(next + 50);
    }
    boot->ops->fence(boot, 0);
    return topology->info[(self + boot->size - 1) % boot->size].window && own[200] != self + 50
               ? say(env, "not shared")
               : 0;
}

/* The others end as soon as they have seen it, so their ends may be told, too. */
static int check_death(struct tu_env *env, const struct scene *scene,
                       struct tu_topology *topology) {
    uint64_t deadline_ns = tu_now_ns() + UINT64_C(5000000000);
    uint32_t told[8] = {0}, rank;

    if (topology->rank == scene->dies) {
        usleep(100000);
        raise(SIGKILL);
    }
    while (told[scene->dies] == 0) {
        if (tu_topology_died(topology, &rank)) {
            told[rank]++;
        } else if (tu_now_ns() > deadline_ns) {
            return say(env, "nobody died");
        }
        usleep(1000);
    }
    while (tu_topology_died(topology, &rank)) {
        told[rank]++;
    }
    return told[scene->dies] == 1 && told[topology->rank] == 0 ? 0 : say(env, "who died?");
}

static int make_once(const struct tutti_options *options, const struct scene *scene) {
    struct tu_env env = {.rank = -1};
    struct tu_boot *boot;
    struct tu_topology *topology = NULL;
    struct tu_shmem window;
    tutti_status status, expected = TUTTI_OK;
    int wrong = 0;

    tu_config_defaults(&env.config);
    env.log.level = TU_LOG_OFF;
    if (tu_boot_open(&env, options, &boot) != TUTTI_OK) {
        return say(&env, "open");
    }
    if (scene->label[boot->rank]) {
        snprintf(env.config.node, sizeof env.config.node, "%s", scene->label[boot->rank]);
    }
    if (boot->rank == scene->differs) {
        env.config.ring_slots = 7;
    }
    if (boot->rank == scene->refuses) {
        tu_fail(&env, TUTTI_ERR_CONFIG, "TUTTI_X=y is bad");
        tu_topology_refuse(&env, boot, TUTTI_ERR_CONFIG);
        wrong = strcmp(env.error, "TUTTI_X=y is bad") ? say(&env, "own text") : 0;
        boot->ops->close(boot);
        return wrong;
    }
    if (tu_shmem_create(&env, 1 << 20, &window) != TUTTI_OK ||
        tu_shmem_reserve(&env, &window, 0, 4096) != TUTTI_OK) {
        return say(&env, "window");
    }
    status = tu_topology_make(&env, boot, &window, scene->share, &topology);
    if (scene->refuses != UINT32_MAX || scene->differs != UINT32_MAX) {
        expected = TUTTI_ERR_CONFIG;
    }
    if (status != expected || (status != TUTTI_OK && topology)) {
        wrong = say(&env, tu_status_name(status));
    } else if (scene->refuses != UINT32_MAX) {
        wrong = strstr(env.error, "rank 2 (host ") && strstr(env.error, "TUTTI_X=y is bad")
                    ? 0
                    : say(&env, "refusal");
    } else if (scene->differs != UINT32_MAX) {
        wrong =
            strstr(env.error, "TUTTI_RING") && strstr(env.error, "rank 1") ? 0 : say(&env, "knob");
    } else if (scene->dies != UINT32_MAX) {
        wrong = check_death(&env, scene, topology);
    } else {
        wrong = check_nodes(&env, scene, topology, boot);
    }
    tu_topology_free(topology);
    tu_shmem_destroy(&window);
    boot->ops->close(boot);
    return wrong;
}

static int body(const struct tutti_options *options, void *context) {
    const struct scene *scene = context;
    int wrong = 0;

    for (int i = 0; i < scene->repeat && !wrong; i++) {
        wrong = make_once(options, scene);
    }
    return wrong;
}

static void run_both(uint32_t ranks, struct scene scene) {
    cr_assert_eq(tu_local_run(TU_LOCAL_THREADS, ranks, body, &scene, 0), 0);
    cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, ranks, body, &scene, 20000), 0);
}

Test(topology, one_node, .timeout = 60) {
    struct scene scene = plain();

    scene.repeat = 3;
    run_both(1, scene);
    run_both(4, scene);
}

Test(topology, labels, .timeout = 60) {
    struct scene scene = plain();
    static const uint32_t node[] = {0, 1, 0, 1, 4, 5};
    static const char *const label[] = {"a", "b", "a", "b", NULL, "c"};

    memcpy(scene.node, node, sizeof node);
    memcpy(scene.label, label, sizeof label);
    run_both(6, scene);
}

Test(topology, without_sharing_all_are_alone, .timeout = 60) {
    struct scene scene = plain();

    scene.share = false;
    for (uint32_t rank = 0; rank < 8; rank++) {
        scene.node[rank] = rank;
    }
    run_both(3, scene);
}

Test(topology, a_refusal_ends_it_for_all, .timeout = 60) {
    struct scene scene = plain();

    scene.refuses = 2;
    scene.repeat = 2; /* and it works again */
    run_both(4, scene);
}

Test(topology, a_differing_knob_ends_it_for_all, .timeout = 60) {
    struct scene scene = plain();

    scene.differs = 1;
    scene.repeat = 2;
    run_both(3, scene);
}

Test(topology, a_dead_process_is_told_once, .timeout = 60) {
    struct scene scene = plain();

    scene.dies = 1;
    cr_assert_eq(tu_local_run(TU_LOCAL_PROCESSES, 4, body, &scene, 20000), 1);
}
