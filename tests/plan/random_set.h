/*
 * Random sets of plans, one for each rank: a few messages over edges and boards, of zero to a few
 * blocks, in nearly the same order on both sides, with random dependencies; arrivals that are copied,
 * folded and sent on, and so held for random times. About half of the sets end, with few slots. Every
 * scratch block is written once, and all of them are folded into the target in the end: what comes
 * out does not depend on the order in which steps run.
 */
#ifndef TU_TESTS_PLAN_RANDOM_SET_H
#define TU_TESTS_PLAN_RANDOM_SET_H

#include "collectives/plan_check.h"

enum {
    RANDOM_RANKS = 6,     /* at most: all of them are each other's base peers */
    RANDOM_MESSAGES = 64, /* at most, of a rank */
    RANDOM_BLOCKS = 64,
    RANDOM_LONGEST = 3, /* blocks of a message */
};

/* What one rank still has to do, in random order. */
struct random_todo {
    struct {
        enum tu_step_kind kind;
        uint32_t peer; /* the reader of a WRITE, the writer of a WAIT */
        bool board;
        uint32_t use; /* WAIT on a board */
    } step[RANDOM_MESSAGES];
    uint32_t steps;
};

struct random_set {
    uint64_t seed, random;
    uint32_t ranks;
    uint32_t label[RANDOM_RANKS]; /* of the node */
    struct tu_nodes *nodes;
    struct random_todo todo[RANDOM_RANKS];
    uint32_t board_uses[RANDOM_RANKS], readers[RANDOM_RANKS][RANDOM_MESSAGES];
    struct tu_plan *plan[RANDOM_RANKS];
};

/* The ranks and nodes follow from `world`, all else from both numbers. */
void random_set_make(struct random_set *set, uint64_t world, uint64_t seed);
void random_set_free(struct random_set *set);

/*
 * True if the checker finds no deadlock with the slots that a writer can rely on in a ring of that
 * length. Any other complaint is a failed assertion.
 */
bool random_set_ends(const struct random_set *set, uint32_t ring_slots, bool *by_reference);

/* The same for a writer that can rely on exactly so many slots. */
bool random_set_ends_with(const struct random_set *set, uint32_t slots);

#endif
