/*
 * The limits that control groups (versions 1 and 2) put on this process. `root` stands before every
 * path: "" but in tests, which lay out files of their own.
 */
#ifndef TU_RUNTIME_CGROUP_H
#define TU_RUNTIME_CGROUP_H

#include <stdint.h>

/* CPU time per time that this process and its group may use; 0 if there is no limit. */
double tu_cgroup_cpus(const char *root);

struct tu_cgroup_memory {
    uint64_t limit_bytes; /* UINT64_MAX: no limit */
    uint64_t free_bytes;  /* what the tightest group has left, page cache that can go included */
    char path[256];       /* that group's folder */
};

void tu_cgroup_memory(const char *root, struct tu_cgroup_memory *memory);

#endif
