/*
 * How ranks exchange blocks through a launcher's key-value space: publish, fence, ask. Asking and the
 * fence are answered by another thread, late or never; here are the timers, the losses and the names of
 * those who did not come.
 */
#ifndef TU_RUNTIME_MEETING_H
#define TU_RUNTIME_MEETING_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/bootstrap.h"
#include "runtime/mailbox.h"

enum { TU_KEY_BYTES = 128, TU_HOST_BYTES = 64 };

struct tu_space;

struct tu_space_ops {
    const char *name; /* for errors: "PMIx" */

    /* Bytes that one request needs until it is answered. */
    size_t argument_bytes;

    /* Makes bytes known under a key of this rank. Blocks shortly. Reports its errors. */
    tutti_status (*publish)(struct tu_space *space, const char *key, const void *data,
                            size_t bytes);

    /*
     * Asks for what a rank has published. Never blocks. Answers `reply` once, from any thread, soon or
     * never; ABSENT if nothing was published and the rank seems to have ended. Other failures mean
     * "not yet". `key` and `argument` last until the answer.
     */
    void (*get)(struct tu_space *space, const char *key, uint32_t rank, void *argument,
                struct tu_reply *reply);

    /*
     * Answers HERE when every living rank has called it (a rank that died or left may be left out), or
     * FAILED with a code. Never blocks.
     */
    void (*fence)(struct tu_space *space, void *argument, struct tu_reply *reply);

    /* Name of a rank's host, or "". Returns `host`. */
    const char *(*host)(struct tu_space *space, uint32_t rank, char host[TU_HOST_BYTES]);

    const char *(*code_text)(int code);
};

struct tu_space {
    const struct tu_space_ops *ops;
    struct tu_env *env;
    struct tu_mailbox *box;
    uint32_t rank, size;
    int grace_ms; /* patience with ranks that stay absent although all have met */
};

/* As struct tu_boot_ops.exchange; `key` is new each time. bytes > 0. */
tutti_status tu_meeting_exchange(struct tu_space *space, const char *key, const void *mine,
                                 size_t bytes, const uint32_t *rank, uint32_t ranks, void *out,
                                 int timeout_ms);

/* As struct tu_boot_ops.fence. */
tutti_status tu_meeting_fence(struct tu_space *space, int timeout_ms);

#endif
