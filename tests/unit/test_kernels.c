/*
 * Every variant of every kernel against a plain reference, bit by bit: all numbers of operands, all
 * short counts, special values, any alignment, in place, with the second destination, in and past the
 * caches; what lies around the arrays must stay as it is.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectives/kernels.h"
#include "collectives/kernels_choice.h"
#include "capture.h"
#include "kernels_reference.h"
#include "kernels_values.h"

enum {
    OPERANDS = 20,
    ELEMENTS = 8192,
    GUARD = 64,      /* bytes before and after every array */
    ALIGNMENTS = 64, /* arrays start at any of so many offsets */
    AREA = GUARD + ALIGNMENTS + ELEMENTS * 8 + GUARD,
    FILL = 0xA5,
};

/* ---- one call ----------------------------------------------------------------------------- */

struct bench {
    tutti_type type;
    unsigned char *source[OPERANDS]; /* what the operands hold */
    unsigned char *expected;
    unsigned char *area[OPERANDS + 2]; /* the operands of a call, then out, then also */
    size_t offset[OPERANDS + 2];       /* where the arrays start in their areas */
    unsigned char fill[GUARD + ALIGNMENTS];
    uint64_t random;
};

enum { OWN = -1, NONE = -2 }; /* a destination that is no operand, and no destination */

struct call {
    int op;
    int n;
    size_t count;
    int out, also; /* an operand, OWN or NONE */
};

/* The variants, and one more: bodies of 64 bytes in whatever instructions the compiler has for them. */
extern const struct tu_kernels tu_kernels_wide;

static uint64_t draw(struct bench *b) {
    return draw_word(&b->random);
}

static void open_bench(struct bench *b, tutti_type type) {
    *b = (struct bench){.type = type, .random = 1 + type};
    memset(b->fill, FILL, sizeof(b->fill));
    b->expected = malloc(ELEMENTS * 8);
    for (int k = 0; k < OPERANDS + 2; k++) {
        b->area[k] = malloc(AREA);
        cr_assert(b->area[k] && b->expected);
    }
    for (int k = 0; k < OPERANDS; k++) {
        b->source[k] = malloc(ELEMENTS * 8);
        cr_assert(b->source[k]);
        for (size_t i = 0; i < ELEMENTS; i++) {
            put(type, b->source[k], i, draw_value(type, &b->random));
        }
    }
}

static void close_bench(struct bench *b) {
    free(b->expected);
    for (int k = 0; k < OPERANDS + 2; k++) {
        free(b->area[k]);
    }
    for (int k = 0; k < OPERANDS; k++) {
        free(b->source[k]);
    }
}

static void expect(struct bench *b, tutti_op op, int n, size_t count) {
    const uint64_t mask = UINT64_MAX >> (64 - 8 * tu_type_bytes(b->type));

    for (size_t i = 0; i < count; i++) {
        uint64_t x = get(b->type, b->source[0], i);

        for (int k = 1; k < n; k++) {
            x = reference(b->type, op, x, get(b->type, b->source[k], i)) & mask;
        }
        put(b->type, b->expected, i, x);
    }
}

static unsigned char *array(struct bench *b, int k) {
    return b->area[k] + GUARD + b->offset[k];
}

/* Whether an area holds just these bytes at its array and the filling around it. */
static int holds(struct bench *b, int k, const unsigned char *bytes, size_t n) {
    const unsigned char *p = b->area[k];
    const size_t before = GUARD + b->offset[k];

    return memcmp(p, b->fill, before) == 0 && memcmp(p + before, bytes, n) == 0 &&
           memcmp(p + before + n, b->fill, GUARD) == 0;
}

/* The area of a destination: of an operand, or its own. */
static int place(int destination, int own) {
    return destination == OWN ? own : destination;
}

/* Fresh operands and destinations, at the offsets that b says. */
static void prepare(struct bench *b, int n, size_t bytes) {
    for (int k = 0; k < OPERANDS + 2; k++) {
        if (k < n || k >= OPERANDS) {
            memset(b->area[k], FILL, GUARD + b->offset[k] + bytes + GUARD);
        }
        if (k < n) {
            memcpy(array(b, k), b->source[k], bytes);
        }
    }
}

/* Runs one call; b->expected must hold its result (or that of a longer one). */
static void check(struct bench *b, const char *name, tu_kernel *kernel, struct call c) {
    const size_t bytes = c.count * tu_type_bytes(b->type);
    const int out = place(c.out, OPERANDS), also = place(c.also, OPERANDS + 1);
    const void *a[OPERANDS];

    prepare(b, c.n, bytes);
    for (int k = 0; k < c.n; k++) {
        a[k] = array(b, k);
    }
    kernel(array(b, out), c.also == NONE ? NULL : array(b, also), a, c.n, c.count);
    for (int k = 0; k < OPERANDS + 2; k++) {
        const int result = k == out || k == also;

        if (k < c.n || result) {
            cr_assert(holds(b, k, result ? b->expected : b->source[k], bytes),
                      "%s %s %s: n=%d count=%zu out=%d also=%d: area %d at %zu is wrong", name,
                      tu_type_name(b->type), tu_op_name(c.op), c.n, c.count, c.out, c.also, k,
                      b->offset[k]);
        }
    }
    cr_assert(holds(b, OPERANDS + 1, b->expected, also == OPERANDS + 1 ? bytes : 0));
}

static void check_variant(struct bench *b, const struct tu_kernels *variant, struct call c) {
    check(b, variant->name, variant->fold[b->type][c.op], c);
    if (c.count >= 256) { /* shorter ones are not stored past the caches */
        char name[32];

        snprintf(name, sizeof(name), "%s (stream)", variant->name);
        check(b, name, variant->stream[b->type][c.op], c);
    }
}

/* The same call in all variants, at the offsets that b says. */
static void check_here(struct bench *b, struct call c) {
    int variants;
    const struct tu_kernels *const *variant = tu_kernels_all(&variants);

    for (int v = 0; v < variants; v++) {
        check_variant(b, variant[v], c);
    }
    check_variant(b, &tu_kernels_wide, c);
}

/* The same at any offsets. */
static void check_all(struct bench *b, struct call c) {
    for (int k = 0; k < OPERANDS + 2; k++) {
        b->offset[k] = draw(b) % ALIGNMENTS;
    }
    check_here(b, c);
}

static int has(int type, int op) {
    return op <= TUTTI_MAX || type == TUTTI_I32 || type == TUTTI_I64;
}

/* ---- the tests ---------------------------------------------------------------------------- */

static int draw_destination(struct bench *b, int n) {
    const uint64_t x = draw(b);

    return x % 2 ? OWN : (int)(x / 2 % (uint64_t)n);
}

static void short_counts(tutti_type type) {
    struct bench b;

    open_bench(&b, type);
    for (int op = 0; op < TU_OPS; op++) {
        for (int n = 1; has(type, op) && n <= OPERANDS; n++) {
            const size_t most = n <= 9 ? 300 : 70;

            expect(&b, op, n, most);
            for (size_t count = 0; count <= most; count++) {
                const int k = draw_destination(&b, n);

                check_all(&b, (struct call){op, n, count, OWN, NONE});
                check_all(&b, (struct call){op, n, count, OWN, OWN});
                check_all(&b, (struct call){op, n, count, k, draw_destination(&b, n)});
            }
        }
    }
    close_bench(&b);
}

Test(kernels, short_counts_i32, .timeout = 100) {
    short_counts(TUTTI_I32);
}
Test(kernels, short_counts_i64, .timeout = 100) {
    short_counts(TUTTI_I64);
}
Test(kernels, short_counts_f32, .timeout = 100) {
    short_counts(TUTTI_F32);
}
Test(kernels, short_counts_f64, .timeout = 100) {
    short_counts(TUTTI_F64);
}

/* Each operand as either destination, alone and with another. */
static void in_place(struct bench *b, int op, int n, size_t count) {
    for (int k = 0; k < n; k++) {
        check_all(b, (struct call){op, n, count, k, NONE});
        check_all(b, (struct call){op, n, count, k, OWN});
        check_all(b, (struct call){op, n, count, OWN, k});
        check_all(b, (struct call){op, n, count, k, (k + 1) % n});
    }
}

/* Every place of the destination in a line of the cache, with operands beside or apart from it. */
Test(kernels, every_offset, .timeout = 100) {
    static const size_t counts[] = {3, 9, 30, 70, 1200};
    struct bench b;

    for (int type = 0; type < TU_TYPES; type++) {
        open_bench(&b, type);
        for (int n = 1; n <= 9; n++) {
            expect(&b, TUTTI_SUM, n, 1200);
            for (size_t at = 0; at < ALIGNMENTS; at++) {
                for (int k = 0; k < OPERANDS + 2; k++) {
                    b.offset[k] = k >= OPERANDS ? at : (at + at / 8 * (size_t)k) % ALIGNMENTS;
                }
                for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
                    check_here(&b, (struct call){TUTTI_SUM, n, counts[j], OWN, OWN});
                    check_here(&b, (struct call){TUTTI_SUM, n, counts[j], n - 1, NONE});
                }
            }
        }
        close_bench(&b);
    }
}

static const int some_n[] = {1, 2, 3, 4, 5, 8, 9, 16, 20};

Test(kernels, in_place, .timeout = 100) {
    static const size_t counts[] = {1, 2, 3, 4, 7, 9, 15, 17, 33, 63, 65, 140, 257, 1031};
    struct bench b;

    for (int type = 0; type < TU_TYPES; type++) {
        open_bench(&b, type);
        for (int op = 0; op <= TUTTI_MAX; op++) {
            for (size_t i = 0; i < sizeof(some_n) / sizeof(some_n[0]); i++) {
                expect(&b, op, some_n[i], 1031);
                for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
                    in_place(&b, op, some_n[i], counts[j]);
                }
            }
        }
        close_bench(&b);
    }
}

Test(kernels, long_counts, .timeout = 100) {
    struct bench b;

    for (int type = 0; type < TU_TYPES; type++) {
        open_bench(&b, type);
        for (int op = 0; op < TU_OPS; op++) {
            for (size_t i = 0; has(type, op) && i < sizeof(some_n) / sizeof(some_n[0]); i++) {
                const size_t count = 71 + draw(&b) % (ELEMENTS - 71);

                expect(&b, op, some_n[i], count);
                check_all(&b, (struct call){op, some_n[i], count, OWN, NONE});
                check_all(&b, (struct call){op, some_n[i], count, some_n[i] - 1, OWN});
            }
        }
        close_bench(&b);
    }
}

/* All triples of special values: which NaN comes out, signed zeros, infinities, denormals. */
Test(kernels, special_values, .timeout = 100) {
    const size_t triples = SPECIALS * SPECIALS * SPECIALS;
    struct bench b;

    for (int type = 0; type < TU_TYPES; type++) {
        open_bench(&b, type);
        for (size_t i = 0; i < triples; i++) {
            put(type, b.source[0], i, special(type, i));
            put(type, b.source[1], i, special(type, i / SPECIALS));
            put(type, b.source[2], i, special(type, i / SPECIALS / SPECIALS));
        }
        for (int op = 0; op < TU_OPS; op++) {
            for (int n = 1; has(type, op) && n <= 3; n++) {
                expect(&b, op, n, triples);
                check_all(&b, (struct call){op, n, triples, OWN, OWN});
            }
        }
        close_bench(&b);
    }
}

/* Pages of which only the middle one may be touched. */
static unsigned char *map_fenced(size_t page) {
    unsigned char *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(p != MAP_FAILED);
    cr_assert(mprotect(p + page, page, PROT_READ | PROT_WRITE) == 0);
    return p + page;
}

/* Nothing outside the arrays is read or written: they begin or end at a page that faults. */
Test(kernels, stays_inside, .timeout = 100) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *x = map_fenced(page), *y = map_fenced(page), *z = map_fenced(page);
    int variants;
    const struct tu_kernels *const *variant = tu_kernels_all(&variants);

    for (int v = 0; v < variants; v++) {
        for (int type = 0; type < TU_TYPES; type++) {
            for (size_t count = 0; count <= 250; count++) {
                const size_t end = page - count * tu_type_bytes(type);
                const void *first[] = {x, y, x}, *last[] = {x + end, y + end, x + end};

                variant[v]->fold[type][TUTTI_SUM](z, NULL, first, 3, count);
                variant[v]->fold[type][TUTTI_SUM](z + end, NULL, last, 3, count);
                variant[v]->fold[type][TUTTI_SUM](z, z + end, first, 2, count / 2);
            }
        }
    }
}

Test(kernels, count_zero_touches_nothing, .timeout = 10) {
    int variants;
    const struct tu_kernels *const *variant = tu_kernels_all(&variants);

    for (int v = 0; v < variants; v++) {
        for (int type = 0; type < TU_TYPES; type++) {
            for (int op = 0; has(type, op) && op < TU_OPS; op++) {
                variant[v]->fold[type][op](NULL, NULL, NULL, 2, 0);
                variant[v]->stream[type][op](NULL, NULL, NULL, 2, 0);
            }
        }
    }
}

Test(kernels, tables, .timeout = 10) {
    int variants;
    const struct tu_kernels *const *variant = tu_kernels_all(&variants);

    cr_assert(variants >= 1);
    cr_assert_eq(tu_kernels_best(), variant[variants - 1]);
    for (int v = 0; v < variants; v++) {
        cr_assert(variant[v]->name[0]);
        for (int type = 0; type < TU_TYPES; type++) {
            for (int op = 0; op < TU_OPS; op++) {
                cr_assert_eq(variant[v]->fold[type][op] != NULL, has(type, op));
                cr_assert_eq(variant[v]->stream[type][op] != NULL, has(type, op));
            }
        }
    }
#if defined(__x86_64__)
    cr_assert_str_eq(variant[0]->name, "sse2");
#endif
}

Test(kernels, forced_by_name, .timeout = 10) {
    struct capture *c = capture_open();
    int variants;
    const struct tu_kernels *const *variant = tu_kernels_all(&variants), *chosen = NULL;

    cr_assert_eq(tu_kernels_choose(&c->env, &chosen), TUTTI_OK);
    cr_assert_eq(chosen, tu_kernels_best());
    for (int v = 0; v < variants; v++) {
        cr_assert_eq(tu_config_set(&c->env, "TUTTI_KERNELS", variant[v]->name), TUTTI_OK);
        cr_assert_eq(tu_kernels_choose(&c->env, &chosen), TUTTI_OK);
        cr_assert_eq(chosen, variant[v]);
    }
    cr_assert_eq(tu_config_set(&c->env, "TUTTI_KERNELS", "mmx"), TUTTI_OK);
    cr_assert_eq(tu_kernels_choose(&c->env, &chosen), TUTTI_ERR_CONFIG);
    cr_assert_eq(chosen, variant[variants - 1]);
    cr_assert(strstr(c->env.error, "TUTTI_KERNELS=mmx: this processor runs "), "%s", c->env.error);
    cr_assert(strstr(c->env.error, chosen->name), "%s", c->env.error);
    free(c);
}

Test(kernels, names_and_sizes, .timeout = 10) {
    cr_assert_eq(tu_type_bytes(TUTTI_I32), 4);
    cr_assert_eq(tu_type_bytes(TUTTI_I64), 8);
    cr_assert_eq(tu_type_bytes(TUTTI_F32), 4);
    cr_assert_eq(tu_type_bytes(TUTTI_F64), 8);
    cr_assert_eq(tu_type_bytes((tutti_type)TU_TYPES), 0);
    cr_assert_eq(tu_type_bytes((tutti_type)-1), 0);
    cr_assert_str_eq(tu_type_name(TUTTI_F32), "f32");
    cr_assert_str_eq(tu_type_name((tutti_type)-1), "?");
    cr_assert_str_eq(tu_op_name(TUTTI_SUM), "sum");
    cr_assert_str_eq(tu_op_name(TUTTI_BXOR), "bxor");
    cr_assert_str_eq(tu_op_name(TUTTI_MINLOC), "?");
    cr_assert_str_eq(tu_op_name((tutti_op)-1), "?");
}
