/*
 * Memory of tutti_alloc: blocks, misuse, what peers see of them, and collectives in which each rank uses
 * it or not, overwritten and freed as soon as a call has returned.
 */
#include "api/job.h"
#include "launched.h"

#define ANSWERS(call, want)                                                                        \
    do {                                                                                           \
        tutti_status status_ = (call);                                                             \
        REQUIRE(status_ == (want), "%s, not %s", tutti_status_string(status_),                     \
                tutti_status_string(want));                                                        \
    } while (0)

static tutti_counters counters(struct ranks *ranks) {
    tutti_counters c = {.size = sizeof c};
    SUCCEED(tutti_get_counters(ranks->job, &c));
    return c;
}

static void *take(struct ranks *ranks, size_t bytes) {
    void *memory = NULL;
    SUCCEED(tutti_alloc(ranks->job, bytes, &memory));
    REQUIRE(memory, "%zu bytes are NULL", bytes);
    REQUIRE((uintptr_t)memory % (bytes < 4096 ? 64 : 4096) == 0, "%zu bytes at %p", bytes, memory);
    return memory;
}

/* ---- blocks ---- */

enum { BLOCKS = 40 };

static void blocks(struct ranks *ranks) {
    unsigned char *block[BLOCKS];
    size_t bytes[BLOCKS];
    unsigned state = (unsigned)ranks->rank + 1;
    bool shared = counters(ranks).heap_bytes > 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            bytes[i] = next(&state) % 3 ? next(&state) % 5000 : next(&state) % 1000000;
            block[i] = take(ranks, bytes[i]);
            memset(block[i], i + 1, bytes[i]);
        }
        REQUIRE((counters(ranks).heap_used_bytes > 0) == shared, "nothing is in use");
        for (int k = 0; k < BLOCKS; k++) {
            int i = k * 7 % BLOCKS;
            for (size_t b = 0; b < bytes[i]; b++)
                REQUIRE(block[i][b] == i + 1, "byte %zu of block %d was changed", b, i);
            SUCCEED(tutti_free(ranks->job, block[i]));
        }
        REQUIRE(counters(ranks).heap_used_bytes == 0, "something is in use");
    }
}

static void heap(struct ranks *ranks) {
    REQUIRE(counters(ranks).heap_bytes == UINT64_C(1) << 30, "%llu bytes of heap",
            (unsigned long long)counters(ranks).heap_bytes);
    blocks(ranks);
}

static void no_heap(struct ranks *ranks) {
    REQUIRE(counters(ranks).heap_bytes == 0, "there is a heap");
    blocks(ranks);
}

/* A heap of 1 MiB: the rest is private. */
static void exhausted(struct ranks *ranks) {
    char *first = take(ranks, 700000), *second = take(ranks, 700000), *third = take(ranks, 700000);
    tutti_counters c = counters(ranks);
    REQUIRE(c.heap_used_bytes >= 700000 && c.heap_used_bytes <= 704512, "%llu bytes in use",
            (unsigned long long)c.heap_used_bytes);
    memset(first, 1, 700000);
    memset(second, 2, 700000);
    memset(third, 3, 700000);
    SUCCEED(tutti_free(ranks->job, second));
    SUCCEED(tutti_free(ranks->job, first));
    REQUIRE(counters(ranks).heap_used_bytes == 0, "something is in use");
    first = take(ranks, 700000);
    REQUIRE(counters(ranks).heap_used_bytes > 0, "the heap has room again");
    ANSWERS(tutti_free(ranks->job, second), TUTTI_ERR_ARG);
    REQUIRE(third[0] == 3 && third[699999] == 3, "another block was freed");
}

/* Blocks of both kinds that finalize has to free; a new job begins with nothing in use. */
static void left(struct ranks *ranks) {
    for (int i = 0; i < 3; i++) {
        char *block = take(ranks, 700000);
        memset(block, 1, 700000);
        rejoin(ranks);
        REQUIRE(counters(ranks).heap_used_bytes == 0, "something is in use");
        if (ranks->size > 1)
            ANSWERS(tutti_free(ranks->job, block), TUTTI_ERR_ARG);
        memset(take(ranks, 700000), 1, 700000);
        memset(take(ranks, 700000), 1, 700000);
    }
}

static void misuse(struct ranks *ranks) {
    char *block = take(ranks, 10000), *same = block, *heap = malloc(100);
    void *memory = &memory;
    ANSWERS(tutti_alloc(NULL, 8, &memory), TUTTI_ERR_ARG);
    ANSWERS(tutti_alloc(ranks->job, 8, NULL), TUTTI_ERR_ARG);
    ANSWERS(tutti_alloc(ranks->job, SIZE_MAX, &memory), TUTTI_ERR_MEMORY);
    ANSWERS(tutti_alloc(ranks->job, SIZE_MAX - 4096, &memory), TUTTI_ERR_MEMORY);
    ANSWERS(tutti_alloc(ranks->job, (size_t)PTRDIFF_MAX + 1, &memory), TUTTI_ERR_MEMORY);
    REQUIRE(strstr(tutti_last_error(ranks->job), "no memory of"), "another text");
    REQUIRE(memory == &memory, "a failed call has set its result");
    memset(block, 5, 10000);
    SUCCEED(tutti_free(ranks->job, NULL));
    ANSWERS(tutti_free(NULL, block), TUTTI_ERR_ARG);
    ANSWERS(tutti_free(ranks->job, block + 1), TUTTI_ERR_ARG);
    ANSWERS(tutti_free(ranks->job, block + 4096), TUTTI_ERR_ARG);
    ANSWERS(tutti_free(ranks->job, block + 12288), TUTTI_ERR_ARG);
    ANSWERS(tutti_free(ranks->job, &memory), TUTTI_ERR_ARG);
    ANSWERS(tutti_free(ranks->job, heap), TUTTI_ERR_ARG);
    ANSWERS(tutti_free(ranks->job, ranks->job), TUTTI_ERR_ARG);
    REQUIRE(block[0] == 5 && block[9999] == 5, "a rejected call has changed a block");
    SUCCEED(tutti_free(ranks->job, block));
    ANSWERS(tutti_free(ranks->job, same), TUTTI_ERR_ARG);
    REQUIRE(strstr(tutti_last_error(ranks->job), "freed before"), "another text");
    void *none = take(ranks, 0);
    SUCCEED(tutti_free(ranks->job, none));
    ANSWERS(tutti_free(ranks->job, none), TUTTI_ERR_ARG);
    SUCCEED(tutti_barrier(ranks->world));
    free(heap);
}

/* ---- what peers see ---- */

/* Block and offset of the root; every other rank reads it through its mapping of the root's window. */
static void look(struct ranks *ranks, int root, size_t bytes) {
    int64_t offset = 0;
    uint64_t found;
    int32_t *block = NULL;
    if (ranks->rank == root) {
        block = take(ranks, bytes);
        REQUIRE(tu_window_heap_offset(&ranks->job->window, block, bytes, &found),
                "not in the heap");
        for (size_t i = 0; i < bytes / 4; i++)
            block[i] = (int32_t)i ^ root;
        offset = (int64_t)found;
    }
    SUCCEED(tutti_bcast(&offset, 1, TUTTI_I64, root, ranks->world));
    if (ranks->rank != root) {
        const uint8_t *window = tu_peer_of(ranks->job, (uint32_t)root)->window;
        const int32_t *seen = (const int32_t *)(window + offset);
        for (size_t i = 0; i < bytes / 4; i++)
            REQUIRE(seen[i] == ((int32_t)i ^ root), "word %zu of rank %d is %d", i, root, seen[i]);
    }
    SUCCEED(tutti_barrier(ranks->world));
    SUCCEED(tutti_free(ranks->job, block));
}

static void seen(struct ranks *ranks) {
    static const size_t bytes[] = {64, 4096, 100000, 50 << 20, 1000};
    for (int root = 0; root < ranks->size; root++)
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
            look(ranks, root, bytes[i]);
}

/* ---- collectives ---- */

/* A buffer for one call: of tutti_alloc or of malloc, where it must not make a difference. */
struct buffer {
    bool shared;
    int64_t *word;
};

static struct buffer get(struct ranks *ranks, bool shared, size_t count) {
    struct buffer buffer = {shared, NULL};
    buffer.word = shared ? take(ranks, 8 * count) : malloc(8 * count + 8);
    REQUIRE(buffer.word, "no memory");
    return buffer;
}

/* Nobody may look any more: what was in it is gone at once. */
static void drop(struct ranks *ranks, struct buffer *buffer, size_t count) {
    memset(buffer->word, 0xa5, 8 * count);
    if (buffer->shared)
        SUCCEED(tutti_free(ranks->job, buffer->word));
    else
        free(buffer->word);
}

/* Which ranks use it: all, none, every second one, or only one. */
static bool uses(struct ranks *ranks, unsigned mix) {
    switch (mix % 5) {
    case 0:
        return true;
    case 1:
        return false;
    case 2:
        return ranks->rank % 2 == 0;
    case 3:
        return ranks->rank % 2 == 1;
    default:
        return ranks->rank == (int)(mix / 5) % ranks->size;
    }
}

static int64_t value(int rank, size_t i, unsigned salt) {
    return (int64_t)(i % 1000) * (rank + 1) + (int64_t)salt * (rank + 3);
}

static int64_t sum(struct ranks *ranks, size_t i, unsigned salt) {
    int64_t p = ranks->size, ranks_sum = p * (p - 1) / 2;
    return (int64_t)(i % 1000) * (ranks_sum + p) + (int64_t)salt * (ranks_sum + 3 * p);
}

static void fill(struct ranks *ranks, struct buffer *buffer, size_t count, unsigned salt) {
    for (size_t i = 0; i < count; i++)
        buffer->word[i] = value(ranks->rank, i, salt);
}

static void check_sum(struct ranks *ranks, const struct buffer *buffer, size_t count,
                      unsigned salt) {
    for (size_t i = 0; i < count; i++)
        REQUIRE(buffer->word[i] == sum(ranks, i, salt), "call %u, element %zu of %zu is %lld", salt,
                i, count, (long long)buffer->word[i]);
}

static void reduce(struct ranks *ranks, size_t count, unsigned salt, unsigned mix) {
    struct buffer target = get(ranks, uses(ranks, mix / 2), count);
    if (mix % 2) {
        struct buffer source = get(ranks, uses(ranks, mix / 3), count);
        fill(ranks, &source, count, salt);
        SUCCEED(
            tutti_allreduce(source.word, target.word, count, TUTTI_I64, TUTTI_SUM, ranks->world));
        drop(ranks, &source, count);
    } else {
        fill(ranks, &target, count, salt);
        SUCCEED(tutti_allreduce(TUTTI_IN_PLACE, target.word, count, TUTTI_I64, TUTTI_SUM,
                                ranks->world));
    }
    check_sum(ranks, &target, count, salt);
    drop(ranks, &target, count);
}

static void broadcast(struct ranks *ranks, size_t count, unsigned salt, unsigned mix) {
    struct buffer buffer = get(ranks, uses(ranks, mix), count);
    int root = (int)(salt % (unsigned)ranks->size);
    fill(ranks, &buffer, count, salt);
    SUCCEED(tutti_bcast(buffer.word, count, TUTTI_I64, root, ranks->world));
    for (size_t i = 0; i < count; i++)
        REQUIRE(buffer.word[i] == value(root, i, salt), "call %u, element %zu of %zu is %lld", salt,
                i, count, (long long)buffer.word[i]);
    drop(ranks, &buffer, count);
}

static size_t draw_count(unsigned *state) {
    static const size_t most[] = {2, 100, 2000, 20000, 200000};
    return next(state) % most[next(state) % 5];
}

/* Ranks that come now and then late, so that others are far ahead. */
static void calls(struct ranks *ranks) {
    unsigned state = 7, own = (unsigned)ranks->rank;
    for (unsigned salt = 1; salt <= 400; salt++) {
        size_t count = draw_count(&state);
        unsigned kind = next(&state) % 3, mix = next(&state) % 1000;
        if (next(&own) % 16 == 0)
            usleep(next(&own) % 2000);
        if (kind)
            reduce(ranks, count, salt, mix);
        else
            broadcast(ranks, count, salt, mix);
    }
}

/* The same two blocks in all calls, with new values at once after each; sources that overlap calls. */
static void again(struct ranks *ranks) {
    enum { MOST = 60000 };
    struct buffer source = get(ranks, ranks->rank % 3 != 2, MOST);
    struct buffer target = get(ranks, ranks->rank % 3 != 1, MOST);
    unsigned state = 11;
    for (unsigned salt = 1; salt <= 300; salt++) {
        size_t count = draw_count(&state) % MOST, shift = next(&state) % (MOST - count);
        struct buffer from = {true, source.word + shift}, to = {true, target.word + shift};
        fill(ranks, &from, count, salt);
        SUCCEED(tutti_allreduce(from.word, to.word, count, TUTTI_I64, TUTTI_SUM, ranks->world));
        memset(source.word, 0x5a, 8 * MOST);
        check_sum(ranks, &to, count, salt);
        memset(target.word, 0xc3, 8 * MOST);
    }
    drop(ranks, &source, MOST);
    drop(ranks, &target, MOST);
}

/* Several calls under way, each freed when it has ended, in any order. */
static void requests(struct ranks *ranks) {
    enum { CALLS = 6 };
    unsigned state = 5, own = (unsigned)ranks->rank;
    for (unsigned round = 0; round < 40; round++) {
        struct buffer source[CALLS], target[CALLS];
        tutti_request request[CALLS];
        size_t count[CALLS];
        for (unsigned i = 0; i < CALLS; i++) {
            count[i] = draw_count(&state);
            source[i] = get(ranks, uses(ranks, next(&own)), count[i]);
            target[i] = get(ranks, uses(ranks, next(&own)), count[i]);
            fill(ranks, &source[i], count[i], round + i);
            SUCCEED(tutti_iallreduce(source[i].word, target[i].word, count[i], TUTTI_I64, TUTTI_SUM,
                                     ranks->world, &request[i]));
        }
        for (unsigned k = 0, i = next(&own) % CALLS; k < CALLS; k++, i = (i + 1) % CALLS) {
            SUCCEED(tutti_wait(ranks->job, &request[i]));
            drop(ranks, &source[i], count[i]);
            check_sum(ranks, &target[i], count[i], round + i);
            drop(ranks, &target[i], count[i]);
        }
    }
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"heap", heap},           {"no_heap", no_heap},
                                                 {"exhausted", exhausted}, {"left", left},
                                                 {"misuse", misuse},       {"seen", seen},
                                                 {"calls", calls},         {"again", again},
                                                 {"requests", requests},   {0}};
    return launched_main(argc, argv, tests);
}
