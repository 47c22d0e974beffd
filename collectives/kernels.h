/*
 * Reduction kernels: one function per (type, operation), compiled several times for different
 * instruction sets, and chosen once per job. All variants give the same bits.
 *
 * Values. Integers wrap around. Logical operations give 0 or 1, from two operands on.
 *   min, max of floating point: a NaN operand is the result, the first one in the order of the fold,
 *     its bits unchanged. -0.0 is less than +0.0.
 *   sum, prod of floating point: IEEE 754 in the type itself, no fused or wider steps. A NaN operand
 *     is the result, the first one in the order of the fold, quieted (first bit of the mantissa set),
 *     sign and payload unchanged. A NaN that an operation makes itself (inf - inf, 0 * inf) is the
 *     processor's: its sign bit is set on x86-64 and clear on aarch64, the only difference between
 *     those two; from there on it is the first NaN.
 *   The caller's rounding mode and treatment of denormals apply, and must be the same on all ranks.
 * C leaves the bits of a NaN open, so this holds because of what the compilers do with the code that
 * rules out the only choice they have (which of two NaNs comes out); the unit test watches it.
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
    const char *name;                  /* "sse2", "avx2", "avx512", "neon", "generic" */
    tu_kernel *fold[TU_TYPES][TU_OPS]; /* NULL where the type does not have the operation */
    /*
     * The same bits, but `out` is stored past the caches (non-temporal), unless it is short or its
     * elements are not aligned; `also` goes into them. All stores are done on return: a flag stored
     * later is seen later. It pays only where nothing of `out` could stay in a cache until it is read:
     * see docs/decisions.md. Where the compiler has no such stores, this is like `fold`.
     */
    tu_kernel *stream[TU_TYPES][TU_OPS];
};

/* The best variant that this processor runs. */
const struct tu_kernels *tu_kernels_best(void);

/* All variants that this processor runs, the baseline first, best last; *n is set to their number. */
const struct tu_kernels *const *tu_kernels_all(int *n);

size_t tu_type_bytes(tutti_type type);     /* 0 if unknown */
const char *tu_type_name(tutti_type type); /* "f32"; "?" if unknown */
const char *tu_op_name(tutti_op op);       /* "sum"; "?" if unknown */

#endif
