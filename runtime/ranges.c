/* A sorted array of ranges: what lies between two of them needs no record of its own. */
#include "runtime/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/memory.h"

enum { FIRST_ROOM = 16 };

size_t tu_ranges_place(const struct tu_ranges *ranges, size_t at) {
    size_t low = 0, high = ranges->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ranges->range[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool tu_ranges_find(const struct tu_ranges *ranges, size_t at, size_t *place) {
    *place = tu_ranges_place(ranges, at);
    return *place < ranges->n && ranges->range[*place].at == at;
}

static bool grow(struct tu_ranges *ranges) {
    size_t room = ranges->room ? 2 * ranges->room : FIRST_ROOM, bytes;
    void *memory =
        tu_multiply(room, sizeof *ranges->range, &bytes) ? realloc(ranges->range, bytes) : NULL;

    if (memory) {
        ranges->range = memory;
        ranges->room = room;
    }
    return memory != NULL;
}

bool tu_ranges_add(struct tu_ranges *ranges, size_t place, struct tu_range range) {
    if (ranges->n == ranges->room && !grow(ranges)) {
        return false;
    }
    memmove(&ranges->range[place + 1], &ranges->range[place],
            (ranges->n - place) * sizeof *ranges->range);
    ranges->range[place] = range;
    ranges->n++;
    return true;
}

void tu_ranges_remove(struct tu_ranges *ranges, size_t place) {
    ranges->n--;
    memmove(&ranges->range[place], &ranges->range[place + 1],
            (ranges->n - place) * sizeof *ranges->range);
}

void tu_ranges_free(struct tu_ranges *ranges) {
    free(ranges->range);
    *ranges = (struct tu_ranges){0};
}
