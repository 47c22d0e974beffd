/*
 * The kernels' body with vectors of 64 bytes and no instruction set that has them: the code of the
 * widest variant but for its instructions, for processors that do not run it.
 */
#define TU_BYTES 64
#define TU_TABLE tu_kernels_wide
#define TU_TABLE_NAME "wide"
#include "collectives/kernels_body.h"
