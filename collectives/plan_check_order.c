/*
 * Plan checker, part 3: no deadlock. Runs all plans at once with the slots that a writer can rely
 * on, doing whatever can be done: nothing that can be done is ever taken away by something else, so
 * either all steps are done in the end, or the steps left over wait for each other in a circle in
 * every execution. The order in which the steps were done serves the later parts.
 *
 * A second run takes a SHARE to be done only when all its readers have consumed it, as it is when
 * they read the source in place. Plans may fail that; it is told as a property, not as an error.
 */
#include "collectives/plan_check_parts.h"

#include <stdio.h>
#include <string.h>

struct order {
    struct tu_proof *proof;
    uint32_t *unmet;      /* [steps] what a step still waits for: steps, its message, its slot */
    uint32_t *next_at;    /* [steps + 1] steps of the same rank that depend on g: */
    uint32_t *next;       /* ... next[next_at[g] .. next_at[g + 1]) */
    uint32_t *users;      /* [steps] of a WAIT: steps that name it and are not done */
    uint32_t *last_user;  /* [steps] of a WAIT: the step that was counted last, plus one */
    bool *given_back;     /* [uses] of incoming channels */
    uint32_t *consumed;   /* [channels] of incoming ones: smallest use not given back */
    uint32_t *slot_needs; /* [uses] of outgoing ones: readers that still hold the slot's last use */
    uint32_t *ready, readies;
    uint32_t *list, done; /* [steps] the steps that ran, in order */
    uint32_t completed;   /* of them; a SHARE by reference runs long before */
    bool by_reference;
    uint32_t *share_holds; /* [uses] of boards, then: node peers that have not consumed it */
};

static void complete(struct order *order, uint32_t g);

static void meet(struct order *order, uint32_t g) {
    if (--order->unmet[g] == 0)
        order->ready[order->readies++] = g;
}

/* One more reader is past use `use` of the outgoing channel whose uses start at `writers`. */
static void consume(struct order *order, size_t writers, uint32_t uses, uint32_t use) {
    const struct tu_proof *proof = order->proof;
    uint64_t later = (uint64_t)use + proof->slots;

    if (later < uses && order->slot_needs[writers + later] > 0 &&
        --order->slot_needs[writers + later] == 0)
        meet(order, proof->use_step[writers + later]);
    if (!order->by_reference)
        return;
    uint32_t share = proof->use_step[writers + use];
    const struct tu_step *step = tu_proof_step(proof, share);
    if (step->kind == TU_SHARE && step->readers > 0 && --order->share_holds[writers + use] == 0)
        complete(order, share);
}

/* The reader has consumed as much as it can. */
static void advance(struct order *order, uint32_t in) {
    const struct tu_proof *proof = order->proof;
    uint32_t uses = tu_proof_channel(proof, in)->uses;
    size_t mine = proof->use_base[in], writers = proof->use_base[proof->other_end[in]];

    while (order->consumed[in] < uses &&
           (order->given_back[mine + order->consumed[in]] ||
            proof->use_step[mine + order->consumed[in]] == TU_NO_STEP))
        consume(order, writers, uses, order->consumed[in]++);
}

static void give_back(struct order *order, uint32_t wait) {
    uint32_t in = tu_proof_channel_of(order->proof, wait);

    order->given_back[order->proof->use_base[in] + tu_proof_step(order->proof, wait)->use] = true;
    advance(order, in);
}

static void release_operands(struct order *order, uint32_t g) {
    const struct tu_plan *plan = tu_proof_plan(order->proof, g);
    const struct tu_step *step = tu_proof_step(order->proof, g);

    for (uint32_t i = 0; i < step->args; i++) {
        const struct tu_ref *ref = &plan->ref[step->arg + i];
        uint32_t wait = order->proof->step_base[plan->rank] + ref->step;
        if (ref->space != TU_ARRIVED || order->last_user[wait] == g + 1)
            continue;
        order->last_user[wait] = g + 1;
        if (--order->users[wait] == 0)
            give_back(order, wait);
    }
}

static void deliver(struct order *order, uint32_t g) {
    const struct tu_proof *proof = order->proof;
    const uint32_t *reader;
    uint32_t readers = tu_proof_readers(proof, tu_proof_channel_of(proof, g), &reader);

    for (uint32_t i = 0; i < readers; i++) {
        uint32_t wait = proof->use_step[proof->use_base[reader[i]] + tu_proof_step(proof, g)->use];
        if (wait != TU_NO_STEP)
            meet(order, wait);
    }
}

/* What waits for g to be done may go on. */
static void complete(struct order *order, uint32_t g) {
    const struct tu_step *step = tu_proof_step(order->proof, g);

    order->completed++;
    for (uint32_t i = order->next_at[g]; i < order->next_at[g + 1]; i++)
        meet(order, order->next[i]);
    if (step->kind == TU_WAIT && step->users == 0)
        give_back(order, g);
    release_operands(order, g);
}

static void run_step(struct order *order, uint32_t g) {
    const struct tu_step *step = tu_proof_step(order->proof, g);

    order->list[order->done++] = g;
    if (tu_posts(step))
        deliver(order, g);
    if (!order->by_reference || step->kind != TU_SHARE || step->readers == 0)
        complete(order, g);
}

/* ---- the start ---- */

static bool allocate(struct order *order) {
    struct tu_proof *proof = order->proof;
    size_t steps = proof->steps, uses = proof->use_base[proof->channels];

    order->unmet = tu_proof_alloc(proof, steps, sizeof(uint32_t));
    order->next_at = tu_proof_alloc(proof, steps + 1, sizeof(uint32_t));
    order->next = tu_proof_alloc(proof, 2 * steps, sizeof(uint32_t));
    order->users = tu_proof_alloc(proof, steps, sizeof(uint32_t));
    order->last_user = tu_proof_alloc(proof, steps, sizeof(uint32_t));
    order->given_back = tu_proof_alloc(proof, uses, sizeof(bool));
    order->consumed = tu_proof_alloc(proof, proof->channels, sizeof(uint32_t));
    order->slot_needs = tu_proof_alloc(proof, uses, sizeof(uint32_t));
    order->share_holds = tu_proof_alloc(proof, uses, sizeof(uint32_t));
    order->ready = tu_proof_alloc(proof, steps, sizeof(uint32_t));
    order->list =
        order->by_reference ? tu_proof_alloc(proof, steps, sizeof(uint32_t)) : proof->order;
    return order->unmet && order->next_at && order->next && order->users && order->last_user &&
           order->given_back && order->consumed && order->slot_needs && order->share_holds &&
           order->ready && order->list;
}

static void list_dependents(struct order *order) {
    const struct tu_proof *proof = order->proof;

    for (uint32_t g = 0; g < proof->steps; g++)
        for (int i = 0; i < 2; i++)
            if (tu_proof_step(proof, g)->after[i] != TU_NO_STEP)
                order->next_at[tu_proof_after(proof, g, i)]++;
    for (uint32_t g = 0; g < proof->steps; g++) /* counts to ends */
        order->next_at[g + 1] += order->next_at[g];
    for (uint32_t g = proof->steps; g-- > 0;) /* ends to starts */
        for (int i = 0; i < 2; i++)
            if (tu_proof_step(proof, g)->after[i] != TU_NO_STEP)
                order->next[--order->next_at[tu_proof_after(proof, g, i)]] = g;
}

/* What nobody reads is not sent, and needs no slot. */
static bool is_sent(const struct tu_proof *proof, size_t use) {
    const struct tu_step *step = tu_proof_step(proof, proof->use_step[use]);
    return step->kind == TU_WRITE || step->readers > 0;
}

/* The first uses find free slots; later ones need the release of the use one ring before. */
static void count_slot_needs(struct order *order) {
    const struct tu_proof *proof = order->proof;
    const uint32_t *reader;

    for (uint32_t c = 0; c < proof->channels; c++) {
        uint32_t kind = tu_proof_channel(proof, c)->kind;
        if (kind != TU_EDGE_OUT && kind != TU_BOARD_OUT)
            continue;
        uint32_t readers = tu_proof_readers(proof, c, &reader);
        for (uint32_t use = 0; use < tu_proof_channel(proof, c)->uses; use++) {
            size_t at = proof->use_base[c] + use;
            order->slot_needs[at] = use < proof->slots || !is_sent(proof, at) ? 0 : readers;
            order->share_holds[at] = readers;
        }
    }
}

static void count_unmet(struct order *order) {
    const struct tu_proof *proof = order->proof;

    for (uint32_t g = 0; g < proof->steps; g++) {
        const struct tu_step *step = tu_proof_step(proof, g);
        order->users[g] = step->users;
        order->unmet[g] = (step->after[0] != TU_NO_STEP) + (step->after[1] != TU_NO_STEP);
        if (step->kind == TU_WAIT)
            order->unmet[g]++;
        if (tu_posts(step)) {
            uint32_t c = tu_proof_channel_of(proof, g);
            order->unmet[g] += order->slot_needs[proof->use_base[c] + step->use] > 0;
        }
        if (order->unmet[g] == 0)
            order->ready[order->readies++] = g;
    }
    for (uint32_t c = 0; c < proof->channels; c++) /* boards whose first uses are skipped */
        if (tu_proof_channel(proof, c)->kind == TU_BOARD_IN)
            advance(order, c);
}

/* ---- explaining a deadlock ---- */

static const char no_slot[] = "needs a slot, which is not free before";

/* A step of the reader that holds the first use of `in` that is not given back. */
static uint32_t holder(const struct order *order, uint32_t in) {
    const struct tu_proof *proof = order->proof;
    uint32_t wait = proof->use_step[proof->use_base[in] + order->consumed[in]];
    const struct tu_plan *plan = tu_proof_plan(proof, wait);
    uint32_t base = proof->step_base[plan->rank];

    for (uint32_t s = wait - base + 1; order->unmet[wait] == 0 && s < plan->steps; s++)
        for (uint32_t i = 0; order->unmet[base + s] > 0 && i < plan->step[s].args; i++) {
            const struct tu_ref *ref = &plan->ref[plan->step[s].arg + i];
            if (ref->space == TU_ARRIVED && base + ref->step == wait)
                return base + s;
        }
    return wait;
}

/* A reader of the outgoing channel c that keeps use `use` from having a slot. */
static uint32_t blocking_reader(const struct order *order, uint32_t c, uint32_t use) {
    const uint32_t *reader;
    uint32_t readers = tu_proof_readers(order->proof, c, &reader);

    for (uint32_t i = 0; i < readers; i++)
        if (order->consumed[reader[i]] + (uint64_t)order->proof->slots <= use)
            return reader[i];
    return TU_NO_STEP;
}

/* A step that must be done before g, which is not done, and why. */
static uint32_t waits_for(const struct order *order, uint32_t g, const char **why) {
    const struct tu_proof *proof = order->proof;
    const struct tu_step *step = tu_proof_step(proof, g);

    *why = "depends on";
    for (int i = 0; i < 2; i++)
        if (step->after[i] != TU_NO_STEP && order->unmet[tu_proof_after(proof, g, i)] > 0)
            return tu_proof_after(proof, g, i);
    *why = "waits for the message of";
    if (step->kind == TU_WAIT)
        return tu_proof_writer(proof, g);
    *why = no_slot;
    uint32_t in = blocking_reader(order, tu_proof_channel_of(proof, g), step->use);
    return holder(order, in);
}

/* A step of a circle; if one there lacks a slot, then this one, as the most telling. */
static uint32_t step_of_circle(const struct order *order) {
    uint32_t g = 0, start;
    const char *why;

    while (order->unmet[g] == 0)
        g++;
    for (uint32_t i = 0; i < order->proof->steps; i++) /* far enough to be in a circle */
        g = waits_for(order, g, &why);
    start = g;
    do {
        uint32_t next = waits_for(order, g, &why);
        if (why == no_slot)
            break;
        g = next;
    } while (g != start);
    return g;
}

static bool report(struct order *order) {
    const char *why;
    char what[64];
    uint32_t g = step_of_circle(order);
    uint32_t other = waits_for(order, g, &why);
    uint32_t rank = order->proof->rank_of_step[other];

    tu_proof_describe(order->proof, other, what, sizeof(what));
    return tu_proof_fail(order->proof, g,
                         "deadlock with %u slots: it %s rank %u step %u (%s), which in turn waits "
                         "for it",
                         order->proof->slots, why, rank, other - order->proof->step_base[rank],
                         what);
}

/* False, without a report, if memory is out. */
static bool run(struct order *order) {
    if (!allocate(order))
        return false;
    list_dependents(order);
    count_slot_needs(order);
    count_unmet(order);
    while (order->readies > 0)
        run_step(order, order->ready[--order->readies]);
    return true;
}

bool tu_proof_order(struct tu_proof *proof) {
    struct order order = {.proof = proof};
    struct order by_reference = {.proof = proof, .by_reference = true};

    proof->order = tu_proof_alloc(proof, proof->steps, sizeof(uint32_t));
    struct tu_proof_memory *mark = proof->memory;
    if (!proof->order || !run(&order))
        return tu_proof_no_memory(proof);
    if (order.done < proof->steps)
        return report(&order);
    tu_proof_release(proof, mark);
    if (!run(&by_reference))
        return tu_proof_no_memory(proof);
    proof->result->by_reference = by_reference.completed == proof->steps;
    tu_proof_release(proof, mark);
    return true;
}
