/*
 * Records: each rank keeps its last calls of a comm in its window, where its peers can read them without
 * its help. They tell who is late, and which calls do not fit when no message could tell.
 */
#include <stdio.h>
#include <string.h>

#include "api/job.h"
#include "runtime/clock.h"

enum { FETCH_TIMEOUT_MS = 200 };

static uint64_t mix(uint64_t h, uint64_t value) {
    h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Everything that must be the same on all ranks. */
uint64_t tu_hash(const struct tu_description *what) {
    return mix((uint64_t)what->kind << 32 | (uint32_t)what->root, what->count);
}

uint32_t tu_fingerprint(uint32_t before, uint64_t hash, uint32_t rejected) {
    uint64_t h = mix(hash, (uint64_t)before << 32 | rejected);
    return (uint32_t)(h >> 32 ^ h);
}

/* The words of a record that say what the call is. */
enum { WORDS = offsetof(struct tu_record, check) / 8 };
_Static_assert(WORDS == 4, "as check_of() takes them");

static uint64_t check_of(const uint64_t word[WORDS]) {
    uint64_t h = word[0] * UINT64_C(0x9e3779b97f4a7c15) + word[1] * UINT64_C(0xc2b2ae3d27d4eb4f) +
                 word[2] * UINT64_C(0x165667b19e3779f9) + word[3] * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* Two halves of a word, in the order in which they lie in memory. */
static uint64_t pair(int32_t first, uint32_t second) {
    const uint32_t half[2] = {(uint32_t)first, second};
    uint64_t word;
    memcpy(&word, half, sizeof word);
    return word;
}

static bool is_whole(const struct tu_record *record) {
    uint64_t word[WORDS];
    memcpy(word, record, sizeof word);
    return record->check == check_of(word);
}

static struct tu_record *own_record(const tutti_comm *comm, uint64_t number) {
    return &comm->record[number % TU_RECORDS];
}

/* By words, so that a peer that reads meanwhile sees words, old or new; the check finds mixtures. */
void tu_record_call(const struct tu_call *call) {
    const struct tu_description *what = &call->task->what;
    const uint64_t word[WORDS] = {call->number + 1, what->count, pair(what->root, what->kind),
                                  pair(call->rejected, call->fingerprint)};
    _Atomic uint64_t *to = (void *)own_record(call->comm, call->number);
    atomic_store_explicit(to + 0, word[0], memory_order_relaxed);
    atomic_store_explicit(to + 1, word[1], memory_order_relaxed);
    atomic_store_explicit(to + 2, word[2], memory_order_relaxed);
    atomic_store_explicit(to + 3, word[3], memory_order_relaxed);
    atomic_store_explicit(to + 4, check_of(word), memory_order_relaxed);
}

void tu_record_finish(const struct tu_call *call) {
    _Atomic uint64_t *finished = (void *)&own_record(call->comm, call->number)->finished;
    atomic_store_explicit(finished, call->number + 1, memory_order_relaxed);
}

/* ---- reading ---- */

bool tu_record_fetch(tutti_comm *comm, uint32_t rank, struct tu_record *to) {
    tutti_job *job = comm->job;
    const struct tu_peer *peer = tu_peer_of(job, rank);
    if (!peer || !peer->transport || job->lost[rank])
        return false;
    const struct tu_transport_ops *ops = peer->transport->ops;
    uint64_t end = tu_now_ns() + FETCH_TIMEOUT_MS * UINT64_C(1000000);
    static const size_t bytes = TU_RECORDS * sizeof *to;
    int done = 0;
    tutti_status status;
    do {
        status = ops->read(peer->transport, peer->index,
                           tu_window_record(&job->window.shape, comm->id, 0), job->window.scratch,
                           bytes, &done);
        ops->poll(peer->transport);
    } while (status == TU_AGAIN && tu_now_ns() < end);
    while (!status && done == 0 && !job->lost[rank])
        ops->poll(peer->transport); /* ends: a peer that is gone is told as lost */
    if (status || done != 1)
        return false;
    memcpy(to, job->window.base + job->window.scratch, bytes);
    for (uint32_t i = 0; i < TU_RECORDS; i++)
        if (!is_whole(&to[i]))
            to[i].call = 0;
    return true;
}

static const char *const collective_name[TU_COLLECTIVES] = {"barrier", "bcast", "allreduce"};

const char *tu_call_text(uint64_t call, const struct tu_description *what, uint32_t rejected,
                         char *text, size_t bytes) {
    char arguments[128] = "";
    unsigned long long count = (unsigned long long)what->count;
    enum tu_collective collective = tu_kind_collective(what->kind);
    const char *type = tu_type_name((tutti_type)(what->kind >> 8 & 255));
    if (collective == TU_BCAST)
        snprintf(arguments, sizeof arguments, " of %llu %s from root %d", count, type, what->root);
    if (collective == TU_ALLREDUCE)
        snprintf(arguments, sizeof arguments, " of %llu %s by %s", count, type,
                 tu_op_name((tutti_op)(what->kind >> 16)));
    const char *name = collective < TU_COLLECTIVES ? collective_name[collective] : "?";
    int n = snprintf(text, bytes, "%s%s (call %llu", name, arguments, (unsigned long long)call);
    if (n > 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, rejected ? ", after %u rejected calls)" : ")",
                 rejected);
    return text;
}

bool tu_record_differ(tutti_comm *comm, uint32_t rank, char *text, size_t bytes) {
    struct tu_record theirs[TU_RECORDS];
    char mine_text[200], their_text[200], who[96];
    if (!tu_record_fetch(comm, rank, theirs))
        return false;
    uint64_t from = comm->calls > TU_RECORDS ? comm->calls - TU_RECORDS : 0;
    for (uint64_t call = from; call < comm->calls; call++) {
        const struct tu_record *mine = own_record(comm, call);
        const struct tu_record *other = &theirs[call % TU_RECORDS];
        if (mine->call != call + 1 || other->call != call + 1 ||
            mine->fingerprint == other->fingerprint)
            continue;
        snprintf(text, bytes, "%s is in %s, this rank in %s",
                 tu_rank_text(comm->job, rank, who, sizeof who),
                 tu_call_text(call, &other->what, other->rejected, their_text, sizeof their_text),
                 tu_call_text(call, &mine->what, mine->rejected, mine_text, sizeof mine_text));
        return true;
    }
    return false;
}
