/* Mutations of right plans, see mutate.h. */
#include "mutate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* ---- copies that may be changed ---- */

/* One more reference than the plan has, so that a step may get a further operand. */
static struct tu_plan *copy_of(const struct tu_plan *plan) {
    size_t refs = 2 * (size_t)plan->refs + 1, skips = plan->skips;
    for (uint32_t c = 0; c < plan->channels; c++)
        skips += plan->channel[c].uses + 1;
    struct tu_plan *copy =
        malloc(sizeof(*copy) + plan->steps * sizeof(*plan->step) + refs * sizeof(*plan->ref) +
               plan->channels * sizeof(*plan->channel) + skips * sizeof(*plan->skip));
    *copy = *plan;
    copy->step = (struct tu_step *)(copy + 1);
    copy->ref = (struct tu_ref *)(copy->step + plan->steps);
    copy->channel = (struct tu_plan_channel *)(copy->ref + refs);
    copy->skip = (struct tu_plan_skip *)(copy->channel + plan->channels);
    memcpy(copy->step, plan->step, plan->steps * sizeof(*plan->step));
    memcpy(copy->ref, plan->ref, plan->refs * sizeof(*plan->ref));
    memcpy(copy->channel, plan->channel, plan->channels * sizeof(*plan->channel));
    memcpy(copy->skip, plan->skip, plan->skips * sizeof(*plan->skip));
    return copy;
}

void mutated_free(struct tu_plan **plan, uint32_t ranks) {
    for (uint32_t r = 0; r < ranks; r++)
        free(plan[r]);
    free(plan);
}

static bool names(const struct tu_plan *plan, const struct tu_step *step, uint32_t wait) {
    for (uint32_t i = 0; i < step->args; i++)
        if (plan->ref[step->arg + i].space == TU_ARRIVED && plan->ref[step->arg + i].step == wait)
            return true;
    return false;
}

static bool is_waited(const struct tu_plan *plan, uint32_t c, uint32_t use) {
    for (uint32_t s = 0; s < plan->steps; s++)
        if (plan->step[s].kind == TU_WAIT && plan->step[s].channel == c && plan->step[s].use == use)
            return true;
    return false;
}

/* What tu_plan_finish() makes, again, so that a mutation is wrong in one thing only. */
static void finish_again(struct tu_plan *plan) {
    plan->skips = 0;
    for (uint32_t s = 0; s < plan->steps; s++) {
        struct tu_step *step = &plan->step[s];
        step->users = 0;
        for (uint32_t t = s + 1; step->kind == TU_WAIT && t < plan->steps; t++)
            step->users += names(plan, &plan->step[t], s);
        if (step->kind > TU_SIGNAL)
            continue;
        uint32_t kind = plan->channel[step->channel].kind;
        bool edge = kind == TU_EDGE_IN || kind == TU_EDGE_OUT;
        uint32_t *longest = edge ? &plan->message_blocks : &plan->share_blocks;
        *longest = *longest < step->n ? step->n : *longest;
    }
    for (uint32_t c = 0; c < plan->channels; c++)
        for (uint32_t use = 0; plan->channel[c].kind == TU_BOARD_IN && use < plan->channel[c].uses;
             use++)
            if (!is_waited(plan, c, use))
                plan->skip[plan->skips++] = (struct tu_plan_skip){c, use};
}

static void drop_channel(struct tu_plan *plan, uint32_t c) {
    plan->channels--;
    memmove(plan->channel + c, plan->channel + c + 1,
            (plan->channels - c) * sizeof(*plan->channel));
    for (uint32_t s = 0; s < plan->steps; s++)
        if (plan->step[s].kind <= TU_SIGNAL && plan->step[s].channel > c)
            plan->step[s].channel--;
}

static void drop_ref(struct tu_plan *plan, struct tu_step *step, uint32_t i) {
    step->args--;
    memmove(plan->ref + step->arg + i, plan->ref + step->arg + i + 1,
            (step->args - i) * sizeof(*plan->ref));
}

/* A later step loses step s, and depends on what s depended on. */
static void forget_step(struct tu_plan *plan, struct tu_step *step, uint32_t s,
                        const uint32_t after[2]) {
    for (int i = 0; i < 2; i++) {
        if (step->after[i] == s) {
            step->after[i] = after[0];
            if (step->after[1 - i] == TU_NO_STEP)
                step->after[1 - i] = after[1];
        } else if (step->after[i] != TU_NO_STEP && step->after[i] > s) {
            step->after[i]--;
        }
    }
    for (uint32_t i = step->args; i-- > 0;) {
        struct tu_ref *ref = &plan->ref[step->arg + i];
        if (ref->space == TU_ARRIVED && ref->step == s)
            drop_ref(plan, step, i);
        else if (ref->space == TU_ARRIVED && ref->step > s)
            ref->step--;
    }
}

/* Numbers the uses of a channel again after one is gone; the channel goes with its last use. Board
 * uses at readers keep their numbers. */
static void forget_use(struct tu_plan *plan, const struct tu_step *gone) {
    struct tu_plan_channel *channel = &plan->channel[gone->channel];

    if (channel->kind == TU_BOARD_IN)
        return;
    for (uint32_t s = 0; s < plan->steps; s++)
        if (plan->step[s].kind <= TU_SIGNAL && plan->step[s].channel == gone->channel &&
            plan->step[s].use > gone->use)
            plan->step[s].use--;
    if (--channel->uses == 0)
        drop_channel(plan, gone->channel);
}

static void drop_step(struct tu_plan *plan, uint32_t s) {
    struct tu_step gone = plan->step[s];

    plan->steps--;
    memmove(plan->step + s, plan->step + s + 1, (plan->steps - s) * sizeof(*plan->step));
    for (uint32_t t = s; t < plan->steps; t++)
        forget_step(plan, &plan->step[t], s, gone.after);
    if (gone.kind <= TU_SIGNAL)
        forget_use(plan, &gone);
    for (uint32_t t = s; t < plan->steps; t++)
        if (plan->step[t].args == 0 &&
            (plan->step[t].kind == TU_REDUCE || plan->step[t].kind == TU_COPY)) {
            drop_step(plan, t);
            break;
        }
    finish_again(plan);
}

/* ---- the classes: does candidate (s, i) of a plan fit, and what is done to it ---- */

struct set {
    struct tu_plan **plan;
    uint32_t ranks;
};

static bool has_channel(const struct tu_step *step) {
    return step->kind <= TU_SIGNAL;
}

static bool is_wait(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i == 0 && plan->step[s].kind == TU_WAIT;
}

static void drop_this(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    (void)i;
    drop_step(set->plan[rank], s);
}

static bool is_post(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    const struct tu_step *step = &plan->step[s];
    bool read = step->kind == TU_WRITE ||
                ((step->kind == TU_SHARE || step->kind == TU_SIGNAL) && step->readers > 0);
    return i == 0 && read;
}

static bool is_first_write(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i == 0 && plan->step[s].kind == TU_WRITE && plan->step[s].use == 0;
}

static void drop_edge(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_plan *plan = set->plan[rank];
    uint32_t c = plan->step[s].channel, uses = plan->channel[c].uses;

    (void)i;
    for (uint32_t t = s; uses > 0; t++)
        while (uses > 0 && t < plan->steps && plan->step[t].kind == TU_WRITE &&
               plan->step[t].channel == c) {
            drop_step(plan, t);
            uses--;
        }
}

static bool has_other_peer(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return plan->size > 2 && is_first_write(plan, s, i);
}

static void change_peer(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_plan *plan = set->plan[rank];
    uint32_t *peer = &plan->channel[plan->step[s].channel].peer;

    (void)i;
    do
        *peer = (*peer + 1) % plan->size;
    while (*peer == rank);
}

/* Another first block in the same group. */
static uint32_t next_first(const struct tu_plan *plan, uint32_t first) {
    uint32_t group = first / plan->wrap * plan->wrap;
    return group + (first - group + 1) % plan->wrap;
}

/* i = 0: the message; i - 1: the reference. Where numbers mean nothing, nothing is wrong. */
static bool has_offset(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    const struct tu_step *step = &plan->step[s];

    if (plan->wrap == 1)
        return false;
    if (i == 0)
        return has_channel(step) && step->n > 0;
    if (i > step->args)
        return false;
    uint32_t space = plan->ref[step->arg + i - 1].space;
    return !plan->replicate || (space != TU_SRC && space != TU_DST);
}

static void change_offset(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_plan *plan = set->plan[rank];
    struct tu_step *step = &plan->step[s];
    uint32_t *first = i == 0 ? &step->first : &plan->ref[step->arg + i - 1].first;

    *first = next_first(plan, *first);
}

static bool is_wait_for_blocks(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return is_wait(plan, s, i) && plan->step[s].n > 0;
}

static void shorten(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    (void)i;
    set->plan[rank]->step[s].n--;
    finish_again(set->plan[rank]);
}

static bool has_use_before(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i == 0 && has_channel(&plan->step[s]) && plan->step[s].use > 0;
}

static void reuse(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    (void)i;
    set->plan[rank]->step[s].use--;
    finish_again(set->plan[rank]);
}

static bool has_users(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i == 0 && plan->step[s].users > 0;
}

static void release_early(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    (void)i;
    set->plan[rank]->step[s].users--;
}

static void release_late(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    (void)i;
    set->plan[rank]->step[s].users++;
}

static bool is_operand(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return plan->step[s].kind == TU_REDUCE && i < plan->step[s].args;
}

static void add_again(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_plan *plan = set->plan[rank];
    struct tu_step *step = &plan->step[s];

    memcpy(plan->ref + plan->refs, plan->ref + step->arg, step->args * sizeof(*plan->ref));
    step->arg = plan->refs;
    plan->refs += step->args + 1;
    plan->ref[plan->refs - 1] = plan->ref[step->arg + i];
    step->args++;
}

static bool is_one_of_several(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return is_operand(plan, s, i) && plan->step[s].args > 1;
}

static void leave_out(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_plan *plan = set->plan[rank];

    drop_ref(plan, &plan->step[s], i);
    finish_again(plan);
}

static bool has_right_neighbour(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return plan->in_order && is_operand(plan, s, i) && i + 1 < plan->step[s].args;
}

static void swap(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_ref *ref = &set->plan[rank]->ref[set->plan[rank]->step[s].arg + i], left = ref[0];

    ref[0] = ref[1];
    ref[1] = left;
}

static bool is_compute(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i == 0 && (plan->step[s].kind == TU_REDUCE || plan->step[s].kind == TU_COPY);
}

/* Here s is a channel. */
static bool is_board_in(const struct tu_plan *plan, uint32_t c, uint32_t i) {
    return i == 0 && c < plan->channels && plan->channel[c].kind == TU_BOARD_IN;
}

static void state_use_more(struct set *set, uint32_t rank, uint32_t c, uint32_t i) {
    (void)i;
    set->plan[rank]->channel[c].uses++;
    finish_again(set->plan[rank]);
}

static bool has_readers(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i == 0 && (plan->step[s].kind == TU_SHARE || plan->step[s].kind == TU_SIGNAL);
}

static void add_reader(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    (void)i;
    set->plan[rank]->step[s].readers++;
}

static bool always(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    (void)plan;
    (void)s;
    return i < 2;
}

static void depend_on_self(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    set->plan[rank]->step[s].after[i] = s;
}

/* ---- classes whose mutations may be harmless ---- */

static bool depends(const struct tu_plan *plan, uint32_t s, uint32_t on) {
    for (int i = 0; s != TU_NO_STEP && s > on && i < 2; i++)
        if (plan->step[s].after[i] != TU_NO_STEP &&
            (plan->step[s].after[i] == on || depends(plan, plan->step[s].after[i], on)))
            return true;
    return false;
}

static bool is_needed_dependency(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    const uint32_t *after = plan->step[s].after;

    if (i > 1 || after[i] == TU_NO_STEP || after[0] == after[1])
        return false;
    return !depends(plan, after[1 - i], after[i]);
}

static void drop_dependency(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    set->plan[rank]->step[s].after[i] = TU_NO_STEP;
}

static void weaken_dependency(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_step *step = &set->plan[rank]->step[s];
    const struct tu_step *before = &set->plan[rank]->step[step->after[i]];

    step->after[i] = before->after[0];
    if (step->after[1 - i] == TU_NO_STEP)
        step->after[1 - i] = before->after[1];
}

/* Takes use `use` of channel c, of kind BOARD_IN, out of the numbering. */
static void forget_board_use(struct tu_plan *plan, uint32_t c, uint32_t use) {
    for (uint32_t s = plan->steps; s-- > 0;) {
        struct tu_step *step = &plan->step[s];
        if (step->kind == TU_WAIT && step->channel == c && step->use == use)
            drop_step(plan, s);
        else if (step->kind == TU_WAIT && step->channel == c && step->use > use)
            step->use--;
    }
    if (--plan->channel[c].uses == 0)
        drop_channel(plan, c);
    finish_again(plan);
}

static void drop_message(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    struct tu_step gone = set->plan[rank]->step[s];
    struct tu_plan_channel out = set->plan[rank]->channel[gone.channel];

    (void)i;
    drop_step(set->plan[rank], s);
    for (uint32_t r = 0; r < set->ranks; r++)
        for (uint32_t c = 0; c < set->plan[r]->channels; c++) {
            const struct tu_plan_channel in = set->plan[r]->channel[c];
            if (in.peer != rank || in.kind == TU_EDGE_OUT || in.kind == TU_BOARD_OUT)
                continue;
            if (out.kind == TU_BOARD_OUT && in.kind == TU_BOARD_IN)
                forget_board_use(set->plan[r], c, gone.use);
            for (uint32_t t = 0; out.kind == TU_EDGE_OUT && in.kind == TU_EDGE_IN &&
                                 out.peer == r && t < set->plan[r]->steps;
                 t++)
                if (set->plan[r]->step[t].kind == TU_WAIT && set->plan[r]->step[t].channel == c &&
                    set->plan[r]->step[t].use == gone.use) {
                    drop_step(set->plan[r], t);
                    return;
                }
        }
}

static bool reads_source(const struct tu_plan *plan, uint32_t s, uint32_t i) {
    return i < plan->step[s].args && plan->ref[plan->step[s].arg + i].space == TU_SRC;
}

static void read_target(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    set->plan[rank]->ref[set->plan[rank]->step[s].arg + i].space = TU_DST;
}

/* ---- the table ---- */

struct class {
    const char *name;
    bool (*fits)(const struct tu_plan *plan, uint32_t s, uint32_t i);
    void (*apply)(struct set *set, uint32_t rank, uint32_t s, uint32_t i);
};

static const struct class class_of[MUTATIONS] = {
    [DROPPED_WAIT] = {"dropped wait", is_wait, drop_this},
    [DROPPED_POST] = {"dropped write, share or signal", is_post, drop_this},
    [MISSING_EDGE] = {"missing edge", is_first_write, drop_edge},
    [WRONG_PEER] = {"wrong peer", has_other_peer, change_peer},
    [SWAPPED_OFFSET] = {"swapped offset", has_offset, change_offset},
    [UNEQUAL_RANGE] = {"unequal range", is_wait_for_blocks, shorten},
    [REUSED_SLOT] = {"reused slot", has_use_before, reuse},
    [EARLY_RELEASE] = {"early release", has_users, release_early},
    [LATE_RELEASE] = {"late release", is_wait, release_late},
    [COUNTED_TWICE] = {"counted twice", is_operand, add_again},
    [LEFT_OUT] = {"left out", is_one_of_several, leave_out},
    [SWAPPED_OPERANDS] = {"swapped operands", has_right_neighbour, swap},
    [DROPPED_STEP] = {"dropped step", is_compute, drop_this},
    [BOARD_USES] = {"board uses", is_board_in, state_use_more},
    [BOARD_READERS] = {"board readers", has_readers, add_reader},
    [LATER_STEP] = {"dependency on itself", always, depend_on_self},
    [DROPPED_DEPENDENCY] = {"dropped dependency", is_needed_dependency, drop_dependency},
    [WEAKER_DEPENDENCY] = {"weaker dependency", is_needed_dependency, weaken_dependency},
    [DROPPED_MESSAGE] = {"dropped message", is_post, drop_message},
    [OTHER_BUFFER] = {"target read for source", reads_source, read_target},
};

const char *mutation_name(enum mutation mutation) {
    return class_of[mutation].name;
}

/* The n-th candidate that fits; false if there are no more. */
static bool find_candidate(const struct tu_plan *const *plan, uint32_t ranks,
                           const struct class *class, uint32_t n, uint32_t at[3]) {
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t s = 0; s < plan[r]->steps || s < plan[r]->channels; s++) {
            bool channel_only = s >= plan[r]->steps;
            uint32_t most = channel_only ? 1 : plan[r]->step[s].args + 2;
            for (uint32_t i = 0; i < most; i++) {
                if (channel_only && class->fits != is_board_in)
                    continue;
                if (class->fits(plan[r], s, i) && n-- == 0) {
                    memcpy(at, (uint32_t[]){r, s, i}, 3 * sizeof(*at));
                    return true;
                }
            }
        }
    return false;
}

struct tu_plan **mutated(const struct tu_plan *const *plan, uint32_t ranks, enum mutation mutation,
                         uint32_t n) {
    uint32_t at[3];

    if (!find_candidate(plan, ranks, &class_of[mutation], n, at))
        return NULL;
    struct set set = {.plan = malloc(ranks * sizeof(*set.plan)), .ranks = ranks};
    for (uint32_t r = 0; r < ranks; r++)
        set.plan[r] = copy_of(plan[r]);
    class_of[mutation].apply(&set, at[0], at[1], at[2]);
    return set.plan;
}

/* ---- all of them ---- */

/* The worst end of `seeds` runs apart and in place. */
static enum model_end run_some(struct tu_plan **plan, const struct tu_check *check, uint64_t salt,
                               uint32_t seeds, char text[256]) {
    enum model_end end = MODEL_RIGHT;

    for (uint32_t seed = 0; end == MODEL_RIGHT && seed < 2 * seeds; seed++) {
        struct model_options options = {
            .ring_slots = check->ring_slots, .in_place = seed % 2, .seed = salt << 32 | seed};
        end = model_run((const struct tu_plan *const *)plan, check, &options, text);
    }
    return end;
}

/* The checker accepted it: it must run right. */
static void expect_harmless(struct tu_plan **plan, const struct tu_check *check,
                            enum mutation mutation, uint32_t n, uint32_t seeds) {
    char text[256] = "";

    cr_assert(mutation >= CERTAIN_MUTATIONS, "%s: %s number %u is not caught", plan[0]->algorithm,
              mutation_name(mutation), n);
    enum model_end end = run_some(plan, check, n, seeds, text);
    cr_assert_eq(end, MODEL_RIGHT, "%s: %s number %u is accepted, but ends as %d: %s",
                 plan[0]->algorithm, mutation_name(mutation), n, end, text);
}

/* Plans that are rejected for what they do, not for their form, so that the model can run them. */
static bool can_run(enum mutation mutation) {
    return mutation == DROPPED_DEPENDENCY || mutation == WEAKER_DEPENDENCY ||
           mutation == OTHER_BUFFER;
}

static uint32_t count_candidates(const struct tu_plan *const *plan, uint32_t ranks,
                                 enum mutation mutation) {
    uint32_t at[3], n = 0;
    while (find_candidate(plan, ranks, &class_of[mutation], n, at))
        n++;
    return n;
}

void mutate_all(const struct tu_plan *const *plan, const struct tu_check *check, uint32_t most,
                uint32_t seeds, struct mutation_count count[MUTATIONS]) {
    struct tu_check_result result;
    uint32_t ranks = check->nodes->ranks;
    char text[256];

    for (enum mutation mutation = 0; mutation < MUTATIONS; mutation++) {
        uint32_t all = count_candidates(plan, ranks, mutation);
        for (uint32_t n = 0; n < all; n += 1 + all / most) {
            struct tu_plan **changed = mutated(plan, ranks, mutation, n);
            bool caught = !tu_plan_check((const struct tu_plan *const *)changed, check, &result);
            count[mutation].made++;
            count[mutation].caught += caught;
            if (!caught)
                expect_harmless(changed, check, mutation, n, seeds);
            else if (can_run(mutation))
                count[mutation].shown +=
                    run_some(changed, check, n, 2 * seeds, text) != MODEL_RIGHT;
            cr_assert_eq(caught, result.error[0] != 0);
            mutated_free(changed, ranks);
        }
    }
}

void mutation_print(const char *what, const struct mutation_count count[MUTATIONS]) {
    for (enum mutation mutation = 0; mutation < MUTATIONS; mutation++)
        if (count[mutation].made)
            fprintf(stderr, "%-10s %-32s %6u made, %6u caught, %6u harmless, %6u shown\n", what,
                    mutation_name(mutation), count[mutation].made, count[mutation].caught,
                    count[mutation].made - count[mutation].caught, count[mutation].shown);
}
