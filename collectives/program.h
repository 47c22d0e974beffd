/*
 * A program: a bound plan worked out for one bank and one length of slice. A plan names blocks; what
 * its steps move stands here in bytes and offsets, so that the executor has nothing left to compute.
 * A bank makes it when it first runs a plan at a length, and keeps it for the next call.
 */
#ifndef TU_COLLECTIVES_PROGRAM_H
#define TU_COLLECTIVES_PROGRAM_H

#include "collectives/bind.h"

/* A straight piece of memory. */
struct tu_move {
    uint32_t space; /* enum tu_space */
    uint32_t which; /* ARRIVED: the WAIT; NODE: the member that holds it */
    size_t offset;  /* from where the space, the arrival or the slot starts */
    size_t amount;  /* bytes; what a REDUCE writes: elements */
};

/* What a step does. Indices are those of the plan's steps. */
struct tu_op {
    uint8_t kind; /* enum tu_step_kind */
    uint8_t node; /* 1: touches node scratch */
    uint8_t idle; /* 1: a SHARE or SIGNAL that nobody reads */
    uint8_t dsts;
    uint8_t parts; /* COPY, REDUCE: 1, or 2 where the blocks wrap around */
    uint32_t index;
    uint32_t after_word[2];     /* where the bits of the steps stand that come before it */
    uint64_t bit, after_bit[2]; /* 0: none */
    uint32_t channel, use;      /* number of the use in a segment */
    uint32_t uses;              /* of the channel, per segment */
    union tu_ring ring;
    size_t bytes; /* of the message */
    /* WRITE, SHARE: the pieces, one after the other. COPY, REDUCE: for each part the destinations,
       then the operands */
    const struct tu_move *move;
    uint32_t moves; /* WRITE, SHARE: all; COPY, REDUCE: of a part */
    uint32_t users; /* WAIT: steps that name it */
    uint32_t drops; /* WAITs that this step names, each once */
    const uint32_t *drop;
};

struct tu_program {
    uint64_t serial; /* of the bound plan; 0: there is no program, or that of an unknown one */
    size_t elements, element_bytes;
    struct tu_op *op;     /* [plan->steps] */
    size_t scratch_bytes; /* private scratch of a slice */
    void *memory;
    size_t memory_bytes;
};

/* Is it the one for this? */
static inline bool tu_program_fits(const struct tu_program *program, const struct tu_bound *bound,
                                   size_t elements, size_t element_bytes) {
    return program->serial && program->serial == bound->serial && program->elements == elements &&
           program->element_bytes == element_bytes;
}

/* Replaces what was in `program`. TUTTI_ERR_MEMORY leaves none. */
tutti_status tu_program_make(struct tu_env *env, const struct tu_bound *bound, uint32_t bank,
                             size_t elements, size_t element_bytes, struct tu_program *program);
void tu_program_free(struct tu_program *program);

#endif
