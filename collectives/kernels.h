/*
 * Reduction kernels: one function per (type, operation), compiled several times for different
 * instruction sets, and chosen once per job. All variants give the same bits.
 */
#ifndef TU_COLLECTIVES_KERNELS_H
#define TU_COLLECTIVES_KERNELS_H

#include <stddef.h>

#include "tutti/tutti.h"

enum { TU_TYPES = 4, TU_OPS = 10 };

/*
 * out[i] = ((a[0][i] op a[1][i]) op a[2][i]) ..., the left fold over n >= 1 operands (n = 1 copies),
 * for `count` elements. `also`, unless NULL, gets the same values. Each destination is either
 * disjoint from an operand or exactly the same array. Any alignment of bytes is right; elements need
 * not be aligned. Nothing is read or written if count is 0.
 */
typedef void tu_kernel(void *out, void *also, const void *const *a, int n, size_t count);

struct tu_kernels {
    const char *name; /* "sse2", "avx2", "avx512", "neon", "generic" */
    tu_kernel *fold[TU_TYPES][TU_OPS]; /* NULL where the type does not have the operation */
};

/* The best variant that this processor runs. */
const struct tu_kernels *tu_kernels_best(void);

/* All variants that this processor runs, generic first (for tests); *n is set to their number. */
const struct tu_kernels *const *tu_kernels_all(int *n);

size_t tu_type_bytes(tutti_type type); /* 0 if unknown */
const char *tu_type_name(tutti_type type); /* "f32"; "?" if unknown */
const char *tu_op_name(tutti_op op); /* "sum"; "?" if unknown */

#endif
