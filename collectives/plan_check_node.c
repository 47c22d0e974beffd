/*
 * Plan checker, part 5: races on node blocks, which all members of a node read and write in place.
 * Each member's steps on node blocks are a chain (part 4), so "step number t of member m" is a point
 * in time; a clock says for each member up to which of its steps everything is known to be done. It
 * travels along dependencies and along messages between the node's members. Each block remembers the
 * last write, and for each member its last reading.
 *
 * What a message is made of counts as read when the WRITE or SHARE is done, not when it has arrived:
 * its readers may read the same bytes later. So a message tells what was known when it started.
 */
#include "collectives/plan_check_clock.h"
#include "collectives/plan_check_parts.h"

struct node_block {
    uint32_t writer, write; /* the member, and the number of its step; 0: nobody */
};

struct node_race {
    struct tu_proof *proof;
    const struct tu_nodes *nodes;
    uint32_t node, members;
    struct tu_clocks clocks;
    uint32_t *clock;   /* [steps] what is known when the step is done */
    uint32_t *message; /* [steps] what its message tells */
    uint32_t *count;   /* [steps] dependents in the rank */
    uint32_t *ticks;   /* [members] steps on node blocks so far */
    struct node_block *block;
    uint32_t *reading; /* [blocks][members] */
};

static bool is_member(const struct node_race *race, uint32_t rank) {
    return race->nodes->node_of[rank] == race->node;
}

/* How many members of the node wait for the message of g. */
static uint32_t receivers(const struct node_race *race, uint32_t g) {
    const struct tu_proof *proof = race->proof;
    const struct tu_step *step = tu_proof_step(proof, g);

    if (!tu_posts(step))
        return 0;
    if (step->kind == TU_WRITE)
        return is_member(race, tu_proof_channel(proof, tu_proof_channel_of(proof, g))->peer);
    return step->readers;
}

/* What is known when g starts. */
static uint32_t clock_at_start(struct node_race *race, uint32_t g) {
    const struct tu_proof *proof = race->proof;
    const struct tu_step *step = tu_proof_step(proof, g);
    uint32_t clock = 0;

    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP)
            clock = tu_clock_join(&race->clocks, clock, race->clock[tu_proof_after(proof, g, i)]);
    if (step->kind == TU_WAIT) {
        uint32_t writer = tu_proof_writer(proof, g);
        if (is_member(race, proof->rank_of_step[writer]))
            clock = tu_clock_join(&race->clocks, clock, race->message[writer]);
    }
    return clock;
}

/* ---- accesses ---- */

static bool knows(const struct node_race *race, uint32_t clock, uint32_t member, uint32_t tick) {
    return tick == 0 || (clock != 0 && tu_clock_words(&race->clocks, clock)[member] >= tick);
}

static bool report(struct node_race *race, uint32_t g, const char *does, const char *did,
                   uint32_t block, uint32_t member) {
    uint32_t rank = race->nodes->member[race->nodes->first[race->node] + member];
    return tu_proof_fail(race->proof, g,
                         "race: %s node block %u, which rank %u %s, and does not know that this is "
                         "done",
                         does, block, rank, did);
}

static bool access_block(struct node_race *race, uint32_t g, uint32_t clock, uint32_t b,
                         bool write) {
    struct node_block *block = &race->block[b];
    uint32_t me = race->nodes->local_of[race->proof->rank_of_step[g]];
    uint32_t *reading = race->reading + (size_t)b * race->members;

    if (block->writer != me && !knows(race, clock, block->writer, block->write))
        return report(race, g, write ? "writes" : "reads", "writes", b, block->writer);
    if (!write) {
        reading[me] = race->ticks[me];
        return true;
    }
    for (uint32_t m = 0; m < race->members; m++)
        if (m != me && !knows(race, clock, m, reading[m]))
            return report(race, g, "writes", "reads", b, m);
    *block = (struct node_block){.writer = me, .write = race->ticks[me]};
    return true;
}

static bool access_range(struct node_race *race, uint32_t g, uint32_t clock,
                         const struct tu_ref *ref, bool write) {
    struct tu_span span[2];
    uint32_t spans = tu_spans(tu_proof_plan(race->proof, g), ref->first, ref->n, span);

    for (uint32_t i = 0; ref->space == TU_NODE && i < spans; i++)
        for (uint32_t b = span[i].first; b < span[i].first + span[i].n; b++)
            if (!access_block(race, g, clock, b, write))
                return false;
    return true;
}

static bool accesses(struct node_race *race, uint32_t g, uint32_t clock) {
    const struct tu_plan *plan = tu_proof_plan(race->proof, g);
    const struct tu_step *step = tu_proof_step(race->proof, g);

    for (uint32_t i = 0; i < step->args; i++)
        if (!access_range(race, g, clock, &plan->ref[step->arg + i], false))
            return false;
    for (uint32_t i = 0; i < step->dsts; i++)
        if (!access_range(race, g, clock, &step->dst[i], true))
            return false;
    return true;
}

static bool step_is_right(struct node_race *race, uint32_t g) {
    const struct tu_step *step = tu_proof_step(race->proof, g);
    uint32_t me = race->nodes->local_of[race->proof->rank_of_step[g]];
    uint32_t clock = clock_at_start(race, g);
    uint32_t message = clock;

    tu_clock_hold(&race->clocks, message, 1);
    if (tu_touches_node(tu_proof_plan(race->proof, g), step)) {
        race->ticks[me]++;
        if (!race->clocks.failed && !accesses(race, g, clock))
            return false;
        clock = tu_clock_with(&race->clocks, clock, me, race->ticks[me]);
    }
    if (race->clocks.failed)
        return tu_proof_no_memory(race->proof);
    race->clock[g] = clock;
    race->message[g] = message;
    tu_clock_hold(&race->clocks, clock, race->count[g]);
    tu_clock_hold(&race->clocks, message, receivers(race, g));
    tu_clock_drop(&race->clocks, clock);
    tu_clock_drop(&race->clocks, message);
    return true;
}

/* ---- nodes ---- */

/* list[at[i] .. at[i + 1]): the steps of node i, in order. */
static bool sort_by_node(struct tu_proof *proof, uint32_t **at, uint32_t **list) {
    const struct tu_nodes *nodes = proof->check->nodes;

    *at = tu_proof_alloc(proof, (size_t)nodes->nodes + 1, sizeof(uint32_t));
    *list = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    if (!*at || !*list)
        return tu_proof_no_memory(proof);
    for (uint32_t g = 0; g < proof->steps; g++)
        (*at)[nodes->node_of[proof->rank_of_step[g]]]++;
    for (uint32_t i = 0; i < nodes->nodes; i++) /* counts to ends */
        (*at)[i + 1] += (*at)[i];
    for (uint32_t i = proof->steps; i-- > 0;) { /* ends to starts */
        uint32_t g = proof->order[i];
        (*list)[--(*at)[nodes->node_of[proof->rank_of_step[g]]]] = g;
    }
    return true;
}

static bool node_is_right(struct node_race *race, const uint32_t *list, uint32_t n) {
    struct tu_proof *proof = race->proof;
    uint32_t leader = race->nodes->member[race->nodes->first[race->node]];
    size_t blocks = (size_t)proof->plan[leader]->node_run * race->members;
    bool right = true;

    race->ticks = tu_proof_alloc(proof, race->members, sizeof(uint32_t));
    race->block = tu_proof_alloc(proof, blocks, sizeof(*race->block));
    race->reading = tu_proof_alloc(proof, blocks * race->members, sizeof(uint32_t));
    if (!race->ticks || !race->block || !race->reading)
        return tu_proof_no_memory(proof);
    tu_clocks_init(&race->clocks, race->members, false);
    for (uint32_t i = 0; right && i < n; i++)
        right = step_is_right(race, list[i]);
    tu_clocks_free(&race->clocks);
    return right;
}

static bool nodes_are_right(struct node_race *race) {
    struct tu_proof *proof = race->proof;
    uint32_t *at, *list;

    race->clock = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    race->message = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    race->count = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    if (!race->clock || !race->message || !race->count)
        return tu_proof_no_memory(proof);
    if (!sort_by_node(proof, &at, &list))
        return false;
    tu_proof_count_dependents(proof, race->count);
    for (uint32_t i = 0; i < race->nodes->nodes; i++) {
        struct tu_proof_memory *mark = proof->memory;
        race->node = i;
        race->members = tu_node_size(race->nodes, i);
        if (proof->plan[race->nodes->member[race->nodes->first[i]]]->node_run > 0 &&
            !node_is_right(race, list + at[i], at[i + 1] - at[i]))
            return false;
        tu_proof_release(proof, mark);
    }
    return true;
}

bool tu_proof_node(struct tu_proof *proof) {
    struct node_race race = {.proof = proof, .nodes = proof->check->nodes};
    struct tu_proof_memory *mark = proof->memory;
    bool used = false;

    for (uint32_t r = 0; r < proof->ranks; r++)
        used = used || proof->plan[r]->node_run > 0;
    if (used && !nodes_are_right(&race))
        return false;
    tu_proof_release(proof, mark);
    return true;
}
