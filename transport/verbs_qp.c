/*
 * Queue pairs: made with their capacities and taken to INIT when the transport opens, to RTR and RTS
 * with what the peer's address blob brought. One per peer; a table leads from their numbers, which
 * completions carry, back to peers.
 */
#include "transport/verbs_endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/env.h"
#include "runtime/memory.h"

enum {
    MAX_READS = 16,  /* RDMA reads under way per queue pair and direction, if the device has it */
    RNR_RETRIES = 6, /* finite; receive entries are counted, so it never happens */
    RNR_TIMER = 12,  /* 0.64 ms */
    MAX_RETRIES = 6, /* 7 never ends on some devices */
    HOP_LIMIT = 64,
};

/* ---- the address blob ----------------------------------------------------------------------- */

/* Queue pair of the publishing rank for one of its peers. */
struct pair_address {
    uint32_t rank; /* the peer; UINT32_MAX: not used */
    uint32_t number;
    uint32_t psn;
};

/* What a rank publishes, the same number of bytes on every rank. */
struct address {
    uint64_t window;
    uint64_t window_bytes;
    uint64_t credit; /* cells of its peers, in the order of pair[] */
    uint8_t gid[16];
    uint32_t rank;
    uint32_t rkey;
    uint32_t credit_rkey;
    uint32_t allowance; /* writes that a peer may be ahead */
    uint32_t gid_type;
    uint32_t pairs; /* [max_peers] */
    uint16_t lid;
    uint8_t link_layer;
    uint8_t mtu;   /* enum ibv_mtu */
    uint8_t reads; /* that may be under way to this rank on one queue pair */
    uint8_t unused[3];
    struct pair_address pair[];
};
_Static_assert(sizeof(struct address) == 72, "travels between processes");
_Static_assert(sizeof(struct pair_address) == 12, "travels between processes");

static uint8_t least_reads(int device) {
    return (uint8_t)(device < MAX_READS ? device : MAX_READS);
}

size_t tu_verbs_address_bytes(const struct tu_transport *transport) {
    const struct tu_verbs *verbs = (const struct tu_verbs *)transport;
    size_t bytes = sizeof(struct address) + verbs->max_peers * sizeof(struct pair_address);

    return (bytes + 7) & ~(size_t)7;
}

/* Blobs lie wherever the caller put them, so they are filled and read by copies. */
tutti_status tu_verbs_address(struct tu_transport *transport, void *blob) {
    const struct tu_verbs *verbs = tu_verbs_of(transport);
    struct address address = {
        .window = (uint64_t)(uintptr_t)verbs->window,
        .window_bytes = verbs->window_bytes,
        .credit = (uint64_t)(uintptr_t)verbs->credit,
        .rank = verbs->rank,
        .rkey = verbs->window_mr->rkey,
        .credit_rkey = verbs->credit_mr->rkey,
        .allowance = verbs->allowance,
        .gid_type = verbs->port.gid_type,
        .pairs = verbs->max_peers,
        .lid = verbs->port.lid,
        .link_layer = verbs->port.link_layer,
        .mtu = (uint8_t)verbs->mtu,
        .reads = least_reads(verbs->device.max_qp_rd_atom),
    };
    char *to = blob;

    memset(blob, 0, tu_verbs_address_bytes(transport));
    memcpy(address.gid, verbs->port.gid.raw, sizeof address.gid);
    memcpy(to, &address, sizeof address);
    for (uint32_t i = 0; i < verbs->max_peers; i++) {
        struct pair_address pair = {.rank = UINT32_MAX};

        if (i < verbs->peers)
            pair = (struct pair_address){.rank = verbs->peer[i].rank,
                                         .number = verbs->peer[i].qp->qp_num,
                                         .psn = verbs->peer[i].psn};
        memcpy(to + sizeof address + i * sizeof pair, &pair, sizeof pair);
    }
    return TUTTI_OK;
}

/* ---- from queue pair numbers to peers ------------------------------------------------------- */

static uint32_t home(const struct tu_verbs *verbs, uint32_t number) {
    return number * 2654435769u >> 7 & (verbs->slots - 1);
}

static tutti_status make_table(struct tu_verbs *verbs) {
    void *memory;
    tutti_status status;

    verbs->slots = 4;
    while (verbs->slots < 2 * verbs->peers)
        verbs->slots *= 2;
    status = tu_alloc_for(verbs->env, "the table of queue pairs", 64, verbs->slots,
                          sizeof *verbs->by_number, &memory);
    if (status)
        return status;
    verbs->by_number = memory;
    return TUTTI_OK;
}

static void enter(struct tu_verbs *verbs, uint32_t peer) {
    uint32_t slot = home(verbs, verbs->peer[peer].qp->qp_num);

    while (verbs->by_number[slot])
        slot = (slot + 1) & (verbs->slots - 1);
    verbs->by_number[slot] = peer + 1;
}

uint32_t tu_verbs_peer_of(const struct tu_verbs *verbs, uint32_t number) {
    uint32_t slot = home(verbs, number);

    for (; verbs->by_number[slot]; slot = (slot + 1) & (verbs->slots - 1)) {
        uint32_t peer = verbs->by_number[slot] - 1;

        if (verbs->peer[peer].qp->qp_num == number)
            return peer;
    }
    return UINT32_MAX;
}

/* ---- made, and INIT ------------------------------------------------------------------------- */

static struct ibv_qp *create(struct tu_verbs *verbs, uint32_t inline_bytes, uint32_t *got) {
    struct ibv_qp_init_attr attr = {
        .send_cq = verbs->cq,
        .recv_cq = verbs->cq,
        .srq = verbs->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = verbs->sizes.send_depth,
                .max_send_sge = 1,
                .max_inline_data = inline_bytes},
    };
    struct ibv_qp *qp = ibv_create_qp(verbs->pd, &attr);

    if (qp)
        *got = attr.cap.max_inline_data;
    return qp;
}

/*
 * Some devices give less inline room than asked, others refuse: then half as much is asked, down to
 * none, which settles what all later queue pairs ask for.
 */
static struct ibv_qp *create_fitting(struct tu_verbs *verbs) {
    struct ibv_qp *qp;
    uint32_t got = 0;

    while (!(qp = create(verbs, verbs->limits.inline_bytes, &got)) && verbs->limits.inline_bytes)
        verbs->limits.inline_bytes /= 2;
    if (verbs->inline_bytes > verbs->limits.inline_bytes)
        verbs->inline_bytes = verbs->limits.inline_bytes;
    if (verbs->inline_bytes > got)
        verbs->inline_bytes = got;
    return qp;
}

static int to_init(struct tu_verbs *verbs, struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = (uint8_t)verbs->port.port,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static tutti_status make_pair(struct tu_verbs *verbs, uint32_t index) {
    struct tu_verbs_peer *peer = &verbs->peer[index];
    int error;

    peer->qp = create_fitting(verbs);
    if (!peer->qp)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, errno,
                             "making queue pair %u of %u (%u requests each) on %s, which has at "
                             "most %d",
                             index + 1, verbs->peers, verbs->sizes.send_depth, verbs->port.device,
                             verbs->device.max_qp);
    error = to_init(verbs, peer->qp);
    if (error)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, error,
                             "taking a queue pair of %s port %d to INIT", verbs->port.device,
                             verbs->port.port);
    /* Random, so that packets of an earlier owner of the number do not fit. */
    if (getrandom(&peer->psn, sizeof peer->psn, GRND_NONBLOCK) != (ssize_t)sizeof peer->psn)
        peer->psn = peer->qp->qp_num * 2654435769u;
    peer->psn &= 0xffffff;
    enter(verbs, index);
    return TUTTI_OK;
}

tutti_status tu_verbs_make_pairs(struct tu_verbs *verbs) {
    tutti_status status = make_table(verbs);

    verbs->inline_bytes = verbs->limits.inline_bytes;
    for (uint32_t i = 0; status == TUTTI_OK && i < verbs->peers; i++)
        status = make_pair(verbs, i);
    return status;
}

void tu_verbs_drop_pairs(struct tu_verbs *verbs) {
    for (uint32_t i = 0; i < verbs->peers; i++)
        if (verbs->peer[i].qp)
            ibv_destroy_qp(verbs->peer[i].qp);
    free(verbs->by_number);
}

/* ---- connecting: RTR and RTS ---------------------------------------------------------------- */

static struct ibv_ah_attr route(const struct tu_verbs *verbs, const struct address *to) {
    struct ibv_ah_attr attr = {
        .dlid = to->lid,
        .port_num = (uint8_t)verbs->port.port,
        .grh = {.sgid_index = (uint8_t)verbs->port.gid_index, .hop_limit = HOP_LIMIT},
    };

    /* RoCE always routes by GID, InfiniBand only into another subnet (the first half of the GID). */
    attr.is_global = verbs->port.link_layer == IBV_LINK_LAYER_ETHERNET ||
                     memcmp(verbs->port.gid.raw, to->gid, 8) != 0;
    memcpy(attr.grh.dgid.raw, to->gid, sizeof to->gid);
    return attr;
}

static int to_rtr(struct tu_verbs *verbs, struct ibv_qp *qp, const struct address *to,
                  const struct pair_address *pair) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = to->mtu < verbs->mtu ? to->mtu : verbs->mtu,
        .dest_qp_num = pair->number,
        .rq_psn = pair->psn,
        .max_dest_rd_atomic = least_reads(verbs->device.max_qp_rd_atom),
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = route(verbs, to),
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct tu_verbs *verbs, const struct tu_verbs_peer *peer,
                  const struct address *to) {
    const struct tu_config *config = &verbs->env->config;
    uint8_t own_reads = least_reads(verbs->device.max_qp_init_rd_atom);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t)config->ack_timeout,
        .retry_cnt =
            (uint8_t)(config->retry_count < MAX_RETRIES ? config->retry_count : MAX_RETRIES),
        .rnr_retry = RNR_RETRIES,
        .sq_psn = peer->psn,
        .max_rd_atomic = to->reads < own_reads ? to->reads : own_reads,
    };

    return ibv_modify_qp(peer->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Place of the peer's queue pair for this rank in its blob; UINT32_MAX if there is none. */
static uint32_t find_pair(const struct tu_verbs *verbs, const void *blob,
                          const struct address *address, struct pair_address *pair) {
    const char *from = (const char *)blob + sizeof *address;

    for (uint32_t i = 0; i < address->pairs; i++) {
        memcpy(pair, from + i * sizeof *pair, sizeof *pair);
        if (pair->rank == verbs->rank)
            return i;
    }
    return UINT32_MAX;
}

static tutti_status check_blob(struct tu_verbs *verbs, const struct tu_verbs_peer *peer,
                               const struct address *address) {
    if (address->rank != peer->rank || address->pairs != verbs->max_peers)
        return tu_fail(verbs->env, TUTTI_ERR_INTERNAL,
                       "the verbs address of rank %u (host %s) is that of rank %u with %u peers, "
                       "not %u",
                       peer->rank, peer->host, address->rank, address->pairs, verbs->max_peers);
    if (address->link_layer != verbs->port.link_layer || address->gid_type != verbs->port.gid_type)
        return tu_fail(verbs->env, TUTTI_ERR_UNREACHABLE,
                       "rank %u (host %s) uses %s (%s), this rank %s (%s) on %s: set TUTTI_DEVICE "
                       "and TUTTI_GID_INDEX so that they are the same",
                       peer->rank, peer->host, tu_verbs_link_name(address->link_layer),
                       tu_verbs_gid_type_name(address->gid_type),
                       tu_verbs_link_name(verbs->port.link_layer),
                       tu_verbs_gid_type_name(verbs->port.gid_type), verbs->port.device);
    return TUTTI_OK;
}

tutti_status tu_verbs_connect(struct tu_transport *transport, uint32_t index, const void *blob) {
    struct tu_verbs *verbs = tu_verbs_of(transport);
    struct tu_verbs_peer *peer = &verbs->peer[index];
    struct address address;
    struct pair_address pair;
    char gid[INET6_ADDRSTRLEN];
    tutti_status status;
    uint32_t place;
    int error;

    memcpy(&address, blob, sizeof address);
    status = check_blob(verbs, peer, &address);
    if (status)
        return status;
    place = find_pair(verbs, blob, &address, &pair);
    if (place == UINT32_MAX)
        return tu_fail(verbs->env, TUTTI_ERR_INTERNAL,
                       "rank %u (host %s) has no queue pair for this rank", peer->rank, peer->host);
    error = to_rtr(verbs, peer->qp, &address, &pair);
    if (!error)
        error = to_rts(verbs, peer, &address);
    if (error)
        return tu_fail_errno(verbs->env, TUTTI_ERR_UNREACHABLE, error,
                             "no way from %s port %d to rank %u (host %s, GID %s, LID %u); the "
                             "usual suspect is a GID of another network: TUTTI_GID_INDEX",
                             verbs->port.device, verbs->port.port, peer->rank, peer->host,
                             inet_ntop(AF_INET6, address.gid, gid, sizeof gid), address.lid);
    peer->address = address.window;
    peer->window_bytes = address.window_bytes;
    peer->rkey = address.rkey;
    peer->credit_address = address.credit + place * sizeof(uint64_t);
    peer->credit_rkey = address.credit_rkey;
    peer->allowed = address.allowance;
    peer->state = TU_VERBS_CONNECTED;
    return TUTTI_OK;
}
