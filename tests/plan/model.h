/*
 * A tiny model of executor and channels, written apart from both, that runs plans the way the worst
 * machine would: it picks any event that may happen next, operands are read and targets written one
 * after the other, messages and credits take as long as they like, slots are really shared. What the
 * checker calls right must come out right here, whatever the seed.
 */
#ifndef TU_TESTS_PLAN_MODEL_H
#define TU_TESTS_PLAN_MODEL_H

#include "collectives/plan_check.h"

enum { MODEL_RANKS = 16 }; /* at most */

struct model_options {
    uint32_t ring_slots;
    bool flush;        /* credits are told at once, else when they lag half a ring */
    bool by_reference; /* readers of a board read the source itself */
    bool in_place;
    uint64_t seed;
};

enum model_end { MODEL_RIGHT, MODEL_DEADLOCK, MODEL_WRONG };

/* check: collective, nodes, root, claims; its ring_slots are not used. text: what is wrong. With
 * structure_only, values are not looked at. */
enum model_end model_run(const struct tu_plan *const *plan, const struct tu_check *check,
                         const struct model_options *options, char text[256]);

/* The random numbers of the tests of plans. */
uint64_t model_random(uint64_t *state, uint64_t below);

#endif
