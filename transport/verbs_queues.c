/*
 * The completion queue, its channel for sleeping, and the shared receive queue: how large they must
 * be so that neither can overflow and no write with immediate ever finds no entry (RNR).
 */
#include "transport/verbs_endpoint.h"

#include <errno.h>
#include <fcntl.h>

#include "runtime/env.h"

enum { SPARE_RECEIVES = 16 }; /* so that a queue is never empty, not even with no peer */

/* ---- sizes ---------------------------------------------------------------------------------- */

static tutti_status too_many(struct tu_env *env, const char *name, const char *what,
                             uint64_t needed, int has, uint32_t peers, uint32_t allowance) {
    return tu_fail(env, TUTTI_ERR_UNSUPPORTED,
                   "%u peers with %u writes each ahead need a %s of %llu entries, %s has at "
                   "most %d: lower TUTTI_RING or TUTTI_BANKS",
                   peers, allowance, what, (unsigned long long)needed, name, has);
}

tutti_status tu_verbs_plan(struct tu_env *env, const struct ibv_device_attr *device,
                           const char *name, uint32_t peers, uint32_t allowance,
                           uint32_t send_depth, struct tu_verbs_sizes *sizes) {
    uint64_t receives = (uint64_t)peers * allowance + SPARE_RECEIVES;
    uint32_t depth = send_depth;

    if (device->max_srq <= 0 || receives > (uint64_t)device->max_srq_wr)
        return too_many(env, name, "shared receive queue", receives,
                        device->max_srq > 0 ? device->max_srq_wr : 0, peers, allowance);
    while (depth > TU_VERBS_MIN_DEPTH &&
           (depth > (uint64_t)device->max_qp_wr ||
            (uint64_t)peers * depth + receives > (uint64_t)device->max_cqe))
        depth /= 2;
    if (depth > (uint64_t)device->max_qp_wr)
        return tu_fail(env, TUTTI_ERR_UNSUPPORTED, "%s takes %d requests per queue pair, too few",
                       name, device->max_qp_wr);
    if ((uint64_t)peers * depth + receives > (uint64_t)device->max_cqe)
        return too_many(env, name, "completion queue", (uint64_t)peers * depth + receives,
                        device->max_cqe, peers, allowance);
    sizes->send_depth = depth;
    sizes->receives = (uint32_t)receives;
    sizes->completions = (uint32_t)(peers * depth + receives);
    return TUTTI_OK;
}

/* ---- receive entries ------------------------------------------------------------------------ */

/* Entries carry no buffer: a write with immediate only takes one and leaves its data elsewhere. */
static void chain_receives(struct tu_verbs *verbs) {
    for (int i = 0; i < TU_VERBS_BATCH; i++) {
        verbs->receive[i].wr_id = TU_VERBS_RECEIVE;
        verbs->receive[i].next = i + 1 < TU_VERBS_BATCH ? &verbs->receive[i + 1] : NULL;
    }
}

int tu_verbs_post_receives(struct tu_verbs *verbs, uint32_t n) {
    while (n > 0) {
        uint32_t now = n < TU_VERBS_BATCH ? n : TU_VERBS_BATCH;
        struct ibv_recv_wr *last = &verbs->receive[now - 1], *next = last->next, *bad;
        int error;

        last->next = NULL;
        error = ibv_post_srq_recv(verbs->srq, verbs->receive, &bad);
        last->next = next;
        if (error)
            return error;
        n -= now;
    }
    return 0;
}

/* ---- making them ---------------------------------------------------------------------------- */

static tutti_status make_channel(struct tu_verbs *verbs) {
    int flags;

    verbs->channel = ibv_create_comp_channel(verbs->context);
    if (!verbs->channel)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, errno,
                             "making a completion channel on %s", verbs->port.device);
    flags = fcntl(verbs->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(verbs->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return tu_fail_errno(verbs->env, TUTTI_ERR_SYSTEM, errno,
                             "making the completion channel of %s nonblocking", verbs->port.device);
    return TUTTI_OK;
}

tutti_status tu_verbs_make_queues(struct tu_verbs *verbs) {
    struct ibv_srq_init_attr attr = {
        .attr = {.max_wr = verbs->sizes.receives, .max_sge = 1},
    };
    tutti_status status = make_channel(verbs);
    int error;

    if (status)
        return status;
    verbs->cq =
        ibv_create_cq(verbs->context, (int)verbs->sizes.completions, NULL, verbs->channel, 0);
    if (!verbs->cq)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, errno,
                             "making a completion queue of %u entries on %s",
                             verbs->sizes.completions, verbs->port.device);
    verbs->srq = ibv_create_srq(verbs->pd, &attr);
    if (!verbs->srq)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, errno,
                             "making a shared receive queue of %u entries on %s",
                             verbs->sizes.receives, verbs->port.device);
    chain_receives(verbs);
    error = tu_verbs_post_receives(verbs, verbs->sizes.receives);
    if (error)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, error,
                             "posting %u receive entries on %s", verbs->sizes.receives,
                             verbs->port.device);
    return TUTTI_OK;
}
