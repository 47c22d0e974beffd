/* Kernels for x86-64 with AVX-512 (F, DQ, BW, VL), with vectors of 64 bytes. Empty on others. */
#if defined(__x86_64__)
#define TU_BYTES 64
#define TU_TABLE tu_kernels_avx512
#define TU_TABLE_NAME "avx512"
#include "collectives/kernels_body.h"
#endif
