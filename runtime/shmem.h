/* What the files of shared memory have in common: names in /dev/shm, and reserving. */
#ifndef TU_RUNTIME_SHMEM_H
#define TU_RUNTIME_SHMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;
struct tu_shmem;

/* Who made a segment; a name says it to those who sweep. */
struct tu_shmem_maker {
    uint64_t pid_namespace;
    int32_t pid;
    uint64_t start_time;
};

/* "/tutti.NAMESPACE.PID.START.RANDOM" */
void tu_shmem_name(const struct tu_shmem_maker *maker, uint64_t random, char *name, size_t bytes);

/* Reads a name, with or without its slash; false if it is none of these. */
bool tu_shmem_parse_name(const char *name, struct tu_shmem_maker *maker);

/*
 * tu_shmem_reserve() with offsets from the beginning of the file, which has `file_bytes`. Only kind
 * and fd of the segment need to be set.
 */
tutti_status tu_shmem_reserve_file(struct tu_env *env, const struct tu_shmem *shmem,
                                   size_t file_bytes, size_t offset, size_t bytes);

#endif
