/* What tutti-info knows, by the library's own calls. */
#include <stdint.h>
#include <string.h>

#include "apps/info.h"
#include "tutti/tutti.h"

static json_t *collect_knobs(void) {
    json_t *list = json_array();
    tutti_knob_info knob = {.size = sizeof knob};
    tutti_status status;
    for (int i = 0; (status = tutti_knob(i, &knob)) != TUTTI_ERR_ARG; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:s}", "name", knob.name,
                            "value", knob.value, "default", knob.fallback, "origin", knob.origin,
                            "unit", knob.unit, "allowed", knob.allowed, "agreed", knob.agreed,
                            "valid", status == TUTTI_OK, "help", knob.help));
    return list;
}

static json_t *collect_ports(void) {
    json_t *list = json_array();
    tutti_port_info port = {.size = sizeof port};
    for (int i = 0; tutti_port(i, &port) == TUTTI_OK; i++)
        json_array_append_new(list, json_pack("{s:s, s:i, s:b, s:s, s:i, s:i, s:s, s:s, s:s, s:b}",
                                              "device", port.device, "port", port.port, "active",
                                              port.active, "link", port.link, "mtu", port.mtu,
                                              "gid_index", port.gid_index, "gid", port.gid,
                                              "gid_type", port.gid_type, "interface",
                                              port.interface, "chosen", port.chosen));
    return list;
}

static json_t *collect_port_choice(void) {
    char text[1024] = "";
    tutti_status status = tutti_port_reason(text, sizeof text);
    return json_pack("{s:s, s:s}", "status", tutti_status_string(status), "text", text);
}

static json_t *bytes_or_null(uint64_t bytes) {
    return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *collect_limits(const tutti_host_info *host) {
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:I, s:I}", "cores", host->cores, "quota_cores",
                     host->quota_cores > 0 ? json_real(host->quota_cores) : json_null(),
                     "memory_bytes", bytes_or_null(host->memory_bytes), "memory_free_bytes",
                     bytes_or_null(host->memory_free_bytes), "locked_bytes",
                     bytes_or_null(host->locked_bytes), "shm_bytes", (json_int_t)host->shm_bytes,
                     "shm_free_bytes", (json_int_t)host->shm_free_bytes);
}

static json_t *collect_window(const struct info_shape *shape) {
    tutti_window_info w = {.size = sizeof w};
    tutti_status status = tutti_window(shape->ranks, shape->nodes, &w);
    if (status)
        return json_pack("{s:s}", "status", tutti_status_string(status));
    uint64_t total = w.job_bytes + w.comm_bytes + w.edge_bytes + w.board_bytes + w.scratch_bytes;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "status",
                     tutti_status_string(status), "ranks", shape->ranks, "nodes", shape->nodes,
                     "peers", w.peers, "members", w.members, "window_bytes",
                     (json_int_t)w.window_bytes, "job_bytes", (json_int_t)w.job_bytes, "comm_bytes",
                     (json_int_t)w.comm_bytes, "edge_bytes", (json_int_t)w.edge_bytes,
                     "board_bytes", (json_int_t)w.board_bytes, "scratch_bytes",
                     (json_int_t)w.scratch_bytes, "total_bytes", (json_int_t)total, "heap_bytes",
                     (json_int_t)w.heap_bytes);
}

/* ---- a job of one rank, whatever has launched this ---- */

static int gather_alone(void *context, const void *mine, void *received, size_t bytes) {
    (void)context;
    memcpy(received, mine, bytes);
    return 0;
}

static void keep_line(void *context, int level, const char *line) {
    (void)level;
    json_array_append_new(context, json_string(line));
}

static json_t *collect_job(void) {
    char error[1024] = "";
    json_t *log = json_array();
    tutti_options options = {.size = sizeof options,
                             .allgather = gather_alone,
                             .ranks = 1,
                             .log = keep_line,
                             .log_context = log,
                             .error = error,
                             .error_bytes = sizeof error};
    tutti_job *job = NULL;
    tutti_status status = tutti_init(&options, &job);
    if (status == TUTTI_OK)
        status = tutti_finalize(job);
    return json_pack("{s:s, s:s, s:o}", "status", tutti_status_string(status), "error", error,
                     "log", log);
}

json_t *info_collect(const struct info_shape *shape) {
    tutti_host_info host = {.size = sizeof host};
    tutti_host(&host);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
                     tutti_version_string(), "header_version", TUTTI_VERSION, "host", host.host,
                     "knobs", collect_knobs(), "ports", collect_ports(), "port_choice",
                     collect_port_choice(), "limits", collect_limits(&host), "window",
                     collect_window(shape), "job", collect_job());
}

bool info_is_good(const json_t *info) {
    json_t *knob;
    size_t i;
    json_array_foreach(json_object_get(info, "knobs"), i, knob) {
        if (!json_is_true(json_object_get(knob, "valid")))
            return false;
    }
    const char *status = json_string_value(json_object_get(json_object_get(info, "job"), "status"));
    return status && strcmp(status, tutti_status_string(TUTTI_OK)) == 0;
}
