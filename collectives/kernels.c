/* Which kernels this processor runs, and the names and sizes of types and operations. */
#include "collectives/kernels_variants.h"

#include <assert.h>
#include <stdint.h>

/* The baseline first, best last; each runs wherever a later one does. */
static const struct tu_kernels *const variants[] = {
    &tu_kernels_generic,
#if defined(__x86_64__)
    &tu_kernels_avx2,
    &tu_kernels_avx512,
#endif
};

/* The instruction sets are those of the flags in CMakeLists.txt. */
static int runnable(void) {
    int n = 1;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        n++;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
            n++;
        }
    }
#endif
    return n;
}

const struct tu_kernels *tu_kernels_best(void) {
    return variants[runnable() - 1];
}

const struct tu_kernels *const *tu_kernels_all(int *n) {
    *n = runnable();
    return variants;
}

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [TUTTI_I32] = {"i32", sizeof(int32_t)},
    [TUTTI_I64] = {"i64", sizeof(int64_t)},
    [TUTTI_F32] = {"f32", sizeof(float)},
    [TUTTI_F64] = {"f64", sizeof(double)},
};
static_assert(sizeof(types) / sizeof(types[0]) == TU_TYPES, "one line for each type");

static const char *const ops[] = {"sum", "prod", "min",  "max", "land",
                                  "lor", "lxor", "band", "bor", "bxor"};
static_assert(sizeof(ops) / sizeof(ops[0]) == TU_OPS, "one name for each operation");

size_t tu_type_bytes(tutti_type type) {
    return (unsigned)type < TU_TYPES ? types[type].bytes : 0;
}

const char *tu_type_name(tutti_type type) {
    return (unsigned)type < TU_TYPES ? types[type].name : "?";
}

const char *tu_op_name(tutti_op op) {
    return (unsigned)op < TU_OPS ? ops[op] : "?";
}
