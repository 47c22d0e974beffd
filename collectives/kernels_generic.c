/*
 * Kernels for every processor of the architecture, with vectors of 16 bytes: SSE2 on x86-64, NEON on
 * aarch64, and whatever the compiler makes of them elsewhere.
 */
#define TU_BYTES 16
#define TU_TABLE tu_kernels_generic
#if defined(__x86_64__)
#define TU_TABLE_NAME "sse2"
#elif defined(__aarch64__)
#define TU_TABLE_NAME "neon"
#else
#define TU_TABLE_NAME "generic"
#endif
#include "collectives/kernels_body.h"
