/*
 * Counters: what a call sends is exactly what its plan says. Credit cells are counted apart.
 */
#include "launched.h"

enum { CALLS = 1000, HALF_QUEUE = 64 };

static tutti_counters counters(struct ranks *ranks) {
    tutti_counters c = {.size = sizeof c};
    SUCCEED(tutti_get_counters(ranks->job, &c));
    return c;
}

static void run(struct ranks *ranks, size_t count, int calls) {
    static double source[1024], target[1024];
    for (int i = 0; i < calls; i++)
        SUCCEED(tutti_allreduce(source, target, count, TUTTI_F64, TUTTI_SUM, ranks->world));
}

/* On a node, 8 bytes: one line per rank and call, whatever the number of ranks. */
static void node(struct ranks *ranks) {
    run(ranks, 1, 10);
    tutti_counters a = counters(ranks);
    run(ranks, 1, CALLS);
    tutti_counters b = counters(ranks);
    REQUIRE(b.lines - a.lines == (ranks->size > 1 ? CALLS : 0), "%llu lines",
            (unsigned long long)(b.lines - a.lines));
    REQUIRE(b.writes == a.writes && b.requests == a.requests && b.doorbells == a.doorbells,
            "more than lines was sent");
    REQUIRE(b.bytes - a.bytes == 8 * (b.lines - a.lines), "%llu bytes",
            (unsigned long long)(b.bytes - a.bytes));
}

/* 2 ranks over verbs, 8 bytes: one inline request each, completions once per half queue only. */
static void wire(struct ranks *ranks) {
    REQUIRE(ranks->size == 2, "the test is for 2 ranks");
    run(ranks, 1, 10);
    tutti_counters a = counters(ranks);
    run(ranks, 1, CALLS);
    tutti_counters b = counters(ranks);
    unsigned long long requests = b.requests - a.requests, cells = b.cells - a.cells;
    REQUIRE(b.lines - a.lines == CALLS, "%llu lines", (unsigned long long)(b.lines - a.lines));
    REQUIRE(requests - cells == CALLS, "%llu requests, %llu of them cells", requests, cells);
    REQUIRE(b.doorbells - a.doorbells == requests, "not a doorbell each");
    REQUIRE(b.writes == a.writes && b.receives == a.receives, "more than lines was sent");
    REQUIRE(b.completions - a.completions <= requests / HALF_QUEUE + 1, "%llu completions",
            (unsigned long long)(b.completions - a.completions));
    /* credits: at most one for each half ring of 4 slots */
    REQUIRE(cells <= CALLS / 2 + 1, "%llu cells", cells);
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"node", node}, {"wire", wire}, {0}};
    return launched_main(argc, argv, tests);
}
