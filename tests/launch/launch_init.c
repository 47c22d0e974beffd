/*
 * Starting under bad conditions: init must fail, with a status and a text given as arguments, and leave
 * nothing behind. launch_init STATUS TEXT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

int main(int argc, char **argv) {
    char error[1024] = "";
    tutti_options options = {.size = sizeof options, .error = error, .error_bytes = sizeof error};
    tutti_job *untouched = (tutti_job *)&options, *job = untouched;
    if (argc != 3)
        return 2;
    tutti_status status = tutti_init(&options, &job);
    if (strcmp(tutti_status_string(status), argv[1]) != 0 || !strstr(error, argv[2])) {
        fprintf(stderr, "%s, not %s; or this does not say \"%s\": %s\n",
                tutti_status_string(status), argv[1], argv[2], error);
        return 1;
    }
    if (job != untouched) {
        fprintf(stderr, "the job was set\n");
        return 1;
    }
    printf("ok %s\n", getenv("PMIX_RANK") ? getenv("PMIX_RANK") : "0");
    return 0;
}
