/*
 * What every room of a job may use: its log, its knobs, its last error. One per job, owned by it.
 */
#ifndef TU_RUNTIME_ENV_H
#define TU_RUNTIME_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/config.h"
#include "runtime/log.h"
#include "runtime/status.h"

struct tu_transport_ops;

/*
 * Places where a test takes part: NULL members, and in production all, do nothing. The simulator
 * switches to another rank in `idle`, and makes the executor pass over steps by `decline`.
 */
struct tu_hooks {
    void *context;
    void (*configure)(void *context, struct tu_config *config); /* after the environment */
    bool (*idle)(void *context);    /* instead of waiting; true: look at what is slow to look at */
    bool (*decline)(void *context); /* true: leave this step for later although it may run */
    const struct tu_transport_ops *wire; /* instead of verbs */
    void *wire_context;
    uint32_t first_number; /* of every channel; 0 stands for 1 */
    bool no_sharing;       /* every rank is a node of its own, whatever the host */
};

struct tu_env {
    struct tu_log log;
    struct tu_config config;
    char error[1024];             /* text of the last error, "" at first */
    int rank;                     /* -1 until the bootstrap knows it */
    char host[64];                /* this host's name */
    const struct tu_hooks *hooks; /* NULL outside of tests */
};

#endif
