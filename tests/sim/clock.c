/* What simulated ranks get instead of the system's: see clock.h. */
#include "tests/sim/clock.h"

#include <stddef.h>
#include <time.h>

#include "runtime/shmem.h"

int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

tutti_status __wrap_tu_shmem_reserve_file(struct tu_env *env, const struct tu_shmem *shmem,
                                          size_t file_bytes, size_t offset, size_t bytes);

enum { START_NS = 1000000000 }; /* a clock never shows 0 */

static const uint64_t *followed;

void sim_clock_follow(const uint64_t *now_ns) {
    followed = now_ns;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *time) {
    if (!followed || id != CLOCK_MONOTONIC)
        return __real_clock_gettime(id, time);
    uint64_t ns = START_NS + *followed;
    *time = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = ns % 1000000000};
    return 0;
}

/* Asking for memory reads a dozen files, and there are many windows in ten thousand seeds. */
tutti_status __wrap_tu_shmem_reserve_file(struct tu_env *env, const struct tu_shmem *shmem,
                                          size_t file_bytes, size_t offset, size_t bytes) {
    (void)env, (void)shmem, (void)file_bytes, (void)offset, (void)bytes;
    return TUTTI_OK;
}
