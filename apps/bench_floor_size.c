/*
 * The floor of one size: what a call takes at least, by the figures of bench_floor.c, between ranks of
 * one host whose buffers are private and meet in shared memory.
 *
 * The least that p ranks must do for n bytes, each, is a reduce-scatter and an allgather over memory:
 *     publish  n (p-1)/p bytes, those that others fold: copied into lines that the peer or this rank
 *              has read last, whichever is faster
 *     fold     n (p-1)/p bytes that others have published
 *     fetch    n (p-1)/p bytes of results into the target
 * Of what is read, the share that ranks on other cores wrote comes from their caches, the rest from the
 * own one. Reading and folding (or storing) is one pass, so the slower of the two rates counts, not
 * their sum. A vector beyond the caches is read from memory and written to it: at least a copy. Each
 * core does that for its ranks one after the other. Knowing that the others have come takes one
 * hand-off, and with more ranks than cores each core switches once to each of its other ranks.
 */
#include "apps/bench.h"

enum { BEYOND_CACHES = 16 << 20 };

static double lesser(double a, double b) {
    return a < b ? a : b;
}

/* ns for each byte that all three steps move; GB/s are bytes per ns. */
static double ns_per_byte(const struct bench_floor *f, double far) {
    double near = 1 - far;
    double publish_gbs = f->takeover_gbs > f->rewrite_gbs ? f->takeover_gbs : f->rewrite_gbs;
    if (far == 0)
        return 2 / f->copy_gbs + 1 / f->reduce_gbs;
    return 1 / lesser(f->copy_gbs, publish_gbs) + far / lesser(f->reduce_gbs, f->read_gbs) +
           near / f->reduce_gbs + far / f->read_gbs + near / f->copy_gbs;
}

double bench_floor_us(const struct bench_floor *f, double handoff_ns, int ranks, size_t bytes) {
    int cores = ranks < f->cores ? ranks : f->cores;
    if (cores < 1 || f->copy_gbs <= 0 || f->reduce_gbs <= 0 || (cores > 1 && f->read_gbs <= 0))
        return 0;
    int turns = (ranks + cores - 1) / cores;
    double p = ranks, n = (double)bytes, moving_ns = n / f->copy_gbs, waiting_ns = 0;
    if (ranks > 1) {
        double far = (p - turns) / (p - 1);
        moving_ns = n * (p - 1) / p * ns_per_byte(f, far);
        waiting_ns = (cores > 1 ? handoff_ns : 0) + (turns - 1) * f->yield_ns;
    }
    double memory_ns = bytes >= BEYOND_CACHES ? n / f->copy_large_gbs : 0;
    return (waiting_ns + turns * (memory_ns > moving_ns ? memory_ns : moving_ns)) * 1e-3;
}
