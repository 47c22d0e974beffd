/* Who waits for whom: what a simulation says when nothing moves any more. */
#include <stdarg.h>
#include <stdio.h>

#include "api/job.h"
#include "tests/sim/ranks.h"

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t added = n < 0 ? 0 : (size_t)n < text->left ? (size_t)n : text->left - 1;
    text->at += added;
    text->left -= added;
}

static void add_bank(struct text *text, const tutti_comm *comm, uint32_t b) {
    static const char *const collective[TU_COLLECTIVES] = {"barrier", "bcast", "allreduce"};
    const struct tu_run *run = &comm->bank[b].run;
    const struct tu_call *call = comm->bank[b].call;
    uint32_t rank[8];

    add(text, " {comm %u bank %u call %llu %s %s of %llu root %d, segment %u of %u, waits for",
        comm->id, b, (unsigned long long)call->number,
        collective[tu_kind_collective(call->task->what.kind)],
        call->task->prepared->plan->algorithm->name, (unsigned long long)call->task->what.count,
        call->task->what.root, run->segments_done, run->program->cut->segments);
    uint32_t n = tu_run_awaited(run, rank, 8);
    for (uint32_t i = 0; i < n && i < 8; i++)
        add(text, " %u", rank[i]);
    add(text, "%s}", n == 0 ? " room" : n > 8 ? " ..." : "");
}

void sim_report(const struct sim *sim, char *text, size_t bytes) {
    static const char *const state[] = {"in", "asleep", "gathers", "over"};
    struct text to = {text, bytes};

    for (uint32_t r = 0; r < sim->settings.ranks; r++) {
        const struct sim_rank *rank = &sim->rank[r];
        add(&to, "\n  rank %u %s", r, state[rank->state]);
        for (const tutti_comm *comm = rank->job ? rank->job->active : NULL; comm;
             comm = comm->next_active)
            for (uint32_t b = 0; b < comm->banks; b++)
                if (comm->bank[b].call)
                    add_bank(&to, comm, b);
    }
}
