/*
 * The end of a peer: what was outstanding on it ends, the caller is told once, and the text names
 * status, peer, device and the usual suspect.
 */
#include "transport/verbs_endpoint.h"

#include "runtime/text.h"

static const char *suspect(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer is gone, a link or switch is down, or the GID or MTU does not fit the "
               "network (TUTTI_GID_INDEX, TUTTI_MTU)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer had no receive entry left, a bug in tutti";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer's window is not registered any more: it has finalized or failed";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer's queue pair does not take such a request, a bug in tutti";
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return "the peer's device failed: look at its kernel log";
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_GENERAL_ERR:
    case IBV_WC_FATAL_ERR:
        return "this host's link is down or its device failed: look at `rdma link` and the kernel "
               "log";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_LEN_ERR:
        return "memory that is not registered, a bug in tutti";
    case IBV_WC_WR_FLUSH_ERR:
        return "the queue pair was stopped by the device, after an error in what the peer sent";
    default:
        return "look at the kernel logs of both hosts";
    }
}

void tu_verbs_explain(const struct tu_verbs *verbs, uint32_t index, const struct ibv_wc *wc,
                      char *text, size_t bytes) {
    const struct tu_verbs_peer *peer = &verbs->peer[index];

    tu_text_format(text, bytes,
                   "rank %u (host %s) can't be reached through %s port %d, GID %d: %s (status %d, "
                   "vendor 0x%x): %s",
                   peer->rank, peer->host, verbs->port.device, verbs->port.port,
                   verbs->port.gid_index, ibv_wc_status_str(wc->status), (int)wc->status,
                   wc->vendor_err, suspect(wc->status));
}

void tu_verbs_lose(struct tu_verbs *verbs, uint32_t index, const char *why) {
    struct tu_verbs_peer *peer = &verbs->peer[index];
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (peer->state == TU_VERBS_LOST)
        return;
    if (peer->state == TU_VERBS_FAILED)
        verbs->failed--;
    peer->state = TU_VERBS_LOST;
    /* On an error completion it is there already; else now nothing more from the peer can land. */
    (void)ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE);
    tu_verbs_retire(peer, peer->posted, -1);
    verbs->events.lost(verbs->events.context, index, why);
}
