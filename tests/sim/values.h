/*
 * What calls of the simulation send, and what must come out: every value follows from the call's seed,
 * the rank and the place, so that expected results are computed without a message.
 */
#ifndef TU_TESTS_SIM_VALUES_H
#define TU_TESTS_SIM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct value_kind {
    uint64_t seed;
    tutti_type type;
    tutti_op op;
    bool rough; /* floating point that rounds, or has NaN and zeros of both signs */
};

/* Fills `count` elements with what `rank` contributes. */
void values_fill(const struct value_kind *kind, uint32_t rank, void *to, size_t count);

/* Are these the elements that `rank` contributes? */
bool values_equal(const struct value_kind *kind, uint32_t rank, const void *got, size_t count);

/*
 * Can this be the result of the reduction over that many ranks? Exactly for integers and what does
 * not round, else within what rounding can do. *wrong is set to the first element that is not.
 */
bool values_reduced(const struct value_kind *kind, uint32_t ranks, const void *got, size_t count,
                    size_t *wrong);

#endif
