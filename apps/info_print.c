/* tutti-info's document as text. */
#include <inttypes.h>
#include <string.h>

#include "apps/info.h"

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int64_t number_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static bool true_of(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

/* "31.9 MiB"; null is no limit. */
static const char *size_of(const json_t *object, const char *key, char text[32]) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    const json_t *value = json_object_get(object, key);
    double size = (double)json_integer_value(value);
    int i = 0;
    if (json_is_null(value))
        return "no limit";
    for (; i < 4 && size >= 1024; i++)
        size /= 1024;
    snprintf(text, 32, i ? "%.1f %s" : "%.0f %s", size, unit[i]);
    return text;
}

/* Longest text under a key, in columns, of a list of objects. */
static int width_of(const json_t *list, const char *key, const char *heading) {
    size_t width = strlen(heading), i;
    json_t *object;
    json_array_foreach(list, i, object) {
        size_t length = strlen(text_of(object, key));
        width = length > width ? length : width;
    }
    return (int)width;
}

/* ---- sections ---- */

static void print_knobs(const json_t *knobs, FILE *out) {
    static const char *const key[] = {"name", "value", "default", "unit", "origin"};
    static const char *const heading[] = {"Knobs", "value", "default", "unit", "from"};
    enum { COLUMNS = sizeof key / sizeof *key };
    int width[COLUMNS];
    json_t *knob;
    size_t k;
    for (int i = 0; i < COLUMNS; i++) {
        width[i] = width_of(knobs, key[i], heading[i]);
        fprintf(out, "%-*s  ", width[i], heading[i]);
    }
    fprintf(out, "agreed  what it does\n");
    json_array_foreach(knobs, k, knob) {
        for (int i = 0; i < COLUMNS; i++)
            fprintf(out, "%-*s  ", width[i], text_of(knob, key[i]));
        fprintf(out, "%-6s  %s (%s)\n", true_of(knob, "agreed") ? "yes" : "no",
                text_of(knob, "help"), text_of(knob, "allowed"));
    }
    json_array_foreach(knobs, k, knob) {
        if (!true_of(knob, "valid"))
            fprintf(out, "! %s=%s is not allowed: it must be %s\n", text_of(knob, "name"),
                    text_of(knob, "value"), text_of(knob, "allowed"));
    }
    fprintf(out, "agreed: must be the same on all ranks\n\n");
}

static void print_ports(const json_t *info, FILE *out) {
    const json_t *ports = json_object_get(info, "ports");
    json_t *port;
    size_t i;
    fprintf(out, "RDMA ports\n");
    json_array_foreach(ports, i, port) {
        fprintf(out, "  %s port %" PRId64 "  %-8s  %-10s  MTU %-4" PRId64, text_of(port, "device"),
                number_of(port, "port"), true_of(port, "active") ? "active" : "inactive",
                text_of(port, "link"), number_of(port, "mtu"));
        if (number_of(port, "gid_index") < 0)
            fprintf(out, "  no GID");
        else
            fprintf(out, "  GID %-2" PRId64 " %-39s %-7s %s", number_of(port, "gid_index"),
                    text_of(port, "gid"), text_of(port, "gid_type"), text_of(port, "interface"));
        fprintf(out, "%s\n", true_of(port, "chosen") ? "  <- chosen" : "");
    }
    const json_t *choice = json_object_get(info, "port_choice");
    bool found = strcmp(text_of(choice, "status"), "TUTTI_OK") == 0;
    fprintf(out, "  %s: %s\n\n", found ? "chosen" : "none can be used", text_of(choice, "text"));
}

static void print_limits(const json_t *info, FILE *out) {
    const json_t *limits = json_object_get(info, "limits");
    const json_t *window = json_object_get(info, "window");
    const json_t *quota = json_object_get(limits, "quota_cores");
    const json_t *locked = json_object_get(limits, "locked_bytes");
    char text[32], window_text[32];
    fprintf(out, "Limits\n  %-32s%" PRId64, "cores for this process", number_of(limits, "cores"));
    if (!json_is_null(quota))
        fprintf(out, " (control group's quota: %.2f)", json_real_value(quota));
    fprintf(out, "\n  %-32s%s", "locked memory (ulimit -l)", size_of(limits, "locked_bytes", text));
    if (!json_is_null(locked) && json_integer_value(locked) < number_of(window, "window_bytes"))
        fprintf(out, "; less than the window of %s, which an RDMA device locks (root may)",
                size_of(window, "window_bytes", window_text));
    fprintf(out, "\n  %-32s%s", "control group's memory", size_of(limits, "memory_bytes", text));
    if (!json_is_null(json_object_get(limits, "memory_bytes")))
        fprintf(out, ", %s free", size_of(limits, "memory_free_bytes", text));
    fprintf(out, "\n  %-32s%s", "/dev/shm", size_of(limits, "shm_bytes", text));
    fprintf(out, ", %s free (used where memfd is not)\n\n",
            size_of(limits, "shm_free_bytes", text));
}

static void print_window(const json_t *window, FILE *out) {
    static const char *const part[][2] = {
        {"job_bytes", "once for the job"},
        {"comm_bytes", "lines and cells, per communicator"},
        {"edge_bytes", "slots of edges, when used"},
        {"board_bytes", "slots of the board, when used"},
        {"scratch_bytes", "node scratch, when used"},
        {"total_bytes", "all of these, one communicator"},
        {"window_bytes", "the window (TUTTI_WINDOW)"},
        {"heap_bytes", "heap of tutti_alloc, behind it"},
    };
    char text[32];
    if (strcmp(text_of(window, "status"), "TUTTI_OK") != 0) {
        fprintf(out, "Window: %s\n", text_of(window, "status"));
        return;
    }
    fprintf(out,
            "Window of a rank (ranks: %" PRId64 ", nodes: %" PRId64 ", peers: %" PRId64
            ", ranks of a node: %" PRId64 ")\n",
            number_of(window, "ranks"), number_of(window, "nodes"), number_of(window, "peers"),
            number_of(window, "members"));
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        fprintf(out, "  %-34s%10s\n", part[i][1], size_of(window, part[i][0], text));
    if (number_of(window, "total_bytes") > number_of(window, "window_bytes"))
        fprintf(out, "! the window is too small for all at once: set a larger TUTTI_WINDOW\n");
    fprintf(out, "\n");
}

static void print_job(const json_t *job, FILE *out) {
    json_t *line;
    size_t i;
    if (strcmp(text_of(job, "status"), "TUTTI_OK") == 0)
        fprintf(out, "A job of one rank starts and ends well.\n");
    else
        fprintf(out, "! A job of one rank does not start: %s: %s\n", text_of(job, "status"),
                text_of(job, "error"));
    json_array_foreach(json_object_get(job, "log"), i, line)
        fprintf(out, "  %s\n", json_string_value(line));
}

void info_print(const json_t *info, FILE *out) {
    const char *version = text_of(info, "version"), *header = text_of(info, "header_version");
    fprintf(out, "tutti %s on %s", version, text_of(info, "host"));
    fprintf(out, strcmp(version, header) ? " (this program was built for %s)\n\n" : "\n\n", header);
    print_knobs(json_object_get(info, "knobs"), out);
    print_ports(info, out);
    print_limits(info, out);
    print_window(json_object_get(info, "window"), out);
    print_job(json_object_get(info, "job"), out);
}
