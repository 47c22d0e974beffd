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
