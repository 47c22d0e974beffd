/* A user's program, valid in C99 and in C++: a job of one rank. Its argument is the version that the
 * package file states. */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

static int is_right(const char *version, tutti_comm *world)
{
    double x[3] = {1, 2, 3}, sum[3] = {0, 0, 0};

    return strcmp(version, TUTTI_VERSION) == 0 && strcmp(version, tutti_version_string()) == 0 &&
           tutti_rank(world) == 0 && tutti_size(world) == 1 &&
           tutti_allreduce(x, sum, 3, TUTTI_F64, TUTTI_SUM, world) == TUTTI_OK &&
           memcmp(x, sum, sizeof x) == 0 && tutti_barrier(world) == TUTTI_OK;
}

int main(int argc, char **argv)
{
    tutti_job *job = NULL;
    tutti_status status = tutti_init(NULL, &job);
    int right;

    if (argc != 2 || status != TUTTI_OK) {
        fprintf(stderr, "tutti_init: %s\n", tutti_status_string(status));
        return 1;
    }
    right = is_right(argv[1], tutti_world(job));
    if (!right)
        fprintf(stderr, "wrong answers; last error: %s\n", tutti_last_error(job));
    status = tutti_finalize(job);
    return right && status == TUTTI_OK ? 0 : 1;
}
