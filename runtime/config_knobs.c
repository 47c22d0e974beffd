/* The table of knobs, and what follows from it: reading a value from text, writing it as text. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/env.h"
#include "runtime/text.h"

#define KIB ((int64_t)1024)
#define MIB (1024 * KIB)
#define TIB (1024 * 1024 * MIB)

_Static_assert(sizeof(enum tu_transport_choice) == sizeof(int), "choices are stored as int");
_Static_assert(sizeof(enum tu_shm_choice) == sizeof(int), "choices are stored as int");
_Static_assert(sizeof(size_t) == 8, "sizes up to TiB");

/* Place and room of a field. */
#define FIELD(field)                                                                               \
    .offset = offsetof(struct tu_config, field),                                                   \
    .text_bytes = sizeof(((struct tu_config *)0)->field)

static const struct tu_knob table[] = {
    {.name = "TUTTI_LOG",
     .type = TU_KNOB_TEXT,
     FIELD(log),
     .fallback = "warn",
     .allowed = "off|error|warn|info|debug",
     .unit = "",
     .help = "how much is said on stderr"},
    {.name = "TUTTI_NODE",
     .type = TU_KNOB_TEXT,
     FIELD(node),
     .fallback = "",
     .unit = "",
     .help = "label of the node: ranks with different labels never share memory"},
    {.name = "TUTTI_DEVICE",
     .type = TU_KNOB_TEXT,
     FIELD(device),
     .fallback = "",
     .unit = "",
     .help = "RDMA device as \"name\" or \"name:port\"; empty: the first active port"},
    {.name = "TUTTI_SHM",
     .type = TU_KNOB_CHOICE,
     FIELD(shm),
     .fallback = "auto",
     .allowed = "auto|memfd|posix",
     .unit = "",
     .help = "where shared memory comes from: memfd, or files in /dev/shm (posix)"},
    {.name = "TUTTI_GID_INDEX",
     .type = TU_KNOB_INT,
     FIELD(gid_index),
     .fallback = "-1",
     .min = -1,
     .max = 65535,
     .unit = "",
     .help = "row of the port's GID table; -1: RoCE v2 with an IPv4 address before others"},
    {.name = "TUTTI_INIT_TIMEOUT_MS",
     .type = TU_KNOB_INT,
     FIELD(init_timeout_ms),
     .fallback = "60000",
     .min = 0,
     .max = INT_MAX,
     .unit = "ms",
     .help = "how long init waits for all ranks; 0: for ever"},
    {.name = "TUTTI_TIMEOUT_MS",
     .type = TU_KNOB_INT,
     FIELD(timeout_ms),
     .fallback = "0",
     .min = 0,
     .max = INT_MAX,
     .unit = "ms",
     .help = "deadline of every waiting call, after which it is an error; 0: none"},
    {.name = "TUTTI_LATE_MS",
     .type = TU_KNOB_INT,
     FIELD(late_ms),
     .fallback = "10000",
     .min = 0,
     .max = INT_MAX,
     .unit = "ms",
     .help = "a call that waits longer says who is late; 0: never"},
    {.name = "TUTTI_SPIN",
     .type = TU_KNOB_INT,
     FIELD(spin),
     .fallback = "-1",
     .min = -1,
     .max = INT_MAX,
     .unit = "polls",
     .help = "polls before a waiting rank yields its core; -1: by ranks and cores of the node"},
    {.name = "TUTTI_KERNELS",
     .type = TU_KNOB_TEXT,
     FIELD(kernels),
     .fallback = "",
     .unit = "",
     .help = "reduction kernels by instruction set, all with the same bits; empty: the best"},
    {.name = "TUTTI_MTU",
     .type = TU_KNOB_INT,
     FIELD(mtu),
     .fallback = "0",
     .min = 256,
     .max = 4096,
     .power_of_two = 1,
     .zero = 1,
     .unit = "bytes",
     .help = "path MTU of RDMA connections; 0: the port's"},
    {.name = "TUTTI_RETRY_COUNT",
     .type = TU_KNOB_INT,
     FIELD(retry_count),
     .fallback = "6",
     .min = 0,
     .max = 6,
     .unit = "",
     .help = "resends of an RDMA packet before the peer counts as unreachable"},
    {.name = "TUTTI_ACK_TIMEOUT",
     .type = TU_KNOB_INT,
     FIELD(ack_timeout),
     .fallback = "14",
     .min = 1,
     .max = 31,
     .unit = "",
     .help = "n: an RDMA packet is sent again after 4.096 us << n"},
    {.name = "TUTTI_TRANSPORT",
     .type = TU_KNOB_CHOICE,
     FIELD(transport),
     .fallback = "auto",
     .allowed = "auto|shm|verbs",
     .unit = "",
     .agreed = 1,
     .help = "forces one transport; auto: shm within a node, verbs between nodes"},
    {.name = "TUTTI_ALLREDUCE",
     .type = TU_KNOB_TEXT,
     FIELD(allreduce),
     .fallback = "",
     .unit = "",
     .agreed = 1,
     .help = "forces the algorithm of this name; empty: chosen by size and shape"},
    {.name = "TUTTI_BCAST",
     .type = TU_KNOB_TEXT,
     FIELD(bcast),
     .fallback = "",
     .unit = "",
     .agreed = 1,
     .help = "forces the algorithm of this name; empty: chosen by size and shape"},
    {.name = "TUTTI_BARRIER",
     .type = TU_KNOB_TEXT,
     FIELD(barrier),
     .fallback = "",
     .unit = "",
     .agreed = 1,
     .help = "forces the algorithm of this name; empty: chosen by shape"},
    {.name = "TUTTI_WINDOW",
     .type = TU_KNOB_BYTES,
     FIELD(window_bytes),
     .fallback = "32M",
     .min = 64 * KIB,
     .max = TIB,
     .unit = "bytes",
     .agreed = 1,
     .help = "remotely writable memory of a rank"},
    {.name = "TUTTI_HEAP",
     .type = TU_KNOB_BYTES,
     FIELD(heap_bytes),
     .fallback = "1G",
     .min = MIB,
     .max = TIB,
     .zero = 1,
     .unit = "bytes",
     .agreed = 1,
     .help = "most that tutti_alloc gives a rank of memory its node can read; 0: none"},
    {.name = "TUTTI_EAGER",
     .type = TU_KNOB_BYTES,
     FIELD(eager_bytes),
     .fallback = "32K",
     .min = 4 * KIB,
     .max = MIB,
     .power_of_two = 1,
     .unit = "bytes",
     .agreed = 1,
     .help = "slot of an edge (between two ranks)"},
    {.name = "TUTTI_SHARE",
     .type = TU_KNOB_BYTES,
     FIELD(share_bytes),
     .fallback = "128K",
     .min = 4 * KIB,
     .max = 16 * MIB,
     .power_of_two = 1,
     .unit = "bytes",
     .agreed = 1,
     .help = "slot of a board (from one rank to its node)"},
    {.name = "TUTTI_STREAM",
     .type = TU_KNOB_BYTES,
     FIELD(stream_bytes),
     .fallback = "0",
     .min = 1,
     .max = TIB,
     .zero = 1,
     .unit = "bytes",
     .help = "results of so many bytes are stored past the caches; 0: chosen by the largest cache"},
    {.name = "TUTTI_LEND",
     .type = TU_KNOB_BYTES,
     FIELD(lend_bytes),
     .fallback = "2M",
     .min = 0,
     .max = TIB,
     .unit = "bytes",
     .help = "vectors of so many bytes are read in place where they lie in memory of tutti_alloc, "
             "smaller ones are copied"},
    {.name = "TUTTI_FAR",
     .type = TU_KNOB_INT,
     FIELD(far_ns),
     .fallback = "110",
     .min = 0,
     .max = INT_MAX,
     .unit = "ns",
     .help = "a core that what another has just written takes so long to reach is far: what ranks "
             "there read is stored past the caches"},
    {.name = "TUTTI_RING",
     .type = TU_KNOB_INT,
     FIELD(ring_slots),
     .fallback = "4",
     .min = 1,
     .max = 16,
     .power_of_two = 1,
     .unit = "slots",
     .agreed = 1,
     .help = "slots of an edge or board"},
    {.name = "TUTTI_BOARD",
     .type = TU_KNOB_INT,
     FIELD(board_cells),
     .fallback = "32",
     .min = 1,
     .max = 64,
     .power_of_two = 1,
     .unit = "cells",
     .agreed = 1,
     .help = "small messages by which a rank may run ahead of its node (at least TUTTI_RING)"},
    {.name = "TUTTI_BANKS",
     .type = TU_KNOB_INT,
     FIELD(banks),
     .fallback = "2",
     .min = 1,
     .max = 4,
     .unit = "",
     .agreed = 1,
     .help = "calls of a communicator that can be under way at once"},
    {.name = "TUTTI_SEGMENTS",
     .type = TU_KNOB_INT,
     FIELD(segments),
     .fallback = "2",
     .min = 1,
     .max = 4,
     .unit = "",
     .agreed = 1,
     .help = "segments of one call that can be under way at once"},
    {.name = "TUTTI_SCRATCH",
     .type = TU_KNOB_INT,
     FIELD(scratch_slots),
     .fallback = "2",
     .min = 1,
     .max = 4,
     .power_of_two = 1,
     .unit = "slots",
     .agreed = 1,
     .help = "node scratch slots of a bank"},
};

enum { KNOBS = sizeof table / sizeof *table };
_Static_assert(KNOBS <= 64, "one bit each in struct tu_config");

const struct tu_knob *tu_config_knobs(size_t *n) {
    *n = KNOBS;
    return table;
}

const struct tu_knob *tu_config_find(const char *name) {
    for (size_t i = 0; i < KNOBS; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* ---- from text ----------------------------------------------------------------------------- */

/* Reads "-3" or, for bytes, "32K". Blanks and signs other than a minus are not taken. */
static bool parse_number(const struct tu_knob *knob, const char *text, int64_t *number) {
    static const char suffixes[] = "KMG";
    const char *suffix;
    char *end;
    long long value;

    if (*text != '-' && (*text < '0' || *text > '9')) {
        return false;
    }
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || end == text) {
        return false;
    }
    if (knob->type == TU_KNOB_BYTES && *end) {
        suffix = strchr(suffixes, *end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
        if (!suffix ||
            __builtin_mul_overflow(value, 1LL << (10 * (suffix - suffixes + 1)), &value)) {
            return false;
        }
        end++;
    }
    *number = value;
    return *end == 0;
}

static bool number_allowed(const struct tu_knob *knob, int64_t number) {
    if (number == 0 && knob->zero) {
        return true;
    }
    if (number < knob->min || number > knob->max) {
        return false;
    }
    return !knob->power_of_two || (number & (number - 1)) == 0;
}

/* The place of `text` in "a|b|c", upper or lower case, with the choice as it is spelt; or -1. */
static int find_choice(const char *choices, const char *text, char *spelt, size_t bytes) {
    size_t length;

    for (int place = 0; *choices; place++, choices += length + (choices[length] == '|')) {
        length = strcspn(choices, "|");
        if (length == strlen(text) && length < bytes && strncasecmp(choices, text, length) == 0) {
            memcpy(spelt, choices, length);
            spelt[length] = 0;
            return place;
        }
    }
    return -1;
}

static bool store_text(const struct tu_knob *knob, const char *text, char *field) {
    size_t length = strlen(text);

    if (knob->allowed) {
        return find_choice(knob->allowed, text, field, knob->text_bytes) >= 0;
    }
    if (length >= knob->text_bytes) {
        return false;
    }
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7F) { /* it travels, and stands in log lines */
            return false;
        }
    }
    memcpy(field, text, length + 1);
    return true;
}

/* Writes the field only if the value is allowed. */
static bool store(struct tu_config *config, const struct tu_knob *knob, const char *text) {
    char *field = (char *)config + knob->offset, spelt[32];
    int64_t number;
    int choice;

    switch (knob->type) {
    case TU_KNOB_TEXT:
        return store_text(knob, text, field);
    case TU_KNOB_CHOICE:
        choice = find_choice(knob->allowed, text, spelt, sizeof spelt);
        if (choice >= 0) {
            memcpy(field, &choice, sizeof choice);
        }
        return choice >= 0;
    case TU_KNOB_INT:
    case TU_KNOB_BYTES:
        break;
    }
    if (!parse_number(knob, text, &number) || !number_allowed(knob, number)) {
        return false;
    }
    if (knob->type == TU_KNOB_BYTES) {
        *(size_t *)(void *)field = (size_t)number;
    } else {
        *(int *)(void *)field = (int)number;
    }
    return true;
}

void tu_config_defaults(struct tu_config *config) {
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < KNOBS; i++) {
        store(config, &table[i], table[i].fallback); /* a unit test holds the table to this */
    }
}

tutti_status tu_config_set(struct tu_env *env, const char *name, const char *value) {
    const struct tu_knob *knob = tu_config_find(name);
    const char *nearest;
    char allowed[128];

    if (!knob) {
        nearest = tu_config_nearest(name);
        return tu_fail(env, TUTTI_ERR_CONFIG, "%.64s is not a knob%s%s", name,
                       nearest ? "; the nearest is " : "", nearest ? nearest : "");
    }
    if (!store(&env->config, knob, value)) {
        return tu_fail(env, TUTTI_ERR_CONFIG, "%s=\"%.128s\" is not allowed: it must be %s", name,
                       value, tu_config_allowed(knob, allowed, sizeof allowed));
    }
    env->config.set |= (uint64_t)1 << (knob - table);
    return TUTTI_OK;
}

/* ---- to text ------------------------------------------------------------------------------- */

const char *tu_config_format(const struct tu_config *config, const struct tu_knob *knob,
                             char *buffer, size_t bytes) {
    const char *field = (const char *)config + knob->offset, *choice = knob->allowed;
    int number;

    if (knob->type == TU_KNOB_TEXT) {
        snprintf(buffer, bytes, "%s", field);
        return buffer;
    }
    if (knob->type == TU_KNOB_BYTES) {
        return tu_text_bytes(*(const size_t *)(const void *)field, buffer, bytes);
    }
    memcpy(&number, field, sizeof number);
    if (knob->type == TU_KNOB_INT) {
        snprintf(buffer, bytes, "%d", number);
        return buffer;
    }
    for (; number > 0; number--) {
        choice += strcspn(choice, "|") + 1;
    }
    snprintf(buffer, bytes, "%.*s", (int)strcspn(choice, "|"), choice);
    return buffer;
}

/* A limit as the user would write it. */
static const char *limit(const struct tu_knob *knob, int64_t value, char *buffer, size_t bytes) {
    if (knob->type == TU_KNOB_BYTES) {
        return tu_text_bytes((size_t)value, buffer, bytes);
    }
    snprintf(buffer, bytes, "%lld", (long long)value);
    return buffer;
}

const char *tu_config_allowed(const struct tu_knob *knob, char *buffer, size_t bytes) {
    char least[32], most[32];

    if (knob->allowed) {
        snprintf(buffer, bytes, "one of %s", knob->allowed);
    } else if (knob->type == TU_KNOB_TEXT) {
        snprintf(buffer, bytes, "at most %zu characters without blanks", knob->text_bytes - 1);
    } else {
        snprintf(buffer, bytes, "%s%s from %s to %s%s%s", knob->zero ? "0 or " : "",
                 knob->power_of_two ? "a power of two" : "a whole number",
                 limit(knob, knob->min, least, sizeof least),
                 limit(knob, knob->max, most, sizeof most), *knob->unit ? " " : "", knob->unit);
    }
    return buffer;
}

const char *tu_config_origin(const struct tu_config *config, const struct tu_knob *knob) {
    return config->set >> (knob - table) & 1 ? "environment" : "default";
}
