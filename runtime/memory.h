/*
 * Memory: private (never aborts, sizes checked for overflow) and shared between processes of a node.
 */
#ifndef TU_RUNTIME_MEMORY_H
#define TU_RUNTIME_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;

/* ---- private ------------------------------------------------------------------------------- */

/* The overflow-checked multiply: false, and *product untouched, if a * b does not fit. */
bool tu_multiply(size_t a, size_t b, size_t *product);

/* `value` rounded up to a multiple of `step` (a power of two), or 0 if that does not fit. */
size_t tu_round_up(size_t value, size_t step);

/*
 * count * each_bytes zeroed bytes at a multiple of `alignment` (a power of two; 0: as malloc does).
 * NULL if there is no memory or the product overflows. A product of 0 gives a unique pointer.
 * Released by free().
 */
void *tu_alloc(size_t alignment, size_t count, size_t each_bytes)
    __attribute__((warn_unused_result));

/* The same; no memory is TUTTI_ERR_MEMORY that says for what ("edges of 1000 peers") and how much. */
tutti_status tu_alloc_for(struct tu_env *env, const char *what, size_t alignment, size_t count,
                          size_t each_bytes, void **memory);

/* ---- shared -------------------------------------------------------------------------------- */

enum tu_shmem_kind { TU_SHMEM_NONE, TU_SHMEM_MEMFD, TU_SHMEM_POSIX };

enum { TU_SHMEM_NAME_BYTES = 88 };

/* One shared memory segment as one process sees it. All zero is a segment that is not there. */
struct tu_shmem {
    void *memory; /* at a page boundary, zeroed by the creator; NULL if there is none */
    size_t bytes; /* usable bytes from `memory`, whole pages */

    /* the rest is shmem.c's */
    enum tu_shmem_kind kind;
    int fd;        /* creator: the open segment; others: -1 */
    int32_t owner; /* pid of the process that may reserve and unlink; 0: an attached segment */
    uint64_t start_time;
    uint64_t token;
    uint64_t pid_namespace;
    char name[TU_SHMEM_NAME_BYTES]; /* POSIX only, "" once unlinked */
};

/* What another process needs to attach. Travels between processes of one machine. */
struct tu_shmem_blob {
    uint32_t kind; /* enum tu_shmem_kind */
    int32_t pid;   /* the creator */
    uint64_t start_time;
    uint64_t pid_namespace;
    uint64_t bytes; /* usable */
    uint64_t token; /* as it stands in the segment */
    int32_t fd;     /* memfd: number in the creator */
    char name[TU_SHMEM_NAME_BYTES - 4];
};
_Static_assert(sizeof(struct tu_shmem_blob) == 128, "travels between processes");

/*
 * Creates a segment of at least `bytes` bytes (TUTTI_SHM says where from) and maps it. The memory is
 * address space only, which a core dump leaves out: reserve a range before touching it. TUTTI_ERR_MEMORY if there is none,
 * TUTTI_ERR_UNSUPPORTED if the kind that TUTTI_SHM forces does not exist here. `shmem` is all zero
 * after a failure.
 */
tutti_status tu_shmem_create(struct tu_env *env, size_t bytes, struct tu_shmem *shmem);

/*
 * Backs [offset, offset + bytes) with memory, so that touching it, here or in a peer, can't raise
 * SIGBUS. Only the creator may. A full file system or memory cgroup is TUTTI_ERR_MEMORY with the
 * figures. What is reserved already costs nothing again.
 */
tutti_status tu_shmem_reserve(struct tu_env *env, struct tu_shmem *shmem, size_t offset,
                              size_t bytes);

/*
 * Gives reserved pages back, whole ones inside the range: they are zero when reserved again, and must
 * not be touched before. Only the creator may. False if the system can't; then all is as it was.
 */
bool tu_shmem_release(struct tu_shmem *shmem, size_t offset, size_t bytes);

/* Describes a created segment for peers. */
void tu_shmem_export(const struct tu_shmem *shmem, struct tu_shmem_blob *blob);

/*
 * Maps a peer's segment. Fails without a log line, with the reason in `why` (not being able to share
 * memory is no error for ranks that use the network instead): TUTTI_ERR_UNSUPPORTED if the segment
 * can't be reached from here or is not the one described, TUTTI_ERR_MEMORY if mapping it failed.
 */
tutti_status tu_shmem_try_attach(const struct tu_shmem_blob *blob, struct tu_shmem *shmem,
                                 char *why, size_t why_bytes);

/* The same, for those to whom a failure is an error. */
tutti_status tu_shmem_attach(struct tu_env *env, const struct tu_shmem_blob *blob,
                             struct tu_shmem *shmem);

/* The creator takes the name away, as soon as all peers have mapped the segment. Idempotent. */
void tu_shmem_unlink(struct tu_shmem *shmem);

/* Unmaps, unlinks if this is the creator's, and leaves `shmem` all zero. Idempotent. */
void tu_shmem_destroy(struct tu_shmem *shmem);

/*
 * Removes the names that dead processes of this machine left in /dev/shm. Returns how many. Names of
 * other process namespaces, whose processes can't be seen from here, stay.
 */
int tu_shmem_sweep(struct tu_env *env);

#endif
