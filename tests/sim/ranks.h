/*
 * Simulated ranks: each runs ordinary blocking code in a fiber of its own. Another rank, chosen by the
 * seed, goes on whenever one waits: in the library's waiting place (struct tu_hooks, idle), in the
 * allgather of its bootstrap, when it sleeps, and at random between two steps of a plan (decline).
 * Time is virtual, and jumps when all ranks wait for the network. If nothing can come any more, the
 * simulation fails and tells who waits for whom.
 */
#ifndef TU_TESTS_SIM_RANKS_H
#define TU_TESTS_SIM_RANKS_H

#include "runtime/env.h"
#include "tests/sim/fiber.h"
#include "tests/sim/network.h"

struct sim;
struct sim_rank;

enum { SIM_MAX_RANKS = 64 };

struct sim_settings {
    uint64_t seed;
    uint32_t ranks;
    void (*body)(struct sim_rank *rank, void *context);
    void *context;
    const struct tu_config *config; /* instead of the environment's; NULL: that */
    const uint32_t *label;          /* [ranks] node that a rank is on; NULL: all on one */
    struct sim_profile network;
    uint32_t decline;   /* of 1024 steps that may run: are left for later */
    uint32_t interrupt; /* of 1024 steps that may run: another rank goes on before */
    uint32_t look;      /* of 1024 waits: look at what is slow to look at */
    uint32_t first_number;
    bool no_sharing; /* every rank is a node of its own */
};

enum sim_state { SIM_READY, SIM_ASLEEP, SIM_GATHERING, SIM_OVER };

struct sim_rank {
    struct sim *sim;
    uint32_t rank;
    enum sim_state state;
    struct fiber fiber;
    struct tu_hooks hooks;
    tutti_options options;
    tutti_job *job;  /* while one is open */
    uint64_t random; /* of the body */
    uint32_t weight; /* 1 .. 8: how often its turn comes */
    uint64_t wake_ns;
    uint64_t moved;   /* what its counters showed last */
    const void *mine; /* gathering */
    void *received;
    size_t bytes;
    int code;
    char log[400];         /* last line */
    char first_error[400]; /* of the lines */
};

struct sim {
    struct sim_settings settings;
    struct sim_network *network;
    uint64_t random;
    struct fiber thread;
    struct sim_rank *rank; /* [SIM_MAX_RANKS] */
    uint32_t fibers;       /* ranks that have one */
    uint32_t quiet;        /* waits in a row in which nothing moved */
    uint64_t noise;        /* of the network, when something moved last */
    uint64_t noise_ns;
    bool failed;
    char failure[6000];
};

struct sim *sim_make(void);
void sim_free(struct sim *sim);

/* A calm network, and no mischief; to be changed at will. */
struct sim_settings sim_settings_of(uint64_t seed, uint32_t ranks);

/* Runs the body on all ranks. False: sim->failure says why; jobs may be left open then. */
bool sim_run(struct sim *sim, const struct sim_settings *settings);

/* ---- for bodies ---- */

/* tutti_init() with this rank's options and hooks. Errors are returned. */
tutti_status sim_init(struct sim_rank *rank, tutti_job **job);
tutti_status sim_finalize(struct sim_rank *rank);

/* Others go on. */
void sim_pause(struct sim_rank *rank);
void sim_sleep(struct sim_rank *rank, uint64_t ns);

/* The simulation has failed: the first text counts. Does not return. */
__attribute__((noreturn, format(printf, 2, 3))) void sim_fail(struct sim_rank *rank,
                                                              const char *format, ...);

/* ---- who waits for whom (report.c) ---- */
void sim_report(const struct sim *sim, char *text, size_t bytes);

#endif
