/* Counted, shared vectors: see the header. */
#include "collectives/plan_check_clock.h"

#include <stdlib.h>
#include <string.h>

void tu_clocks_init(struct tu_clocks *clocks, uint32_t width, bool sets) {
    *clocks = (struct tu_clocks){.width = width, .sets = sets};
}

void tu_clocks_free(struct tu_clocks *clocks) {
    free(clocks->word);
    free(clocks->holders);
    clocks->word = clocks->holders = NULL;
}

static bool grow(struct tu_clocks *clocks) {
    uint32_t room = clocks->room ? clocks->room * 2 : 64;
    size_t bytes = (size_t)room * clocks->width * sizeof(uint32_t);
    uint32_t *word = realloc(clocks->word, bytes);
    uint32_t *holders = realloc(clocks->holders, room * sizeof(uint32_t));

    clocks->word = word ? word : clocks->word;
    clocks->holders = holders ? holders : clocks->holders;
    if (!word || !holders) {
        clocks->failed = true;
        return false;
    }
    if (clocks->room == 0) {
        memset(word, 0, clocks->width * sizeof(uint32_t));
        clocks->room = 1;
    }
    for (uint32_t i = room; i-- > clocks->room;) {
        holders[i] = clocks->free;
        clocks->free = i;
    }
    clocks->room = room;
    return true;
}

/* A clock with one holder and undefined words; 0 if memory is out. */
static uint32_t take(struct tu_clocks *clocks) {
    if (clocks->failed || (clocks->free == 0 && !grow(clocks)))
        return 0;
    uint32_t clock = clocks->free;
    clocks->free = clocks->holders[clock];
    clocks->holders[clock] = 1;
    return clock;
}

void tu_clock_hold(struct tu_clocks *clocks, uint32_t clock, uint32_t times) {
    if (clock != 0)
        clocks->holders[clock] += times;
}

void tu_clock_drop(struct tu_clocks *clocks, uint32_t clock) {
    if (clock == 0 || --clocks->holders[clock] > 0)
        return;
    clocks->holders[clock] = clocks->free;
    clocks->free = clock;
}

/* to := join of a and b; tells by 1 that it equals a, by 2 that it equals b, by 3 both. */
static int join_words(const struct tu_clocks *clocks, uint32_t *to, const uint32_t *a,
                      const uint32_t *b) {
    uint32_t not_a = 0, not_b = 0;

    for (uint32_t i = 0; i < clocks->width; i++) {
        uint32_t most = a[i] > b[i] ? a[i] : b[i];
        to[i] = clocks->sets ? a[i] | b[i] : most;
        not_a |= to[i] ^ a[i];
        not_b |= to[i] ^ b[i];
    }
    return (not_a == 0) | (not_b == 0) << 1;
}

uint32_t tu_clock_join(struct tu_clocks *clocks, uint32_t a, uint32_t b) {
    if (a == b || b == 0) {
        tu_clock_drop(clocks, b);
        return a;
    }
    if (a == 0)
        return b;
    uint32_t joined = take(clocks);
    if (joined == 0)
        return 0;
    uint32_t *to = clocks->word + (size_t)joined * clocks->width;
    int equal = join_words(clocks, to, tu_clock_words(clocks, a), tu_clock_words(clocks, b));
    uint32_t result = equal & 1 ? a : equal & 2 ? b : joined;
    tu_clock_hold(clocks, result, 1);
    tu_clock_drop(clocks, a);
    tu_clock_drop(clocks, b);
    tu_clock_drop(clocks, joined);
    return result;
}

uint32_t tu_clock_with(struct tu_clocks *clocks, uint32_t clock, uint32_t word, uint32_t value) {
    if (clock != 0 && tu_clock_words(clocks, clock)[word] == value)
        return clock;
    uint32_t changed = take(clocks); /* may move the words, and makes clock 0 at first */
    if (changed == 0)
        return 0;
    uint32_t *to = clocks->word + (size_t)changed * clocks->width;
    memcpy(to, tu_clock_words(clocks, clock), clocks->width * sizeof(*to));
    to[word] = value;
    tu_clock_drop(clocks, clock);
    return changed;
}
