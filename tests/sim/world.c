/* Random worlds: see world.h. */
#include "tests/sim/world.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "collectives/shape.h"
#include "tests/sim/random.h"
#include "transport/channels.h"
#include "transport/window.h"

/* ---- nodes ---- */

/* Mostly few ranks: they meet every case that there is sooner. */
static uint32_t draw_ranks(uint64_t *random) {
    uint32_t class = sim_below(random, 256);

    if (class < 160)
        return 2 + sim_below(random, 4);
    if (class < 230)
        return 6 + sim_below(random, 4);
    if (class < 252)
        return 10 + sim_below(random, 8);
    return 18 + sim_below(random, SIM_MAX_RANKS - 17);
}

static void draw_labels(struct world *world, uint64_t *random) {
    uint32_t shape = sim_below(random, 8), nodes = 2 + sim_below(random, 4), label = 0;

    for (uint32_t r = 0; r < world->ranks; r++) {
        if (shape < 2) /* the network alone */
            world->label[r] = r;
        else if (shape == 2) /* one node */
            world->label[r] = 0;
        else if (shape == 3) /* cyclic */
            world->label[r] = r % nodes;
        else if (shape == 4) /* any */
            world->label[r] = sim_below(random, nodes);
        else /* blocks of any lengths */
            world->label[r] = label += r > 0 && sim_below(random, 2);
    }
}

/* ---- knobs ---- */

static bool suits(const struct world *world, const struct tu_algorithm *algorithm) {
    struct tu_nodes *nodes;

    assert(tu_nodes_make(world->label, world->ranks, &nodes) == TUTTI_OK);
    bool suits = !algorithm->unsuitable || !algorithm->unsuitable(nodes);
    tu_nodes_free(nodes);
    return suits;
}

/* Mostly one by name: then those that are rarely chosen have their turn, above all those for large vectors
   of one node. */
static void draw_algorithm(struct world *world, uint64_t *random) {
    uint32_t n;
    const struct tu_algorithm *all = tu_algorithms(&n);
    const struct tu_algorithm *large =
        tu_algorithm_find(TU_ALLREDUCE, sim_below(random, 2) ? "two_phase" : "accumulate");

    for (uint32_t tries = sim_below(random, 4); tries > 0; tries--) {
        const struct tu_algorithm *one = &all[sim_below(random, n)];
        if (suits(world, large) && sim_below(random, 2))
            one = large;
        if (one->collective == TU_ALLREDUCE && suits(world, one))
            snprintf(world->config.allreduce, sizeof world->config.allreduce, "%s", one->name);
    }
}

static void draw_knobs(struct world *world, uint64_t *random) {
    struct tu_config *config = &world->config;
    bool large = world->ranks > 17;

    tu_config_defaults(config);
    config->ring_slots = 1 << sim_below(random, large || sim_below(random, 8) ? 3 : 5);
    config->board_cells = 1 << sim_below(random, large ? 3 : 6);
    config->banks = 1 + (int)sim_below(random, large ? 2 : 4);
    config->segments = 1 + (int)sim_below(random, 4);
    config->scratch_slots = 1 << sim_below(random, 3);
    config->eager_bytes = sim_below(random, 4) ? 4096 : 8192;
    config->share_bytes = sim_below(random, 4) ? 4096 : 8192;
    draw_algorithm(world, random);
}

/* Broadcast and barrier, half of the time; whether cores are far, and whether all shared vectors are lent. A
   stream of their own, so that all else stays as it was. */
static void draw_others(struct world *world, uint64_t seed) {
    uint64_t random = sim_stream(seed, 7);
    uint32_t n;
    const struct tu_algorithm *all = tu_algorithms(&n);

    for (uint32_t tries = 2 * n; tries > 0; tries--) {
        const struct tu_algorithm *one = &all[sim_below(&random, n)];
        bool barrier = one->collective == TU_BARRIER;
        char *word = barrier ? world->config.barrier : world->config.bcast;
        if (one->collective != TU_ALLREDUCE && !word[0] && suits(world, one))
            snprintf(word, sizeof world->config.bcast, "%s", one->name);
    }
    if (sim_below(&random, 2))
        world->config.barrier[0] = 0;
    if (sim_below(&random, 2))
        world->config.bcast[0] = 0;
    world->config.far_ns = sim_below(&random, 2) ? 0 : INT_MAX;
    if (sim_below(&random, 2))
        world->config.lend_bytes = 0;
}

void world_let_choose(struct world *world) {
    world->config.allreduce[0] = world->config.bcast[0] = world->config.barrier[0] = 0;
}

static size_t whole_pages(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

size_t world_window(const struct world *world, uint32_t comms) {
    const struct tu_config *config = &world->config;
    size_t slots = (size_t)config->ring_slots, banks = (size_t)config->banks;
    bool more = config->board_cells > config->ring_slots;
    struct tu_window_shape shape = {.banks = (uint32_t)banks,
                                    .slots = (uint32_t)slots,
                                    .cells =
                                        more ? (uint32_t)config->board_cells : (uint32_t)slots};
    struct tu_nodes *nodes;

    assert(tu_nodes_make(world->label, world->ranks, &nodes) == TUTTI_OK);
    for (uint32_t r = 0; r < nodes->ranks; r++) {
        uint32_t peers = tu_base_peers(nodes, r, NULL, 0);
        uint32_t members = tu_node_size(nodes, nodes->node_of[r]);
        shape.peers = peers > shape.peers ? peers : shape.peers;
        shape.members = members > shape.members ? members : shape.members;
    }
    tu_nodes_free(nodes);
    size_t edge = 2 * whole_pages(slots * (config->eager_bytes + TU_SLOT_HEAD));
    size_t boards = 2 * whole_pages(slots * (config->share_bytes + TU_SLOT_HEAD));
    size_t scratch =
        whole_pages((size_t)config->scratch_slots * TU_SCRATCH_SHARES * config->share_bytes);
    size_t comm = tu_window_comm(&shape, 1) + banks * (shape.peers * edge + boards + scratch);
    return comms * comm + (64 << 10);
}

/* ---- mischief ---- */

static uint32_t draw_delay(uint64_t *random) {
    return 10u << sim_below(random, 13);
}

static void draw_network(struct sim_settings *settings, uint64_t *random) {
    static const uint32_t queue[] = {1, 2, 3, 8, 64}, again[] = {0, 0, 100, 500};
    static const uint32_t slow[] = {0, 10, 100}, decline[] = {0, 0, 256, 700};
    static const uint32_t interrupt[] = {0, 16, 128};

    settings->network = (struct sim_profile){
        .word_ns = draw_delay(random),
        .data_ns = draw_delay(random),
        .cell_ns = draw_delay(random),
        .read_ns = draw_delay(random),
        .done_ns = draw_delay(random),
        .slow = slow[sim_below(random, 3)],
        .again = again[sim_below(random, 4)],
        .queue = queue[sim_below(random, 5)],
        .step_ns = sim_below(random, 2) ? 100 : 1000,
    };
    settings->decline = decline[sim_below(random, 4)];
    settings->interrupt = interrupt[sim_below(random, 3)];
    settings->look = 8;
}

static uint32_t draw_first_number(uint64_t *random) {
    switch (sim_below(random, 3)) {
    case 0:
        return 0;
    case 1:
        return UINT32_MAX - sim_below(random, 40);
    default:
        return (1u << 18) - sim_below(random, 40); /* what an immediate holds */
    }
}

/* ---- the whole ---- */

void world_make(struct world *world, uint64_t seed, uint32_t comms) {
    uint64_t random = sim_stream(seed, 4);

    memset(world, 0, sizeof *world);
    world->ranks = draw_ranks(&random);
    draw_labels(world, &random);
    draw_knobs(world, &random);
    draw_others(world, seed);
    world->config.window_bytes = world_window(world, comms);
    world->settings.seed = seed;
    world->settings.ranks = world->ranks;
    draw_network(&world->settings, &random);
    world->settings.config = &world->config;
    world->settings.label = world->label;
    world->settings.first_number = draw_first_number(&random);
}

static const char *word_text(const char *word) {
    return word[0] ? word : "chosen";
}

const char *world_text(const struct world *world, char *text, size_t bytes) {
    const struct tu_config *config = &world->config;
    size_t at = 0;

    for (uint32_t r = 0; r < world->ranks && at < bytes / 2; r++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%u", r ? " " : "nodes ", world->label[r]);
    snprintf(text + at, bytes - at,
             "; R %d D %d S %d W %d, allreduce %s, bcast %s, barrier %s, numbers from %u",
             config->ring_slots, config->banks, config->scratch_slots, config->segments,
             word_text(config->allreduce), word_text(config->bcast), word_text(config->barrier),
             world->settings.first_number);
    return text;
}
