/*
 * First fit by address. The gaps between blocks are what lies between neighbours of a sorted array, so
 * they coalesce by themselves. Adding behind all others, as programs do that allocate at their start, and
 * taking back the last one cost a few instructions; else a block costs time by the number of blocks
 * behind it, 16 bytes each to move.
 */
#include "runtime/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/env.h"
#include "runtime/text.h"

/* All ranks of a node map each other's heaps: a limit on address space must hold so many of them. */
enum { MOST_RANKS = 256 };

/* ---- size ---------------------------------------------------------------------------------- */

static size_t limit_of(int resource) {
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return SIZE_MAX;
    }
    return limit.rlim_cur;
}

size_t tu_heap_wanted(struct tu_env *env, size_t window_bytes) {
    size_t space = limit_of(RLIMIT_AS), file = limit_of(RLIMIT_FSIZE);
    size_t wanted = env->config.heap_bytes, most = wanted, beside = window_bytes + (1 << 20);
    char have[32], asked[32];

    if (space != SIZE_MAX && space / MOST_RANKS < most) {
        most = space / MOST_RANKS;
    }
    if (file != SIZE_MAX && (file < beside || file - beside < most)) {
        most = file < beside ? 0 : file - beside;
    }
    most = most / TU_HEAP_CHUNK * TU_HEAP_CHUNK;
    if (most < wanted / TU_HEAP_CHUNK * TU_HEAP_CHUNK) {
        tu_log(env, TU_LOG_INFO,
               "the shared heap has %s, not TUTTI_HEAP=%s: address space or file size is limited "
               "(ulimit -v, ulimit -f)",
               tu_text_size(most, have, sizeof have), tu_text_bytes(wanted, asked, sizeof asked));
    }
    return most;
}

/* ---- life ---------------------------------------------------------------------------------- */

bool tu_heap_open(struct tu_shmem *shmem, size_t bytes, struct tu_heap *heap) {
    *heap = (struct tu_heap){.shmem = shmem, .at = shmem->bytes - bytes, .bytes = bytes};
    heap->backed = tu_alloc(0, bytes / TU_HEAP_CHUNK, 1);
    if (!heap->backed) {
        *heap = (struct tu_heap){0};
        return false;
    }
    return true;
}

void tu_heap_close(struct tu_heap *heap) {
    tu_ranges_free(&heap->used);
    free(heap->backed);
    *heap = (struct tu_heap){0};
}

/* ---- pages --------------------------------------------------------------------------------- */

/* The next run of chunks of [*first, end) whose state is `state`; false if there is none. */
static bool next_run(const struct tu_heap *heap, uint8_t state, size_t end, size_t *first,
                     size_t *behind) {
    while (*first < end && heap->backed[*first] != state) {
        ++*first;
    }
    for (*behind = *first; *behind < end && heap->backed[*behind] == state;) {
        ++*behind;
    }
    return *first < *behind;
}

static void set_run(struct tu_heap *heap, size_t first, size_t behind, uint8_t state) {
    memset(heap->backed + first, state, behind - first);
}

/* Gives the pages back of all chunks that lie inside [start, end). */
static void release(struct tu_heap *heap, size_t start, size_t end) {
    size_t first = (start + TU_HEAP_CHUNK - 1) / TU_HEAP_CHUNK, behind;

    for (; next_run(heap, 1, end / TU_HEAP_CHUNK, &first, &behind); first = behind) {
        size_t bytes = (behind - first) * TU_HEAP_CHUNK;

        if (tu_shmem_release(heap->shmem, heap->at + first * TU_HEAP_CHUNK, bytes)) {
            set_run(heap, first, behind, 0);
            heap->backed_bytes -= bytes;
        }
    }
}

/* Backs all chunks that [start, end) touches. */
static bool back(struct tu_heap *heap, size_t start, size_t end, char *why, size_t why_bytes) {
    struct tu_env quiet = {.rank = -1, .log.level = TU_LOG_OFF}; /* the caller knows what to do */
    size_t first = start / TU_HEAP_CHUNK, behind;
    size_t last = (end + TU_HEAP_CHUNK - 1) / TU_HEAP_CHUNK;

    for (; next_run(heap, 0, last, &first, &behind); first = behind) {
        size_t bytes = (behind - first) * TU_HEAP_CHUNK;

        if (tu_shmem_reserve(&quiet, heap->shmem, heap->at + first * TU_HEAP_CHUNK, bytes)) {
            tu_text_format(why, why_bytes, "%s", quiet.error);
            return false;
        }
        set_run(heap, first, behind, 1);
        heap->backed_bytes += bytes;
    }
    return true;
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* The gap in front of block `place`; that of place n is behind all blocks. */
static size_t gap_start(const struct tu_heap *heap, size_t place) {
    if (!place)
        return 0;
    const struct tu_range *before = &heap->used.range[place - 1];
    return before->at + before->bytes;
}

static size_t gap_end(const struct tu_heap *heap, size_t place) {
    return place < heap->used.n ? heap->used.range[place].at : heap->bytes;
}

/* The first gap that holds `bytes` at a multiple of `step`. */
static bool find_gap(const struct tu_heap *heap, size_t bytes, size_t step, size_t *place,
                     size_t *at) {
    for (*place = heap->dense; *place <= heap->used.n; ++*place) {
        size_t end = gap_end(heap, *place);

        *at = tu_round_up(gap_start(heap, *place), step);
        if (*at <= end && bytes <= end - *at) {
            return true;
        }
    }
    return false;
}

static void tell_full(const struct tu_heap *heap, char *why, size_t why_bytes) {
    char used[32], all[32];

    tu_text_format(why, why_bytes, "%s of the heap's %s are in use, and no gap is large enough",
                   tu_text_size(heap->used_bytes, used, sizeof used),
                   tu_text_size(heap->bytes, all, sizeof all));
}

bool tu_heap_take(struct tu_heap *heap, size_t bytes, size_t *offset, char *why, size_t why_bytes) {
    size_t step = bytes < TU_HEAP_PAGE ? TU_HEAP_UNIT : TU_HEAP_PAGE, place, at;
    size_t need = tu_round_up(bytes ? bytes : 1, step);

    if (need == 0 || !find_gap(heap, need, step, &place, &at)) {
        tell_full(heap, why, why_bytes);
        return false;
    }
    if (!back(heap, at, at + need, why, why_bytes)) {
        release(heap, gap_start(heap, place), gap_end(heap, place));
        return false;
    }
    if (!tu_ranges_add(&heap->used, place, (struct tu_range){at, need})) {
        tu_text_format(why, why_bytes, "no memory to keep account of it");
        return false;
    }
    while (heap->dense < heap->used.n &&
           gap_start(heap, heap->dense) == gap_end(heap, heap->dense)) {
        heap->dense++;
    }
    heap->used_bytes += need;
    *offset = at;
    return true;
}

bool tu_heap_give(struct tu_heap *heap, size_t offset) {
    size_t place;

    if (!tu_ranges_find(&heap->used, offset, &place)) {
        return false;
    }
    heap->used_bytes -= heap->used.range[place].bytes;
    tu_ranges_remove(&heap->used, place);
    heap->dense = place < heap->dense ? place : heap->dense;
    if (heap->backed_bytes - heap->used_bytes > TU_HEAP_KEPT) {
        release(heap, gap_start(heap, place), gap_end(heap, place));
    }
    return true;
}

/* ---- what always holds --------------------------------------------------------------------- */

static bool is_backed(const struct tu_heap *heap, const struct tu_range *block) {
    size_t chunk = block->at / TU_HEAP_CHUNK;

    while (chunk * TU_HEAP_CHUNK < block->at + block->bytes && heap->backed[chunk]) {
        chunk++;
    }
    return chunk * TU_HEAP_CHUNK >= block->at + block->bytes;
}

bool tu_heap_is_valid(const struct tu_heap *heap) {
    size_t used = 0, backed = 0;

    for (size_t i = 0; i < heap->used.n; i++) {
        const struct tu_range *block = &heap->used.range[i];

        if (block->bytes == 0 || block->bytes % TU_HEAP_UNIT || block->at % TU_HEAP_UNIT ||
            gap_start(heap, i) > block->at || block->bytes > heap->bytes - block->at ||
            !is_backed(heap, block) || (i < heap->dense && gap_start(heap, i) != block->at)) {
            return false;
        }
        used += block->bytes;
    }
    for (size_t i = 0; i < heap->bytes / TU_HEAP_CHUNK; i++) {
        backed += heap->backed[i] * (size_t)TU_HEAP_CHUNK;
    }
    return used == heap->used_bytes && backed == heap->backed_bytes && heap->dense <= heap->used.n;
}
