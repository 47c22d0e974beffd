/*
 * How ranks find each other. One interface, three implementations: pmix (the launcher's), caller
 * (rank, size and an allgather given by the program), local (ranks as threads or forked processes of
 * one program, built on caller).
 */
#ifndef TU_RUNTIME_BOOTSTRAP_H
#define TU_RUNTIME_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;
struct tu_boot;

/* How a rank was lost, as far as somebody said so. */
enum tu_loss { TU_LOSS_EXITED, TU_LOSS_KILLED, TU_LOSS_UNKNOWN };

struct tu_boot_ops {
    const char *name;

    /*
     * Collective. Publishes `bytes` bytes (the same number on all ranks) under `key` (a word that says
     * what is exchanged; the same on all ranks), waits until every rank has published, and fetches
     * those of the ranks listed: out + i * bytes holds rank[i]'s (NULL: rank i's). `ranks` may be 0.
     * Blocks at most about timeout_ms (0: for ever), then returns TUTTI_ERR_TIMEOUT with the missing
     * ranks named; a lost rank is TUTTI_ERR_DEAD at once, with its name. (A rank that dies or leaves
     * during the exchange may go unnoticed by those who don't fetch from it.) After a failure
     * the ranks are out of step: close.
     */
    tutti_status (*exchange)(struct tu_boot *boot, const char *key, const void *mine, size_t bytes,
                             const uint32_t *rank, uint32_t ranks, void *out, int timeout_ms);

    /*
     * Collective. Blocks; times out, and ends at a loss, as exchange does. After a loss it is
     * TUTTI_ERR_DEAD at once: launchers' fences then may or may not end.
     */
    tutti_status (*fence)(struct tu_boot *boot, int timeout_ms);

    /*
     * Takes the next rank that the launcher reported lost: returns true and sets the outputs, or
     * false if there is none. Never blocks; costs one relaxed load when there is nothing.
     */
    bool (*lost)(struct tu_boot *boot, uint32_t *rank, enum tu_loss *how);

    /* Local. Releases everything; the launcher's library stays usable by others in the process. */
    void (*close)(struct tu_boot *boot);
};

/* Common head of the implementations' own structs. */
struct tu_boot {
    const struct tu_boot_ops *ops;
    struct tu_env *env;
    uint32_t rank, size;
    /* what the launcher says of nodes: number of this rank's node if it says, else UINT32_MAX */
    uint32_t launcher_node;
};

/*
 * Opens the one that fits: caller if `options` has an allgather, else pmix if a PMIx launcher started
 * this process, else a job of one rank; a launcher without PMIx is TUTTI_ERR_LAUNCH that names it and
 * the remedy. Sets env->rank.
 */
tutti_status tu_boot_open(struct tu_env *env, const struct tutti_options *options,
                          struct tu_boot **boot);

tutti_status tu_boot_pmix_open(struct tu_env *env, struct tu_boot **boot);
tutti_status tu_boot_caller_open(struct tu_env *env, const struct tutti_options *options,
                                 struct tu_boot **boot);

/* A job of one rank. */
tutti_status tu_boot_single_open(struct tu_env *env, struct tu_boot **boot);

/* ---- for the implementations ---------------------------------------------------------------- */

/* Ranks named in an error: "rank 1 (host n0), rank 4 (host n1) and 7 more". All zero: none. */
struct tu_rank_list {
    uint32_t count;
    char text[704];
};

/* `host` may be NULL or "" (not known). */
void tu_rank_list_add(struct tu_rank_list *list, uint32_t rank, const char *host);

/* The text, complete with how many were left out. */
const char *tu_rank_list_text(struct tu_rank_list *list);

/* ---- local: for tests and tools ------------------------------------------------------------- */

enum tu_local_kind { TU_LOCAL_THREADS, TU_LOCAL_PROCESSES };

/* Body of one rank; `options` has rank, size and allgather filled in. Returns 0 for success. */
typedef int tu_local_body(const struct tutti_options *options, void *context);

/*
 * Runs `ranks` ranks and waits for them. Returns the number of ranks that did not return 0 (a killed
 * process counts), or -1 if they could not be started. timeout_ms: processes are killed after it,
 * threads can't be (0: none). The allgather fails, with the blocks of those that came, as soon as a
 * rank has ended that has not called it, and with ETIMEDOUT after half of timeout_ms; from then on
 * it fails always.
 */
int tu_local_run(enum tu_local_kind kind, uint32_t ranks, tu_local_body *body, void *context,
                 int timeout_ms);

#endif
