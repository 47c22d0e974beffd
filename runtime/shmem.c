/*
 * One shared memory segment: created from a memfd (nothing is left behind, whatever dies) or as a
 * POSIX object in /dev/shm, described to peers, and mapped by them. The segment starts with a page
 * of its own, whose head proves to a peer that it has opened the right one.
 */
#define _GNU_SOURCE /* memfd_create, seals, fallocate */
#include "runtime/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/process.h"
#include "runtime/text.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Written by the creator before it exports the segment, read by those who attach. */
struct head {
    uint64_t magic;
    uint64_t token;
    uint64_t bytes; /* usable */
};
_Static_assert(sizeof(struct head) == 24, "shared between processes");

static const uint64_t magic = 0x7574746968656164;
static const char memfd_name[] = "tutti";

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- create -------------------------------------------------------------------------------- */

static bool fill_random(void *buffer, size_t bytes) {
    ssize_t got;

    do {
        got = getrandom(buffer, bytes, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes;
}

static void memfd_link(int32_t pid, int32_t fd, char *path, size_t bytes) {
    snprintf(path, bytes, "/proc/%" PRId32 "/fd/%" PRId32, pid, fd);
}

/*
 * Can peers open this memfd through /proc? Not without a /proc of this pid namespace, and not if
 * this process hides from its equals (setuid programs, file capabilities).
 */
static bool memfd_reachable(int fd) {
    char path[48], target[16];

    memfd_link(getpid(), fd, path, sizeof path);
    return prctl(PR_GET_DUMPABLE) == 1 && readlink(path, target, sizeof target) > 0;
}

/* -1 with errno if there is no memfd, or none that peers could open. */
static int open_memfd(void) {
    int fd = memfd_create(memfd_name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(memfd_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd >= 0 && !memfd_reachable(fd)) {
        close(fd);
        fd = -1;
        errno = EACCES;
    }
    return fd;
}

static int open_posix(struct tu_shmem *shmem, uint64_t random) {
    struct tu_shmem_maker maker = {shmem->pid_namespace, shmem->owner, shmem->start_time};
    int fd;

    tu_shmem_name(&maker, random, shmem->name, sizeof shmem->name);
    fd = shm_open(shmem->name, O_CREAT | O_EXCL | O_RDWR, 0600); /* close-on-exec by definition */
    if (fd < 0) {
        shmem->name[0] = 0;
    }
    return fd;
}

/* Sets kind, fd and, for POSIX, name. */
static tutti_status open_segment(struct tu_env *env, struct tu_shmem *shmem, uint64_t random) {
    enum tu_shm_choice choice = env->config.shm;

    if (choice != TU_SHM_POSIX) {
        shmem->kind = TU_SHMEM_MEMFD;
        shmem->fd = open_memfd();
        if (shmem->fd >= 0) {
            return TUTTI_OK;
        }
        if (choice == TU_SHM_MEMFD) {
            return tu_fail_errno(env, TUTTI_ERR_UNSUPPORTED, errno,
                                 "TUTTI_SHM=memfd: no memfd that peers could open through /proc");
        }
        tu_log(env, TU_LOG_INFO, "no memfd that peers could open (%s): using /dev/shm",
               strerror(errno));
    }
    shmem->kind = TU_SHMEM_POSIX;
    shmem->fd = open_posix(shmem, random);
    if (shmem->fd >= 0) {
        return TUTTI_OK;
    }
    return tu_fail_errno(env, errno == ENOSPC ? TUTTI_ERR_MEMORY : TUTTI_ERR_SYSTEM, errno,
                         "can't create shared memory in /dev/shm (is it mounted and writable?%s)",
                         choice == TU_SHM_POSIX ? " TUTTI_SHM=memfd does without" : "");
}

/* Growing a file past the limit would raise SIGXFSZ. */
static tutti_status check_file_limit(struct tu_env *env, size_t bytes) {
    char needed[32], limit[32];
    struct rlimit file;

    if (getrlimit(RLIMIT_FSIZE, &file) != 0 || file.rlim_cur == RLIM_INFINITY ||
        bytes <= file.rlim_cur) {
        return TUTTI_OK;
    }
    return tu_fail(env, TUTTI_ERR_MEMORY,
                   "the limit on file size is %s, shared memory needs %s: ulimit -f unlimited",
                   tu_text_size(file.rlim_cur, limit, sizeof limit),
                   tu_text_size(bytes, needed, sizeof needed));
}

/*
 * Whether a core dump takes a range, in whole pages. It would take memory for all that has none, and a
 * segment may be much larger than the memory there is. A refusal does no harm to anything else.
 */
static void set_dumped(const struct tu_shmem *shmem, size_t offset, size_t bytes, bool dumped) {
    size_t start = offset / page_bytes() * page_bytes();

    madvise((char *)shmem->memory + start, offset + bytes - start,
            dumped ? MADV_DODUMP : MADV_DONTDUMP);
}

static tutti_status map_segment(struct tu_env *env, struct tu_shmem *shmem, size_t bytes) {
    size_t page = page_bytes();
    char size[32];
    void *base;
    struct head *head;
    tutti_status status;

    if (ftruncate(shmem->fd, (off_t)(page + bytes)) != 0) {
        return tu_fail_errno(env, TUTTI_ERR_MEMORY, errno, "can't make shared memory of %s",
                             tu_text_size(bytes, size, sizeof size));
    }
    if (shmem->kind == TU_SHMEM_MEMFD) { /* nobody can pull pages away from under a mapping */
        fcntl(shmem->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    }
    status = tu_shmem_reserve_file(env, shmem, page + bytes, 0, page);
    if (status != TUTTI_OK) {
        return status;
    }
    base = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shmem->fd, 0);
    if (base == MAP_FAILED) {
        return tu_fail_errno(env, TUTTI_ERR_MEMORY, errno,
                             "can't map shared memory of %s (check ulimit -v)",
                             tu_text_size(bytes, size, sizeof size));
    }
    head = base;
    *head = (struct head){magic, shmem->token, bytes};
    shmem->memory = (char *)base + page;
    shmem->bytes = bytes;
    set_dumped(shmem, 0, bytes, false);
    return TUTTI_OK;
}

tutti_status tu_shmem_create(struct tu_env *env, size_t bytes, struct tu_shmem *shmem) {
    size_t page = page_bytes(), whole = tu_round_up(bytes ? bytes : 1, page);
    uint64_t random[2];
    tutti_status status;

    memset(shmem, 0, sizeof *shmem);
    if (whole == 0 || whole > PTRDIFF_MAX - page) {
        return tu_fail(env, TUTTI_ERR_MEMORY,
                       "shared memory of %zu bytes is more than any machine has", bytes);
    }
    status = check_file_limit(env, page + whole);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!fill_random(random, sizeof random)) {
        return tu_fail_errno(env, TUTTI_ERR_SYSTEM, errno, "no random numbers (getrandom)");
    }
    shmem->owner = getpid();
    shmem->start_time = tu_process_start_time(shmem->owner);
    shmem->pid_namespace = tu_process_namespace();
    shmem->token = random[0];
    status = open_segment(env, shmem, random[1]);
    if (status == TUTTI_OK) {
        status = map_segment(env, shmem, whole);
        if (status != TUTTI_OK) {
            tu_shmem_destroy(shmem);
        }
    } else {
        memset(shmem, 0, sizeof *shmem);
    }
    return status;
}

tutti_status tu_shmem_reserve(struct tu_env *env, struct tu_shmem *shmem, size_t offset,
                              size_t bytes) {
    if (shmem->owner != getpid() || offset > shmem->bytes || bytes > shmem->bytes - offset) {
        return tu_fail(env, TUTTI_ERR_INTERNAL,
                       "reserving %zu bytes at %zu of shared memory of %zu bytes%s", bytes, offset,
                       shmem->bytes, shmem->owner == getpid() ? "" : " of another process");
    }
    if (bytes == 0) {
        return TUTTI_OK;
    }
    tutti_status status = tu_shmem_reserve_file(env, shmem, page_bytes() + shmem->bytes,
                                                page_bytes() + offset, bytes);
    if (status == TUTTI_OK) {
        set_dumped(shmem, offset, bytes, true);
    }
    return status;
}

bool tu_shmem_release(struct tu_shmem *shmem, size_t offset, size_t bytes) {
    if (shmem->owner != getpid() || offset > shmem->bytes || bytes > shmem->bytes - offset ||
        fallocate(shmem->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(page_bytes() + offset), (off_t)bytes) != 0) {
        return false;
    }
    set_dumped(shmem, offset, bytes, false);
    return true;
}

void tu_shmem_export(const struct tu_shmem *shmem, struct tu_shmem_blob *blob) {
    memset(blob, 0, sizeof *blob);
    blob->kind = shmem->kind;
    blob->pid = shmem->owner;
    blob->start_time = shmem->start_time;
    blob->pid_namespace = shmem->pid_namespace;
    blob->bytes = shmem->bytes;
    blob->token = shmem->token;
    blob->fd = shmem->kind == TU_SHMEM_MEMFD ? shmem->fd : -1;
    memcpy(blob->name, shmem->name, sizeof blob->name);
}

void tu_shmem_unlink(struct tu_shmem *shmem) {
    if (shmem->name[0] && shmem->owner == getpid()) { /* not in a forked child */
        shm_unlink(shmem->name);
    }
    shmem->name[0] = 0;
}

void tu_shmem_destroy(struct tu_shmem *shmem) {
    if (shmem->kind == TU_SHMEM_NONE) {
        return;
    }
    tu_shmem_unlink(shmem);
    if (shmem->memory) {
        munmap((char *)shmem->memory - page_bytes(), page_bytes() + shmem->bytes);
    }
    if (shmem->fd >= 0) {
        close(shmem->fd);
    }
    memset(shmem, 0, sizeof *shmem);
}

/* ---- attach -------------------------------------------------------------------------------- */

/* The blob came from elsewhere: nothing in it is used before it is known to make sense. */
static bool blob_valid(const struct tu_shmem_blob *blob) {
    struct tu_shmem_maker maker;

    if (blob->bytes == 0 || blob->bytes % page_bytes() || blob->pid <= 0 ||
        blob->bytes > PTRDIFF_MAX - page_bytes()) {
        return false;
    }
    if (blob->kind == TU_SHMEM_MEMFD) {
        return blob->fd >= 0;
    }
    return blob->kind == TU_SHMEM_POSIX && blob->name[0] == '/' &&
           memchr(blob->name, 0, sizeof blob->name) && tu_shmem_parse_name(blob->name, &maker);
}

/*
 * Opens the maker's memfd. The number may be something else by now, or be another process's: it is
 * looked at before it is opened, since opening a terminal or a pipe has effects.
 */
static int open_peer_memfd(const struct tu_shmem_blob *blob, char *why, size_t why_bytes) {
    char path[48], target[64] = "";
    int fd;

    if (blob->pid_namespace != tu_process_namespace()) {
        tu_text_format(why, why_bytes,
                       "process %" PRId32 " is in another pid namespace "
                       "(TUTTI_SHM=posix needs only a common /dev/shm)",
                       blob->pid);
        return -1;
    }
    memfd_link(blob->pid, blob->fd, path, sizeof path);
    if (readlink(path, target, sizeof target - 1) < 0) {
        tu_text_format(why, why_bytes, "%s: %s", path, strerror(errno));
        return -1;
    }
    if (strncmp(target, "/memfd:tutti", strlen("/memfd:tutti")) != 0) {
        tu_text_format(why, why_bytes, "%s is not shared memory of tutti", path);
        return -1;
    }
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        tu_text_format(why, why_bytes, "%s: %s", path, strerror(errno));
    }
    return fd;
}

static int open_peer_posix(const struct tu_shmem_blob *blob, char *why, size_t why_bytes) {
    int fd = shm_open(blob->name, O_RDWR, 0);

    if (fd < 0) {
        tu_text_format(why, why_bytes, "/dev/shm%s: %s", blob->name, strerror(errno));
    }
    return fd;
}

/* Size and token are read, not mapped, so that a wrong segment can do no harm. */
static bool is_described(int fd, const struct tu_shmem_blob *blob) {
    struct stat file;
    struct head head;

    return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
           (uint64_t)file.st_size == page_bytes() + blob->bytes &&
           pread(fd, &head, sizeof head, 0) == sizeof head && head.magic == magic &&
           head.token == blob->token && head.bytes == blob->bytes;
}

tutti_status tu_shmem_try_attach(const struct tu_shmem_blob *blob, struct tu_shmem *shmem,
                                 char *why, size_t why_bytes) {
    size_t page = page_bytes();
    void *base;
    int fd;

    memset(shmem, 0, sizeof *shmem);
    if (!blob_valid(blob)) {
        tu_text_format(why, why_bytes, "its description is damaged");
        return TUTTI_ERR_UNSUPPORTED;
    }
    fd = blob->kind == TU_SHMEM_MEMFD ? open_peer_memfd(blob, why, why_bytes)
                                      : open_peer_posix(blob, why, why_bytes);
    if (fd < 0) {
        return TUTTI_ERR_UNSUPPORTED;
    }
    if (!is_described(fd, blob)) {
        tu_text_format(why, why_bytes, "size or token are not those of the segment described");
        close(fd);
        return TUTTI_ERR_UNSUPPORTED;
    }
    base = mmap(NULL, page + blob->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED) {
        tu_text_format(why, why_bytes, "mapping it: %s (check ulimit -v)", strerror(errno));
        return TUTTI_ERR_MEMORY;
    }
    shmem->memory = (char *)base + page;
    shmem->bytes = blob->bytes;
    shmem->kind = (enum tu_shmem_kind)blob->kind;
    shmem->fd = -1;
    shmem->token = blob->token;
    set_dumped(shmem, 0, shmem->bytes, false); /* its owner's dump has it */
    return TUTTI_OK;
}

tutti_status tu_shmem_attach(struct tu_env *env, const struct tu_shmem_blob *blob,
                             struct tu_shmem *shmem) {
    char why[256];
    tutti_status status = tu_shmem_try_attach(blob, shmem, why, sizeof why);

    if (status == TUTTI_OK) {
        return status;
    }
    return tu_fail(env, status, "can't attach to the shared memory of process %" PRId32 ": %s",
                   blob->pid, why);
}
