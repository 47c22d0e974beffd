/* The transport "sim": the contract's members over the simulated network. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "transport/line.h"

static struct sim_endpoint *endpoint_of(const struct tu_transport *transport) {
    return (struct sim_endpoint *)(uintptr_t)transport;
}

/* ---- life ---- */

static tutti_status sim_open(const struct tu_transport_params *params,
                             struct tu_transport **transport) {
    struct sim_network *network = params->context;
    struct sim_endpoint *endpoint =
        calloc(1, sizeof *endpoint + params->peers * sizeof endpoint->link[0]);

    assert(network && endpoint && params->rank < network->ranks);
    assert(!network->endpoint[params->rank]);
    endpoint->head.ops = &sim_transport;
    endpoint->network = network;
    endpoint->env = params->env;
    endpoint->serial = ++network->serials;
    endpoint->rank = params->rank;
    endpoint->peers = params->peers;
    endpoint->write_limit = 2 * params->slots_per_peer;
    endpoint->window = params->window;
    endpoint->window_bytes = params->window_bytes;
    endpoint->events = params->events;
    endpoint->counters = params->counters;
    for (uint32_t i = 0; i < params->peers; i++) {
        endpoint->link[i].rank = params->peer_rank[i];
        tu_text_format(endpoint->link[i].host, sizeof endpoint->link[i].host, "%s",
                       params->peer_host[i]);
    }
    network->endpoint[params->rank] = endpoint;
    *transport = &endpoint->head;
    return TUTTI_OK;
}

static void sim_close(struct tu_transport *transport) {
    struct sim_endpoint *endpoint = endpoint_of(transport);

    endpoint->network->endpoint[endpoint->rank] = NULL;
    free(endpoint->notice);
    free(endpoint);
}

static struct tu_transport_caps sim_capabilities(const struct tu_transport *transport) {
    (void)transport;
    return (struct tu_transport_caps){
        .format = TU_FORMAT_WORDS, .immediate = true, .max_write_bytes = SIZE_MAX};
}

static size_t sim_address_bytes(const struct tu_transport *transport) {
    return sizeof endpoint_of(transport)->serial;
}

static tutti_status sim_address(struct tu_transport *transport, void *blob) {
    memcpy(blob, &endpoint_of(transport)->serial, sizeof endpoint_of(transport)->serial);
    return TUTTI_OK;
}

static tutti_status sim_connect(struct tu_transport *transport, uint32_t peer, const void *blob) {
    struct sim_link *link = &endpoint_of(transport)->link[peer];

    memcpy(&link->serial, blob, sizeof link->serial);
    link->state = SIM_CONNECTED;
    return TUTTI_OK;
}

static tutti_status sim_register(struct tu_transport *transport, void *base, size_t bytes,
                                 uint64_t *key) {
    (void)transport, (void)base, (void)bytes;
    *key = 0;
    return TUTTI_OK;
}

static void sim_deregister(struct tu_transport *transport, uint64_t key) {
    (void)transport, (void)key;
}

/* ---- requests ---- */

/* May another request go to that peer now? */
static tutti_status admit(struct sim_endpoint *endpoint, uint32_t peer) {
    struct sim_network *network = endpoint->network;
    struct sim_link *link = &endpoint->link[peer];

    assert(peer < endpoint->peers);
    sim_network_pass(network, sim_below(&network->random, network->profile.step_ns + 1));
    if (link->state == SIM_OPEN)
        return tu_fail(endpoint->env, TUTTI_ERR_INTERNAL, "rank %u is not connected", link->rank);
    if (link->state == SIM_LOST)
        return TUTTI_ERR_UNREACHABLE;
    if (link->under_way >= network->profile.queue ||
        sim_chance(&network->random, network->profile.again))
        return TU_AGAIN;
    return TUTTI_OK;
}

static tutti_status sim_line(struct tu_transport *transport, uint32_t peer, uint64_t to,
                             struct tu_line_header header, const void *payload, size_t bytes) {
    struct sim_endpoint *endpoint = endpoint_of(transport);
    tutti_status status = admit(endpoint, peer);

    if (status)
        return status;
    assert(to % 64 == 0 && to + TU_LINE_STRIDE <= endpoint->window_bytes);
    struct sim_message *message = sim_message_new(endpoint, peer, SIM_LINE);
    message->target = to;
    size_t filled = tu_line_fill_words(message->word, header, payload, bytes);
    sim_message_send(endpoint, message, filled / sizeof message->word[0]);
    endpoint->counters->lines++;
    endpoint->counters->bytes += bytes;
    return TUTTI_OK;
}

static tutti_status sim_write(struct tu_transport *transport, uint32_t peer, uint64_t from,
                              uint64_t to, size_t bytes, uint32_t immediate) {
    struct sim_endpoint *endpoint = endpoint_of(transport);
    tutti_status status = admit(endpoint, peer);

    if (!status && endpoint->link[peer].unpolled >= endpoint->write_limit)
        status = TU_AGAIN;
    if (status)
        return status;
    assert(from + bytes <= endpoint->window_bytes && to + bytes <= endpoint->window_bytes);
    struct sim_message *message = sim_message_new(endpoint, peer, SIM_WRITE);
    message->source = from;
    message->target = to;
    message->immediate = immediate;
    sim_message_send(endpoint, message, bytes);
    endpoint->counters->writes++;
    endpoint->counters->bytes += bytes;
    return TUTTI_OK;
}

static tutti_status sim_cell(struct tu_transport *transport, uint32_t peer, uint64_t to,
                             uint64_t value) {
    struct sim_endpoint *endpoint = endpoint_of(transport);
    tutti_status status = admit(endpoint, peer);

    if (status)
        return status;
    assert(to % 8 == 0 && to + 8 <= endpoint->window_bytes);
    struct sim_message *message = sim_message_new(endpoint, peer, SIM_CELL);
    message->target = to;
    message->word[0] = value;
    sim_message_send(endpoint, message, 1);
    endpoint->counters->cells++;
    return TUTTI_OK;
}

static tutti_status sim_read(struct tu_transport *transport, uint32_t peer, uint64_t from,
                             uint64_t to, size_t bytes, int *done) {
    struct sim_endpoint *endpoint = endpoint_of(transport);
    tutti_status status = admit(endpoint, peer);
    uint32_t place = 0;

    while (place < SIM_READS && endpoint->read[place].done)
        place++;
    if (!status && place == SIM_READS)
        status = TU_AGAIN;
    if (status)
        return status;
    assert(from + bytes <= endpoint->window_bytes && to + bytes <= endpoint->window_bytes);
    struct sim_message *message = sim_message_new(endpoint, peer, SIM_READ);
    message->source = from;
    message->target = to;
    message->done = done;
    endpoint->read[place].done = done;
    endpoint->read[place].peer = peer;
    sim_message_send(endpoint, message, bytes);
    return TUTTI_OK;
}

/* ---- polling ---- */

static void end_read(struct sim_endpoint *endpoint, uint32_t i, int outcome) {
    *endpoint->read[i].done = outcome;
    endpoint->read[i].done = NULL;
}

static void finish(struct sim_endpoint *endpoint, const struct sim_notice *notice) {
    endpoint->link[notice->peer].under_way--;
    for (uint32_t i = 0; notice->done && i < SIM_READS; i++)
        if (endpoint->read[i].done == notice->done)
            end_read(endpoint, i, 1);
}

/* The writer's endpoint has room for another write. */
static void polled(struct sim_endpoint *endpoint, const struct sim_link *link) {
    struct sim_endpoint *writer = endpoint->network->endpoint[link->rank];

    for (uint32_t i = 0; writer && writer->serial == link->serial && i < writer->peers; i++)
        if (writer->link[i].rank == endpoint->rank)
            writer->link[i].unpolled--;
}

static void arrive(struct sim_endpoint *endpoint, const struct sim_notice *notice) {
    polled(endpoint, &endpoint->link[notice->peer]);
    endpoint->counters->receives++;
    endpoint->events.arrived(endpoint->events.context, notice->peer, notice->immediate);
}

static void lose(struct sim_endpoint *endpoint, uint32_t peer) {
    struct sim_link *link = &endpoint->link[peer];
    char why[160];

    for (uint32_t i = 0; i < SIM_READS; i++)
        if (endpoint->read[i].done && endpoint->read[i].peer == peer)
            end_read(endpoint, i, -1);
    link->state = SIM_LOST;
    tu_text_format(why, sizeof why,
                   "rank %u (host %s) can't be reached: nothing comes back through the simulation",
                   link->rank, link->host);
    endpoint->events.lost(endpoint->events.context, peer, why);
}

static int lose_failed(struct sim_endpoint *endpoint) {
    int lost = 0;

    endpoint->failed = false;
    for (uint32_t peer = 0; peer < endpoint->peers; peer++) {
        if (endpoint->link[peer].state != SIM_FAILED)
            continue;
        if (sim_chance(&endpoint->network->random, 256)) {
            lose(endpoint, peer);
            lost++;
        } else {
            endpoint->failed = true;
        }
    }
    return lost;
}

/* Handles some of the news, in their order. */
static int sim_poll(struct tu_transport *transport) {
    struct sim_endpoint *endpoint = endpoint_of(transport);
    struct sim_network *network = endpoint->network;
    int handled = 0;

    sim_network_pass(network, sim_below(&network->random, network->profile.step_ns + 1));
    for (uint32_t n = sim_below(&network->random, 9); n && endpoint->first < endpoint->last; n--) {
        struct sim_notice notice = endpoint->notice[endpoint->first++];
        if (endpoint->link[notice.peer].state == SIM_LOST)
            continue;
        if (notice.kind == SIM_ARRIVE)
            arrive(endpoint, &notice);
        else
            finish(endpoint, &notice);
        handled++;
    }
    if (endpoint->failed)
        handled += lose_failed(endpoint);
    return handled;
}

static bool sim_drained(struct tu_transport *transport) {
    const struct sim_endpoint *endpoint = endpoint_of(transport);

    for (uint32_t peer = 0; peer < endpoint->peers; peer++)
        if (endpoint->link[peer].state == SIM_CONNECTED && endpoint->link[peer].under_way)
            return false;
    return true;
}

static tutti_status sim_arm(struct tu_transport *transport, int *fd) {
    (void)transport;
    *fd = -1;
    return TUTTI_OK;
}

static void sim_wake(struct tu_transport *transport) {
    (void)transport;
}

const struct tu_transport_ops sim_transport = {
    "sim",       sim_open,     sim_close,      sim_capabilities, sim_address_bytes, sim_address,
    sim_connect, sim_register, sim_deregister, sim_line,         sim_write,         sim_cell,
    sim_read,    sim_poll,     sim_drained,    sim_arm,          sim_wake,
};
