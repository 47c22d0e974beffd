/*
 * What the API's files share: the job, its communicators and its calls. Everything hangs off the job;
 * a process may have many.
 */
#ifndef TU_API_JOB_H
#define TU_API_JOB_H

#include "collectives/cache.h"
#include "collectives/run.h"
#include "runtime/bootstrap.h"
#include "runtime/env.h"
#include "runtime/heap.h"
#include "runtime/progress.h"
#include "runtime/topology.h"

/* ---- calls ----------------------------------------------------------------------------------- */

/* What a call is, for records and messages. */
struct tu_description {
    uint64_t count;
    int32_t root;
    uint32_t kind; /* enum tu_collective, type and op, a byte each */
};

static inline uint32_t tu_kind(enum tu_collective collective, tutti_type type, tutti_op op) {
    return (uint32_t)collective | (uint32_t)type << 8 | (uint32_t)op << 16;
}

static inline enum tu_collective tu_kind_collective(uint32_t kind) {
    return (enum tu_collective)(kind & 255);
}

enum tu_call_state { TU_CALL_FREE, TU_CALL_WAITING, TU_CALL_RUNNING, TU_CALL_DONE };

/* When a waiting call looks around (watch.c). All zero: it has not waited yet. */
struct tu_watch {
    uint64_t since_ns, late_ns, compare_ns;
};

/* What a call does, worked out: the same for all calls with the same arguments. */
struct tu_task {
    struct tu_work work;
    struct tu_description what;
    uint64_t hash;                /* of `what` */
    struct tu_prepared *prepared; /* its plan and programs */
};

/*
 * A call from its start to its local completion. Blocking calls live on the caller's stack. Who makes one
 * sets comm and task, which outlives it; the other members follow with the steps of its life.
 */
struct tu_call {
    enum tu_call_state state;
    tutti_status status; /* once done */
    struct tutti_comm *comm;
    const struct tu_task *task;
    struct tu_bank *bank; /* while it is running */
    uint64_t number;      /* in the comm */
    uint32_t fingerprint;
    uint32_t rejected; /* calls of this comm rejected before it (rule 18) */
    struct tu_watch watch;
    struct tu_call *next; /* waiting for a bank; or free requests */
    /* of requests: */
    uint32_t generation, index;
    struct tu_task own_task;
};

/* ---- communicators --------------------------------------------------------------------------- */

enum { TU_COMM_MAGIC = 0x74750c03, TU_COMM_FREED = 0x74750c04 };

struct tu_record;

/* Arguments of a collective call, as the caller gave them. */
struct tu_arguments {
    const void *source;
    void *target;
    size_t count;
    tutti_type type;
    tutti_op op;
    int root;
};

/* The same, checked, and what they mean. */
struct tu_checked {
    struct tu_arguments arguments;
    struct tu_task task; /* a user of what is prepared; NULL: nothing stands here */
};

struct tu_bank {
    struct tu_run run;
    struct tu_call *call; /* the one under way, or NULL */
};

struct tutti_comm {
    uint32_t magic; /* TU_COMM_MAGIC while it may be used, then TU_COMM_FREED until finalize */
    uint32_t id;
    tutti_job *job;
    uint32_t rank, size;
    const struct tu_nodes *nodes; /* the job's, as long as all comms are of all ranks */
    struct tu_channels *channels;
    struct tu_cache cache;
    struct tu_checked checked[TU_COLLECTIVES]; /* the last ones: codes repeat their calls */
    struct tu_bank bank[TU_MAX_BANKS];
    uint32_t banks, next_bank;    /* bank of the next call to start */
    uint32_t running;             /* banks with a call */
    struct tu_call *first, *last; /* calls waiting for their bank, in order */
    uint64_t calls;               /* numbers given */
    struct tu_record *record;     /* [TU_RECORDS] own, in the window */
    uint32_t rejected;
    uint32_t fingerprint;  /* of the last call */
    uint32_t requests;     /* not yet waited for */
    tutti_status ruin;     /* TUTTI_OK while it works */
    uint32_t ruin_origin;  /* rank that found it out */
    uint32_t ruin_culprit; /* rank that it is about, or TU_NO_RANK */
    char reason[256];
    bool poison_owed;               /* peers must still be told: */
    uint32_t poison_from;           /* ... from this place in the job's list on */
    struct tutti_comm *next_active; /* comms with calls under way */
    bool active;
};

/* ---- the job --------------------------------------------------------------------------------- */

enum { TU_JOB_MAGIC = 0x74750b0b };

struct tu_request_pool {
    struct tu_call **call; /* [room] */
    uint32_t room, used;
    struct tu_call *free;
};

struct tutti_job {
    uint32_t magic;
    struct tu_env env;
    struct tu_boot *boot;
    struct tu_topology *topology;
    struct tu_nodes *nodes;
    struct tu_shmem segment; /* window and heap */
    size_t heap_bytes;       /* of the segment */
    struct tu_window window;
    struct tu_heap heap;             /* of tutti_alloc; no room: its memory is private */
    struct tu_ranges private_memory; /* blocks of tutti_alloc outside the heap, by address */
    bool told_private;               /* a warning of those was given */
    struct tu_counters counters;
    const struct tu_kernels *kernels;
    size_t stream_from; /* targets of so many bytes are stored past the caches */

    uint32_t peers; /* base peers and node members, ascending by rank */
    struct tu_peer *peer;
    struct tu_transport *shm, *wire; /* NULL if no peer uses it */
    uint32_t *wire_peer;             /* [peers of the wire] index in `peer` */

    struct tutti_comm *comm[TU_MAX_COMMS]; /* by id; kept when freed, for the next of that id */
    struct tutti_comm *active;
    struct tu_request_pool requests;
    struct tu_waiter waiter;
    uint64_t watched_ns; /* when a tested call last looked around */

    uint32_t losses; /* ranks lost so far */
    uint8_t *lost;   /* [size] 1: lost */
    tutti_log_fn *log;
    void *log_context;
};

/* Opens a job as tutti_init() does; `hooks` is NULL outside of tests. */
tutti_status tu_job_open(const tutti_options *options, const struct tu_hooks *hooks,
                         tutti_job **job);
/* The largest that any rank needs, so that all windows have one layout. */
struct tu_window_shape tu_window_shape_of(const struct tu_nodes *nodes,
                                          const struct tu_config *config);

/* peers.c: who this rank talks to, and the transports to them. */
tutti_status tu_peers_make(tutti_job *job);
tutti_status tu_peers_open(tutti_job *job);    /* local */
tutti_status tu_peers_connect(tutti_job *job); /* collective, if there is a wire */
/*
 * Collective. How a local part of init went: a failure of one rank is one of all, each of which names
 * that rank and its reason.
 */
tutti_status tu_job_agree(tutti_job *job, const char *key, tutti_status mine);
void tu_peers_free(tutti_job *job);
struct tu_peer *tu_peer_of(const tutti_job *job, uint32_t rank);

/* comm.c */
tutti_status tu_comm_open(tutti_job *job, uint32_t id, tutti_comm **comm);
void tu_comm_close(tutti_comm *comm);
static inline bool tu_comm_usable(const tutti_comm *comm) {
    return comm && comm->magic == TU_COMM_MAGIC;
}

/* Where to tell an error about this comm, which may be NULL or freed. */
struct tu_env *tu_comm_env(const tutti_comm *comm);

/* call.c: life of a call. */

/* Gives a prepared call its number and starts it, or queues it for its bank. */
void tu_call_start(struct tu_call *call);
/* One pass over everything under way; returns how much moved. */
uint32_t tu_progress(tutti_job *job);
/* After a pass that moved something or not. True if it is time to look at what is slow to look at. */
bool tu_wait_a_bit(tutti_job *job, bool moved);
/* Waits until the call is done; returns its status. */
tutti_status tu_call_wait(tutti_job *job, struct tu_call *call);
/* Ends all calls of a comm with this status. */
void tu_calls_end(tutti_comm *comm, tutti_status status);

/* record.c: what a rank's last calls on a comm were, for its peers to read. */
struct tu_record {
    uint64_t call; /* number + 1, 0: none */
    struct tu_description what;
    uint32_t rejected, fingerprint; /* as in a call */
    uint64_t check;                 /* hash of the above: a torn copy is recognised */
    uint64_t finished;              /* call, once it is done here */
    uint64_t padding[2];
};
_Static_assert(sizeof(struct tu_record) == TU_RECORD_BYTES, "one line each");

/*
 * Fingerprint of a call, chained to all earlier ones of its comm: ranks that made different calls find
 * it out with the next message, whatever that belongs to.
 */
uint64_t tu_hash(const struct tu_description *what);
uint32_t tu_fingerprint(uint32_t before, uint64_t hash, uint32_t rejected);
void tu_record_call(const struct tu_call *call);
/* The call is done here. */
void tu_record_finish(const struct tu_call *call);
/* Copies a peer's records (TU_RECORDS of them); false if they can't be had now. */
bool tu_record_fetch(tutti_comm *comm, uint32_t rank, struct tu_record *record);
/* "allreduce of 3 f32 by sum (call 12)" */
const char *tu_call_text(uint64_t call, const struct tu_description *what, uint32_t rejected,
                         char *text, size_t bytes);
/*
 * Compares the last calls of this rank and `rank`; true if two of them differ, described in `text`.
 */
bool tu_record_differ(tutti_comm *comm, uint32_t rank, char *text, size_t bytes);

/* failure.c */

/*
 * Ruins a comm: logs the text, ends its calls, tells its members, who name `culprit` (a rank, or
 * TU_NO_RANK) in their turn. Returns `status`.
 */
enum { TU_NO_RANK = UINT32_MAX };
tutti_status tu_comm_fail(tutti_comm *comm, tutti_status status, uint32_t culprit,
                          const char *format, ...) __attribute__((format(printf, 4, 5), cold));
/* A rank is lost: ruins all comms with it. Once per rank. */
void tu_rank_lost(tutti_job *job, uint32_t rank, tutti_status status, const char *how);
/* Looks for poison from other members; tells what is still owed to them. */
void tu_poison_check(tutti_job *job);
/* "rank 3 (host n1)" */
const char *tu_rank_text(const tutti_job *job, uint32_t rank, char *text, size_t bytes);

/* watch.c: what a waiting rank looks at every 10 ms or so: losses, poison, deadlines, late ranks. */
void tu_watch(tutti_job *job, struct tu_call *call);
/* The same, at most every 10 ms, for those who test instead of waiting. */
void tu_watch_tested(tutti_job *job, struct tu_call *call);

/* memory.c */

/* Makes the heap that lies behind the window, if there are node peers to see it. */
tutti_status tu_memory_open(tutti_job *job);
/* Frees what the caller has not. */
void tu_memory_close(tutti_job *job);

/* request.c */
tutti_status tu_request_new(tutti_job *job, struct tu_call **call);
void tu_request_free(tutti_job *job, struct tu_call *call);
void tu_requests_free(tutti_job *job);

#endif
