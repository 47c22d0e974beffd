/*
 * How far the cores of a node's ranks are from each other: does what one of them has just written come to
 * another out of a cache that both share, or out of the other's own? A core gets data of the second kind
 * more slowly than data that lies in memory, so writers then store past the caches.
 *
 * The host's topology would tell, if virtual machines told the truth about theirs and were never moved. So
 * it is measured: after every so many uses of boards' slots, each rank stores the number of its beat, and
 * loads that of another member. If that has come as far, it was stored a moment ago, and the load took what the way
 * takes. Who comes first finds an old number, and believes what the other one has found.
 */
#ifndef TU_TRANSPORT_DISTANCE_H
#define TU_TRANSPORT_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

struct tu_channels;

struct tu_distance {
    bool far;          /* the verdict */
    uint32_t uses;     /* of boards' slots since the last beat */
    uint32_t beat;     /* its number */
    uint32_t score;    /* rises with loads that took long, falls with others */
    uint64_t far_ns;   /* what is far */
    uint64_t clock_ns; /* what it takes to look at the clock */
};

void tu_distance_init(struct tu_distance *distance, uint64_t far_ns);

/* A call with so many uses of slots starts. Ranks make the same calls, so a beat is due for all of them. */
void tu_distance_count(struct tu_channels *channels, uint32_t uses);

#endif
