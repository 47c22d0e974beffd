/*
 * Values: every type and operation, counts from 0 to over a million, in place and not, against values
 * that each rank can compute by itself; and the same bits on all ranks.
 */
#define _GNU_SOURCE /* setenv, clock_gettime */
#include <time.h>

#include "api/job.h"
#include "launched.h"

static const char *const type_name[] = {"i32", "i64", "f32", "f64"};

/* Contribution of a rank: small whole numbers, so that all orders of evaluation give the same. */
static int64_t contribution(int rank, size_t i, tutti_op op) {
    if (op == TUTTI_PROD)
        return 1 + (int64_t)((i + (size_t)rank) % 3 == 0);
    if (op >= TUTTI_LAND && op <= TUTTI_LXOR)
        return (int64_t)((i >> rank % 5) % 3 != 0) * 7;
    return (int64_t)((i * 2654435761u >> 7) % 1000) - 300 + 13 * rank;
}

static int64_t combine(int64_t a, int64_t b, tutti_op op) {
    switch (op) {
    case TUTTI_SUM:
        return a + b;
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_LAND:
        return a && b;
    case TUTTI_LOR:
        return a || b;
    case TUTTI_LXOR:
        return !a != !b;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* A period that all contributions have in common would hide wrong places; elements are all checked. */
static int64_t expected(int ranks, size_t i, tutti_op op) {
    int64_t value = contribution(0, i, op);
    for (int r = 1; r < ranks; r++)
        value = combine(value, contribution(r, i, op), op);
    return value;
}

static void put(void *buffer, size_t i, tutti_type type, int64_t value) {
    switch (type) {
    case TUTTI_I32:
        ((int32_t *)buffer)[i] = (int32_t)value;
        break;
    case TUTTI_I64:
        ((int64_t *)buffer)[i] = value;
        break;
    case TUTTI_F32:
        ((float *)buffer)[i] = (float)value;
        break;
    default:
        ((double *)buffer)[i] = (double)value;
    }
}

static double get(const void *buffer, size_t i, tutti_type type) {
    switch (type) {
    case TUTTI_I32:
        return ((const int32_t *)buffer)[i];
    case TUTTI_I64:
        return (double)((const int64_t *)buffer)[i];
    case TUTTI_F32:
        return (double)((const float *)buffer)[i];
    default:
        return ((const double *)buffer)[i];
    }
}

static void fill(void *buffer, size_t count, tutti_type type, tutti_op op, int rank) {
    for (size_t i = 0; i < count; i++)
        put(buffer, i, type, contribution(rank, i, op));
}

static void check(struct ranks *ranks, const void *buffer, size_t count, tutti_type type,
                  tutti_op op, const int64_t *want, const char *how) {
    for (size_t i = 0; i < count; i++)
        REQUIRE(get(buffer, i, type) == (double)want[i],
                "%s, op %d, %zu elements, %s: element %zu is %g, not %g", type_name[type], op,
                count, how, i, get(buffer, i, type), (double)want[i]);
}

static void one(struct ranks *ranks, size_t count, tutti_type type, tutti_op op,
                const int64_t *want) {
    size_t bytes = count * tutti_type_size(type);
    char *source = malloc(bytes + 8), *target = malloc(bytes + 8);
    REQUIRE(source && target, "no memory");
    fill(source, count, type, op, ranks->rank);
    memset(target, 0x5a, bytes + 8);
    SUCCEED(tutti_allreduce(source, target, count, type, op, ranks->world));
    check(ranks, target, count, type, op, want, "out of place");
    for (int i = 0; i < 8; i++)
        REQUIRE(target[bytes + (size_t)i] == 0x5a, "wrote beyond the target");
    SUCCEED(tutti_allreduce(TUTTI_IN_PLACE, source, count, type, op, ranks->world));
    check(ranks, source, count, type, op, want, "in place");
    free(source);
    free(target);
}

static void values(struct ranks *ranks, size_t count) {
    int64_t *want = malloc((count + 1) * sizeof *want);
    REQUIRE(want, "no memory");
    for (int op = TUTTI_SUM; op <= TUTTI_BXOR; op++) {
        for (size_t i = 0; i < count; i++)
            want[i] = expected(ranks->size, i, (tutti_op)op);
        for (int type = TUTTI_I32; type <= TUTTI_F64; type++)
            if (op <= TUTTI_MAX || type <= TUTTI_I64)
                one(ranks, count, (tutti_type)type, (tutti_op)op, want);
    }
    free(want);
}

static void small(struct ranks *ranks) {
    static const size_t count[] = {0, 1, 2, 7, 1023};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        values(ranks, count[i]);
}

static void large(struct ranks *ranks) {
    values(ranks, (1 << 20) + 3);
}

/* Unaligned buffers of every offset, and sums whose rounding depends on the order: same bits. */
static void bits(struct ranks *ranks) {
    enum { COUNT = 5000 };
    static char memory[COUNT * 4 + 64];
    static float mine[COUNT], first[COUNT];
    for (size_t offset = 0; offset < 8; offset++) {
        char *target = memory + offset;
        for (size_t i = 0; i < COUNT; i++)
            mine[i] = 1.0f / (float)(i + 3 + (size_t)ranks->rank * 17);
        memcpy(target, mine, sizeof mine);
        SUCCEED(tutti_allreduce(TUTTI_IN_PLACE, target, COUNT, TUTTI_F32, TUTTI_SUM, ranks->world));
        memcpy(mine, target, sizeof mine);
        memcpy(first, target, sizeof first);
        SUCCEED(tutti_bcast(first, COUNT, TUTTI_F32, 0, ranks->world));
        REQUIRE(memcmp(mine, first, sizeof mine) == 0, "bits differ from rank 0's, offset %zu",
                offset);
    }
}

static void broadcast(struct ranks *ranks, int32_t *buffer, size_t count, int root) {
    for (size_t i = 0; i < count; i++)
        buffer[i] = ranks->rank == root ? (int32_t)i + root : -1;
    buffer[count] = 77;
    SUCCEED(tutti_bcast(buffer, count, TUTTI_I32, root, ranks->world));
    for (size_t i = 0; i < count; i++)
        REQUIRE(buffer[i] == (int32_t)i + root, "root %d, %zu elements: element %zu", root, count,
                i);
    REQUIRE(buffer[count] == 77, "wrote beyond the buffer");
}

static void broadcasts(struct ranks *ranks, const size_t *count, size_t counts) {
    int32_t *buffer = malloc((count[counts - 1] + 1) * sizeof *buffer);
    REQUIRE(buffer, "no memory");
    for (size_t c = 0; c < counts; c++)
        for (int root = 0; root < ranks->size; root++)
            broadcast(ranks, buffer, count[c], root);
    free(buffer);
}

static void bcast_small(struct ranks *ranks) {
    static const size_t count[] = {0, 1, 2, 7, 14, 15, 1023, 40000};
    broadcasts(ranks, count, sizeof count / sizeof *count);
}

static void bcast_large(struct ranks *ranks) {
    static const size_t count[] = {(1 << 20) + 3};
    broadcasts(ranks, count, 1);
}

/* ---- every algorithm that these ranks can run, by its word ---- */

enum { EDGE = 64, GUARD = 0x5a };

/* Buffers that start anywhere, between guards. */
struct odd_buffers {
    char *memory;
    char *source, *target;
    size_t bytes, whole;
};

static struct odd_buffers odd_make(struct ranks *ranks, size_t bytes, size_t skew) {
    struct odd_buffers b = {.bytes = bytes, .whole = 2 * (bytes + EDGE) + EDGE};
    b.memory = malloc(b.whole);
    REQUIRE(b.memory, "no memory");
    memset(b.memory, GUARD, b.whole);
    b.source = b.memory + EDGE / 2 + skew % 8;
    b.target = b.source + bytes + EDGE / 2 + skew * 5 % 13;
    return b;
}

static void check_guard(struct ranks *ranks, const char *from, const char *to) {
    for (; from < to; from++)
        REQUIRE(*from == GUARD, "wrote %td bytes before what is not its own", to - from);
}

static void odd_free(struct ranks *ranks, struct odd_buffers *b) {
    check_guard(ranks, b->memory, b->source);
    check_guard(ranks, b->source + b->bytes, b->target);
    check_guard(ranks, b->target + b->bytes, b->memory + b->whole);
    free(b->memory);
}

/* Both ways; `mine` and `want` are the contribution and the result, bit by bit. NULL: any result. */
static void odd_call(struct ranks *ranks, const void *mine, const void *want, size_t count,
                     tutti_type type, tutti_op op, size_t skew, char *result) {
    size_t bytes = count * tutti_type_size(type);
    struct odd_buffers b = odd_make(ranks, bytes, skew);
    if (bytes)
        memcpy(b.source, mine, bytes);
    SUCCEED(tutti_allreduce(b.source, b.target, count, type, op, ranks->world));
    REQUIRE(!bytes || memcmp(b.source, mine, bytes) == 0, "changed the source");
    if (bytes && result)
        memcpy(result, b.target, bytes);
    REQUIRE(!bytes || !want || memcmp(b.target, want, bytes) == 0,
            "%s, op %d, %zu elements, skew %zu: wrong bits", type_name[type], op, count, skew);
    SUCCEED(tutti_allreduce(TUTTI_IN_PLACE, b.source, count, type, op, ranks->world));
    REQUIRE(!bytes || memcmp(b.source, b.target, bytes) == 0,
            "%s, op %d, %zu elements, skew %zu: other bits in place", type_name[type], op, count,
            skew);
    odd_free(ranks, &b);
}

/* Values that every order of evaluation gives alike. */
static void odd_values(struct ranks *ranks, size_t count, size_t skew) {
    double *mine = calloc(count + 1, sizeof *mine), *want = calloc(count + 1, sizeof *want);
    REQUIRE(mine && want, "no memory");
    for (int op = TUTTI_SUM; op <= TUTTI_BXOR; op++)
        for (int type = TUTTI_I32; type <= (op <= TUTTI_MAX ? TUTTI_F64 : TUTTI_I64); type++) {
            fill(mine, count, (tutti_type)type, (tutti_op)op, ranks->rank);
            for (size_t i = 0; i < count; i++)
                put(want, i, (tutti_type)type, expected(ranks->size, i, (tutti_op)op));
            odd_call(ranks, mine, want, count, (tutti_type)type, (tutti_op)op, skew++, NULL);
        }
    free(mine);
    free(want);
}

static float rough(int rank, size_t i) {
    return 1.0f / (float)(i + 3 + (size_t)rank * 17);
}

/* Sums that round: the left fold where that is claimed, and the same bits on all ranks anyhow. */
static void odd_bits(struct ranks *ranks, size_t count, bool left_fold, size_t skew) {
    float *mine = malloc(count * 3 * sizeof *mine), *want = mine + count, *got = want + count;
    REQUIRE(mine, "no memory");
    for (size_t i = 0; i < count; i++) {
        mine[i] = rough(ranks->rank, i);
        want[i] = rough(0, i);
        for (int r = 1; r < ranks->size; r++)
            want[i] += rough(r, i);
    }
    odd_call(ranks, mine, left_fold ? want : NULL, count, TUTTI_F32, TUTTI_SUM, skew, (char *)got);
    for (size_t i = 0; i < count; i++)
        REQUIRE(got[i] > want[i] * 0.9999f && got[i] < want[i] * 1.0001f,
                "element %zu of %zu is %g", i, count, (double)got[i]);
    memcpy(want, got, count * sizeof *want);
    SUCCEED(tutti_bcast(want, count, TUTTI_F32, 0, ranks->world));
    REQUIRE(memcmp(want, got, count * sizeof *want) == 0, "other bits than on rank 0");
    free(mine);
}

static void forced_allreduce(struct ranks *ranks, const struct tu_algorithm *algorithm) {
    static const size_t count[] = {0, 1, 3, 7, 13, 14, 15, 511, 1003, 9001};
    enum { COUNTS = sizeof count / sizeof *count };
    for (size_t c = 0; c < COUNTS; c++)
        odd_values(ranks, count[c], c);
    for (size_t skew = 0; skew < 8; skew++)
        odd_bits(ranks, 1 + skew * 997, algorithm->left_fold, skew);
    odd_bits(ranks, 100003, algorithm->left_fold, 3);
}

/* From every root; elements are single ones up to the doubles' 8 bytes. */
static void forced_bcast(struct ranks *ranks, const struct tu_algorithm *algorithm) {
    static const size_t count[] = {0, 1, 3, 7, 13, 14, 15, 1003, 9001, 100003};
    (void)algorithm;
    for (size_t c = 0; c < sizeof count / sizeof *count; c++)
        for (int root = 0; root < ranks->size; root++) {
            tutti_type type = (tutti_type)((c + (size_t)root) % 4);
            size_t bytes = count[c] * tutti_type_size(type);
            struct odd_buffers b = odd_make(ranks, bytes, c + (size_t)root);
            for (size_t i = 0; i < bytes; i++) {
                b.source[i] = (char)(i * 2654435761u >> 9 ^ (size_t)root);
                b.target[i] = ranks->rank == root ? b.source[i] : (char)~b.source[i];
            }
            SUCCEED(tutti_bcast(b.target, count[c], type, root, ranks->world));
            REQUIRE(memcmp(b.source, b.target, bytes) == 0, "%zu bytes from root %d", bytes, root);
            odd_free(ranks, &b);
        }
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* the same one for all ranks of the host */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Nobody leaves before the last one has come, whoever that is. */
static void forced_barrier(struct ranks *ranks, const struct tu_algorithm *algorithm) {
    (void)algorithm;
    for (int i = 0; i < 20 * ranks->size; i++) {
        if (i % ranks->size == ranks->rank)
            usleep(300);
        int64_t came = now_ns(), last;
        SUCCEED(tutti_barrier(ranks->world));
        int64_t left = now_ns();
        SUCCEED(tutti_allreduce(&came, &last, 1, TUTTI_I64, TUTTI_MAX, ranks->world));
        REQUIRE(left >= last, "left %lld ns before the last rank came", (long long)(last - left));
    }
}

static void forced(struct ranks *ranks) {
    static const char *const knob[] = {"TUTTI_BARRIER", "TUTTI_BCAST", "TUTTI_ALLREDUCE"};
    static void (*const run[])(struct ranks *, const struct tu_algorithm *) = {
        forced_barrier, forced_bcast, forced_allreduce};
    static const char *const slot[] = {"4K", "64K"};
    uint32_t n, met = 0;
    const struct tu_algorithm *all = tu_algorithms(&n);
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].unsuitable && all[i].unsuitable(ranks->job->nodes))
            continue;
        set_knob(ranks, knob[all[i].collective], all[i].name);
        set_knob(ranks, "TUTTI_SHARE", slot[(i + (uint32_t)ranks->size) % 2]);
        rejoin(ranks);
        const char *word =
            tutti_algorithm(ranks->world, (tutti_call)all[i].collective, 100, TUTTI_I32, TUTTI_SUM);
        REQUIRE(word && strcmp(word, all[i].name) == 0, "%s runs, not %s", word, all[i].name);
        run[all[i].collective](ranks, &all[i]);
        set_knob(ranks, knob[all[i].collective], "");
        met++;
    }
    REQUIRE(met >= 11, "only %u algorithms could be forced", met);
}

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {{"small", small},
                                                 {"large", large},
                                                 {"bits", bits},
                                                 {"bcast_small", bcast_small},
                                                 {"bcast", bcast_large},
                                                 {"forced", forced},
                                                 {0}};
    return launched_main(argc, argv, tests);
}
