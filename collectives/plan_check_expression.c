/* Expressions over the contributions of ranks, each stored once: see the header. */
#include "collectives/plan_check_expression.h"

#include <stdlib.h>

struct tu_expression {
    uint32_t a, b;
};

bool tu_expressions_init(struct tu_expressions *x, uint32_t ranks) {
    *x = (struct tu_expressions){.ranks = ranks, .room = 1024, .slots = 4096};
    x->fold = malloc(x->room * sizeof(*x->fold));
    x->slot = calloc(x->slots, sizeof(*x->slot));
    x->todo = malloc((ranks + (size_t)2) * sizeof(*x->todo));
    x->seen = calloc(ranks + (size_t)1, sizeof(*x->seen));
    return x->fold && x->slot && x->todo && x->seen;
}

void tu_expressions_free(struct tu_expressions *x) {
    free(x->fold);
    free(x->slot);
    free(x->todo);
    free(x->seen);
}

static uint32_t *find(const struct tu_expressions *x, uint32_t a, uint32_t b) {
    uint64_t hash = (((uint64_t)a << 32) | b) * 0x9e3779b97f4a7c15u;
    uint32_t mask = x->slots - 1, at = (uint32_t)(hash >> 32) & mask;

    while (x->slot[at]) {
        const struct tu_expression *fold = &x->fold[x->slot[at] - 1];
        if (fold->a == a && fold->b == b)
            break;
        at = (at + 1) & mask;
    }
    return &x->slot[at];
}

/* Doubles the room; the hash table stays a quarter full at most. */
static bool grow(struct tu_expressions *x) {
    struct tu_expression *fold = realloc(x->fold, (size_t)x->room * 2 * sizeof(*fold));
    uint32_t *slot = calloc((size_t)x->slots * 2, sizeof(*slot));

    x->fold = fold ? fold : x->fold;
    if (!fold || !slot || x->room > UINT32_MAX / 8) {
        free(slot);
        x->failed = true;
        return false;
    }
    free(x->slot);
    x->slot = slot;
    x->slots *= 2;
    x->room *= 2;
    for (uint32_t i = 0; i < x->folds; i++)
        *find(x, fold[i].a, fold[i].b) = i + 1;
    return true;
}

uint32_t tu_fold(struct tu_expressions *x, uint32_t a, uint32_t b) {
    if (x->failed || (x->folds == x->room && !grow(x)))
        return 0;
    uint32_t *slot = find(x, a, b);
    if (!*slot) {
        x->fold[x->folds++] = (struct tu_expression){a, b};
        *slot = x->folds;
    }
    return x->ranks + *slot;
}

/* Walks the leaves from the left, up to one that was there before. Returns their number, or
 * UINT32_MAX if it came upon such a one.
 *
 * Each open branch holds a leaf at least, so more open branches than ranks mean a rank that occurs
 * twice; hence the walk ends after 2 * ranks nodes, however large the expression is. */
static uint32_t walk(struct tu_expressions *x, uint32_t value, struct tu_expression_facts *facts) {
    uint32_t todo = 0, leaves = 0;

    x->seen_by++;
    x->todo[todo++] = value;
    while (todo > 0) {
        uint32_t at = x->todo[--todo];
        if (at > x->ranks) {
            const struct tu_expression *fold = &x->fold[at - x->ranks - 1];
            if (todo == x->ranks)
                return UINT32_MAX;
            facts->left_fold = facts->left_fold && fold->b <= x->ranks;
            x->todo[todo++] = fold->b;
            x->todo[todo++] = fold->a;
            continue;
        }
        if (x->seen[at - 1] == x->seen_by) {
            facts->twice = at - 1;
            return UINT32_MAX;
        }
        x->seen[at - 1] = x->seen_by;
        facts->in_order = facts->in_order && at == tu_leaf(leaves);
        leaves++;
    }
    return leaves;
}

struct tu_expression_facts tu_expression_facts(struct tu_expressions *x, uint32_t value) {
    struct tu_expression_facts facts = {
        .missing = UINT32_MAX, .twice = UINT32_MAX, .in_order = true, .left_fold = true};
    uint32_t leaves = walk(x, value, &facts);

    facts.each_once = leaves == x->ranks;
    for (uint32_t r = 0; r < x->ranks && leaves < x->ranks; r++)
        if (x->seen[r] != x->seen_by)
            facts.missing = r;
    facts.left_fold = facts.left_fold && facts.in_order;
    return facts;
}
