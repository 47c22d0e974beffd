/*
 * tutti: collective communication for Linux clusters with RDMA.
 *
 * This header is the manual. It declares everything that the library exports.
 *
 * LIFE CYCLE. A process calls tutti_init() once per job, works on communicators, and calls
 * tutti_finalize(). Both are collective over the job. init works again after finalize. Ranks come
 * from a PMIx launcher (prterun, mpirun of Open MPI, srun --mpi=pmix) or from the caller
 * (struct tutti_options). A program started without any launcher is a job of one rank.
 *
 * THREADS. A job, with its communicators and requests, is used by one thread at a time (the rule of
 * MPI_THREAD_SERIALIZED); which thread may change. Different jobs are independent.
 *
 * PROGRESS. Nothing moves outside tutti calls. Every call that waits progresses all outstanding
 * calls of its job.
 *
 * FORK. A child must not use a job of its parent and must not call tutti_finalize() on it.
 *
 * ENVIRONMENT. Variables TUTTI_* tune a job; tutti-info prints them all with value, origin and
 * meaning. An unknown one draws a warning, a bad value an error.
 *
 * WORDS.
 *   collective        every rank of the communicator calls it, in the same order as all other
 *                     collective calls on that communicator
 *   single-valued     the argument must be the same on every rank
 *   local completion  the call is done here: its buffers belong to the caller again. Other ranks
 *                     may still be busy with it.
 *
 * BITS. All ranks get the same bits from a reduction, and so does the next run of the same job on
 * the same layout of nodes and ranks. Integer sums and products wrap around. min and max of floating
 * point return the NaN operand if there is one (the first in the order of evaluation), and take
 * -0.0 to be less than +0.0.
 *
 * NOT HERE. GPU buffers, Fortran, derived datatypes, nodes of different byte order in one job,
 * point-to-point messages.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION "0.1.0"

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* ---- status ------------------------------------------------------------------------------- */

/*
 * What a call returns, grouped by what is ruined:
 *   the call     nothing happened, outputs are untouched; correct the call and go on
 *   the moment   nothing happened; the same call may succeed later
 *   the comm     the communicator takes no more calls; free it. Targets of the calls in flight are
 *                undefined. Other communicators work.
 *   the job      nothing but tutti_finalize() works
 */
typedef enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS = 1, /* tutti_test(): not done yet (not an error) */

    /* the call */
    TUTTI_ERR_ARG = -1,         /* NULL, out of range, freed or foreign handle */
    TUTTI_ERR_COUNT = -2,       /* count * size of type overflows */
    TUTTI_ERR_TYPE = -3,        /* unknown datatype, or the operation is not defined on it */
    TUTTI_ERR_OP = -4,          /* unknown operation */
    TUTTI_ERR_ROOT = -5,        /* root out of range */
    TUTTI_ERR_CONFIG = -6,      /* a TUTTI_* variable has a bad value, or ranks differ in one */
    TUTTI_ERR_UNSUPPORTED = -7, /* known, but not possible here (forced algorithm or transport) */

    /* the moment */
    TUTTI_ERR_BUSY = -20,   /* outstanding requests forbid it */
    TUTTI_ERR_MEMORY = -21, /* memory, shared memory, window or locked memory ran out */
    TUTTI_ERR_LIMIT = -22,  /* a limit of the library (number of communicators) is reached */

    /* the communicator */
    TUTTI_ERR_MISMATCH = -40,    /* ranks made different calls; the text names both */
    TUTTI_ERR_DEAD = -41,        /* a rank died (the launcher or the system said so) */
    TUTTI_ERR_UNREACHABLE = -42, /* a rank can't be reached (the network said so) */
    TUTTI_ERR_TIMEOUT = -43,     /* a deadline that the user set has passed */
    TUTTI_ERR_COMM = -44,        /* the communicator was ruined earlier; the text has the reason */

    /* the job */
    TUTTI_ERR_LAUNCH = -60,   /* no usable launcher, or it failed */
    TUTTI_ERR_SYSTEM = -61,   /* a system call failed */
    TUTTI_ERR_DEVICE = -62,   /* no RDMA device, or it failed */
    TUTTI_ERR_INTERNAL = -63, /* a bug in tutti */
} tutti_status;

/* Name of a status, such as "TUTTI_ERR_DEAD". Never NULL, never freed. Any thread, any time. */
TUTTI_API const char *tutti_status_string(tutti_status status);

/* ---- types and operations ----------------------------------------------------------------- */

typedef enum tutti_type {
    TUTTI_I32 = 0, /* int32_t */
    TUTTI_I64 = 1, /* int64_t */
    TUTTI_F32 = 2, /* float */
    TUTTI_F64 = 3, /* double */
} tutti_type;

/* The numbers of all of MPI's operations are reserved; those marked (later) answer TUTTI_ERR_OP. */
typedef enum tutti_op {
    TUTTI_SUM = 0,
    TUTTI_PROD = 1,
    TUTTI_MIN = 2,
    TUTTI_MAX = 3,
    TUTTI_LAND = 4, /* logical and bitwise ones: integers only, else TUTTI_ERR_TYPE */
    TUTTI_LOR = 5,
    TUTTI_LXOR = 6,
    TUTTI_BAND = 7,
    TUTTI_BOR = 8,
    TUTTI_BXOR = 9,
    TUTTI_MINLOC = 10,  /* (later) */
    TUTTI_MAXLOC = 11,  /* (later) */
    TUTTI_REPLACE = 12, /* (later) */
    TUTTI_NO_OP = 13,   /* (later) */
} tutti_op;

/* Bytes of one element, 0 for an unknown type. */
TUTTI_API size_t tutti_type_size(tutti_type type);

/* ---- version ------------------------------------------------------------------------------ */

/* Version of the library that runs, which may be newer than TUTTI_VERSION of the header: libraries
 * of one minor version (0.1.x) serve each other's programs. Any thread, any time, without a job. */
TUTTI_API const char *tutti_version_string(void);
TUTTI_API void tutti_version(int *major, int *minor, int *patch);

/* ---- job ---------------------------------------------------------------------------------- */

typedef struct tutti_job tutti_job;   /* the ranks that one launch started, seen from one of them */
typedef struct tutti_comm tutti_comm; /* an ordered group of ranks with its own order of calls */
typedef uint64_t tutti_request;       /* an outstanding call; a stale one is recognised */
#define TUTTI_REQUEST_NULL ((tutti_request)0)

/* Gathers `bytes` bytes of every rank: received + r * bytes gets rank r's. Collective. Returns 0 for
 * success. Called from tutti_init() and tutti_finalize() only, in the caller's thread. */
typedef int tutti_allgather_fn(void *context, const void *mine, void *received, size_t bytes);

/* Gets one complete log line, without newline. Level: 1 error, 2 warning, 3 info, 4 debug. Must not
 * call tutti. */
typedef void tutti_log_fn(void *context, int level, const char *line);

/* Set `size` to sizeof(tutti_options) and all else to zero, then what differs from the default. */
typedef struct tutti_options {
    size_t size;

    /* Where ranks come from. NULL: the PMIx launcher. Else any launcher, or a code that already has
     * an MPI: its rank, the number of ranks, and an allgather over them. */
    tutti_allgather_fn *allgather;
    void *allgather_context;
    int rank;
    int ranks;

    /* Where log lines go. NULL: standard error. */
    tutti_log_fn *log;
    void *log_context;

    /* If tutti_init() fails, the reason is written here (there is no job to ask). May be NULL. */
    char *error;
    size_t error_bytes;
} tutti_options;

/*
 * Collective over the job. Starts tutti and sets *job. `options` may be NULL. Blocks until all ranks
 * have called it, or fails after TUTTI_INIT_TIMEOUT_MS with the missing ranks named. On failure *job
 * is untouched and nothing is left behind; a later call may succeed.
 * Errors: ARG, CONFIG (bad or differing TUTTI_* variables), UNSUPPORTED (a forced transport that is
 * impossible here), MEMORY, LAUNCH, TIMEOUT, DEAD, UNREACHABLE, DEVICE, SYSTEM. A failure of one rank is
 * one of all, each of which names it.
 */
TUTTI_API tutti_status tutti_init(const tutti_options *options, tutti_job **job);

/*
 * Collective over the job's living ranks. Completes what is under way, frees all communicators and
 * the job. Returns also when ranks were lost. Whatever it returns, the handle is gone, except for
 * BUSY: requests that have not been waited for. It touches PMIx and MPI only so far as it started them.
 */
TUTTI_API tutti_status tutti_finalize(tutti_job *job);

/* Text of the last error of any call of this job: cause, peer, remedy. "" if there was none. Valid
 * until the next call that fails. Local. */
TUTTI_API const char *tutti_last_error(const tutti_job *job);

/* ---- memory ----------------------------------------------------------------------------------
 *
 * Buffers of collectives may be any memory. That of tutti_alloc() is better where ranks share a node:
 * it lies in a heap that they all have mapped since tutti_init(), so that a collective can read a
 * rank's source where it is instead of a copy. Each rank decides for itself, call by call, what
 * memory it uses; values and their bits are the same. What a program allocates once and uses often gains;
 * as a general allocator it is slow.
 */

/*
 * Local. Sets *memory to a block of `bytes` bytes (0: a block that holds nothing, but is one) with
 * undefined contents, at a multiple of 64, from 4096 bytes on of 4096. It belongs to the caller until
 * tutti_free(); tutti_finalize() frees what is left. Its pages are taken at once, near the core that calls.
 * The heap is of TUTTI_HEAP bytes a rank, of which only what is in use takes memory. When it has no room,
 * the first block that is private memory instead draws a warning; there is none on nodes of one rank
 * or with TUTTI_HEAP=0, where all blocks are private. A forked child shares heap blocks with its parent.
 * Errors, after which *memory is untouched: ARG, MEMORY (private memory ran out, too).
 */
TUTTI_API tutti_status tutti_alloc(tutti_job *job, size_t bytes, void **memory);

/*
 * Local. Frees a block of this job's tutti_alloc(). NULL is allowed. No call that uses the block may be
 * outstanding on this rank; after local completion it may be freed at once. Errors, after which nothing has
 * changed: ARG (not the beginning of a block, freed before, or another job's).
 */
TUTTI_API tutti_status tutti_free(tutti_job *job, void *memory);

/* ---- communicators ------------------------------------------------------------------------- */

/* The communicator of all ranks; lives as long as the job and can't be freed. NULL for a NULL job. */
TUTTI_API tutti_comm *tutti_world(tutti_job *job);

/* -1 for a NULL or freed communicator. Local. */
TUTTI_API int tutti_rank(const tutti_comm *comm);
TUTTI_API int tutti_size(const tutti_comm *comm);

/*
 * Collective over `comm`, and takes its place among its calls. Sets *dup to a communicator of the same
 * ranks with its own order of calls. Errors: ARG, LIMIT (no more communicators), MEMORY (window
 * exhausted: TUTTI_WINDOW), and those of allreduce.
 */
TUTTI_API tutti_status tutti_comm_dup(tutti_comm *comm, tutti_comm **dup);

/* Collective over `comm`. BUSY while it has outstanding requests here. Local completion needs no peer. */
TUTTI_API tutti_status tutti_comm_free(tutti_comm *comm);

/* ---- collectives -----------------------------------------------------------------------------
 *
 * All of these are collective over `comm`. Single-valued: count, type, op, root. A call rejected for
 * its arguments (ARG, COUNT, TYPE, OP, ROOT, UNSUPPORTED) leaves its buffers untouched; the other
 * ranks then find the mismatch. Buffers belong to the caller, need no particular alignment or kind of
 * memory, and may be used again at local completion. Source and target must not overlap, except by
 * TUTTI_IN_PLACE. A call with count 0 moves nothing but counts as a call; its buffers may be NULL.
 * Errors of all: ARG (NULL buffer with a count, freed communicator), COUNT, MEMORY, and the groups
 * "the comm" and "the job".
 * Local completion: barrier and allreduce need every peer; broadcast needs the root, and at the root
 * no peer while its rings have room (over a network, the first large one also waits until the
 * readers have made room for it).
 */

/* As source of a reduction: the target holds the source. May differ between ranks. */
#define TUTTI_IN_PLACE ((const void *)(uintptr_t)1)

/* Returns when every rank has called it. */
TUTTI_API tutti_status tutti_barrier(tutti_comm *comm);

/* `buffer` of count elements: read at root, written elsewhere. */
TUTTI_API tutti_status tutti_bcast(void *buffer, size_t count, tutti_type type, int root,
                                   tutti_comm *comm);

/*
 * target[i] on every rank = source[i] of all ranks combined by op. The order of operands is chosen by
 * size and layout; it is the same for all ranks and for every run.
 */
TUTTI_API tutti_status tutti_allreduce(const void *source, void *target, size_t count,
                                       tutti_type type, tutti_op op, tutti_comm *comm);

/*
 * Nonblocking: start the call, set *request, and return at once. They take their place in the order of
 * calls when started. Buffers must not be touched until the request is complete. If starting fails,
 * *request is untouched. Any number may be outstanding (a few progress, the others wait their turn).
 */
TUTTI_API tutti_status tutti_ibarrier(tutti_comm *comm, tutti_request *request);
TUTTI_API tutti_status tutti_ibcast(void *buffer, size_t count, tutti_type type, int root,
                                    tutti_comm *comm, tutti_request *request);
TUTTI_API tutti_status tutti_iallreduce(const void *source, void *target, size_t count,
                                        tutti_type type, tutti_op op, tutti_comm *comm,
                                        tutti_request *request);

/*
 * Progress; if the call is complete, free the request, set *request to TUTTI_REQUEST_NULL and return
 * the call's status; else TUTTI_IN_PROGRESS (test) or wait until it is (wait). TUTTI_REQUEST_NULL
 * is complete. ARG for a request that was completed before or belongs to another job.
 */
TUTTI_API tutti_status tutti_test(tutti_job *job, tutti_request *request);
TUTTI_API tutti_status tutti_wait(tutti_job *job, tutti_request *request);

/* ---- looking inside -------------------------------------------------------------------------- */

/* What a call of this shape runs: the algorithm's word and the transports, such as "two_level" and
 * "shm+verbs". Static text; NULL on bad arguments. Local. For barrier, count, type and op are ignored;
 * for bcast, op is. */
typedef enum tutti_call { TUTTI_CALL_BARRIER, TUTTI_CALL_BCAST, TUTTI_CALL_ALLREDUCE } tutti_call;
TUTTI_API const char *tutti_algorithm(tutti_comm *comm, tutti_call call, size_t count,
                                      tutti_type type, tutti_op op);
TUTTI_API const char *tutti_transports(const tutti_comm *comm);

/* Exact counts of what this rank did since init. Set `size` to sizeof(tutti_counters) first. */
typedef struct tutti_counters {
    size_t size;
    uint64_t lines;             /* small messages: payload and flag together */
    uint64_t writes;            /* larger pieces */
    uint64_t cells;             /* credits and other single words */
    uint64_t bytes;             /* payload of lines and writes; a write over a network has 8 more */
    uint64_t requests;          /* work requests posted to devices */
    uint64_t doorbells;         /* posts of one or more requests */
    uint64_t completions;       /* send completions polled */
    uint64_t receives;          /* receive completions polled */
    uint64_t window_bytes;      /* size of the window */
    uint64_t window_used_bytes; /* of it, handed out */
    uint64_t heap_bytes;        /* size of the shared heap; 0: tutti_alloc() gives private memory */
    uint64_t heap_used_bytes;   /* of it, in use */
} tutti_counters;
TUTTI_API tutti_status tutti_get_counters(const tutti_job *job, tutti_counters *counters);

/* ---- looking around, without a job ------------------------------------------------------------ */

/* The knobs, as the environment sets them. Set `size` first. OK while index is below the number of
 * knobs, then ARG. CONFIG if the environment has a bad value, which is then in `value`. */
typedef struct tutti_knob_info {
    size_t size;
    const char *name, *unit, *fallback, *help; /* static; "" if none */
    int agreed;                                /* must be the same on all ranks */
    char allowed[128];                         /* what it may be, in words */
    char value[64];
    char origin[16]; /* "default", "environment" */
} tutti_knob_info;
TUTTI_API tutti_status tutti_knob(int index, tutti_knob_info *info);

/* The RDMA ports and their GIDs, one a call. Set `size` first. ARG past the last one. Here and below
 * a knob with a bad value counts as not set. */
typedef struct tutti_port_info {
    size_t size;
    char device[64];
    int port;
    int active;
    char link[16]; /* "InfiniBand", "Ethernet" */
    int mtu;       /* bytes */
    int gid_index; /* -1: the port has no GID */
    char gid[48];
    char gid_type[16]; /* "IB", "RoCE v1", "RoCE v2" */
    char interface[32];
    int chosen; /* tutti would use this one here */
} tutti_port_info;
TUTTI_API tutti_status tutti_port(int index, tutti_port_info *info);

/* Which port a job that needs one would use here and why; or the error it would end with, and its
 * reason. The text ("" if `bytes` is 0) is cut to fit. */
TUTTI_API tutti_status tutti_port_reason(char *text, size_t bytes);

/* What the system grants this process, as far as tutti depends on it. Set `size` first. */
typedef struct tutti_host_info {
    size_t size;
    char host[64];
    int cores;                  /* affinity and quota together: at least 1 */
    double quota_cores;         /* of the control group; 0: no limit */
    uint64_t memory_bytes;      /* limit of the control group; UINT64_MAX: none */
    uint64_t memory_free_bytes; /* of it */
    uint64_t locked_bytes;      /* limit of locked memory, which a device needs; UINT64_MAX: none */
    uint64_t shm_bytes;         /* size of /dev/shm; 0: there is none */
    uint64_t shm_free_bytes;
} tutti_host_info;
TUTTI_API tutti_status tutti_host(tutti_host_info *info);

/*
 * What a rank's window holds in a job of `ranks` ranks, placed in order and evenly on `nodes` nodes,
 * with the environment's knobs: the rank that needs most. Set `size` first. Lines and cells are there
 * from the start of a communicator; slots come with the first call that needs them, and stay for the
 * next communicator. ARG for a number below 1 or more nodes than ranks; MEMORY.
 */
typedef struct tutti_window_info {
    size_t size;
    int peers;              /* most ranks that one exchanges messages with */
    int members;            /* ranks of the largest node */
    uint64_t window_bytes;  /* TUTTI_WINDOW */
    uint64_t heap_bytes;    /* TUTTI_HEAP, for tutti_alloc(); 0 too if no ranks share a node */
    uint64_t job_bytes;     /* once */
    uint64_t comm_bytes;    /* of each communicator: its lines and cells */
    uint64_t edge_bytes;    /* most slots of its edges, to and from all peers */
    uint64_t board_bytes;   /* slots of its board; 0: alone on the node */
    uint64_t scratch_bytes; /* node scratch; 0: alone on the node */
} tutti_window_info;
TUTTI_API tutti_status tutti_window(int ranks, int nodes, tutti_window_info *info);

#ifdef __cplusplus
}
#endif

#endif
