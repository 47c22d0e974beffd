/*
 * A program: a bound plan worked out for one bank and one cut. A plan names blocks; what its steps move
 * stands here in bytes and offsets, so that the executor has nothing left to compute. Beside it lies the
 * state of the slices under way. A bank makes it when it first runs a call of some size; it is kept with
 * what was prepared for such calls (cache.h).
 */
#ifndef TU_COLLECTIVES_PROGRAM_H
#define TU_COLLECTIVES_PROGRAM_H

#include "collectives/bind.h"
#include "collectives/step.h"

enum { TU_MAX_SEGMENTS = 4 };

/* A straight piece of memory. */
struct tu_move {
    uint32_t base; /* where it counts from: index in a segment's `base` */
    size_t offset;
    size_t amount; /* bytes; what a REDUCE writes: elements */
};

/* Bases of a segment: source, target and private scratch come first (enum tu_space), then the arrivals of
   all steps, then the node members' slots of scratch. */
static inline uint32_t tu_base_arrived(uint32_t step) {
    return TU_SCRATCH + 1 + step;
}

static inline uint32_t tu_base_node(const struct tu_plan *plan, uint32_t member) {
    return TU_SCRATCH + 1 + plan->steps + member;
}

/* Numbers of a channel. */
struct tu_series {
    uint32_t *next; /* the ring's: number of the next call's first use */
    uint32_t take;  /* numbers that a call takes */
    uint32_t base;  /* number of segment 0's first use */
};

/* Is a SHARE to lend its source's memory instead of copying it: may nothing write there in this call? */
enum tu_lend { TU_LEND_NEVER, TU_LEND_APART, /* if source and target are not the same */ TU_LEND };

/* What is given back when a step is done. */
enum tu_give {
    TU_GIVE_NOTHING,
    TU_GIVE_ONE, /* its one arrival, which no other step uses */
    TU_GIVE_SOME,
};

/* What a step does. Indices are those of the plan's steps. */
struct tu_op {
    tu_step_fn *try;
    uint8_t kind; /* enum tu_step_kind */
    uint8_t node; /* 1: touches node scratch */
    uint8_t idle; /* 1: a SHARE or SIGNAL that nobody reads */
    uint8_t dsts;
    uint8_t parts; /* COPY, REDUCE: 1, or 2 where the blocks wrap around */
    bool far;      /* some step of another word comes before it */
    uint8_t lend;  /* enum tu_lend */
    bool stream;   /* COPY, REDUCE to the target: past the caches */
    uint8_t gives; /* enum tu_give */
    bool one_way; /* this rank only sends in this plan, or only receives: the writer may be ahead */
    uint32_t index;
    /* steps that come before it: bits in its own word of 64, or indices (TU_NO_STEP: none) */
    uint64_t after;
    uint32_t after_far[2];
    const struct tu_series *series; /* of its channel */
    uint32_t use, uses; /* number of the use in a segment, and uses of the channel per segment */
    union tu_ring ring;
    size_t bytes; /* of the message */
    /* WRITE, SHARE: the pieces, one after the other. COPY, REDUCE: for each part the destinations,
       then the operands */
    const struct tu_move *move;
    const uint32_t *drop;  /* WAITs that this step names, each once */
    uint32_t moves, drops; /* WRITE, SHARE: moves of all; COPY, REDUCE: of a part */
    uint32_t users;        /* WAIT: steps that name it */
    uint32_t channel;
} __attribute__((aligned(128)));

/* One slice under way. */
struct tu_segment {
    bool active;
    bool node_free;     /* this segment's node scratch may be used */
    uint32_t number;    /* in the call */
    uint32_t node_left; /* steps that touch node scratch */
    uint32_t skip;      /* skips before this one were given back */
    const struct tu_op *op;
    const struct tu_op *next; /* straight programs: all before it are done, others not; else: */
    uint64_t *done; /* bit i of word i / 64: step i is done; those past the last step are set */
    /* WAITs of several users: steps that still need the arrival; put back when there are none */
    uint32_t *users;
    uint8_t **base;
};

/*
 * A program is *straight* if its steps may be taken one by one, in plan order, and nobody waits longer for
 * it: it has one slice; whatever comes behind a WAIT needs it, directly or not, or is another WAIT; and
 * messages that are sent need those sent before, so that a peer without room holds up no other one. Then a
 * step is ready when those in front of it are done. Calls of small vectors on a node are mostly such.
 */
struct tu_program {
    bool straight; /* see above */
    bool slots;    /* messages over a wire lie in slots, whose places may have to be told */
    bool shares;   /* boards have data in slots, which other cores read */
    const struct tu_bound *bound;
    const struct tu_cut *cut;
    struct tu_op *op[2];   /* [plan->steps] of all slices but the last, and of the last */
    uint32_t steps, words; /* steps, and words of bits of them */
    uint32_t channels, skips, node_steps;       /* of the plan */
    uint64_t beyond;                            /* bits of the last word that stand for no step */
    struct tu_series *series;                   /* [plan->channels] */
    const void **operand;                       /* [most operands of a step] */
    struct tu_segment segment[TU_MAX_SEGMENTS]; /* slices that may be under way together: W */
    size_t scratch_bytes;                       /* private scratch of a slice */
    void *memory;                               /* NULL: there is no program */
};

/* Makes it for bank `bank` and up to `width` slices under way; `stream`: the target is stored past the
   caches. TUTTI_ERR_MEMORY leaves none. */
tutti_status tu_program_make(struct tu_env *env, const struct tu_bound *bound,
                             const struct tu_cut *cut, size_t element_bytes, bool stream,
                             uint32_t bank, uint32_t width, struct tu_program *program);
void tu_program_free(struct tu_program *program);

#endif
