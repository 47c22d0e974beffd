/*
 * The kernels themselves, compiled once per instruction set: kernels_<set>.c defines TU_BYTES (the
 * width of a vector), TU_TABLE and TU_TABLE_NAME, and includes this. Vectors are GNU C vector types,
 * which the compiler turns into the instructions that the source's flags allow.
 *
 * Why vectors are spelt out: plain loops over n operands that may be the destination get run-time
 * checks and scalar tails, which cost more than the work on small counts. Here there is no scalar
 * tail: an incomplete last vector overlaps the one before, and is read before anything is written,
 * so that it is right in place too.
 *
 * Why a loop over the operands inside a block of vectors and not one copy of the code for each n: a
 * block stays in registers while the operands go by, so each operand costs one pointer load per block.
 * Copies for a constant n were measured to be no faster from 2 to 8 operands, slower on small
 * vectors, and 6 times larger.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "collectives/kernels_variants.h"

#define TU_NAME_(a, b) a##_##b
#define TU_NAME(a, b) TU_NAME_(a, b)
#define TU_INLINE static inline __attribute__((always_inline))
#define TU_NO_UNROLL _Pragma("GCC unroll 1") /* the number of operands is small and unknown */

/* What a kernel computes: constants in every call, so that the switches over them vanish. */
struct kind {
    tutti_type type;
    tutti_op op;
};

TU_INLINE size_t element_bytes(tutti_type type) {
    return type == TUTTI_I32 || type == TUTTI_F32 ? 4 : 8;
}

#define TU_W 16
#include "collectives/kernels_vector.h"
#undef TU_W
#if TU_BYTES >= 32
#define TU_W 32
#include "collectives/kernels_vector.h"
#undef TU_W
#endif
#if TU_BYTES >= 64
#define TU_W 64
#include "collectives/kernels_vector.h"
#undef TU_W
#endif

#define VECTOR TU_NAME(vector, TU_BYTES)
#define LOAD TU_NAME(load, TU_BYTES)
#define STORE TU_NAME(store, TU_BYTES)
#define APPLY TU_NAME(apply, TU_BYTES)
#define ENDS TU_NAME(ends, TU_BYTES)
#define FOLD_ENDS TU_NAME(fold_ends, TU_BYTES)
#define STORE_ENDS TU_NAME(store_ends, TU_BYTES)

/* ---- up to two vectors -------------------------------------------------------------------- */

/* 4 or 8 bytes as a number, through a variable of that very size: no partial store before a load. */
TU_INLINE uint64_t load_word(const void *p, size_t at, size_t bytes) {
    uint32_t half;
    uint64_t word;

    if (bytes == sizeof(half)) {
        memcpy(&half, (const char *)p + at, sizeof(half));
        return half;
    }
    memcpy(&word, (const char *)p + at, sizeof(word));
    return word;
}

TU_INLINE void store_one(void *p, size_t at, size_t bytes, uint64_t word) {
    const uint32_t half = (uint32_t)word;

    memcpy((char *)p + at, bytes == sizeof(half) ? (const void *)&half : &word, bytes);
}

TU_INLINE void store_word(void *out, void *also, size_t at, size_t bytes, uint64_t word) {
    store_one(out, at, bytes, word);
    if (also) {
        store_one(also, at, bytes, word);
    }
}

/* One element, in a vector that is zero beside it. */
TU_INLINE void fold_one(struct kind kind, void *out, void *also, const void *const *a, int n) {
    const size_t bytes = element_bytes(kind.type);
    vector_16 v = {load_word(a[0], 0, bytes), 0};

    TU_NO_UNROLL
    for (int k = 1; k < n; k++) {
        v = apply_16(kind, v, (vector_16){load_word(a[k], 0, bytes), 0});
    }
    store_word(out, also, 0, bytes, v[0]);
}

/* 8 to 15 bytes: the first and the last 8, which may overlap, in one vector. */
TU_INLINE void fold_words(struct kind kind, void *out, void *also, const void *const *a, int n,
                          size_t bytes) {
    const size_t last = bytes - 8;
    vector_16 v = {load_word(a[0], 0, 8), load_word(a[0], last, 8)};

    TU_NO_UNROLL
    for (int k = 1; k < n; k++) {
        v = apply_16(kind, v, (vector_16){load_word(a[k], 0, 8), load_word(a[k], last, 8)});
    }
    store_word(out, also, 0, 8, v[0]);
    store_word(out, also, last, 8, v[1]);
}

TU_INLINE void fold_short(struct kind kind, void *out, void *also, const void *const *a, int n,
                          size_t bytes) {
    if (bytes == element_bytes(kind.type)) {
        fold_one(kind, out, also, a, n);
    } else if (bytes < 16) {
        if (element_bytes(kind.type) == 4 && bytes > 0) {
            fold_words(kind, out, also, a, n, bytes);
        }
#if TU_BYTES > 16
    } else if (bytes <= 32) {
        store_ends_16(out, also, bytes - 16, fold_ends_16(kind, a, n, bytes - 16));
#endif
#if TU_BYTES > 32
    } else if (bytes <= 64) {
        store_ends_32(out, also, bytes - 32, fold_ends_32(kind, a, n, bytes - 32));
#endif
    } else {
        STORE_ENDS(out, also, bytes - TU_BYTES, FOLD_ENDS(kind, a, n, bytes - TU_BYTES));
    }
}

/* ---- more --------------------------------------------------------------------------------- */

/* Vectors that go through all operands together, in registers: as many as these leave. */
enum { BLOCK = TU_BYTES == 32 ? 8 : 4 };

/* `vectors` is a constant, and so the array lives in registers. */
TU_INLINE void fold_block(struct kind kind, void *out, void *also, const void *const *a, int n,
                          size_t at, int vectors) {
    const char *operand = (const char *)a[0] + at;
    VECTOR v[BLOCK];

    for (int j = 0; j < vectors; j++) {
        v[j] = LOAD(operand, (size_t)j * TU_BYTES);
    }
    TU_NO_UNROLL
    for (int k = 1; k < n; k++) {
        operand = (const char *)a[k] + at;
        for (int j = 0; j < vectors; j++) {
            v[j] = APPLY(kind, v[j], LOAD(operand, (size_t)j * TU_BYTES));
        }
    }
    for (int j = 0; j < vectors; j++) {
        STORE((char *)out + at, NULL, (size_t)j * TU_BYTES, v[j]);
    }
    if (also) {
        for (int j = 0; j < vectors; j++) {
            STORE((char *)also + at, NULL, (size_t)j * TU_BYTES, v[j]);
        }
    }
}

/* The ends are folded first and written last, so that what lies between can use aligned stores. */
TU_INLINE void fold_long(struct kind kind, void *out, void *also, const void *const *a, int n,
                         size_t bytes) {
    const size_t last = bytes - TU_BYTES;
    const struct ENDS ends = FOLD_ENDS(kind, a, n, last);
    size_t at = TU_BYTES - (uintptr_t)out % TU_BYTES;

    at -= at % element_bytes(kind.type); /* out itself may be aligned to nothing */
    for (; at + BLOCK * TU_BYTES <= bytes; at += BLOCK * TU_BYTES) {
        fold_block(kind, out, also, a, n, at, BLOCK);
    }
    for (; at + 2 * TU_BYTES <= bytes; at += 2 * TU_BYTES) {
        fold_block(kind, out, also, a, n, at, 2);
    }
    if (at < last) {
        fold_block(kind, out, also, a, n, at, 1);
    }
    STORE_ENDS(out, also, last, ends);
}

/* ---- the table ---------------------------------------------------------------------------- */

/* The long part is a function of its own, so that the short one saves and aligns nothing. */
#define TU_KERNEL(type, op)                                                                        \
    static __attribute__((noinline)) void type##_##op##_long(                                      \
        void *out, void *also, const void *const *a, int n, size_t bytes) {                        \
        fold_long((struct kind){TUTTI_##type, TUTTI_##op}, out, also, a, n, bytes);                \
    }                                                                                              \
    static void type##_##op(void *out, void *also, const void *const *a, int n, size_t count) {    \
        const size_t bytes = count * element_bytes(TUTTI_##type);                                  \
                                                                                                   \
        if (bytes <= 2 * TU_BYTES) {                                                               \
            fold_short((struct kind){TUTTI_##type, TUTTI_##op}, out, also, a, n, bytes);           \
        } else {                                                                                   \
            type##_##op##_long(out, also, a, n, bytes);                                            \
        }                                                                                          \
    }

#define TU_REAL_KERNELS(type)                                                                      \
    TU_KERNEL(type, SUM) TU_KERNEL(type, PROD) TU_KERNEL(type, MIN) TU_KERNEL(type, MAX)

#define TU_INTEGER_KERNELS(type)                                                                   \
    TU_REAL_KERNELS(type)                                                                          \
    TU_KERNEL(type, LAND)                                                                          \
    TU_KERNEL(type, LOR)                                                                           \
    TU_KERNEL(type, LXOR) TU_KERNEL(type, BAND) TU_KERNEL(type, BOR) TU_KERNEL(type, BXOR)

TU_INTEGER_KERNELS(I32)
TU_INTEGER_KERNELS(I64)
TU_REAL_KERNELS(F32)
TU_REAL_KERNELS(F64)

#define TU_REAL_ENTRIES(type)                                                                      \
    [TUTTI_SUM] = type##_SUM, [TUTTI_PROD] = type##_PROD, [TUTTI_MIN] = type##_MIN,                \
    [TUTTI_MAX] = type##_MAX
#define TU_INTEGER_ENTRIES(type)                                                                   \
    TU_REAL_ENTRIES(type), [TUTTI_LAND] = type##_LAND, [TUTTI_LOR] = type##_LOR,                   \
                           [TUTTI_LXOR] = type##_LXOR, [TUTTI_BAND] = type##_BAND,                 \
                           [TUTTI_BOR] = type##_BOR, [TUTTI_BXOR] = type##_BXOR

const struct tu_kernels TU_TABLE = {
    .name = TU_TABLE_NAME,
    .fold =
        {
            [TUTTI_I32] = {TU_INTEGER_ENTRIES(I32)},
            [TUTTI_I64] = {TU_INTEGER_ENTRIES(I64)},
            [TUTTI_F32] = {TU_REAL_ENTRIES(F32)},
            [TUTTI_F64] = {TU_REAL_ENTRIES(F64)},
        },
};
