/*
 * Memory for the caller's buffers: from the heap that node peers have mapped, or private where there is
 * none or it is full. All calls are right with both.
 */
#include <stdlib.h>

#include "api/job.h"
#include "runtime/text.h"

tutti_status tu_memory_open(tutti_job *job) {
    const struct tu_nodes *nodes = job->nodes;
    bool alone = tu_node_size(nodes, nodes->node_of[job->boot->rank]) == 1;
    if (alone || job->heap_bytes == 0) {
        job->window.heap_bytes = 0;
        return TUTTI_OK;
    }
    if (!tu_heap_open(&job->segment, job->heap_bytes, &job->heap))
        return tu_fail(&job->env, TUTTI_ERR_MEMORY, "no memory to keep account of the shared heap");
    return TUTTI_OK;
}

void tu_memory_close(tutti_job *job) {
    for (size_t i = 0; i < job->private_memory.n; i++)
        free((void *)job->private_memory.range[i].at);
    tu_ranges_free(&job->private_memory);
    tu_heap_close(&job->heap);
}

/* ---- private --------------------------------------------------------------------------------- */

static tutti_status no_memory(tutti_job *job, size_t bytes) {
    char size[32];
    return tu_fail(&job->env, TUTTI_ERR_MEMORY,
                   "tutti_alloc: no memory of %s (check ulimit -v, free)",
                   tu_text_size(bytes, size, sizeof size));
}

/* Aligned as a block of the heap would be. Not touched, so that pages go where they are used first. */
static tutti_status take_private(tutti_job *job, size_t bytes, void **memory) {
    size_t step = bytes < TU_HEAP_PAGE ? TU_HEAP_UNIT : TU_HEAP_PAGE;
    size_t need = tu_round_up(bytes ? bytes : 1, step);
    struct tu_ranges *blocks = &job->private_memory;
    void *block;
    if (need == 0 || need > PTRDIFF_MAX || posix_memalign(&block, step, need))
        return no_memory(job, bytes);
    struct tu_range range = {(uintptr_t)block, need};
    if (!tu_ranges_add(blocks, tu_ranges_place(blocks, range.at), range)) {
        free(block);
        return no_memory(job, bytes);
    }
    *memory = block;
    return TUTTI_OK;
}

static bool give_private(tutti_job *job, void *memory) {
    size_t place;
    if (!tu_ranges_find(&job->private_memory, (uintptr_t)memory, &place))
        return false;
    tu_ranges_remove(&job->private_memory, place);
    free(memory);
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void tell_private(tutti_job *job, size_t bytes, const char *why) {
    char size[32];
    if (job->told_private || job->heap.bytes == 0)
        return;
    job->told_private = true;
    tu_log(&job->env, TU_LOG_WARN,
           "tutti_alloc: a block of %s is private, peers can't read it in place: %s; raise "
           "TUTTI_HEAP (this is said once)",
           tu_text_size(bytes, size, sizeof size), why);
}

tutti_status tutti_alloc(tutti_job *job, size_t bytes, void **memory) {
    char why[512];
    size_t offset;
    if (!job || job->magic != TU_JOB_MAGIC)
        return tu_fail(NULL, TUTTI_ERR_ARG, "tutti_alloc: no job");
    if (!memory)
        return tu_fail(&job->env, TUTTI_ERR_ARG, "tutti_alloc: memory is NULL");
    if (tu_heap_take(&job->heap, bytes, &offset, why, sizeof why)) {
        *memory = job->window.base + job->window.heap_at + offset;
        return TUTTI_OK;
    }
    tutti_status status = take_private(job, bytes, memory);
    if (!status)
        tell_private(job, bytes, why);
    return status;
}

tutti_status tutti_free(tutti_job *job, void *memory) {
    uint64_t offset;
    if (!job || job->magic != TU_JOB_MAGIC)
        return tu_fail(NULL, TUTTI_ERR_ARG, "tutti_free: no job");
    if (!memory)
        return TUTTI_OK;
    bool freed = tu_window_heap_offset(&job->window, memory, 0, &offset)
                     ? tu_heap_give(&job->heap, offset - job->window.heap_at)
                     : give_private(job, memory);
    if (freed)
        return TUTTI_OK;
    return tu_fail(&job->env, TUTTI_ERR_ARG,
                   "tutti_free: %p is no block of this job's tutti_alloc, or was freed before",
                   memory);
}
