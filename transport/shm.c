/*
 * The shared-memory transport: peers' windows are mapped here, so every member is a copy or a store.
 * Rings to mapped peers make the same stores themselves (transport/line.h), without a call in between;
 * what is rare goes through here.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/memory.h"
#include "transport/line.h"

struct shm {
    struct tu_transport head;
    struct tu_env *env;
    struct tu_counters *counters;
    uint8_t *window;
    uint32_t peers;
    uint8_t *peer_window[];
};

static struct shm *shm_of(struct tu_transport *transport) {
    return (struct shm *)transport;
}

static tutti_status shm_open_transport(const struct tu_transport_params *params,
                                       struct tu_transport **transport) {
    struct shm *shm = tu_alloc(0, 1, sizeof *shm + params->peers * sizeof(uint8_t *));
    if (!shm)
        return tu_fail(params->env, TUTTI_ERR_MEMORY, "no memory for %u peers", params->peers);
    shm->head.ops = &tu_transport_shm;
    shm->env = params->env;
    shm->counters = params->counters;
    shm->window = params->window;
    shm->peers = params->peers;
    for (uint32_t i = 0; i < params->peers; i++)
        shm->peer_window[i] = params->peer_window[i];
    *transport = &shm->head;
    return TUTTI_OK;
}

static void shm_close(struct tu_transport *transport) {
    free(transport);
}

static struct tu_transport_caps shm_capabilities(const struct tu_transport *transport) {
    (void)transport;
    return (struct tu_transport_caps){
        .format = TU_FORMAT_CACHELINE, .mapped = true, .max_write_bytes = SIZE_MAX};
}

static tutti_status shm_connect(struct tu_transport *transport, uint32_t peer, const void *blob) {
    (void)blob;
    return shm_of(transport)->peer_window[peer]
               ? TUTTI_OK
               : tu_fail(shm_of(transport)->env, TUTTI_ERR_INTERNAL,
                         "the window of peer %u is not mapped", peer);
}

static tutti_status shm_line(struct tu_transport *transport, uint32_t peer, uint64_t to,
                             struct tu_line_header header, const void *payload, size_t bytes) {
    struct shm *shm = shm_of(transport);
    tu_line_store_cacheline(shm->peer_window[peer] + to, header, payload, bytes);
    shm->counters->lines++;
    shm->counters->bytes += bytes;
    return TUTTI_OK;
}

static tutti_status shm_write(struct tu_transport *transport, uint32_t peer, uint64_t from,
                              uint64_t to, size_t bytes, uint32_t immediate) {
    struct shm *shm = shm_of(transport);
    (void)immediate; /* the line that follows announces it, with release order */
    memcpy(shm->peer_window[peer] + to, shm->window + from, bytes);
    shm->counters->writes++;
    shm->counters->bytes += bytes;
    return TUTTI_OK;
}

static tutti_status shm_cell(struct tu_transport *transport, uint32_t peer, uint64_t to,
                             uint64_t value) {
    struct shm *shm = shm_of(transport);
    _Atomic uint64_t *cell = (_Atomic uint64_t *)(void *)(shm->peer_window[peer] + to);
    atomic_store_explicit(cell, value, memory_order_release);
    shm->counters->cells++;
    return TUTTI_OK;
}

/* By words, since the peer may be writing: a torn record is possible, torn words are not. */
static tutti_status shm_read(struct tu_transport *transport, uint32_t peer, uint64_t from,
                             uint64_t to, size_t bytes, int *done) {
    struct shm *shm = shm_of(transport);
    const _Atomic uint64_t *source = (const void *)(shm->peer_window[peer] + from);
    uint64_t *target = (uint64_t *)(void *)(shm->window + to);
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        target[i] = atomic_load_explicit(&source[i], memory_order_acquire);
    *done = 1;
    return TUTTI_OK;
}

static int shm_poll(struct tu_transport *transport) {
    (void)transport;
    return 0;
}

/* By position, so that the compiler finds a forgotten member. */
const struct tu_transport_ops tu_transport_shm = {
    "shm",         shm_open_transport, shm_close,      shm_capabilities, tu_no_address_bytes,
    tu_no_address, shm_connect,        tu_no_register, tu_no_deregister, shm_line,
    shm_write,     shm_cell,           shm_read,       shm_poll,         tu_always_drained,
    tu_no_arm,     tu_no_wake,
};
