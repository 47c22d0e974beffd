/* Ranges of addresses or offsets that don't overlap, sorted. */
#ifndef TU_RUNTIME_RANGES_H
#define TU_RUNTIME_RANGES_H

#include <stdbool.h>
#include <stddef.h>

struct tu_range {
    size_t at, bytes; /* bytes > 0 */
};

/* All zero: none. */
struct tu_ranges {
    struct tu_range *range; /* [n], ascending */
    size_t n, room;
};

/* Place of the first range that starts at `at` or later; n if there is none. */
size_t tu_ranges_place(const struct tu_ranges *ranges, size_t at);

/* Whether a range starts right at `at`, and then its place. */
bool tu_ranges_find(const struct tu_ranges *ranges, size_t at, size_t *place);

/* Adds one at its place, as tu_ranges_place() tells it. False if there is no memory. */
bool tu_ranges_add(struct tu_ranges *ranges, size_t place, struct tu_range range);

void tu_ranges_remove(struct tu_ranges *ranges, size_t place);

void tu_ranges_free(struct tu_ranges *ranges);

#endif
