/* Values and expected results: see values.h. */
#include "tests/sim/values.h"

#include <math.h>
#include <string.h>

#include "tests/sim/random.h"

static bool is_float(tutti_type type) {
    return type == TUTTI_F32 || type == TUTTI_F64;
}

static uint64_t bits_of(const struct value_kind *kind, uint32_t rank, size_t i) {
    return sim_stream(kind->seed + rank * UINT64_C(0x100000001), i);
}

/* ---- integers: all bits are drawn, sums and products wrap around ---- */

static uint64_t integer(const struct value_kind *kind, uint32_t rank, size_t i) {
    uint64_t bits = bits_of(kind, rank, i);

    if (bits % 4 == 0) /* for the logical ones */
        bits = 0;
    return kind->type == TUTTI_I32 ? (uint64_t)(int64_t)(int32_t)bits : bits;
}

static uint64_t combine(tutti_op op, uint64_t a, uint64_t b) {
    switch (op) {
    case TUTTI_SUM:
        return a + b;
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return (int64_t)a < (int64_t)b ? a : b;
    case TUTTI_MAX:
        return (int64_t)a > (int64_t)b ? a : b;
    case TUTTI_LAND:
        return a && b;
    case TUTTI_LOR:
        return a || b;
    case TUTTI_LXOR:
        return !a != !b;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

static bool integer_right(const struct value_kind *kind, uint32_t ranks, const uint8_t *got,
                          size_t i) {
    uint64_t expected = integer(kind, 0, i);
    uint64_t wide;
    uint32_t narrow;

    for (uint32_t r = 1; r < ranks; r++)
        expected = combine(kind->op, expected, integer(kind, r, i));
    memcpy(&wide, got, kind->type == TUTTI_I64 ? sizeof wide : 0);
    memcpy(&narrow, got, sizeof narrow);
    return kind->type == TUTTI_I64 ? wide == expected : narrow == (uint32_t)expected;
}

/* ---- floating point ---- */

/* Minimum and maximum: all that is special about them. */
static double special(uint64_t bits) {
    switch (bits % 16) {
    case 0:
        return NAN;
    case 1:
    case 2:
        return -0.0;
    case 3:
    case 4:
        return 0.0;
    default:
        return (double)(int64_t)(bits >> 40) - 8388608.0;
    }
}

static double real(const struct value_kind *kind, uint32_t rank, size_t i) {
    static const double factor[] = {1.0, -1.0, 2.0, 0.5};
    uint64_t bits = bits_of(kind, rank, i);
    double unit = (double)(bits >> 40) / 16777216.0; /* exact also as f32 */

    if (kind->op == TUTTI_MIN || kind->op == TUTTI_MAX)
        return kind->rough && i % 2 ? special(bits) : (double)(bits >> 42) - 2097152.0;
    if (kind->op == TUTTI_PROD)
        return kind->rough ? 0.9 + unit / 8 : factor[bits % 4];
    return kind->rough ? unit - 0.25 : (double)(bits % 17) - 8.0;
}

static double stored(const struct value_kind *kind, double value) {
    return kind->type == TUTTI_F32 ? (double)(float)value : value;
}

static double lesser(double a, double b) {
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static bool near(const struct value_kind *kind, double got, double expected, double magnitude,
                 uint32_t ranks) {
    double unit = kind->type == TUTTI_F32 ? 0x1p-23 : 0x1p-52;

    if (isnan(expected))
        return isnan(got);
    if (kind->rough && (kind->op == TUTTI_SUM || kind->op == TUTTI_PROD))
        return fabs(got - expected) <= unit * ranks * magnitude;
    return got == expected && !signbit(got) == !signbit(expected);
}

static double real_at(const struct value_kind *kind, const uint8_t *got) {
    double wide = 0;
    float narrow = 0;

    if (kind->type == TUTTI_F64)
        memcpy(&wide, got, sizeof wide);
    else
        memcpy(&narrow, got, sizeof narrow);
    return kind->type == TUTTI_F64 ? wide : (double)narrow;
}

static bool real_right(const struct value_kind *kind, uint32_t ranks, const uint8_t *got,
                       size_t i) {
    double expected = stored(kind, real(kind, 0, i)), magnitude = fabs(expected);

    for (uint32_t r = 1; r < ranks; r++) {
        double value = stored(kind, real(kind, r, i));
        if (kind->op == TUTTI_SUM)
            expected += value;
        else if (kind->op == TUTTI_PROD)
            expected *= value;
        else if (kind->op == TUTTI_MIN)
            expected = lesser(expected, value);
        else
            expected = -lesser(-expected, -value);
        magnitude = kind->op == TUTTI_SUM ? magnitude + fabs(value) : fabs(expected);
    }
    if (kind->op == TUTTI_SUM && expected == 0) /* of no particular sign */
        return fabs(real_at(kind, got)) <= 0x1p-20;
    return near(kind, real_at(kind, got), expected, magnitude, ranks);
}

/* ---- both ---- */

static void store(const struct value_kind *kind, uint32_t rank, size_t i, uint8_t to[8]) {
    double wide = 0;
    float narrow = 0;
    uint64_t bits = 0;

    if (is_float(kind->type))
        wide = real(kind, rank, i);
    else
        bits = integer(kind, rank, i); /* its low half comes first */
    narrow = (float)wide;
    if (kind->type == TUTTI_F64)
        memcpy(to, &wide, sizeof wide);
    else if (kind->type == TUTTI_F32)
        memcpy(to, &narrow, sizeof narrow);
    else
        memcpy(to, &bits, sizeof bits);
}

void values_fill(const struct value_kind *kind, uint32_t rank, void *to, size_t count) {
    size_t each = tutti_type_size(kind->type);
    uint8_t one[8];

    for (size_t i = 0; i < count; i++) {
        store(kind, rank, i, one);
        memcpy((uint8_t *)to + i * each, one, each);
    }
}

bool values_equal(const struct value_kind *kind, uint32_t rank, const void *got, size_t count) {
    size_t each = tutti_type_size(kind->type);
    uint8_t one[8];

    for (size_t i = 0; i < count; i++) {
        store(kind, rank, i, one);
        if (memcmp((const uint8_t *)got + i * each, one, each) != 0)
            return false;
    }
    return true;
}

bool values_reduced(const struct value_kind *kind, uint32_t ranks, const void *got, size_t count,
                    size_t *wrong) {
    size_t each = tutti_type_size(kind->type);

    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = (const uint8_t *)got + i * each;
        if (is_float(kind->type) ? real_right(kind, ranks, at, i)
                                 : integer_right(kind, ranks, at, i))
            continue;
        *wrong = i;
        return false;
    }
    return true;
}
