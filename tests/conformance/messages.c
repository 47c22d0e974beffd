/* The suite, first part: lines, writes, cells and reads arrive whole, and in the orders promised. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "tests/conformance/conformance.h"

static const struct tu_transport_ops *ops(void) {
    return conformance_subject.ops;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* One line, its source at an odd address and scribbled over as soon as the call has returned. */
static void pass_line(struct endpoint *from, struct endpoint *to, uint32_t cell, uint32_t flag,
                      size_t bytes) {
    uint32_t peer = peer_index(from, to->rank), back = peer_index(to, from->rank);
    const uint8_t *here = area_here(to, back) + LINES_AT + (size_t)cell * TU_LINE_STRIDE;
    enum tu_line_format format = from->caps.format;
    uint8_t payload[TU_LINE_PAYLOAD + 8], got[TU_LINE_PAYLOAD];

    cr_assert(not(tu_line_arrived(here, format, flag, bytes)));
    fill(payload + 3, bytes, flag);
    send_line(from, peer, cell, (struct tu_line_header){flag ^ 0xabcd, flag}, payload + 3, bytes);
    memset(payload, 0xee, sizeof payload);
    while (!tu_line_arrived(here, format, flag, bytes))
        party_turn(from->party);
    cr_assert(eq(u32, tu_line_header(here).fingerprint, flag ^ 0xabcd));
    tu_line_read(here, format, got, bytes);
    cr_assert(is_filled(got, bytes, flag), "payload of %zu bytes, flag %#x", bytes, flag);
}

Test(conformance, lines_of_all_sizes_across_the_wrap, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;

    for (size_t bytes = 0; bytes <= TU_LINE_PAYLOAD; bytes++)
        for (uint32_t flag = UINT32_MAX - 1; flag != 2; flag++)
            pass_line(&e[0], &e[1], (uint32_t)bytes, flag, bytes);
    party_close(party);
}

Test(conformance, a_cell_takes_lines_of_changing_sizes_both_ways, .timeout = 60) {
    struct party *party = party_connected(2);

    for (uint32_t use = 1; use <= 400; use++) {
        size_t bytes = party_random(party, TU_LINE_PAYLOAD + 1);
        pass_line(&party->endpoint[use & 1], &party->endpoint[~use & 1], 5, use, bytes);
    }
    party_close(party);
}

/* ---- writes --------------------------------------------------------------------------------- */

struct expected {
    uint64_t at;
    size_t bytes;
    uint32_t seed;
};

/* Compares at the moment of arrival: that is when data must be visible. */
static void compare(struct endpoint *endpoint, uint32_t peer, uint32_t mark) {
    const struct expected *expected = endpoint->party->context;

    (void)peer;
    cr_assert(eq(u32, mark, expected->seed));
    cr_assert(is_filled(endpoint->window + expected->at, expected->bytes, expected->seed),
              "%zu bytes", expected->bytes);
}

static void pass_write(struct endpoint *from, struct endpoint *to, size_t bytes, size_t shift,
                       uint32_t mark) {
    uint32_t peer = peer_index(from, to->rank);
    struct link *back = &to->link[peer_index(to, from->rank)];
    struct expected expected = {IN_AT + shift, bytes, mark};
    uint32_t before = back->arrived;

    from->party->context = &expected;
    from->party->on_arrival = compare;
    fill(from->window + OUT_AT + shift, bytes, mark);
    memset(to->window + IN_AT, 0x55, shift + bytes + 1);
    send_write(from, peer, OUT_AT + shift, IN_AT + shift, bytes, mark);
    while (back->arrived == before)
        party_turn(from->party);
    cr_assert(eq(u32, back->arrived, before + 1));
    cr_assert(eq(u8, to->window[IN_AT + shift + bytes], 0x55), "one byte too many");
    cr_assert(shift == 0 || to->window[IN_AT + shift - 1] == 0x55, "one byte too early");
}

Test(conformance, writes_of_all_sizes, .timeout = 60) {
    static const size_t sizes[] = {1,
                                   2,
                                   7,
                                   8,
                                   63,
                                   64,
                                   65,
                                   511,
                                   512,
                                   513,
                                   4095,
                                   4096,
                                   4097,
                                   8192,
                                   8193,
                                   65536,
                                   65537,
                                   300001,
                                   (1 << 20) - 16,
                                   1 << 20};
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] > e[0].caps.max_write_bytes)
            continue;
        pass_write(&e[0], &e[1], sizes[i], 0, 0xffffffff - (uint32_t)i);
        pass_write(&e[1], &e[0], sizes[i], sizes[i] < 1 << 20 ? 13 : 0, (uint32_t)i);
    }
    cr_assert(eq(u64, e[0].counters.writes, e[1].counters.writes));
    party_close(party);
}

Test(conformance, a_write_of_nothing_arrives, .timeout = 60) {
    struct party *party = party_connected(2);

    pass_write(&party->endpoint[0], &party->endpoint[1], 0, 0, 77);
    party_close(party);
}

static void in_order(struct endpoint *endpoint, uint32_t peer, uint32_t mark) {
    cr_assert(eq(u32, mark, endpoint->link[peer].arrived - 1));
    cr_assert(is_filled(endpoint->window + IN_AT + mark % 4 * 8192, mark % 8192, mark));
}

Test(conformance, writes_to_one_peer_arrive_in_order, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;

    party->on_arrival = in_order;
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t bytes = i % 8192;
        while (e[0].link[0].sent - e[1].link[0].arrived >= 4)
            party_turn(party);
        fill(e[0].window + OUT_AT + i % 4 * 8192, bytes, i);
        send_write(&e[0], 0, OUT_AT + i % 4 * 8192, IN_AT + i % 4 * 8192, bytes, i);
    }
    while (e[1].link[0].arrived < 300)
        party_turn(party);
    party_close(party);
}

/* ---- cells and reads ------------------------------------------------------------------------ */

static uint64_t cell_here(const struct endpoint *endpoint, uint32_t peer, uint32_t cell) {
    const void *at = area_here(endpoint, peer) + CELLS_AT + cell * sizeof(uint64_t);

    return atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_acquire);
}

Test(conformance, cells_to_one_address_arrive_in_order_and_whole, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    uint64_t last = 0;

    for (uint64_t i = 1; i <= 1000; i++) {
        send_cell(&e[0], 0, 3, i | i << 32);
        if (party_random(party, 3) == 0)
            party_turn(party);
        uint64_t now = cell_here(&e[1], 0, 3);
        cr_assert(eq(u64, now >> 32, now & 0xffffffff), "torn");
        cr_assert(ge(u64, now, last), "went back");
        last = now;
    }
    while (cell_here(&e[1], 0, 3) != (UINT64_C(1000) | UINT64_C(1000) << 32))
        party_turn(party);
    cr_assert(eq(u64, e[0].counters.cells, 1000));
    cr_assert(eq(u64, cell_here(&e[1], 0, 2), 0));
    cr_assert(eq(u64, cell_here(&e[1], 0, 4), 0));
    party_close(party);
}

Test(conformance, reads_fetch_without_the_peers_help, .timeout = 60) {
    static const size_t sizes[] = {8, 64, 4096, 4104, 65536, 1 << 20};
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;

    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int done = 0;
        if (sizes[i] > e[0].caps.max_write_bytes)
            continue;
        fill(e[1].window + OUT_AT, sizes[i], i);
        memset(e[0].window + IN_AT, 0x55, sizes[i] + 1);
        cr_assert(
            eq(int, ops()->read(e[0].transport, 0, OUT_AT, IN_AT, sizes[i], &done), TUTTI_OK));
        while (!done) {
            ops()->poll(e[0].transport); /* and not the peer */
            party->random++;
        }
        cr_assert(eq(int, done, 1));
        cr_assert(is_filled(e[0].window + IN_AT, sizes[i], i));
        cr_assert(eq(u8, e[0].window[IN_AT + sizes[i]], 0x55));
    }
    party_close(party);
}

Test(conformance, many_reads_at_once, .timeout = 60) {
    enum { READS = 50 };
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    int done[READS] = {0};

    fill(e[1].window + OUT_AT, READS * 512, 9);
    for (uint64_t i = 0; i < READS; i++) {
        tutti_status status;
        while ((status = ops()->read(e[0].transport, 0, OUT_AT + i * 512, IN_AT + i * 512, 512,
                                     &done[i])) == TU_AGAIN)
            party_turn(party);
        cr_assert(eq(int, status, TUTTI_OK));
    }
    for (uint32_t i = 0; i < READS; i++)
        while (!done[i])
            party_turn(party);
    for (uint32_t i = 0; i < READS; i++)
        cr_assert(eq(int, done[i], 1));
    cr_assert(is_filled(e[0].window + IN_AT, READS * 512, 9));
    party_close(party);
}

/* ---- more than two -------------------------------------------------------------------------- */

Test(conformance, three_peers_do_not_mix, .timeout = 60) {
    struct party *party = party_connected(4);

    for (uint32_t use = 1; use <= 60; use++)
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t j = 0; j < 4; j++) {
                if (i == j)
                    continue;
                pass_line(&party->endpoint[i], &party->endpoint[j], i, use, use % 57);
                pass_write(&party->endpoint[i], &party->endpoint[j], use * 20, 4, use);
            }
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t peer = 0; peer < 3; peer++)
            cr_assert(eq(u32, party->endpoint[i].link[peer].arrived, 60));
    party_close(party);
}
