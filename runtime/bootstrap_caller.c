/*
 * The bootstrap over an allgather that the calling program brings (an MPI's, any launcher's, the
 * local ranks'), and the job of one rank. Every block carries a stamp, so that an allgather that mixes
 * up blocks is found, and after a failure the blocks that came tell which ranks are missing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bootstrap.h"
#include "runtime/env.h"
#include "runtime/memory.h"

struct caller {
    struct tu_boot boot;
    tutti_allgather_fn *allgather;
    void *context;
    uint32_t exchanges; /* so far: part of the stamp */
};

struct stamp {
    uint64_t what; /* hash of the key and the number of the exchange */
    uint32_t rank;
    uint32_t bytes;
};
_Static_assert(sizeof(struct stamp) == 16, "travels between ranks");

static struct caller *caller_of(struct tu_boot *boot) {
    return (struct caller *)boot; /* its first member */
}

/* FNV-1a. Never 0, which is what an empty block holds. */
static uint64_t hash(const char *key, uint32_t number) {
    uint64_t h = 14695981039346656037u ^ number;

    for (; *key; key++) {
        h = (h ^ (unsigned char)*key) * 1099511628211u;
    }
    return h | 1;
}

static bool stamped(const unsigned char *block, const struct stamp *mine, uint32_t rank) {
    struct stamp stamp;

    memcpy(&stamp, block, sizeof stamp);
    return stamp.what == mine->what && stamp.rank == rank && stamp.bytes == mine->bytes;
}

static tutti_status status_of(int code) {
    switch (code) {
    case ETIMEDOUT:
        return TUTTI_ERR_TIMEOUT;
    case EOWNERDEAD:
        return TUTTI_ERR_DEAD;
    default:
        return TUTTI_ERR_LAUNCH;
    }
}

/* The allgather has failed; it may have delivered the blocks of those that came. */
static tutti_status failed(struct caller *caller, const struct stamp *mine, const char *key,
                           const unsigned char *block, size_t each, int code) {
    struct tu_boot *boot = &caller->boot;
    struct tu_rank_list missing = {0};

    for (uint32_t rank = 0; rank < boot->size; rank++) {
        if (rank != boot->rank && !stamped(block + rank * each, mine, rank)) {
            tu_rank_list_add(&missing, rank, NULL);
        }
    }
    if (missing.count == 0 || missing.count == boot->size - 1) {
        return tu_fail(boot->env, status_of(code),
                       "the allgather given to tutti_init() returned %d in the exchange \"%s\"",
                       code, key);
    }
    return tu_fail(
        boot->env, status_of(code),
        "the allgather given to tutti_init() returned %d in the exchange \"%s\"; nothing "
        "came from %s",
        code, key, tu_rank_list_text(&missing));
}

static tutti_status check_stamps(struct caller *caller, const struct stamp *mine, const char *key,
                                 const unsigned char *block, size_t each) {
    struct tu_boot *boot = &caller->boot;

    for (uint32_t rank = 0; rank < boot->size; rank++) {
        if (!stamped(block + rank * each, mine, rank)) {
            return tu_fail(boot->env, TUTTI_ERR_LAUNCH,
                           "in the exchange \"%s\" the allgather given to tutti_init() delivered "
                           "another block in the place of rank %u's: it must put rank r's bytes at "
                           "received + r * bytes, and every rank must call tutti in the same order",
                           key, rank);
        }
    }
    return TUTTI_OK;
}

/* One allgather of stamped blocks; *gathered is for free(). */
static tutti_status gather(struct caller *caller, const char *key, const void *mine, size_t bytes,
                           unsigned char **gathered) {
    struct tu_boot *boot = &caller->boot;
    struct stamp stamp = {
        .what = hash(key, caller->exchanges++), .rank = boot->rank, .bytes = (uint32_t)bytes};
    size_t each = sizeof stamp + bytes;
    unsigned char *block;
    void *memory;
    tutti_status status =
        tu_alloc_for(boot->env, "an exchange", 0, (size_t)boot->size + 1, each, &memory);
    int code;

    if (status != TUTTI_OK) {
        return status;
    }
    block = memory;
    memcpy(block + boot->size * each, &stamp, sizeof stamp);
    if (bytes > 0) {
        memcpy(block + boot->size * each + sizeof stamp, mine, bytes);
    }
    code = caller->allgather(caller->context, block + boot->size * each, block, each);
    status = code ? failed(caller, &stamp, key, block, each, code)
                  : check_stamps(caller, &stamp, key, block, each);
    if (status != TUTTI_OK) {
        free(block);
        return status;
    }
    *gathered = block;
    return TUTTI_OK;
}

static tutti_status exchange(struct tu_boot *boot, const char *key, const void *mine, size_t bytes,
                             const uint32_t *rank, uint32_t ranks, void *out, int timeout_ms) {
    size_t each = sizeof(struct stamp) + bytes;
    unsigned char *block;
    tutti_status status = gather(caller_of(boot), key, mine, bytes, &block);

    (void)timeout_ms; /* the allgather is the caller's, and so is its patience */
    if (status != TUTTI_OK) {
        return status;
    }
    for (uint32_t i = 0; i < ranks && bytes > 0; i++) {
        uint32_t from = rank ? rank[i] : i;

        memcpy((unsigned char *)out + i * bytes, block + from * each + sizeof(struct stamp), bytes);
    }
    free(block);
    return TUTTI_OK;
}

static tutti_status fence(struct tu_boot *boot, int timeout_ms) {
    return exchange(boot, "fence", NULL, 0, NULL, 0, NULL, timeout_ms);
}

static bool lost(struct tu_boot *boot, uint32_t *rank, enum tu_loss *how) {
    (void)boot, (void)rank, (void)how;
    return false; /* nobody tells */
}

static void close_boot(struct tu_boot *boot) {
    free(boot);
}

static tutti_status make(struct tu_env *env, const struct tu_boot_ops *ops, uint32_t rank,
                         uint32_t size, tutti_allgather_fn *allgather, void *context,
                         struct tu_boot **boot) {
    struct caller *caller;
    void *memory;
    tutti_status status = tu_alloc_for(env, "the bootstrap", 0, 1, sizeof *caller, &memory);

    if (status != TUTTI_OK) {
        return status;
    }
    caller = memory;
    caller->boot = (struct tu_boot){
        .ops = ops, .env = env, .rank = rank, .size = size, .launcher_node = UINT32_MAX};
    caller->allgather = allgather;
    caller->context = context;
    *boot = &caller->boot;
    return TUTTI_OK;
}

tutti_status tu_boot_caller_open(struct tu_env *env, const struct tutti_options *options,
                                 struct tu_boot **boot) {
    static const struct tu_boot_ops ops = {"caller", exchange, fence, lost, close_boot};

    if (options->ranks < 1 || options->rank < 0 || options->rank >= options->ranks) {
        return tu_fail(env, TUTTI_ERR_ARG,
                       "struct tutti_options has an allgather, rank %d and ranks %d: the rank must "
                       "be 0 to ranks - 1",
                       options->rank, options->ranks);
    }
    return make(env, &ops, (uint32_t)options->rank, (uint32_t)options->ranks, options->allgather,
                options->allgather_context, boot);
}

static int gather_own(void *context, const void *mine, void *received, size_t bytes) {
    (void)context;
    memcpy(received, mine, bytes);
    return 0;
}

tutti_status tu_boot_single_open(struct tu_env *env, struct tu_boot **boot) {
    static const struct tu_boot_ops ops = {"single", exchange, fence, lost, close_boot};

    return make(env, &ops, 0, 1, gather_own, NULL, boot);
}
