/*
 * Two ranks of one program, without a launcher, over verbs and with little locked memory: init must fail
 * on both, and say what the limit is and what the window needs.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/bootstrap.h"

static int rank(const tutti_options *given, void *context) {
    (void)context;
    char error[1024] = "";
    tutti_options options = *given;
    options.error = error;
    options.error_bytes = sizeof error;
    tutti_job *job = NULL;
    tutti_status status = tutti_init(&options, &job);
    if (status == TUTTI_ERR_MEMORY && !job && strstr(error, "ulimit -l"))
        return 0;
    fprintf(stderr, "rank %d: %s: %s\n", options.rank, tutti_status_string(status), error);
    return 1;
}

int main(void) {
    return tu_local_run(TU_LOCAL_PROCESSES, 2, rank, NULL, 30000) != 0;
}
