/*
 * Finds the folders of this process's control groups and asks each, up to the root of the mount, for
 * its limit: the tightest counts. A group is looked up under both versions, since a machine may have
 * both mounted with the controller in either.
 */
#include "runtime/cgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text.h"

/* Asked of each folder from the group's up to the mount's root. */
typedef void ask_fn(const char *folder, void *answer);

/* Is `word` one of the comma-separated words of `list`? */
static bool list_has(const char *list, const char *word) {
    size_t length = strlen(word);

    for (const char *at = list; at; at = strchr(at, ','), at += at != NULL) {
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length])) {
            return true;
        }
    }
    return false;
}

/* mountinfo writes blanks and the like as \040. */
static void decode_octal(char *text) {
    char *out = text;

    for (; *text; text++, out++) {
        if (text[0] == '\\' && text[1] && text[2] && text[3]) {
            *out = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
            text += 3;
        } else {
            *out = *text;
        }
    }
    *out = 0;
}

/*
 * The group of this process under a controller (version 2: ""), from /proc/self/cgroup, whose lines
 * are "4:memory:/path" or "0::/path".
 */
static bool find_group(const char *root, const char *controller, char *group, size_t bytes) {
    char path[PATH_MAX], line[PATH_MAX + 256];
    bool found = false;
    FILE *file;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *name = NULL;

        if (controllers) {
            name = strchr(++controllers, ':');
        }
        if (!name) {
            continue;
        }
        *name++ = 0;
        name[strcspn(name, "\n")] = 0;
        if (*controller ? list_has(controllers, controller) : !*controllers) {
            found = (size_t)snprintf(group, bytes, "%s", name) < bytes;
        }
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/*
 * Where that hierarchy is mounted, and which group the mount shows as its root. A line of mountinfo:
 * "36 35 98:0 /root /mount/point rw,... optional - type source rw,controller".
 */
static bool find_mount(const char *root, const char *controller, char *mount_root,
                       char *mount_point) {
    char path[PATH_MAX], line[2 * PATH_MAX], type[32], options[512];
    bool found = false;
    FILE *file;

    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *rest = strstr(line, " - ");

        if (!rest || sscanf(rest, " - %31s %*s %511s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %1023s %1023s", mount_root, mount_point) != 2) {
            continue;
        }
        found = *controller ? strcmp(type, "cgroup") == 0 && list_has(options, controller)
                            : strcmp(type, "cgroup2") == 0;
    }
    if (file) {
        fclose(file);
    }
    decode_octal(mount_root);
    decode_octal(mount_point);
    return found;
}

static void walk(const char *root, const char *controller, ask_fn *ask, void *answer) {
    char group[1024], mount_root[1024] = "", mount_point[1024] = "", folder[PATH_MAX], *slash;
    const char *below = group;
    size_t top;

    if (!find_group(root, controller, group, sizeof group) ||
        !find_mount(root, controller, mount_root, mount_point)) {
        return;
    }
    if (strcmp(mount_root, "/") != 0) { /* a container's mount shows a part of the tree */
        top = strlen(mount_root);
        below = strncmp(group, mount_root, top) == 0 ? group + top : "";
    }
    if (strncmp(below, "/..", 3) == 0) { /* the group lies outside of what can be seen */
        below = "";
    }
    top = (size_t)snprintf(folder, sizeof folder, "%s%s", root, mount_point);
    snprintf(folder + top, sizeof folder - top, "%s", below);
    for (;;) {
        ask(folder, answer);
        slash = strrchr(folder + top, '/');
        if (!slash) {
            return;
        }
        *slash = 0;
    }
}

static bool read_file(const char *folder, const char *name, char *text, size_t bytes) {
    char path[PATH_MAX];

    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path &&
           tu_text_read(path, text, bytes);
}

/* A number, or UINT64_MAX for "max" and for version 1's "no limit" near 2^63. */
static bool read_number(const char *folder, const char *name, uint64_t *number) {
    char text[64];

    if (!read_file(folder, name, text, sizeof text)) {
        return false;
    }
    if (strcmp(text, "max") == 0) {
        *number = UINT64_MAX;
        return true;
    }
    if (sscanf(text, "%" SCNu64, number) != 1) {
        return false;
    }
    *number = *number >> 60 ? UINT64_MAX : *number;
    return true;
}

/* ---- cpu ----------------------------------------------------------------------------------- */

static void tighten(double *cpus, double quota, double period) {
    if (quota > 0 && period > 0 && (*cpus == 0 || quota / period < *cpus)) {
        *cpus = quota / period;
    }
}

static void ask_cpu_2(const char *folder, void *answer) {
    char text[64];
    double quota, period;

    if (read_file(folder, "cpu.max", text, sizeof text) &&
        sscanf(text, "%lf %lf", &quota, &period) == 2) { /* "max 100000" has no quota */
        tighten(answer, quota, period);
    }
}

static void ask_cpu_1(const char *folder, void *answer) {
    char quota[32], period[32];

    if (read_file(folder, "cpu.cfs_quota_us", quota, sizeof quota) && /* -1: none */
        read_file(folder, "cpu.cfs_period_us", period, sizeof period)) {
        tighten(answer, atof(quota), atof(period));
    }
}

double tu_cgroup_cpus(const char *root) {
    double cpus = 0;

    walk(root, "", ask_cpu_2, &cpus);
    walk(root, "cpu", ask_cpu_1, &cpus);
    return cpus;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Sum of two lines of memory.stat: pages of files, which the kernel drops when it needs room. */
static uint64_t page_cache(const char *folder, const char *active, const char *inactive) {
    char text[8192], *save = NULL;
    uint64_t sum = 0, value;

    if (!read_file(folder, "memory.stat", text, sizeof text)) {
        return 0;
    }
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char name[64];

        if (sscanf(line, "%63s %" SCNu64, name, &value) == 2 &&
            (strcmp(name, active) == 0 || strcmp(name, inactive) == 0)) {
            sum += value;
        }
    }
    return sum;
}

static void keep_tightest(struct tu_cgroup_memory *memory, const char *folder, uint64_t limit,
                          uint64_t used, uint64_t cache) {
    uint64_t held = used > cache ? used - cache : 0;
    uint64_t left = limit > held ? limit - held : 0;

    if (limit != UINT64_MAX && left < memory->free_bytes) {
        memory->limit_bytes = limit;
        memory->free_bytes = left;
        tu_text_format(memory->path, sizeof memory->path, "%s", folder);
    }
}

static void ask_memory_2(const char *folder, void *answer) {
    uint64_t limit, used;

    if (read_number(folder, "memory.max", &limit) && read_number(folder, "memory.current", &used)) {
        keep_tightest(answer, folder, limit, used,
                      page_cache(folder, "active_file", "inactive_file"));
    }
}

static void ask_memory_1(const char *folder, void *answer) {
    uint64_t limit, used;

    if (read_number(folder, "memory.limit_in_bytes", &limit) &&
        read_number(folder, "memory.usage_in_bytes", &used)) {
        keep_tightest(answer, folder, limit, used,
                      page_cache(folder, "total_active_file", "total_inactive_file"));
    }
}

void tu_cgroup_memory(const char *root, struct tu_cgroup_memory *memory) {
    *memory = (struct tu_cgroup_memory){.limit_bytes = UINT64_MAX, .free_bytes = UINT64_MAX};
    walk(root, "", ask_memory_2, memory);
    walk(root, "memory", ask_memory_1, memory);
}
