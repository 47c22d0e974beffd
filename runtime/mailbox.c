/* Answers and losses that a foreign library's thread leaves for the rank's own thread. */
#include "runtime/mailbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/memory.h"

struct loss {
    uint32_t rank;
    enum tu_loss how;
};

/*
 * Everything is under the lock, but for `losses` and `closed`, which are written under it and read
 * without: loss[i] is written before `losses` grows past i (release), and never again, so whoever
 * has loaded a larger count (acquire) may read it.
 */
struct tu_mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t refs;
    uint32_t ranks;
    _Atomic uint32_t losses;
    atomic_bool closed;
    struct loss *loss; /* [ranks] */
    bool *is_lost;     /* [ranks] */
};

static void destroy(struct tu_mailbox *box) {
    pthread_cond_destroy(&box->changed);
    pthread_mutex_destroy(&box->lock);
    free(box->loss);
    free(box->is_lost);
    free(box);
}

static bool make_condition(pthread_cond_t *condition) {
    pthread_condattr_t attribute;
    bool made;

    if (pthread_condattr_init(&attribute) != 0) {
        return false;
    }
    made = pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(condition, &attribute) == 0;
    pthread_condattr_destroy(&attribute);
    return made;
}

struct tu_mailbox *tu_mailbox_create(uint32_t ranks) {
    struct tu_mailbox *box = tu_alloc(0, 1, sizeof *box);

    if (!box) {
        return NULL;
    }
    box->refs = 1;
    box->ranks = ranks;
    box->loss = tu_alloc(0, ranks, sizeof *box->loss);
    box->is_lost = tu_alloc(0, ranks, sizeof *box->is_lost);
    if (!box->loss || !box->is_lost || !make_condition(&box->changed)) {
        free(box->loss);
        free(box->is_lost);
        free(box);
        return NULL;
    }
    pthread_mutex_init(&box->lock, NULL); /* can't fail without attributes */
    return box;
}

/* Leaves the lock; the last one out takes the mailbox down. */
static void unlock_and_drop(struct tu_mailbox *box, uint32_t refs) {
    box->refs -= refs;
    bool last = box->refs == 0;

    pthread_mutex_unlock(&box->lock);
    if (last) {
        destroy(box);
    }
}

void tu_mailbox_release(struct tu_mailbox *box) {
    if (box) {
        pthread_mutex_lock(&box->lock);
        unlock_and_drop(box, 1);
    }
}

/* ---- losses -------------------------------------------------------------------------------- */

uint32_t tu_mailbox_losses(const struct tu_mailbox *box) {
    return atomic_load_explicit(&box->losses, memory_order_relaxed);
}

void tu_mailbox_loss(const struct tu_mailbox *box, uint32_t i, uint32_t *rank, enum tu_loss *how) {
    (void)atomic_load_explicit(&box->losses, memory_order_acquire); /* pairs with ..._lose() */
    *rank = box->loss[i].rank;
    *how = box->loss[i].how;
}

bool tu_mailbox_closed(const struct tu_mailbox *box) {
    return atomic_load_explicit(&box->closed, memory_order_relaxed);
}

void tu_mailbox_lose(struct tu_mailbox *box, uint32_t rank, enum tu_loss how) {
    if (rank >= box->ranks) {
        return;
    }
    pthread_mutex_lock(&box->lock);
    if (!box->is_lost[rank]) {
        uint32_t n = atomic_load_explicit(&box->losses, memory_order_relaxed);

        box->is_lost[rank] = true;
        box->loss[n] = (struct loss){.rank = rank, .how = how};
        atomic_store_explicit(&box->losses, n + 1, memory_order_release);
        pthread_cond_broadcast(&box->changed);
    }
    pthread_mutex_unlock(&box->lock);
}

void tu_mailbox_close(struct tu_mailbox *box) {
    pthread_mutex_lock(&box->lock);
    atomic_store_explicit(&box->closed, true, memory_order_relaxed);
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

/* ---- batches ------------------------------------------------------------------------------- */

static void free_batch(struct tu_batch *batch) {
    free(batch->data);
    free(batch->arguments);
    free(batch);
}

struct tu_batch *tu_batch_create(struct tu_mailbox *box, uint32_t count, size_t bytes,
                                 size_t argument_bytes) {
    struct tu_batch *batch = tu_alloc(0, 1, sizeof *batch + (size_t)count * sizeof batch->reply[0]);

    if (!batch) {
        return NULL;
    }
    batch->data = tu_alloc(0, count, bytes);
    batch->arguments = tu_alloc(0, 1, argument_bytes);
    if (!batch->data || !batch->arguments) {
        free_batch(batch);
        return NULL;
    }
    batch->box = box;
    batch->count = count;
    batch->open = count;
    batch->refs = count + 1;
    batch->bytes = bytes;
    for (uint32_t i = 0; i < count; i++) {
        batch->reply[i].batch = batch;
    }
    pthread_mutex_lock(&box->lock);
    box->refs++;
    pthread_mutex_unlock(&box->lock);
    return batch;
}

/* Called with the lock; leaves it. */
static void unlock_and_drop_batch(struct tu_batch *batch) {
    struct tu_mailbox *box = batch->box;

    batch->refs--;
    if (batch->refs == 0) {
        free_batch(batch);
        unlock_and_drop(box, 1);
    } else {
        unlock_and_drop(box, 0);
    }
}

void tu_batch_release(struct tu_batch *batch) {
    if (batch) {
        pthread_mutex_lock(&batch->box->lock);
        unlock_and_drop_batch(batch);
    }
}

void tu_reply_set(struct tu_reply *reply, enum tu_answer answer, int code, const void *data,
                  size_t bytes) {
    struct tu_batch *batch = reply->batch;

    pthread_mutex_lock(&batch->box->lock);
    if (answer == TU_ANSWER_HERE && bytes != batch->bytes) {
        answer = TU_ANSWER_OTHER;
        code = bytes > INT32_MAX ? INT32_MAX : (int)bytes;
    }
    if (answer == TU_ANSWER_HERE && bytes > 0) {
        memcpy(batch->data + (size_t)(reply - batch->reply) * bytes, data, bytes);
    }
    reply->answer = answer;
    reply->code = code;
    batch->open--;
    if (batch->open == 0) {
        pthread_cond_broadcast(&batch->box->changed);
    }
    unlock_and_drop_batch(batch);
}

/* Waits for a change; false if the deadline has passed. */
static bool wait_for_change(struct tu_mailbox *box, uint64_t deadline_ns) {
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};

    if (deadline_ns == 0) {
        pthread_cond_wait(&box->changed, &box->lock);
        return true;
    }
    if (tu_now_ns() >= deadline_ns) {
        return false;
    }
    pthread_cond_timedwait(&box->changed, &box->lock, &until);
    return true;
}

enum tu_wake tu_batch_wait(struct tu_batch *batch, uint64_t deadline_ns, uint32_t losses) {
    struct tu_mailbox *box = batch->box;
    enum tu_wake wake = TU_WAKE_DONE;

    pthread_mutex_lock(&box->lock);
    while (batch->open > 0 && wake == TU_WAKE_DONE) {
        if (tu_mailbox_losses(box) > losses) {
            wake = TU_WAKE_LOSS;
        } else if (tu_mailbox_closed(box)) {
            wake = TU_WAKE_CLOSED;
        } else if (!wait_for_change(box, deadline_ns)) {
            wake = TU_WAKE_LATE;
        }
    }
    pthread_mutex_unlock(&box->lock);
    return wake;
}

enum tu_answer tu_batch_answer(struct tu_batch *batch, uint32_t i, void *data, int *code) {
    enum tu_answer answer;

    pthread_mutex_lock(&batch->box->lock);
    answer = batch->reply[i].answer;
    *code = batch->reply[i].code;
    if (answer == TU_ANSWER_HERE && batch->bytes > 0) {
        memcpy(data, batch->data + i * batch->bytes, batch->bytes);
    }
    pthread_mutex_unlock(&batch->box->lock);
    return answer;
}
