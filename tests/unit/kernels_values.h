/* Elements for tests of kernels: as words, special and random ones. */
#ifndef TESTS_UNIT_KERNELS_VALUES_H
#define TESTS_UNIT_KERNELS_VALUES_H

#include <stdint.h>
#include <string.h>

#include "collectives/kernels.h"

static inline uint64_t get(tutti_type type, const unsigned char *p, size_t i) {
    uint64_t x = 0;
    uint32_t half;

    if (tu_type_bytes(type) == 8) {
        memcpy(&x, p + 8 * i, 8);
        return x;
    }
    memcpy(&half, p + 4 * i, 4);
    return half;
}

static inline void put(tutti_type type, unsigned char *p, size_t i, uint64_t x) {
    const uint32_t half = (uint32_t)x;

    if (tu_type_bytes(type) == 8) {
        memcpy(p + 8 * i, &x, 8);
    } else {
        memcpy(p + 4 * i, &half, 4);
    }
}

/* splitmix64 */
static inline uint64_t draw_word(uint64_t *random) {
    uint64_t z = *random += 0x9E3779B97F4A7C15;

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
static inline uint64_t special(tutti_type type, uint64_t i) {
    return tu_type_bytes(type) == 8 ? special64[i % SPECIALS] : special32[i % SPECIALS];
}

/* Any bits; numbers near 1, so that sums round; special values. */
static inline uint64_t draw_value(tutti_type type, uint64_t *random) {
    const uint64_t x = draw_word(random);

    switch (draw_word(random) % 8) {
    case 0:
        return special(type, x);
    case 1:
    case 2:
        return x;
    default:
        return tu_type_bytes(type) == 8 ? (x & 0x807FFFFFFFFFFFFF) + 0x3FC0000000000000
                                        : ((uint32_t)x & 0x81FFFFFF) + 0x3E000000;
    }
}

#endif
