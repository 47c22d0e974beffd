/*
 * Names of POSIX segments, and the removal of those whose maker died before it could unlink them (a
 * kill between creating the segment and the last peer's mapping it).
 */
#include "runtime/shmem.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/process.h"

void tu_shmem_name(const struct tu_shmem_maker *maker, uint64_t random, char *name, size_t bytes) {
    snprintf(name, bytes, "/tutti.%" PRIu64 ".%" PRId32 ".%" PRIu64 ".%016" PRIx64,
             maker->pid_namespace, maker->pid, maker->start_time, random);
}

bool tu_shmem_parse_name(const char *name, struct tu_shmem_maker *maker) {
    struct tu_shmem_maker got;
    uint64_t random;
    int used = 0;

    name += *name == '/';
    if (sscanf(name, "tutti.%" SCNu64 ".%" SCNd32 ".%" SCNu64 ".%16" SCNx64 "%n",
               &got.pid_namespace, &got.pid, &got.start_time, &random, &used) != 4 ||
        name[used] || got.pid <= 0) {
        return false;
    }
    *maker = got;
    return true;
}

/* Only what is certain: the same pid namespace, and a maker whose death can be seen. */
static bool is_stale(const char *name) {
    struct tu_shmem_maker maker;
    uint64_t here = tu_process_namespace();

    return here != 0 && tu_shmem_parse_name(name, &maker) && maker.pid_namespace == here &&
           !tu_process_alive(maker.pid, maker.start_time);
}

int tu_shmem_sweep(struct tu_env *env) {
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;
    int swept = 0;

    while (folder && (entry = readdir(folder))) {
        if (is_stale(entry->d_name) && shm_unlink(entry->d_name) == 0) { /* not another user's */
            tu_log(env, TU_LOG_INFO, "removed /dev/shm/%s, which a dead process left",
                   entry->d_name);
            swept++;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return swept;
}
