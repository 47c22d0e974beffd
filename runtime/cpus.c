/* How many cores processes of this node may use. */
#define _GNU_SOURCE /* CPU_ALLOC, sched_getaffinity */
#include "runtime/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "runtime/cgroup.h"

enum { CPUS_MAX = 65536 }; /* the kernel's own limit is 8192 */

struct mask {
    cpu_set_t *set;
    int cpus; /* room */
};

/* The kernel wants a mask with room for every CPU it could have: grows until it is content. */
static void find_room(struct mask *mask) {
    for (mask->cpus = 1024; mask->cpus <= CPUS_MAX; mask->cpus *= 4) {
        mask->set = CPU_ALLOC((size_t)mask->cpus);
        if (!mask->set || sched_getaffinity(0, CPU_ALLOC_SIZE(mask->cpus), mask->set) == 0) {
            return;
        }
        CPU_FREE(mask->set);
        mask->set = NULL;
        if (errno != EINVAL) {
            return;
        }
    }
}

/* The quota cuts whole cores off: of 2.5 cores, two can spin. */
static int within_quota(int cpus) {
    double quota = tu_cgroup_cpus("");

    if (quota > 0 && quota < cpus) {
        cpus = (int)quota;
    }
    return cpus > 1 ? cpus : 1;
}

int tu_usable_cpus_of(const int32_t *pid, size_t n) {
    struct mask all = {0};
    cpu_set_t *one;
    size_t bytes;
    int cpus = 1;

    find_room(&all);
    if (!all.set) {
        return 1;
    }
    bytes = CPU_ALLOC_SIZE(all.cpus);
    one = CPU_ALLOC((size_t)all.cpus);
    for (size_t i = 0; one && i < n; i++) {
        if (sched_getaffinity(pid[i], bytes, one) == 0) {
            CPU_OR_S(bytes, all.set, all.set, one);
        }
    }
    cpus = CPU_COUNT_S(bytes, all.set);
    CPU_FREE(all.set);
    if (one) {
        CPU_FREE(one);
    }
    return within_quota(cpus);
}

int tu_usable_cpus(void) {
    return tu_usable_cpus_of(NULL, 0);
}

size_t tu_cache_bytes(void) {
    for (int i = 4; i >= 0; i--) { /* the outermost level is the last one */
        char name[80];
        size_t kib = 0;

        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *in = fopen(name, "r");
        if (!in) {
            continue;
        }
        bool known = fscanf(in, "%zuK", &kib) == 1 && kib > 0;
        fclose(in);
        if (known) {
            return kib << 10;
        }
    }
    return 0;
}
