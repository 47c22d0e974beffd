/*
 * Every variant of every kernel against a plain reference, bit by bit: all numbers of operands, all
 * short counts, special values, any alignment, in place, with the second destination; what lies
 * around the arrays must stay as it is.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectives/kernels.h"

enum {
    OPERANDS = 20,
    ELEMENTS = 8192,
    GUARD = 64,      /* bytes before and after every array */
    ALIGNMENTS = 64, /* arrays start at any of so many offsets */
    AREA = GUARD + ALIGNMENTS + ELEMENTS * 8 + GUARD,
    FILL = 0xA5,
};

/* ---- the reference ------------------------------------------------------------------------ */

static uint64_t exponent_mask(int bits) {
    return bits == 32 ? 0x7F800000 : 0x7FF0000000000000;
}

static int is_nan(int bits, uint64_t x) {
    return (x & (UINT64_MAX >> (65 - bits))) > exponent_mask(bits);
}

static uint64_t quiet(int bits, uint64_t x) {
    return x | (uint64_t)1 << (bits == 32 ? 22 : 51);
}

/* volatile: computed at run time in the type itself, not by the compiler. */
static uint64_t arithmetic32(tutti_op op, uint64_t x, uint64_t y) {
    const uint32_t x_bits = (uint32_t)x, y_bits = (uint32_t)y;
    volatile float a, b, r;
    uint32_t bits;

    memcpy((void *)&a, &x_bits, sizeof(a));
    memcpy((void *)&b, &y_bits, sizeof(b));
    r = op == TUTTI_SUM ? a + b : a * b;
    if (op == TUTTI_MIN || op == TUTTI_MAX) {
        return (op == TUTTI_MIN ? b < a : a < b) ? y : x;
    }
    memcpy(&bits, (void *)&r, sizeof(bits));
    return bits;
}

static uint64_t arithmetic64(tutti_op op, uint64_t x, uint64_t y) {
    volatile double a, b, r;
    uint64_t bits;

    memcpy((void *)&a, &x, sizeof(a));
    memcpy((void *)&b, &y, sizeof(b));
    r = op == TUTTI_SUM ? a + b : a * b;
    if (op == TUTTI_MIN || op == TUTTI_MAX) {
        return (op == TUTTI_MIN ? b < a : a < b) ? y : x;
    }
    memcpy(&bits, (void *)&r, sizeof(bits));
    return bits;
}

static uint64_t real(int bits, tutti_op op, uint64_t x, uint64_t y) {
    const int selects = op == TUTTI_MIN || op == TUTTI_MAX;
    const uint64_t sign = (uint64_t)1 << (bits - 1);

    if (is_nan(bits, x) || is_nan(bits, y)) {
        const uint64_t nan = is_nan(bits, x) ? x : y;
        return selects ? nan : quiet(bits, nan);
    }
    if (selects && ((x | y) & ~sign) == 0) {
        return op == TUTTI_MIN ? x | y : x & y;
    }
    return bits == 32 ? arithmetic32(op, x, y) : arithmetic64(op, x, y);
}

static uint64_t integer(int bits, tutti_op op, uint64_t x, uint64_t y) {
    const int64_t a = bits == 32 ? (int32_t)x : (int64_t)x;
    const int64_t b = bits == 32 ? (int32_t)y : (int64_t)y;

    switch (op) {
    case TUTTI_SUM:
        return x + y;
    case TUTTI_PROD:
        return x * y;
    case TUTTI_MIN:
        return b < a ? y : x;
    case TUTTI_MAX:
        return a < b ? y : x;
    case TUTTI_LAND:
        return a && b;
    case TUTTI_LOR:
        return a || b;
    case TUTTI_LXOR:
        return !a != !b;
    case TUTTI_BAND:
        return x & y;
    case TUTTI_BOR:
        return x | y;
    default:
        return x ^ y;
    }
}

static uint64_t get(tutti_type type, const unsigned char *p, size_t i) {
    uint64_t x = 0;
    uint32_t half;

    if (tu_type_bytes(type) == 8) {
        memcpy(&x, p + 8 * i, 8);
        return x;
    }
    memcpy(&half, p + 4 * i, 4);
    return half;
}

static void put(tutti_type type, unsigned char *p, size_t i, uint64_t x) {
    const uint32_t half = (uint32_t)x;

    if (tu_type_bytes(type) == 8) {
        memcpy(p + 8 * i, &x, 8);
    } else {
        memcpy(p + 4 * i, &half, 4);
    }
}

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

/* splitmix64 */
static uint64_t draw(struct bench *b) {
    uint64_t z = b->random += 0x9E3779B97F4A7C15;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static const uint32_t special32[] = {
    0,          0x80000000, 0x3F800000, 0xBF800000,             /* zeros, ones */
    0x7F800000, 0xFF800000, 0x7F7FFFFF, 0xFF7FFFFF,             /* infinite, largest */
    0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, /* denormals, smallest normal */
    0x7FC00000, 0xFFC00000, 0x7FC12345, 0xFFD6789A,             /* quiet NaNs */
    0x7F800001, 0xFF812345, 0x7FBFFFFF,                         /* signalling NaNs */
};
enum { SPECIALS = sizeof(special32) / sizeof(special32[0]) };

/* clang-format off */
static const uint64_t special64[SPECIALS] = {
    0,                  0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000,
    0x7FF0000000000000, 0xFFF0000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
    0x0000000000000001, 0x8000000000000001, 0x000FFFFFFFFFFFFF, 0x0010000000000000,
    0x8010000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000012345678,
    0xFFFA00009ABCDEF0, 0x7FF0000000000001, 0xFFF0000012345678, 0x7FF7FFFFFFFFFFFF,
};
/* clang-format on */

/* For integers too: zeros and ends of the range among them. */
static uint64_t special(tutti_type type, uint64_t i) {
    return tu_type_bytes(type) == 8 ? special64[i % SPECIALS] : special32[i % SPECIALS];
}

/* Any bits; numbers near 1, so that sums round; special values. */
static uint64_t value(struct bench *b) {
    const uint64_t x = draw(b);

    switch (draw(b) % 8) {
    case 0:
        return special(b->type, x);
    case 1:
    case 2:
        return x;
    default:
        return tu_type_bytes(b->type) == 8 ? (x & 0x807FFFFFFFFFFFFF) + 0x3FC0000000000000
                                           : ((uint32_t)x & 0x81FFFFFF) + 0x3E000000;
    }
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
            put(type, b->source[k], i, value(b));
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
    const int bits = 8 * (int)tu_type_bytes(b->type);
    const int is_real = b->type == TUTTI_F32 || b->type == TUTTI_F64;

    for (size_t i = 0; i < count; i++) {
        uint64_t x = get(b->type, b->source[0], i);

        for (int k = 1; k < n; k++) {
            const uint64_t y = get(b->type, b->source[k], i);
            x = is_real ? real(bits, op, x, y) : integer(bits, op, x, y);
            x &= UINT64_MAX >> (64 - bits);
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

/* Runs one call on fresh copies; b->expected must hold its result (or that of a longer one). */
static void check(struct bench *b, const struct tu_kernels *variant, struct call c) {
    const size_t bytes = c.count * tu_type_bytes(b->type);
    const int out = place(c.out, OPERANDS), also = place(c.also, OPERANDS + 1);
    const void *a[OPERANDS];

    for (int k = 0; k < OPERANDS + 2; k++) {
        b->offset[k] = draw(b) % ALIGNMENTS;
        if (k < c.n || k >= OPERANDS) {
            memset(b->area[k], FILL, GUARD + b->offset[k] + bytes + GUARD);
        }
        if (k < c.n) {
            memcpy(array(b, k), b->source[k], bytes);
            a[k] = array(b, k);
        }
    }
    variant->fold[b->type][c.op](array(b, out), c.also == NONE ? NULL : array(b, also), a, c.n,
                                 c.count);
    for (int k = 0; k < OPERANDS + 2; k++) {
        const int result = k == out || k == also;

        if (k < c.n || result) {
            cr_assert(holds(b, k, result ? b->expected : b->source[k], bytes),
                      "%s %s %s: n=%d count=%zu out=%d also=%d: area %d at %zu is wrong",
                      variant->name, tu_type_name(b->type), tu_op_name(c.op), c.n, c.count, c.out,
                      c.also, k, b->offset[k]);
        }
    }
    cr_assert(holds(b, OPERANDS + 1, b->expected, also == OPERANDS + 1 ? bytes : 0));
}

/* The same call in all variants. */
static void check_all(struct bench *b, struct call c) {
    int variants;
    const struct tu_kernels *const *variant = tu_kernels_all(&variants);

    for (int v = 0; v < variants; v++) {
        check(b, variant[v], c);
    }
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
            expect(&b, op, n, 70);
            for (size_t count = 0; count <= 70; count++) {
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
            }
        }
    }
#if defined(__x86_64__)
    cr_assert_str_eq(variant[0]->name, "sse2");
#endif
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
