/* Looking around without a job: knobs, RDMA ports, and what the system grants. */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/job.h"
#include "runtime/cgroup.h"
#include "runtime/cpus.h"
#include "runtime/text.h"
#include "transport/channels.h"
#include "transport/verbs.h"

enum { TEXT_BYTES = 4 }; /* least room of a text */

/* The environment, silently, and with defaults in place of bad values. */
static void load(struct tu_env *env) {
    size_t n;
    const struct tu_knob *knob = tu_config_knobs(&n);
    *env = (struct tu_env){.rank = -1, .log.level = TU_LOG_OFF};
    tu_config_defaults(&env->config);
    for (size_t i = 0; i < n; i++) {
        const char *value = tu_config_variable(&knob[i]);
        if (value)
            tu_config_set(env, knob[i].name, value);
    }
}

tutti_status tutti_knob(int index, tutti_knob_info *info) {
    size_t n;
    const struct tu_knob *knobs = tu_config_knobs(&n);
    if (!info || info->size != sizeof *info || index < 0 || (size_t)index >= n)
        return TUTTI_ERR_ARG;
    struct tu_env env;
    load(&env);
    const struct tu_knob *knob = &knobs[index];
    const char *set = tu_config_variable(knob);
    bool bad = set && tu_config_set(&env, knob->name, set) != TUTTI_OK;
    info->name = knob->name;
    info->unit = knob->unit;
    info->fallback = knob->fallback;
    info->help = knob->help;
    info->agreed = knob->agreed;
    tu_config_allowed(knob, info->allowed, sizeof info->allowed);
    tu_config_format(&env.config, knob, info->value, sizeof info->value);
    if (bad)
        tu_text_format(info->value, sizeof info->value, "%s", set);
    tu_text_one_line(info->value);
    tu_text_format(info->origin, sizeof info->origin, "%s", set ? "environment" : "default");
    return bad ? TUTTI_ERR_CONFIG : TUTTI_OK;
}

tutti_status tutti_port(int index, tutti_port_info *info) {
    struct tu_env env;
    if (!info || info->size != sizeof *info || index < 0)
        return TUTTI_ERR_ARG;
    load(&env);
    return tu_verbs_port_at(&env, index, info);
}

tutti_status tutti_port_reason(char *text, size_t bytes) {
    struct tu_env env;
    char none[TEXT_BYTES];
    if (!text && bytes)
        return TUTTI_ERR_ARG;
    load(&env);
    if (bytes < TEXT_BYTES) {
        if (bytes)
            *text = 0;
        return tu_verbs_port_reason(&env, none, sizeof none);
    }
    return tu_verbs_port_reason(&env, text, bytes);
}

static void ask_system(tutti_host_info *info) {
    struct rlimit locked;
    struct statvfs shm;
    info->locked_bytes = UINT64_MAX;
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
        info->locked_bytes = locked.rlim_cur;
    if (statvfs("/dev/shm", &shm) == 0) {
        info->shm_bytes = (uint64_t)shm.f_blocks * shm.f_frsize;
        info->shm_free_bytes = (uint64_t)shm.f_bavail * shm.f_frsize;
    }
}

tutti_status tutti_host(tutti_host_info *info) {
    struct tu_cgroup_memory memory;
    if (!info || info->size != sizeof *info)
        return TUTTI_ERR_ARG;
    tu_cgroup_memory("", &memory);
    *info = (tutti_host_info){.size = sizeof *info,
                              .cores = tu_usable_cpus(),
                              .quota_cores = tu_cgroup_cpus(""),
                              .memory_bytes = memory.limit_bytes,
                              .memory_free_bytes = memory.free_bytes};
    gethostname(info->host, sizeof info->host - 1);
    ask_system(info);
    return TUTTI_OK;
}

/* ---- window memory --------------------------------------------------------------------------- */

static tutti_status spread(uint32_t ranks, uint32_t over, struct tu_nodes **nodes) {
    uint32_t *label = tu_alloc(0, ranks, sizeof *label);
    if (!label)
        return TUTTI_ERR_MEMORY;
    for (uint32_t r = 0; r < ranks; r++)
        label[r] = (uint32_t)((uint64_t)r * over / ranks);
    tutti_status status = tu_nodes_make(label, ranks, nodes);
    free(label);
    return status;
}

/* Most rings with slots that a rank's edges have: one to every peer, and one from each that has to
   write over the wire (node peers read where the writer's slots are). */
static tutti_status most_rings(const struct tu_nodes *nodes, uint32_t most_peers, uint32_t *most) {
    uint32_t *peer = tu_alloc(0, most_peers + (size_t)1, sizeof *peer);
    if (!peer)
        return TUTTI_ERR_MEMORY;
    *most = 0;
    for (uint32_t r = 0; r < nodes->ranks; r++) {
        uint32_t n = tu_base_peers(nodes, r, peer, most_peers), rings = n;
        for (uint32_t i = 0; i < n; i++)
            rings += nodes->node_of[peer[i]] != nodes->node_of[r];
        *most = rings > *most ? rings : *most;
    }
    free(peer);
    return TUTTI_OK;
}

static tutti_status fill_window(const struct tu_nodes *nodes, const struct tu_config *config,
                                tutti_window_info *info) {
    struct tu_window_shape shape = tu_window_shape_of(nodes, config);
    uint64_t ring = tu_window_taken(shape.slots * (config->eager_bytes + TU_SLOT_HEAD));
    uint64_t board = tu_window_taken(shape.slots * (config->share_bytes + TU_SLOT_HEAD));
    size_t scratch = (size_t)shape.banks * (size_t)config->scratch_slots * TU_SCRATCH_SHARES *
                     config->share_bytes;
    bool shared = shape.members > 1;
    uint32_t rings;
    tutti_status status = most_rings(nodes, shape.peers, &rings);
    if (status)
        return status;
    *info = (tutti_window_info){.size = sizeof *info,
                                .peers = (int)shape.peers,
                                .members = (int)shape.members,
                                .window_bytes = config->window_bytes,
                                .heap_bytes = shared ? config->heap_bytes : 0,
                                .job_bytes = tu_window_own(),
                                .comm_bytes = tu_window_comm(&shape, 1),
                                .edge_bytes = rings * shape.banks * ring,
                                .board_bytes = shared ? shape.banks * board : 0,
                                .scratch_bytes = shared ? tu_window_taken(scratch) : 0};
    return TUTTI_OK;
}

tutti_status tutti_window(int ranks, int nodes, tutti_window_info *info) {
    struct tu_env env;
    struct tu_nodes *shape = NULL;
    if (!info || info->size != sizeof *info || nodes < 1 || ranks < nodes)
        return TUTTI_ERR_ARG;
    load(&env);
    tutti_status status = spread((uint32_t)ranks, (uint32_t)nodes, &shape);
    if (!status)
        status = fill_window(shape, &env.config, info);
    tu_nodes_free(shape);
    return status;
}
