/* What a kernel must give for two operands, in plain C, bit by bit. */
#ifndef TESTS_UNIT_KERNELS_REFERENCE_H
#define TESTS_UNIT_KERNELS_REFERENCE_H

#include <stdint.h>
#include <string.h>

#include "collectives/kernels.h"

static inline uint64_t exponent_mask(int bits) {
    return bits == 32 ? 0x7F800000 : 0x7FF0000000000000;
}

static inline int is_nan(int bits, uint64_t x) {
    return (x & (UINT64_MAX >> (65 - bits))) > exponent_mask(bits);
}

static inline uint64_t quiet(int bits, uint64_t x) {
    return x | (uint64_t)1 << (bits == 32 ? 22 : 51);
}

/* volatile: computed at run time in the type itself, not by the compiler. */
static inline uint64_t arithmetic32(tutti_op op, uint64_t x, uint64_t y) {
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

static inline uint64_t arithmetic64(tutti_op op, uint64_t x, uint64_t y) {
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

static inline uint64_t real(int bits, tutti_op op, uint64_t x, uint64_t y) {
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

static inline uint64_t integer(int bits, tutti_op op, uint64_t x, uint64_t y) {
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

/* Of two elements, as words; those of 32 bits may have anything above. */
static inline uint64_t reference(tutti_type type, tutti_op op, uint64_t x, uint64_t y) {
    const int bits = 8 * (int)tu_type_bytes(type);
    const int is_real = type == TUTTI_F32 || type == TUTTI_F64;

    return is_real ? real(bits, op, x, y) : integer(bits, op, x, y);
}

#endif
