/* For tests of the runtime: an environment whose log lines are kept, and a clean set of variables. */
#ifndef TESTS_UNIT_CAPTURE_H
#define TESTS_UNIT_CAPTURE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/env.h"

extern char **environ;

struct capture {
    struct tu_env env;
    char line[16][2048];
    enum tu_log_level level[16];
    int lines;
};

static inline void capture_line(void *context, enum tu_log_level level, const char *line) {
    struct capture *capture = context;

    if (capture->lines < 16) {
        capture->level[capture->lines] = level;
        snprintf(capture->line[capture->lines], sizeof capture->line[0], "%s", line);
    }
    capture->lines++;
}

/* Rank 3 on host "box", defaults, level warn, its lines kept. */
static inline struct capture *capture_open(void) {
    struct capture *capture = calloc(1, sizeof *capture);

    capture->env.rank = 3;
    snprintf(capture->env.host, sizeof capture->env.host, "box");
    capture->env.log.sink = capture_line;
    capture->env.log.context = capture;
    capture->env.log.level = TU_LOG_WARN;
    tu_config_defaults(&capture->env.config);
    return capture;
}

/* Is `text` in one of the lines? */
static inline bool capture_has(const struct capture *capture, const char *text) {
    for (int i = 0; i < capture->lines && i < 16; i++) {
        if (strstr(capture->line[i], text)) {
            return true;
        }
    }
    return false;
}

/* fork() that never gives -1, which kill() would take for everybody. */
static inline pid_t start_child(void) {
    pid_t child = fork();

    cr_assert_geq(child, 0);
    return child;
}

/* Takes away every variable that the library reads. */
static inline void clean_environment(void) {
    static const char *const prefix[] = {"TUTTI_", "PMI", "SLURM_", "OMPI_", "MPI_", "PRTE_"};

    for (char **variable = environ; *variable;) {
        char name[256];
        bool ours = false;

        for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++) {
            ours = ours || strncmp(*variable, prefix[i], strlen(prefix[i])) == 0;
        }
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        if (ours) {
            unsetenv(name); /* moves the rest up */
        } else {
            variable++;
        }
    }
}

#endif
