/* The tables that kernels_<set>.c define, for kernels.c, which says what runs on this processor. */
#ifndef TU_COLLECTIVES_KERNELS_VARIANTS_H
#define TU_COLLECTIVES_KERNELS_VARIANTS_H

#include "collectives/kernels.h"

extern const struct tu_kernels tu_kernels_generic;
#if defined(__x86_64__)
extern const struct tu_kernels tu_kernels_avx2;
extern const struct tu_kernels tu_kernels_avx512;
#endif

#endif
