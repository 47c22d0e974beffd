/*
 * Schedules of the round-optimal broadcast of n blocks on the circulant graph: which block a rank
 * receives and sends in which round. Pure arithmetic. Ranks are relative to the root: v = 0 is the
 * root, v = (rank - root) mod p.
 *
 * In round k (mod q) rank v sends to v + s_k and receives from v - s_k. Entries are block numbers
 * relative to the phase of q rounds; negative ones belong to an earlier phase (see bcast_circulant.c).
 *
 * Source: J. L. Traeff, "Fast, Optimal, and Scalable Broadcast Schedules" and "Round-optimal n-Block
 * Broadcast Schedules in Logarithmic Time" (ACM TOPC, doi 10.1145/3735139).
 */
#ifndef TU_COLLECTIVES_SCHEDULE_H
#define TU_COLLECTIVES_SCHEDULE_H

#include "collectives/shape.h"

/* Index of the last skip when v is written as a sum of skips, largest first; q for the root. It is
 * the block that v receives first. */
uint32_t tu_base_block(const struct tu_skips *skips, uint32_t v);

/* block[0 .. q): what v receives in rounds 0 .. q - 1. One entry, the base block, is not negative
 * (v = 0: none). O(log p). */
void tu_receive_schedule(const struct tu_skips *skips, uint32_t v, int32_t *block);

/* block[0 .. q): what v sends. The root sends block k in round k; any other rank sends what its peer
 * receives. O(log^2 p). */
void tu_send_schedule(const struct tu_skips *skips, uint32_t v, int32_t *block);

#endif
