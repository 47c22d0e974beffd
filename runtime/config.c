/*
 * The environment: which knobs are set, which variables look like knobs and are none, and which
 * launcher started this process. No other file reads the environment.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"

extern char **environ;

static const char prefix[] = "TUTTI_";
enum { PREFIX_LENGTH = sizeof prefix - 1, NAME_BYTES = 64 };

/* ---- unknown variables --------------------------------------------------------------------- */

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* Letters to insert, remove or replace to get from a to b (Levenshtein), without regard to case. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[NAME_BYTES + 1], length = strnlen(b, NAME_BYTES);

    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t best = diagonal + (upper(a[i]) != upper(b[j]));

            diagonal = row[j + 1];
            best = best <= diagonal ? best : diagonal + 1;
            row[j + 1] = best <= row[j] ? best : row[j] + 1;
        }
    }
    return row[length];
}

/* Is one the beginning of the other, as TIMEOUT is of TIMEOUT_MS? */
static bool one_begins_other(const char *a, const char *b) {
    size_t n = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

    return n >= 3 && strncmp(a, b, n) == 0;
}

const char *tu_config_nearest(const char *name) {
    const char *nearest = NULL,
               *own = strncmp(name, prefix, PREFIX_LENGTH) ? name : name + PREFIX_LENGTH;
    size_t n, least = (size_t)-1;
    const struct tu_knob *knob = tu_config_knobs(&n);

    if (strlen(own) >= NAME_BYTES) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const char *known = knob[i].name + PREFIX_LENGTH;
        size_t distance = edit_distance(own, known);

        /* near: a third of the letters may be wrong, more names than it helps to suggest */
        if (distance > (strlen(known) + 1) / 3 && !one_begins_other(own, known)) {
            continue;
        }
        if (distance < least) {
            least = distance;
            nearest = knob[i].name;
        }
    }
    return nearest;
}

/* A launcher's variable tells the rank before anything else can; true if none does. */
static bool may_be_rank0(void) {
    static const char *const variable[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};

    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        const char *rank = getenv(variable[i]);

        if (rank && *rank) {
            return strcmp(rank, "0") == 0;
        }
    }
    return true;
}

static void warn_unknown(struct tu_env *env) {
    enum tu_log_level level = may_be_rank0() ? TU_LOG_WARN : TU_LOG_DEBUG;

    for (char **variable = environ; variable && *variable; variable++) {
        char name[NAME_BYTES];
        const char *nearest;

        if (strncmp(*variable, prefix, PREFIX_LENGTH) != 0) {
            continue;
        }
        tu_text_format(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        if (tu_config_find(name)) {
            continue;
        }
        nearest = tu_config_nearest(name);
        if (nearest) {
            tu_log(env, level, "%s is not known and changes nothing; did you mean %s?", name,
                   nearest);
        } else {
            tu_log(env, level, "%s is not known and changes nothing; tutti-info lists all knobs",
                   name);
        }
    }
}

/* ---- load ---------------------------------------------------------------------------------- */

static enum tu_log_level level_of(const char *text) {
    const char *name;

    for (int level = TU_LOG_OFF; *(name = tu_log_level_name((enum tu_log_level)level)); level++) {
        if (strcmp(name, text) == 0) {
            return (enum tu_log_level)level;
        }
    }
    return TU_LOG_WARN;
}

const char *tu_config_variable(const struct tu_knob *knob) {
    return getenv(knob->name);
}

tutti_status tu_config_load(struct tu_env *env) {
    size_t n;
    const struct tu_knob *knob = tu_config_knobs(&n);
    tutti_status status;

    tu_config_defaults(&env->config);
    env->log.level = TU_LOG_WARN;
    for (size_t i = 0; i < n; i++) { /* the log's level is the first in the table */
        const char *value = tu_config_variable(&knob[i]);

        if (!value) {
            continue;
        }
        status = tu_config_set(env, knob[i].name, value);
        if (status != TUTTI_OK) {
            return status;
        }
        env->log.level = level_of(env->config.log);
    }
    warn_unknown(env);
    return TUTTI_OK;
}

/* ---- launchers ----------------------------------------------------------------------------- */

/* Names the launcher if its variable says more than one. */
static bool more_than_one(char *buffer, size_t bytes, const char *launcher, const char *variable) {
    const char *value = getenv(variable);

    if (!value || atol(value) <= 1) {
        return false;
    }
    tu_text_format(buffer, bytes, "%s (%s=%.20s)", launcher, variable, value);
    return true;
}

void tu_config_foreign_launcher(char *buffer, size_t bytes) {
    static const char mpiexec[] = "MPICH's or Intel MPI's mpiexec";
    bool in_step = getenv("SLURM_STEP_ID") != NULL; /* batch scripts have the other variables too */

    buffer[0] = 0;
    if (more_than_one(buffer, bytes, "Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE") ||
        more_than_one(buffer, bytes, mpiexec, "MPI_LOCALNRANKS")) {
        return;
    }
    if (in_step) { /* srun sets PMI_SIZE too, for its own PMI-1 and PMI-2 */
        if (!more_than_one(buffer, bytes, "srun", "SLURM_STEP_NUM_TASKS") &&
            !getenv("SLURM_STEP_NUM_TASKS")) {
            more_than_one(buffer, bytes, "srun", "SLURM_NTASKS");
        }
        return;
    }
    more_than_one(buffer, bytes, mpiexec, "PMI_SIZE");
}

bool tu_config_pmix_launcher(void) {
    static const char server[] = "PMIX_SERVER_URI"; /* + a version of the protocol */

    if (!getenv("PMIX_NAMESPACE") || !getenv("PMIX_RANK")) {
        return false;
    }
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, server, sizeof server - 1) == 0) {
            return true;
        }
    }
    return false;
}
