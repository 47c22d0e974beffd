/*
 * Everything that is posted: lines, writes, cells, reads, and the flush that drained needs. One
 * function posts; it numbers the requests, signals once per half queue, and counts.
 */
#include "transport/verbs_endpoint.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "runtime/env.h"

/* ---- posting -------------------------------------------------------------------------------- */

__attribute__((cold, noinline)) static tutti_status refuse(struct tu_verbs *verbs,
                                                           const struct tu_verbs_peer *peer) {
    if (peer->state != TU_VERBS_UNCONNECTED)
        return TUTTI_ERR_UNREACHABLE; /* told, or about to be told, through events->lost */
    return tu_fail(verbs->env, TUTTI_ERR_INTERNAL, "sending to rank %u (host %s) before connect",
                   peer->rank, peer->host);
}

/* TUTTI_OK if `requests` more can be posted now. */
static inline tutti_status usable(struct tu_verbs *verbs, const struct tu_verbs_peer *peer,
                                  uint32_t requests) {
    if (__builtin_expect(peer->state != TU_VERBS_CONNECTED, 0))
        return refuse(verbs, peer);
    if (peer->posted - peer->retired + requests > verbs->sizes.send_depth)
        return TU_AGAIN;
    return TUTTI_OK;
}

/* A post that fails tells of a broken device or queue pair; the peer's end is told by poll. */
__attribute__((cold, noinline)) static tutti_status
fail_post(struct tu_verbs *verbs, struct tu_verbs_peer *peer, int error) {
    peer->state = TU_VERBS_FAILED;
    peer->post_error = error;
    verbs->failed++;
    return TUTTI_ERR_UNREACHABLE;
}

/*
 * Posts a chain of n requests with one doorbell. The last is signalled if half a queue has gone by
 * or if the caller waits for it (`signal`).
 */
static tutti_status post(struct tu_verbs *verbs, uint32_t index, struct ibv_send_wr *chain,
                         uint32_t n, bool signal) {
    struct tu_verbs_peer *peer = &verbs->peer[index];
    struct ibv_send_wr *wr = chain, *bad;
    uint32_t number = peer->posted;
    int error;

    for (;; wr = wr->next) {
        wr->wr_id = tu_verbs_id(index, ++number);
        if (!wr->next)
            break;
    }
    signal = signal || peer->silent + n >= verbs->sizes.send_depth / 2;
    if (signal)
        wr->send_flags |= IBV_SEND_SIGNALED;
    error = ibv_post_send(peer->qp, chain, &bad);
    if (__builtin_expect(error, 0))
        return fail_post(verbs, peer, error);
    peer->posted = number;
    peer->silent = signal ? 0 : peer->silent + n;
    verbs->counters->requests += n;
    verbs->counters->doorbells++;
    return TUTTI_OK;
}

static inline struct ibv_send_wr request(const struct tu_verbs_peer *peer, enum ibv_wr_opcode what,
                                         uint64_t remote, struct ibv_sge *sge) {
    return (struct ibv_send_wr){
        .sg_list = sge,
        .num_sge = sge->length ? 1 : 0,
        .opcode = what,
        .wr.rdma = {.remote_addr = peer->address + remote, .rkey = peer->rkey},
    };
}

/* ---- small: lines and cells ----------------------------------------------------------------- */

/*
 * One write of a few words, inline if they fit. Else from the peer's staging cell of this request's
 * number: requests under way have different ones, as there are as many as fit into the queue.
 */
static tutti_status post_words(struct tu_verbs *verbs, uint32_t index, uint64_t address,
                               uint32_t rkey, void *words, size_t bytes) {
    struct tu_verbs_peer *peer = &verbs->peer[index];
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)words, .length = (uint32_t)bytes};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = address, .rkey = rkey},
    };

    assert(address % 8 == 0);
    if (bytes <= verbs->inline_bytes) {
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        char *cell =
            peer->stage + (peer->posted & (verbs->sizes.send_depth - 1)) * TU_VERBS_STAGE_BYTES;

        memcpy(cell, words, bytes);
        sge.addr = (uint64_t)(uintptr_t)cell;
        sge.lkey = verbs->stage_mr->lkey;
    }
    return post(verbs, index, &wr, 1, false);
}

tutti_status tu_verbs_line(struct tu_transport *transport, uint32_t index, uint64_t to,
                           struct tu_line_header header, const void *payload, size_t bytes) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    const struct tu_verbs_peer *peer = &verbs->peer[index];
    uint64_t words[TU_LINE_WORDS];
    tutti_status status = usable(verbs, peer, 1);

    if (status)
        return status;
    assert(to + TU_LINE_STRIDE <= peer->window_bytes);
    status = post_words(verbs, index, peer->address + to, peer->rkey, words,
                        tu_line_fill_words(words, header, payload, bytes));
    if (status)
        return status;
    verbs->counters->lines++;
    verbs->counters->bytes += bytes;
    return TUTTI_OK;
}

tutti_status tu_verbs_cell(struct tu_transport *transport, uint32_t index, uint64_t to,
                           uint64_t value) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    const struct tu_verbs_peer *peer = &verbs->peer[index];
    tutti_status status = usable(verbs, peer, 1);

    if (status)
        return status;
    assert(to + sizeof value <= peer->window_bytes);
    status = post_words(verbs, index, peer->address + to, peer->rkey, &value, sizeof value);
    if (status)
        return status;
    verbs->counters->cells++;
    return TUTTI_OK;
}

tutti_status tu_verbs_post_credit(struct tu_verbs *verbs, uint32_t index, uint32_t count) {
    const struct tu_verbs_peer *peer = &verbs->peer[index];
    uint64_t value = count;
    tutti_status status = usable(verbs, peer, 1);

    if (status == TUTTI_OK)
        status =
            post_words(verbs, index, peer->credit_address, peer->credit_rkey, &value, sizeof value);
    if (status == TUTTI_OK)
        verbs->counters->cells++;
    return status;
}

/* ---- large: writes and reads ---------------------------------------------------------------- */

uint32_t tu_verbs_pieces(const struct tu_verbs *verbs, size_t bytes) {
    size_t longest = verbs->limits.message_bytes;

    return bytes <= longest ? 1 : (uint32_t)((bytes + longest - 1) / longest);
}

/* A message of pieces, each as long as the device can. */
struct message {
    struct ibv_send_wr wr[TU_VERBS_PIECES];
    struct ibv_sge sge[TU_VERBS_PIECES];
};

static void cut(const struct tu_verbs *verbs, const struct tu_verbs_peer *peer,
                enum ibv_wr_opcode what, uint64_t local, uint64_t remote, size_t bytes,
                uint32_t pieces, struct message *message) {
    for (uint32_t i = 0; i < pieces; i++) {
        size_t longest = verbs->limits.message_bytes;
        size_t now = bytes < longest ? bytes : longest;

        message->sge[i] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)verbs->window + local,
                                           .length = (uint32_t)now,
                                           .lkey = verbs->window_mr->lkey};
        message->wr[i] = request(peer, what, remote, &message->sge[i]);
        message->wr[i].next = i + 1 < pieces ? &message->wr[i + 1] : NULL;
        local += now;
        remote += now;
        bytes -= now;
    }
}

tutti_status tu_verbs_write(struct tu_transport *transport, uint32_t index, uint64_t from,
                            uint64_t to, size_t bytes, uint32_t immediate) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    struct tu_verbs_peer *peer = &verbs->peer[index];
    uint32_t pieces = tu_verbs_pieces(verbs, bytes);
    struct message message;
    struct ibv_send_wr *last;
    tutti_status status = usable(verbs, peer, pieces);

    assert(pieces <= TU_VERBS_PIECES && pieces <= verbs->sizes.send_depth / 2);
    if (status == TUTTI_OK && !tu_verbs_has_credit(verbs, index))
        status = TU_AGAIN;
    if (status)
        return status;
    assert(from + bytes <= verbs->window_bytes && to + bytes <= peer->window_bytes);
    last = &message.wr[pieces - 1];
    cut(verbs, peer, IBV_WR_RDMA_WRITE, from, to, bytes, pieces, &message);
    /* The immediate rides on the last piece: a queue pair completes receives in order. */
    last->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    last->imm_data = htobe32(immediate);
    if (bytes && bytes <= verbs->inline_bytes && pieces == 1)
        last->send_flags = IBV_SEND_INLINE;
    status = post(verbs, index, message.wr, pieces, false);
    if (status)
        return status;
    peer->written++;
    verbs->counters->writes++;
    verbs->counters->bytes += bytes;
    return TUTTI_OK;
}

tutti_status tu_verbs_read(struct tu_transport *transport, uint32_t index, uint64_t from,
                           uint64_t to, size_t bytes, int *done) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    struct tu_verbs_peer *peer = &verbs->peer[index];
    uint32_t pieces = tu_verbs_pieces(verbs, bytes);
    struct message message;
    tutti_status status = usable(verbs, peer, pieces);

    assert(pieces <= TU_VERBS_PIECES && pieces <= verbs->sizes.send_depth / 2);
    if (status == TUTTI_OK && peer->reads_begun - peer->reads_ended == TU_VERBS_READS)
        status = TU_AGAIN;
    if (status)
        return status;
    assert(from + bytes <= peer->window_bytes && to + bytes <= verbs->window_bytes);
    cut(verbs, peer, IBV_WR_RDMA_READ, to, from, bytes, pieces, &message);
    status = post(verbs, index, message.wr, pieces, true);
    if (status)
        return status;
    *done = 0;
    peer->read[peer->reads_begun++ % TU_VERBS_READS] =
        (struct tu_verbs_read){.number = peer->posted, .done = done};
    return TUTTI_OK;
}

/* ---- drained -------------------------------------------------------------------------------- */

/* Silent requests end without a completion; an empty signalled write behind them has one. */
static void flush(struct tu_verbs *verbs, uint32_t index) {
    struct tu_verbs_peer *peer = &verbs->peer[index];
    struct ibv_sge nothing = {.length = 0};
    struct ibv_send_wr wr = request(peer, IBV_WR_RDMA_WRITE, 0, &nothing);

    if (peer->silent && usable(verbs, peer, 1) == TUTTI_OK)
        (void)post(verbs, index, &wr, 1, true); /* a failure is told by poll */
}

bool tu_verbs_drained(struct tu_transport *transport) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    bool drained = true;

    for (uint32_t i = 0; i < verbs->peers; i++) {
        const struct tu_verbs_peer *peer = &verbs->peer[i];

        if (peer->state != TU_VERBS_CONNECTED || peer->posted == peer->retired)
            continue;
        flush(verbs, i);
        drained = false;
    }
    return drained;
}
