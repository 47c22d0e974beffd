/* Tying plans to channels, and cutting vectors: see bind.h. */
#include "collectives/bind.h"

#include <stdlib.h>

#include "runtime/env.h"

/* ---- channels ---- */

static uint32_t uses_of(const struct tu_plan *plan, enum tu_channel_kind kind) {
    uint32_t uses = 0;
    for (uint32_t i = 0; i < plan->channels; i++)
        if (plan->channel[i].kind == kind)
            uses += plan->channel[i].uses;
    return uses;
}

/*
 * On a node of two: do both share equally often, and read all of the other's? Then the pair serves,
 * and the other rank comes to the same answer: what it does not read, this one has no readers for. A
 * use waits only for one that is R earlier, so with no more than R uses in a segment all waits go to
 * earlier segments, and need no proof of their own.
 */
static bool serves_pair(const struct tu_plan *plan, const struct tu_channels *c) {
    uint32_t out = uses_of(plan, TU_BOARD_OUT), in = uses_of(plan, TU_BOARD_IN);
    if (c->members != 2 || out == 0 || out != in || plan->skips || out > c->window->shape.slots)
        return false;
    for (uint32_t i = 0; i < plan->steps; i++) {
        const struct tu_step *step = &plan->step[i];
        if ((step->kind == TU_SHARE || step->kind == TU_SIGNAL) && step->readers == 0)
            return false;
    }
    return true;
}

static bool find_ring(struct tu_channels *c, const struct tu_plan_channel *channel, bool pair,
                      uint32_t bank, union tu_ring *ring) {
    struct tu_edge *edge = NULL;
    struct tu_board *board = NULL;
    switch (channel->kind) {
    case TU_EDGE_OUT:
    case TU_EDGE_IN:
        edge = tu_channels_edge(c, channel->peer);
        if (edge && channel->kind == TU_EDGE_OUT)
            ring->out = &edge->out[bank];
        else if (edge)
            ring->in = &edge->in[bank];
        return edge != NULL;
    case TU_BOARD_OUT:
        ring->out = pair ? &c->pair_out[bank] : &c->own[bank];
        return true;
    default:
        if (pair) {
            ring->in = &c->pair_in[bank];
            return true;
        }
        board = tu_channels_board(c, channel->peer);
        if (board)
            ring->in = &board->in[bank];
        return board != NULL;
    }
}

static tutti_status find_rings(struct tu_env *env, struct tu_bound *b) {
    const struct tu_plan *plan = b->plan;
    b->pair = serves_pair(plan, b->channels);
    for (uint32_t i = 0; i < plan->channels; i++) {
        const struct tu_plan_channel *channel = &plan->channel[i];
        for (uint32_t bank = 0; bank < b->channels->banks; bank++)
            if (!find_ring(b->channels, channel, b->pair, bank, &b->ring[bank][i]))
                return tu_fail(env, TUTTI_ERR_INTERNAL,
                               "plan %s of rank %u of %u uses a channel to rank %u that is none of "
                               "its edges or boards",
                               plan->algorithm, plan->rank, plan->size, channel->peer);
        if (channel->kind == TU_EDGE_OUT && !b->ring[0][i].out->cell[0])
            b->wire = true;
        if (channel->kind == TU_EDGE_IN && !b->ring[0][i].in->peer->window)
            b->wire = true;
    }
    return TUTTI_OK;
}

/* ---- node scratch ---- */

static bool touches_node(const struct tu_plan *plan, const struct tu_step *step) {
    for (uint32_t i = 0; i < step->dsts; i++)
        if (step->dst[i].space == TU_NODE)
            return true;
    for (uint32_t i = 0; i < step->args; i++)
        if (plan->ref[step->arg + i].space == TU_NODE)
            return true;
    return false;
}

static void find_node_steps(struct tu_bound *b) {
    const struct tu_plan *plan = b->plan;
    for (uint32_t i = 0; plan->node_run && i < plan->steps; i++) {
        b->node_step[i] = touches_node(plan, &plan->step[i]);
        b->node_steps += b->node_step[i];
    }
    for (uint32_t block = 0; plan->node_run && block < plan->blocks; block++)
        b->owner[block] = block / plan->node_run;
}

/* ---- making ---- */

tutti_status tu_bind(struct tu_env *env, struct tu_plan *plan, struct tu_channels *channels,
                     struct tu_bound **bound) {
    struct tu_bound *b = tu_alloc(0, 1, sizeof *b);
    bool enough = b != NULL;
    if (b) {
        b->plan = plan;
        b->channels = channels;
        for (uint32_t bank = 0; bank < channels->banks; bank++) {
            b->ring[bank] = tu_alloc(0, plan->channels + 1, sizeof *b->ring[bank]);
            enough = enough && b->ring[bank];
        }
        b->node_step = tu_alloc(0, plan->steps + 1, 1);
        b->owner = tu_alloc(0, plan->node_run ? plan->blocks : 1, sizeof *b->owner);
        enough = enough && b->node_step && b->owner;
    }
    if (!b)
        tu_plan_free(plan);
    tutti_status status =
        enough ? find_rings(env, b) : tu_fail(env, TUTTI_ERR_MEMORY, "no memory to bind a plan");
    if (status) {
        tu_bound_free(b);
        return status;
    }
    find_node_steps(b);
    for (uint32_t i = 0; i < plan->steps; i++)
        b->operands = plan->step[i].args > b->operands ? plan->step[i].args : b->operands;
    *bound = b;
    return TUTTI_OK;
}

void tu_bound_free(struct tu_bound *b) {
    if (!b)
        return;
    for (uint32_t bank = 0; bank < TU_MAX_BANKS; bank++)
        free(b->ring[bank]);
    free(b->node_step);
    free(b->owner);
    tu_plan_free((struct tu_plan *)(uintptr_t)b->plan);
    free(b);
}

/* ---- cutting ---- */

/* Most elements of a slice so that `n` of its blocks fit in `room` bytes. */
static size_t most_elements(const struct tu_plan *plan, uint32_t n, size_t element_bytes,
                            size_t room) {
    if (n == 0)
        return SIZE_MAX;
    size_t per_block = room / n / element_bytes;
    return plan->replicate ? per_block : per_block * plan->blocks;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Are `n` blocks of the slice more than a cell carries? */
static bool beyond_cell(const struct tu_plan *plan, uint32_t n, size_t slice, size_t element_bytes,
                        size_t payload) {
    if (n == 0)
        return false;
    size_t block = plan->replicate ? slice : slice / plan->blocks + (slice % plan->blocks != 0);
    return n * block * element_bytes > payload;
}

tutti_status tu_cut_make(struct tu_env *env, const struct tu_bound *bound, size_t count,
                         size_t element_bytes, struct tu_cut *cut) {
    const struct tu_plan *plan = bound->plan;
    size_t slot = bound->channels->slot_bytes, share = bound->channels->share_bytes;
    size_t most = most_elements(plan, plan->message_blocks, element_bytes, slot);
    most = least(most, most_elements(plan, plan->share_blocks, element_bytes, share));
    size_t scratch = bound->channels->scratch_bytes;
    most = least(most, most_elements(plan, plan->node_run, element_bytes, scratch));
    if (most == 0)
        return tu_fail(env, TUTTI_ERR_UNSUPPORTED,
                       "algorithm %s on %u ranks needs messages of %zu bytes; set a larger "
                       "TUTTI_EAGER or TUTTI_SHARE",
                       plan->algorithm, plan->size,
                       element_bytes * (plan->message_blocks + (size_t)plan->share_blocks));
    size_t segments = count <= most ? 1 : count / most + (count % most != 0);
    if (segments > UINT32_MAX)
        return tu_fail(env, TUTTI_ERR_UNSUPPORTED, "%zu elements are too many for algorithm %s",
                       count, plan->algorithm);
    cut->segments = (uint32_t)segments;
    cut->slice = segments == 1 ? count : count / segments + (count % segments != 0);
    cut->last = count - (segments - 1) * cut->slice;
    cut->slots =
        beyond_cell(plan, plan->message_blocks, cut->slice, element_bytes, TU_LINE_PAYLOAD);
    cut->share = beyond_cell(plan, plan->share_blocks, cut->slice, element_bytes, TU_BOARD_PAYLOAD);
    return TUTTI_OK;
}

/* ---- memory for larger messages ---- */

static tutti_status edge_slots(struct tu_bound *b) {
    size_t bytes = b->channels->slot_bytes;
    for (uint32_t i = 0; i < b->plan->channels; i++) {
        for (uint32_t bank = 0; bank < b->channels->banks; bank++) {
            tutti_status status = TUTTI_OK;
            if (b->plan->channel[i].kind == TU_EDGE_OUT)
                status = tu_ring_out_slots(b->ring[bank][i].out, bytes);
            if (b->plan->channel[i].kind == TU_EDGE_IN)
                status = tu_ring_in_slots(b->ring[bank][i].in, bytes);
            if (status)
                return status;
        }
    }
    b->slots_ready = true;
    return TUTTI_OK;
}

static tutti_status share_slots(struct tu_bound *b) {
    struct tu_channels *c = b->channels;
    tutti_status status = b->pair ? tu_pair_slots(c) : TUTTI_OK;
    for (uint32_t bank = 0; bank < c->banks && !status && !b->pair; bank++)
        status = tu_ring_out_slots(&c->own[bank], c->share_bytes);
    b->share_ready = status == TUTTI_OK;
    return status;
}

tutti_status tu_bound_prepare(struct tu_bound *b, const struct tu_cut *cut) {
    tutti_status status = TUTTI_OK;
    if (cut->slots && !b->slots_ready)
        status = edge_slots(b);
    if (!status && cut->share && !b->share_ready)
        status = share_slots(b);
    if (!status && b->plan->node_run && !b->scratch_ready) {
        status = tu_scratch_open(b->channels);
        b->scratch_ready = status == TUTTI_OK;
    }
    return status;
}
