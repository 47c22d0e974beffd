/* The simulated network: messages, their events, and what happens when these are due. */
#include "tests/sim/network.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/random.h"

/* ---- the heap of events ---- */

static bool before(const struct sim_event *a, const struct sim_event *b) {
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void push(struct sim_network *network, struct sim_event event) {
    if (network->events == network->room) {
        network->room = network->room ? 2 * network->room : 256;
        network->heap = realloc(network->heap, network->room * sizeof *network->heap);
        assert(network->heap);
    }
    event.order = network->orders++;
    uint32_t at = network->events++;
    while (at > 0 && before(&event, &network->heap[(at - 1) / 2])) {
        network->heap[at] = network->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    network->heap[at] = event;
}

static struct sim_event pop(struct sim_network *network) {
    struct sim_event first = network->heap[0], last = network->heap[--network->events];
    uint32_t at = 0;

    for (uint32_t child = 1; child < network->events; child = 2 * at + 1) {
        if (child + 1 < network->events && before(&network->heap[child + 1], &network->heap[child]))
            child++;
        if (!before(&network->heap[child], &last))
            break;
        network->heap[at] = network->heap[child];
        at = child;
    }
    network->heap[at] = last;
    return first;
}

/* ---- life ---- */

struct sim_network *sim_network_make(uint32_t ranks, uint64_t seed) {
    struct sim_network *network = calloc(1, sizeof *network);

    assert(network);
    network->random = seed;
    network->ranks = ranks;
    network->endpoint = calloc(ranks, sizeof(struct sim_endpoint *));
    network->cut = calloc(ranks, sizeof *network->cut);
    assert(network->endpoint && network->cut);
    network->profile = (struct sim_profile){.word_ns = 1000,
                                            .data_ns = 3000,
                                            .cell_ns = 1000,
                                            .read_ns = 2000,
                                            .done_ns = 1000,
                                            .queue = 64,
                                            .step_ns = 500};
    return network;
}

static void message_free(struct sim_network *network, struct sim_message *message) {
    message->next = network->free;
    network->free = message;
}

void sim_network_free(struct sim_network *network) {
    while (network->events) {
        struct sim_event event = pop(network);
        if (--event.message->events == 0)
            message_free(network, event.message);
    }
    while (network->free) {
        struct sim_message *message = network->free;
        network->free = message->next;
        free(message);
    }
    free(network->heap);
    free(network->endpoint);
    free(network->cut);
    free(network);
}

void sim_network_cut(struct sim_network *network, uint32_t rank) {
    network->cut[rank] = true;
}

uint64_t sim_network_next(const struct sim_network *network) {
    return network->events ? network->heap[0].due : UINT64_MAX;
}

/* ---- sending ---- */

static uint64_t delay(struct sim_network *network, uint32_t mean_ns) {
    uint64_t ns = sim_below(&network->random, 2 * mean_ns + 1);
    return sim_chance(&network->random, network->profile.slow) ? 16 * ns : ns;
}

struct sim_message *sim_message_new(struct sim_endpoint *from, uint32_t peer,
                                    enum sim_message_kind kind) {
    struct sim_network *network = from->network;
    struct sim_message *message = network->free;

    if (message)
        network->free = message->next;
    else
        message = malloc(sizeof *message);
    assert(message);
    *message = (struct sim_message){.kind = kind,
                                    .from = from->rank,
                                    .to = from->link[peer].rank,
                                    .from_serial = from->serial,
                                    .to_serial = from->link[peer].serial,
                                    .peer = peer};
    return message;
}

static uint64_t add(struct sim_network *network, struct sim_event event, uint64_t due) {
    event.due = due;
    event.message->events++;
    push(network, event);
    return due;
}

/* Words land in groups: one by one, or a few at a time. Returns when the last one has. */
static uint64_t send_words(struct sim_network *network, struct sim_message *message,
                           uint32_t words) {
    uint32_t groups =
        sim_chance(&network->random, 256) ? words : 1 + sim_below(&network->random, 3);
    uint32_t mask[16] = {0};
    uint64_t end = network->now_ns;

    for (uint32_t i = 0; i < words; i++)
        mask[sim_below(&network->random, groups)] |= 1u << i;
    for (uint32_t i = 0; i < groups; i++) {
        struct sim_event event = {.message = message, .kind = SIM_LAND, .words = mask[i]};
        uint64_t due = network->now_ns + delay(network, network->profile.word_ns);
        if (mask[i] && add(network, event, due) > end)
            end = due;
    }
    return end;
}

static uint64_t send_pieces(struct sim_network *network, struct sim_message *message,
                            uint64_t bytes, uint32_t mean_ns) {
    uint64_t end = network->now_ns, unit = message->kind == SIM_READ ? 8 : 1;

    for (uint64_t first = 0, piece; first < bytes; first += piece) {
        piece = bytes - first;
        if (sim_chance(&network->random, 768))
            piece = (1 + sim_random(&network->random) % piece + unit - 1) / unit * unit;
        piece = piece < bytes - first ? piece : bytes - first;
        struct sim_event event = {
            .message = message, .kind = SIM_LAND, .first = first, .bytes = piece};
        uint64_t due = network->now_ns + delay(network, mean_ns);
        if (add(network, event, due) > end)
            end = due;
    }
    return end;
}

static uint64_t send_cell(struct sim_network *network, struct sim_message *message) {
    uint64_t key = message->target ^ (uint64_t)message->from << 40 ^ (uint64_t)message->to << 50;
    uint64_t *least = &network->cell_due[sim_stream(key, 1) % SIM_CELL_DUES];
    uint64_t due = network->now_ns + delay(network, network->profile.cell_ns);

    *least = due > *least ? due : *least;
    return add(network, (struct sim_event){.message = message, .kind = SIM_LAND, .words = 1},
               *least);
}

void sim_message_send(struct sim_endpoint *from, struct sim_message *message, uint64_t bytes) {
    struct sim_network *network = from->network;
    struct sim_link *link = &from->link[message->peer];
    const struct sim_profile *profile = &network->profile;
    uint64_t end = 0;

    switch (message->kind) {
    case SIM_LINE:
        end = send_words(network, message, (uint32_t)bytes);
        break;
    case SIM_WRITE:
        end = send_pieces(network, message, bytes, profile->data_ns);
        end = link->arrival = end > link->arrival ? end : link->arrival;
        add(network, (struct sim_event){.message = message, .kind = SIM_ARRIVE}, end);
        link->unpolled++;
        break;
    case SIM_CELL:
        end = send_cell(network, message);
        break;
    case SIM_READ:
        end = send_pieces(network, message, bytes, profile->read_ns);
        break;
    }
    add(network, (struct sim_event){.message = message, .kind = SIM_FINISH},
        end + delay(network, profile->done_ns));
    link->under_way++;
    network->requests++;
}

/* ---- what happens ---- */

/* The endpoint with this number, or NULL if it has closed. */
static struct sim_endpoint *endpoint_at(const struct sim_network *network, uint32_t rank,
                                        uint64_t serial) {
    struct sim_endpoint *endpoint = network->endpoint[rank];
    return endpoint && endpoint->serial == serial ? endpoint : NULL;
}

/* Words whole, everything else as it comes: nobody may look at it yet. */
static void land(const struct sim_event *event, struct sim_endpoint *from,
                 struct sim_endpoint *to) {
    const struct sim_message *message = event->message;
    _Atomic uint64_t *word = (void *)(to->window + message->target);

    switch (message->kind) {
    case SIM_LINE:
    case SIM_CELL:
        for (uint32_t i = 0; i < 16; i++)
            if (event->words >> i & 1)
                atomic_store_explicit(&word[i], message->word[i], memory_order_release);
        break;
    case SIM_WRITE:
        memcpy(to->window + message->target + event->first,
               from->window + message->source + event->first, event->bytes);
        break;
    case SIM_READ:
        memcpy(from->window + message->target + event->first,
               to->window + message->source + event->first, event->bytes);
        break;
    }
}

static void notify(struct sim_endpoint *endpoint, struct sim_notice notice) {
    if (endpoint->last == endpoint->room) {
        uint32_t left = endpoint->last - endpoint->first;
        if (endpoint->first == 0 || left > endpoint->room / 2) {
            endpoint->room = endpoint->room ? 2 * endpoint->room : 64;
            endpoint->notice = realloc(endpoint->notice, endpoint->room * sizeof notice);
            assert(endpoint->notice);
        }
        memmove(endpoint->notice, endpoint->notice + endpoint->first, left * sizeof notice);
        endpoint->first = 0;
        endpoint->last = left;
    }
    endpoint->notice[endpoint->last++] = notice;
}

static void arrive(const struct sim_message *message, struct sim_endpoint *to) {
    for (uint32_t peer = 0; peer < to->peers; peer++)
        if (to->link[peer].rank == message->from && to->link[peer].serial == message->from_serial)
            notify(to, (struct sim_notice){
                           .kind = SIM_ARRIVE, .peer = peer, .immediate = message->immediate});
}

static void happen(struct sim_network *network, const struct sim_event *event) {
    const struct sim_message *message = event->message;
    struct sim_endpoint *from = endpoint_at(network, message->from, message->from_serial);
    struct sim_endpoint *to = endpoint_at(network, message->to, message->to_serial);

    if (!from || from->link[message->peer].state != SIM_CONNECTED)
        return;
    if (!to || network->cut[message->from] || network->cut[message->to]) {
        from->link[message->peer].state = SIM_FAILED;
        from->failed = true;
    } else if (event->kind == SIM_LAND) {
        land(event, from, to);
    } else if (event->kind == SIM_ARRIVE) {
        arrive(message, to);
    } else {
        notify(from, (struct sim_notice){
                         .kind = SIM_FINISH, .peer = message->peer, .done = message->done});
    }
}

void sim_network_pass(struct sim_network *network, uint64_t ns) {
    network->now_ns += ns;
    while (network->events && network->heap[0].due <= network->now_ns) {
        struct sim_event event = pop(network);
        happen(network, &event);
        network->landed++;
        if (--event.message->events == 0)
            message_free(network, event.message);
    }
}
