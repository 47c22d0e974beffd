/* How many cores processes of this node may use: affinity masks and control group quotas. */
#ifndef TU_RUNTIME_CPUS_H
#define TU_RUNTIME_CPUS_H

#include <stddef.h>
#include <stdint.h>

/* For this process: at least 1. */
int tu_usable_cpus(void);

/*
 * For processes of this node together: the CPUs that any of them may run on, within this process's
 * quota. Launchers bind ranks, and a rank that is bound to one core has not to share it with the
 * ranks on others. Processes that are gone or can't be seen count as this one.
 */
int tu_usable_cpus_of(const int32_t *pid, size_t n);

/* Of the largest cache, which cores share; 0: unknown. (sysconf() is wrong in some virtual machines.) */
size_t tu_cache_bytes(void);

#endif
