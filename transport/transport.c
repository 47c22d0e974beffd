/*
 * Defaults of the transport contract: what a transport need not write because it has no addresses to
 * publish, nothing to register, or no way to sleep.
 */
#include "transport/transport.h"

size_t tu_no_address_bytes(const struct tu_transport *transport) {
    (void)transport;
    return 0;
}

tutti_status tu_no_address(struct tu_transport *transport, void *blob) {
    (void)transport, (void)blob;
    return TUTTI_OK;
}

tutti_status tu_no_register(struct tu_transport *transport, void *base, size_t bytes,
                            uint64_t *key) {
    (void)transport, (void)base, (void)bytes;
    *key = 0;
    return TUTTI_OK;
}

void tu_no_deregister(struct tu_transport *transport, uint64_t key) {
    (void)transport, (void)key;
}

bool tu_always_drained(struct tu_transport *transport) {
    (void)transport;
    return true;
}

tutti_status tu_no_arm(struct tu_transport *transport, int *fd) {
    (void)transport;
    *fd = -1;
    return TUTTI_OK;
}

void tu_no_wake(struct tu_transport *transport) {
    (void)transport;
}
