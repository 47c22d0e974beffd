/*
 * Counted, shared vectors for the happens-before parts of the plan checker: most steps know exactly
 * what the step before them knew, so they share its vector, and a vector is used again once nobody
 * needs it. Clock 0 is the vector of zeros and is not counted.
 */
#ifndef TU_COLLECTIVES_PLAN_CHECK_CLOCK_H
#define TU_COLLECTIVES_PLAN_CHECK_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tu_clocks {
    uint32_t width; /* words of a vector */
    bool sets;      /* join is the union of bit sets, else the maximum of each word */
    bool failed;    /* memory ran out; what was returned since is meaningless */
    uint32_t *word;
    uint32_t *holders; /* of each clock; of a free one: the next free one */
    uint32_t room, free;
};

/* The vectors are freed by tu_clocks_free(), also after a failure. */
void tu_clocks_init(struct tu_clocks *clocks, uint32_t width, bool sets);
void tu_clocks_free(struct tu_clocks *clocks);

static inline const uint32_t *tu_clock_words(const struct tu_clocks *clocks, uint32_t clock) {
    return clocks->word + (size_t)clock * clocks->width;
}

void tu_clock_hold(struct tu_clocks *clocks, uint32_t clock, uint32_t times);
void tu_clock_drop(struct tu_clocks *clocks, uint32_t clock);

/* Both take over the caller's hold on their arguments, and the caller holds the result. */
uint32_t tu_clock_join(struct tu_clocks *clocks, uint32_t a, uint32_t b);
uint32_t tu_clock_with(struct tu_clocks *clocks, uint32_t clock, uint32_t word, uint32_t value);

#endif
