/* Which kernels a job runs: the best that its processor has, or those that the user names. */
#ifndef TU_COLLECTIVES_KERNELS_CHOICE_H
#define TU_COLLECTIVES_KERNELS_CHOICE_H

#include "collectives/kernels.h"

struct tu_env;

/*
 * Sets *kernels to the best variant, or to that of TUTTI_KERNELS. A name that is unknown, or that this
 * processor does not run, is TUTTI_ERR_CONFIG with those that it runs, and *kernels stays.
 */
tutti_status tu_kernels_choose(struct tu_env *env, const struct tu_kernels **kernels);

#endif
