/*
 * The bootstrap of a PMIx launcher: PMIx as a key-value space for meeting.c. PMIx works in a thread of
 * its own and calls back from there; what it brings goes through a mailbox.
 *
 * Habits of PMIx (measured with the clients 4.2.2 and 5.0.11) that shape this file:
 * - Asking another node for a key that is not there yet is not answered when the key comes, but when
 *   something is asked for again; until then all requests for that rank are stuck. On the node, such
 *   a request fails after two seconds. PMIX_IMMEDIATE does not look at other nodes at all. So nobody
 *   is asked before the fence has ended.
 * - With several requests under way, the client reads memory that it has freed (5.0.11), and they take
 *   40 ms longer. meeting.c has one at a time, unless somebody is missing.
 * - A fence leaves out ranks that have died or left, and reports success to some of the others; when
 *   a rank ends while others wait, it may also never end.
 * - The second PMIx_Finalize that really ends PMIx in a process corrupts the heap (5.0.11). So the
 *   first job of a process takes one reference more, which is given back when the process exits.
 * - Keys can't be withdrawn, and they survive the process. So each init has keys of its own; the
 *   number of the init is found by asking which ones this rank has published before.
 */
#include <pmix.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/bootstrap.h"
#include "runtime/clock.h"
#include "runtime/env.h"
#include "runtime/mailbox.h"
#include "runtime/meeting.h"
#include "runtime/memory.h"
#include "runtime/text.h"

enum {
    GRACE_MS = 2000, /* for ranks that stay absent although all have met */
    CLOSE_MS = 2000, /* for PMIx to let go of the event handler */
};

struct pmix {
    struct tu_boot boot;
    struct tu_space space;
    pmix_proc_t self;
    uint32_t told;      /* losses that lost() has told */
    uint32_t init;      /* number of this init among this rank's */
    uint32_t exchanges; /* so far */
    bool listening;
    size_t handler;
};

/* What PMIx may read until it has answered. */
struct argument {
    pmix_proc_t proc;
};

static struct pmix *pmix_of(struct tu_boot *boot) {
    return (struct pmix *)boot; /* its first member */
}

static struct pmix *pmix_of_space(struct tu_space *space) {
    return (struct pmix *)((char *)space - offsetof(struct pmix, space));
}

static pmix_proc_t proc_of(const struct pmix *pmix, pmix_rank_t rank) {
    pmix_proc_t proc = pmix->self;

    proc.rank = rank;
    return proc;
}

static void load_flag(pmix_info_t *info, const char *key) {
    bool yes = true;

    PMIX_INFO_CONSTRUCT(info);
    PMIX_INFO_LOAD(info, key, &yes, PMIX_BOOL);
}

static tutti_status fail(struct tu_env *env, pmix_status_t code, const char *what) {
    return tu_fail(env, TUTTI_ERR_LAUNCH, "%s failed: %s (%d)", what, PMIx_Error_string(code),
                   code);
}

/* ---- the key-value space ------------------------------------------------------------------- */

static pmix_status_t put(pmix_scope_t scope, const char *key, const void *data, size_t bytes) {
    pmix_value_t value;
    pmix_status_t code;

    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)data; /* only read, and copied */
    value.data.bo.size = bytes;
    code = PMIx_Put(scope, key, &value);
    return code == PMIX_SUCCESS ? PMIx_Commit() : code;
}

static tutti_status publish(struct tu_space *space, const char *key, const void *data,
                            size_t bytes) {
    pmix_status_t code = put(PMIX_GLOBAL, key, data, bytes);

    return code == PMIX_SUCCESS ? TUTTI_OK : fail(space->env, code, "PMIx_Put");
}

static void value_came(pmix_status_t code, pmix_value_t *value, void *context) {
    if (code == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT) {
        tu_reply_set(context, TU_ANSWER_HERE, code, value->data.bo.bytes, value->data.bo.size);
    } else if (code == PMIX_ERR_NOT_FOUND) { /* the rank has ended */
        tu_reply_set(context, TU_ANSWER_ABSENT, code, NULL, 0);
    } else {
        tu_reply_set(context, TU_ANSWER_FAILED, code, NULL, 0);
    }
}

static void get(struct tu_space *space, const char *key, uint32_t rank, void *memory,
                struct tu_reply *reply) {
    struct argument *argument = memory;
    pmix_status_t code;

    argument->proc = proc_of(pmix_of_space(space), rank);
    code = PMIx_Get_nb(&argument->proc, key, NULL, 0, value_came, reply);
    if (code != PMIX_SUCCESS) { /* no callback follows */
        value_came(code, NULL, reply);
    }
}

static void fence_came(pmix_status_t code, void *context) {
    bool failed = code == PMIX_ERR_UNREACH || code == PMIX_ERR_LOST_CONNECTION ||
                  code == PMIX_ERR_COMM_FAILURE || code == PMIX_ERR_NOT_SUPPORTED ||
                  code == PMIX_ERR_INIT;

    /* other codes say that ranks were left out */
    tu_reply_set(context, failed ? TU_ANSWER_FAILED : TU_ANSWER_HERE, code, NULL, 0);
}

static void start_fence(struct tu_space *space, void *memory, struct tu_reply *reply) {
    struct argument *argument = memory;
    pmix_status_t code;

    argument->proc = proc_of(pmix_of_space(space), PMIX_RANK_WILDCARD);
    code = PMIx_Fence_nb(&argument->proc, 1, NULL, 0, fence_came, reply);
    if (code == PMIX_OPERATION_SUCCEEDED) { /* no callback follows */
        tu_reply_set(reply, TU_ANSWER_HERE, code, NULL, 0);
    } else if (code != PMIX_SUCCESS) {
        tu_reply_set(reply, TU_ANSWER_FAILED, code, NULL, 0);
    }
}

static const char *host_of(struct tu_space *space, uint32_t rank, char host[TU_HOST_BYTES]) {
    pmix_proc_t proc = proc_of(pmix_of_space(space), rank);
    pmix_info_t info;
    pmix_value_t *value = NULL;

    host[0] = 0;
    load_flag(&info, PMIX_OPTIONAL); /* what is known in this process */
    if (PMIx_Get(&proc, PMIX_HOSTNAME, &info, 1, &value) == PMIX_SUCCESS && value) {
        if (value->type == PMIX_STRING && value->data.string) {
            tu_text_format(host, TU_HOST_BYTES, "%s", value->data.string);
        }
        PMIX_VALUE_RELEASE(value);
    }
    return host;
}

static const char *code_text(int code) {
    return PMIx_Error_string(code);
}

/* ---- losses -------------------------------------------------------------------------------- */

static enum tu_loss loss_of(pmix_status_t code) {
    switch (code) {
    case PMIX_ERR_PROC_ABORTED_BY_SIG:
    case PMIX_ERR_PROC_KILLED_BY_CMD:
        return TU_LOSS_KILLED;
    case PMIX_ERR_PROC_TERM_WO_SYNC:
    case PMIX_ERR_EXIT_NONZERO_TERM:
    case PMIX_ERR_PROC_REQUESTED_ABORT:
        return TU_LOSS_EXITED;
    default:
        return TU_LOSS_UNKNOWN;
    }
}

/* A lost connection that is not a peer's is this process's own, to the launcher. */
static void note_event(struct pmix *pmix, pmix_status_t code, const pmix_proc_t *who) {
    bool of_peer = who && strcmp(who->nspace, pmix->self.nspace) == 0 &&
                   who->rank < pmix->boot.size && who->rank != pmix->self.rank;

    if (of_peer) {
        tu_mailbox_lose(pmix->space.box, who->rank, loss_of(code));
    } else if (code == PMIX_ERR_LOST_CONNECTION) {
        tu_mailbox_close(pmix->space.box);
    }
}

/* In PMIx's thread. Finds its boot among the infos, and passes the event on to other handlers. */
static void event_came(size_t handler, pmix_status_t code, const pmix_proc_t *source,
                       pmix_info_t info[], size_t infos, pmix_info_t *results, size_t nresults,
                       pmix_event_notification_cbfunc_fn_t done, void *context) {
    const pmix_proc_t *who = source;
    struct pmix *pmix = NULL;

    (void)handler, (void)results, (void)nresults;
    for (size_t i = 0; i < infos; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_RETURN_OBJECT)) {
            pmix = info[i].value.data.ptr;
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
            who = info[i].value.data.proc;
        }
    }
    if (pmix) {
        note_event(pmix, code, who);
    }
    if (done) {
        done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, context);
    }
}

/* A handler without codes gets none of these events. Without any the process table remains. */
static void listen_to_losses(struct pmix *pmix) {
    pmix_status_t code[] = {PMIX_ERR_PROC_ABORTED_BY_SIG,  PMIX_ERR_PROC_TERM_WO_SYNC,
                            PMIX_ERR_EXIT_NONZERO_TERM,    PMIX_ERR_PROC_KILLED_BY_CMD,
                            PMIX_ERR_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED,
                            PMIX_ERR_PROC_FAILED_TO_START, PMIX_ERR_LOST_CONNECTION};
    pmix_info_t info;
    pmix_status_t answer;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_RETURN_OBJECT, pmix, PMIX_POINTER);
    answer = PMIx_Register_event_handler(code, sizeof code / sizeof *code, &info, 1, event_came,
                                         NULL, NULL);
    pmix->listening = answer >= 0;
    pmix->handler = answer >= 0 ? (size_t)answer : 0;
    if (answer < 0) {
        tu_log(pmix->boot.env, TU_LOG_INFO, "the launcher will not report lost ranks: %s (%d)",
               PMIx_Error_string(answer), answer);
    }
}

static void deregistered(pmix_status_t code, void *context) {
    tu_reply_set(context, TU_ANSWER_HERE, code, NULL, 0);
}

/* True if no event can come any more. */
static bool stop_listening(struct pmix *pmix) {
    struct tu_batch *batch;
    enum tu_wake wake;
    pmix_status_t code;

    if (!pmix->listening) {
        return true;
    }
    batch = tu_batch_create(pmix->space.box, 1, 0, 0);
    if (!batch) {
        return false;
    }
    code = PMIx_Deregister_event_handler(pmix->handler, deregistered, &batch->reply[0]);
    if (code != PMIX_SUCCESS) { /* no callback follows */
        deregistered(code, &batch->reply[0]);
    }
    wake = tu_batch_wait(batch, tu_now_ns() + CLOSE_MS * 1000000ull, UINT32_MAX);
    tu_batch_release(batch);
    return wake == TU_WAKE_DONE;
}

/* ---- bootstrap ----------------------------------------------------------------------------- */

static tutti_status exchange(struct tu_boot *boot, const char *key, const void *mine, size_t bytes,
                             const uint32_t *rank, uint32_t ranks, void *out, int timeout_ms) {
    struct pmix *pmix = pmix_of(boot);
    char full_key[TU_KEY_BYTES];

    tu_text_format(full_key, sizeof full_key, "tutti.%u.%u.%s", pmix->init, pmix->exchanges++, key);
    return tu_meeting_exchange(&pmix->space, full_key, mine, bytes, rank, ranks, out, timeout_ms);
}

static tutti_status fence(struct tu_boot *boot, int timeout_ms) {
    return tu_meeting_fence(&pmix_of(boot)->space, timeout_ms);
}

static bool lost(struct tu_boot *boot, uint32_t *rank, enum tu_loss *how) {
    struct pmix *pmix = pmix_of(boot);

    if (tu_mailbox_losses(pmix->space.box) == pmix->told) {
        return false;
    }
    tu_mailbox_loss(pmix->space.box, pmix->told++, rank, how);
    return true;
}

static void close_boot(struct tu_boot *boot) {
    struct pmix *pmix = pmix_of(boot);
    bool silent = stop_listening(pmix);

    PMIx_Finalize(NULL, 0); /* one reference */
    if (silent) {
        tu_mailbox_release(pmix->space.box); /* answers still to come hold their own references */
        free(pmix);
    } /* else PMIx may call with it any time: it stays */
}

/* ---- opening ------------------------------------------------------------------------------- */

static bool get_number(const pmix_proc_t *proc, const char *key, const char *how,
                       uint32_t *number) {
    pmix_info_t info;
    pmix_value_t *value = NULL;
    bool got;

    load_flag(&info, how);
    if (PMIx_Get(proc, key, &info, 1, &value) != PMIX_SUCCESS || !value) {
        return false;
    }
    got = value->type == PMIX_UINT32;
    if (got) {
        *number = value->data.uint32;
    }
    PMIX_VALUE_RELEASE(value);
    return got;
}

static void init_key(char key[TU_KEY_BYTES], uint32_t number) {
    tu_text_format(key, TU_KEY_BYTES, "tutti.init.%u", number);
}

static bool was_used(const struct pmix *pmix, uint32_t number) {
    pmix_info_t info;
    pmix_value_t *value = NULL;
    char key[TU_KEY_BYTES];
    bool used;

    init_key(key, number);
    load_flag(&info, PMIX_IMMEDIATE);
    used = PMIx_Get(&pmix->self, key, &info, 1, &value) == PMIX_SUCCESS;
    if (value) {
        PMIX_VALUE_RELEASE(value);
    }
    return used;
}

/*
 * The number of this init, the same on all ranks, which make the same sequence of inits. Numbers are
 * used from 0 on without gaps, so the first free one is found by doubling and halving.
 */
static tutti_status number_this_init(struct pmix *pmix) {
    uint32_t used = 0, unused = 1; /* numbers below `used` are, `unused` is not */
    char key[TU_KEY_BYTES];
    pmix_status_t code;

    while (was_used(pmix, unused - 1)) {
        used = unused;
        unused *= 2;
    }
    while (used + 1 < unused) {
        uint32_t middle = used + (unused - used) / 2;

        if (was_used(pmix, middle - 1)) {
            used = middle;
        } else {
            unused = middle;
        }
    }
    pmix->init = used;
    init_key(key, used);
    code = put(PMIX_LOCAL, key, "", 1);
    return code == PMIX_SUCCESS ? TUTTI_OK : fail(pmix->boot.env, code, "PMIx_Put");
}

/* Called by the C library; its own header does not declare these two. */
int __cxa_atexit(void (*function)(void *), void *argument, void *library);
extern const char __dso_handle[] __attribute__((visibility("hidden")));

/* A forked child shares its parent's connection and must not end it. */
static void give_back(void *pid) {
    if ((intptr_t)pid == (intptr_t)getpid()) {
        PMIx_Finalize(NULL, 0);
    }
}

/* Takes the reference that keeps PMIx from ending before the process (or this library) does. */
static void keep_until_exit(struct pmix *pmix) {
    pmix_proc_t self;

    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) {
        return;
    }
    if (__cxa_atexit(give_back, (void *)(intptr_t)getpid(), (void *)(uintptr_t)__dso_handle)) {
        tu_log(pmix->boot.env, TU_LOG_WARN, "PMIx will not be finalized: no room for atexit()");
    }
}

static tutti_status learn(struct pmix *pmix, bool was_open) {
    pmix_proc_t all = proc_of(pmix, PMIX_RANK_WILDCARD);
    uint32_t size, node = UINT32_MAX;
    tutti_status status;

    if (!get_number(&all, PMIX_JOB_SIZE, PMIX_IMMEDIATE, &size) || pmix->self.rank >= size) {
        return tu_fail(pmix->boot.env, TUTTI_ERR_LAUNCH,
                       "the launcher does not say through PMIx how many ranks there are");
    }
    get_number(&pmix->self, PMIX_NODEID, PMIX_OPTIONAL, &node);
    pmix->boot.rank = pmix->self.rank;
    pmix->boot.size = size;
    pmix->boot.launcher_node = node;
    pmix->boot.env->rank = (int)pmix->self.rank;
    status = number_this_init(pmix);
    if (status == TUTTI_OK && (!was_open || pmix->init == 0)) {
        keep_until_exit(pmix);
    }
    return status;
}

static tutti_status open_space(struct pmix *pmix) {
    static const struct tu_space_ops ops = {
        "PMIx", sizeof(struct argument), publish, get, start_fence, host_of, code_text};

    pmix->space.ops = &ops;
    pmix->space.env = pmix->boot.env;
    pmix->space.rank = pmix->boot.rank;
    pmix->space.size = pmix->boot.size;
    pmix->space.grace_ms = GRACE_MS;
    pmix->space.box = tu_mailbox_create(pmix->boot.size);
    if (!pmix->space.box) {
        return tu_fail(pmix->boot.env, TUTTI_ERR_MEMORY, "no memory for the state of %u ranks",
                       pmix->boot.size);
    }
    listen_to_losses(pmix);
    return TUTTI_OK;
}

tutti_status tu_boot_pmix_open(struct tu_env *env, struct tu_boot **boot) {
    static const struct tu_boot_ops ops = {"pmix", exchange, fence, lost, close_boot};
    bool was_open = PMIx_Initialized();
    struct pmix *pmix;
    void *memory;
    pmix_status_t code;
    tutti_status status = tu_alloc_for(env, "the bootstrap", 0, 1, sizeof *pmix, &memory);

    if (status != TUTTI_OK) {
        return status;
    }
    pmix = memory;
    pmix->boot.ops = &ops;
    pmix->boot.env = env;
    code = PMIx_Init(&pmix->self, NULL, 0);
    if (code != PMIX_SUCCESS) {
        free(pmix);
        return tu_fail(env, TUTTI_ERR_LAUNCH,
                       "PMIx_Init failed: %s (%d). The environment names a PMIx launcher (%s); is "
                       "it still running, and is its PMIx compatible with this one?",
                       PMIx_Error_string(code), code, "PMIX_SERVER_URI*");
    }
    status = learn(pmix, was_open);
    if (status == TUTTI_OK) {
        status = open_space(pmix);
    }
    if (status != TUTTI_OK) {
        PMIx_Finalize(NULL, 0);
        free(pmix);
        return status;
    }
    *boot = &pmix->boot;
    return TUTTI_OK;
}
