/* The conformance suite over verbs. */
#include "tests/conformance/verbs_subject.h"

const struct conformance_subject conformance_subject = {.name = "verbs",
                                                        .ops = &tu_transport_verbs,
                                                        .configure = verbs_configure,
                                                        .sleeps = true,
                                                        .checks_connect = true,
                                                        .finds_loss = true,
                                                        .send_depth = 128,
                                                        .starved = verbs_starved};
