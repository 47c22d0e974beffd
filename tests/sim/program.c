/* Drawing random programs: see program.h. They are run in program_run.c. */
#include "tests/sim/program.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/random.h"

/* Where lines end, where blocks of a line end, and in between. */
static size_t draw_count(uint64_t *random, uint32_t ranks, size_t most) {
    static const size_t fixed[] = {0, 1, 2, 3, 7, 8, 14, 15, 16, 28, 29};
    size_t count;

    switch (sim_below(random, 8)) {
    case 0:
    case 1:
    case 2:
        count = fixed[sim_below(random, sizeof fixed / sizeof *fixed)];
        break;
    case 3:
        count = (size_t)ranks * (sim_below(random, 2) ? 14 : 7) + sim_below(random, 3) - 1;
        break;
    case 4:
        count = sim_below(random, 64);
        break;
    case 5:
        count = sim_below(random, 600);
        break;
    default:
        count = sim_below(random, (uint32_t)most + 1);
    }
    return count < most ? count : most;
}

void program_draw_values(struct value_kind *values, uint64_t *random) {
    values->seed = sim_random(random);
    values->type = (tutti_type)sim_below(random, 4);
    values->op = (tutti_op)sim_below(random, values->type >= TUTTI_F32 ? 4 : 10);
    values->rough = sim_below(random, 2);
}

static void draw_call(struct program *program, uint64_t *random, struct op *op, size_t bytes) {
    uint32_t which = sim_below(random, 8);

    op->kind = OP_CALL;
    op->call = which == 0  ? TUTTI_CALL_BARRIER
               : which < 4 ? TUTTI_CALL_BCAST
                           : TUTTI_CALL_ALLREDUCE;
    program_draw_values(&op->values, random);
    op->count = draw_count(random, program->ranks, bytes / tutti_type_size(op->values.type));
    op->root = (int)sim_below(random, program->ranks);
}

struct open_comms {
    bool open[PROGRAM_COMMS];
};

static uint32_t draw_comm(const struct open_comms *comms, uint64_t *random) {
    uint32_t comm = sim_below(random, PROGRAM_COMMS);
    return comms->open[comm] ? comm : 0;
}

static void draw_op(struct program *program, uint64_t *random, struct open_comms *comms,
                    const struct program_limits *limits, struct op *op) {
    uint32_t comm = draw_comm(comms, random), other = sim_below(random, PROGRAM_COMMS);

    op->comm = comm;
    if (limits->comms && !comms->open[other] && sim_chance(random, 200)) {
        op->kind = OP_DUP;
        op->other = other;
        comms->open[other] = true;
    } else if (comm > 0 && sim_chance(random, 150)) {
        op->kind = OP_FREE;
        comms->open[comm] = false;
    } else {
        draw_call(program, random, op, limits->bytes);
    }
}

void program_make(struct program *program, uint64_t seed, uint32_t ranks,
                  const struct program_limits *limits) {
    uint64_t random = sim_stream(seed, 3);
    struct open_comms comms = {.open = {true}};

    memset(program, 0, sizeof *program);
    program->seed = seed;
    program->ranks = ranks;
    program->ops = 1 + sim_below(&random, limits->ops);
    assert(program->ops <= PROGRAM_OPS);
    program->naps = sim_below(&random, 3) ? 0 : sim_below(&random, 256);
    program->nap_ns = UINT64_C(1) << (10 + sim_below(&random, 14));
    for (uint32_t i = 0; i < program->ops; i++)
        draw_op(program, &random, &comms, limits, &program->op[i]);
    for (uint32_t i = 0; i + 1 < program->ops; i++) {
        struct op *op = &program->op[i], *next = op + 1;
        op->swap = op->kind == OP_CALL && next->kind == OP_CALL && op->comm != next->comm &&
                   sim_below(&random, 2);
    }
}

void program_free(struct program *program) {
    for (uint32_t i = 0; i < program->ops; i++)
        free(program->op[i].result);
}
