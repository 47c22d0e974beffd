/* Which ranks share a host, and pinning. */
#define _GNU_SOURCE /* sched_setaffinity, CPU_COUNT */
#include "apps/bench.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* A number for this host, not negative. */
static int64_t host_number(void) {
    char name[256] = "";
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    gethostname(name, sizeof name - 1);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return (int64_t)(hash >> 1);
}

static void count_hosts(struct bench_world *world, const int64_t *host) {
    world->hosts = world->local_rank = world->local_size = 0;
    for (int r = 0; r < world->size; r++) {
        bool first = true;
        for (int q = 0; q < r && first; q++)
            first = host[q] != host[r];
        world->hosts += first;
        if (host[r] != host[world->rank])
            continue;
        world->local_size++;
        world->local_rank += r < world->rank;
    }
}

static void pin(struct bench_world *world) {
    cpu_set_t allowed, one;
    int left = world->local_rank;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        bench_fail(world, "--pin: the cores of this process can't be asked for");
    if (CPU_COUNT(&allowed) <= left)
        bench_fail(world,
                   "--pin: rank %d of its host needs a core of its own, but may run on %d only: "
                   "start at most a rank per core, and let the launcher bind none (--bind-to none)",
                   left, CPU_COUNT(&allowed));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || left-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one))
            bench_fail(world, "--pin: core %d can't be had", cpu);
        return;
    }
}

/* The launcher may have pinned it, too. */
static int only_cpu(void) {
    cpu_set_t allowed;
    int cpu = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) != 1)
        return -1;
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    return cpu;
}

void bench_place(struct bench_world *world, bool pinned) {
    int64_t *host = calloc((size_t)world->size, sizeof *host);
    if (!host)
        bench_fail(world, "no memory for %d ranks", world->size);
    host[world->rank] = host_number();
    bench_sum_words(world, host, (size_t)world->size);
    count_hosts(world, host);
    free(host);
    if (pinned)
        pin(world);
    world->cpu = only_cpu();
}
