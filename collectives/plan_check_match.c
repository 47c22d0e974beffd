/*
 * Plan checker, part 2: both ends of every channel. They state the same number of uses, and use by
 * use the same blocks; every member of a node states the uses of every board of the node, and every
 * SHARE and SIGNAL has as many WAITs as it says.
 */
#include "collectives/plan_check_parts.h"

/* The channels of one kind by the rank at their other end, r: item[at[r] .. at[r + 1]). */
struct by_peer {
    uint32_t *at, *item;
};

static bool sort_by_peer(struct tu_proof *proof, uint32_t kind, struct by_peer *list) {
    list->at = tu_proof_alloc(proof, (size_t)proof->ranks + 1, sizeof(uint32_t));
    list->item = tu_proof_alloc(proof, proof->channels, sizeof(uint32_t));
    if (!list->at || !list->item)
        return tu_proof_no_memory(proof);
    for (uint32_t c = 0; c < proof->channels; c++)
        if (tu_proof_channel(proof, c)->kind == kind)
            list->at[tu_proof_channel(proof, c)->peer]++;
    for (uint32_t r = 0; r < proof->ranks; r++) /* counts to ends */
        list->at[r + 1] += list->at[r];
    for (uint32_t c = proof->channels; c-- > 0;) /* ends to starts */
        if (tu_proof_channel(proof, c)->kind == kind)
            list->item[--list->at[tu_proof_channel(proof, c)->peer]] = c;
    return true;
}

/* ---- edges ---- */

static bool edge_uses_are_equal(struct tu_proof *proof, uint32_t out, uint32_t in) {
    uint32_t uses = tu_proof_channel(proof, out)->uses, reader = proof->rank_of_channel[in];

    if (tu_proof_channel(proof, in)->uses != uses)
        return tu_proof_fail_rank(proof, reader, "%u WAITs for rank %u, which has %u WRITEs",
                                  tu_proof_channel(proof, in)->uses, proof->rank_of_channel[out],
                                  uses);
    for (uint32_t use = 0; use < uses; use++) {
        uint32_t g = proof->use_step[proof->use_base[in] + use];
        const struct tu_step *wait = tu_proof_step(proof, g);
        const struct tu_step *write =
            tu_proof_step(proof, proof->use_step[proof->use_base[out] + use]);
        if (wait->n != write->n || (wait->n > 0 && wait->first != write->first))
            return tu_proof_fail(proof, g, "waits for blocks %u+%u, the WRITE has %u+%u",
                                 wait->first, wait->n, write->first, write->n);
    }
    return true;
}

/* The edges into rank b: in_from[a] is b's channel from rank a, plus one. */
static bool edges_into(struct tu_proof *proof, uint32_t b, const struct by_peer *out,
                       uint32_t *in_from) {
    uint32_t ins = 0, outs = out->at[b + 1] - out->at[b];

    for (uint32_t c = proof->channel_base[b]; c < proof->channel_base[b + 1]; c++)
        if (tu_proof_channel(proof, c)->kind == TU_EDGE_IN) {
            in_from[tu_proof_channel(proof, c)->peer] = c + 1;
            ins++;
        }
    for (uint32_t i = out->at[b]; i < out->at[b + 1]; i++) {
        uint32_t c = out->item[i], a = proof->rank_of_channel[c];
        if (in_from[a] == 0)
            return tu_proof_fail(proof, proof->use_step[proof->use_base[c]],
                                 "rank %u has no WAIT for rank %u", b, a);
        proof->other_end[c] = in_from[a] - 1;
        proof->other_end[in_from[a] - 1] = c;
        in_from[a] = 0;
        if (!edge_uses_are_equal(proof, c, proof->other_end[c]))
            return false;
    }
    for (uint32_t c = proof->channel_base[b]; ins > outs && c < proof->channel_base[b + 1]; c++)
        if (tu_proof_channel(proof, c)->kind == TU_EDGE_IN &&
            in_from[tu_proof_channel(proof, c)->peer])
            return tu_proof_fail(proof, proof->use_step[proof->use_base[c]],
                                 "rank %u has no WRITE to rank %u",
                                 tu_proof_channel(proof, c)->peer, b);
    return true;
}

static bool edges_match(struct tu_proof *proof) {
    struct tu_proof_memory *mark = proof->memory;
    struct by_peer out;
    uint32_t *in_from = tu_proof_alloc(proof, proof->ranks, sizeof(*in_from));

    if (!in_from)
        return tu_proof_no_memory(proof);
    if (!sort_by_peer(proof, TU_EDGE_OUT, &out))
        return false;
    for (uint32_t b = 0; b < proof->ranks; b++)
        if (!edges_into(proof, b, &out, in_from))
            return false;
    tu_proof_release(proof, mark);
    return true;
}

/* ---- boards ---- */

/* A SHARE or SIGNAL: its WAITs have its range, and there are as many as it says. */
static bool readers_are_right(struct tu_proof *proof, uint32_t rank, uint32_t g) {
    const struct tu_step *share = tu_proof_step(proof, g);
    uint32_t readers = 0;

    for (uint32_t i = proof->board_base[rank]; i < proof->board_base[rank + 1]; i++) {
        uint32_t w = proof->use_step[proof->use_base[proof->board_channel[i]] + share->use];
        if (w == TU_NO_STEP)
            continue;
        const struct tu_step *wait = tu_proof_step(proof, w);
        if (wait->n != share->n || (wait->n > 0 && wait->first != share->first))
            return tu_proof_fail(proof, w, "waits for blocks %u+%u, the board has %u+%u",
                                 wait->first, wait->n, share->first, share->n);
        readers++;
    }
    if (readers != share->readers)
        return tu_proof_fail(proof, g, "states %u readers, but %u ranks wait for it",
                             share->readers, readers);
    return true;
}

/* All members of the node, and nobody else, state the uses of rank's board (channel `out`, or
 * TU_NO_STEP if it has none). */
static bool board_is_known(struct tu_proof *proof, uint32_t rank, uint32_t out,
                           const struct by_peer *in) {
    const struct tu_nodes *nodes = proof->check->nodes;
    uint32_t uses = out == TU_NO_STEP ? 0 : tu_proof_channel(proof, out)->uses;
    uint32_t peers = tu_node_size(nodes, nodes->node_of[rank]) - 1,
             known = in->at[rank + 1] - in->at[rank];

    for (uint32_t i = in->at[rank]; i < in->at[rank + 1]; i++) {
        uint32_t c = in->item[i], stated = tu_proof_channel(proof, c)->uses;
        if (stated != uses)
            return tu_proof_fail_rank(proof, proof->rank_of_channel[c],
                                      "states %u uses of the board of rank %u, which has %u",
                                      stated, rank, uses);
        proof->other_end[c] = out;
    }
    if (uses > 0 && known != peers)
        return tu_proof_fail(proof, proof->use_step[proof->use_base[out]],
                             "%u of %u node peers state the uses of this board", known, peers);
    return true;
}

static bool boards_match(struct tu_proof *proof) {
    struct by_peer in;

    if (!sort_by_peer(proof, TU_BOARD_IN, &in))
        return false;
    proof->board_base = in.at;
    proof->board_channel = in.item;
    for (uint32_t r = 0; r < proof->ranks; r++) {
        uint32_t out = TU_NO_STEP;
        for (uint32_t c = proof->channel_base[r]; c < proof->channel_base[r + 1]; c++)
            if (tu_proof_channel(proof, c)->kind == TU_BOARD_OUT)
                out = c;
        if (!board_is_known(proof, r, out, &in))
            return false;
        for (uint32_t use = 0; out != TU_NO_STEP && use < tu_proof_channel(proof, out)->uses; use++)
            if (!readers_are_right(proof, r, proof->use_step[proof->use_base[out] + use]))
                return false;
    }
    return true;
}

bool tu_proof_matching(struct tu_proof *proof) {
    proof->other_end = tu_proof_alloc(proof, proof->channels, sizeof(uint32_t));
    if (!proof->other_end)
        return tu_proof_no_memory(proof);
    return edges_match(proof) && boards_match(proof);
}
