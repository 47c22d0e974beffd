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
    AT_ONCE = 256,         /* requests under way when somebody is missing */
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

/* Why a rank's block does not come. */
enum missing {
    LATE, /* the deadline has passed */
    LEFT, /* it stays absent although all have met: it has ended */
};

static tutti_status fail_missing(struct tu_space *space, struct tu_rank_list *who, enum missing why,
                                 const char *what, int timeout_ms) {
    if (why == LEFT) {
        return tu_fail(space->env, TUTTI_ERR_DEAD,
                       "%s ended, or left %s, without meeting the other ranks (%s)",
                       tu_rank_list_text(who), space->ops->name, what);
    }
    return tu_fail(space->env, TUTTI_ERR_TIMEOUT,
                   "%s did not come within %d ms (%s): all %u ranks must call tutti_init(). Is it "
                   "stuck before, or is TUTTI_INIT_TIMEOUT_MS too short?",
                   tu_rank_list_text(who), timeout_ms, what, space->size);
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

/* What is being asked for. A place is an index of `data`. */
struct fetch {
    const char *key;
    size_t bytes;
    unsigned char *data;
    const uint32_t *rank;    /* of a place; NULL: the place itself */
    uint32_t place[AT_ONCE]; /* asked for and not here yet */
    uint32_t places;
    enum tu_answer answer; /* the last one that brought nothing */
};

static uint32_t rank_at(const struct fetch *fetch, uint32_t place) {
    return fetch->rank ? fetch->rank[place] : place;
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

/* Takes what has come off the list of places. */
static tutti_status take(struct tu_space *space, struct fetch *fetch, struct tu_batch *batch) {
    uint32_t asked = fetch->places;

    fetch->places = 0;
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
            fetch->place[fetch->places++] = place;
            fetch->answer = answer;
        }
    }
    return TUTTI_OK;
}

/* Asks once for all places. */
static tutti_status ask_once(struct tu_space *space, struct fetch *fetch, uint64_t deadline_ns) {
    struct tu_batch *batch = ask(space, fetch);
    tutti_status status;
    enum tu_wake wake;

    if (!batch) {
        return tu_fail(space->env, TUTTI_ERR_MEMORY, "no memory to ask %u ranks", fetch->places);
    }
    wake = tu_batch_wait(batch, deadline_ns, 0);
    if (wake == TU_WAKE_CLOSED) {
        status = fail_closed(space, fetch->key);
    } else if (wake == TU_WAKE_LOSS) {
        status = fail_dead(space, fetch->key);
    } else {
        status = take(space, fetch, batch);
    }
    tu_batch_release(batch);
    return status;
}

/*
 * Asks all ranks, once, and names those whose block has not come within the grace. In a large job it
 * stops when it knows some: naming all could take minutes.
 */
static tutti_status list_missing(struct tu_space *space, const char *key, size_t bytes,
                                 struct tu_rank_list *missing) {
    uint64_t enough_ns = deadline_after(3 * space->grace_ms);
    struct fetch fetch = {.key = key, .bytes = bytes};
    char host[TU_HOST_BYTES];
    void *data;
    tutti_status status = tu_alloc_for(space->env, "an exchange", 0, space->size, bytes, &data);

    if (status != TUTTI_OK) {
        return status;
    }
    fetch.data = data;
    for (uint32_t next = 0; status == TUTTI_OK && next < space->size;) {
        if (missing->count > 0 && tu_now_ns() >= enough_ns) {
            break;
        }
        for (fetch.places = 0; next < space->size && fetch.places < AT_ONCE; next++) {
            fetch.place[fetch.places++] = next;
        }
        status = ask_once(space, &fetch, deadline_after(space->grace_ms));
        for (uint32_t i = 0; status == TUTTI_OK && i < fetch.places; i++) {
            tu_rank_list_add(missing, fetch.place[i],
                             space->ops->host(space, fetch.place[i], host));
        }
    }
    free(data);
    return status;
}

/* ---- fetching ------------------------------------------------------------------------------ */

static unsigned twice(unsigned ms, unsigned most) {
    return 2 * ms < most ? 2 * ms : most;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns) {
    return a_ns && a_ns < b_ns ? a_ns : b_ns;
}

/*
 * Asks for the one place of `fetch` until its block has come, and is gone from the list, or does not
 * come; *why says why not. A request without an answer may be stuck: it is repeated.
 */
static tutti_status fetch_one(struct tu_space *space, struct fetch *fetch, uint64_t deadline_ns,
                              enum missing *why) {
    unsigned pause_ms = PAUSE_MIN_MS, silence_ms = SILENCE_MIN_MS;
    uint64_t absent_until_ns = 0;

    for (;;) {
        tutti_status status =
            ask_once(space, fetch, earlier(deadline_ns, deadline_after((int)silence_ms)));
        uint64_t now_ns = tu_now_ns();

        if (status != TUTTI_OK || fetch->places == 0) {
            return status;
        }
        if (fetch->answer != TU_ANSWER_ABSENT) {
            absent_until_ns = 0;
        } else if (absent_until_ns == 0) {
            absent_until_ns = now_ns + (uint64_t)space->grace_ms * 1000000u;
        }
        if ((absent_until_ns && now_ns >= absent_until_ns) ||
            (deadline_ns && now_ns >= deadline_ns)) {
            *why = absent_until_ns && now_ns >= absent_until_ns ? LEFT : LATE;
            return TUTTI_OK;
        }
        if (fetch->answer == TU_ANSWER_NONE) {
            silence_ms = twice(silence_ms, SILENCE_MAX_MS);
        } else {
            pause_for(pause_ms);
            pause_ms = twice(pause_ms, PAUSE_MAX_MS);
        }
    }
}

/* A block does not come: names all ranks whose block does not, and at any rate this one. */
static tutti_status give_up(struct tu_space *space, const struct fetch *fetch, enum missing why,
                            int timeout_ms) {
    uint32_t rank = rank_at(fetch, fetch->place[0]);
    struct tu_rank_list missing = {0};
    char host[TU_HOST_BYTES];
    tutti_status status = list_missing(space, fetch->key, fetch->bytes, &missing);

    if (status != TUTTI_OK) {
        return status;
    }
    if (missing.count == 0) {
        tu_rank_list_add(&missing, rank, space->ops->host(space, rank, host));
    }
    return fail_missing(space, &missing, why, fetch->key, timeout_ms);
}

/*
 * All ranks have met: fetches what the caller wants, one after the other. (Small requests at once would
 * each wait for the acknowledgement of the one before, 40 ms on TCP.) All ranks start elsewhere.
 */
static tutti_status collect(struct tu_space *space, struct fetch *fetch, uint32_t ranks,
                            uint64_t deadline_ns, int timeout_ms) {
    uint64_t least_ns = deadline_after(space->grace_ms);

    if (deadline_ns && deadline_ns < least_ns) {
        deadline_ns = least_ns;
    }
    for (uint32_t i = 0; i < ranks; i++) {
        enum missing why = LATE;
        tutti_status status;

        fetch->place[0] = (uint32_t)(((uint64_t)space->rank + i) % ranks);
        fetch->places = 1;
        status = fetch_one(space, fetch, deadline_ns, &why);
        if (status != TUTTI_OK) {
            return status;
        }
        if (fetch->places > 0) {
            return give_up(space, fetch, why, timeout_ms);
        }
    }
    return TUTTI_OK;
}

/*
 * The deadline has passed before all have met. If all have published, nothing is wrong: a rank was late
 * before, and its fence was counted with one that the others had given up.
 */
static tutti_status find_late(struct tu_space *space, const char *key, size_t bytes,
                              int timeout_ms) {
    struct tu_rank_list missing = {0};
    tutti_status status = list_missing(space, key, bytes, &missing);

    if (status == TUTTI_OK && missing.count > 0) {
        status = fail_missing(space, &missing, LATE, key, timeout_ms);
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
        status = find_late(space, fetch->key, fetch->bytes, timeout_ms);
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
