/*
 * What every room of a job may use: its log, its knobs, its last error. One per job, owned by it.
 */
#ifndef TU_RUNTIME_ENV_H
#define TU_RUNTIME_ENV_H

#include "runtime/config.h"
#include "runtime/log.h"
#include "runtime/status.h"

struct tu_env {
    struct tu_log log;
    struct tu_config config;
    char error[1024]; /* text of the last error, "" at first */
    int rank;         /* -1 until the bootstrap knows it */
    char host[64];    /* this host's name */
};

#endif
