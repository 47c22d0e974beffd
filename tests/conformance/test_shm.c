/* The conformance suite over shared memory. */
#include "tests/conformance/conformance.h"

const struct conformance_subject conformance_subject = {
    .name = "shm", .ops = &tu_transport_shm, .mapped = true};
