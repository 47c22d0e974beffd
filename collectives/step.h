/* Steps as functions, chosen when a program is made. */
#ifndef TU_COLLECTIVES_STEP_H
#define TU_COLLECTIVES_STEP_H

#include <stdbool.h>

struct tu_run;
struct tu_segment;
struct tu_op;

/* Tries a step of the segment, whose turn it is. True if it is done now. */
typedef bool tu_step_fn(struct tu_run *run, struct tu_segment *segment, const struct tu_op *op);

/* The best one for this step; everything else of the op is filled in. */
tu_step_fn *tu_step_choose(const struct tu_op *op);

#endif
