/*
 * The knobs: one table of TUTTI_* variables with type, default, unit, allowed values and help.
 * config.c is the only file that reads the environment.
 */
#ifndef TU_RUNTIME_CONFIG_H
#define TU_RUNTIME_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;

enum tu_transport_choice { TU_TRANSPORT_AUTO, TU_TRANSPORT_SHM, TU_TRANSPORT_VERBS };
enum tu_shm_choice { TU_SHM_AUTO, TU_SHM_MEMFD, TU_SHM_POSIX };

/* Room for the agreed knobs and the version as they travel. */
enum { TU_CONFIG_PACK_BYTES = 512 };

/* Values of all knobs. Strings are owned by the config. Bytes accept K, M, G suffixes (binary). */
struct tu_config {
    /* not agreed: each rank's own */
    char log[16];           /* TUTTI_LOG: off|error|warn|info|debug, default warn */
    char node[64];          /* TUTTI_NODE: label; ranks with different labels never share memory */
    char device[64];        /* TUTTI_DEVICE: "dev" or "dev:port" */
    enum tu_shm_choice shm; /* TUTTI_SHM: auto|memfd|posix, where shared memory comes from */
    int gid_index;          /* TUTTI_GID_INDEX, default -1: choose */
    int init_timeout_ms;    /* TUTTI_INIT_TIMEOUT_MS: wait for all ranks at init, default 60000 */
    int timeout_ms;         /* TUTTI_TIMEOUT_MS: deadline of every waiting call, default 0: none */
    int late_ms;            /* TUTTI_LATE_MS: say who is late after this long, default 10000 */
    int spin;               /* TUTTI_SPIN: polls before yielding, default -1: choose by cores */
    char kernels[16];       /* TUTTI_KERNELS: name of a set of reduction kernels, "" : the best */
    int mtu;                /* TUTTI_MTU: path MTU in bytes 256..4096, default 0: the port's */
    int retry_count;        /* TUTTI_RETRY_COUNT 0..6, default 6 (7 never ends on some devices) */
    int ack_timeout;        /* TUTTI_ACK_TIMEOUT 1..31, default 14 (4.096 us << n) */
    /* agreed: they shape plans, windows or the wire; rank 0's count, a difference is an error */
    enum tu_transport_choice transport; /* TUTTI_TRANSPORT: auto|shm|verbs */
    char allreduce[24];                 /* TUTTI_ALLREDUCE: name of an algorithm, "" : choose */
    char bcast[24];                     /* TUTTI_BCAST */
    char barrier[24];                   /* TUTTI_BARRIER */
    size_t window_bytes;                /* TUTTI_WINDOW: registered window per rank, default 32M */
    size_t heap_bytes;   /* TUTTI_HEAP: heap of tutti_alloc per rank, default 1G, 0: none */
    size_t eager_bytes;  /* TUTTI_EAGER: slot of an edge, default 32K (4K..1M, power of two) */
    size_t share_bytes;  /* TUTTI_SHARE: slot of a board, default 128K (4K..16M, power of two) */
    size_t stream_bytes; /* TUTTI_STREAM: stores past the caches from here on; default 0: choose */
    size_t lend_bytes;   /* TUTTI_LEND: vectors in the heap are lent from here on, default 2M */
    int far_ns; /* TUTTI_FAR: a core from which a line takes so long is far, default 110; 0: all */
    int ring_slots;    /* TUTTI_RING: R, slots of a ring, default 4 (1..16) */
    int board_cells;   /* TUTTI_BOARD: K, cells of a board, at least R; default 32 (1..64) */
    int banks;         /* TUTTI_BANKS: D, default 2 (1..4) */
    int segments;      /* TUTTI_SEGMENTS: W, segments of a call under way, default 2 (1..4) */
    int scratch_slots; /* TUTTI_SCRATCH: S, node scratch slots of a bank, default 2 (1..4) */
    /* not a knob: bit i says that knob i of the table was set, not left at its default */
    uint64_t set;
};

/*
 * INT is an int, BYTES a size_t, CHOICE an int-sized enum (the place in the list of choices), TEXT
 * a char array that holds any printable text or, if there are choices, one of them.
 */
enum tu_knob_type { TU_KNOB_INT, TU_KNOB_BYTES, TU_KNOB_TEXT, TU_KNOB_CHOICE };

struct tu_knob {
    const char *name; /* "TUTTI_RING" */
    enum tu_knob_type type;
    size_t offset;        /* in struct tu_config */
    size_t text_bytes;    /* TU_KNOB_TEXT: room, with the NUL */
    const char *fallback; /* default, as text */
    const char *allowed;  /* choices "a|b|c", or NULL */
    int64_t min, max;     /* numbers */
    int power_of_two;     /* numbers: no others */
    int zero;             /* numbers: 0 is allowed although it is below min */
    const char *unit;     /* "" if none */
    int agreed;           /* shapes plans: the same on all ranks */
    const char *help;     /* one line */
};

/* The table; *n is set to its length. */
const struct tu_knob *tu_config_knobs(size_t *n);

/* Sets every knob to its default. */
void tu_config_defaults(struct tu_config *config);

/* The knob of that name, or NULL. */
const struct tu_knob *tu_config_find(const char *name);

/*
 * Reads the environment over the defaults and sets the log level. A bad value is TUTTI_ERR_CONFIG
 * with variable, value and what is allowed. An unknown TUTTI_* variable draws a warning that names
 * the nearest known one (on rank 0, where the launcher's variables tell the rank; elsewhere it goes
 * to level debug, so that a large job says it once).
 */
tutti_status tu_config_load(struct tu_env *env);

/* What the environment says of a knob, allowed or not; NULL if it is not set. */
const char *tu_config_variable(const struct tu_knob *knob);

/* Sets one knob from text, as the environment would; on an error the config is unchanged. */
tutti_status tu_config_set(struct tu_env *env, const char *name, const char *value);

/* Value of a knob as text ("32K", "auto"); returns `buffer`. */
const char *tu_config_format(const struct tu_config *config, const struct tu_knob *knob,
                             char *buffer, size_t bytes);

/* What the knob may be, as text ("1 to 16", "a power of two, 4K to 1M bytes"); returns `buffer`. */
const char *tu_config_allowed(const struct tu_knob *knob, char *buffer, size_t bytes);

/* The known name nearest to an unknown one, or NULL if none is near. */
const char *tu_config_nearest(const char *name);

/* Where the value came from: "default" or "environment". */
const char *tu_config_origin(const struct tu_config *config, const struct tu_knob *knob);

/* Writes the version and the agreed knobs as text into `packed`, padded with zeros. */
void tu_config_pack(const struct tu_config *config, char packed[TU_CONFIG_PACK_BYTES]);

/*
 * Compares version and agreed knobs with rank 0's, packed. A difference is TUTTI_ERR_CONFIG that
 * names the knob, both values, both hosts and both ranks.
 */
tutti_status tu_config_agree(struct tu_env *env, const char packed0[TU_CONFIG_PACK_BYTES],
                             const char *host0);

/*
 * For a process that found no PMIx: writes which launcher has started it together with others, such
 * as "MPICH's or Intel MPI's mpiexec (PMI_SIZE=4)", or "" if the environment knows of no others.
 */
void tu_config_foreign_launcher(char *buffer, size_t bytes);

/* True if a PMIx server's address is in the environment: a PMIx launcher started this process. */
bool tu_config_pmix_launcher(void);

#endif
