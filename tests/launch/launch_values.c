/*
 * Values: every type and operation, counts from 0 to over a million, in place and not, against values
 * that each rank can compute by itself; and the same bits on all ranks.
 */
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

int main(int argc, char **argv) {
    static const struct launched_test tests[] = {
        {"small", small},       {"large", large},
        {"bits", bits},         {"bcast_small", bcast_small},
        {"bcast", bcast_large}, {0}};
    return launched_main(argc, argv, tests);
}
