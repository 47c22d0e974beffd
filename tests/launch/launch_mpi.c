/*
 * An MPI that lives on PMIx in the same process: launch_mpi STEPS does one step for each letter:
 * I MPI_Init, A an MPI_Allreduce, F MPI_Finalize, t a job of tutti from open to close, o and c its
 * open and its close, x an exchange in between.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bootstrap.h"
#include "runtime/env.h"

struct both {
    struct tu_env env;
    struct tu_boot *boot;
    const char *wrong;
};

static void expect(struct both *both, bool right, const char *what) {
    if (!right && !both->wrong) {
        both->wrong = what;
        fprintf(stderr, "expected: %s; last error: %s\n", what, both->env.error);
    }
}

static void open_boot(struct both *both) {
    memset(&both->env, 0, sizeof both->env);
    expect(both, tu_config_load(&both->env) == TUTTI_OK, "knobs");
    expect(both, tu_boot_open(&both->env, NULL, &both->boot) == TUTTI_OK, "open");
}

static void exchange(struct both *both) {
    uint32_t mine = 3 * both->boot->rank + 1, size = both->boot->size;
    uint32_t *all = calloc(size, sizeof *all);

    expect(both,
           both->boot->ops->exchange(both->boot, "test", &mine, sizeof mine, NULL, size, all,
                                     20000) == TUTTI_OK,
           "an exchange");
    for (uint32_t i = 0; i < size; i++) {
        expect(both, all[i] == 3 * i + 1, "its values");
    }
    free(all);
    expect(both, both->boot->ops->fence(both->boot, 20000) == TUTTI_OK, "a fence");
}

static void close_boot(struct both *both) {
    both->boot->ops->close(both->boot);
    both->boot = NULL;
}

static void allreduce(struct both *both) {
    int one = 1, sum = 0, size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(both, sum == size, "MPI's sum");
}

static void take_step(struct both *both, char step, int *argc, char ***argv) {
    switch (step) {
    case 'I':
        MPI_Init(argc, argv);
        break;
    case 'A':
        allreduce(both);
        break;
    case 'F':
        MPI_Finalize();
        break;
    case 'o':
        open_boot(both);
        break;
    case 'x':
        exchange(both);
        break;
    case 'c':
        close_boot(both);
        break;
    default:
        open_boot(both);
        exchange(both);
        close_boot(both);
    }
}

int main(int argc, char **argv) {
    struct both both = {.env = {.rank = -1}};

    for (const char *step = argc > 1 ? argv[1] : ""; *step && !both.wrong; step++) {
        take_step(&both, *step, &argc, &argv);
    }
    if (!both.wrong) {
        printf("ok %d\n", both.env.rank);
    }
    return both.wrong != NULL;
}
