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
 * A block of vectors stays in registers while the operands go by. For 1 to 8 operands there is a copy of
 * the code each, in which this loop is unrolled: docs/decisions.md has what that gains. Short vectors
 * take one copy for any number, as there the choice would cost what it saves.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "collectives/kernels_variants.h"

#define TU_NAME_(a, b) a##_##b
#define TU_NAME(a, b) TU_NAME_(a, b)
#define TU_INLINE static inline __attribute__((always_inline))
#define TU_NO_UNROLL _Pragma("GCC unroll 1") /* the number of operands is small and unknown */

/* The widest vectors that x86-64 has in the instruction set that is compiled for; 0 elsewhere. */
#if defined(__AVX512F__)
#define TU_NATIVE 64
#elif defined(__AVX__)
#define TU_NATIVE 32
#elif defined(__x86_64__)
#define TU_NATIVE 16
#else
#define TU_NATIVE 0
#endif

/* The last operand of an instruction: for AVX in memory too. Clang would always store it there. */
#if defined(__clang__)
#define TU_OPERAND(v) "v"(v)
#else
#define TU_OPERAND(v) "vm"(v)
#endif

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

/* 4 or 8 bytes, in a vector that is zero beside them. */
TU_INLINE void fold_word(struct kind kind, void *out, void *also, const void *const *a, int n,
                         size_t bytes) {
    vector_16 v = {load_word(a[0], 0, bytes), 0};

    TU_NO_UNROLL
    for (int k = 1; k < n; k++) {
        v = apply_16(kind, v, (vector_16){load_word(a[k], 0, bytes), 0});
    }
    store_word(out, also, 0, bytes, v[0]);
}

/* Three elements of 4 bytes: the first and the last 8 bytes, which overlap, in one vector. */
TU_INLINE void fold_three(struct kind kind, void *out, void *also, const void *const *a, int n) {
    vector_16 v = {load_word(a[0], 0, 8), load_word(a[0], 4, 8)};

    TU_NO_UNROLL
    for (int k = 1; k < n; k++) {
        v = apply_16(kind, v, (vector_16){load_word(a[k], 0, 8), load_word(a[k], 4, 8)});
    }
    store_word(out, also, 0, 8, v[0]);
    store_word(out, also, 4, 8, v[1]);
}

/* Anything up to two vectors but 8 bytes. */
TU_INLINE void fold_short(struct kind kind, void *out, void *also, const void *const *a, int n,
                          size_t bytes) {
    if (bytes < 16) {
        if (element_bytes(kind.type) == 4 && bytes == 4) {
            fold_word(kind, out, also, a, n, 4);
        } else if (element_bytes(kind.type) == 4 && bytes == 12) {
            fold_three(kind, out, also, a, n);
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

/* Vectors that go through all operands together, in registers. */
enum { BLOCK = 4 };

/* Of stores past the caches: the shortest vector, a line of the cache, and whether there are any. */
enum { STREAM = 4096, LINE = 64, CAN_STREAM = TU_BYTES <= TU_NATIVE };

/* Past the caches, where the processor and the compiler have that; p must be a multiple of TU_BYTES. */
TU_INLINE void store_past(void *p, VECTOR v) {
#if TU_BYTES > TU_NATIVE
    STORE(p, NULL, 0, v);
#elif TU_BYTES == 16
    _mm_stream_si128(p, (__m128i)v);
#elif TU_BYTES == 32
    _mm256_stream_si256(p, (__m256i)v);
#else
    _mm512_stream_si512(p, (__m512i)v);
#endif
}

/* Stores past the caches are weakly ordered: without this a flag stored later might be seen first. */
TU_INLINE void stream_fence(void) {
#if TU_BYTES <= TU_NATIVE
    _mm_sfence();
#endif
}

/* `vectors` and `past` are constants, and so the array lives in registers. */
TU_INLINE void fold_block(struct kind kind, void *out, void *also, const void *const *a, int n,
                          size_t at, int vectors, bool past) {
    const char *operand = (const char *)a[0] + at;
    VECTOR v[BLOCK];

    for (int j = 0; j < vectors; j++) {
        v[j] = LOAD(operand, (size_t)j * TU_BYTES);
    }
    for (int k = 1; k < n; k++) {
        operand = (const char *)a[k] + at;
        for (int j = 0; j < vectors; j++) {
            v[j] = APPLY(kind, v[j], LOAD(operand, (size_t)j * TU_BYTES));
        }
    }
    for (int j = 0; j < vectors; j++) {
        if (past) {
            store_past((char *)out + at + (size_t)j * TU_BYTES, v[j]);
        } else {
            STORE((char *)out + at, NULL, (size_t)j * TU_BYTES, v[j]);
        }
    }
    if (also) {
        for (int j = 0; j < vectors; j++) {
            STORE((char *)also + at, NULL, (size_t)j * TU_BYTES, v[j]);
        }
    }
}

/*
 * The ends are folded first and written last, so that what lies between can use aligned stores. Those
 * past the caches begin where a line of the cache does, as only whole lines are fast.
 */
TU_INLINE void fold_long(struct kind kind, void *out, void *also, const void *const *a, int n,
                         size_t bytes, bool past) {
    const size_t last = bytes - TU_BYTES;
    const struct ENDS ends = FOLD_ENDS(kind, a, n, last);
    size_t at = TU_BYTES - (uintptr_t)out % TU_BYTES;

    at -= at % element_bytes(kind.type); /* out itself may be aligned to nothing */
    for (; past && ((uintptr_t)out + at) % LINE; at += TU_BYTES) {
        fold_block(kind, out, also, a, n, at, 1, false);
    }
    for (; at + BLOCK * TU_BYTES <= bytes; at += BLOCK * TU_BYTES) {
        fold_block(kind, out, also, a, n, at, BLOCK, past);
    }
    for (; at < last; at += TU_BYTES) {
        fold_block(kind, out, also, a, n, at, 1, false);
    }
    STORE_ENDS(out, also, last, ends);
}

/* ---- the table ---------------------------------------------------------------------------- */

/* The long part for n operands is a function of its own, so that the short one saves nothing. */
#define TU_LONG(type, op, name, n, past)                                                           \
    static __attribute__((noinline)) void type##_##op##_##name(                                    \
        void *out, void *also, const void *const *a, int operands, size_t bytes) {                 \
        (void)operands;                                                                            \
        fold_long((struct kind){TUTTI_##type, TUTTI_##op}, out, also, a, n, bytes, past);          \
    }

/* So few operands that their addresses stay in registers. */
#define TU_FEW(type, op, n)                                                                        \
    static __attribute__((noinline)) void type##_##op##_##n(                                       \
        void *out, void *also, const void *const *a, int operands, size_t bytes) {                 \
        const void *operand[n];                                                                    \
                                                                                                   \
        (void)operands;                                                                            \
        for (int k = 0; k < n; k++) {                                                              \
            operand[k] = a[k];                                                                     \
        }                                                                                          \
        fold_long((struct kind){TUTTI_##type, TUTTI_##op}, out, also, operand, n, bytes, false);   \
    }

#define TU_KERNEL(type, op)                                                                        \
    TU_FEW(type, op, 1)                                                                            \
    TU_FEW(type, op, 2)                                                                            \
    TU_FEW(type, op, 3)                                                                            \
    TU_FEW(type, op, 4)                                                                            \
    TU_LONG(type, op, 5, 5, false)                                                                 \
    TU_LONG(type, op, 6, 6, false)                                                                 \
    TU_LONG(type, op, 7, 7, false)                                                                 \
    TU_LONG(type, op, 8, 8, false)                                                                 \
    TU_LONG(type, op, any, operands, false)                                                        \
    TU_LONG(type, op, past, operands, true)                                                        \
    static void type##_##op(void *out, void *also, const void *const *a, int n, size_t count) {    \
        static tu_kernel *const fold[] = {type##_##op##_1, type##_##op##_2, type##_##op##_3,       \
                                          type##_##op##_4, type##_##op##_5, type##_##op##_6,       \
                                          type##_##op##_7, type##_##op##_8};                       \
        const size_t bytes = count * element_bytes(TUTTI_##type);                                  \
                                                                                                   \
        if (bytes == 8) { /* the most frequent call of many programs */                            \
            fold_word((struct kind){TUTTI_##type, TUTTI_##op}, out, also, a, n, 8);                \
        } else if (bytes <= 2 * TU_BYTES) {                                                        \
            fold_short((struct kind){TUTTI_##type, TUTTI_##op}, out, also, a, n, bytes);           \
        } else if ((unsigned)n - 1 < sizeof(fold) / sizeof(fold[0])) {                             \
            fold[n - 1](out, also, a, n, bytes);                                                   \
        } else {                                                                                   \
            type##_##op##_any(out, also, a, n, bytes);                                             \
        }                                                                                          \
    }                                                                                              \
    static void type##_##op##_stream(void *out, void *also, const void *const *a, int n,           \
                                     size_t count) {                                               \
        const size_t bytes = count * element_bytes(TUTTI_##type);                                  \
                                                                                                   \
        if (!CAN_STREAM || bytes < STREAM || (uintptr_t)out % element_bytes(TUTTI_##type)) {       \
            type##_##op(out, also, a, n, count);                                                   \
        } else {                                                                                   \
            type##_##op##_past(out, also, a, n, bytes);                                            \
            stream_fence();                                                                        \
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

#define TU_REAL_ENTRIES(type, way)                                                                 \
    [TUTTI_SUM] = type##_SUM##way, [TUTTI_PROD] = type##_PROD##way, [TUTTI_MIN] = type##_MIN##way, \
    [TUTTI_MAX] = type##_MAX##way
#define TU_INTEGER_ENTRIES(type, way)                                                              \
    TU_REAL_ENTRIES(type, way), [TUTTI_LAND] = type##_LAND##way, [TUTTI_LOR] = type##_LOR##way,    \
                                [TUTTI_LXOR] = type##_LXOR##way, [TUTTI_BAND] = type##_BAND##way,  \
                                [TUTTI_BOR] = type##_BOR##way, [TUTTI_BXOR] = type##_BXOR##way
#define TU_ENTRIES(way)                                                                            \
    [TUTTI_I32] = {TU_INTEGER_ENTRIES(I32, way)}, [TUTTI_I64] = {TU_INTEGER_ENTRIES(I64, way)},    \
    [TUTTI_F32] = {TU_REAL_ENTRIES(F32, way)}, [TUTTI_F64] = {TU_REAL_ENTRIES(F64, way)}

const struct tu_kernels TU_TABLE = {
    .name = TU_TABLE_NAME,
    .fold = {TU_ENTRIES()},
    .stream = {TU_ENTRIES(_stream)},
};
