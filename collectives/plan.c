/*
 * Building a plan: what generators call, the numbers that follow from the steps, and partitions.
 * A finished plan is one block of memory, so that caching, freeing and counting it are trivial.
 */
#include "collectives/plan.h"

#include <stdlib.h>
#include <string.h>

void tu_builder_init(struct tu_builder *b, const char *algorithm, uint32_t rank, uint32_t size,
                     uint32_t blocks) {
    memset(b, 0, sizeof(*b));
    b->plan.algorithm = algorithm;
    b->plan.rank = rank;
    b->plan.size = size;
    b->plan.blocks = blocks;
    b->plan.wrap = blocks;
}

/* ---- references ---- */

struct tu_ref tu_src(uint32_t first, uint32_t n) {
    return (struct tu_ref){.space = TU_SRC, .first = first, .n = n};
}

struct tu_ref tu_dst(uint32_t first, uint32_t n) {
    return (struct tu_ref){.space = TU_DST, .first = first, .n = n};
}

struct tu_ref tu_scratch(uint32_t first, uint32_t n) {
    return (struct tu_ref){.space = TU_SCRATCH, .first = first, .n = n};
}

struct tu_ref tu_node(uint32_t first, uint32_t n) {
    return (struct tu_ref){.space = TU_NODE, .first = first, .n = n};
}

struct tu_ref tu_arrived(uint32_t wait, uint32_t first, uint32_t n) {
    return (struct tu_ref){.space = TU_ARRIVED, .step = wait, .first = first, .n = n};
}

/* ---- growing arrays ---- */

/* The array, grown if it does not have room for `need` items of `bytes` each; NULL on failure. */
static void *make_room(struct tu_builder *b, void *array, uint32_t *room, size_t need,
                       size_t bytes) {
    size_t more = *room ? *room : 16;

    if (b->status != TUTTI_OK || need <= *room)
        return b->status == TUTTI_OK ? array : NULL;
    while (more < need)
        more *= 2;
    void *grown = more < TU_NO_STEP ? realloc(array, more * bytes) : NULL;
    if (grown)
        *room = (uint32_t)more;
    else
        b->status = TUTTI_ERR_MEMORY;
    return grown;
}

static bool channel_room(struct tu_builder *b) {
    struct tu_plan *plan = &b->plan;
    void *channel = make_room(b, plan->channel, &b->channel_room, (size_t)plan->channels + 1,
                              sizeof(*plan->channel));

    if (channel)
        plan->channel = channel;
    return channel != NULL;
}

static bool step_room(struct tu_builder *b) {
    struct tu_plan *plan = &b->plan;
    void *step =
        make_room(b, plan->step, &b->step_room, (size_t)plan->steps + 1, sizeof(*plan->step));

    if (step)
        plan->step = step;
    return step != NULL;
}

static bool ref_room(struct tu_builder *b, uint32_t refs) {
    struct tu_plan *plan = &b->plan;
    void *ref =
        make_room(b, plan->ref, &b->ref_room, (size_t)plan->refs + refs + 1, sizeof(*plan->ref));

    if (ref)
        plan->ref = ref;
    return ref != NULL;
}

static uint32_t *channel_slot(const struct tu_builder *b, uint32_t kind, uint32_t peer) {
    uint32_t mask = b->slots - 1;
    uint32_t at = (peer * 4 + kind) * 0x9e3779b1u;

    for (at = (at ^ at >> 15) & mask; b->slot[at]; at = (at + 1) & mask) {
        const struct tu_plan_channel *c = &b->plan.channel[b->slot[at] - 1];
        if (c->kind == kind && c->peer == peer)
            break;
    }
    return &b->slot[at];
}

/* Keeps the hash table at most half full. */
static bool grow_slots(struct tu_builder *b) {
    uint32_t slots = b->slots ? b->slots : 16;

    while (slots < 2 * (b->plan.channels + 1))
        slots *= 2;
    if (slots == b->slots)
        return true;
    uint32_t *slot = calloc(slots, sizeof(*slot));
    if (!slot) {
        b->status = TUTTI_ERR_MEMORY;
        return false;
    }
    free(b->slot);
    b->slot = slot;
    b->slots = slots;
    for (uint32_t c = 0; c < b->plan.channels; c++)
        *channel_slot(b, b->plan.channel[c].kind, b->plan.channel[c].peer) = c + 1;
    return true;
}

/* The channel's index; it is added to the plan if it is new. TU_NO_STEP if memory is out. */
static uint32_t channel_of(struct tu_builder *b, uint32_t kind, uint32_t peer) {
    struct tu_plan *plan = &b->plan;

    if (!channel_room(b) || !grow_slots(b))
        return TU_NO_STEP;
    uint32_t *slot = channel_slot(b, kind, peer);
    if (!*slot) {
        plan->channel[plan->channels++] = (struct tu_plan_channel){.kind = kind, .peer = peer};
        *slot = plan->channels;
    }
    return *slot - 1;
}

/* Appends the step with copies of its references. */
static uint32_t append(struct tu_builder *b, struct tu_step step, const struct tu_ref *ref,
                       uint32_t refs) {
    struct tu_plan *plan = &b->plan;

    if (!step_room(b) || !ref_room(b, refs))
        return TU_NO_STEP;
    step.arg = plan->refs;
    step.args = refs;
    if (refs)
        memcpy(plan->ref + plan->refs, ref, refs * sizeof(*ref));
    plan->refs += refs;
    plan->step[plan->steps] = step;
    return plan->steps++;
}

/* ---- steps ---- */

/* Appends the step as the next use of the channel. */
static uint32_t append_use(struct tu_builder *b, uint32_t kind, uint32_t peer, struct tu_step step,
                           const struct tu_ref *piece, uint32_t pieces) {
    step.channel = channel_of(b, kind, peer);
    if (b->status != TUTTI_OK)
        return TU_NO_STEP;
    step.use = b->plan.channel[step.channel].uses++;
    return append(b, step, piece, pieces);
}

uint32_t tu_write(struct tu_builder *b, uint32_t to, uint32_t first, uint32_t n,
                  const struct tu_ref *piece, uint32_t pieces, struct tu_after after) {
    struct tu_step step = {.kind = TU_WRITE, .after = {after.a, after.b}, .first = first, .n = n};

    return append_use(b, TU_EDGE_OUT, to, step, piece, pieces);
}

uint32_t tu_wait(struct tu_builder *b, uint32_t from, uint32_t first, uint32_t n,
                 struct tu_after after) {
    struct tu_step step = {.kind = TU_WAIT, .after = {after.a, after.b}, .first = first, .n = n};

    return append_use(b, TU_EDGE_IN, from, step, NULL, 0);
}

uint32_t tu_share(struct tu_builder *b, uint32_t first, uint32_t n, const struct tu_ref *piece,
                  uint32_t pieces, uint32_t readers, struct tu_after after) {
    struct tu_step step = {.kind = TU_SHARE,
                           .readers = (uint16_t)readers,
                           .after = {after.a, after.b},
                           .first = first,
                           .n = n};

    return append_use(b, TU_BOARD_OUT, b->plan.rank, step, piece, pieces);
}

uint32_t tu_signal(struct tu_builder *b, uint32_t readers, struct tu_after after) {
    struct tu_step step = {
        .kind = TU_SIGNAL, .readers = (uint16_t)readers, .after = {after.a, after.b}};

    return append_use(b, TU_BOARD_OUT, b->plan.rank, step, NULL, 0);
}

uint32_t tu_wait_board(struct tu_builder *b, uint32_t of, uint32_t use, uint32_t first, uint32_t n,
                       struct tu_after after) {
    struct tu_step step = {
        .kind = TU_WAIT, .use = use, .after = {after.a, after.b}, .first = first, .n = n};

    tu_board_uses(b, of, use + 1);
    step.channel = channel_of(b, TU_BOARD_IN, of);
    return append(b, step, NULL, 0);
}

void tu_board_uses(struct tu_builder *b, uint32_t of, uint32_t uses) {
    if (of == b->plan.rank || uses == 0) /* one's own uses are counted as they are made */
        return;
    uint32_t c = channel_of(b, TU_BOARD_IN, of);
    if (c != TU_NO_STEP && b->plan.channel[c].uses < uses)
        b->plan.channel[c].uses = uses;
}

uint32_t tu_reduce(struct tu_builder *b, struct tu_ref dst, const struct tu_ref *operand,
                   uint32_t operands, struct tu_after after) {
    struct tu_step step = {.kind = TU_REDUCE, .dsts = 1, .after = {after.a, after.b}, .dst = {dst}};

    return append(b, step, operand, operands);
}

uint32_t tu_reduce2(struct tu_builder *b, struct tu_ref dst, struct tu_ref also,
                    const struct tu_ref *operand, uint32_t operands, struct tu_after after) {
    struct tu_step step = {
        .kind = TU_REDUCE, .dsts = 2, .after = {after.a, after.b}, .dst = {dst, also}};

    return append(b, step, operand, operands);
}

uint32_t tu_copy(struct tu_builder *b, struct tu_ref dst, struct tu_ref src,
                 struct tu_after after) {
    struct tu_step step = {.kind = TU_COPY, .dsts = 1, .after = {after.a, after.b}, .dst = {dst}};

    return append(b, step, &src, 1);
}

/* ---- finishing ---- */

/* Counts for each WAIT the steps that name it, each step once. `last` has room for all steps. */
static void count_users(struct tu_plan *plan, uint32_t *last) {
    for (uint32_t s = 0; s < plan->steps; s++)
        last[s] = TU_NO_STEP;
    for (uint32_t s = 0; s < plan->steps; s++) {
        const struct tu_ref *ref = plan->ref + plan->step[s].arg;
        for (uint32_t i = 0; i < plan->step[s].args; i++) {
            uint32_t wait = ref[i].step;
            if (ref[i].space != TU_ARRIVED || wait >= s || last[wait] == s)
                continue; /* a wrong reference is the checker's to find */
            last[wait] = s;
            plan->step[wait].users++;
        }
    }
}

static void longest_messages(struct tu_plan *plan) {
    for (uint32_t s = 0; s < plan->steps; s++) {
        const struct tu_step *step = &plan->step[s];
        bool edge = step->kind == TU_WRITE ||
                    (step->kind == TU_WAIT && plan->channel[step->channel].kind == TU_EDGE_IN);
        bool board = step->kind == TU_SHARE || (step->kind == TU_WAIT && !edge);
        if (edge && plan->message_blocks < step->n)
            plan->message_blocks = step->n;
        if (board && plan->share_blocks < step->n)
            plan->share_blocks = step->n;
    }
}

/* Marks the uses of peers' boards that a WAIT names; the uses of channel c start at base[c]. */
static void mark_waits(const struct tu_plan *plan, const size_t *base, bool *waited) {
    for (uint32_t s = 0; s < plan->steps; s++) {
        const struct tu_step *step = &plan->step[s];
        if (step->kind == TU_WAIT && plan->channel[step->channel].kind == TU_BOARD_IN)
            waited[base[step->channel] + step->use] = true;
    }
}

/* Lists the uses of peers' boards that no WAIT names. */
static tutti_status find_skips(struct tu_plan *plan) {
    size_t uses = 0;
    size_t *base = calloc(plan->channels + (size_t)1, sizeof(*base));

    for (uint32_t c = 0; base && c < plan->channels; c++) {
        base[c] = uses;
        uses += plan->channel[c].kind == TU_BOARD_IN ? plan->channel[c].uses : 0;
    }
    bool *waited = calloc(uses + 1, sizeof(*waited));
    struct tu_plan_skip *skip = calloc(uses + 1, sizeof(*skip));
    if (base && waited && skip && uses < TU_NO_STEP) {
        mark_waits(plan, base, waited);
        for (uint32_t c = 0; c < plan->channels; c++)
            for (uint32_t u = 0; plan->channel[c].kind == TU_BOARD_IN && u < plan->channel[c].uses;
                 u++)
                if (!waited[base[c] + u])
                    skip[plan->skips++] = (struct tu_plan_skip){.channel = c, .use = u};
        plan->skip = skip;
    } else {
        free(skip);
    }
    free(waited);
    free(base);
    return plan->skip ? TUTTI_OK : TUTTI_ERR_MEMORY;
}

static void *pack(char **at, const void *from, size_t bytes) {
    void *to = *at;

    if (bytes)
        memcpy(to, from, bytes);
    *at += bytes;
    return to;
}

/* The plan and its arrays in one block of memory, or NULL. */
static struct tu_plan *trim(const struct tu_plan *plan) {
    size_t step_bytes = plan->steps * sizeof(*plan->step);
    size_t ref_bytes = plan->refs * sizeof(*plan->ref);
    size_t channel_bytes = plan->channels * sizeof(*plan->channel);
    size_t skip_bytes = plan->skips * sizeof(*plan->skip);
    size_t bytes = sizeof(*plan) + step_bytes + ref_bytes + channel_bytes + skip_bytes;
    struct tu_plan *trimmed = malloc(bytes);

    if (!trimmed)
        return NULL;
    *trimmed = *plan;
    trimmed->bytes = bytes;
    char *at = (char *)(trimmed + 1); /* all arrays are of 32-bit words or less */
    trimmed->step = pack(&at, plan->step, step_bytes);
    trimmed->ref = pack(&at, plan->ref, ref_bytes);
    trimmed->channel = pack(&at, plan->channel, channel_bytes);
    trimmed->skip = pack(&at, plan->skip, skip_bytes);
    return trimmed;
}

tutti_status tu_plan_finish(struct tu_builder *b, struct tu_plan **plan) {
    tutti_status status = b->status;
    struct tu_plan *trimmed = NULL;
    uint32_t *last = malloc((b->plan.steps + (size_t)1) * sizeof(*last));

    if (status == TUTTI_OK && !last)
        status = TUTTI_ERR_MEMORY;
    if (status == TUTTI_OK) {
        count_users(&b->plan, last);
        longest_messages(&b->plan);
        status = find_skips(&b->plan);
    }
    if (status == TUTTI_OK && !(trimmed = trim(&b->plan)))
        status = TUTTI_ERR_MEMORY;
    free(last);
    free(b->slot);
    free(b->plan.step);
    free(b->plan.ref);
    free(b->plan.channel);
    free(b->plan.skip);
    memset(b, 0, sizeof(*b));
    if (status == TUTTI_OK)
        *plan = trimmed;
    return status;
}

void tu_plan_free(struct tu_plan *plan) {
    free(plan);
}

/* ---- partitions ---- */

struct tu_partition tu_partition_of(const struct tu_plan *plan, size_t slice_elements) {
    struct tu_partition part = {.base = slice_elements, .blocks = plan->blocks};

    if (!plan->replicate && plan->blocks > 1) {
        part.base = slice_elements / plan->blocks;
        part.longer = (uint32_t)(slice_elements % plan->blocks);
    }
    return part;
}
