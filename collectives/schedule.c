/*
 * Receive and send schedules of the n-block broadcast, see schedule.h.
 *
 * A block reaches v over a path from the root whose length in the circulant graph is congruent to v.
 * Seen from T = p + v, the search lists for k = 0, 1, ... q - 1 the longest path sum (a sum of
 * distinct or repeated skips, largest first) that ends in the interval between T - s_{k+1} and
 * T - s_k, hence a rank from which v can hear in round k; the skip with which the path ends says
 * which block came that way, and each skip is used for one round only.
 */
#include "collectives/schedule.h"

uint32_t tu_base_block(const struct tu_skips *skips, uint32_t v) {
    uint32_t last = skips->q;
    for (uint32_t k = skips->q; k-- > 0 && v > 0;) {
        if (skips->s[k] <= v) {
            v -= skips->s[k];
            last = k;
        }
    }
    return last;
}

/* The search for one rank. The skips not yet used form a list, the largest first. */
struct search {
    const struct tu_skips *skips;
    int64_t total;              /* T = p + v */
    int8_t found[TU_MAX_SKIPS]; /* the result: skip index of round k */
    int8_t next[TU_MAX_SKIPS];  /* after the largest comes the next smaller; -1 ends */
    int8_t prev[TU_MAX_SKIPS];  /* -1: first */
};

static void unlink_skip(struct search *search, int e) {
    int next = search->next[e], prev = search->prev[e];
    if (next >= 0)
        search->prev[next] = (int8_t)prev;
    if (prev >= 0)
        search->next[prev] = (int8_t)next;
}

/*
 * Finds rounds from k on among the paths that start with the sum `pos` and go on with skip e or
 * smaller ones, all below `bound`; returns the first round that was not found. `bound` belongs to
 * this call: what a deeper call has found does not bound its caller's later paths (with no bound at
 * all, p = 33 is the first to go wrong). Removed skips keep their own `next`, so a caller that stands
 * on one walks on.
 */
static uint32_t search_from(struct search *search, int64_t pos, int64_t bound, int e, uint32_t k) {
    const uint32_t *s = search->skips->s, q = search->skips->q;
    for (; e >= 0 && k < q; e = search->next[e]) {
        int64_t sum = pos + s[e];
        if (sum > search->total - s[k] || sum >= bound)
            continue;
        if (sum <= search->total - s[k + 1])
            k = search_from(search, sum, bound, e, k);
        if (k == q || pos > search->total - s[k + 1])
            return k;
        bound = sum;
        search->found[k++] = (int8_t)e;
        unlink_skip(search, e);
    }
    return k;
}

void tu_receive_schedule(const struct tu_skips *skips, uint32_t v, int32_t *block) {
    int q = (int)skips->q, base = (int)tu_base_block(skips, v);
    int64_t p = skips->s[q];
    struct search search = {.skips = skips, .total = p + v};
    for (int e = q; e >= 0; e--) {
        search.next[e] = (int8_t)(e - 1);
        search.prev[e] = (int8_t)(e < q ? e + 1 : -1);
    }
    unlink_skip(&search, base);
    search_from(&search, 0, 2 * p, base == q ? q - 1 : q, 0);
    for (int k = 0; k < q; k++)
        block[k] = search.found[k] == q ? base : search.found[k] - q;
}

void tu_send_schedule(const struct tu_skips *skips, uint32_t v, int32_t *block) {
    uint32_t q = skips->q, p = skips->s[q];
    int32_t received[TU_MAX_SKIPS];
    for (uint32_t k = 0; k < q; k++) {
        if (v == 0) {
            block[k] = (int32_t)k;
            continue;
        }
        tu_receive_schedule(skips, (uint32_t)(((uint64_t)v + skips->s[k]) % p), received);
        block[k] = received[k];
    }
}
