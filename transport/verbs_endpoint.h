/*
 * What the rooms of the verbs transport share: one struct for the device side, one per peer.
 *
 * Send side. Every work request of a peer has a number, `posted` counts them, and a completion with
 * number s says that all up to s are done: `retired` becomes s. A request is signalled when half a
 * queue has gone by without one, so that at most half of a full queue is silent and polling always
 * frees the other half.
 */
#ifndef TU_TRANSPORT_VERBS_ENDPOINT_H
#define TU_TRANSPORT_VERBS_ENDPOINT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/line.h"
#include "transport/transport.h"
#include "transport/verbs.h"
#include "transport/verbs_device.h"

enum {
    TU_VERBS_LINE_BYTES = TU_LINE_WORDS * 8, /* longest line on the wire */
    TU_VERBS_STAGE_BYTES = 128,              /* stride of staged lines */
    TU_VERBS_READS = 16,                     /* reads under way per peer */
    TU_VERBS_PIECES = 16,                    /* work requests of one long message */
    TU_VERBS_BATCH = 32,                     /* completions polled at once */
    TU_VERBS_MIN_DEPTH = 8,
};

/* wr_id of receive entries; those of sends are tu_verbs_id(). */
#define TU_VERBS_RECEIVE UINT64_MAX

enum tu_verbs_state {
    TU_VERBS_UNCONNECTED,
    TU_VERBS_CONNECTED,
    TU_VERBS_FAILED, /* found inside a call; poll will tell */
    TU_VERBS_LOST,   /* told */
};

struct tu_verbs_read {
    uint32_t number; /* of its last work request */
    int *done;
};

struct tu_verbs_peer {
    struct ibv_qp *qp;
    enum tu_verbs_state state;
    uint32_t posted, retired;
    uint32_t silent;           /* posted since the last signalled one */
    uint32_t written, allowed; /* writes to the peer; how far they may be ahead of its credit */
    uint32_t received, told;   /* writes of the peer; how many it was told of */
    uint32_t rkey;             /* of the peer's window */
    uint64_t address;          /* of the peer's window, over there */
    uint64_t window_bytes;
    uint64_t credit_address; /* of my cell among the peer's credits */
    uint32_t credit_rkey;
    char *stage; /* send_depth cells of TU_VERBS_STAGE_BYTES, if lines do not fit inline */
    struct tu_verbs_read read[TU_VERBS_READS]; /* ring, in order of number */
    uint32_t reads_begun, reads_ended;
    uint32_t rank;
    uint32_t psn;   /* first packet number of my sends */
    int post_error; /* TU_VERBS_FAILED: errno of the post that failed */
    char host[64];
};

/* Registered memory of the caller's; its address is the key. */
struct tu_verbs_memory {
    struct ibv_mr *mr;
    struct tu_verbs_memory *next, **link; /* *link points here */
};

/* How large queues are, see tu_verbs_plan(). */
struct tu_verbs_sizes {
    uint32_t send_depth; /* a power of two */
    uint32_t receives;
    uint32_t completions;
};

struct tu_verbs {
    struct tu_transport head;
    struct tu_env *env;
    struct tu_counters *counters;
    struct tu_transport_events events;
    char *window;
    size_t window_bytes;
    uint32_t rank, peers, max_peers;

    struct ibv_context *context;
    struct ibv_device_attr device;
    struct tu_verbs_port port;
    enum ibv_mtu mtu; /* the port's, or less by TUTTI_MTU */
    struct ibv_pd *pd;
    struct ibv_mr *window_mr, *stage_mr, *credit_mr;
    _Atomic uint64_t *credit; /* [peers] written by the peers: my writes that they have polled */
    char *stage;
    struct tu_verbs_memory *memory;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    bool armed;
    bool untold; /* a credit is due that could not be sent */

    struct tu_verbs_limits limits;
    struct tu_verbs_sizes sizes;
    uint32_t inline_bytes; /* what every queue pair has */
    uint32_t allowance;    /* writes that a peer may be ahead of what it was told */
    uint32_t failed;       /* peers in TU_VERBS_FAILED */
    struct ibv_recv_wr receive[TU_VERBS_BATCH]; /* a chain, for reposting */
    uint32_t slots;                             /* of `by_number`, a power of two */
    uint32_t *by_number; /* queue pair number -> peer + 1, 0: free; open addressing */
    struct tu_verbs_peer peer[];
};

static inline struct tu_verbs *tu_verbs_of(struct tu_transport *transport) {
    return (struct tu_verbs *)transport;
}

static inline uint64_t tu_verbs_id(uint32_t peer, uint32_t number) {
    return (uint64_t)peer << 32 | number;
}

/* ---- verbs_open.c, verbs_queues.c, verbs_memory.c -------------------------------------------- */

/*
 * Sizes for so many peers and receive entries within what the device has: the completion queue holds
 * a completion of every request that can be under way (on errors silent ones complete too) and of
 * every receive entry. Pure.
 */
tutti_status tu_verbs_plan(struct tu_env *env, const struct ibv_device_attr *device,
                           const char *name, uint32_t peers, uint32_t allowance,
                           uint32_t send_depth, struct tu_verbs_sizes *sizes);

/* Completion queue with its channel, shared receive queue with all entries posted. */
tutti_status tu_verbs_make_queues(struct tu_verbs *verbs);

/* Posts n receive entries. Returns 0 or errno. */
int tu_verbs_post_receives(struct tu_verbs *verbs, uint32_t n);

tutti_status tu_verbs_add_region(struct tu_verbs *verbs, const char *what, void *base, size_t bytes,
                                 int access, struct ibv_mr **mr);
tutti_status tu_verbs_register_window(struct tu_verbs *verbs);

/* If lines do not fit inline: registered cells that they are sent from, one per request. */
tutti_status tu_verbs_make_stage(struct tu_verbs *verbs);

tutti_status tu_verbs_register(struct tu_transport *transport, void *base, size_t bytes,
                               uint64_t *key);
void tu_verbs_deregister(struct tu_transport *transport, uint64_t key);
void tu_verbs_drop_memory(struct tu_verbs *verbs);

/* ---- verbs_qp.c ------------------------------------------------------------------------------ */

/* Makes the queue pairs of all peers, in INIT, and the way from their numbers to peers. */
tutti_status tu_verbs_make_pairs(struct tu_verbs *verbs);
void tu_verbs_drop_pairs(struct tu_verbs *verbs);

/* The peer of a queue pair number; UINT32_MAX if there is none. */
uint32_t tu_verbs_peer_of(const struct tu_verbs *verbs, uint32_t number);

size_t tu_verbs_address_bytes(const struct tu_transport *transport);
tutti_status tu_verbs_address(struct tu_transport *transport, void *blob);
tutti_status tu_verbs_connect(struct tu_transport *transport, uint32_t index, const void *blob);

/* ---- verbs_credit.c -------------------------------------------------------------------------- */

uint32_t tu_verbs_allowance(uint32_t slots_per_peer);
tutti_status tu_verbs_make_credits(struct tu_verbs *verbs);

/* May one more write with immediate be sent? */
bool tu_verbs_has_credit(struct tu_verbs *verbs, uint32_t index);

/* Sends the peer, or all of them, the credit that is due. */
void tu_verbs_tell(struct tu_verbs *verbs, uint32_t index);
void tu_verbs_tell_all(struct tu_verbs *verbs);

/* ---- verbs_send.c ---------------------------------------------------------------------------- */

/* How many requests a message of so many bytes takes: pieces of the device's longest message. */
uint32_t tu_verbs_pieces(const struct tu_verbs *verbs, size_t bytes);

tutti_status tu_verbs_line(struct tu_transport *transport, uint32_t index, uint64_t to,
                           struct tu_line_header header, const void *payload, size_t bytes);
tutti_status tu_verbs_write(struct tu_transport *transport, uint32_t index, uint64_t from,
                            uint64_t to, size_t bytes, uint32_t immediate);
tutti_status tu_verbs_cell(struct tu_transport *transport, uint32_t index, uint64_t to,
                           uint64_t value);
tutti_status tu_verbs_read(struct tu_transport *transport, uint32_t index, uint64_t from,
                           uint64_t to, size_t bytes, int *done);
/* Stores the count in my cell among the peer's credits. */
tutti_status tu_verbs_post_credit(struct tu_verbs *verbs, uint32_t index, uint32_t count);

bool tu_verbs_drained(struct tu_transport *transport);

/* ---- verbs_poll.c, verbs_lost.c -------------------------------------------------------------- */

int tu_verbs_poll(struct tu_transport *transport);
tutti_status tu_verbs_arm(struct tu_transport *transport, int *fd);
void tu_verbs_wake(struct tu_transport *transport);

/* Everything up to request `number` of the peer is done, with this outcome (1 or -1). */
void tu_verbs_retire(struct tu_verbs_peer *peer, uint32_t number, int outcome);

/* Ends everything outstanding on the peer and tells the caller, unless that has been done. */
void tu_verbs_lose(struct tu_verbs *verbs, uint32_t index, const char *why);

/* Why a completion failed, for people: status, peer, device, usual suspect. */
void tu_verbs_explain(const struct tu_verbs *verbs, uint32_t index, const struct ibv_wc *wc,
                      char *text, size_t bytes);

#endif
