/* The party: endpoints of the subject's transport in one process, and helpers to send between them. */
#include "tests/conformance/conformance.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/clock.h"
#include "runtime/text.h"

static const struct tu_transport_ops *ops(void) {
    return conformance_subject.ops;
}

/* ---- random, patterns ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint32_t party_random(struct party *party, uint32_t below) {
    party->random += 0x9e3779b97f4a7c15u;
    return (uint32_t)((mix(party->random) >> 32) * below >> 32);
}

void fill(void *memory, size_t bytes, uint32_t seed) {
    uint64_t value = mix(seed + UINT64_C(1));

    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)memory)[i] = (uint8_t)(value >> 8 * (i & 7)) ^ (uint8_t)(i >> 3);
}

bool is_filled(const void *memory, size_t bytes, uint32_t seed) {
    uint64_t value = mix(seed + UINT64_C(1));

    for (size_t i = 0; i < bytes; i++)
        if (((const uint8_t *)memory)[i] != ((uint8_t)(value >> 8 * (i & 7)) ^ (uint8_t)(i >> 3)))
            return false;
    return true;
}

/* ---- who is where --------------------------------------------------------------------------- */

uint32_t peer_index(const struct endpoint *of, uint32_t rank) {
    return rank < of->rank ? rank : rank - 1;
}

uint64_t area_there(const struct endpoint *endpoint, uint32_t peer) {
    return (uint64_t)endpoint->link[peer].there * AREA_BYTES;
}

uint8_t *area_here(const struct endpoint *endpoint, uint32_t peer) {
    return endpoint->window + (size_t)peer * AREA_BYTES;
}

/* ---- events --------------------------------------------------------------------------------- */

static void arrived(void *context, uint32_t peer, uint32_t mark) {
    struct endpoint *endpoint = context;

    cr_assert(lt(u32, peer, endpoint->peers));
    cr_assert(eq(int, endpoint->link[peer].lost, 0), "an arrival from a lost peer");
    endpoint->link[peer].arrived++;
    endpoint->link[peer].mark = mark;
    if (endpoint->party->on_arrival)
        endpoint->party->on_arrival(endpoint, peer, mark);
}

static void lost(void *context, uint32_t peer, const char *why) {
    struct endpoint *endpoint = context;

    cr_assert(lt(u32, peer, endpoint->peers));
    cr_assert(endpoint->party->loses, "%s", why);
    endpoint->link[peer].lost++;
    tu_text_format(endpoint->why, sizeof endpoint->why, "%s", why);
}

static void log_line(void *context, enum tu_log_level level, const char *line) {
    struct endpoint *endpoint = context;

    (void)level;
    tu_text_format(endpoint->logged, sizeof endpoint->logged, "%s", line);
}

/* ---- opening and closing -------------------------------------------------------------------- */

static void prepare(struct party *party, uint32_t rank) {
    struct endpoint *endpoint = &party->endpoint[rank];
    void *window =
        mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert(window != MAP_FAILED);
    endpoint->party = party;
    endpoint->window = window;
    endpoint->rank = rank;
    endpoint->peers = party->n - 1;
    endpoint->env.rank = (int)rank;
    endpoint->env.log = (struct tu_log){TU_LOG_INFO, log_line, endpoint};
    tu_text_format(endpoint->env.host, sizeof endpoint->env.host, "host%u", rank);
    tu_config_defaults(&endpoint->env.config);
    if (conformance_subject.configure)
        conformance_subject.configure(&endpoint->env.config, rank);
    for (uint32_t peer = 0; peer < endpoint->peers; peer++) {
        endpoint->link[peer].rank = peer < rank ? peer : peer + 1;
        endpoint->link[peer].there = rank < endpoint->link[peer].rank ? rank : rank - 1;
    }
}

struct party *party_make(uint32_t n) {
    struct party *party = calloc(1, sizeof *party);

    cr_assert(party && n <= MAX_ENDPOINTS);
    party->n = n;
    party->random = n;
    party->deadline_ns = tu_now_ns() + UINT64_C(60) * 1000000000;
    if (conformance_subject.begin)
        party->world = conformance_subject.begin(n);
    for (uint32_t rank = 0; rank < n; rank++)
        prepare(party, rank);
    return party;
}

tutti_status endpoint_open(struct endpoint *endpoint) {
    struct party *party = endpoint->party;
    uint32_t ranks[MAX_ENDPOINTS];
    const char *hosts[MAX_ENDPOINTS];
    void *windows[MAX_ENDPOINTS] = {NULL};
    struct tu_transport_params params = {
        .env = &endpoint->env,
        .window = endpoint->window,
        .window_bytes = WINDOW_BYTES,
        .rank = endpoint->rank,
        .peers = endpoint->peers,
        .peer_rank = ranks,
        .peer_host = hosts,
        .peer_window = windows,
        .events = {endpoint, arrived, lost},
        .counters = &endpoint->counters,
        .max_peers = MAX_ENDPOINTS,
        .slots_per_peer = SLOTS_PER_PEER,
        .context = party->world,
    };
    tutti_status status;

    for (uint32_t i = 0; i < endpoint->peers; i++) {
        struct endpoint *peer = &party->endpoint[endpoint->link[i].rank];

        ranks[i] = peer->rank;
        hosts[i] = peer->env.host;
        windows[i] = conformance_subject.mapped ? peer->window : NULL;
    }
    status = ops()->open(&params, &endpoint->transport);
    if (status == TUTTI_OK)
        endpoint->caps = ops()->capabilities(endpoint->transport);
    return status;
}

void endpoint_connect(struct endpoint *endpoint, uint32_t peer) {
    struct endpoint *other = &endpoint->party->endpoint[endpoint->link[peer].rank];
    size_t bytes = ops()->address_bytes(other->transport);
    /* The address may lie anywhere: it has come in some message. */
    char *blob = malloc(bytes + 1);

    cr_assert(eq(sz, ops()->address_bytes(endpoint->transport), bytes));
    cr_assert(eq(int, ops()->address(other->transport, blob + 1), TUTTI_OK));
    cr_assert(eq(int, ops()->connect(endpoint->transport, peer, blob + 1), TUTTI_OK), "%s",
              endpoint->env.error);
    free(blob);
}

void endpoint_close(struct endpoint *endpoint) {
    if (endpoint->transport)
        ops()->close(endpoint->transport);
    endpoint->transport = NULL;
}

struct party *party_open(uint32_t n) {
    struct party *party = party_make(n);

    for (uint32_t i = 0; i < n; i++)
        cr_assert(eq(int, endpoint_open(&party->endpoint[i]), TUTTI_OK), "%s",
                  party->endpoint[i].env.error);
    return party;
}

struct party *party_connected(uint32_t n) {
    struct party *party = party_open(n);

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t peer = 0; peer < party->endpoint[i].peers; peer++)
            endpoint_connect(&party->endpoint[i], peer);
    return party;
}

void party_close(struct party *party) {
    for (uint32_t i = 0; i < party->n; i++)
        endpoint_close(&party->endpoint[i]);
    for (uint32_t i = 0; i < party->n; i++)
        munmap(party->endpoint[i].window, WINDOW_BYTES);
    if (conformance_subject.end)
        conformance_subject.end(party->world);
    free(party);
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* The line behind a write of a transport without immediates: mark n lies in cell n mod MARKS. */
static void poll_marks(struct endpoint *endpoint, uint32_t peer) {
    uint32_t number = endpoint->link[peer].arrived + 1;
    const uint8_t *cell =
        area_here(endpoint, peer) + MARKS_AT + (size_t)(number % MARKS) * TU_LINE_STRIDE;
    uint32_t mark;

    if (!tu_line_arrived(cell, endpoint->caps.format, number, sizeof mark))
        return;
    tu_line_read(cell, endpoint->caps.format, &mark, sizeof mark);
    arrived(endpoint, peer, mark);
}

static void endpoint_turn(struct endpoint *endpoint) {
    if (!endpoint->transport)
        return;
    ops()->poll(endpoint->transport);
    for (uint32_t peer = 0; !endpoint->caps.immediate && peer < endpoint->peers; peer++)
        poll_marks(endpoint, peer);
}

void party_turn(struct party *party) {
    uint32_t first = party_random(party, party->n);

    if (tu_now_ns() > party->deadline_ns)
        cr_fatal("nothing moves any more");
    for (uint32_t i = 0; i < party->n; i++)
        endpoint_turn(&party->endpoint[(first + i) % party->n]);
}

void party_drain(struct party *party) {
    for (uint32_t i = 0; i < party->n; i++)
        while (party->endpoint[i].transport && !ops()->drained(party->endpoint[i].transport))
            party_turn(party);
}

/* ---- sending -------------------------------------------------------------------------------- */

void send_line(struct endpoint *from, uint32_t peer, uint32_t cell, struct tu_line_header header,
               const void *payload, size_t bytes) {
    uint64_t to = area_there(from, peer) + LINES_AT + (uint64_t)cell * TU_LINE_STRIDE;
    tutti_status status;

    while ((status = ops()->line(from->transport, peer, to, header, payload, bytes)) == TU_AGAIN)
        party_turn(from->party);
    cr_assert(eq(int, status, TUTTI_OK));
}

void send_cell(struct endpoint *from, uint32_t peer, uint32_t cell, uint64_t value) {
    uint64_t to = area_there(from, peer) + CELLS_AT + cell * sizeof value;
    tutti_status status;

    while ((status = ops()->cell(from->transport, peer, to, value)) == TU_AGAIN)
        party_turn(from->party);
    cr_assert(eq(int, status, TUTTI_OK));
}

/* Where the other side stands is looked up over there; the real thing has credits. */
static void send_mark(struct endpoint *from, uint32_t peer, uint32_t mark) {
    struct link *link = &from->link[peer];
    const struct endpoint *other = &from->party->endpoint[link->rank];
    uint32_t number = link->sent;
    uint64_t to = area_there(from, peer) + MARKS_AT + (uint64_t)(number % MARKS) * TU_LINE_STRIDE;
    tutti_status status;

    while (number - other->link[link->there].arrived > MARKS)
        party_turn(from->party);
    while ((status = ops()->line(from->transport, peer, to, (struct tu_line_header){0, number},
                                 &mark, sizeof mark)) == TU_AGAIN)
        party_turn(from->party);
    cr_assert(eq(int, status, TUTTI_OK));
}

void send_write(struct endpoint *from, uint32_t peer, uint64_t source, uint64_t target,
                size_t bytes, uint32_t mark) {
    tutti_status status;

    while ((status = ops()->write(from->transport, peer, source, target, bytes, mark)) == TU_AGAIN)
        party_turn(from->party);
    cr_assert(eq(int, status, TUTTI_OK));
    from->link[peer].sent++;
    if (!from->caps.immediate)
        send_mark(from, peer, mark);
}
