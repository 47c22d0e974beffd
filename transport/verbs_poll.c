/*
 * Polling: send completions retire requests, receive completions become arrivals, errors end a peer.
 * And sleeping, by the completion channel.
 *
 * A receive completion makes the data of its write visible: devices complete in that order and the
 * provider's poll has the barrier.
 */
#include "transport/verbs_endpoint.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"

enum {
    ROUNDS = 4
}; /* batches per poll: bounded, so that nobody starves the rest of the progress */

void tu_verbs_retire(struct tu_verbs_peer *peer, uint32_t number, int outcome) {
    peer->retired = number;
    while (peer->reads_ended != peer->reads_begun) {
        struct tu_verbs_read *read = &peer->read[peer->reads_ended % TU_VERBS_READS];

        if ((int32_t)(read->number - number) > 0)
            break;
        *read->done = outcome;
        peer->reads_ended++;
    }
}

/* ---- one completion ------------------------------------------------------------------------- */

static void lose_by(struct tu_verbs *verbs, uint32_t index, const struct ibv_wc *wc) {
    char why[512];

    if (verbs->peer[index].state == TU_VERBS_LOST)
        return; /* what else was under way is flushed and says nothing new */
    tu_verbs_explain(verbs, index, wc, why, sizeof why);
    tu_verbs_lose(verbs, index, why);
}

static void handle_receive(struct tu_verbs *verbs, const struct ibv_wc *wc) {
    uint32_t index = tu_verbs_peer_of(verbs, wc->qp_num);

    verbs->counters->receives++;
    if (index == UINT32_MAX)
        return;
    if (wc->status != IBV_WC_SUCCESS)
        lose_by(verbs, index, wc);
    else if (verbs->peer[index].state == TU_VERBS_CONNECTED) {
        verbs->peer[index].received++;
        tu_verbs_tell(verbs, index);
        verbs->events.arrived(verbs->events.context, index, be32toh(wc->imm_data));
    }
}

static void handle(struct tu_verbs *verbs, const struct ibv_wc *wc) {
    uint32_t index = (uint32_t)(wc->wr_id >> 32);

    if (wc->wr_id == TU_VERBS_RECEIVE) {
        handle_receive(verbs, wc);
        return;
    }
    verbs->counters->completions++;
    if (wc->status != IBV_WC_SUCCESS)
        lose_by(verbs, index, wc);
    else if (verbs->peer[index].state != TU_VERBS_LOST) /* whose requests have all been ended */
        tu_verbs_retire(&verbs->peer[index], (uint32_t)wc->wr_id, 1);
}

/* ---- poll ----------------------------------------------------------------------------------- */

/* The device itself has failed: nobody can be reached through it. */
__attribute__((cold)) static void lose_all(struct tu_verbs *verbs, const char *what, int error) {
    char why[256];

    for (uint32_t i = 0; i < verbs->peers; i++) {
        tu_text_format(why, sizeof why, "rank %u (host %s) can't be reached: %s on %s: %s",
                       verbs->peer[i].rank, verbs->peer[i].host, what, verbs->port.device,
                       strerror(error));
        tu_verbs_lose(verbs, i, why);
    }
}

/* Peers that a post found broken. Their requests can't complete any more, so they end here. */
__attribute__((cold)) static int tell_failed(struct tu_verbs *verbs) {
    int told = 0;

    for (uint32_t i = 0; i < verbs->peers; i++) {
        struct tu_verbs_peer *peer = &verbs->peer[i];
        char why[256];

        if (peer->state != TU_VERBS_FAILED)
            continue;
        tu_text_format(why, sizeof why,
                       "rank %u (host %s) can't be reached: %s port %d takes no requests for it: "
                       "%s",
                       peer->rank, peer->host, verbs->port.device, verbs->port.port,
                       strerror(peer->post_error));
        tu_verbs_lose(verbs, i, why);
        told++;
    }
    return told;
}

/*
 * Receive entries go back before the peer gets credit for them and before the arrivals are told: else
 * its next write could be here before the entry that it needs.
 */
static void repost(struct tu_verbs *verbs, const struct ibv_wc *wc, int n) {
    uint32_t taken = 0;
    int error;

    for (int i = 0; i < n; i++)
        taken += wc[i].wr_id == TU_VERBS_RECEIVE;
    error = taken ? tu_verbs_post_receives(verbs, taken) : 0;
    if (error)
        lose_all(verbs, "reposting receive entries failed", error);
}

int tu_verbs_poll(struct tu_transport *transport) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    struct ibv_wc wc[TU_VERBS_BATCH];
    int n = TU_VERBS_BATCH, total = 0;

    for (int round = 0; round < ROUNDS && n == TU_VERBS_BATCH; round++) {
        n = ibv_poll_cq(verbs->cq, TU_VERBS_BATCH, wc);
        if (n < 0) {
            lose_all(verbs, "polling for completions failed", EIO);
            break;
        }
        if (n == 0)
            break;
        repost(verbs, wc, n);
        for (int i = 0; i < n; i++)
            handle(verbs, &wc[i]);
        total += n;
    }
    if (__builtin_expect(verbs->untold, 0))
        tu_verbs_tell_all(verbs);
    if (__builtin_expect(verbs->failed, 0))
        total += tell_failed(verbs);
    return total;
}

/* ---- sleeping ------------------------------------------------------------------------------- */

/*
 * Any completion makes the event, not solicited ones only: a sleeper may also wait for room in a
 * send queue, the end of a read, or an error. Silent requests make none, so a steady stream of lines
 * does not wake anybody by its own completions more than once per half queue.
 */
tutti_status tu_verbs_arm(struct tu_transport *transport, int *fd) {
    struct tu_verbs *verbs = tu_verbs_of(transport);

    if (!verbs->armed) {
        int error = ibv_req_notify_cq(verbs->cq, 0);

        if (error)
            return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, error,
                                 "arming the completion channel of %s", verbs->port.device);
        verbs->armed = true;
    }
    *fd = verbs->channel->fd;
    return TUTTI_OK;
}

/* Without an event the queue stays armed, and the next arm finds it so. */
void tu_verbs_wake(struct tu_transport *transport) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    struct ibv_cq *cq;
    void *context;

    if (verbs->armed && ibv_get_cq_event(verbs->channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        verbs->armed = false;
    }
}
