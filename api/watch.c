/* What a waiting rank looks at now and then: lost ranks, poison, deadlines, late and wrong peers. */
#include <stdio.h>

#include "api/job.h"
#include "runtime/clock.h"

enum { COMPARE_AFTER_MS = 100, TESTED_MS = 10, AWAITED = 4, COMPARED = 64 };

static uint64_t ns(int ms) {
    return (uint64_t)ms * UINT64_C(1000000);
}

static const char *loss_text(enum tu_loss how) {
    switch (how) {
    case TU_LOSS_EXITED:
        return "exited without tutti_finalize()";
    case TU_LOSS_KILLED:
        return "was killed";
    default:
        return "is gone, as the launcher says";
    }
}

/*
 * What a rank did before it died counts before its loss does: its part of the calls under way, and its
 * poison (a survivor of another loss may have given up and ended since; then that other loss is to
 * be named). Both were stored before the process ended.
 */
static void dead(tutti_job *job, uint32_t rank, const char *how) {
    tu_progress(job);
    tu_poison_check(job);
    tu_rank_lost(job, rank, TUTTI_ERR_DEAD, how);
}

static void watch_losses(tutti_job *job) {
    uint32_t rank;
    enum tu_loss how;
    while (job->boot->ops->lost(job->boot, &rank, &how))
        dead(job, rank, loss_text(how));
    while (tu_topology_died(job->topology, &rank))
        dead(job, rank, "died, as the process table says");
}

/* Adds the ranks that the run waits for, without duplicates; returns how many there are now. */
static uint32_t add_awaited(const struct tu_run *run, uint32_t *rank, uint32_t kept,
                            uint32_t room) {
    uint32_t found[COMPARED];
    uint32_t n = tu_run_awaited(run, found, COMPARED);
    for (uint32_t i = 0; i < n && i < COMPARED; i++) {
        uint32_t k = 0;
        while (k < kept && rank[k] != found[i])
            k++;
        if (k == kept && kept < room)
            rank[kept++] = found[i];
    }
    return kept;
}

/* Ranks that the call waits for. A call that waits for its bank waits for those of the call in front
   of it. */
static uint32_t awaited(const struct tu_call *call, uint32_t rank[AWAITED]) {
    const tutti_comm *comm = call->comm;
    uint32_t kept = 0;
    for (uint32_t b = 0; b < comm->banks; b++) {
        const struct tu_bank *bank = &comm->bank[b];
        if (bank->call && (call->state != TU_CALL_RUNNING || bank->call == call))
            kept = add_awaited(&bank->run, rank, kept, AWAITED);
    }
    return kept;
}

/* Where a rank is, as its records say. */
static void where(tutti_comm *comm, uint32_t rank, char *text, size_t bytes) {
    struct tu_record record[TU_RECORDS], *last = NULL;
    char who[96], what[200];
    tu_rank_text(comm->job, rank, who, sizeof who);
    if (!tu_record_fetch(comm, rank, record)) {
        snprintf(text, bytes, "%s, which does not answer", who);
        return;
    }
    for (uint32_t i = 0; i < TU_RECORDS; i++)
        if (record[i].call && (!last || record[i].call > last->call))
            last = &record[i];
    if (!last)
        snprintf(text, bytes, "%s, which has made no call on this communicator", who);
    else
        snprintf(text, bytes, "%s, which %s %s", who,
                 last->finished == last->call ? "is outside since it finished" : "is in",
                 tu_call_text(last->call - 1, &last->what, last->rejected, what, sizeof what));
}

/* *culprit: the first of them, or TU_NO_RANK. */
static const char *describe_awaited(struct tu_call *call, uint32_t *culprit, char *text,
                                    size_t bytes) {
    uint32_t rank[AWAITED];
    uint32_t n = awaited(call, rank);
    *culprit = n ? rank[0] : TU_NO_RANK;
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < n && at + 1 < bytes; i++) {
        char one[320];
        where(call->comm, rank[i], one, sizeof one);
        int added = snprintf(text + at, bytes - at, "%s%s", i ? "; " : "", one);
        at += added > 0 ? (size_t)added : 0;
    }
    if (n == 0)
        snprintf(text, bytes, "room on a channel");
    return text;
}

static void compare_comm(tutti_comm *comm) {
    uint32_t rank[COMPARED], n = 0;
    char text[420];
    for (uint32_t b = 0; b < comm->banks; b++)
        if (comm->bank[b].call)
            n = add_awaited(&comm->bank[b].run, rank, n, COMPARED);
    for (uint32_t i = 0; i < n && !comm->ruin; i++)
        if (tu_record_differ(comm, rank[i], text, sizeof text))
            tu_comm_fail(comm, TUTTI_ERR_MISMATCH, rank[i],
                         "ranks made different calls on communicator %u: %s", comm->id, text);
}

/*
 * Crossed roots and the like exchange no message that would tell: compare the records. Looking at them
 * also tells who is gone. Of all calls under way, for the awaited one may need what a peer sends only
 * after another one has gone on.
 */
static void compare(tutti_job *job) {
    for (tutti_comm *comm = job->active; comm; comm = comm->next_active)
        compare_comm(comm);
}

static void late(tutti_job *job, struct tu_call *call, uint64_t waited_ns) {
    char text[700], mine[200];
    uint32_t culprit;
    tu_call_text(call->number, &call->task->what, call->rejected, mine, sizeof mine);
    tu_log(&job->env, TU_LOG_WARN, "%s has waited %llu s for %s", mine,
           (unsigned long long)(waited_ns / 1000000000u),
           describe_awaited(call, &culprit, text, sizeof text));
    call->watch.late_ns += waited_ns; /* twice as long until the next one */
}

static void deadline(tutti_job *job, struct tu_call *call) {
    char text[700], mine[200];
    uint32_t culprit;
    tu_call_text(call->number, &call->task->what, call->rejected, mine, sizeof mine);
    describe_awaited(call, &culprit, text, sizeof text);
    tu_comm_fail(call->comm, TUTTI_ERR_TIMEOUT, culprit,
                 "%s: TUTTI_TIMEOUT_MS=%d has passed, waiting for %s", mine,
                 job->env.config.timeout_ms, text);
}

void tu_watch(tutti_job *job, struct tu_call *call) {
    struct tu_watch *watch = &call->watch;
    uint64_t now = tu_now_ns();
    const struct tu_config *config = &job->env.config;
    if (!watch->since_ns)
        *watch = (struct tu_watch){.since_ns = now,
                                   .late_ns = now + ns(config->late_ms),
                                   .compare_ns = now + ns(COMPARE_AFTER_MS)};
    watch_losses(job);
    tu_poison_check(job);
    if (call->state == TU_CALL_DONE)
        return;
    if (now >= watch->compare_ns) {
        watch->compare_ns = now + (now - watch->since_ns);
        compare(job);
    }
    if (call->state != TU_CALL_DONE && config->timeout_ms &&
        now - watch->since_ns >= ns(config->timeout_ms))
        deadline(job, call);
    if (call->state != TU_CALL_DONE && config->late_ms && now >= watch->late_ns)
        late(job, call, now - watch->since_ns);
}

void tu_watch_tested(tutti_job *job, struct tu_call *call) {
    uint64_t now = tu_now_ns();
    if (now - job->watched_ns < ns(TESTED_MS))
        return;
    job->watched_ns = now;
    tu_watch(job, call);
}
