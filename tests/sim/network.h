/*
 * The simulated network behind the transport "sim": every request of an endpoint becomes a message,
 * and every message a few events with random delays, in virtual time. It is as unhelpful as the
 * transport contract allows:
 *   - the words of a line land one by one, in any order;
 *   - a write lands in pieces, each of which reads the source only then; its arrival comes after the
 *     last one, and after those of earlier writes to the same peer;
 *   - cells land apart from data, in order only to one address of one peer;
 *   - requests are refused at random, when the queue is full, and when the target does not poll;
 *   - a rank that is cut off, or whose endpoint has closed, is noticed by those who send to it.
 * Time passes in every call, so that memory changes under the hands of those who look at it.
 */
#ifndef TU_TESTS_SIM_NETWORK_H
#define TU_TESTS_SIM_NETWORK_H

#include "transport/transport.h"

/* How the network behaves. Delays are means. */
struct sim_profile {
    uint32_t word_ns, data_ns, cell_ns, read_ns, done_ns;
    uint32_t slow;    /* of 1024 events: take 16 times as long */
    uint32_t again;   /* of 1024 requests: refused for no reason */
    uint32_t queue;   /* requests under way per peer */
    uint32_t step_ns; /* time that a call takes, at most */
};

enum sim_message_kind { SIM_LINE, SIM_WRITE, SIM_CELL, SIM_READ };

struct sim_message {
    enum sim_message_kind kind;
    uint32_t from, to;               /* ranks */
    uint64_t from_serial, to_serial; /* of their endpoints, which may close and open again */
    uint32_t peer;                   /* index of `to` at `from` */
    uint32_t events;                 /* that still refer to it */
    uint64_t source, target;         /* offsets */
    uint64_t word[16];               /* LINE, CELL */
    uint32_t immediate;
    int *done;                /* READ */
    struct sim_message *next; /* free */
};

enum sim_event_kind { SIM_LAND, SIM_ARRIVE, SIM_FINISH };

struct sim_event {
    uint64_t due, order;
    struct sim_message *message;
    enum sim_event_kind kind;
    uint32_t words;        /* LINE: mask of the words that land */
    uint64_t first, bytes; /* WRITE, READ: the piece that is copied */
};

/* What poll finds. */
struct sim_notice {
    enum sim_event_kind kind; /* ARRIVE or FINISH */
    uint32_t peer, immediate;
    int *done;
};

enum sim_link_state { SIM_OPEN, SIM_CONNECTED, SIM_FAILED, SIM_LOST };

/* An endpoint's way to one peer. */
struct sim_link {
    uint32_t rank;
    char host[64];
    enum sim_link_state state;
    uint64_t serial;    /* of the endpoint that it is connected to */
    uint32_t under_way; /* requests whose end was not polled here yet */
    uint32_t unpolled;  /* writes whose arrival was not polled there yet */
    uint64_t arrival;   /* no write arrives before */
};

enum { SIM_READS = 16 };

struct sim_endpoint {
    struct tu_transport head;
    struct sim_network *network;
    struct tu_env *env;
    uint64_t serial;
    uint32_t rank, peers;
    uint32_t write_limit; /* most unpolled ones per peer */
    uint8_t *window;
    size_t window_bytes;
    struct tu_transport_events events;
    struct tu_counters *counters;
    struct sim_notice *notice; /* [room], of which first .. last are new */
    uint32_t first, last, room;
    struct {
        int *done; /* NULL: none */
        uint32_t peer;
    } read[SIM_READS];
    bool failed; /* some link has failed, which was not told yet */
    struct sim_link link[];
};

enum { SIM_CELL_DUES = 1024 };

struct sim_network {
    struct sim_profile profile;
    uint64_t random;
    uint64_t now_ns;
    uint64_t requests, landed; /* so far: something moves */
    uint32_t ranks;
    struct sim_endpoint **endpoint; /* [ranks] NULL: none is open */
    bool *cut;                      /* [ranks] cut off from all others */
    uint64_t serials, orders;
    struct sim_event *heap; /* by due, then order */
    uint32_t events, room;
    struct sim_message *free;
    uint64_t cell_due[SIM_CELL_DUES]; /* no cell to an address of this hash lands before */
};

/* With a calm profile; put another one into network->profile. */
struct sim_network *sim_network_make(uint32_t ranks, uint64_t seed);
void sim_network_free(struct sim_network *network);

/* Lets time pass. */
void sim_network_pass(struct sim_network *network, uint64_t ns);

/* When the next event is due; UINT64_MAX: there is none. */
uint64_t sim_network_next(const struct sim_network *network);

/* From now on nothing gets to or from this rank; those who try learn that it is lost. */
void sim_network_cut(struct sim_network *network, uint32_t rank);

/* The transport; params.context is the network. */
extern const struct tu_transport_ops sim_transport;

/* ---- between network.c and sim_transport.c ---- */

struct sim_message *sim_message_new(struct sim_endpoint *from, uint32_t peer,
                                    enum sim_message_kind kind);

/* Sends a complete message: `bytes` of data (WRITE, READ), or so many words (LINE, CELL). */
void sim_message_send(struct sim_endpoint *from, struct sim_message *message, uint64_t bytes);

#endif
