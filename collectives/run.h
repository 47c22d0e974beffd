/*
 * The executor. A run is one call under way in one bank of a comm: a bound plan, buffers, and the state
 * of the segments under way. tu_run_advance() starts what can start and returns when nothing moves; it
 * never blocks. Blocking and nonblocking calls run through it alike.
 */
#ifndef TU_COLLECTIVES_RUN_H
#define TU_COLLECTIVES_RUN_H

#include "collectives/kernels.h"
#include "collectives/program.h"

/* What a call asks for. */
struct tu_work {
    const void *source;
    void *target;
    size_t count;
    size_t element_bytes; /* 1 for a barrier */
    tu_kernel *fold;      /* NULL where nothing is reduced */
    tu_kernel *stream;    /* the same past the caches */
};

enum tu_run_state { TU_RUN_IDLE, TU_RUN_GOING, TU_RUN_DONE, TU_RUN_FAILED };

/* Where a run is stuck: when this line cell changes, another pass is worth while. */
struct tu_stuck {
    const uint8_t *cell;          /* NULL: none is known */
    struct tu_line_header header; /* what stands there */
    uint32_t more;                /* lines behind the cell's first that every look fetches too */
};

struct tu_run {
    enum tu_run_state state;
    struct tu_env *env;
    const struct tu_kernels *kernels;
    size_t stream_from;   /* targets of so many bytes are stored past the caches */
    uint32_t bank, width; /* W */
    /* of the call, which keeps them until the run is done or abandoned */
    const struct tu_work *work;
    struct tu_program *program;
    uint32_t fingerprint;
    /* (not of straight programs:) */
    uint32_t places;       /* segments that may be under way together in this call */
    uint32_t next_segment; /* to start */
    uint32_t next_place;   /* where: next_segment mod W */
    uint32_t segments_done;
    bool unsettled;        /* some ring owes its writer a credit that could not be sent */
    uint32_t scratch_base; /* number of segment 0's use of node scratch */
    struct tu_stuck stuck; /* after the last pass */
    /* memory of the caller that readers of the own board read in place: the call lasts until the last
       such use is given back; NULL: there is none */
    const struct tu_ring_out *lent;
    uint32_t lent_number;
    uint32_t culprit;     /* a mismatch: rank in the comm whose message does not fit */
    size_t scratch_bytes; /* private scratch, grown as plans need */
    uint8_t *scratch;
};

void tu_run_init(struct tu_run *run, struct tu_env *env, const struct tu_kernels *kernels,
                 size_t stream_from, uint32_t bank, uint32_t width);
void tu_run_free(struct tu_run *run);

/* Makes the program of this bank for calls like this one, and what it needs. */
tutti_status tu_run_prepare(struct tu_run *run, const struct tu_work *work,
                            const struct tu_bound *bound, const struct tu_cut *cut,
                            struct tu_program *program);

/* Starts a call in this bank, which must be idle. Takes its numbers on every channel. */
void tu_run_start(struct tu_run *run, const struct tu_work *work, uint32_t fingerprint,
                  struct tu_program *program);

/* Does what can be done. Returns how many steps moved; looks at run->state for the rest. */
uint32_t tu_run_advance(struct tu_run *run);

/* Ends a call where it stands, if it is not done: nothing is written any more. */
void tu_run_end(struct tu_run *run);

/*
 * Ranks (in the comm) that the run waits for now: writes at most `room`, returns how many there are.
 */
uint32_t tu_run_awaited(const struct tu_run *run, uint32_t *rank, uint32_t room);

/* ---- for the executor itself ---- */

/* Number of the use of a channel by a step of this segment. */
static inline uint32_t tu_run_number(const struct tu_segment *segment, const struct tu_op *op) {
    return op->series->base + segment->number * op->uses + op->use;
}

/* Gives a use back, and tells its writer if it is time. */
static inline void tu_run_give_back(struct tu_run *run, struct tu_ring_in *ring, uint32_t number) {
    tu_ring_give_back(ring, number);
    if (tu_ring_owes(ring) && tu_ring_settle(ring) == TU_AGAIN)
        run->unsettled = true;
}

#endif
