/* Groups of ranks that may share memory, and the nodes that they fall into. */
#define _GNU_SOURCE /* qsort_r */
#include "runtime/topology_nodes.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups -------------------------------------------------------------------------------- */

static int compare_cards(const struct tu_card *a, const struct tu_card *b) {
    int order = (a->share != 0) - (b->share != 0);

    if (order == 0) {
        order = strncmp(a->host, b->host, sizeof a->host);
    }
    if (order == 0) {
        order = strncmp(a->label, b->label, sizeof a->label);
    }
    if (order == 0) {
        order = (a->launcher_node > b->launcher_node) - (a->launcher_node < b->launcher_node);
    }
    return order;
}

static int compare_ranks(const void *a, const void *b, void *context) {
    const struct tu_card *card = context;
    uint32_t rank_a = *(const uint32_t *)a, rank_b = *(const uint32_t *)b;
    int order = compare_cards(&card[rank_a], &card[rank_b]);

    return order ? order : (rank_a > rank_b) - (rank_a < rank_b);
}

/* Those that don't share come first in the order, each a group of its own. */
static bool same_group(const struct tu_card *a, const struct tu_card *b) {
    return a->share && compare_cards(a, b) == 0;
}

static void note_group(struct tu_groups *groups, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        groups->first[groups->order[i]] = first;
        groups->length[groups->order[i]] = end - first;
    }
    if (end - first > groups->longest) {
        groups->longest = end - first;
    }
}

bool tu_groups_make(const struct tu_card *card, uint32_t size, struct tu_groups *groups) {
    uint32_t first = 0;

    *groups = (struct tu_groups){.order = tu_alloc(0, size, sizeof(uint32_t)),
                                 .first = tu_alloc(0, size, sizeof(uint32_t)),
                                 .length = tu_alloc(0, size, sizeof(uint32_t))};
    if (!groups->order || !groups->first || !groups->length) {
        return false;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        groups->order[rank] = rank;
    }
    qsort_r(groups->order, size, sizeof(uint32_t), compare_ranks, (void *)(uintptr_t)card);
    for (uint32_t i = 1; i <= size; i++) {
        if (i == size || !same_group(&card[groups->order[first]], &card[groups->order[i]])) {
            note_group(groups, first, i);
            first = i;
        }
    }
    return true;
}

void tu_groups_free(struct tu_groups *groups) {
    free(groups->order);
    free(groups->first);
    free(groups->length);
    *groups = (struct tu_groups){0};
}

uint32_t tu_groups_words(const struct tu_groups *groups) {
    return (groups->longest + 63) / 64;
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* One group under way. */
struct split {
    const uint32_t *member;
    uint32_t length;
    const uint64_t *rows;
    uint32_t stride;
};

static bool mapped(const struct split *split, uint32_t i, uint32_t j) {
    return split->rows[(size_t)split->member[i] * split->stride + j / 64] >> (j % 64) & 1;
}

/* Keeps of `fit` those members that share memory with member i. */
static void narrow(const struct split *split, uint32_t i, bool *fit) {
    for (uint32_t j = i + 1; j < split->length; j++) {
        fit[j] = fit[j] && mapped(split, i, j) && mapped(split, j, i);
    }
}

static void split_group(const struct split *split, bool *fit, uint32_t *node) {
    for (uint32_t i = 0; i < split->length; i++) {
        uint32_t founder = split->member[i];

        if (node[founder] != UINT32_MAX) {
            continue;
        }
        node[founder] = founder;
        for (uint32_t j = i + 1; j < split->length; j++) {
            fit[j] = node[split->member[j]] == UINT32_MAX;
        }
        narrow(split, i, fit);
        for (uint32_t j = i + 1; j < split->length; j++) {
            if (fit[j]) {
                node[split->member[j]] = founder;
                narrow(split, j, fit);
            }
        }
    }
}

bool tu_groups_split(const struct tu_groups *groups, uint32_t size, const uint64_t *rows,
                     uint32_t stride, uint32_t *node) {
    bool *fit = tu_alloc(0, groups->longest, sizeof *fit);

    if (!fit) {
        return false;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        node[rank] = UINT32_MAX;
    }
    for (uint32_t first = 0; first < size; first += groups->length[groups->order[first]]) {
        struct split split = {.member = groups->order + first,
                              .length = groups->length[groups->order[first]],
                              .rows = rows,
                              .stride = stride};

        split_group(&split, fit, node);
    }
    free(fit);
    return true;
}
