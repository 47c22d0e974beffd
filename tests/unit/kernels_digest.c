/*
 * What the best kernels of this processor give for set inputs, as lines of text: one digest for each
 * type, operation and number of operands. Built for two architectures it shows whether their bits
 * agree. Each result is compared with the reference first. Exit status 1: a kernel is wrong.
 *
 * The one difference that kernels.h allows, the sign of a NaN that a sum or product makes itself, is
 * left out of the digest.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels_reference.h"
#include "kernels_values.h"

enum { OPERANDS = 9, MOST = 1200, ROOM = MOST * 8 + 64 };

struct inputs {
    tutti_type type;
    tutti_op op;
    unsigned char operand[OPERANDS][ROOM];
    unsigned char out[ROOM], also[ROOM];
};

static uint64_t expected(const struct inputs *in, size_t at, int n, size_t i) {
    const uint64_t mask = UINT64_MAX >> (64 - 8 * tu_type_bytes(in->type));
    uint64_t x = get(in->type, in->operand[0] + at, i);

    for (int k = 1; k < n; k++) {
        x = reference(in->type, in->op, x, get(in->type, in->operand[k] + at, i)) & mask;
    }
    return x;
}

/* The NaN that processors make, without its sign. */
static uint64_t without_sign(const struct inputs *in, uint64_t x) {
    const bool real = in->type == TUTTI_F32 || in->type == TUTTI_F64;
    const uint64_t nan = in->type == TUTTI_F32 ? 0x7FC00000 : 0x7FF8000000000000;
    const uint64_t sign = in->type == TUTTI_F32 ? 0x80000000 : 0x8000000000000000;

    return real && in->op <= TUTTI_PROD && (x & ~sign) == nan ? nan : x;
}

/* One call with arrays that start at byte `at`; false if an element is wrong. */
static bool call(struct inputs *in, tu_kernel *kernel, int n, size_t count, size_t at,
                 uint64_t *digest) {
    const void *a[OPERANDS];

    for (int k = 0; k < n; k++) {
        a[k] = in->operand[k] + at;
    }
    kernel(in->out + at, in->also + at, a, n, count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t x = get(in->type, in->out + at, i), want = expected(in, at, n, i);

        if (x != want || get(in->type, in->also + at, i) != want) {
            printf("%s %s n=%d count=%zu at=%zu: element %zu is %" PRIx64 ", not %" PRIx64 "\n",
                   tu_type_name(in->type), tu_op_name(in->op), n, count, at, i, x, want);
            return false;
        }
        *digest = (*digest ^ without_sign(in, x)) * 0x100000001B3;
        *digest ^= *digest >> 32;
    }
    return true;
}

static bool print_digest(struct inputs *in, const struct tu_kernels *kernels, int n) {
    uint64_t digest = 0xCBF29CE484222325;
    bool good = true;

    for (size_t count = 0; good && count <= MOST; count += count < 70 ? 1 : 113) {
        good = call(in, kernels->fold[in->type][in->op], n, count, count * 5 % 64, &digest) &&
               call(in, kernels->stream[in->type][in->op], n, count, count * 8 % 64, &digest);
    }
    if (good) {
        printf("%s %s %d %016" PRIx64 "\n", tu_type_name(in->type), tu_op_name(in->op), n, digest);
    }
    return good;
}

static void fill(struct inputs *in) {
    uint64_t random = 1;

    for (int k = 0; k < OPERANDS; k++) {
        for (size_t i = 0; i < ROOM / 8; i++) {
            const uint64_t low = draw_value(in->type, &random);
            const uint64_t high =
                tu_type_bytes(in->type) == 4 ? draw_value(in->type, &random) << 32 : 0;

            put(TUTTI_I64, in->operand[k], i, low | high);
        }
    }
}

int main(void) {
    const struct tu_kernels *kernels = tu_kernels_best();
    struct inputs *in = calloc(1, sizeof(*in));
    bool good = in != NULL;

    fprintf(stderr, "kernels: %s\n", kernels->name);
    for (int type = 0; good && type < TU_TYPES; type++) {
        in->type = (tutti_type)type;
        fill(in);
        for (int op = 0; op < TU_OPS; op++) {
            in->op = (tutti_op)op;
            for (int n = 1; good && kernels->fold[type][op] && n <= OPERANDS; n++) {
                good = print_digest(in, kernels, n);
            }
        }
    }
    free(in);
    return good ? 0 : 1;
}
