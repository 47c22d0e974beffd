/*
 * The transport contract. A transport moves bytes into the windows of its peers. It knows peers by
 * index, windows by offset; it knows nothing of comms, plans or ranks' order.
 *
 * Rules for all members:
 *   - None blocks, except open, connect and close.
 *   - TU_AGAIN means that nothing happened; the same call may work after a poll.
 *   - A failure of the peer is told once through events->lost (from poll, never from inside another
 *     call); afterwards calls to that peer return TUTTI_ERR_UNREACHABLE and do nothing.
 *   - Data is visible at the target before its arrival is.
 *   - Messages to one peer may arrive in any order, unless a member says otherwise.
 */
#ifndef TU_TRANSPORT_TRANSPORT_H
#define TU_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;
struct tu_transport;

#define TU_AGAIN TUTTI_IN_PROGRESS

/*
 * A line cell: the smallest message, payload and flag together. Its first 8 bytes are the header
 * {fingerprint, flag}; the flag is the number of the use, and a cell has arrived when its flag is the
 * number that the reader waits for (an older one is stale). Two formats, chosen by the writer's
 * transport, known to the reader as it knows its peers:
 *   TU_FORMAT_CACHELINE  header, then up to 56 bytes of payload: one line of the cache. The header is
 *                        stored last, with release order.
 *   TU_FORMAT_WORDS      header, then words of {4 bytes of payload, flag}: each word is stored whole,
 *                        in any order; all of them have arrived when all flags are right.
 * The header has the same layout in both, so a slot may be used now by one, now by the other size of
 * message, and stale words are always older numbers.
 */
enum tu_line_format { TU_FORMAT_CACHELINE, TU_FORMAT_WORDS };
enum { TU_LINE_PAYLOAD = 56, TU_LINE_STRIDE = 128 };
/* Cells of boards, which lie in shared memory, are longer: one header, and payload in up to 10 lines. */
enum { TU_BOARD_PAYLOAD = 632, TU_BOARD_STRIDE = 640 };

struct tu_line_header {
    uint32_t fingerprint;
    uint32_t flag;
};

/* Exact counters of what a job's transports did. */
struct tu_counters {
    uint64_t lines;       /* line cells sent */
    uint64_t writes;      /* eager pieces sent */
    uint64_t cells;       /* credit, announcement and poison cells sent */
    uint64_t bytes;       /* payload of lines, and of writes as transports see them */
    uint64_t requests;    /* work requests posted (verbs) */
    uint64_t doorbells;   /* posts that rang the device */
    uint64_t completions; /* send completions polled */
    uint64_t receives;    /* receive completions polled */
};

/* Upward calls, from poll only. */
struct tu_transport_events {
    void *context;
    /* A write with immediate from this peer is complete and visible. */
    void (*arrived)(void *context, uint32_t peer, uint32_t immediate);
    /* The peer can't be reached any more; everything outstanding on it has ended. */
    void (*lost)(void *context, uint32_t peer, const char *why);
};

struct tu_transport_params {
    struct tu_env *env;
    void *window; /* own window: registered, remotely writable and readable */
    size_t window_bytes;
    uint32_t rank; /* own, for messages and addresses */
    uint32_t peers;
    const uint32_t *peer_rank; /* [peers] ranks of the job, ascending; a peer is an index in here */
    const char *const *peer_host; /* [peers] for messages */
    void *const *peer_window;     /* [peers] mapped window (shm); NULL entries elsewhere */
    struct tu_transport_events events;
    struct tu_counters *counters;
    uint32_t max_peers; /* most peers that any rank of the job has: bounds the address blob */
    /* most writes that one comm has under way to this rank from one peer; far beyond it, a writer may
       get TU_AGAIN until this rank polls */
    uint32_t slots_per_peer;
    void *context; /* for test transports */
};

struct tu_transport_caps {
    enum tu_line_format format;
    bool mapped;            /* peers' windows are in this address space */
    bool immediate;         /* write announces its arrival through events->arrived, else not at all:
                               the writer follows it with a line */
    size_t max_write_bytes; /* of one write */
};

struct tu_transport_ops {
    const char *name;

    /*
     * Local. Makes the device side of everything: contexts, registered window, queues, one endpoint
     * per peer in its initial state. On failure nothing is left behind and *transport is untouched.
     * May block (device commands).
     */
    tutti_status (*open)(const struct tu_transport_params *params, struct tu_transport **transport);

    /* Legal after a partial connect. Everything outstanding is dropped; the window may be freed. */
    void (*close)(struct tu_transport *transport);

    struct tu_transport_caps (*capabilities)(const struct tu_transport *transport);

    /* Size of the address blob: the same on all ranks of a job. 0: nothing to publish. */
    size_t (*address_bytes)(const struct tu_transport *transport);

    /* Fills `blob`, address_bytes long: what peers need for connect. */
    tutti_status (*address)(struct tu_transport *transport, void *blob);

    /*
     * Connects one peer with its blob. Does not talk to the peer. The caller makes sure (fence) that
     * nobody sends before all are connected. May block (device commands).
     */
    tutti_status (*connect)(struct tu_transport *transport, uint32_t peer, const void *blob);

    /*
     * Makes memory of the caller's usable as source of write (and later as its target).
     * *key stays valid until deregister.
     */
    tutti_status (*register_memory)(struct tu_transport *transport, void *base, size_t bytes,
                                    uint64_t *key);
    void (*deregister_memory)(struct tu_transport *transport, uint64_t key);

    /*
     * Sends a line cell to offset `to` in the peer's window (a multiple of 64). The payload (at most
     * TU_LINE_PAYLOAD bytes, its address in any alignment) may be overwritten on return.
     */
    tutti_status (*line)(struct tu_transport *transport, uint32_t peer, uint64_t to,
                         struct tu_line_header header, const void *payload, size_t bytes);

    /*
     * Sends `bytes` from offset `from` of the own window to offset `to` of the peer's. The source
     * must not change until the peer has consumed the message. With caps.immediate, the peer's
     * events->arrived gets `immediate` once all of it is visible there. Writes to one peer arrive
     * in order.
     */
    tutti_status (*write)(struct tu_transport *transport, uint32_t peer, uint64_t from, uint64_t to,
                          size_t bytes, uint32_t immediate);

    /* Stores one aligned 8-byte cell in the peer's window. Cells to one address arrive in order. */
    tutti_status (*cell)(struct tu_transport *transport, uint32_t peer, uint64_t to,
                         uint64_t value);

    /*
     * Fetches bytes of the peer's window into offset `to` of the own one, without the peer's help.
     * *done is set to 1 (from poll, or at once) when they are there, to -1 if it failed. Not atomic.
     */
    tutti_status (*read)(struct tu_transport *transport, uint32_t peer, uint64_t from, uint64_t to,
                         size_t bytes, int *done);

    /* Handles completions and arrivals; returns how many. Must be called for anything to end. */
    int (*poll)(struct tu_transport *transport);

    /* True when nothing that was sent to a reachable peer is outstanding. */
    bool (*drained)(struct tu_transport *transport);

    /*
     * For sleeping: arm asks for an event on *fd (-1: none) with the next arrival that makes one;
     * the caller polls once more before it sleeps. wake takes the event back.
     */
    tutti_status (*arm)(struct tu_transport *transport, int *fd);
    void (*wake)(struct tu_transport *transport);
};

/* Common head of the transports' own structs. */
struct tu_transport {
    const struct tu_transport_ops *ops;
};

/* Complete tables. */
extern const struct tu_transport_ops tu_transport_shm;
extern const struct tu_transport_ops tu_transport_verbs;

/* Members for transports that have nothing to do there: no address to publish, nothing to
   register, everything sent is there, and no event to sleep on. */
size_t tu_no_address_bytes(const struct tu_transport *transport);
tutti_status tu_no_address(struct tu_transport *transport, void *blob);
tutti_status tu_no_register(struct tu_transport *transport, void *base, size_t bytes,
                            uint64_t *key);
void tu_no_deregister(struct tu_transport *transport, uint64_t key);
bool tu_always_drained(struct tu_transport *transport);
tutti_status tu_no_arm(struct tu_transport *transport, int *fd);
void tu_no_wake(struct tu_transport *transport);

#endif
