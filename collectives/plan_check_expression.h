/*
 * Expressions over the contributions of ranks, each stored once: the leaf of rank r is number r + 1,
 * a fold (a op b) has the next free number unless it is there already. 0 is no expression.
 */
#ifndef TU_COLLECTIVES_PLAN_CHECK_EXPRESSION_H
#define TU_COLLECTIVES_PLAN_CHECK_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

struct tu_expressions {
    uint32_t ranks;
    bool failed; /* memory ran out; results since then are meaningless */
    uint32_t folds, room;
    struct tu_expression *fold; /* [folds] */
    uint32_t *slot;             /* hash table: fold + 1, or 0 */
    uint32_t slots;             /* a power of two */
    uint32_t *todo, *seen;      /* of tu_expression_facts() */
    uint32_t seen_by;
};

struct tu_expression_facts {
    bool each_once;   /* each rank occurs once; else one of: */
    uint32_t missing; /* a rank that does not occur, else UINT32_MAX */
    uint32_t twice;   /* a rank that occurs more than once, UINT32_MAX if it is not known which */
    bool in_order;    /* by rank (means nothing unless each_once) */
    bool left_fold;   /* ((x0 op x1) op x2) ... (likewise) */
};

bool tu_expressions_init(struct tu_expressions *x, uint32_t ranks);
void tu_expressions_free(struct tu_expressions *x);

static inline uint32_t tu_leaf(uint32_t rank) {
    return rank + 1;
}

uint32_t tu_fold(struct tu_expressions *x, uint32_t a, uint32_t b);
struct tu_expression_facts tu_expression_facts(struct tu_expressions *x, uint32_t value);

#endif
