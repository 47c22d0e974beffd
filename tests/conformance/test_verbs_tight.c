/*
 * The conformance suite over verbs as if the device had less: no inline data, so that lines are sent
 * from registered cells; short queues; and short messages, so that writes and reads are cut.
 */
#include "tests/conformance/verbs_subject.h"
#include "transport/verbs.h"

static void *begin(uint32_t endpoints) {
    static const struct tu_verbs_limits limits = {
        .inline_bytes = 0, .send_depth = 16, .message_bytes = 3000};

    (void)endpoints;
    return (void *)(uintptr_t)&limits;
}

static void end(void *world) {
    (void)world;
}

const struct conformance_subject conformance_subject = {.name = "verbs, little of everything",
                                                        .ops = &tu_transport_verbs,
                                                        .begin = begin,
                                                        .end = end,
                                                        .configure = verbs_configure,
                                                        .sleeps = true,
                                                        .checks_connect = true,
                                                        .finds_loss = true,
                                                        .send_depth = 16,
                                                        .starved = verbs_starved};
