/* Kernels for x86-64 with AVX2, with vectors of 32 bytes. Empty on other architectures. */
#if defined(__x86_64__)
#define TU_BYTES 32
#define TU_TABLE tu_kernels_avx2
#define TU_TABLE_NAME "avx2"
#include "collectives/kernels_body.h"
#endif
