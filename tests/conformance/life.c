/*
 * The suite, second part: full queues, exact counters, loss of a peer, sleeping, registered memory,
 * and closing at every stage.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/conformance/conformance.h"

static const struct tu_transport_ops *ops(void) {
    return conformance_subject.ops;
}

static tutti_status try_line(struct endpoint *from, uint32_t peer, uint32_t cell, uint32_t flag) {
    uint64_t to = area_there(from, peer) + LINES_AT + (uint64_t)cell * TU_LINE_STRIDE;

    return ops()->line(from->transport, peer, to, (struct tu_line_header){1, flag}, &flag,
                       sizeof flag);
}

static bool has_line(const struct endpoint *at, uint32_t peer, uint32_t cell, uint32_t flag) {
    const uint8_t *here = area_here(at, peer) + LINES_AT + (size_t)cell * TU_LINE_STRIDE;

    return tu_line_arrived(here, at->caps.format, flag, sizeof flag);
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* ---- full queues ---------------------------------------------------------------------------- */

Test(conformance, a_full_queue_says_again_and_recovers, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    uint32_t sent = 0, depth = conformance_subject.send_depth;
    tutti_status status = TUTTI_OK;

    while (sent < 5000 && (status = try_line(&e[0], 0, sent % LINES, sent / LINES + 1)) == TUTTI_OK)
        sent++;
    cr_assert(eq(u64, e[0].counters.lines, sent), "TU_AGAIN is not counted");
    if (depth) {
        cr_assert(eq(int, status, TU_AGAIN));
        cr_assert(eq(u32, sent, depth));
        for (int i = 0; i < 10; i++) /* again and again, without a poll */
            cr_assert(eq(int, try_line(&e[0], 0, 0, 9999), TU_AGAIN));
        while ((status = try_line(&e[0], 0, sent % LINES, sent / LINES + 1)) == TU_AGAIN)
            ops()->poll(e[0].transport);
        cr_assert(eq(int, status, TUTTI_OK));
        sent++;
    }
    for (uint32_t i = sent - (sent < LINES ? sent : LINES); i < sent; i++)
        while (!has_line(&e[1], 0, i % LINES, i / LINES + 1))
            party_turn(party);
    party_close(party);
}

/* A target that does not poll holds its writers off, before anything is retried by the device. */
Test(conformance, a_target_that_does_not_poll_stops_writers, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    uint64_t starved = conformance_subject.starved ? conformance_subject.starved() : 0;
    uint32_t sent = 0;

    if (!e[0].caps.immediate)
        cr_skip_test("no receive entries");
    for (int quiet = 0; quiet < 50; quiet++) {
        while (ops()->write(e[0].transport, 0, OUT_AT, IN_AT, 100, sent) == TUTTI_OK)
            sent++, quiet = 0;
        ops()->poll(e[0].transport);
        pause_ms(1);
    }
    cr_assert(ge(u32, sent, SLOTS_PER_PEER), "what one comm may have under way");
    cr_assert(le(u32, sent, 4 * SLOTS_PER_PEER));
    while (e[1].link[0].arrived < sent)
        party_turn(party);
    for (uint32_t i = 0; i < 100; i++)
        send_write(&e[0], 0, OUT_AT, IN_AT, 100, i);
    while (e[1].link[0].arrived < sent + 100)
        party_turn(party);
    if (conformance_subject.starved)
        cr_assert(eq(u64, conformance_subject.starved(), starved));
    party_close(party);
}

/* ---- counters ------------------------------------------------------------------------------- */

Test(conformance, counters_are_exact, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    const struct tu_counters *c = &e[0].counters;
    uint32_t half = conformance_subject.send_depth / 2, lines = 4 * half + 3;
    uint64_t payload = 42;

    for (uint32_t i = 0; i < lines; i++) {
        send_line(&e[0], 0, i % LINES, (struct tu_line_header){0, i / LINES + 1}, &payload, 8);
        if (half)
            cr_assert(eq(u64, c->requests, i + 1));
        while (!tu_line_arrived(area_here(&e[1], 0) + i % LINES * TU_LINE_STRIDE, e[0].caps.format,
                                i / LINES + 1, 8))
            party_turn(party);
    }
    for (int i = 0; i < 100; i++) {
        party_turn(party);
        pause_ms(1);
    }
    cr_assert(eq(u64, c->lines, lines));
    cr_assert(eq(u64, c->bytes, 8 * (uint64_t)lines));
    cr_assert(eq(u64, c->requests, half ? lines : 0), "one request per line");
    cr_assert(eq(u64, c->doorbells, half ? lines : 0), "one doorbell per line");
    cr_assert(eq(u64, c->completions, half ? lines / half : 0), "one completion per half queue");
    cr_assert(eq(u64, c->receives, 0));
    cr_assert(eq(u64, e[1].counters.receives, 0));
    cr_assert(eq(u64, c->writes + c->cells, 0));
    party_close(party);
}

Test(conformance, counters_of_writes, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    bool immediate = e[0].caps.immediate;

    for (uint32_t i = 0; i < 20; i++) {
        send_write(&e[0], 0, OUT_AT, IN_AT, 1000, i);
        while (e[1].link[0].arrived == i)
            party_turn(party);
    }
    cr_assert(eq(u64, e[0].counters.writes, 20));
    cr_assert(eq(u64, e[0].counters.bytes, immediate ? 20000 : 20000 + 20 * 4));
    cr_assert(eq(u64, e[1].counters.receives, immediate ? 20 : 0));
    if (conformance_subject.send_depth)
        cr_assert(eq(u64, e[0].counters.requests, 20));
    cr_assert(eq(u64, e[1].counters.requests, e[1].counters.cells), "nothing but credits");
    party_close(party);
}

/* ---- before and after ----------------------------------------------------------------------- */

Test(conformance, nothing_is_sent_before_connect, .timeout = 60) {
    struct party *party = party_open(2);
    struct endpoint *e = party->endpoint;

    if (!conformance_subject.checks_connect)
        cr_skip_test("the caller's duty");
    cr_assert(lt(int, try_line(&e[0], 0, 0, 1), 0));
    cr_assert(lt(int, ops()->write(e[0].transport, 0, OUT_AT, IN_AT, 8, 0), 0));
    cr_assert(lt(int, ops()->cell(e[0].transport, 0, 0, 1), 0));
    cr_assert(eq(u64, e[0].counters.requests + e[0].counters.lines, 0));
    cr_assert(ops()->drained(e[0].transport));
    party_close(party);
}

Test(conformance, close_is_legal_at_every_stage, .timeout = 60) {
    for (int stage = 0; stage < 6; stage++) {
        struct party *party = stage == 0 ? party_make(3) : party_open(3);
        struct endpoint *e = party->endpoint;

        if (stage >= 2)
            endpoint_connect(&e[0], 0);
        if (stage >= 3)
            endpoint_connect(&e[1], 0);
        if (stage >= 4) /* with messages under way */
            for (uint32_t i = 0; i < 20; i++)
                try_line(&e[0], 0, i, 1);
        if (stage == 5)
            endpoint_close(&e[1]);
        party_close(party);
    }
}

Test(conformance, opening_again_works, .timeout = 60) {
    struct party *party = party_make(2);
    struct endpoint *e = party->endpoint;

    for (uint32_t round = 1; round <= 10; round++) {
        for (int i = 0; i < 2; i++)
            cr_assert(eq(int, endpoint_open(&e[i]), TUTTI_OK));
        for (int i = 0; i < 2; i++)
            endpoint_connect(&e[i], 0);
        cr_assert(eq(int, try_line(&e[0], 0, 0, round), TUTTI_OK));
        while (!has_line(&e[1], 0, 0, round))
            party_turn(party);
        endpoint_close(&e[round % 2]);
        endpoint_close(&e[(round + 1) % 2]);
    }
    party_close(party);
}

Test(conformance, drained_means_that_nothing_is_under_way, .timeout = 60) {
    struct party *party = party_connected(3);
    struct endpoint *e = party->endpoint;

    cr_assert(ops()->drained(e[0].transport));
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert(eq(int, try_line(&e[0], 0, i, 1), TUTTI_OK));
        send_write(&e[0], 1, OUT_AT, IN_AT, 20000, i);
    }
    while (!ops()->drained(e[0].transport))
        ops()->poll(e[0].transport);
    for (uint32_t i = 0; i < 5; i++)
        cr_assert(has_line(&e[1], 0, i, 1), "drained, but line %u is not there", i);
    cr_assert(ops()->drained(e[0].transport));
    party_close(party);
}

/* ---- loss ----------------------------------------------------------------------------------- */

static void expect_unreachable(struct endpoint *e, uint32_t peer) {
    int done = 7;

    cr_assert(eq(int, try_line(e, peer, 0, 50), TUTTI_ERR_UNREACHABLE));
    cr_assert(eq(int, ops()->cell(e->transport, peer, CELLS_AT, 1), TUTTI_ERR_UNREACHABLE));
    cr_assert(
        eq(int, ops()->write(e->transport, peer, OUT_AT, IN_AT, 8, 0), TUTTI_ERR_UNREACHABLE));
    cr_assert(
        eq(int, ops()->read(e->transport, peer, OUT_AT, IN_AT, 8, &done), TUTTI_ERR_UNREACHABLE));
    cr_assert(eq(int, done, 7), "it did nothing");
}

Test(conformance, a_lost_peer_is_told_once, .timeout = 60) {
    struct party *party = party_connected(3);
    struct endpoint *e = party->endpoint;
    int done = 0;

    if (!conformance_subject.finds_loss)
        cr_skip_test("no way to notice");
    cr_assert(eq(int, try_line(&e[0], 0, 0, 1), TUTTI_OK));
    while (!has_line(&e[1], 0, 0, 1))
        party_turn(party);
    party->loses = true;
    endpoint_close(&e[1]);
    for (uint32_t i = 1; i < 10; i++)
        try_line(&e[0], 0, i, 1);
    cr_assert(eq(int, ops()->read(e[0].transport, 0, OUT_AT, IN_AT, 64, &done), TUTTI_OK));
    cr_assert(eq(int, e[0].link[0].lost, 0), "told from poll only");
    while (!e[0].link[0].lost)
        party_turn(party);
    cr_assert(eq(int, done, -1), "what was outstanding has ended");
    cr_assert(strstr(e[0].why, "rank 1") && strstr(e[0].why, "host1"), "%s", e[0].why);

    expect_unreachable(&e[0], 0);
    party_drain(party);
    for (int i = 0; i < 50; i++) {
        party_turn(party);
        pause_ms(1);
    }
    cr_assert(eq(int, e[0].link[0].lost, 1));
    cr_assert(eq(int, e[0].link[1].lost, 0));
    for (uint32_t i = 0; i < 20; i++) { /* the others go on */
        send_write(&e[0], 1, OUT_AT, IN_AT, 100, i);
        cr_assert(eq(int, try_line(&e[2], 0, i, 2), TUTTI_OK));
        while (!has_line(&e[0], 1, i, 2) || e[2].link[0].arrived <= i)
            party_turn(party);
    }
    party_close(party);
}

/* ---- memory and sleep ----------------------------------------------------------------------- */

Test(conformance, memory_is_registered_and_deregistered, .timeout = 60) {
    struct party *party = party_connected(2);
    struct tu_transport *transport = party->endpoint[0].transport;
    uint64_t key[3];
    char *memory = malloc(100001);

    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 3; i++)
            cr_assert(eq(int, ops()->register_memory(transport, memory + i, 100000 - i, &key[i]),
                         TUTTI_OK));
        ops()->deregister_memory(transport, key[round % 3]);
        ops()->deregister_memory(transport, key[(round + 1) % 3]);
        if (round < 4) /* the last one is left to close */
            ops()->deregister_memory(transport, key[(round + 2) % 3]);
    }
    party_close(party);
    free(memory);
}

static bool ready(int fd, int timeout_ms) {
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout_ms) == 1;
}

Test(conformance, an_arrival_wakes_the_sleeper, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;

    for (uint32_t round = 0; round < 10; round++) {
        int fd = -2;
        cr_assert(eq(int, ops()->arm(e[0].transport, &fd), TUTTI_OK));
        cr_assert(eq(int, fd >= 0, conformance_subject.sleeps));
        ops()->poll(e[0].transport);
        if (fd >= 0)
            cr_assert(not(ready(fd, 0)), "an event without an arrival");
        send_write(&e[1], 0, OUT_AT, IN_AT, round % 2 ? 3000 : 0, round);
        if (fd >= 0)
            cr_assert(ready(fd, 5000), "no event");
        ops()->wake(e[0].transport);
        while (e[0].link[0].arrived == round)
            party_turn(party);
        if (fd >= 0)
            cr_assert(not(ready(fd, 0)), "wake takes the event back");
    }
    party_close(party);
}

Test(conformance, waking_without_an_event_is_harmless, .timeout = 60) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    int fd = -2;

    ops()->wake(e[0].transport);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert(eq(int, ops()->arm(e[0].transport, &fd), TUTTI_OK));
        ops()->wake(e[0].transport);
    }
    send_write(&e[1], 0, OUT_AT, IN_AT, 8, 0);
    if (fd >= 0)
        cr_assert(ready(fd, 5000));
    while (e[0].link[0].arrived == 0)
        party_turn(party);
    party_close(party); /* armed, and with an event */
}
