/*
 * The checker on small plans made by hand: the right ones pass, and each kind of mistake is rejected
 * for its own reason, naming rank and step.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "collectives/plan_check.h"

/* ---- sets of plans ---- */

enum { MOST = 8 };

struct set {
    uint32_t ranks;
    struct tu_nodes *nodes;
    struct tu_builder b[MOST];
    struct tu_plan *plan[MOST]; /* of finish() */
    struct tu_check check;
};

static const struct tu_after at_once = {TU_NO_STEP, TU_NO_STEP};

static struct tu_after after(uint32_t step) {
    return (struct tu_after){step, TU_NO_STEP};
}

/* All ranks on one node, or each on its own. */
static void begin(struct set *set, enum tu_collective collective, uint32_t ranks, bool one_node,
                  uint32_t blocks) {
    uint32_t label[MOST];

    memset(set, 0, sizeof(*set));
    set->ranks = ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        label[r] = one_node ? 0 : r;
        tu_builder_init(&set->b[r], "test", r, ranks, blocks);
    }
    cr_assert_eq(tu_nodes_make(label, ranks, &set->nodes), TUTTI_OK);
    set->check = (struct tu_check){.collective = collective, .nodes = set->nodes, .ring_slots = 1};
}

static void finish(struct set *set) {
    for (uint32_t r = 0; r < set->ranks; r++)
        cr_assert_eq(tu_plan_finish(&set->b[r], &set->plan[r]), TUTTI_OK);
}

static void end(struct set *set) {
    for (uint32_t r = 0; r < set->ranks; r++)
        tu_plan_free(set->plan[r]);
    tu_nodes_free(set->nodes);
}

static struct tu_check_result check(struct set *set) {
    struct tu_check_result result;
    bool right = tu_plan_check((const struct tu_plan *const *)set->plan, &set->check, &result);
    cr_assert_eq(right, result.error[0] == 0);
    return result;
}

static struct tu_check_result expect_right(struct set *set) {
    struct tu_check_result result = check(set);
    cr_assert_eq(result.error[0], 0, "%s", result.error);
    return result;
}

/* Rejected, and the text has both pieces. */
static void expect_wrong(struct set *set, const char *where, const char *why) {
    struct tu_check_result result = check(set);
    cr_assert(strstr(result.error, where) && strstr(result.error, why), "%s | %s in \"%s\"", where,
              why, result.error);
}

/* ---- an exchange: everybody writes to everybody, and folds in rank order ---- */

/* Steps of each rank: WRITEs to the peers, WAITs for them (chained), REDUCE. */
static void build_exchange(struct set *set, uint32_t ranks) {
    begin(set, TU_ALLREDUCE, ranks, false, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        struct tu_builder *b = &set->b[r];
        struct tu_ref own = tu_src(r, 1), operand[MOST];
        struct tu_after last = at_once;
        b->plan.replicate = b->plan.in_order = b->plan.left_fold = true;
        for (uint32_t i = 1; i < ranks; i++)
            last.a = tu_write(b, (r + i) % ranks, r, 1, &own, 1, last);
        operand[r] = own;
        for (uint32_t i = 1; i < ranks; i++) {
            uint32_t from = (r + i) % ranks;
            last.b = last.a;
            last.a = tu_wait(b, from, from, 1, (struct tu_after){last.b, TU_NO_STEP});
            operand[from] = tu_arrived(last.a, from, 1);
        }
        tu_reduce(b, tu_dst(r, 1), operand, ranks, after(last.a));
    }
    finish(set);
}

Test(exchange, is_right_and_measured, .timeout = 10) {
    for (uint32_t ranks = 2; ranks <= 6; ranks++) {
        struct set set;
        build_exchange(&set, ranks);
        struct tu_check_result result = expect_right(&set);
        cr_assert_eq(result.rounds, 1);
        cr_assert_eq(result.peers, ranks - 1);
        cr_assert_eq(result.sent_blocks, ranks - 1);
        cr_assert_eq(result.reduced_blocks, ranks - 1);
        cr_assert_eq(result.scratch_blocks, 0);
        end(&set);
    }
}

Test(exchange, a_rank_alone, .timeout = 10) {
    struct set set;
    begin(&set, TU_ALLREDUCE, 1, false, 1);
    tu_copy(&set.b[0], tu_dst(0, 1), tu_src(0, 1), at_once);
    finish(&set);
    expect_right(&set);
    end(&set);
}

/* The plans of three ranks have steps 0, 1 WRITE, 2, 3 WAIT, 4 REDUCE with operands of rank 0, 1, 2. */
static struct tu_step *step_of(struct set *set, uint32_t rank, uint32_t s) {
    return &set->plan[rank]->step[s];
}

static struct tu_ref *ref_of(struct set *set, uint32_t rank, uint32_t s, uint32_t i) {
    return &set->plan[rank]->ref[set->plan[rank]->step[s].arg + i];
}

Test(exchange, head, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    set.plan[1]->rank = 2;
    expect_wrong(&set, "rank 1", "the plan says rank 2 of 3");
    set.plan[1]->rank = 1;
    set.plan[2]->blocks = 4;
    expect_wrong(&set, "rank 2", "not those of rank 0");
    set.plan[2]->blocks = 3;
    set.plan[2]->wrap = 0;
    expect_wrong(&set, "rank 2", "wrap 0");
    end(&set);
}

Test(exchange, bounds, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 1, 4)->kind = 9;
    expect_wrong(&set, "rank 1 step 4", "kind 9");
    step_of(&set, 1, 4)->kind = TU_REDUCE;
    step_of(&set, 1, 2)->channel = 4;
    expect_wrong(&set, "rank 1 step 2", "channel 4 is out of bounds");
    step_of(&set, 1, 2)->channel = 0;
    expect_wrong(&set, "rank 1 step 2", "of another kind");
    step_of(&set, 1, 2)->channel = 2;
    step_of(&set, 1, 4)->args = 100;
    expect_wrong(&set, "rank 1 step 4", "references");
    step_of(&set, 1, 4)->args = 3;
    step_of(&set, 1, 4)->after[0] = 4;
    expect_wrong(&set, "rank 1 step 4 (REDUCE)", "depends on step 4, which is not earlier");
    step_of(&set, 1, 4)->after[0] = 3;
    ref_of(&set, 1, 0, 0)->first = 3;
    expect_wrong(&set, "rank 1 step 0", "source blocks 3+1 are out of bounds");
    ref_of(&set, 1, 0, 0)->first = 1;
    ref_of(&set, 1, 0, 0)->space = 5;
    expect_wrong(&set, "rank 1 step 0", "unknown space 5");
    ref_of(&set, 1, 0, 0)->space = TU_NODE;
    expect_wrong(&set, "rank 1 step 0", "node blocks 1+1 are out of bounds");
    end(&set);
}

Test(exchange, operands, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    ref_of(&set, 1, 4, 0)->step = 1;
    expect_wrong(&set, "rank 1 step 4", "step 1 brought, which is no earlier WAIT");
    ref_of(&set, 1, 4, 0)->step = 3;
    ref_of(&set, 1, 4, 0)->first = 2;
    expect_wrong(&set, "rank 1 step 4", "are not part of 0+1, which step 3 brought");
    ref_of(&set, 1, 4, 0)->first = 0;
    step_of(&set, 1, 4)->dst[0].space = TU_SRC;
    expect_wrong(&set, "rank 1 step 4", "no destination");
    step_of(&set, 1, 4)->dst[0].space = TU_DST;
    step_of(&set, 1, 4)->dsts = 3;
    expect_wrong(&set, "rank 1 step 4", "3 destinations");
    step_of(&set, 1, 4)->dsts = 1;
    step_of(&set, 1, 4)->kind = TU_COPY;
    expect_wrong(&set, "rank 1 step 4", "3 operands");
    end(&set);
}

Test(exchange, numbers_of_uses, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 0, 1)->channel = step_of(&set, 0, 0)->channel;
    expect_wrong(&set, "rank 0 step 1 (WRITE to 1, use 0)", "second step with this use");
    step_of(&set, 0, 1)->channel = 1;
    set.plan[0]->channel[1].uses = 2;
    expect_wrong(&set, "rank 0", "channel 1 states 2 uses, has 1");
    set.plan[0]->channel[1].uses = 1;
    set.plan[0]->channel[1].peer = 1;
    expect_wrong(&set, "rank 0", "channel 1 (peer 1) is there twice");
    end(&set);
}

Test(exchange, uses_out_of_order, .timeout = 10) {
    struct set set;
    begin(&set, TU_BARRIER, 2, false, 1);
    for (uint32_t i = 0; i < 2; i++) {
        tu_write(&set.b[0], 1, 0, 0, NULL, 0, at_once);
        tu_wait(&set.b[1], 0, 0, 0, at_once);
    }
    finish(&set);
    set.check.ring_slots = 2;
    step_of(&set, 0, 0)->use = 1;
    step_of(&set, 0, 1)->use = 0;
    expect_wrong(&set, "rank 0 step 0 (WRITE to 1, use 1)", "use 0 comes next in plan order");
    step_of(&set, 0, 0)->use = 2;
    expect_wrong(&set, "rank 0 step 0 (WRITE to 1, use 2)", "the channel has 2 uses");
    set.plan[0]->channel[0].uses = 0;
    expect_wrong(&set, "rank 0", "channel 0 (peer 1) states 0 uses");
    set.plan[0]->channel[0].uses = 3; /* of two steps */
    expect_wrong(&set, "rank 0", "channel 0 (peer 1) states 3 uses");
    end(&set);
}

/* What only some kinds of step have, on others. */
Test(exchange, foreign_fields, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 1, 0)->readers = 1;
    expect_wrong(&set, "rank 1 step 0 (WRITE to 2, use 0)", "has readers");
    step_of(&set, 1, 0)->readers = 0;
    step_of(&set, 1, 0)->dsts = 1;
    expect_wrong(&set, "rank 1 step 0", "a message has no destination");
    step_of(&set, 1, 0)->dsts = 0;
    step_of(&set, 1, 2)->arg = 0;
    step_of(&set, 1, 2)->args = 1;
    expect_wrong(&set, "rank 1 step 2", "a WAIT has no references");
    end(&set);
    begin(&set, TU_BARRIER, 2, true, 1);
    tu_signal(&set.b[0], 0, at_once);
    tu_board_uses(&set.b[1], 0, 1);
    finish(&set);
    step_of(&set, 0, 0)->n = 1;
    expect_wrong(&set, "rank 0 step 0", "a SIGNAL has no blocks");
    end(&set);
}

Test(exchange, matching, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 2, 2)->first = 1;
    ref_of(&set, 2, 4, 0)->first = 1;
    expect_wrong(&set, "rank 2 step 2 (WAIT for 0, use 0)", "blocks 1+1, the WRITE has 0+1");
    step_of(&set, 2, 2)->first = 0;
    ref_of(&set, 2, 4, 0)->first = 0;
    set.plan[0]->channel[0].peer = 2;
    set.plan[0]->channel[1].peer = 1;
    expect_right(&set); /* both carry the same block */
    end(&set);
}

/* The end of an edge is missing at the reader, at the writer. */
Test(exchange, missing_edge, .timeout = 10) {
    struct set set;
    begin(&set, TU_BARRIER, 3, false, 1);
    tu_write(&set.b[0], 1, 0, 0, NULL, 0, at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0 (WRITE to 1, use 0)", "rank 1 has no WAIT for rank 0");
    end(&set);
    begin(&set, TU_BARRIER, 3, false, 1);
    tu_wait(&set.b[0], 1, 0, 0, at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0 (WAIT for 1, use 0)", "rank 1 has no WRITE to rank 0");
    end(&set);
}

Test(exchange, users, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 1, 2)->users = 0;
    expect_wrong(&set, "rank 1 step 2", "states 0 users, but 1 steps name it");
    step_of(&set, 1, 2)->users = 2;
    expect_wrong(&set, "rank 1 step 2", "states 2 users");
    step_of(&set, 1, 2)->users = 1;
    for (uint32_t r = 0; r < 3; r++)
        set.plan[r]->message_blocks = 0;
    expect_wrong(&set, "rank 0", "states longest messages of 0 and 0 blocks, but has 1");
    set.plan[0]->message_blocks = 1;
    set.plan[1]->message_blocks = 5;
    expect_wrong(&set, "rank 1", "they would cut the vector in different places");
    end(&set);
}

Test(exchange, arrival_before_its_wait, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 1, 4)->after[0] = 2; /* the other WAIT */
    expect_wrong(&set, "rank 1 step 4 (REDUCE)", "what step 3 brought, but does not depend on it");
    end(&set);
}

/* Apart from each other source and target are no problem, in one buffer they are. */
Test(exchange, race_in_place, .timeout = 10) {
    struct set set;
    build_exchange(&set, 2);
    step_of(&set, 1, 1)->after[0] = TU_NO_STEP; /* WAIT, then REDUCE, with no regard to the WRITE */
    expect_wrong(&set, "rank 1 step 2 (REDUCE)",
                 "race: writes target block 1, which step 0 (WRITE to 0, use 0) reads");
    end(&set);
}

Test(exchange, values, .timeout = 10) {
    struct set set;
    build_exchange(&set, 3);
    step_of(&set, 1, 4)->args = 2;
    step_of(&set, 1, 2)->users = 0;
    expect_wrong(&set, "rank 1", "target block 0 lacks rank 2");
    end(&set);

    build_exchange(&set, 3);
    *ref_of(&set, 1, 4, 0) = *ref_of(&set, 1, 4, 1);
    step_of(&set, 1, 3)->users = 0;
    expect_wrong(&set, "rank 1", "target block 0 has rank 1 more than once");
    end(&set);

    build_exchange(&set, 2);
    set.plan[1]->in_order = set.plan[0]->in_order = false;
    set.plan[1]->left_fold = set.plan[0]->left_fold = false;
    struct tu_ref operand[4] = {*ref_of(&set, 1, 2, 0), *ref_of(&set, 1, 2, 1)};
    operand[2] = operand[3] = operand[1];
    struct tu_ref *kept = set.plan[1]->ref;
    set.plan[1]->ref = operand; /* the WRITE's piece is its first one, too */
    step_of(&set, 1, 0)->arg = 1;
    step_of(&set, 1, 2)->arg = 0;
    step_of(&set, 1, 2)->args = set.plan[1]->refs = 4;
    expect_wrong(&set, "rank 1", "target block 0 has a rank more than once");
    set.plan[1]->ref = kept;
    end(&set);

    build_exchange(&set, 3);
    step_of(&set, 1, 4)->arg--; /* the piece of a WRITE before: rank 1's own */
    step_of(&set, 1, 4)->args++;
    expect_wrong(&set, "rank 1", "has rank 1 more than once");
    end(&set);

    build_exchange(&set, 3);
    struct tu_ref first = *ref_of(&set, 2, 4, 0);
    *ref_of(&set, 2, 4, 0) = *ref_of(&set, 2, 4, 1);
    *ref_of(&set, 2, 4, 1) = first;
    expect_wrong(&set, "rank 2", "target block 0 is not in rank order");
    for (uint32_t r = 0; r < 3; r++)
        set.plan[r]->in_order = set.plan[r]->left_fold = false;
    expect_wrong(&set, "rank 2", "in another order than on rank 0");
    set.check.structure_only = true;
    expect_right(&set);
    end(&set);
}

/* (x0 op (x1 op x2)): rank order, but no left fold. */
Test(exchange, left_fold, .timeout = 10) {
    struct set set;
    begin(&set, TU_ALLREDUCE, 3, false, 3);
    for (uint32_t r = 0; r < 3; r++) {
        struct tu_builder *b = &set.b[r];
        struct tu_ref own = tu_src(r, 1), got[3];
        struct tu_after last = at_once;
        b->plan.replicate = true;
        b->plan.scratch_blocks = 1;
        for (uint32_t i = 1; i < 3; i++)
            last.a = tu_write(b, (r + i) % 3, r, 1, &own, 1, last);
        got[r] = own;
        for (uint32_t i = 1; i < 3; i++) {
            last.a = tu_wait(b, (r + i) % 3, (r + i) % 3, 1, last);
            got[(r + i) % 3] = tu_arrived(last.a, (r + i) % 3, 1);
        }
        last.a = tu_reduce(b, tu_scratch(0, 1), got + 1, 2, last);
        got[1] = tu_scratch(0, 1);
        tu_reduce(b, tu_dst(0, 1), got, 2, last);
    }
    finish(&set);
    set.check.in_order = true;
    expect_right(&set);
    set.check.left_fold = true;
    expect_wrong(&set, "rank 0", "target block 0 is not a left fold");
    end(&set);
}

Test(exchange, never_written, .timeout = 10) {
    struct set set;
    build_exchange(&set, 2);
    step_of(&set, 1, 2)->dst[0].space = TU_SCRATCH;
    set.plan[1]->scratch_blocks = 2;
    expect_wrong(&set, "rank 1", "target block 0 is never written");
    end(&set);
    build_exchange(&set, 2);
    ref_of(&set, 0, 2, 0)->space = TU_DST;
    expect_wrong(&set, "rank 0 step 2", "never written");
    end(&set);
}

/* Ordered, and right with two buffers; with one the source is gone when it is read. */
Test(exchange, source_overwritten_in_place, .timeout = 10) {
    struct set set;
    begin(&set, TU_ALLREDUCE, 2, false, 2);
    for (uint32_t r = 0; r < 2; r++) {
        struct tu_builder *b = &set.b[r];
        struct tu_ref own = tu_src(r, 1);
        b->plan.replicate = true;
        uint32_t write = tu_write(b, 1 - r, r, 1, &own, 1, at_once);
        uint32_t wait = tu_wait(b, 1 - r, 1 - r, 1, after(write));
        wait = tu_copy(b, tu_dst(0, 1), tu_arrived(wait, 1 - r, 1), after(wait));
        struct tu_ref both[] = {tu_dst(0, 1), tu_src(0, 1)}, turned[] = {both[1], both[0]};
        tu_reduce(b, tu_dst(0, 1), r == 0 ? turned : both, 2, after(wait));
    }
    finish(&set);
    expect_wrong(&set, "rank 0", "target block 0 has rank 1 more than once (in place)");
    end(&set);
}

/* ---- ranges and pieces ---- */

/* Rank 0 broadcasts five blocks in one group, starting at block `first`, as the given pieces. */
static void build_ranges(struct set *set, uint32_t first, const struct tu_ref *piece,
                         uint32_t pieces) {
    begin(set, TU_BCAST, 2, false, 5);
    tu_write(&set->b[0], 1, first, 5, piece, pieces, at_once);
    uint32_t wait = tu_wait(&set->b[1], 0, first, 5, at_once);
    tu_copy(&set->b[1], tu_dst(first, 5), tu_arrived(wait, first, 5), after(wait));
    finish(set);
}

Test(ranges, wrap, .timeout = 10) {
    const struct tu_ref one[] = {tu_src(3, 5)},
                        three[] = {tu_src(3, 1), tu_src(4, 3), tu_src(2, 1)};
    const struct tu_ref wrong[] = {tu_src(3, 1), tu_src(0, 3), tu_src(4, 1)};
    const struct tu_ref four[] = {tu_src(3, 4)}, six[] = {tu_src(3, 5), tu_src(3, 1)};
    const struct tu_ref none[] = {tu_src(3, 5), tu_src(3, 0)};
    struct set set;
    build_ranges(&set, 3, one, 1);
    expect_right(&set);
    end(&set);
    build_ranges(&set, 3, three, 3);
    expect_right(&set);
    end(&set);
    build_ranges(&set, 3, wrong, 3);
    expect_wrong(&set, "rank 0 step 0", "piece 1 (0+3) is not what comes next in 3+5");
    end(&set);
    build_ranges(&set, 3, four, 1);
    expect_wrong(&set, "rank 0 step 0", "make up 4 blocks of 5");
    end(&set);
    build_ranges(&set, 3, six, 2);
    expect_wrong(&set, "rank 0 step 0", "piece 1");
    end(&set);
    build_ranges(&set, 3, none, 2);
    expect_wrong(&set, "rank 0 step 0", "3+0 are no range");
    end(&set);
}

/* Two groups of three: a range wraps in its group, or is whole groups. */
static void build_groups(struct set *set, uint32_t first, uint32_t n, uint32_t part,
                         uint32_t parts) {
    begin(set, TU_BCAST, 2, false, 6);
    for (uint32_t r = 0; r < 2; r++)
        set->b[r].plan.wrap = 3;
    struct tu_ref piece = tu_src(first, n);
    tu_write(&set->b[0], 1, first, n, &piece, 1, at_once);
    uint32_t wait = tu_wait(&set->b[1], 0, first, n, at_once);
    tu_copy(&set->b[1], tu_dst(part, parts), tu_arrived(wait, part, parts), after(wait));
    finish(set);
    set->check.structure_only = true;
}

Test(ranges, groups, .timeout = 10) {
    static const struct {
        uint32_t first, n, part, parts;
        const char *error; /* NULL: right */
    } at[] = {
        {0, 6, 0, 6, NULL},
        {0, 6, 3, 3, NULL},
        {0, 6, 4, 2, NULL},
        {3, 3, 4, 2, NULL},
        {4, 3, 5, 2, NULL}, /* 4 5 3, of which 5 3 */
        {4, 3, 3, 1, NULL},
        {5, 2, 3, 1, NULL},
        {0, 6, 4, 3, "are not part of 0+6"}, /* would wrap */
        {4, 2, 3, 1, "are not part of 4+2"},
        {4, 3, 3, 2, "are not part of 4+3"}, /* 3 4 are not side by side in 4 5 3 */
        {3, 3, 0, 3, "are not part of 3+3"},
        {1, 6, 1, 6, "no range"},
        {0, 4, 0, 4, "no range"},
        {3, 6, 3, 6, "out of bounds"},
    };
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        struct set set;
        build_groups(&set, at[i].first, at[i].n, at[i].part, at[i].parts);
        if (at[i].error)
            expect_wrong(&set, "rank ", at[i].error);
        else
            expect_right(&set);
        end(&set);
    }
}

Test(ranges, shape, .timeout = 10) {
    struct set set;
    begin(&set, TU_ALLREDUCE, 1, false, 4);
    tu_copy(&set.b[0], tu_dst(1, 2), tu_src(2, 2), at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0 (COPY)", "operand 0 (2+2) is not of the shape of 1+2");
    end(&set);
}

/* Replicated blocks are all alike, but may not overlap halfway. */
Test(ranges, replicated, .timeout = 10) {
    struct set set;
    for (uint32_t from = 0; from < 4; from++) {
        begin(&set, TU_ALLREDUCE, 1, false, 4);
        set.b[0].plan.replicate = true;
        set.b[0].plan.scratch_blocks = 4;
        tu_copy(&set.b[0], tu_scratch(2, 2), tu_scratch(from, 2), at_once);
        finish(&set);
        set.check.structure_only = true;
        if (from == 0 || from == 2)
            expect_right(&set);
        else
            expect_wrong(&set, "rank 0 step 0", "overlaps the destination 2+2");
        end(&set);
    }
}

Test(ranges, two_destinations, .timeout = 10) {
    struct set set;
    struct tu_ref own = tu_src(1, 2);
    begin(&set, TU_ALLREDUCE, 1, false, 4);
    set.b[0].plan.scratch_blocks = 4;
    tu_reduce2(&set.b[0], tu_dst(1, 2), tu_dst(1, 2), &own, 1, at_once);
    finish(&set);
    set.check.structure_only = true;
    expect_wrong(&set, "rank 0 step 0 (REDUCE)", "the two destinations overlap");
    step_of(&set, 0, 0)->dst[1].space = TU_SCRATCH;
    expect_right(&set);
    step_of(&set, 0, 0)->dst[1].n = 1;
    expect_wrong(&set, "rank 0 step 0 (REDUCE)", "not of the shape of 1+1");
    end(&set);
}

/* Block numbers are places in the vector, in scratch too; replicated, they count scratch blocks, and
 * the caller's buffers have one. */
Test(ranges, limits, .timeout = 10) {
    for (int replicate = 0; replicate < 2; replicate++) {
        struct set set;
        begin(&set, TU_ALLREDUCE, 1, false, 4);
        set.check.structure_only = true;
        set.b[0].plan.replicate = replicate;
        set.b[0].plan.scratch_blocks = 8;
        tu_copy(&set.b[0], tu_scratch(0, 4), replicate ? tu_scratch(4, 4) : tu_src(0, 4), at_once);
        finish(&set);
        expect_right(&set);
        ref_of(&set, 0, 0, 0)->space = TU_SRC;
        ref_of(&set, 0, 0, 0)->first = 0;
        if (replicate)
            expect_wrong(&set, "rank 0 step 0", "source blocks 0+4 are out of bounds");
        else
            expect_right(&set);
        step_of(&set, 0, 0)->dst[0].first = ref_of(&set, 0, 0, 0)->first = 4;
        ref_of(&set, 0, 0, 0)->space = TU_SCRATCH;
        if (replicate)
            expect_right(&set);
        else
            expect_wrong(&set, "rank 0 step 0", "scratch blocks 4+4 are out of bounds");
        end(&set);
    }
}

/* Two COPYs into one block of scratch, in either order or in none. */
Test(ranges, race_of_two_writers, .timeout = 10) {
    for (int ordered = 0; ordered < 2; ordered++) {
        struct set set;
        begin(&set, TU_ALLREDUCE, 1, false, 1);
        set.check.structure_only = true;
        set.b[0].plan.scratch_blocks = 1;
        uint32_t first = tu_copy(&set.b[0], tu_scratch(0, 1), tu_src(0, 1), at_once);
        tu_copy(&set.b[0], tu_scratch(0, 1), tu_src(0, 1), ordered ? after(first) : at_once);
        finish(&set);
        if (ordered)
            expect_right(&set);
        else
            expect_wrong(&set, "rank 0 step 1 (COPY)",
                         "race: writes scratch block 0, which step 0 (COPY) writes");
        end(&set);
    }
}

Test(ranges, a_barrier_has_no_buffers, .timeout = 10) {
    struct set set;
    begin(&set, TU_BARRIER, 1, false, 1);
    set.b[0].plan.scratch_blocks = 1;
    tu_copy(&set.b[0], tu_scratch(0, 1), tu_src(0, 1), at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0", "names the source, which it does not have");
    end(&set);
}

/* A broadcast folds nothing. */
Test(ranges, a_broadcast_of_something_else, .timeout = 10) {
    struct set set;
    begin(&set, TU_BCAST, 2, false, 1);
    struct tu_ref own = tu_src(0, 1);
    tu_write(&set.b[0], 1, 0, 1, &own, 1, at_once);
    uint32_t wait = tu_wait(&set.b[1], 0, 0, 1, at_once);
    struct tu_ref twice[] = {tu_arrived(wait, 0, 1), tu_arrived(wait, 0, 1)};
    tu_reduce(&set.b[1], tu_dst(0, 1), twice, 2, after(wait));
    finish(&set);
    expect_wrong(&set, "rank 1", "target block 0 is not what the root has");
    end(&set);
}

Test(ranges, buffers_of_a_broadcast, .timeout = 10) {
    struct set set;
    begin(&set, TU_BCAST, 2, false, 1);
    struct tu_ref piece = tu_dst(0, 1);
    tu_write(&set.b[0], 1, 0, 1, &piece, 1, at_once);
    tu_wait(&set.b[1], 0, 0, 1, at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0", "names the target, which it does not have");
    end(&set);
}

/* ---- slots ---- */

/* Rank 0 sends n messages; rank 1 folds them all in one step, so that it holds n slots. */
static void build_hoarder(struct set *set, uint32_t n) {
    begin(set, TU_ALLREDUCE, 2, false, n);
    set->check.structure_only = true;
    struct tu_ref got[MOST], own = tu_src(0, 1);
    uint32_t last = TU_NO_STEP;
    for (uint32_t r = 0; r < 2; r++)
        set->b[r].plan.replicate = true;
    for (uint32_t i = 0; i < n; i++) {
        tu_write(&set->b[0], 1, i, 1, &own, 1, at_once);
        last = tu_wait(&set->b[1], 0, i, 1, after(last));
        got[i] = tu_arrived(last, i, 1);
    }
    tu_reduce(&set->b[1], tu_dst(0, 1), got, n, after(last));
    finish(set);
}

/* Of a ring of R slots a writer can rely on R / 2 + 1. */
Test(slots, a_ring_one_too_small, .timeout = 10) {
    for (uint32_t n = 1; n <= 6; n++)
        for (uint32_t ring_slots = 1; ring_slots <= 12; ring_slots++) {
            struct set set;
            build_hoarder(&set, n);
            set.check.ring_slots = ring_slots;
            if (ring_slots / 2 + 1 >= n)
                expect_right(&set);
            else
                expect_wrong(&set, "deadlock", "needs a slot");
            end(&set);
        }
}

/* A slot comes free in the order of the ring, not of the releases. */
Test(slots, consumed_is_a_prefix, .timeout = 10) {
    for (int late_first = 0; late_first < 2; late_first++) {
        struct set set;
        struct tu_ref own = tu_src(0, 1);
        begin(&set, TU_ALLREDUCE, 2, false, 3);
        set.check.structure_only = true;
        set.check.ring_slots = 2;
        for (uint32_t r = 0; r < 2; r++) {
            set.b[r].plan.replicate = true;
            set.b[r].plan.scratch_blocks = 3;
        }
        for (uint32_t i = 0; i < 3; i++)
            tu_write(&set.b[0], 1, i, 1, &own, 1, at_once);
        struct tu_builder *b = &set.b[1];
        uint32_t wait[3];
        for (uint32_t i = 0; i < 3; i++)
            wait[i] = tu_wait(b, 0, i, 1, at_once);
        /* one of the first two is kept until the third has come */
        tu_copy(b, tu_scratch(0, 1), tu_arrived(wait[!late_first], !late_first, 1),
                after(wait[!late_first]));
        tu_copy(b, tu_scratch(1, 1), tu_arrived(wait[late_first], late_first, 1),
                (struct tu_after){wait[late_first], wait[2]});
        finish(&set);
        if (late_first)
            expect_right(&set);
        else
            expect_wrong(&set, "deadlock with 2 slots", "needs a slot");
        end(&set);
    }
}

/* With one slot: the second message comes when all that name the first one are done, and not before. A
 * step that names it twice counts once. */
Test(slots, held_until_the_last_user, .timeout = 10) {
    for (int last_needs_second = 0; last_needs_second < 2; last_needs_second++) {
        struct set set;
        struct tu_ref own = tu_src(0, 1);
        begin(&set, TU_ALLREDUCE, 2, false, 3);
        set.check.structure_only = true;
        set.b[0].plan.replicate = set.b[1].plan.replicate = true;
        set.b[1].plan.scratch_blocks = 3;
        tu_write(&set.b[0], 1, 0, 1, &own, 1, at_once);
        tu_write(&set.b[0], 1, 1, 1, &own, 1, at_once);
        struct tu_builder *b = &set.b[1];
        uint32_t first = tu_wait(b, 0, 0, 1, at_once), second = tu_wait(b, 0, 1, 1, at_once);
        struct tu_ref twice[] = {tu_arrived(first, 0, 1), tu_arrived(first, 0, 1)};
        tu_reduce(b, tu_scratch(0, 1), twice, 2, after(first));
        tu_copy(b, tu_scratch(1, 1), twice[0],
                (struct tu_after){first, last_needs_second ? second : TU_NO_STEP});
        finish(&set);
        cr_assert_eq(step_of(&set, 1, 0)->users, 2);
        if (last_needs_second)
            expect_wrong(&set, "rank 0 step 1 (WRITE to 1, use 1): deadlock with 1 slots",
                         "needs a slot, which is not free before rank 1 step 3 (COPY)");
        else
            expect_right(&set);
        end(&set);
    }
}

Test(slots, everybody_waits_first, .timeout = 10) {
    struct set set;
    begin(&set, TU_BARRIER, 3, false, 1);
    for (uint32_t r = 0; r < 3; r++) {
        uint32_t wait = tu_wait(&set.b[r], (r + 2) % 3, 0, 0, at_once);
        tu_write(&set.b[r], (r + 1) % 3, 0, 0, NULL, 0, after(wait));
    }
    finish(&set);
    expect_wrong(&set, "rank ", "deadlock with 1 slots");
    end(&set);
}

/* ---- barriers ---- */

static void build_barrier(struct set *set) {
    begin(set, TU_BARRIER, 5, false, 1);
    for (uint32_t r = 0; r < 5; r++) {
        struct tu_after heard = at_once;
        for (uint32_t skip = 1; skip < 5; skip *= 2) {
            tu_write(&set->b[r], (r + skip) % 5, 0, 0, NULL, 0, heard);
            heard.a = tu_wait(&set->b[r], (r + 5 - skip) % 5, 0, 0, heard);
        }
    }
    finish(set);
}

Test(barrier, dissemination, .timeout = 10) {
    struct set set;
    build_barrier(&set);
    struct tu_check_result result = expect_right(&set);
    cr_assert_eq(result.rounds, 3);
    cr_assert_eq(result.peers, 4);
    step_of(&set, 3, 2)->after[0] = TU_NO_STEP; /* writes on before it has heard from 2 */
    expect_wrong(&set, "rank ", "may leave the barrier before rank 2 came");
    end(&set);
}

Test(barrier, nobody_says_anything, .timeout = 10) {
    struct set set;
    begin(&set, TU_BARRIER, 2, false, 1);
    finish(&set);
    expect_wrong(&set, "rank 0", "may leave the barrier before rank 1 came");
    end(&set);
    begin(&set, TU_BARRIER, 1, false, 1);
    finish(&set);
    expect_right(&set);
    end(&set);
}

/* ---- boards ---- */

/* Rank 0 of a node of three shares its vector with the others. */
static void build_board(struct set *set) {
    struct tu_ref own = tu_src(0, 1);
    begin(set, TU_BCAST, 3, true, 1);
    tu_share(&set->b[0], 0, 1, &own, 1, 2, at_once);
    for (uint32_t r = 1; r < 3; r++) {
        uint32_t wait = tu_wait_board(&set->b[r], 0, 0, 0, 1, at_once);
        tu_copy(&set->b[r], tu_dst(0, 1), tu_arrived(wait, 0, 1), after(wait));
    }
    finish(set);
}

Test(boards, share, .timeout = 10) {
    struct set set;
    build_board(&set);
    struct tu_check_result result = expect_right(&set);
    cr_assert(result.by_reference);
    cr_assert_eq(result.rounds + result.peers + result.sent_blocks, 0);
    step_of(&set, 0, 0)->readers = 1;
    expect_wrong(&set, "rank 0 step 0 (SHARE on the board of 0, use 0)",
                 "states 1 readers, but 2 ranks wait");
    step_of(&set, 0, 0)->readers = 2;
    set.plan[2]->channel[0].peer = 1;
    expect_wrong(&set, "rank 0 step 0 (SHARE", "1 of 2 node peers state the uses of this board");
    end(&set);
}

Test(boards, of_another_node, .timeout = 10) {
    struct set set;
    build_board(&set);
    tu_nodes_free(set.nodes);
    cr_assert_eq(tu_nodes_make((const uint32_t[]){0, 0, 1}, 3, &set.nodes), TUTTI_OK);
    set.check.nodes = set.nodes;
    expect_wrong(&set, "rank 2", "on another node");
    end(&set);
}

/* A member that reads nothing states the uses all the same. */
static void build_skipping(struct set *set, uint32_t stated) {
    begin(set, TU_BARRIER, 3, true, 1);
    set->check.collective = TU_ALLREDUCE;
    set->check.structure_only = true;
    for (uint32_t use = 0; use < 3; use++) {
        tu_signal(&set->b[0], use != 1, at_once);
        if (use != 1)
            tu_wait_board(&set->b[1], 0, use, 0, 0, at_once);
    }
    tu_board_uses(&set->b[2], 0, stated);
    finish(set);
}

Test(boards, uses_at_a_rank_that_does_not_read, .timeout = 10) {
    struct set set;
    build_skipping(&set, 3);
    expect_right(&set);
    cr_assert_eq(set.plan[2]->skips, 3);
    cr_assert_eq(set.plan[1]->skips, 1);
    set.plan[1]->skip[0].use = 0;
    expect_wrong(&set, "rank 1", "use 1 of the board of 0 is neither waited for nor listed");
    set.plan[1]->skip[0].use = 1;
    set.plan[1]->skips = 2; /* reads no further than the first one */
    expect_wrong(&set, "rank 1", "lists 2 skips instead of 1");
    end(&set);
    build_skipping(&set, 2);
    expect_wrong(&set, "rank 2", "states 2 uses of the board of rank 0, which has 3");
    end(&set);
    build_skipping(&set, 0);
    expect_wrong(&set, "rank 0 step 0", "1 of 2 node peers state the uses");
    end(&set);
}

/* Both share in place and write their target when the share is done: fine with copies, but who reads
 * the source itself would wait for a reader who waits for him. */
Test(boards, by_reference, .timeout = 10) {
    for (int through_scratch = 0; through_scratch < 2; through_scratch++) {
        struct set set;
        begin(&set, TU_ALLREDUCE, 2, true, 2);
        for (uint32_t r = 0; r < 2; r++) {
            struct tu_builder *b = &set.b[r];
            struct tu_ref own = tu_src(r, 1), got[2];
            b->plan.replicate = true;
            b->plan.scratch_blocks = 1;
            uint32_t share = tu_share(b, r, 1, &own, 1, 1, at_once);
            uint32_t wait = tu_wait_board(b, 1 - r, 0, 1 - r, 1, at_once);
            got[r] = own;
            got[1 - r] = tu_arrived(wait, 1 - r, 1);
            if (through_scratch) {
                uint32_t fold = tu_reduce(b, tu_scratch(0, 1), got, 2, after(wait));
                tu_copy(b, tu_dst(0, 1), tu_scratch(0, 1), (struct tu_after){fold, share});
            } else {
                tu_reduce(b, tu_dst(0, 1), got, 2, (struct tu_after){wait, share});
            }
        }
        finish(&set);
        cr_assert_eq(expect_right(&set).by_reference, through_scratch);
        end(&set);
    }
}

/* ---- node blocks ---- */

/* Accumulation in place: rank r stores piece r; in step t it adds to piece r - t, once its left
 * neighbour says that it has done step t - 1; the last adder writes its target too; all copy. */
static void build_accumulation(struct set *set, uint32_t ranks) {
    begin(set, TU_ALLREDUCE, ranks, true, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        struct tu_builder *b = &set->b[r];
        b->plan.node_run = 1;
        struct tu_after last = after(tu_copy(b, tu_node(r, 1), tu_src(r, 1), at_once));
        for (uint32_t t = 1; t < ranks; t++) {
            uint32_t left = (r + ranks - 1) % ranks, piece = (r + ranks - t) % ranks;
            struct tu_ref add[] = {tu_node(piece, 1), tu_src(piece, 1)};
            tu_signal(b, 1, last);
            last.a = tu_wait_board(b, left, t - 1, 0, 0, last);
            last.a = t + 1 < ranks
                         ? tu_reduce(b, tu_node(piece, 1), add, 2, last)
                         : tu_reduce2(b, tu_node(piece, 1), tu_dst(piece, 1), add, 2, last);
        }
        tu_signal(b, ranks - 1, last);
        for (uint32_t i = 1; i < ranks; i++) {
            uint32_t from = (r + i) % ranks, piece = (from + 1) % ranks;
            last.a = tu_wait_board(b, from, ranks - 1, 0, 0, last);
            last.a = tu_copy(b, tu_dst(piece, 1), tu_node(piece, 1), last);
        }
        for (uint32_t i = 1; i < ranks; i++)
            tu_board_uses(b, (r + i) % ranks, ranks);
    }
    finish(set);
}

Test(node_blocks, accumulation_in_place, .timeout = 10) {
    for (uint32_t ranks = 2; ranks <= MOST; ranks++) {
        struct set set;
        build_accumulation(&set, ranks);
        struct tu_check_result result = expect_right(&set);
        cr_assert_eq(result.reduced_blocks, ranks - 1);
        cr_assert_eq(result.rounds, 0);
        end(&set);
    }
}

/* Each WAIT for a signal matters: without it somebody touches a block too early. Steps of a rank of
 * three: COPY, (SIGNAL, WAIT, REDUCE) twice, SIGNAL, (WAIT, COPY) twice. */
Test(node_blocks, race_without_a_signal, .timeout = 10) {
    static const uint32_t jump[][2] = {{3, 2}, {6, 5}, {9, 8}, {11, 10}}; /* step, its WAIT */
    for (size_t i = 0; i < sizeof(jump) / sizeof(*jump); i++) {
        struct set set;
        build_accumulation(&set, 3);
        struct tu_step *step = step_of(&set, 1, jump[i][0]);
        cr_assert_eq(step->after[0], jump[i][1]);
        step->after[0] = step_of(&set, 1, jump[i][1])->after[0];
        expect_wrong(&set, "rank ", "race: ");
        end(&set);
    }
}

Test(node_blocks, steps_are_a_chain, .timeout = 10) {
    struct set set;
    build_accumulation(&set, 3);
    step_of(&set, 1, 2)->after[0] = TU_NO_STEP; /* forgets the COPY before, with the SIGNAL */
    expect_wrong(&set, "rank 1 step 3", "does not depend on step 0, which was the last");
    end(&set);
}

Test(node_blocks, owners, .timeout = 10) {
    struct set set;
    begin(&set, TU_ALLREDUCE, 2, true, 4);
    set.b[0].plan.node_run = set.b[1].plan.node_run = 2;
    tu_copy(&set.b[0], tu_node(1, 2), tu_src(1, 2), at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0", "node blocks 1+2 lie at several members");
    set.plan[1]->node_run = 1;
    expect_wrong(&set, "rank 1", "1 node blocks per member, rank 0 says 2");
    end(&set);

    begin(&set, TU_ALLREDUCE, 2, true, 2); /* two members of two blocks, but two blocks in all */
    for (uint32_t r = 0; r < 2; r++) {
        set.b[r].plan.node_run = 2;
        set.b[r].plan.replicate = true;
    }
    tu_copy(&set.b[0], tu_node(2, 1), tu_src(0, 1), at_once);
    finish(&set);
    expect_wrong(&set, "rank 0 step 0", "node blocks 2+1 are out of bounds");
    end(&set);
}

/* A reader by reference reads a shared node block after its message came: only what the writer knows
 * to be done with it counts. */
Test(node_blocks, shared, .timeout = 10) {
    for (int told = 0; told < 2; told++) {
        struct set set;
        struct tu_ref block = tu_node(0, 1);
        begin(&set, TU_ALLREDUCE, 2, true, 2);
        set.check.structure_only = true;
        set.b[0].plan.node_run = set.b[1].plan.node_run = 1;
        struct tu_after stored = after(tu_copy(&set.b[0], block, tu_src(0, 1), at_once));
        struct tu_after shared = after(tu_share(&set.b[0], 0, 1, &block, 1, 1, stored));
        uint32_t wait = tu_wait_board(&set.b[1], 0, 0, 0, 1, at_once);
        wait = tu_copy(&set.b[1], tu_dst(0, 1), tu_arrived(wait, 0, 1), after(wait));
        if (told) {
            tu_signal(&set.b[0], 1, shared);
            wait = tu_wait_board(&set.b[1], 0, 1, 0, 0, after(wait));
        }
        tu_copy(&set.b[1], block, tu_src(0, 1), after(wait));
        finish(&set);
        if (told)
            expect_right(&set);
        else
            expect_wrong(&set, "rank 1 step 2", "race: writes node block 0, which rank 0 reads");
        end(&set);
    }
}
