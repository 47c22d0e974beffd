/*
 * Defaults of the transport contract: what a transport need not write because it has no addresses to
 * publish, nothing to register, or no way to sleep.
 */
#include "transport/transport.h"

#include <assert.h>

static size_t no_address_bytes(const struct tu_transport *transport) {
    (void)transport;
    return 0;
}

static tutti_status no_address(struct tu_transport *transport, void *blob) {
    (void)transport, (void)blob;
    return TUTTI_OK;
}

static tutti_status no_connect(struct tu_transport *transport, uint32_t peer, const void *blob) {
    (void)transport, (void)peer, (void)blob;
    return TUTTI_OK;
}

static tutti_status no_register(struct tu_transport *transport, void *base, size_t bytes,
                                uint64_t *key) {
    (void)transport, (void)base, (void)bytes;
    *key = 0;
    return TUTTI_OK;
}

static void no_deregister(struct tu_transport *transport, uint64_t key) {
    (void)transport, (void)key;
}

static bool always_drained(struct tu_transport *transport) {
    (void)transport;
    return true;
}

static tutti_status no_arm(struct tu_transport *transport, int *fd) {
    (void)transport;
    *fd = -1;
    return TUTTI_OK;
}

static void no_wake(struct tu_transport *transport) {
    (void)transport;
}

/* One initialiser by position: a member that is added to the contract is a warning here. */
static const struct tu_transport_ops defaults = {
    "",
    NULL, /* open */
    NULL, /* close */
    NULL, /* capabilities */
    no_address_bytes,
    no_address,
    no_connect,
    no_register,
    no_deregister,
    NULL, /* line */
    NULL, /* write */
    NULL, /* cell */
    NULL, /* read */
    NULL, /* poll */
    always_drained,
    no_arm,
    no_wake,
};

#define TU_DEFAULT(member) (ops->member = ops->member ? ops->member : defaults.member)

void tu_transport_complete(struct tu_transport_ops *ops) {
    assert(ops->name && ops->open && ops->close && ops->capabilities);
    assert(ops->line && ops->write && ops->cell && ops->read && ops->poll);
    TU_DEFAULT(address_bytes);
    TU_DEFAULT(address);
    TU_DEFAULT(connect);
    TU_DEFAULT(register_memory);
    TU_DEFAULT(deregister_memory);
    TU_DEFAULT(drained);
    TU_DEFAULT(arm);
    TU_DEFAULT(wake);
}
