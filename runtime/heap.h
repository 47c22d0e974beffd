/*
 * Memory that is shared from the start: a part of a shared segment from which blocks are handed out.
 * What is known of the blocks lies in private memory, so peers can't damage it, and nothing stands
 * between blocks. Pages come when a block needs them, and go when much of them is free.
 */
#ifndef TU_RUNTIME_HEAP_H
#define TU_RUNTIME_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/memory.h"
#include "runtime/ranges.h"

enum {
    TU_HEAP_UNIT = 64,         /* blocks are multiples of it, and lie at such: a cache line */
    TU_HEAP_PAGE = 4096,       /* the same of blocks that are as large */
    TU_HEAP_CHUNK = 256 << 10, /* pages come and go in chunks; a heap is whole chunks */
    TU_HEAP_KEPT = 32 << 20,   /* bytes that stay backed although no block needs them */
};

/* All zero is a heap without room. Offsets are from the heap's beginning. */
struct tu_heap {
    struct tu_shmem *shmem;
    size_t at, bytes;      /* place in the segment */
    struct tu_ranges used; /* blocks */
    size_t dense;          /* that many first blocks have no gap in front of them */
    size_t used_bytes;     /* of all blocks */
    size_t backed_bytes;   /* of all chunks that have their pages */
    uint8_t *backed;       /* [chunks] 1: has its pages */
};

/*
 * Bytes of heap that a process should ask for beside a window of `window_bytes`: TUTTI_HEAP in whole
 * chunks, or less where limits on address space (all peers of the node map it) or files are low.
 */
size_t tu_heap_wanted(struct tu_env *env, size_t window_bytes);

/* Lays a heap over the last `bytes` of a created segment. False if there is no (private) memory. */
bool tu_heap_open(struct tu_shmem *shmem, size_t bytes, struct tu_heap *heap);
void tu_heap_close(struct tu_heap *heap);

/*
 * Hands out a block of `bytes` (0: one unit) with its pages; contents are undefined. False, with the
 * reason in `why`, if there is no room or no memory; then nothing has changed.
 */
bool tu_heap_take(struct tu_heap *heap, size_t bytes, size_t *offset, char *why, size_t why_bytes);

/* Takes back the block that starts at `offset`. False if there is none. */
bool tu_heap_give(struct tu_heap *heap, size_t offset);

/* For tests: everything that always holds. */
bool tu_heap_is_valid(const struct tu_heap *heap);

#endif
