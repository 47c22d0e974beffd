/* Rings: see ring.h. */
#include "transport/ring.h"

static uint64_t load_cell(const uint8_t *cell) {
    return atomic_load_explicit((const _Atomic uint64_t *)(const void *)cell, memory_order_acquire);
}

/* ---- writer ---- */

bool tu_ring_refresh(struct tu_ring_out *ring, uint32_t number) {
    uint32_t least = ring->limit;
    if (ring->twin) {
        ring->limit = ring->twin->consumed + ring->slots;
        return (int32_t)(number - ring->limit) < 0;
    }
    for (uint32_t i = 0; i < ring->readers; i++) {
        /* acquire: pairs with the reader's release of the slot, which I am about to overwrite */
        uint32_t limit =
            (uint32_t)load_cell(ring->credit + (size_t)i * TU_CELL_STRIDE) + ring->slots;
        if (i == 0 || (int32_t)(limit - least) < 0)
            least = limit;
    }
    if (ring->readers == 0)
        least = number + 1;
    ring->limit = least;
    return (int32_t)(number - least) < 0;
}

tutti_status tu_ring_wire_line(struct tu_ring_out *ring, struct tu_line_header header,
                               const void *payload, size_t bytes) {
    size_t at = (size_t)tu_ring_place(header.flag, ring->slots) * TU_LINE_STRIDE;
    struct tu_peer *peer = ring->peer;
    return peer->transport->ops->line(peer->transport, peer->index, ring->peer_cell + at, header,
                                      payload, bytes);
}

/* Does the use lie in the other's window? (A pair's, in odd turns.) */
static bool lies_there(const struct tu_ring_out *ring, uint32_t number) {
    return ring->twin && (number >> ring->turn_shift & 1);
}

/* Offset of a use's data, from the start of the window that it lies in. */
static uint64_t slot_at(const struct tu_ring_out *ring, uint32_t number) {
    uint64_t slots = lies_there(ring, number) ? ring->peer_slot : ring->slot;
    return slots + tu_ring_place(number, ring->pieces) * ring->slot_stride + TU_SLOT_HEAD;
}

uint8_t *tu_ring_slot(const struct tu_ring_out *ring, uint32_t number) {
    uint8_t *base = lies_there(ring, number) ? ring->peer->window : ring->window->base;
    return base + slot_at(ring, number);
}

/* The reader announces its slots in its own time; until then nothing can be sent to them. */
bool tu_ring_sendable(struct tu_ring_out *ring, uint32_t number) {
    bool there = !ring->cell[0] || lies_there(ring, number);
    if (there && !ring->peer_slot) {
        uint64_t told = load_cell(ring->announce);
        ring->peer_slot = told ? told - 1 : 0;
    }
    return !there || ring->peer_slot;
}

tutti_status tu_ring_send(struct tu_ring_out *ring, struct tu_line_header header, size_t bytes) {
    uint64_t at = slot_at(ring, header.flag);
    if (ring->cell[0]) {
        tu_line_store_cacheline(tu_ring_out_cell(ring, header.flag), header, &at, sizeof at);
        ring->counters->writes++;
        ring->counters->bytes += bytes;
        return TUTTI_OK;
    }
    struct tu_peer *peer = ring->peer;
    uint64_t to = ring->peer_slot + (at - ring->slot) - sizeof header;
    uint32_t low = header.flag & ((1u << TU_IMM_NUMBER_BITS) - 1);
    memcpy(ring->window->base + at - sizeof header, &header, sizeof header);
    return peer->transport->ops->write(peer->transport, peer->index, at - sizeof header, to,
                                       bytes + sizeof header, ring->immediate | low);
}

void tu_ring_lend(struct tu_ring_out *ring, struct tu_line_header header, uint64_t offset) {
    tu_line_store_cacheline(tu_ring_out_cell(ring, header.flag), header, &offset, sizeof offset);
    ring->counters->lines++;
}

bool tu_ring_returned(const struct tu_ring_out *ring, uint32_t i, uint32_t number) {
    /* acquire: the reader's reads of what was lent come before I change it */
    uint32_t consumed = (uint32_t)load_cell(ring->credit + (size_t)i * TU_CELL_STRIDE);
    return (int32_t)(consumed - number) > 0;
}

tutti_status tu_ring_out_slots(struct tu_ring_out *ring, size_t bytes) {
    if (ring->slot)
        return TUTTI_OK;
    ring->slot_stride = bytes + TU_SLOT_HEAD;
    return tu_window_take(ring->window, ring->pieces * ring->slot_stride, &ring->slot);
}

/* ---- reader ---- */

/* The writer waits for the use: it is told as soon as that is given back, and of all such uses. (Slices of
   a call may find theirs in any order.) */
static void be_prompt(struct tu_ring_in *ring, uint32_t number) {
    if (!ring->prompt || (int32_t)(number + 1 - ring->prompt_to) > 0)
        ring->prompt_to = number + 1;
    ring->prompt = true;
    if (!ring->lag) /* nothing was told of the last uses */
        ring->published = ring->consumed - 1;
}

const uint8_t *tu_ring_data(struct tu_ring_in *ring, uint32_t number, size_t bytes) {
    const uint8_t *cell = tu_ring_cell(ring, number);
    uint32_t slot = tu_ring_place(number, ring->slots);
    if (bytes <= ring->payload && ring->peer->format == TU_FORMAT_CACHELINE)
        return cell + sizeof(struct tu_line_header);
    if (bytes <= ring->payload) {
        uint8_t *to = ring->unpacked + (size_t)slot * TU_LINE_PAYLOAD;
        tu_line_read(cell, ring->peer->format, to, bytes);
        return to;
    }
    if (!ring->peer->window)
        return ring->window->base + ring->slot + slot * ring->slot_stride + TU_SLOT_HEAD;
    uint64_t offset;
    memcpy(&offset, cell + sizeof(struct tu_line_header), sizeof offset);
    if (offset >= ring->window->bytes) {
        be_prompt(ring, number);
        return ring->peer->window + offset;
    }
    /* a pair's slots lie in the window of their line, which is mine in odd turns */
    bool here = !ring->lag && (number >> ring->turn_shift & 1);
    return (here ? ring->window->base : ring->peer->window) + offset;
}

static tutti_status tell(struct tu_ring_in *ring, uint64_t offset, uint64_t value) {
    struct tu_peer *peer = ring->peer;
    if (peer->window) {
        /* release: my reads of the slots given back come before */
        atomic_store_explicit((_Atomic uint64_t *)(void *)(peer->window + offset), value,
                              memory_order_release);
        ring->counters->cells++;
        return TUTTI_OK;
    }
    return peer->transport->ops->cell(peer->transport, peer->index, offset, value);
}

tutti_status tu_ring_settle(struct tu_ring_in *ring) {
    tutti_status status = TUTTI_OK;
    if (ring->slot && !ring->announced) {
        status = tell(ring, ring->announce, ring->slot + 1);
        if (status)
            return status;
        ring->announced = true;
    }
    if (ring->consumed != ring->published) {
        status = tell(ring, ring->credit, ring->consumed);
        if (status == TUTTI_OK)
            ring->published = ring->consumed;
    }
    if (status == TUTTI_OK && (int32_t)(ring->published - ring->prompt_to) >= 0)
        ring->prompt = false;
    return status;
}

tutti_status tu_ring_in_slots(struct tu_ring_in *ring, size_t bytes) {
    if (ring->slot || ring->peer->window)
        return TUTTI_OK;
    ring->slot_stride = bytes + TU_SLOT_HEAD;
    return tu_window_take(ring->window, ring->slots * ring->slot_stride, &ring->slot);
}

/*
 * The slot's head came with the data. It is copied into the line cell, where readers look; nobody else
 * writes this cell now, since the writer can't use the slot again before it is given back.
 */
bool tu_ring_deliver(struct tu_ring_in *ring, uint32_t immediate) {
    uint32_t mask = (1u << TU_IMM_NUMBER_BITS) - 1;
    uint32_t number = ring->consumed + ((immediate - ring->consumed) & mask);
    uint32_t slot = tu_ring_place(number, ring->slots);
    struct tu_line_header header;
    if (!ring->slot || number - ring->consumed >= ring->slots)
        return false;
    memcpy(&header,
           ring->window->base + ring->slot + slot * ring->slot_stride + TU_SLOT_HEAD -
               sizeof header,
           sizeof header);
    header.flag = number;
    uint8_t *cell = (uint8_t *)(uintptr_t)tu_ring_cell(ring, number);
    tu_line_store_cacheline(cell, header, NULL, 0);
    return true;
}
