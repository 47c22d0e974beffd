/*
 * What a foreign library's thread leaves for the rank's own thread: answers to requests, and ranks
 * that were lost. All of it is counted by reference, so that a request whose wait was given up may
 * be answered any time later, or never.
 */
#ifndef TU_RUNTIME_MAILBOX_H
#define TU_RUNTIME_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/bootstrap.h"

struct tu_mailbox;
struct tu_batch;

enum tu_answer {
    TU_ANSWER_NONE,   /* not yet */
    TU_ANSWER_HERE,   /* with the bytes asked for, if any were */
    TU_ANSWER_ABSENT, /* there is no such thing (yet) */
    TU_ANSWER_OTHER,  /* another number of bytes than asked for; code has it */
    TU_ANSWER_FAILED, /* code has the foreign status */
};

/* One request. Its address is what the foreign library hands back. */
struct tu_reply {
    struct tu_batch *batch;
    enum tu_answer answer;
    int code;
};

/* Requests that are waited for together. */
struct tu_batch {
    struct tu_mailbox *box;
    uint32_t count;
    uint32_t open; /* not answered yet (under the lock) */
    uint32_t refs; /* the owner's and one for each open request (under the lock) */
    size_t bytes;  /* expected with each answer */
    unsigned char *data;
    void *arguments; /* what the foreign library may read until it has answered */
    struct tu_reply reply[];
};

/* ---- the rank's thread --------------------------------------------------------------------- */

/* For a job of `ranks` ranks. NULL: no memory. */
struct tu_mailbox *tu_mailbox_create(uint32_t ranks);

/* Drops the caller's reference. */
void tu_mailbox_release(struct tu_mailbox *box);

/* Number of ranks known to be lost. One relaxed load. */
uint32_t tu_mailbox_losses(const struct tu_mailbox *box);

/* The i-th of them, i < tu_mailbox_losses(). */
void tu_mailbox_loss(const struct tu_mailbox *box, uint32_t i, uint32_t *rank, enum tu_loss *how);

/* True if the foreign library itself was lost. */
bool tu_mailbox_closed(const struct tu_mailbox *box);

/*
 * A batch of `count` requests, every one open: each must be handed to the foreign library or be
 * answered with tu_reply_set(). NULL: no memory.
 */
struct tu_batch *tu_batch_create(struct tu_mailbox *box, uint32_t count, size_t bytes,
                                 size_t argument_bytes);

/* The owner's reference; open requests may still be answered. */
void tu_batch_release(struct tu_batch *batch);

enum tu_wake { TU_WAKE_DONE, TU_WAKE_LATE, TU_WAKE_LOSS, TU_WAKE_CLOSED };

/*
 * Waits until all are answered (DONE), the clock (tu_now_ns()) reaches deadline_ns (LATE; 0: none),
 * more than `losses` ranks are known to be lost (LOSS), or the foreign library is (CLOSED).
 */
enum tu_wake tu_batch_wait(struct tu_batch *batch, uint64_t deadline_ns, uint32_t losses);

/* The answer to request i as it stands now; if HERE, its bytes are copied to `data`. */
enum tu_answer tu_batch_answer(struct tu_batch *batch, uint32_t i, void *data, int *code);

/* ---- any thread ---------------------------------------------------------------------------- */

/* Answers a request, once. HERE with other than the expected bytes becomes OTHER. */
void tu_reply_set(struct tu_reply *reply, enum tu_answer answer, int code, const void *data,
                  size_t bytes);

/* A rank was lost; only the first report of a rank counts. */
void tu_mailbox_lose(struct tu_mailbox *box, uint32_t rank, enum tu_loss how);

/* The foreign library was lost: nothing more will be answered. */
void tu_mailbox_close(struct tu_mailbox *box);

#endif
