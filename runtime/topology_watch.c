/*
 * Watching processes: by pidfd, all of them in one system call, as far as the system gives some; the
 * others by /proc, a few in each call. A process that has exited is seen even as a zombie, which
 * its launcher has not collected yet.
 */
#include "runtime/topology_watch.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/memory.h"
#include "runtime/process.h"

enum {
    PIDFDS = 256,   /* files that may be taken from the program's limit */
    PROC_READS = 4, /* in one call */
};

struct watched {
    uint32_t rank;
    int32_t pid;
    uint64_t start_time;
    bool by_proc;
};

struct tu_watch {
    uint32_t count;
    uint32_t pidfds;
    uint32_t next; /* whose turn it is to be read from /proc */
    struct watched *watched;
    struct pollfd *poll; /* of the same index; fd -1: not watched this way (any more) */
};

struct tu_watch *tu_watch_create(uint32_t ranks) {
    struct tu_watch *watch = tu_alloc(0, 1, sizeof *watch);

    if (!watch) {
        return NULL;
    }
    watch->watched = tu_alloc(0, ranks, sizeof *watch->watched);
    watch->poll = tu_alloc(0, ranks, sizeof *watch->poll);
    if (!watch->watched || !watch->poll) {
        tu_watch_free(watch);
        return NULL;
    }
    return watch;
}

void tu_watch_free(struct tu_watch *watch) {
    if (!watch) {
        return;
    }
    for (uint32_t i = 0; i < watch->count; i++) {
        if (watch->poll[i].fd >= 0) {
            close(watch->poll[i].fd);
        }
    }
    free(watch->watched);
    free(watch->poll);
    free(watch);
}

static int open_pidfd(const struct tu_watch *watch, int32_t pid) {
#ifdef SYS_pidfd_open
    if (watch->pidfds < PIDFDS) {
        return (int)syscall(SYS_pidfd_open, pid, 0);
    }
#else
    (void)watch, (void)pid;
#endif
    return -1;
}

void tu_watch_add(struct tu_watch *watch, uint32_t rank, int32_t pid, uint64_t start_time) {
    int fd;

    if (pid <= 0 || pid == getpid() || start_time == 0) {
        return;
    }
    fd = open_pidfd(watch, pid);
    if (!tu_process_alive(pid,
                          start_time)) { /* now that the pidfd holds the process, if it is it */
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    watch->watched[watch->count] =
        (struct watched){.rank = rank, .pid = pid, .start_time = start_time, .by_proc = fd < 0};
    watch->poll[watch->count] = (struct pollfd){.fd = fd, .events = POLLIN};
    watch->pidfds += fd >= 0;
    watch->count++;
}

static bool ended_by_pidfd(struct tu_watch *watch, uint32_t *rank) {
    if (watch->pidfds == 0 || poll(watch->poll, watch->count, 0) <= 0) {
        return false;
    }
    for (uint32_t i = 0; i < watch->count; i++) {
        if (watch->poll[i].fd >= 0 && watch->poll[i].revents) {
            close(watch->poll[i].fd);
            watch->poll[i].fd = -1;
            watch->pidfds--;
            *rank = watch->watched[i].rank;
            return true;
        }
    }
    return false;
}

static bool ended_by_proc(struct tu_watch *watch, uint32_t *rank) {
    uint32_t reads = 0;

    for (uint32_t n = 0; n < watch->count && reads < PROC_READS; n++) {
        struct watched *watched = &watch->watched[watch->next];

        watch->next = watch->next + 1 < watch->count ? watch->next + 1 : 0;
        if (!watched->by_proc) {
            continue;
        }
        reads++;
        if (!tu_process_alive(watched->pid, watched->start_time)) {
            watched->by_proc = false;
            *rank = watched->rank;
            return true;
        }
    }
    return false;
}

bool tu_watch_ended(struct tu_watch *watch, uint32_t *rank) {
    return ended_by_pidfd(watch, rank) || ended_by_proc(watch, rank);
}
