/*
 * The suite, last part: 10^5 messages of all kinds in random order with real flow control. Every pair
 * of endpoints has a ring of lines and a ring of writes each way, whose consumed counts travel in
 * cells; a slot's source is filled again as soon as credit allows. Numbers start before 2^32.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "tests/conformance/conformance.h"

enum { MESSAGES = 100000, RING = 8, WRITES = 4, SLOT = 4096, CREDIT_LINES = 0, CREDIT_WRITES = 1 };

/* Numbers of one direction of one pair, all seen from above. */
struct flow {
    struct endpoint *from, *to;
    uint32_t peer, back; /* index of `to` at `from`, and of `from` at `to` */
    uint32_t line_sent, line_taken, line_told;
    uint32_t write_sent, write_taken, write_told;
};

struct soak {
    struct party *party;
    struct flow flow[MAX_ENDPOINTS * (MAX_ENDPOINTS - 1)];
    uint32_t flows;
    uint32_t sent, taken;
};

static uint32_t size_of(uint32_t number, uint32_t limit) {
    return (number * 2654435769u >> 8) % (limit + 1);
}

static uint32_t consumed(const struct flow *flow, uint32_t cell) {
    const void *at = area_here(flow->from, flow->peer) + CELLS_AT + cell * sizeof(uint64_t);

    return (uint32_t)atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_acquire);
}

static uint64_t slot_offset(uint64_t base, uint32_t peer, uint32_t number) {
    return base + ((uint64_t)peer * WRITES + number % WRITES) * SLOT;
}

/* ---- one step of each kind ------------------------------------------------------------------ */

static void step_line(struct soak *soak, struct flow *flow) {
    uint8_t payload[TU_LINE_PAYLOAD];
    uint32_t number = flow->line_sent, bytes = size_of(number, TU_LINE_PAYLOAD);

    if (number - consumed(flow, CREDIT_LINES) >= RING)
        return;
    fill(payload, bytes, number);
    send_line(flow->from, flow->peer, number % RING, (struct tu_line_header){~number, number},
              payload, bytes);
    flow->line_sent++;
    soak->sent++;
}

static void step_take_line(struct soak *soak, struct flow *flow) {
    uint8_t payload[TU_LINE_PAYLOAD];
    uint32_t number = flow->line_taken, bytes = size_of(number, TU_LINE_PAYLOAD);
    const uint8_t *cell =
        area_here(flow->to, flow->back) + (size_t)(number % RING) * TU_LINE_STRIDE;

    if (number == flow->line_sent || !tu_line_arrived(cell, flow->from->caps.format, number, bytes))
        return;
    cr_assert(eq(u32, tu_line_header(cell).fingerprint, ~number));
    tu_line_read(cell, flow->from->caps.format, payload, bytes);
    cr_assert(is_filled(payload, bytes, number), "line %#x", number);
    flow->line_taken++;
    soak->taken++;
}

static void step_write(struct soak *soak, struct flow *flow) {
    uint32_t number = flow->write_sent, bytes = size_of(number, SLOT);
    uint64_t source = slot_offset(OUT_AT, flow->peer, number);

    if (number - consumed(flow, CREDIT_WRITES) >= WRITES)
        return;
    fill(flow->from->window + source, bytes, number);
    flow->write_sent++;
    send_write(flow->from, flow->peer, source, slot_offset(IN_AT, flow->back, number), bytes,
               number);
    soak->sent++;
}

static void take_write(struct endpoint *to, uint32_t back, uint32_t mark) {
    struct soak *soak = to->party->context;

    for (uint32_t i = 0; i < soak->flows; i++) {
        struct flow *flow = &soak->flow[i];
        if (flow->to != to || flow->back != back)
            continue;
        cr_assert(eq(u32, mark, flow->write_taken));
        cr_assert(is_filled(to->window + slot_offset(IN_AT, back, mark), size_of(mark, SLOT), mark),
                  "write %#x", mark);
        flow->write_taken++;
        soak->taken++;
    }
}

static void step_tell(struct flow *flow) {
    uint32_t lines = flow->line_taken, writes = flow->write_taken; /* sending may move them on */

    if (flow->line_told != lines)
        send_cell(flow->to, flow->back, CREDIT_LINES, lines);
    if (flow->write_told != writes)
        send_cell(flow->to, flow->back, CREDIT_WRITES, writes);
    flow->line_told = lines;
    flow->write_told = writes;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void make_flows(struct soak *soak, uint32_t first) {
    for (uint32_t i = 0; i < soak->party->n; i++)
        for (uint32_t j = 0; j < soak->party->n; j++) {
            struct endpoint *from = &soak->party->endpoint[i], *to = &soak->party->endpoint[j];
            struct flow *flow = &soak->flow[soak->flows];
            if (i == j)
                continue;
            *flow = (struct flow){
                from,  to,   peer_index(from, j), peer_index(to, i), first, first, first, first,
                first, first};
            soak->flows++;
            for (uint32_t cell = 0; cell < 2; cell++)
                *(uint64_t *)(void *)(area_here(from, flow->peer) + CELLS_AT + cell * 8) = first;
        }
}

static void step(struct soak *soak, bool more) {
    struct flow *flow = &soak->flow[party_random(soak->party, soak->flows)];

    switch (party_random(soak->party, 6)) {
    case 0:
    case 1:
        if (more)
            step_line(soak, flow);
        break;
    case 2:
        if (more)
            step_write(soak, flow);
        break;
    case 3:
        step_take_line(soak, flow);
        break;
    case 4:
        step_tell(flow);
        break;
    default:
        party_turn(soak->party);
    }
}

static void run_soak(uint32_t endpoints, uint32_t messages) {
    struct party *party = party_connected(endpoints);
    struct soak *soak = calloc(1, sizeof *soak);
    uint64_t starved = conformance_subject.starved ? conformance_subject.starved() : 0;

    soak->party = party;
    party->context = soak;
    party->on_arrival = take_write;
    party->deadline_ns = tu_now_ns() + UINT64_C(150) * 1000000000;
    make_flows(soak, UINT32_MAX - messages / 20 / (endpoints * (endpoints - 1)));
    while (soak->sent < messages || soak->taken < soak->sent)
        step(soak, soak->sent < messages);
    for (uint32_t i = 0; i < soak->flows; i++)
        step_tell(&soak->flow[i]);
    party_drain(party);
    for (uint32_t i = 0; i < endpoints; i++)
        for (uint32_t peer = 0; peer < party->endpoint[i].peers; peer++)
            cr_assert(eq(int, party->endpoint[i].link[peer].lost, 0), "%s", party->endpoint[i].why);
    if (conformance_subject.starved)
        cr_assert(eq(u64, conformance_subject.starved(), starved));
    party_close(party);
    free(soak);
}

Test(conformance, soak_of_two, .timeout = 200) {
    run_soak(2, MESSAGES);
}

Test(conformance, soak_of_four, .timeout = 200) {
    run_soak(4, MESSAGES / 5);
}
