/* The conformance suite over the simulator's transport. */
#include "tests/conformance/conformance.h"
#include "tests/sim/network.h"

static void *begin(uint32_t endpoints) {
    return sim_network_make(endpoints, endpoints);
}

static void end(void *world) {
    sim_network_free(world);
}

const struct conformance_subject conformance_subject = {.name = "sim",
                                                        .ops = &sim_transport,
                                                        .begin = begin,
                                                        .end = end,
                                                        .checks_connect = true,
                                                        .finds_loss = true};
