/*
 * Which ranks form a node: first by what they say of themselves (groups), then by who could really map
 * whose memory. Pure computation, the same on all ranks from the same input.
 */
#ifndef TU_RUNTIME_TOPOLOGY_NODES_H
#define TU_RUNTIME_TOPOLOGY_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/memory.h"

enum { TU_CARD_MAGIC = 0x74757474, TU_CARD_FORMAT = 1 };

/* What a rank says of itself. The fields up to `version` stay where they are in every format. */
struct tu_card {
    uint32_t magic;
    uint32_t format;
    int32_t status; /* not TUTTI_OK: this rank can't go on, and tells why in another exchange */
    uint32_t share; /* 0: wants to be a node of its own */
    char version[24];
    char host[64];
    char label[64];
    uint32_t launcher_node; /* UINT32_MAX: the launcher does not say */
    int32_t pid;
    uint64_t start_time;
    uint64_t pid_namespace;
    struct tu_shmem_blob window;
};
_Static_assert(sizeof(struct tu_card) == 320, "travels between ranks");
_Static_assert(offsetof(struct tu_card, version) == 16, "is read from other formats, too");

/*
 * Ranks that may share memory: same host, label and launcher's node. A group is a stretch of `order`,
 * by rank.
 */
struct tu_groups {
    uint32_t *order;  /* [size] ranks, group after group */
    uint32_t *first;  /* [size] of a rank: where its group starts in `order` */
    uint32_t *length; /* [size] of a rank: number of ranks in its group */
    uint32_t longest;
};

/* False: no memory. Released with tu_groups_free(), also after a failure. */
bool tu_groups_make(const struct tu_card *card, uint32_t size, struct tu_groups *groups);
void tu_groups_free(struct tu_groups *groups);

/* Words of a row of bits, one bit for each member of the longest group. */
uint32_t tu_groups_words(const struct tu_groups *groups);

/*
 * Splits every group into nodes: bit i of rank r's row (rows + r * stride, words of 64 bits) says that r
 * has mapped the i-th member of its group. Two ranks share memory if each has mapped the other; a node
 * is a set of ranks that all share memory with each other. The lowest rank left takes the others
 * that fit, in order of rank. node[r] = lowest rank of r's node. False: no memory.
 */
bool tu_groups_split(const struct tu_groups *groups, uint32_t size, const uint64_t *rows,
                     uint32_t stride, uint32_t *node);

#endif
