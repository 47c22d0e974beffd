/*
 * Long messages and lines on devices that take little at once. Run over a slow link, where requests
 * really wait in the queue.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "tests/conformance/verbs_subject.h"
#include "transport/verbs.h"

/* A queue full of requests takes its time on this link, which is no loss of the peer. */
static void patient(struct tu_config *config, uint32_t rank) {
    verbs_configure(config, rank);
    config->ack_timeout = 18;
}

const struct conformance_subject conformance_subject = {
    .name = "verbs", .ops = &tu_transport_verbs, .configure = patient};

static struct party *connected_with(struct tu_verbs_limits *limits) {
    struct party *party = party_make(2);

    party->world = limits;
    for (int i = 0; i < 2; i++)
        cr_assert(eq(int, endpoint_open(&party->endpoint[i]), TUTTI_OK));
    for (int i = 0; i < 2; i++)
        endpoint_connect(&party->endpoint[i], 0);
    return party;
}

static void all_there(struct endpoint *endpoint, uint32_t peer, uint32_t mark) {
    (void)peer;
    cr_assert(is_filled(endpoint->window + IN_AT, DATA_BYTES, mark), "announced before its end");
}

Test(verbs_less, a_write_that_is_cut_is_announced_at_its_end, .timeout = 40) {
    struct tu_verbs_limits limits = {
        .inline_bytes = 120, .send_depth = 32, .message_bytes = DATA_BYTES / 16};
    struct party *party = connected_with(&limits);
    struct endpoint *e = party->endpoint;

    party->on_arrival = all_there;
    cr_assert(eq(sz, e->caps.max_write_bytes, DATA_BYTES));
    for (uint32_t i = 0; i < 10; i++) {
        fill(e[0].window + OUT_AT, DATA_BYTES, i);
        send_write(&e[0], 0, OUT_AT, IN_AT, DATA_BYTES, i);
        while (e[1].link[0].arrived == i)
            party_turn(party);
    }
    cr_assert(eq(u64, e[0].counters.writes, 10));
    cr_assert(eq(u64, e[0].counters.requests, 160));
    cr_assert(eq(u64, e[0].counters.doorbells, 10), "one per chain");
    cr_assert(eq(u64, e[1].counters.receives, 10));
    party_close(party);
}

/* Lines that wait behind a long write must not be overwritten by those after them. */
Test(verbs_less, lines_that_do_not_fit_inline_wait_in_cells_of_their_own, .timeout = 40) {
    struct tu_verbs_limits limits = {.inline_bytes = 16, .send_depth = 64};
    struct party *party = connected_with(&limits);
    struct endpoint *e = party->endpoint;

    for (uint32_t use = 1; use <= 10; use++) {
        send_write(&e[0], 0, OUT_AT, IN_AT, DATA_BYTES, use);
        for (uint32_t i = 0; i < 60; i++) {
            uint8_t payload[TU_LINE_PAYLOAD];
            fill(payload, sizeof payload, use * 100 + i);
            send_line(&e[0], 0, i, (struct tu_line_header){i, use}, payload, sizeof payload);
        }
        for (uint32_t i = 0; i < 60; i++) {
            const uint8_t *cell = area_here(&e[1], 0) + (size_t)i * TU_LINE_STRIDE;
            uint8_t payload[TU_LINE_PAYLOAD];
            while (!tu_line_arrived(cell, TU_FORMAT_WORDS, use, sizeof payload))
                party_turn(party);
            tu_line_read(cell, TU_FORMAT_WORDS, payload, sizeof payload);
            cr_assert(is_filled(payload, sizeof payload, use * 100 + i));
        }
    }
    party_close(party);
}
