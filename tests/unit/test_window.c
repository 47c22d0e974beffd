/*
 * The window: the memory formula of docs/ARCHITECTURE.md, written down here in numbers, against the
 * layout, against what tutti_window() says, and against what jobs take.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "collectives/algorithms.h"

/* ---- the formula ---- */

/* P, M, D, R, K, S, E (TUTTI_EAGER), B (TUTTI_SHARE), as the document calls them. */
struct letters {
    size_t p, m, d, r, k, s, e, b;
};

static size_t pages(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

static size_t job_bytes(void) {
    return 4096;
}

static size_t comm_bytes(const struct letters *l) {
    size_t pair = l->m > 1 ? l->d * (5 * l->r + 2) : 0;
    return 128 * (7 + l->d * (l->p * (l->r + 2) + 5 * l->k + l->m + 1) + pair);
}

/* Slots of one direction of an edge. */
static size_t edge_bytes(const struct letters *l) {
    return l->d * pages(l->r * (l->e + 64));
}

static size_t board_bytes(const struct letters *l) {
    return l->d * pages(l->r * (l->b + 64));
}

static size_t scratch_bytes(const struct letters *l) {
    return pages(l->d * l->s * 2 * l->b);
}

static struct letters letters_of(const struct tu_config *config, size_t p, size_t m) {
    return (struct letters){.p = p,
                            .m = m,
                            .d = (size_t)config->banks,
                            .r = (size_t)config->ring_slots,
                            .k = (size_t)(config->board_cells > config->ring_slots
                                              ? config->board_cells
                                              : config->ring_slots),
                            .s = (size_t)config->scratch_slots,
                            .e = config->eager_bytes,
                            .b = config->share_bytes};
}

/* Distinct ranks at +- ceil(p / 2), ceil(p / 4), ... 1 of a circle of p. */
static size_t circle_peers(size_t p) {
    size_t n = 0;
    for (size_t other = 1; other < p; other++) {
        bool found = false;
        for (size_t s = p; s > 1 && !found;) {
            s -= s / 2;
            found = other == s || p - other == s;
        }
        n += found;
    }
    return n;
}

/* ---- the layout ---- */

static void expect_layout(const struct tu_window_shape *shape, uint32_t comm) {
    size_t p = shape->peers, m = shape->members, d = shape->banks, r = shape->slots;
    struct letters letters = {.p = p, .m = m, .d = d, .r = r, .k = shape->cells};
    size_t block = comm_bytes(&letters), start = comm * block;
    uint32_t bank = shape->banks - 1;

    cr_assert_eq(tu_window_comm(shape, comm), start);
    cr_assert_eq(start + tu_window_part(shape, TU_PART_POISON), start);
    cr_assert_eq(start + tu_window_part(shape, TU_PART_INFO), start + 128);
    cr_assert_eq(start + tu_window_part(shape, TU_PART_BEAT), start + 128 * 2);
    cr_assert_eq(tu_window_record(shape, comm, 7), start + 128 * 3 + 64 * 7);
    cr_assert_eq(tu_window_done(shape, comm, bank), start + 128 * (7 + d - 1));
    size_t credit = start + 128 * (7 + d), announce = credit + 128 * p * d;
    size_t board_credit = announce + 128 * p * d, pair_slot = board_credit + 128 * d * m;
    size_t line = pair_slot + (m > 1 ? 256 * d : 0), board = line + 128 * p * d * r;
    size_t pair = board + 640 * d * shape->cells;
    cr_assert_eq(tu_window_board_credit(shape, comm, bank, shape->members - 1),
                 board_credit + 128 * (d * m - 1));
    cr_assert_eq(tu_window_board(shape, comm, bank), board + 640 * (d - 1) * shape->cells);
    cr_assert_eq(tu_window_pair(shape, comm, 0), pair);
    cr_assert_eq(pair + (m > 1 ? 640 * d * r : 0), start + block);
    if (m > 1)
        cr_assert_eq(tu_window_pair_slot(shape, comm, bank), pair_slot + 128 * (d - 1));
    if (p == 0)
        return;
    cr_assert_eq(tu_window_credit(shape, comm, shape->peers - 1, bank), credit + 128 * (p * d - 1));
    cr_assert_eq(tu_window_announce(shape, comm, shape->peers - 1, bank),
                 announce + 128 * (p * d - 1));
    cr_assert_eq(tu_window_line(shape, comm, shape->peers - 1, bank), line + 128 * (p * d - 1) * r);
}

Test(window, layout, .timeout = 10) {
    for (uint32_t peers = 0; peers <= 40; peers += 5)
        for (uint32_t members = 1; members <= 64; members *= 4)
            for (uint32_t banks = 1; banks <= 4; banks++)
                for (uint32_t slots = 1; slots <= 16; slots *= 2) {
                    struct tu_window_shape shape = {.peers = peers,
                                                    .members = members,
                                                    .banks = banks,
                                                    .slots = slots,
                                                    .cells = 2 * slots};
                    expect_layout(&shape, 0);
                    expect_layout(&shape, 4095);
                }
}

/* ---- what tutti_window() says ---- */

static tutti_window_info window_of(int ranks, int nodes) {
    tutti_window_info info = {.size = sizeof info};
    cr_assert_eq(tutti_window(ranks, nodes, &info), TUTTI_OK);
    return info;
}

/* The examples of the document, with the default knobs. */
Test(window, examples, .timeout = 10) {
    tutti_window_info one = window_of(8, 1), many = window_of(1024, 128);

    cr_assert_eq(one.peers, 5);
    cr_assert_eq(one.members, 8);
    cr_assert_eq(one.window_bytes, 33554432);
    cr_assert_eq(one.job_bytes, 4096);
    cr_assert_eq(one.comm_bytes, 57472);
    cr_assert_eq(one.edge_bytes, 5 * 270336);
    cr_assert_eq(one.board_bytes, 1056768);
    cr_assert_eq(one.scratch_bytes, 1048576);
    cr_assert_eq(many.peers, 19);
    cr_assert_eq(many.members, 8);
    cr_assert_eq(many.comm_bytes, 78976);
    cr_assert_eq(many.edge_bytes, 35 * 270336);
    cr_assert_eq(many.board_bytes, 1056768);
    cr_assert_eq(many.scratch_bytes, 1048576);
}

Test(window, told_as_in_the_formula, .timeout = 30) {
    struct tu_config config;
    tu_config_defaults(&config);
    for (int ranks = 1; ranks <= 40; ranks++) {
        tutti_window_info one = window_of(ranks, 1), apart = window_of(ranks, ranks);
        struct letters l = letters_of(&config, circle_peers((size_t)ranks), (size_t)ranks);
        cr_assert_eq(one.peers, (int)l.p, "%d ranks: %d peers", ranks, one.peers);
        cr_assert_eq(one.comm_bytes, comm_bytes(&l), "%d ranks", ranks);
        cr_assert_eq(one.edge_bytes, l.p * edge_bytes(&l), "%d ranks", ranks);
        cr_assert_eq(one.board_bytes, ranks > 1 ? board_bytes(&l) : 0);
        cr_assert_eq(one.scratch_bytes, ranks > 1 ? scratch_bytes(&l) : 0);
        l.m = 1;
        cr_assert_eq(apart.comm_bytes, comm_bytes(&l), "%d ranks apart", ranks);
        cr_assert_eq(apart.edge_bytes, 2 * l.p * edge_bytes(&l), "%d ranks apart", ranks);
        cr_assert_eq(apart.board_bytes + apart.scratch_bytes, 0);
    }
}

/* ---- what jobs take ---- */

/* One job of local ranks on one node. */
struct scene {
    uint32_t ranks;
    int ring, banks, scratch;
    size_t eager, share;
    const char *allreduce; /* "": chosen */
};

static void configure(void *context, struct tu_config *config) {
    const struct scene *scene = context;
    config->ring_slots = scene->ring;
    config->banks = scene->banks;
    config->scratch_slots = scene->scratch;
    config->eager_bytes = scene->eager;
    config->share_bytes = scene->share;
    snprintf(config->allreduce, sizeof config->allreduce, "%s", scene->allreduce);
}

/* Adds `grown` to *used, and holds the job to it. */
static int grows(const tutti_job *job, const char *what, size_t grown, size_t *used) {
    tutti_counters counters = {.size = sizeof counters};
    *used += grown;
    if (tutti_get_counters(job, &counters) == TUTTI_OK && counters.window_used_bytes == *used)
        return 0;
    fprintf(stderr, "rank %d of %d, %s: %zu bytes are used, not %zu\n", tutti_rank(job->comm[0]),
            tutti_size(job->comm[0]), what, (size_t)counters.window_used_bytes, *used);
    return 1;
}

static int wrong(const char *what, tutti_status status) {
    if (status)
        fprintf(stderr, "%s: %s\n", what, tutti_status_string(status));
    return status != TUTTI_OK;
}

/* Each rank's own buffers. */
static int allreduce(tutti_job *job, size_t count) {
    double *x = calloc(2 * count, sizeof *x);
    tutti_status status = TUTTI_ERR_MEMORY;
    if (x)
        status = tutti_allreduce(x, x + count, count, TUTTI_F64, TUTTI_SUM, tutti_world(job));
    free(x);
    return wrong("allreduce", status);
}

static int broadcast(tutti_job *job, size_t count) {
    double *x = calloc(count, sizeof *x);
    tutti_status status = TUTTI_ERR_MEMORY;
    if (x)
        status = tutti_bcast(x, count, TUTTI_F64, 0, tutti_world(job));
    free(x);
    return wrong("bcast", status);
}

static int small_calls(tutti_job *job, const struct letters *l, size_t *used) {
    return grows(job, "init", job_bytes() + comm_bytes(l), used) ||
           wrong("barrier", tutti_barrier(tutti_world(job))) || grows(job, "barrier", 0, used) ||
           allreduce(job, 7) || grows(job, "56 bytes reduced", 0, used) || broadcast(job, 7) ||
           grows(job, "56 bytes sent", 0, used);
}

static bool takes_scratch(tutti_job *job, size_t count) {
    const char *name =
        tutti_algorithm(tutti_world(job), TUTTI_CALL_ALLREDUCE, count, TUTTI_F64, TUTTI_SUM);
    return name && strcmp(name, "accumulate") == 0;
}

/* What is chosen for more than 632 bytes on one node uses the slots of the board; for large ones some use node
   scratch too. Two ranks have two boards: broadcasts do not use that of the pair. */
static int chosen_calls(tutti_job *job, const struct letters *l, size_t *used) {
    bool alone = l->m == 1;
    size_t scratch = !alone && takes_scratch(job, 1 << 15) ? scratch_bytes(l) : 0;
    size_t board = l->m == 2 ? board_bytes(l) : 0;
    return allreduce(job, 79) || grows(job, "632 bytes reduced", 0, used) || allreduce(job, 80) ||
           grows(job, "640 bytes reduced", alone ? 0 : board_bytes(l), used) ||
           allreduce(job, 512) || grows(job, "4 KiB reduced", 0, used) || allreduce(job, 1 << 15) ||
           grows(job, "256 KiB reduced", scratch, used) || broadcast(job, 512) ||
           grows(job, "4 KiB sent", board, used) || broadcast(job, 512) ||
           allreduce(job, 1 << 15) || grows(job, "again", 0, used);
}

/* A communicator takes its cells and lines; a freed one leaves them to the next. */
static int communicators(tutti_job *job, const struct letters *l, size_t *used) {
    tutti_comm *dup = NULL;
    if (wrong("dup", tutti_comm_dup(tutti_world(job), &dup)) ||
        grows(job, "dup", comm_bytes(l), used) || wrong("free", tutti_comm_free(dup)) ||
        wrong("dup", tutti_comm_dup(tutti_world(job), &dup)))
        return 1;
    return grows(job, "dup of a freed id", 0, used);
}

/* The circulant allreduce writes to all base peers, and nothing else. */
static int forced_calls(tutti_job *job, const struct letters *l, size_t *used) {
    return allreduce(job, 512) || grows(job, "4 KiB by circulant", l->p * edge_bytes(l), used) ||
           allreduce(job, 8192) || grows(job, "64 KiB by circulant", 0, used);
}

static int body(const struct tutti_options *options, void *context) {
    struct scene *scene = context;
    struct tu_hooks hooks = {.context = scene, .configure = configure};
    tutti_job *job = NULL;
    size_t used = 0;
    if (wrong("init", tu_job_open(options, &hooks, &job)))
        return 1;
    struct letters l =
        letters_of(&job->env.config, circle_peers(scene->ranks), (size_t)scene->ranks);
    int failed = small_calls(job, &l, &used);
    if (!failed && scene->allreduce[0])
        failed = forced_calls(job, &l, &used);
    else if (!failed)
        failed = chosen_calls(job, &l, &used) || communicators(job, &l, &used);
    return wrong("finalize", tutti_finalize(job)) || failed;
}

static void run(struct scene scene) {
    cr_assert_eq(tu_local_run(TU_LOCAL_THREADS, scene.ranks, body, &scene, 0), 0, "%u ranks",
                 scene.ranks);
}

static struct scene defaults(uint32_t ranks) {
    return (struct scene){.ranks = ranks,
                          .ring = 4,
                          .banks = 2,
                          .scratch = 2,
                          .eager = 32 << 10,
                          .share = 128 << 10,
                          .allreduce = ""};
}

Test(window, taken_by_jobs, .timeout = 60) {
    for (uint32_t ranks = 1; ranks <= 8; ranks++)
        run(defaults(ranks));
}

Test(window, taken_by_jobs_with_other_knobs, .timeout = 60) {
    run((struct scene){3, 1, 1, 1, 4 << 10, 4 << 10, ""});
    run((struct scene){5, 16, 3, 4, 4 << 10, 8 << 10, ""});
    run((struct scene){2, 8, 4, 2, 64 << 10, 16 << 10, ""});
}

Test(window, taken_by_a_circulant, .timeout = 60) {
    for (uint32_t ranks = 2; ranks <= 8; ranks += 3) {
        struct scene scene = defaults(ranks);
        scene.allreduce = "circulant";
        run(scene);
    }
}

/* What of a rank's memory its node peers can read in place. */
Test(window, heap_offsets, .timeout = 10) {
    static uint8_t memory[64];
    struct tu_window w = {.base = memory, .bytes = 16, .heap_at = 16, .heap_bytes = 32};
    uint64_t offset = 7;

    cr_expect_not(tu_window_heap_offset(&w, memory + 15, 1, &offset));
    cr_expect_not(tu_window_heap_offset(&w, memory + 15, 2, &offset));
    cr_expect_not(tu_window_heap_offset(&w, memory + 48, 0, &offset));
    cr_expect_not(tu_window_heap_offset(&w, memory + 16, 33, &offset));
    cr_expect_not(tu_window_heap_offset(&w, memory + 47, 2, &offset));
    cr_expect_not(tu_window_heap_offset(&w, memory + 20, SIZE_MAX, &offset));
    cr_expect_not(tu_window_heap_offset(&w, NULL, 0, &offset));
    cr_expect_eq(offset, 7);
    cr_expect(tu_window_heap_offset(&w, memory + 16, 32, &offset));
    cr_expect_eq(offset, 16);
    cr_expect(tu_window_heap_offset(&w, memory + 47, 1, &offset));
    cr_expect_eq(offset, 47);
    w.heap_bytes = 0;
    cr_expect_not(tu_window_heap_offset(&w, memory + 16, 0, &offset));
}

/* ---- over a wire: what binding takes, on one rank of a large job ---- */

struct large {
    struct tu_env env;
    struct tu_nodes *nodes;
    struct tu_shmem segment;
    struct tu_window window;
    struct tu_counters counters;
    struct tu_peer peer[64], mate[8];
    struct tu_channels *channels;
};

/* The window of rank 0 of 1024 on 128 nodes. */
static void open_large_window(struct large *large) {
    uint32_t label[1024];

    *large = (struct large){.env.log.level = TU_LOG_WARN};
    tu_config_defaults(&large->env.config);
    for (uint32_t r = 0; r < 1024; r++)
        label[r] = r / 8;
    cr_assert_eq(tu_nodes_make(label, 1024, &large->nodes), TUTTI_OK);
    struct tu_window_shape shape = tu_window_shape_of(large->nodes, &large->env.config);
    cr_assert_eq(tu_shmem_create(&large->env, large->env.config.window_bytes, &large->segment),
                 TUTTI_OK);
    cr_assert_eq(
        tu_window_open(&large->env, &large->segment, large->segment.bytes, &shape, &large->window),
        TUTTI_OK);
    cr_assert_eq(tu_window_reserve_comm(&large->window, 0), TUTTI_OK);
}

/* Its channels. Nothing is sent, so any memory may stand for the windows of node peers. */
static void open_large(struct large *large) {
    uint32_t edge_rank[64], place[64] = {0}, member[8];
    struct tu_peer *edge_peer[64], *member_peer[8];

    open_large_window(large);
    struct tu_channels_params params = {.window = &large->window,
                                        .counters = &large->counters,
                                        .first_number = 1,
                                        .scratch_slots = 2,
                                        .slot_bytes = large->env.config.eager_bytes,
                                        .share_bytes = large->env.config.share_bytes,
                                        .edges = tu_base_peers(large->nodes, 0, edge_rank, 64),
                                        .edge_rank = edge_rank,
                                        .my_place = place,
                                        .edge_peer = edge_peer,
                                        .members = 8,
                                        .member_rank = member,
                                        .member_peer = member_peer};
    for (uint32_t i = 0; i < params.edges; i++) {
        large->peer[i].window = edge_rank[i] < 8 ? large->window.base : NULL;
        edge_peer[i] = &large->peer[i];
    }
    for (uint32_t i = 0; i < 8; i++) {
        member[i] = i;
        large->mate[i].window = large->window.base;
        member_peer[i] = i ? &large->mate[i] : NULL;
    }
    cr_assert_eq(tu_channels_make(&params, &large->channels), TUTTI_OK);
}

static void close_large(struct large *large) {
    tu_channels_free(large->channels);
    tu_shmem_destroy(&large->segment);
    tu_nodes_free(large->nodes);
}

/* Prepares a call of `count` doubles by this algorithm. */
static void prepare(struct large *large, enum tu_collective collective, const char *algorithm,
                    size_t count) {
    struct tu_shape shape = {.nodes = large->nodes};
    struct tu_plan *plan = NULL;
    struct tu_bound *bound = NULL;
    struct tu_cut cut;

    cr_assert_eq(tu_algorithm_find(collective, algorithm)->generate(&shape, &plan), TUTTI_OK);
    cr_assert_eq(tu_bind(&large->env, plan, large->channels, &bound), TUTTI_OK);
    cr_assert_eq(tu_cut_make(&large->env, bound, count, sizeof(double), &cut), TUTTI_OK);
    cr_assert_eq(tu_bound_prepare(bound, &cut), TUTTI_OK);
    tu_bound_free(bound);
}

/* Edges over a wire take slots for both directions, those to node peers for one. */
Test(window, taken_over_a_wire, .timeout = 30) {
    struct large *large = malloc(sizeof *large);
    struct letters l = {
        .p = 19, .m = 8, .d = 2, .r = 4, .k = 32, .s = 2, .e = 32 << 10, .b = 128 << 10};
    size_t used = job_bytes() + comm_bytes(&l);

    cr_assert_not_null(large);
    open_large(large);
    prepare(large, TU_BARRIER, "circulant", 0);
    cr_assert_eq(tu_window_used(&large->window), used);
    prepare(large, TU_ALLREDUCE, "two_level", 4096); /* 13 peers in the lane, on other nodes */
    used += 2 * 13 * edge_bytes(&l) + board_bytes(&l);
    cr_assert_eq(tu_window_used(&large->window), used);
    prepare(large, TU_ALLREDUCE, "leaders", 1); /* 64 of 128 sums in one message: no line */
    cr_assert_eq(tu_window_used(&large->window), used);
    prepare(large, TU_ALLREDUCE, "circulant", 4096); /* 1, 2 and 4 above on the node; and below */
    used += (3 + 2 * 3) * edge_bytes(&l);
    cr_assert_eq(tu_window_used(&large->window), used);
    cr_assert_eq(used, job_bytes() + comm_bytes(&l) + 35 * edge_bytes(&l) + board_bytes(&l));
    close_large(large);
    free(large);
}
