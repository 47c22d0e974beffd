/*
 * One suite over the transport contract (transport/transport.h). A program of it is the suite's files
 * plus one that defines `conformance_subject`: the transport, and what it promises beyond the minimum.
 * All endpoints live in one process and one thread; the suite carries their addresses by memory and
 * polls them in random order.
 */
#ifndef TU_TESTS_CONFORMANCE_H
#define TU_TESTS_CONFORMANCE_H

#include "runtime/env.h"
#include "transport/line.h"
#include "transport/transport.h"

struct conformance_subject {
    const char *name;
    const struct tu_transport_ops *ops;

    /* What the endpoints of one test share: given to all of them as params.context. May be NULL. */
    void *(*begin)(uint32_t endpoints);
    void (*end)(void *world);
    void (*configure)(struct tu_config *config, uint32_t rank);

    bool mapped;               /* give each endpoint the addresses of its peers' windows */
    bool checks_connect;       /* sending before connect is an error, not the caller's fault */
    bool finds_loss;           /* a closed peer is noticed */
    bool sleeps;               /* arm gives a file descriptor */
    uint32_t send_depth;       /* requests under way per peer, then TU_AGAIN; 0: no such queue */
    uint64_t (*starved)(void); /* how often a message found no receive entry, ever; may be NULL */
};
extern const struct conformance_subject conformance_subject;

/* ---- windows: one area per peer for small things, then data to send, then data that came ------ */

enum {
    WINDOW_BYTES = 4 << 20,
    AREA_BYTES = 16 << 10, /* of one peer, by its index here */
    LINES_AT = 0,          /* LINES line cells */
    LINES = 64,
    MARKS_AT = LINES * TU_LINE_STRIDE, /* lines that follow writes, where there is no immediate */
    MARKS = 4,
    CELLS_AT = MARKS_AT + MARKS * TU_LINE_STRIDE, /* CELLS cells of 8 bytes */
    CELLS = 64,
    OUT_AT = 1 << 20, /* both a little longer than OUT_BYTES */
    IN_AT = OUT_AT + (3 << 19),
    DATA_BYTES = 1 << 20,
    SLOTS_PER_PEER = 8,
    MAX_ENDPOINTS = 4,
};
_Static_assert(CELLS_AT + CELLS * 8 <= AREA_BYTES, "an area");
_Static_assert(MAX_ENDPOINTS *AREA_BYTES <= OUT_AT, "areas");
_Static_assert(IN_AT + DATA_BYTES <= WINDOW_BYTES, "a window");

struct party;

/* How an endpoint sees one of its peers. */
struct link {
    uint32_t rank;
    uint32_t there;   /* this endpoint's index in the peer's list: its area is number `there` */
    uint32_t sent;    /* writes */
    uint32_t arrived; /* writes of the peer */
    uint32_t mark;    /* immediate of the last one */
    int lost;
};

struct endpoint {
    struct party *party;
    struct tu_transport *transport; /* NULL: closed */
    struct tu_transport_caps caps;
    struct tu_env env;
    struct tu_counters counters;
    uint8_t *window;
    uint32_t rank, peers;
    struct link link[MAX_ENDPOINTS];
    char why[600];     /* of the last loss */
    char logged[1200]; /* the last line of the log */
};

struct party {
    uint32_t n;
    struct endpoint endpoint[MAX_ENDPOINTS];
    void *world;
    uint64_t random;
    uint64_t deadline_ns;
    bool loses; /* the test means to lose a peer */
    /* called at each arrival of a write, at once; may be NULL */
    void (*on_arrival)(struct endpoint *endpoint, uint32_t peer, uint32_t mark);
    void *context;
};

/* A party of n: opened, or opened and connected. Failures fail the test. */
struct party *party_open(uint32_t n);
struct party *party_connected(uint32_t n);
void party_close(struct party *party);

/* The parts of it, for tests that stop half way. */
struct party *party_make(uint32_t n);
tutti_status endpoint_open(struct endpoint *endpoint);
void endpoint_connect(struct endpoint *endpoint, uint32_t peer);
void endpoint_close(struct endpoint *endpoint);

/* Polls everybody in random order. Fails the test when its time is over. */
void party_turn(struct party *party);

/* Nothing is under way any more. */
void party_drain(struct party *party);

uint32_t party_random(struct party *party, uint32_t below);

/* Index of rank `rank` among the peers of `of`. */
uint32_t peer_index(const struct endpoint *of, uint32_t rank);

/* Offset of my area in the window of that peer; and of its area in mine. */
uint64_t area_there(const struct endpoint *endpoint, uint32_t peer);
uint8_t *area_here(const struct endpoint *endpoint, uint32_t peer);

/* The same calls as the contract's, repeated until they do not return TU_AGAIN. */
void send_line(struct endpoint *from, uint32_t peer, uint32_t cell, struct tu_line_header header,
               const void *payload, size_t bytes);
void send_cell(struct endpoint *from, uint32_t peer, uint32_t cell, uint64_t value);

/*
 * A write that announces itself: with an immediate, or followed by a line. The arrival is counted in
 * the peer's link either way.
 */
void send_write(struct endpoint *from, uint32_t peer, uint64_t source, uint64_t target,
                size_t bytes, uint32_t mark);

/* Fills memory with, or compares it to, bytes that depend on the seed. */
void fill(void *memory, size_t bytes, uint32_t seed);
bool is_filled(const void *memory, size_t bytes, uint32_t seed);

#endif
