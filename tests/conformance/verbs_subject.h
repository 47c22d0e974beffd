/* What the programs of the suite over verbs share. They run where there is an RDMA device. */
#ifndef TU_TESTS_VERBS_SUBJECT_H
#define TU_TESTS_VERBS_SUBJECT_H

#include "tests/conformance/conformance.h"

/* Rank r uses the r-th device of this machine, modulo their number. */
void verbs_configure(struct tu_config *config, uint32_t rank);

/* Messages of any device here that found no receive entry, so far. */
uint64_t verbs_starved(void);

#endif
