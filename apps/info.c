/* tutti-info: what this library would do on this machine, and what stands in its way. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "apps/info.h"
#include "tutti/tutti.h"

struct arguments {
    bool json;
    struct info_shape shape;
};

enum { KEY_RANKS = 256, KEY_NODES };

static int read_count(const char *text, const char *what, struct argp_state *state) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > INT_MAX)
        argp_error(state, "%s must be a number from 1 on, not \"%s\"", what, text);
    return (int)value;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case 'j':
        arguments->json = true;
        return 0;
    case KEY_RANKS:
        arguments->shape.ranks = read_count(text, "--ranks", state);
        return 0;
    case KEY_NODES:
        arguments->shape.nodes = read_count(text, "--nodes", state);
        return 0;
    case 'V':
        printf("tutti-info %s\n", tutti_version_string());
        exit(0);
    case ARGP_KEY_END:
        if (arguments->shape.nodes > arguments->shape.ranks)
            argp_error(state, "%d ranks can't fill %d nodes", arguments->shape.ranks,
                       arguments->shape.nodes);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "Print JSON", 0},
        {"ranks", KEY_RANKS, "N", 0, "Window memory for a job of N ranks (default 1)", 0},
        {"nodes", KEY_NODES, "K", 0, "on K nodes (default 1)", 0},
        {"version", 'V', NULL, 0, "Print the version of the library", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Prints the version of tutti, its knobs, RDMA ports, limits and window memory."
               "\vThe exit status is 1 if a TUTTI_* variable has a bad value or a job of one rank "
               "can't start."};
    struct arguments arguments = {.shape = {.ranks = 1, .nodes = 1}};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);

    json_t *info = info_collect(&arguments.shape);
    if (!info) {
        fprintf(stderr, "tutti-info: no memory\n");
        return 1;
    }
    if (arguments.json)
        json_dumpf(info, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    else
        info_print(info, stdout);
    if (arguments.json)
        putchar('\n');
    bool good = info_is_good(info) && fflush(stdout) == 0;
    json_decref(info);
    return good ? 0 : 1;
}
