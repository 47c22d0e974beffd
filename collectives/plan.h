/*
 * The plan: what one rank does in one collective, as a flat list of steps. A generator fills it, the
 * checker proves it, the executor runs it. A plan names blocks, channels and earlier steps; it knows
 * no addresses, no counts, no datatypes.
 *
 * BLOCKS. The executor runs a plan once per *segment*, a slice of the vector. A slice is seen as
 * `blocks` blocks:
 *   split      the slice is cut into `blocks` nearly equal parts (the first ones may be one element
 *              longer), so block b lies at the same place in source, target and scratch;
 *   replicate  every block is as long as the whole slice: block i is the contribution of rank i.
 *              Source and target hold one block each (whatever its number), scratch holds them all.
 * A range of blocks (first, n) counts upwards and wraps around inside its group of `wrap` blocks:
 * group g = [g * wrap, (g + 1) * wrap). n <= wrap, or the range is a number of whole groups. In a
 * message or a slot the blocks of a range lie packed, in the order of the range.
 *
 * CHANNELS. An edge has one writer and one reader; a board has one writer, and all other members of
 * its node (within the comm) may read it. Uses of a channel are numbered in plan order, from 0 in
 * each segment: the n-th WRITE of a to b pairs with the n-th WAIT of b on a, whatever the order in
 * which steps run. The n-th SHARE or SIGNAL of a pairs with the WAITs of use n on a's board. Every
 * rank's plan states the uses of every board of its node, those that it does not read included.
 *
 * STEPS may start when both steps in `after` are done and
 *   WRITE   the channel has a free slot; done when its source may be overwritten
 *   WAIT    the use has arrived
 *   SHARE   as WRITE, on a board; done at once if nobody reads it
 *   SIGNAL  as SHARE, with no blocks
 *   REDUCE, COPY  (node blocks: the scratch slot of the segment is free on every node member)
 * Any step that may start may run, in any order. A slot is given back when all steps that name its
 * WAIT are done (the WAIT itself, if none does).
 */
#ifndef TU_COLLECTIVES_PLAN_H
#define TU_COLLECTIVES_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum tu_step_kind { TU_WRITE, TU_WAIT, TU_SHARE, TU_SIGNAL, TU_REDUCE, TU_COPY };

enum tu_space {
    TU_SRC,     /* the caller's source; read only */
    TU_DST,     /* the caller's target (broadcast: the buffer, at the root as TU_SRC) */
    TU_SCRATCH, /* private to this call and segment */
    TU_ARRIVED, /* what the WAIT `step` brought; first, n: part of its range */
    TU_NODE,    /* node scratch: blocks [i * node_run, (i + 1) * node_run) lie at node member i */
};

enum { TU_NO_STEP = UINT32_MAX };

struct tu_ref {
    uint32_t space; /* enum tu_space */
    uint32_t step;  /* TU_ARRIVED: the WAIT */
    uint32_t first, n;
};

struct tu_step {
    uint8_t kind;      /* enum tu_step_kind */
    uint8_t dsts;      /* REDUCE: 1 or 2; COPY: 1 */
    uint16_t readers;  /* SHARE, SIGNAL: how many node peers WAIT for it */
    uint32_t channel;  /* WRITE, WAIT, SHARE, SIGNAL: index in plan->channel */
    uint32_t use;      /* ... and the number of the use in its segment */
    uint32_t after[2]; /* earlier steps, or TU_NO_STEP */
    uint32_t first, n; /* WRITE, WAIT, SHARE: blocks of the message (n = 0: only the flag) */
    /* plan->ref[arg .. arg + args): REDUCE: the operands, in fold order, each of the length of the
       destination; COPY: one; WRITE, SHARE: pieces that follow each other and make up the message */
    uint32_t arg, args;
    uint32_t users;       /* WAIT: how many steps name it (made by tu_plan_finish) */
    struct tu_ref dst[2]; /* REDUCE, COPY: SRC and ARRIVED are no destinations */
};

enum tu_channel_kind { TU_EDGE_OUT, TU_EDGE_IN, TU_BOARD_OUT, TU_BOARD_IN };

struct tu_plan_channel {
    uint32_t kind; /* enum tu_channel_kind */
    /* rank in the comm: the reader (EDGE_OUT), the writer (EDGE_IN, BOARD_IN), self (BOARD_OUT) */
    uint32_t peer;
    uint32_t uses; /* per segment */
};

/* A use of a peer's board that this rank does not read: given back when the segment starts. */
struct tu_plan_skip {
    uint32_t channel, use;
};

struct tu_plan {
    const char *algorithm; /* its one word; static storage */
    uint32_t rank, size;   /* in the comm */
    uint32_t blocks, wrap; /* see above */
    bool replicate;
    bool in_order;           /* operands by rank, any bracketing */
    bool left_fold;          /* ((x0 op x1) op x2) ... */
    uint32_t scratch_blocks; /* private scratch, blocks like those of the slice, from block 0 */
    uint32_t node_run; /* node scratch: blocks per node member, the same on all ranks; 0: none */
    /* Longest range of a WRITE or WAIT on an edge, and of a SHARE or WAIT on a board, of any rank:
       the vector is cut by them, so they are the same on all. tu_plan_finish() finds those of this
       rank; a generator whose ranks differ sets them before. */
    uint32_t message_blocks, share_blocks;
    uint32_t steps, refs, channels, skips;
    struct tu_step *step;
    struct tu_ref *ref;
    struct tu_plan_channel *channel;
    struct tu_plan_skip *skip;
    size_t bytes; /* of memory held, for the cache's bound (tu_plan_finish) */
};

/* ---- building: generators call these; memory failures are kept and told by tu_plan_finish ---- */

struct tu_builder {
    struct tu_plan plan;
    uint32_t step_room, ref_room, channel_room;
    uint32_t *slot;      /* hash table over the channels: index + 1, or 0 */
    uint32_t slots;      /* a power of two, or 0 */
    tutti_status status; /* the first failure; later calls do nothing */
};

void tu_builder_init(struct tu_builder *b, const char *algorithm, uint32_t rank, uint32_t size,
                     uint32_t blocks);

/* References, by value. */
struct tu_ref tu_src(uint32_t first, uint32_t n);
struct tu_ref tu_dst(uint32_t first, uint32_t n);
struct tu_ref tu_scratch(uint32_t first, uint32_t n);
struct tu_ref tu_node(uint32_t first, uint32_t n);
struct tu_ref tu_arrived(uint32_t wait, uint32_t first, uint32_t n);

/* Two dependencies; either may be TU_NO_STEP. */
struct tu_after {
    uint32_t a, b;
};

/*
 * Each appends a step and returns its index. Pieces and operands are copied. A channel is added to
 * the plan on first use, and the use gets the next number.
 */
uint32_t tu_write(struct tu_builder *b, uint32_t to, uint32_t first, uint32_t n,
                  const struct tu_ref *piece, uint32_t pieces, struct tu_after after);
uint32_t tu_wait(struct tu_builder *b, uint32_t from, uint32_t first, uint32_t n,
                 struct tu_after after);
uint32_t tu_share(struct tu_builder *b, uint32_t first, uint32_t n, const struct tu_ref *piece,
                  uint32_t pieces, uint32_t readers, struct tu_after after);
uint32_t tu_signal(struct tu_builder *b, uint32_t readers, struct tu_after after);
/* WAIT for use number `use` of the board of rank `of` */
uint32_t tu_wait_board(struct tu_builder *b, uint32_t of, uint32_t use, uint32_t first, uint32_t n,
                       struct tu_after after);
/* States that rank `of` uses its board `uses` times per segment in this plan. */
void tu_board_uses(struct tu_builder *b, uint32_t of, uint32_t uses);
uint32_t tu_reduce(struct tu_builder *b, struct tu_ref dst, const struct tu_ref *operand,
                   uint32_t operands, struct tu_after after);
uint32_t tu_reduce2(struct tu_builder *b, struct tu_ref dst, struct tu_ref also,
                    const struct tu_ref *operand, uint32_t operands, struct tu_after after);
uint32_t tu_copy(struct tu_builder *b, struct tu_ref dst, struct tu_ref src, struct tu_after after);

/*
 * Completes the plan (users, skips, longest messages, bytes), trims it into *plan, which the caller
 * frees with tu_plan_free(). On failure *plan is untouched and everything is freed.
 */
tutti_status tu_plan_finish(struct tu_builder *b, struct tu_plan **plan);
void tu_plan_free(struct tu_plan *plan);

/* ---- partition arithmetic, shared by executor, checker and cost model ------------------------ */

struct tu_partition {
    size_t base;     /* elements of a short block */
    uint32_t longer; /* the first `longer` blocks have one element more */
    uint32_t blocks;
};

struct tu_partition tu_partition_of(const struct tu_plan *plan, size_t slice_elements);

/* Blocks that follow each other without a wrap. */
struct tu_span {
    uint32_t first, n;
};

/* The range as the one or two spans that it consists of, in order; returns their number (n = 0: 0). */
static inline uint32_t tu_spans(const struct tu_plan *plan, uint32_t first, uint32_t n,
                                struct tu_span span[2]) {
    uint32_t to_end = plan->wrap - first % plan->wrap;

    span[0] = (struct tu_span){first, n};
    if (n <= to_end || n > plan->wrap)
        return n > 0;
    span[0].n = to_end;
    span[1] = (struct tu_span){first + to_end - plan->wrap, n - to_end};
    return 2;
}

/* Element offset of block b (b = blocks gives the end). */
static inline size_t tu_partition_at(const struct tu_partition *part, uint32_t b) {
    return b * part->base + (b < part->longer ? b : part->longer);
}

#endif
