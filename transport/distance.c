/* Beats, by which the members of a node find out how far they are from each other: see distance.h. */
#include "transport/distance.h"

#include "runtime/clock.h"
#include "runtime/env.h"
#include "transport/channels.h"

enum {
    CLOCK_LOOKS = 8,
    SCORES = 8,
    USES = 16, /* from beat to beat, which takes no more than some hundred ns */
};

void tu_distance_init(struct tu_distance *distance, uint64_t far_ns) {
    uint64_t least = UINT64_MAX, last = tu_now_ns();
    for (int i = 0; i < CLOCK_LOOKS; i++) {
        uint64_t now = tu_now_ns();
        least = now - last < least ? now - last : least;
        last = now;
    }
    *distance = (struct tu_distance){.far = far_ns == 0, .far_ns = far_ns, .clock_ns = least};
}

static _Atomic uint64_t *cell(const uint8_t *window, const struct tu_channels *c) {
    size_t at = tu_window_comm(&c->window->shape, c->comm) +
                tu_window_part(&c->window->shape, TU_PART_BEAT);
    return (_Atomic uint64_t *)(uintptr_t)(window + at);
}

/* So that neither the clock nor the page is new to this core. */
static void warm(const uint8_t *window, const struct tu_channels *c) {
    (void)tu_now_ns();
    size_t at = tu_window_record(&c->window->shape, c->comm, 0);
    (void)atomic_load_explicit((const _Atomic uint64_t *)(const void *)(window + at),
                               memory_order_acquire);
}

/*
 * A load of what another core has stored took so long. Some take long, and some do not, for other reasons.
 * Where some members are near and some far, the far ones take longer and thus decide.
 */
static bool judge(struct tu_distance *d, uint64_t took_ns) {
    if (took_ns >= d->clock_ns + d->far_ns)
        d->score = d->score + 2 < SCORES ? d->score + 2 : SCORES;
    else if (d->score)
        d->score--;
    return d->score > (d->far ? SCORES / 4 : SCORES * 3 / 4);
}

static void conclude(struct tu_channels *c, uint32_t rank, bool far) {
    if (far != c->distance.far)
        tu_log(c->window->env, TU_LOG_DEBUG, "the core of rank %u is %s", rank,
               far ? "far: what it is to read is stored past the caches" : "near");
    c->distance.far = far;
}

static void beat(struct tu_channels *c) {
    struct tu_distance *d = &c->distance;
    d->uses = 0;
    if (c->members < 2 || d->far_ns == 0)
        return;
    uint32_t step = 1 + d->beat++ % (c->members - 1); /* one member after the other */
    const struct tu_board *board = &c->board[(c->local + step) % c->members];
    atomic_store_explicit(cell(c->window->base, c), (uint64_t)d->beat << 1 | d->far,
                          memory_order_release);
    warm(board->peer->window, c);
    uint64_t before = tu_now_ns();
    uint64_t told = atomic_load_explicit(cell(board->peer->window, c), memory_order_acquire);
    uint64_t took = tu_now_ns() - before;
    if ((int32_t)((uint32_t)(told >> 1) - d->beat) >= 0)
        conclude(c, board->rank, judge(d, took));
    else if (told)
        conclude(c, board->rank, told & 1);
}

void tu_distance_count(struct tu_channels *c, uint32_t uses) {
    c->distance.uses += uses;
    if (c->distance.uses >= USES)
        beat(c);
}
