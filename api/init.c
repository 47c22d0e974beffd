/* Beginning and end of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/job.h"
#include "collectives/kernels_choice.h"
#include "runtime/clock.h"
#include "runtime/cpus.h"

enum { DRAIN_TIMEOUT_MS = 5000 };

/* ---- options ---- */

static void user_log(void *context, enum tu_log_level level, const char *line) {
    tutti_job *job = context;
    job->log(job->log_context, (int)level, line);
}

static tutti_status check_options(const tutti_options *options) {
    if (!options)
        return TUTTI_OK;
    if (options->size != sizeof *options)
        return tu_fail(NULL, TUTTI_ERR_ARG,
                       "tutti_options.size is %zu, this library knows %zu: set it to "
                       "sizeof(tutti_options)",
                       options->size, sizeof *options);
    return TUTTI_OK;
}

/* ---- opening, room by room ---- */

static tutti_status open_topology(tutti_job *job) {
    struct tu_env *env = &job->env;
    bool share = env->config.transport != TU_TRANSPORT_VERBS;
    if (env->hooks && env->hooks->no_sharing)
        share = false;
    tutti_status status = tu_topology_make(env, job->boot, &job->segment, share, &job->topology);
    if (status)
        return status;
    uint32_t ranks = job->boot->size;
    uint32_t *label = tu_alloc(0, ranks, sizeof *label);
    if (!label)
        return tu_fail(env, TUTTI_ERR_MEMORY, "no memory for %u ranks", ranks);
    for (uint32_t r = 0; r < ranks; r++)
        label[r] = job->topology->info[r].node;
    status = tu_nodes_make(label, ranks, &job->nodes);
    free(label);
    if (status)
        return tu_fail(env, status, "no memory for the nodes of %u ranks", ranks);
    return TUTTI_OK;
}

struct tu_window_shape tu_window_shape_of(const struct tu_nodes *nodes,
                                          const struct tu_config *config) {
    bool more = config->board_cells > config->ring_slots;
    struct tu_window_shape shape = {
        .banks = (uint32_t)config->banks,
        .slots = (uint32_t)config->ring_slots,
        .cells = (uint32_t)(more ? config->board_cells : config->ring_slots)};
    for (uint32_t r = 0; r < nodes->ranks; r++) {
        uint32_t peers = tu_base_peers(nodes, r, NULL, 0);
        shape.peers = peers > shape.peers ? peers : shape.peers;
    }
    for (uint32_t i = 0; i < nodes->nodes; i++) {
        uint32_t members = tu_node_size(nodes, i);
        shape.members = members > shape.members ? members : shape.members;
    }
    return shape;
}

static tutti_status open_window(tutti_job *job) {
    struct tu_window_shape shape = tu_window_shape_of(job->nodes, &job->env.config);
    size_t bytes = job->segment.bytes - job->heap_bytes;
    tutti_status status = tu_window_open(&job->env, &job->segment, bytes, &shape, &job->window);
    if (!status)
        status = tu_window_reserve_comm(&job->window, 0);
    if (!status && job->nodes->nodes > 1) /* a device will pin all of it, but not the heap */
        status = tu_shmem_reserve(&job->env, &job->segment, 0, bytes);
    if (!status)
        status = tu_memory_open(job);
    return status;
}

/* Memory for window and heap. Nobody is known yet, so the heap is there even if no peer will see it. */
static tutti_status create_segment(tutti_job *job) {
    size_t window = job->env.config.window_bytes;
    job->heap_bytes = tu_heap_wanted(&job->env, window);
    return tu_shmem_create(&job->env, window + job->heap_bytes, &job->segment);
}

/*
 * From where on results are stored past the caches: where those of a node's ranks, and their sources, are
 * half as large again as what the largest cache holds (docs/decisions.md has what was measured).
 */
static size_t stream_from(const tutti_job *job) {
    size_t cache = tu_cache_bytes(), ranks = (size_t)job->topology->ranks_on_host;
    if (job->env.config.stream_bytes)
        return job->env.config.stream_bytes;
    return cache ? cache * 3 / 4 / ranks : SIZE_MAX;
}

/* All that this rank can do by itself once it knows the others. */
static tutti_status open_rooms(tutti_job *job) {
    tutti_status status = tu_peers_make(job);
    if (!status)
        status = open_window(job);
    if (!status)
        status = tu_peers_open(job);
    job->stream_from = stream_from(job);
    if (!status)
        status = tu_comm_open(job, 0, &job->comm[0]);
    return status;
}

static tutti_status open_job(tutti_job *job, const tutti_options *options) {
    struct tu_env *env = &job->env;
    tutti_status mine = tu_config_load(env);
    if (env->hooks && env->hooks->configure)
        env->hooks->configure(env->hooks->context, &env->config);
    if (!mine)
        mine = tu_select_check(env);
    if (!mine)
        mine = tu_kernels_choose(env, &job->kernels);
    if (!mine) {
        tu_shmem_sweep(env); /* what killed jobs left takes room from this one */
        mine = create_segment(job);
    }
    tutti_status status = tu_boot_open(env, options, &job->boot);
    if (status)
        return mine ? mine : status;
    if (mine) { /* the others hear of it at once */
        tu_topology_refuse(env, job->boot, mine);
        return mine;
    }
    void *lost = NULL;
    status = tu_alloc_for(env, "ranks", 0, job->boot->size, 1, &lost);
    job->lost = lost;
    if (!status)
        status = open_topology(job);
    if (status)
        return status;
    status = tu_job_agree(job, "open", open_rooms(job));
    if (!status) /* nobody sends before all have connected */
        status = tu_job_agree(job, "connect", tu_peers_connect(job));
    return status;
}

static void close_job(tutti_job *job) {
    for (uint32_t id = 0; id < TU_MAX_COMMS; id++)
        if (job->comm[id])
            tu_comm_close(job->comm[id]);
    tu_peers_free(job);
    tu_requests_free(job);
    tu_topology_free(job->topology);
    tu_memory_close(job);
    tu_shmem_destroy(&job->segment);
    tu_nodes_free(job->nodes);
    if (job->boot)
        job->boot->ops->close(job->boot);
    free(job->lost);
    job->magic = 0;
    free(job);
}

/* Cores that this host's ranks may use together: launchers bind each rank to its own. */
static int host_cpus(const tutti_job *job) {
    const struct tu_topology *topology = job->topology;
    int32_t *pid = tu_alloc(0, topology->size, sizeof *pid);
    size_t n = 0;
    for (uint32_t r = 0; pid && r < topology->size; r++)
        if (strcmp(topology->info[r].host, job->env.host) == 0)
            pid[n++] = topology->info[r].pid;
    int cpus = tu_usable_cpus_of(pid, n);
    free(pid);
    return cpus;
}

static void say_opened(tutti_job *job) {
    const struct tu_nodes *nodes = job->nodes;
    tu_log(&job->env, TU_LOG_INFO,
           "tutti %s: rank %u of %u, %u nodes, %u peers, window %zu KiB, heap %zu KiB, kernels %s, "
           "ranks by %s",
           TUTTI_VERSION, job->boot->rank, job->boot->size, nodes->nodes, job->peers,
           job->window.bytes >> 10, job->heap.bytes >> 10, job->kernels->name,
           job->boot->ops->name);
}

tutti_status tu_job_open(const tutti_options *options, const struct tu_hooks *hooks,
                         tutti_job **opened) {
    tutti_job *job = tu_alloc(64, 1, sizeof *job);
    if (!job)
        return tu_fail(NULL, TUTTI_ERR_MEMORY, "no memory for a job");
    job->magic = TU_JOB_MAGIC;
    job->env.rank = -1;
    job->env.hooks = hooks;
    tu_config_defaults(&job->env.config);
    gethostname(job->env.host, sizeof job->env.host - 1);
    if (options && options->log) {
        job->log = options->log;
        job->log_context = options->log_context;
        job->env.log.sink = user_log;
        job->env.log.context = job;
    }
    tutti_status status = open_job(job, options);
    if (status) {
        if (options && options->error && options->error_bytes)
            snprintf(options->error, options->error_bytes, "%s", job->env.error);
        close_job(job);
        return status;
    }
    tu_waiter_init(&job->waiter, job->env.config.spin, host_cpus(job),
                   (int)job->topology->ranks_on_host);
    say_opened(job);
    *opened = job;
    return TUTTI_OK;
}

tutti_status tutti_init(const tutti_options *options, tutti_job **job) {
    tutti_status status = check_options(options);
    if (status)
        return status;
    if (!job)
        return tu_fail(NULL, TUTTI_ERR_ARG, "tutti_init: job is NULL");
    return tu_job_open(options, NULL, job);
}

/* ---- the end ---- */

/* Nothing is under way from here, and nobody must still be told of a failure. */
static bool is_drained(tutti_job *job) {
    tu_poison_check(job);
    for (uint32_t id = 0; id < TU_MAX_COMMS; id++)
        if (job->comm[id] && job->comm[id]->poison_owed)
            return false;
    return job->wire->ops->drained(job->wire);
}

/* Everything that this rank sent has arrived, so that its peers can go on without it. */
static void drain(tutti_job *job) {
    uint64_t end = tu_now_ns() + DRAIN_TIMEOUT_MS * UINT64_C(1000000);
    tu_wait_begin(&job->waiter);
    while (job->wire && !is_drained(job)) {
        tu_wait_a_bit(job, job->wire->ops->poll(job->wire) > 0);
        if (tu_now_ns() > end) {
            tu_log(&job->env, TU_LOG_WARN, "finalize: messages are still under way after %d ms",
                   DRAIN_TIMEOUT_MS);
            return;
        }
    }
}

/* Somebody is gone: seen from here, or told by another rank. Those who know do not meet any more. */
static bool has_losses(const tutti_job *job) {
    tutti_status ruin = job->comm[0]->ruin;
    return job->losses > 0 || ruin == TUTTI_ERR_DEAD || ruin == TUTTI_ERR_UNREACHABLE;
}

/* Returns what went wrong, after which the job is closed all the same. */
static tutti_status part(tutti_job *job) {
    tutti_status status = TUTTI_OK, met = TUTTI_OK;
    if (job->losses == 0 && !job->comm[0]->ruin)
        status = tutti_barrier(job->comm[0]);
    tu_poison_check(job);
    drain(job);
    if (!has_losses(job)) /* a rank that ended early would look dead to the others */
        met = job->boot->ops->fence(job->boot, job->env.config.init_timeout_ms);
    return status ? status : met;
}

tutti_status tutti_finalize(tutti_job *job) {
    if (!job || job->magic != TU_JOB_MAGIC)
        return tu_fail(NULL, TUTTI_ERR_ARG, "tutti_finalize: no job");
    for (uint32_t id = 0; id < TU_MAX_COMMS; id++)
        if (job->comm[id] && job->comm[id]->requests > 0)
            return tu_fail(&job->env, TUTTI_ERR_BUSY,
                           "tutti_finalize: %u requests of communicator %u have not been waited "
                           "for",
                           job->comm[id]->requests, id);
    tutti_status status = part(job);
    close_job(job);
    return status;
}
