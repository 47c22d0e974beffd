/*
 * Registered memory: the window, the cells that lines are sent from where they do not fit inline,
 * and memory of the caller's. Registering pins pages, which the locked-memory limit counts; the error
 * texts say what it is and what is needed.
 */
#include "transport/verbs_endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/text.h"

static tutti_status explain_locked(struct tu_verbs *verbs, const char *what, size_t bytes) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    char needs[32], has[32];

    getrlimit(RLIMIT_MEMLOCK, &limit);
    tu_text_size(bytes, needs, sizeof needs);
    if (limit.rlim_cur == RLIM_INFINITY)
        return tu_fail(verbs->env, TUTTI_ERR_MEMORY,
                       "%s can't register %s of %s: it or the system is out of memory (the limit "
                       "of locked memory is not in the way)",
                       verbs->port.device, what, needs);
    tu_text_size(limit.rlim_cur, has, sizeof has);
    return tu_fail(verbs->env, TUTTI_ERR_MEMORY,
                   "%s can't register %s of %s: the limit of locked memory is %s. See `ulimit -l` "
                   "on every node and memlock in /etc/security/limits.conf (or the launcher's "
                   "service: LimitMEMLOCK); it should be unlimited. TUTTI_WINDOW sets the window's "
                   "size",
                   verbs->port.device, what, needs, has);
}

tutti_status tu_verbs_add_region(struct tu_verbs *verbs, const char *what, void *base, size_t bytes,
                                 int access, struct ibv_mr **mr) {
    char size[32];
    int error;

    *mr = ibv_reg_mr(verbs->pd, base, bytes, access);
    if (*mr)
        return TUTTI_OK;
    error = errno;
    if (error == ENOMEM)
        return explain_locked(verbs, what, bytes);
    tu_text_size(bytes, size, sizeof size);
    return tu_fail_errno(verbs->env, error == EFAULT ? TUTTI_ERR_MEMORY : TUTTI_ERR_DEVICE, error,
                         "%s can't register %s of %s%s", verbs->port.device, what, size,
                         error == EFAULT ? " (not writable, or shared memory ran out)" : "");
}

tutti_status tu_verbs_register_window(struct tu_verbs *verbs) {
    return tu_verbs_add_region(verbs, "the window", verbs->window, verbs->window_bytes,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ,
                               &verbs->window_mr);
}

tutti_status tu_verbs_make_stage(struct tu_verbs *verbs) {
    size_t each = (size_t)verbs->sizes.send_depth * TU_VERBS_STAGE_BYTES;
    tutti_status status;
    void *memory;

    if (verbs->inline_bytes >= TU_VERBS_LINE_BYTES || verbs->peers == 0)
        return TUTTI_OK;
    tu_log(verbs->env, TU_LOG_INFO,
           "verbs: %s takes %u bytes inline, a line has up to %d: they are sent from memory",
           verbs->port.device, verbs->inline_bytes, TU_VERBS_LINE_BYTES);
    status = tu_alloc_for(verbs->env, "lines under way", 4096, verbs->peers, each, &memory);
    if (status)
        return status;
    verbs->stage = memory;
    for (uint32_t i = 0; i < verbs->peers; i++)
        verbs->peer[i].stage = verbs->stage + i * each;
    return tu_verbs_add_region(verbs, "the lines under way", memory, verbs->peers * each, 0,
                               &verbs->stage_mr);
}

/* ---- the caller's --------------------------------------------------------------------------- */

tutti_status tu_verbs_register(struct tu_transport *transport, void *base, size_t bytes,
                               uint64_t *key) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    struct tu_verbs_memory *memory;
    void *fresh;
    tutti_status status = tu_alloc_for(verbs->env, "a memory region", 0, 1, sizeof *memory, &fresh);

    if (status)
        return status;
    memory = fresh;
    status = tu_verbs_add_region(verbs, "a buffer", base, bytes,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &memory->mr);
    if (status) {
        free(memory);
        return status;
    }
    memory->next = verbs->memory;
    memory->link = &verbs->memory;
    if (memory->next)
        memory->next->link = &memory->next;
    verbs->memory = memory;
    *key = (uint64_t)(uintptr_t)memory;
    return TUTTI_OK;
}

static void release(struct tu_verbs_memory *memory) {
    ibv_dereg_mr(memory->mr);
    free(memory);
}

void tu_verbs_deregister(struct tu_transport *transport, uint64_t key) {
    struct tu_verbs_memory *memory = (struct tu_verbs_memory *)(uintptr_t)key;

    (void)transport;
    *memory->link = memory->next;
    if (memory->next)
        memory->next->link = memory->link;
    release(memory);
}

void tu_verbs_drop_memory(struct tu_verbs *verbs) {
    struct tu_verbs_memory *memory, *next;

    for (memory = verbs->memory; memory; memory = next) {
        next = memory->next;
        release(memory);
    }
    if (verbs->stage_mr)
        ibv_dereg_mr(verbs->stage_mr);
    if (verbs->window_mr)
        ibv_dereg_mr(verbs->window_mr);
    if (verbs->credit_mr)
        ibv_dereg_mr(verbs->credit_mr);
    free(verbs->stage);
    free((void *)verbs->credit);
}
