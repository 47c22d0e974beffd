/*
 * Exchange and fence over a launcher's key-value space. The fence only says when to ask: it may leave
 * out ranks that have died or left. What is asked for afterwards tells who was there.
 */
#include "runtime/meeting.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/text.h"

enum {
    AT_ONCE = 256,         /* requests under way */
    PAUSE_MIN_MS = 1,      /* before asking again after an answer: doubles from the first */
    PAUSE_MAX_MS = 64,     /* to the second */
    SILENCE_MIN_MS = 1000, /* without an answer before asking again: likewise */
    SILENCE_MAX_MS = 16000,
};

static uint64_t deadline_after(int timeout_ms) {
    return timeout_ms > 0 ? tu_now_ns() + (uint64_t)timeout_ms * 1000000u : 0;
}

static void pause_for(unsigned ms) {
    struct timespec time = {.tv_nsec = (long)ms * 1000000};

    nanosleep(&time, NULL);
}

/* ---- errors -------------------------------------------------------------------------------- */

static tutti_status fail_closed(struct tu_space *space, const char *what) {
    return tu_fail(space->env, TUTTI_ERR_LAUNCH,
                   "the connection to the launcher was lost while waiting for all ranks (%s): has "
                   "the launcher or its daemon on this host ended?",
                   what);
}

static tutti_status fail_dead(struct tu_space *space, const char *what) {
    static const char *const words[] = {"ended", "was killed", "was lost"};
    uint32_t losses = tu_mailbox_losses(space->box), rank, other;
    struct tu_rank_list one = {0}, also = {0};
    char host[TU_HOST_BYTES];
    enum tu_loss how, ignored;

    tu_mailbox_loss(space->box, 0, &rank, &how);
    tu_rank_list_add(&one, rank, space->ops->host(space, rank, host));
    for (uint32_t i = 1; i < losses; i++) {
        tu_mailbox_loss(space->box, i, &other, &ignored);
        tu_rank_list_add(&also, other, space->ops->host(space, other, host));
    }
    return tu_fail(space->env, TUTTI_ERR_DEAD, "%s %s while all ranks were to meet (%s)%s%s",
                   tu_rank_list_text(&one), words[how], what, also.count ? "; lost, too: " : "",
                   tu_rank_list_text(&also));
}

static tutti_status fail_late(struct tu_space *space, struct tu_rank_list *missing,
                              const char *what, int timeout_ms) {
    return tu_fail(space->env, TUTTI_ERR_TIMEOUT,
                   "%s did not come within %d ms (%s): all %u ranks must call tutti_init(). Is it "
                   "stuck before, or is TUTTI_INIT_TIMEOUT_MS too short?",
                   tu_rank_list_text(missing), timeout_ms, what, space->size);
}

static tutti_status fail_size(struct tu_space *space, uint32_t rank, int bytes, size_t expected) {
    char host[TU_HOST_BYTES];

    return tu_fail(space->env, TUTTI_ERR_LAUNCH,
                   "rank %u (host %s) published %d bytes where %zu were expected: it runs another "
                   "version of tutti, or the ranks are out of step",
                   rank, space->ops->host(space, rank, host), bytes, expected);
}

/* ---- fence --------------------------------------------------------------------------------- */

/* Waits for all living ranks; *late says that the deadline has passed, which is no error here. */
static tutti_status meet(struct tu_space *space, const char *what, uint64_t deadline_ns,
                         bool *late) {
    struct tu_batch *batch = tu_batch_create(space->box, 1, 0, space->ops->argument_bytes);
    enum tu_answer answer;
    enum tu_wake wake;
    int code;

    *late = false;
    if (!batch) {
        return tu_fail(space->env, TUTTI_ERR_MEMORY, "no memory for a fence");
    }
    space->ops->fence(space, batch->arguments, &batch->reply[0]);
    wake = tu_batch_wait(batch, deadline_ns, 0);
    answer = tu_batch_answer(batch, 0, NULL, &code);
    tu_batch_release(batch);
    *late = wake == TU_WAKE_LATE;
    if (wake == TU_WAKE_LOSS) {
        return fail_dead(space, what);
    }
    if (wake == TU_WAKE_CLOSED) {
        return fail_closed(space, what);
    }
    if (answer == TU_ANSWER_FAILED) {
        return tu_fail(space->env, TUTTI_ERR_LAUNCH, "%s: the fence (%s) failed: %s (%d)",
                       space->ops->name, what, space->ops->code_text(code), code);
    }
    return TUTTI_OK;
}

tutti_status tu_meeting_fence(struct tu_space *space, int timeout_ms) {
    bool late = false;
    tutti_status status;

    if (tu_mailbox_losses(space->box) > 0) {
        return fail_dead(space, "fence");
    }
    status = meet(space, "fence", deadline_after(timeout_ms), &late);
    if (status == TUTTI_OK && late) {
        return tu_fail(space->env, TUTTI_ERR_TIMEOUT,
                       "not all %u ranks came to a fence within %d ms", space->size, timeout_ms);
    }
    return status;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* What is being fetched. A place is an index of `data`. */
struct fetch {
    const char *key;
    size_t bytes;
    unsigned char *data;
    const uint32_t *rank;    /* of a place; NULL: the place itself */
    uint32_t place[AT_ONCE]; /* those asked for and not here yet */
    bool absent[AT_ONCE];    /* of these: the last answer was ABSENT */
    uint32_t places;
    uint32_t absents;
};

static uint32_t rank_at(const struct fetch *fetch, uint32_t place) {
    return fetch->rank ? fetch->rank[place] : place;
}

/* Starts on the next places from `first` on; returns where to go on. */
static uint32_t next_places(struct fetch *fetch, uint32_t first, uint32_t end) {
    fetch->places = fetch->absents = 0;
    while (first < end && fetch->places < AT_ONCE) {
        fetch->place[fetch->places++] = first++;
    }
    return first;
}

/* The open places, or only those whose last answer was ABSENT. */
static void name_places(struct tu_space *space, const struct fetch *fetch, bool only_absent,
                        struct tu_rank_list *list) {
    char host[TU_HOST_BYTES];

    for (uint32_t i = 0; i < fetch->places; i++) {
        uint32_t rank = rank_at(fetch, fetch->place[i]);

        if (fetch->absent[i] || !only_absent) {
            tu_rank_list_add(list, rank, space->ops->host(space, rank, host));
        }
    }
}

/* Names the absent. */
static tutti_status fail_left(struct tu_space *space, const struct fetch *fetch) {
    struct tu_rank_list gone = {0};

    name_places(space, fetch, true, &gone);
    return tu_fail(space->env, TUTTI_ERR_DEAD,
                   "%s ended, or left %s, without meeting the other ranks (%s)",
                   tu_rank_list_text(&gone), space->ops->name, fetch->key);
}

/* The key and the arguments lie in the batch: they outlive a wait that is given up. */
static struct tu_batch *ask(struct tu_space *space, const struct fetch *fetch) {
    size_t each = space->ops->argument_bytes;
    struct tu_batch *batch = tu_batch_create(space->box, fetch->places, fetch->bytes,
                                             fetch->places * each + TU_KEY_BYTES);
    unsigned char *argument;
    char *key;

    if (!batch) {
        return NULL;
    }
    argument = batch->arguments;
    key = (char *)argument + fetch->places * each;
    tu_text_format(key, TU_KEY_BYTES, "%s", fetch->key);
    for (uint32_t i = 0; i < fetch->places; i++) {
        space->ops->get(space, key, rank_at(fetch, fetch->place[i]), argument + i * each,
                        &batch->reply[i]);
    }
    return batch;
}

/* Takes what has come off the list of open places; *silent counts those without an answer. */
static tutti_status take(struct tu_space *space, struct fetch *fetch, struct tu_batch *batch,
                         uint32_t *silent) {
    uint32_t asked = fetch->places;

    fetch->places = fetch->absents = *silent = 0;
    for (uint32_t i = 0; i < asked; i++) {
        uint32_t place = fetch->place[i], rank = rank_at(fetch, place);
        int code;
        enum tu_answer answer =
            tu_batch_answer(batch, i, fetch->data + place * fetch->bytes, &code);

        if (answer == TU_ANSWER_OTHER) {
            return fail_size(space, rank, code, fetch->bytes);
        }
        if (answer == TU_ANSWER_FAILED) {
            tu_log(space->env, TU_LOG_DEBUG, "%s: asking for rank %u's %s: %s (%d)",
                   space->ops->name, rank, fetch->key, space->ops->code_text(code), code);
        }
        if (answer != TU_ANSWER_HERE) {
            fetch->place[fetch->places] = place;
            fetch->absent[fetch->places++] = answer == TU_ANSWER_ABSENT;
            fetch->absents += answer == TU_ANSWER_ABSENT;
            *silent += answer == TU_ANSWER_NONE;
        }
    }
    return TUTTI_OK;
}

/* Asks once for all open places. More than `losses` losses end the wait. */
static tutti_status fetch_once(struct tu_space *space, struct fetch *fetch, uint64_t deadline_ns,
                               uint32_t losses, uint32_t *silent) {
    struct tu_batch *batch = ask(space, fetch);
    tutti_status status;
    enum tu_wake wake;

    if (!batch) {
        return tu_fail(space->env, TUTTI_ERR_MEMORY, "no memory to ask %u ranks", fetch->places);
    }
    wake = tu_batch_wait(batch, deadline_ns, losses);
    if (wake == TU_WAKE_CLOSED) {
        status = fail_closed(space, fetch->key);
    } else if (wake == TU_WAKE_LOSS) {
        status = fail_dead(space, fetch->key);
    } else {
        status = take(space, fetch, batch, silent);
    }
    tu_batch_release(batch);
    return status;
}

static unsigned twice(unsigned ms, unsigned most) {
    return 2 * ms < most ? 2 * ms : most;
}

/*
 * Asks until there is no open place, or the deadline has passed. A rank that stays absent although all
 * have met has not met: it has left. A request without an answer may be stuck: it is repeated.
 */
static tutti_status fetch_until(struct tu_space *space, struct fetch *fetch, uint64_t deadline_ns) {
    unsigned pause_ms = PAUSE_MIN_MS, silence_ms = SILENCE_MIN_MS;
    uint64_t absent_until_ns = 0;

    for (;;) {
        uint64_t until_ns = deadline_after((int)silence_ms);
        uint32_t silent;
        tutti_status status =
            fetch_once(space, fetch, deadline_ns && deadline_ns < until_ns ? deadline_ns : until_ns,
                       0, &silent);
        uint64_t now_ns = tu_now_ns();

        if (status != TUTTI_OK || fetch->places == 0 || (deadline_ns && now_ns >= deadline_ns)) {
            return status;
        }
        if (fetch->absents == 0) {
            absent_until_ns = 0;
        } else if (absent_until_ns == 0) {
            absent_until_ns = now_ns + (uint64_t)space->grace_ms * 1000000u;
        } else if (now_ns >= absent_until_ns) {
            return fail_left(space, fetch);
        }
        if (silent > 0) {
            silence_ms = twice(silence_ms, SILENCE_MAX_MS);
        } else {
            pause_for(pause_ms);
            pause_ms = twice(pause_ms, PAUSE_MAX_MS);
        }
    }
}

/* All ranks have met: fetches what the caller wants. */
static tutti_status collect(struct tu_space *space, struct fetch *fetch, uint32_t ranks,
                            uint64_t deadline_ns, int timeout_ms) {
    uint64_t least_ns = deadline_after(space->grace_ms);

    if (deadline_ns && deadline_ns < least_ns) {
        deadline_ns = least_ns;
    }
    for (uint32_t first = 0; first < ranks;) {
        struct tu_rank_list late = {0};
        tutti_status status;

        first = next_places(fetch, first, ranks);
        status = fetch_until(space, fetch, deadline_ns);
        if (status != TUTTI_OK) {
            return status;
        }
        if (fetch->places > 0) {
            name_places(space, fetch, false, &late);
            return fail_late(space, &late, fetch->key, timeout_ms);
        }
    }
    return TUTTI_OK;
}

/*
 * The deadline has passed: asks all ranks, once, whether they have published. If all have, nothing is
 * wrong: a rank was late before, and its fence was counted with one that the others had given up.
 */
static tutti_status find_missing(struct tu_space *space, const char *key, size_t bytes,
                                 int timeout_ms) {
    uint64_t deadline_ns = deadline_after(space->grace_ms);
    struct tu_rank_list missing = {0};
    struct fetch fetch = {.key = key, .bytes = bytes};
    uint32_t silent;
    void *data;
    tutti_status status = tu_alloc_for(space->env, "an exchange", 0, space->size, bytes, &data);

    if (status != TUTTI_OK) {
        return status;
    }
    fetch.data = data;
    for (uint32_t first = 0; status == TUTTI_OK && first < space->size;) {
        first = next_places(&fetch, first, space->size);
        status = fetch_once(space, &fetch, deadline_ns, 0, &silent);
        name_places(space, &fetch, false, &missing);
    }
    free(data);
    if (status == TUTTI_OK && missing.count > 0) {
        status = fail_late(space, &missing, key, timeout_ms);
    }
    return status;
}

/* ---- exchange ------------------------------------------------------------------------------ */

static tutti_status exchange(struct tu_space *space, struct fetch *fetch, const void *mine,
                             uint32_t ranks, int timeout_ms) {
    uint64_t deadline_ns = deadline_after(timeout_ms);
    tutti_status status;
    bool late = false;

    if (tu_mailbox_losses(space->box) > 0) {
        return fail_dead(space, fetch->key);
    }
    status = space->ops->publish(space, fetch->key, mine, fetch->bytes);
    if (status == TUTTI_OK) {
        status = meet(space, fetch->key, deadline_ns, &late);
    }
    if (status == TUTTI_OK && late) {
        status = find_missing(space, fetch->key, fetch->bytes, timeout_ms);
    }
    return status == TUTTI_OK ? collect(space, fetch, ranks, deadline_ns, timeout_ms) : status;
}

tutti_status tu_meeting_exchange(struct tu_space *space, const char *key, const void *mine,
                                 size_t bytes, const uint32_t *rank, uint32_t ranks, void *out,
                                 int timeout_ms) {
    struct fetch fetch = {.key = key, .bytes = bytes, .rank = rank};
    void *data;
    tutti_status status = tu_alloc_for(space->env, "an exchange", 0, ranks, bytes, &data);

    if (status != TUTTI_OK) {
        return status;
    }
    fetch.data = data;
    status = exchange(space, &fetch, mine, ranks, timeout_ms);
    if (status == TUTTI_OK && ranks > 0) {
        memcpy(out, data, (size_t)ranks * bytes);
    }
    free(data);
    return status;
}
