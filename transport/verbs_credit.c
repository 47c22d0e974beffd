/*
 * Receive credits. A write with immediate takes a receive entry at its target, and one that finds none
 * is retried by the device and in the end fails the queue pair (RNR). Rings bound what one comm has
 * under way, but any number of comms share a queue pair. So each rank tells each peer, in a cell of
 * the peer's, how many of its writes it has polled, and a writer is at most `allowed` writes ahead.
 *
 * A peer is allowed twice what one comm's rings can have under way, and is told when half of that has
 * been polled: rings of one comm then never wait for these credits.
 */
#include "transport/verbs_endpoint.h"

#include <stdatomic.h>

#include "runtime/env.h"
#include "runtime/memory.h"

uint32_t tu_verbs_allowance(uint32_t slots_per_peer) {
    return 2 * (slots_per_peer ? slots_per_peer : 1);
}

tutti_status tu_verbs_make_credits(struct tu_verbs *verbs) {
    size_t cells = verbs->peers ? verbs->peers : 1;
    void *memory;
    tutti_status status =
        tu_alloc_for(verbs->env, "receive credits", 64, cells, sizeof *verbs->credit, &memory);

    if (status)
        return status;
    verbs->credit = memory;
    return tu_verbs_add_region(verbs, "the receive credits", memory, cells * sizeof *verbs->credit,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &verbs->credit_mr);
}

/*
 * Relaxed: the count licenses no access to memory here; the entries that it speaks of are the
 * peer's, and were posted before it was sent.
 */
bool tu_verbs_has_credit(struct tu_verbs *verbs, uint32_t index) {
    const struct tu_verbs_peer *peer = &verbs->peer[index];
    uint64_t polled = atomic_load_explicit(&verbs->credit[index], memory_order_relaxed);

    return peer->written - (uint32_t)polled < peer->allowed;
}

/* Tells the peer if it is time to; a full send queue puts it off to a later poll. */
void tu_verbs_tell(struct tu_verbs *verbs, uint32_t index) {
    struct tu_verbs_peer *peer = &verbs->peer[index];

    if (peer->received - peer->told < verbs->allowance / 2 || peer->state != TU_VERBS_CONNECTED)
        return;
    if (tu_verbs_post_credit(verbs, index, peer->received) == TUTTI_OK)
        peer->told = peer->received;
    else
        verbs->untold = true;
}

void tu_verbs_tell_all(struct tu_verbs *verbs) {
    verbs->untold = false;
    for (uint32_t i = 0; i < verbs->peers; i++)
        tu_verbs_tell(verbs, i);
}
