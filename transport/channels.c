/* Making the channels of a comm, and its node scratch. */
#include "transport/channels.h"

#include <stdlib.h>

#include "runtime/env.h"

static void open_edge(const struct tu_channels_params *p, uint32_t i, uint32_t bank,
                      struct tu_edge *edge) {
    struct tu_window *w = p->window;
    const struct tu_window_shape *shape = &w->shape;
    struct tu_peer *peer = edge->peer;
    uint64_t there = tu_window_line(shape, p->comm, p->my_place[i], bank);

    edge->out[bank] = (struct tu_ring_out){
        .next = p->first_number,
        .limit = p->first_number + shape->slots,
        .slots = shape->slots,
        .pieces = shape->slots,
        .readers = 1,
        .credit = w->base + tu_window_credit(shape, p->comm, i, bank),
        .cell = {peer->window ? peer->window + there : NULL,
                 peer->window ? peer->window + there : NULL},
        .stride = TU_LINE_STRIDE,
        .payload = TU_LINE_PAYLOAD,
        .peer = peer,
        .window = w,
        .counters = p->counters,
        .peer_cell = there,
        .announce = w->base + tu_window_announce(shape, p->comm, i, bank),
        .immediate = tu_immediate_of(p->comm, bank),
    };
    edge->in[bank] = (struct tu_ring_in){
        .next = p->first_number,
        .consumed = p->first_number,
        .published = p->first_number,
        .slots = shape->slots,
        .cell = {w->base + tu_window_line(shape, p->comm, i, bank),
                 w->base + tu_window_line(shape, p->comm, i, bank)},
        .stride = TU_LINE_STRIDE,
        .payload = TU_LINE_PAYLOAD,
        .lag = (shape->slots + 1) / 2,
        .peer = peer,
        .window = w,
        .counters = p->counters,
        .credit = tu_window_credit(shape, p->comm, p->my_place[i], bank),
        .announce = tu_window_announce(shape, p->comm, p->my_place[i], bank),
    };
}

static tutti_status open_edges(const struct tu_channels_params *p, struct tu_channels *c) {
    for (uint32_t i = 0; i < p->edges; i++) {
        struct tu_edge *edge = &c->edge[i];
        edge->rank = p->edge_rank[i];
        edge->peer = p->edge_peer[i];
        for (uint32_t bank = 0; bank < c->banks; bank++) {
            open_edge(p, i, bank, edge);
            if (edge->peer->window)
                continue;
            void *unpacked;
            tutti_status status = tu_alloc_for(p->window->env, "payloads of a ring", 64,
                                               c->window->shape.slots, TU_LINE_PAYLOAD, &unpacked);
            if (status)
                return status;
            edge->in[bank].unpacked = unpacked;
        }
    }
    return TUTTI_OK;
}

/* Readers' credit cells leave out the writer: member m is reader m, or m - 1 above the writer. */
static uint32_t reader_of(uint32_t member, uint32_t writer) {
    return member < writer ? member : member - 1;
}

static void open_boards(const struct tu_channels_params *p, struct tu_channels *c, uint32_t bank) {
    struct tu_window *w = p->window;
    const struct tu_window_shape *shape = &w->shape;

    c->own[bank] = (struct tu_ring_out){
        .next = p->first_number,
        .limit = p->first_number + shape->cells,
        .slots = shape->cells,
        .pieces = shape->slots,
        .readers = p->members - 1,
        .credit = w->base + tu_window_board_credit(shape, p->comm, bank, 0),
        .cell = {w->base + tu_window_board(shape, p->comm, bank),
                 w->base + tu_window_board(shape, p->comm, bank)},
        .stride = TU_BOARD_STRIDE,
        .payload = TU_BOARD_PAYLOAD,
        .window = w,
        .counters = p->counters,
    };
    for (uint32_t m = 0; m < p->members; m++) {
        struct tu_board *board = &c->board[m];
        board->rank = p->member_rank[m];
        board->peer = p->member_peer[m];
        if (m == p->local)
            continue;
        board->in[bank] = (struct tu_ring_in){
            .next = p->first_number,
            .consumed = p->first_number,
            .published = p->first_number,
            .slots = shape->cells,
            .cell = {board->peer->window + tu_window_board(shape, p->comm, bank),
                     board->peer->window + tu_window_board(shape, p->comm, bank)},
            .stride = TU_BOARD_STRIDE,
            .payload = TU_BOARD_PAYLOAD,
            .lag = (shape->slots + 1) / 2,
            .peer = board->peer,
            .window = w,
            .counters = p->counters,
            .credit = tu_window_board_credit(shape, p->comm, bank, reader_of(p->local, m)),
        };
    }
}

/* In even turns each writes into its own window. */
static void open_pair(const struct tu_channels_params *p, struct tu_channels *c, uint32_t bank) {
    const struct tu_window_shape *shape = &p->window->shape;
    struct tu_peer *peer = c->board[1 - c->local].peer;
    uint64_t at = tu_window_pair(shape, p->comm, bank);
    uint32_t shift = (uint32_t)__builtin_ctz(shape->slots);

    c->pair_in[bank] = (struct tu_ring_in){
        .next = p->first_number,
        .consumed = p->first_number,
        .slots = shape->slots,
        .cell = {peer->window + at, p->window->base + at},
        .stride = TU_BOARD_STRIDE,
        .payload = TU_BOARD_PAYLOAD,
        .turn_shift = shift,
        .peer = peer,
        .window = p->window,
        .counters = p->counters,
        .credit = tu_window_pair_credit(shape, p->comm, bank),
    };
    c->pair_out[bank] = (struct tu_ring_out){
        .next = p->first_number,
        .limit = p->first_number + shape->slots,
        .slots = shape->slots,
        .pieces = shape->slots,
        .cell = {p->window->base + at, peer->window + at},
        .stride = TU_BOARD_STRIDE,
        .payload = TU_BOARD_PAYLOAD,
        .turn_shift = shift,
        .twin = &c->pair_in[bank],
        .readers = 1,
        .credit = p->window->base + tu_window_pair_credit(shape, p->comm, bank),
        .peer = peer,
        .window = p->window,
        .counters = p->counters,
        .announce = peer->window + tu_window_pair_slot(shape, p->comm, bank),
    };
}

tutti_status tu_pair_slots(struct tu_channels *c) {
    for (uint32_t bank = 0; bank < c->banks; bank++) {
        tutti_status status = tu_ring_out_slots(&c->pair_out[bank], c->share_bytes);
        if (status)
            return status;
        uint8_t *cell = c->window->base + tu_window_pair_slot(&c->window->shape, c->comm, bank);
        atomic_store_explicit((_Atomic uint64_t *)(void *)cell, c->pair_out[bank].slot + 1,
                              memory_order_release);
    }
    return TUTTI_OK;
}

/* The readers of my rings have consumed nothing yet, and no slot of mine holds a use. Plain stores:
   nobody else touches the block before the comm is there on all ranks. */
static void reset_cells(const struct tu_channels_params *p, const struct tu_channels *c) {
    const struct tu_window_shape *shape = &c->window->shape;
    uint64_t first = p->first_number;
    for (uint32_t bank = 0; bank < c->banks; bank++) {
        for (uint32_t i = 0; i < c->edges; i++)
            memcpy(c->window->base + tu_window_credit(shape, p->comm, i, bank), &first,
                   sizeof first);
        for (uint32_t m = 0; m < c->members; m++)
            memcpy(c->window->base + tu_window_board_credit(shape, p->comm, bank, m), &first,
                   sizeof first);
        if (shape->members > 1)
            memcpy(c->window->base + tu_window_pair_credit(shape, p->comm, bank), &first,
                   sizeof first);
    }
    size_t from = tu_window_line(shape, p->comm, 0, 0), to = tu_window_comm(shape, p->comm + 1);
    struct tu_line_word stale = {.flag = p->first_number - 1};
    for (size_t at = from; at < to; at += sizeof stale)
        memcpy(c->window->base + at, &stale, sizeof stale);
}

static tutti_status alloc_channels(const struct tu_channels_params *p, struct tu_channels **made) {
    struct tu_env *env = p->window->env;
    void *c = NULL, *edge = NULL, *board = NULL;
    tutti_status status = tu_alloc_for(env, "channels", 64, 1, sizeof(struct tu_channels), &c);
    if (!status)
        status = tu_alloc_for(env, "edges", 64, p->edges + 1, sizeof(struct tu_edge), &edge);
    if (!status)
        status = tu_alloc_for(env, "boards", 64, p->members + 1, sizeof(struct tu_board), &board);
    if (status) {
        free(edge);
        free(c);
        return status;
    }
    *made = c;
    **made = (struct tu_channels){.window = p->window,
                                  .comm = p->comm,
                                  .rank = p->rank,
                                  .banks = p->window->shape.banks,
                                  .edges = p->edges,
                                  .members = p->members,
                                  .local = p->local,
                                  .scratch_slots = p->scratch_slots,
                                  .slot_bytes = p->slot_bytes,
                                  .share_bytes = p->share_bytes,
                                  .scratch_bytes = TU_SCRATCH_SHARES * p->share_bytes,
                                  .edge = edge,
                                  .board = board};
    tu_distance_init(&(*made)->distance, p->far_ns);
    return TUTTI_OK;
}

tutti_status tu_channels_make(const struct tu_channels_params *p, struct tu_channels **channels) {
    struct tu_channels *c = NULL;
    tutti_status status = alloc_channels(p, &c);
    if (status)
        return status;
    for (uint32_t bank = 0; bank < c->banks; bank++) {
        open_boards(p, c, bank);
        if (c->members == 2)
            open_pair(p, c, bank);
    }
    reset_cells(p, c);
    status = open_edges(p, c);
    if (status) {
        tu_channels_free(c);
        return status;
    }
    *channels = c;
    return TUTTI_OK;
}

void tu_channels_free(struct tu_channels *c) {
    if (!c)
        return;
    for (uint32_t i = 0; i < c->edges; i++)
        for (uint32_t bank = 0; bank < c->banks; bank++)
            free(c->edge[i].in[bank].unpacked);
    free(c->edge);
    free(c->board);
    free(c);
}

struct tu_edge *tu_channels_edge(const struct tu_channels *c, uint32_t rank) {
    uint32_t low = 0, high = c->edges;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (c->edge[mid].rank < rank)
            low = mid + 1;
        else
            high = mid;
    }
    return low < c->edges && c->edge[low].rank == rank ? &c->edge[low] : NULL;
}

struct tu_board *tu_channels_board(const struct tu_channels *c, uint32_t rank) {
    for (uint32_t m = 0; m < c->members; m++)
        if (m != c->local && c->board[m].rank == rank)
            return &c->board[m];
    return NULL;
}

/* ---- node scratch ---- */

static uint8_t *member_window(const struct tu_channels *c, uint32_t member) {
    return member == c->local ? c->window->base : c->board[member].peer->window;
}

static _Atomic uint64_t *info_cell(const struct tu_channels *c, uint32_t member) {
    size_t at = tu_window_comm(&c->window->shape, c->comm) +
                tu_window_part(&c->window->shape, TU_PART_INFO);
    return (_Atomic uint64_t *)(void *)(member_window(c, member) + at);
}

tutti_status tu_scratch_open(struct tu_channels *c) {
    if (c->scratch_slot)
        return TUTTI_OK;
    size_t bytes = (size_t)c->banks * c->scratch_slots * c->scratch_bytes;
    tutti_status status = tu_window_take(c->window, bytes, &c->scratch_slot);
    if (status)
        return status;
    atomic_store_explicit(info_cell(c, c->local), c->scratch_slot + 1, memory_order_release);
    return TUTTI_OK;
}

static _Atomic uint64_t *done_cell(const struct tu_channels *c, uint32_t bank, uint32_t member) {
    size_t at = tu_window_done(&c->window->shape, c->comm, bank);
    return (_Atomic uint64_t *)(void *)(member_window(c, member) + at);
}

bool tu_scratch_free(struct tu_channels *c, uint32_t bank, uint32_t number) {
    struct tu_node_scratch *scratch = &c->scratch[bank];
    if ((int32_t)(number - scratch->limit) >= 0) {
        uint32_t least = 0;
        for (uint32_t m = 0; m < c->members; m++) {
            /* acquire: the member's accesses to the slot come before mine */
            uint32_t limit = c->scratch_slots + (uint32_t)atomic_load_explicit(
                                                    done_cell(c, bank, m), memory_order_acquire);
            if (!atomic_load_explicit(info_cell(c, m), memory_order_acquire))
                return false;
            if (m == 0 || (int32_t)(limit - least) < 0)
                least = limit;
        }
        scratch->limit = least;
    }
    return (int32_t)(number - scratch->limit) < 0;
}

uint8_t *tu_scratch_at(const struct tu_channels *c, uint32_t bank, uint32_t number,
                       uint32_t member) {
    uint64_t base = atomic_load_explicit(info_cell(c, member), memory_order_relaxed) - 1;
    size_t slot = (size_t)bank * c->scratch_slots + (number & (c->scratch_slots - 1));
    return member_window(c, member) + base + slot * c->scratch_bytes;
}

void tu_scratch_done(struct tu_channels *c, uint32_t bank, uint32_t number) {
    struct tu_node_scratch *scratch = &c->scratch[bank];
    uint32_t before = scratch->done;
    scratch->given |= UINT64_C(1) << (number - scratch->done);
    while (scratch->given & 1) {
        scratch->given >>= 1;
        scratch->done++;
    }
    if (scratch->done != before)
        atomic_store_explicit(done_cell(c, bank, c->local), scratch->done, memory_order_release);
}
