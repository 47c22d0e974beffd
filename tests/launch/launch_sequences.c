/*
 * Sequences of calls on one node, in few banks and short rings: calls of different plans and sizes that
 * follow each other on the same channels, blocking and not, several outstanding.
 *
 *   boards    swapped areas (2 ranks), boards and calls without a byte, from every root; sizes jump
 *             between nothing, a line, a cell, a slot and several segments
 *   scratch   plans that use node scratch, back to back; one rank is away again and again, and the
 *             others run ahead as far as they can
 */
#include <sched.h>

#include "launched.h"
#include "transport/transport.h"

enum { OUTSTANDING = 6 };

/* Most elements of 4 bytes: of a line, a board's cell, a slot of 4 KiB, and at all. */
enum { LINE = TU_LINE_PAYLOAD / 4, CELL = TU_BOARD_PAYLOAD / 4, SLOT = 1024, MOST = 5000 };

enum kind { ALLREDUCE, BCAST, BARRIER };

struct one_call {
    enum kind kind;
    unsigned number, salt;
    size_t count;
    int root;
    tutti_request request;
    uint32_t source[MOST + 1], target[MOST + 1];
};

struct sequence {
    struct ranks *ranks;
    unsigned shared, own; /* random numbers of all ranks, of this one */
    bool scratch;         /* mostly allreduce */
    int slow;             /* rank that is away, -1: all are sometimes */
    struct one_call *call;
    struct one_call *open[OUTSTANDING], *unused[OUTSTANDING];
    unsigned opens, unuseds;
};

/* ---- values ---- */

static uint32_t contribution(const struct one_call *c, int rank, size_t i) {
    return (uint32_t)(rank + 1) * (c->salt | 1) + (uint32_t)i * 2654435761u;
}

static uint32_t wanted(const struct sequence *s, const struct one_call *c, size_t i) {
    uint32_t sum = 0;
    if (c->kind == BCAST)
        return contribution(c, c->root, i);
    for (int r = 0; r < s->ranks->size; r++)
        sum += contribution(c, r, i);
    return sum;
}

static void fill(const struct sequence *s, struct one_call *c) {
    for (size_t i = 0; i < c->count; i++) {
        c->source[i] = contribution(c, s->ranks->rank, i);
        bool root = c->kind == BCAST && c->root == s->ranks->rank;
        c->target[i] = root ? c->source[i] : 0xdeadbeef;
    }
    c->target[c->count] = 77;
}

/* The buffers are used again at once. */
static void check(const struct sequence *s, struct one_call *c) {
    struct ranks *ranks = s->ranks;
    for (size_t i = 0; i < c->count; i++)
        REQUIRE(c->target[i] == wanted(s, c, i), "call %u, kind %d, root %d: element %zu of %zu",
                c->number, c->kind, c->root, i, c->count);
    REQUIRE(c->target[c->count] == 77, "call %u wrote beyond its buffer", c->number);
    memset(c->source, 0xee, c->count * sizeof *c->source);
    memset(c->target, 0xee, c->count * sizeof *c->target);
}

/* ---- calls ---- */

static size_t draw_count(unsigned *state) {
    static const unsigned most[] = {LINE, CELL, SLOT, MOST};
    unsigned count = most[next(state) % 4];
    switch (next(state) % 8) {
    case 0:
        return 0;
    case 1:
    case 2:
        return count;
    case 3:
        return count == MOST ? count : count + 1;
    default:
        return 1 + next(state) % count;
    }
}

static void draw(struct sequence *s, struct one_call *c, unsigned number) {
    static const enum kind boards[] = {ALLREDUCE, ALLREDUCE, BCAST, BCAST, BARRIER};
    unsigned kind = next(&s->shared) % (s->scratch ? 20 : 5);
    c->kind = kind < 5 && (!s->scratch || kind > 3) ? boards[kind] : ALLREDUCE;
    c->number = number;
    c->salt = next(&s->shared);
    c->root = (int)(next(&s->shared) % (unsigned)s->ranks->size);
    c->count = draw_count(&s->shared);
    if (c->kind == BARRIER)
        c->count = 0;
}

static void start(struct sequence *s, struct one_call *c) {
    struct ranks *ranks = s->ranks;
    tutti_comm *world = ranks->world;
    fill(s, c);
    if (c->kind == ALLREDUCE)
        SUCCEED(tutti_iallreduce(c->source, c->target, c->count, TUTTI_I32, TUTTI_SUM, world,
                                 &c->request));
    else if (c->kind == BCAST)
        SUCCEED(tutti_ibcast(c->target, c->count, TUTTI_I32, c->root, world, &c->request));
    else
        SUCCEED(tutti_ibarrier(world, &c->request));
}

static void block(struct sequence *s, struct one_call *c) {
    struct ranks *ranks = s->ranks;
    tutti_comm *world = ranks->world;
    fill(s, c);
    if (c->kind == ALLREDUCE)
        SUCCEED(tutti_allreduce(c->source, c->target, c->count, TUTTI_I32, TUTTI_SUM, world));
    else if (c->kind == BCAST)
        SUCCEED(tutti_bcast(c->target, c->count, TUTTI_I32, c->root, world));
    else
        SUCCEED(tutti_barrier(world));
    check(s, c);
}

/* Any of those that are open. */
static void complete(struct sequence *s) {
    struct ranks *ranks = s->ranks;
    unsigned which = next(&s->own) % s->opens;
    struct one_call *c = s->open[which];
    tutti_status status = TUTTI_IN_PROGRESS;
    for (unsigned tests = next(&s->own) % 4; tests && status == TUTTI_IN_PROGRESS; tests--)
        status = tutti_test(ranks->job, &c->request);
    if (status == TUTTI_IN_PROGRESS)
        status = tutti_wait(ranks->job, &c->request);
    REQUIRE(status == TUTTI_OK, "call %u: %s", c->number, tutti_status_string(status));
    check(s, c);
    s->open[which] = s->open[--s->opens];
    s->unused[s->unuseds++] = c;
}

static void complete_down_to(struct sequence *s, unsigned most) {
    while (s->opens > most)
        complete(s);
}

/* ---- sequences ---- */

static void be_away(struct sequence *s) {
    unsigned often = s->slow == s->ranks->rank ? 3 : s->slow < 0 ? 16 : 0;
    if (!often || next(&s->own) % often)
        return;
    if (next(&s->own) % 2)
        usleep(next(&s->own) % 400);
    else
        for (unsigned n = next(&s->own) % 20; n > 0; n--)
            sched_yield();
}

static void run(struct sequence *s, unsigned calls) {
    for (unsigned i = 0; i < calls; i++) {
        if (s->opens == OUTSTANDING)
            complete(s);
        struct one_call *c = s->unused[--s->unuseds];
        draw(s, c, i);
        be_away(s);
        if (next(&s->own) % 3 == 0) {
            block(s, c);
            s->unused[s->unuseds++] = c;
        } else {
            start(s, c);
            s->open[s->opens++] = c;
        }
        if (next(&s->own) % 4 == 0)
            complete_down_to(s, next(&s->own) % OUTSTANDING);
    }
    complete_down_to(s, 0);
}

/* In one bank and in two; rings and scratch of the smallest and of the usual size. */
static void sequences(struct ranks *ranks, const char *allreduce, bool scratch, unsigned calls) {
    static const char *const slots[] = {"1", "4"}, *const banks[] = {"1", "2"};
    struct sequence s = {.ranks = ranks, .shared = 17, .scratch = scratch, .slow = -1};
    s.own = (unsigned)ranks->rank * 1000003u + 5;
    s.call = calloc(OUTSTANDING, sizeof *s.call);
    REQUIRE(s.call, "no memory");
    for (; s.unuseds < OUTSTANDING; s.unuseds++)
        s.unused[s.unuseds] = &s.call[s.unuseds];
    set_knob(ranks, "TUTTI_ALLREDUCE", allreduce);
    set_knob(ranks, "TUTTI_BCAST", "board");
    set_knob(ranks, "TUTTI_BARRIER", "board");
    set_knob(ranks, "TUTTI_SHARE", "4K");
    for (int i = 0; i < 4; i++) {
        set_knob(ranks, "TUTTI_BANKS", banks[i % 2]);
        set_knob(ranks, "TUTTI_RING", slots[i / 2]);
        set_knob(ranks, "TUTTI_SCRATCH", slots[i / 2]);
        rejoin(ranks);
        for (int part = 0; part < 4; part++) {
            s.slow = scratch ? (int)(next(&s.shared) % (unsigned)ranks->size) : -1;
            run(&s, calls / 4);
        }
    }
    free(s.call);
}

static void boards(struct ranks *ranks) {
    sequences(ranks, "flat", false, 600);
    sequences(ranks, "", false, 200);
}

static void scratch(struct ranks *ranks) {
    sequences(ranks, "two_phase", true, 300);
    sequences(ranks, "accumulate", true, 300);
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"boards", boards}, {"scratch", scratch}, {0}};
    return launched_main(argc, argv, tests);
}
