/*
 * Ranks as threads or as forked processes of one program, for tests and tools. They share an
 * allgather in memory that notices ranks that end without calling it.
 *
 * Each rank has two banks, used in turn, and a count of the rounds it has written. A rank writes round
 * n + 2 into the bank of round n only after everybody has written n + 1, and so has read n.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/bootstrap.h"
#include "runtime/clock.h"
#include "runtime/memory.h"

enum {
    BANK_BYTES = 64 * 1024,
    SLICE_NS = 5 * 1000 * 1000,   /* no sleep is longer: a lost wake costs no more */
    GRACE_NS = 200 * 1000 * 1000, /* for those who come after a rank has ended */
};

/* One rank's part. Written by the rank itself, but for `ended`, which who waits for it sets. */
struct seat {
    _Alignas(64) _Atomic uint32_t rounds; /* written so far; release: the bank is complete */
    _Atomic uint32_t ended;               /* release: `rounds` grows no more */
    size_t bytes[2];                      /* in the bank */
    unsigned char bank[2][BANK_BYTES];
};

struct hall {
    uint32_t ranks;
    uint64_t deadline_ns;                  /* of the allgather; 0: none */
    _Alignas(64) _Atomic uint32_t written; /* sum of all ranks' rounds */
    _Alignas(64) _Atomic uint32_t news; /* grows when a round is complete or a rank ends; futex */
    struct seat seat[];
};

/* One rank's view. */
struct local {
    struct hall *hall;
    uint32_t rank;
    uint32_t rounds;
    int broken; /* the errno that an allgather failed with */
    tu_local_body *body;
    void *context;
    int result;
    pthread_t thread;
    pid_t pid; /* 0: not running */
};

/* ---- allgather ----------------------------------------------------------------------------- */

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    struct timespec slice = {.tv_nsec = SLICE_NS};

    syscall(SYS_futex, word, FUTEX_WAIT, seen, &slice, NULL, 0);
}

static void wake_all(struct hall *hall) {
    /* release: pairs with the acquire in await_all(), which looks at `news` first */
    atomic_fetch_add_explicit(&hall->news, 1, memory_order_release);
    syscall(SYS_futex, &hall->news, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Nobody writes the next round before all have written this one: the last of it makes the sum full. */
static void note_written(struct hall *hall, uint32_t round) {
    if (atomic_fetch_add_explicit(&hall->written, 1, memory_order_acq_rel) + 1 ==
        hall->ranks * (round + 1)) {
        wake_all(hall);
    }
}

/* Who has not written more than `round` rounds. */
struct absent {
    uint32_t missing;
    uint32_t ended; /* of them: they never will */
};

static bool has_written(struct seat *seat, uint32_t round) {
    return atomic_load_explicit(&seat->rounds, memory_order_acquire) > round;
}

static struct absent count_absent(struct hall *hall, uint32_t round) {
    struct absent absent = {0};

    for (uint32_t rank = 0; rank < hall->ranks; rank++) {
        struct seat *seat = &hall->seat[rank];
        /* looked at first: a rank that wrote and then ended has written */
        bool ended = atomic_load_explicit(&seat->ended, memory_order_acquire);

        if (!has_written(seat, round)) {
            absent.missing++;
            absent.ended += ended;
        }
    }
    return absent;
}

/* Waits until all have written more than `round` rounds. 0, EOWNERDEAD or ETIMEDOUT. */
static int await_all(struct hall *hall, uint32_t round) {
    uint64_t deadline_ns = hall->deadline_ns;
    int code = ETIMEDOUT;

    for (;;) {
        uint32_t seen = atomic_load_explicit(&hall->news, memory_order_acquire);
        struct absent absent = count_absent(hall, round);

        if (absent.missing == 0) {
            return 0;
        }
        if (absent.ended > 0 && code == ETIMEDOUT) {
            code = EOWNERDEAD; /* the others may still be on their way */
            deadline_ns = tu_now_ns() + GRACE_NS;
        }
        if (absent.missing == absent.ended || (deadline_ns && tu_now_ns() >= deadline_ns)) {
            return code;
        }
        futex_wait(&hall->news, seen);
    }
}

/* One piece of each block; `stride` is the distance of blocks in `received`. */
static int gather_piece(struct local *local, const void *mine, unsigned char *received,
                        size_t bytes, size_t stride) {
    struct hall *hall = local->hall;
    uint32_t round = local->rounds++, bank = round % 2;
    struct seat *own = &hall->seat[local->rank];
    int code;

    own->bytes[bank] = bytes;
    memcpy(own->bank[bank], mine, bytes);
    atomic_store_explicit(&own->rounds, round + 1, memory_order_release);
    note_written(hall, round);
    code = await_all(hall, round);
    for (uint32_t rank = 0; rank < hall->ranks; rank++) {
        struct seat *seat = &hall->seat[rank];

        if (!has_written(seat, round)) {
            continue;
        }
        if (seat->bytes[bank] != bytes) {
            code = EPROTO;
            continue;
        }
        memcpy(received + rank * stride, seat->bank[bank], bytes);
    }
    return code;
}

static int allgather(void *context, const void *mine, void *received, size_t bytes) {
    struct local *local = context;

    for (size_t done = 0; done < bytes && !local->broken; done += BANK_BYTES) {
        size_t piece = bytes - done < BANK_BYTES ? bytes - done : BANK_BYTES;

        local->broken = gather_piece(local, (const unsigned char *)mine + done,
                                     (unsigned char *)received + done, piece, bytes);
    }
    return local->broken;
}

/* ---- ranks --------------------------------------------------------------------------------- */

static int run_body(struct local *local) {
    struct tutti_options options = {.size = sizeof options,
                                    .allgather = allgather,
                                    .allgather_context = local,
                                    .rank = (int)local->rank,
                                    .ranks = (int)local->hall->ranks};

    return local->body(&options, local->context);
}

static void mark_ended(struct local *local) {
    atomic_store_explicit(&local->hall->seat[local->rank].ended, 1, memory_order_release);
    wake_all(local->hall);
}

static void *run_thread(void *context) {
    struct local *local = context;

    local->result = run_body(local);
    mark_ended(local);
    return NULL;
}

static int count_failed(const struct local *local, uint32_t ranks) {
    int failed = 0;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        failed += local[rank].result != 0;
    }
    return failed;
}

static int run_threads(struct local *local, uint32_t ranks) {
    uint32_t started = 0;

    while (started < ranks &&
           pthread_create(&local[started].thread, NULL, run_thread, &local[started]) == 0) {
        started++;
    }
    for (uint32_t rank = started; rank < ranks; rank++) {
        mark_ended(&local[rank]); /* so that the others end, too */
    }
    for (uint32_t rank = 0; rank < started; rank++) {
        pthread_join(local[rank].thread, NULL);
    }
    return started == ranks ? count_failed(local, ranks) : -1;
}

/* In the child: it must leave without the parent's atexit() handlers. */
static _Noreturn void run_child(struct local *local, pid_t parent) {
    int result = EXIT_FAILURE;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        result = run_body(local);
    }
    fflush(NULL);
    _exit(result == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Collects the child if it has ended. */
static bool is_running(struct local *local) {
    int status;

    if (local->pid == 0) {
        return false;
    }
    if (waitpid(local->pid, &status, WNOHANG) == 0) {
        return true;
    }
    local->result = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
    local->pid = 0;
    mark_ended(local);
    return false;
}

static void kill_all(struct local *local, uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (local[rank].pid != 0) {
            kill(local[rank].pid, SIGKILL);
        }
    }
}

static void wait_for_children(struct local *local, uint32_t ranks, uint64_t deadline_ns) {
    struct timespec pause = {.tv_nsec = 1000000};
    uint32_t running = ranks;

    while (running > 0) {
        running = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            running += is_running(&local[rank]);
        }
        if (running > 0 && deadline_ns && tu_now_ns() >= deadline_ns) {
            kill_all(local, ranks);
        }
        if (running > 0) {
            nanosleep(&pause, NULL);
        }
    }
}

static int run_processes(struct local *local, uint32_t ranks, int timeout_ms) {
    uint64_t deadline_ns = timeout_ms > 0 ? tu_now_ns() + (uint64_t)timeout_ms * 1000000u : 0;
    pid_t parent = getpid();
    uint32_t started = 0;

    fflush(NULL); /* or the children would write it again */
    while (started < ranks) {
        pid_t pid = fork();

        if (pid == 0) {
            run_child(&local[started], parent);
        }
        if (pid < 0) {
            break;
        }
        local[started++].pid = pid;
    }
    if (started < ranks) {
        kill_all(local, started);
    }
    wait_for_children(local, started, deadline_ns);
    return started == ranks ? count_failed(local, ranks) : -1;
}

int tu_local_run(enum tu_local_kind kind, uint32_t ranks, tu_local_body *body, void *context,
                 int timeout_ms) {
    size_t bytes = sizeof(struct hall) + ranks * sizeof(struct seat);
    struct local *local = tu_alloc(0, ranks, sizeof *local);
    struct hall *hall = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int failed = -1;

    if (local && hall != MAP_FAILED) {
        hall->ranks = ranks;
        hall->deadline_ns = timeout_ms > 0 ? tu_now_ns() + (uint64_t)timeout_ms * 1000000u / 2 : 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            local[rank] =
                (struct local){.hall = hall, .rank = rank, .body = body, .context = context};
        }
        failed = kind == TU_LOCAL_THREADS ? run_threads(local, ranks)
                                          : run_processes(local, ranks, timeout_ms);
    }
    if (hall != MAP_FAILED) {
        munmap(hall, bytes);
    }
    free(local);
    return failed;
}
