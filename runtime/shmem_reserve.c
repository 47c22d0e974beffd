/*
 * Backs a range of a segment with memory before anybody touches it. Touching a page that a full
 * /dev/shm or memory cgroup has no room for raises SIGBUS or wakes the killer, long after the cause;
 * asked for in advance it is an error with figures.
 */
#include "runtime/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "runtime/cgroup.h"
#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/text.h"

static const char smaller[] =
    "lower TUTTI_WINDOW or TUTTI_HEAP, or the number of ranks on this node";

/* "MemAvailable:   123 kB" of /proc/meminfo in bytes, `otherwise` if it is not told. */
static uint64_t meminfo(const char *text, const char *name, uint64_t otherwise) {
    const char *line = strstr(text, name);
    uint64_t kib;

    return line && sscanf(line + strlen(name), ": %" SCNu64, &kib) == 1 ? kib * 1024 : otherwise;
}

/* Of `bytes` at most this much is not there yet. */
static uint64_t still_needed(int fd, size_t file_bytes, size_t bytes) {
    struct stat file;
    uint64_t held = fstat(fd, &file) == 0 ? (uint64_t)file.st_blocks * 512 : 0;
    uint64_t open = held < file_bytes ? file_bytes - held : 0;

    return bytes < open ? bytes : open;
}

/*
 * The kernel would not refuse memory that the machine or the cgroup does not have, but kill
 * somebody: so ask first. What can be swapped out counts as room.
 */
static tutti_status check_memory(struct tu_env *env, uint64_t needed) {
    char text[4096], need[32], left[32], most[32];
    struct tu_cgroup_memory group;
    uint64_t available, swap;

    tu_text_read("/proc/meminfo", text, sizeof text);
    available = meminfo(text, "MemAvailable", UINT64_MAX);
    swap = meminfo(text, "SwapFree", 0);
    tu_cgroup_memory("", &group);
    tu_text_size(needed, need, sizeof need);
    if (needed > swap && needed - swap > group.free_bytes) {
        return tu_fail(env, TUTTI_ERR_MEMORY,
                       "shared memory needs %s more, the memory cgroup %s has %s left of %s: raise "
                       "its limit (docker --memory, Slurm --mem), or %s",
                       need, group.path, tu_text_size(group.free_bytes, left, sizeof left),
                       tu_text_size(group.limit_bytes, most, sizeof most), smaller);
    }
    if (needed > swap && needed - swap > available) {
        return tu_fail(env, TUTTI_ERR_MEMORY,
                       "shared memory needs %s more, this machine has %s available: %s", need,
                       tu_text_size(available, left, sizeof left), smaller);
    }
    return TUTTI_OK;
}

/* Signals wait: a profiler's would otherwise interrupt a long allocation again and again. */
static int allocate(int fd, size_t offset, size_t bytes) {
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    do {
        error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (error == EINTR);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static tutti_status tell_full(struct tu_env *env, const struct tu_shmem *shmem, uint64_t needed,
                              int error) {
    char need[32], left[32], most[32];
    struct statvfs fs = {0};

    tu_text_size(needed, need, sizeof need);
    if (error != ENOSPC || fstatvfs(shmem->fd, &fs) != 0 || fs.f_blocks == 0) {
        return tu_fail_errno(env, TUTTI_ERR_MEMORY, error, "shared memory of %s more: %s", need,
                             smaller);
    }
    return tu_fail(env, TUTTI_ERR_MEMORY,
                   "shared memory needs %s more, /dev/shm has %s free of %s: enlarge it (mount -o "
                   "remount,size=..., docker --shm-size), set TUTTI_SHM=memfd, or %s",
                   need, tu_text_size((uint64_t)fs.f_bavail * fs.f_frsize, left, sizeof left),
                   tu_text_size((uint64_t)fs.f_blocks * fs.f_frsize, most, sizeof most), smaller);
}

tutti_status tu_shmem_reserve_file(struct tu_env *env, const struct tu_shmem *shmem,
                                   size_t file_bytes, size_t offset, size_t bytes) {
    uint64_t needed = still_needed(shmem->fd, file_bytes, bytes);
    tutti_status status = TUTTI_OK;
    int error;

    if (needed > 0) { /* looking costs a dozen files; windows of RDMA jobs are there as a whole */
        status = check_memory(env, needed);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    error = allocate(shmem->fd, offset, bytes);
    return error ? tell_full(env, shmem, needed, error) : TUTTI_OK;
}
