/*
 * Values with a closed form: small integers, exact in every type, whose result is known for any number
 * of ranks and differs from place to place, so that a misplaced block shows.
 */
#include "apps/bench.h"

#include <string.h>

enum { LINE_BYTES = 64 };

/* ---- closed forms ---- */

/* The rank whose element i is the odd one out. */
static bool is_chosen(const struct bench_values *v, int rank, uint64_t at) {
    return ((uint64_t)rank + at) % (uint64_t)v->ranks == 0;
}

static int64_t base(uint64_t at) {
    return (int64_t)(at * 5 & 7);
}

/* 0 + 1 + ... + 15 + 0 + 1 ..., of the ranks' last four bits */
static int64_t rank_sum(int64_t ranks) {
    int64_t rest = ranks % 16;
    return ranks / 16 * 120 + rest * (rest - 1) / 2;
}

int64_t bench_source(const struct bench_values *v, int rank, size_t i, unsigned salt) {
    uint64_t at = i + salt, ranks = (uint64_t)v->ranks;
    bool odd = at & 1;
    if (v->call == BENCH_BCAST)
        return base(at) + (v->rootless ? 0 : rank & 15) + 1;
    switch (v->op) {
    case BENCH_SUM:
        return base(at) + (rank & 15) * (odd + 1);
    case BENCH_PROD: /* of at % 4 twos, if there are as many ranks */
        return ((uint64_t)rank + at) % ranks < at % 4 ? 2 : 1;
    case BENCH_MIN:
    case BENCH_MAX:
        return base(at) + (int64_t)(((uint64_t)rank + at) % ranks);
    case BENCH_LAND:
        return odd || !is_chosen(v, rank, at);
    case BENCH_LOR:
    case BENCH_LXOR:
        return odd && is_chosen(v, rank, at);
    case BENCH_BAND:
        return is_chosen(v, rank, at) ? ~((int64_t)1 << at % 30) : -1;
    default: /* bor, bxor */
        return is_chosen(v, rank, at) ? (int64_t)1 << at % 30 : 0;
    }
}

int64_t bench_result(const struct bench_values *v, int root, size_t i, unsigned salt) {
    uint64_t at = i + salt, ranks = (uint64_t)v->ranks, twos = at % 4;
    if (v->call == BENCH_BCAST)
        return bench_source(v, root, i, salt);
    switch (v->op) {
    case BENCH_SUM:
        return v->ranks * base(at) + rank_sum(v->ranks) * ((at & 1) + 1);
    case BENCH_PROD:
        return (int64_t)1 << (twos < ranks ? twos : ranks);
    case BENCH_MIN:
        return base(at);
    case BENCH_MAX:
        return base(at) + v->ranks - 1;
    case BENCH_LAND:
    case BENCH_LOR:
    case BENCH_LXOR:
        return at & 1;
    case BENCH_BAND:
        return ~((int64_t)1 << at % 30);
    default:
        return (int64_t)1 << at % 30;
    }
}

/* ---- in memory ---- */

union element {
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
};

static union element element_of(enum bench_type type, int64_t value) {
    union element element = {.i64 = 0};
    switch (type) {
    case BENCH_I32:
        element.i32 = (int32_t)value;
        break;
    case BENCH_F32:
        element.f32 = (float)value;
        break;
    case BENCH_F64:
        element.f64 = (double)value;
        break;
    default:
        element.i64 = value;
    }
    return element;
}

static double value_of(enum bench_type type, const union element *element) {
    switch (type) {
    case BENCH_I32:
        return element->i32;
    case BENCH_F32:
        return (double)element->f32;
    case BENCH_F64:
        return element->f64;
    default:
        return (double)element->i64;
    }
}

void bench_fill(const struct bench_values *v, int rank, unsigned salt, void *source, size_t count) {
    size_t bytes = bench_type_bytes(v->type);
    for (size_t i = 0; i < count; i++) {
        union element element = element_of(v->type, bench_source(v, rank, i, salt));
        memcpy((char *)source + i * bytes, &element, bytes);
    }
}

void bench_change(const struct bench_values *v, int rank, unsigned salt, void *source,
                  size_t count) {
    size_t bytes = bench_type_bytes(v->type), end = count * bytes;
    union element element = element_of(v->type, bench_source(v, rank, 0, salt));
    if (bytes == 4)
        for (size_t at = 0; at < end; at += LINE_BYTES)
            memcpy((char *)source + at, &element.i32, 4);
    else
        for (size_t at = 0; at < end; at += LINE_BYTES)
            memcpy((char *)source + at, &element.i64, 8);
}

void bench_spoil(enum bench_type type, void *target, size_t count) {
    size_t bytes = bench_type_bytes(type);
    union element element = element_of(type, -99);
    for (size_t i = 0; i < count; i++)
        memcpy((char *)target + i * bytes, &element, bytes);
}

size_t bench_check(const struct bench_values *v, int root, unsigned salt, const unsigned *line_salt,
                   const void *target, size_t count, double *wanted, double *found) {
    size_t bytes = bench_type_bytes(v->type);
    for (size_t i = 0; i < count; i++) {
        bool changed = line_salt && i * bytes % LINE_BYTES == 0;
        int64_t result =
            changed ? bench_result(v, root, 0, *line_salt) : bench_result(v, root, i, salt);
        union element right = element_of(v->type, result);
        union element element;
        memcpy(&element, (const char *)target + i * bytes, bytes);
        if (memcmp(&element, &right, bytes) == 0)
            continue;
        *wanted = value_of(v->type, &right);
        *found = value_of(v->type, &element);
        return i;
    }
    return count;
}

uint64_t bench_read(const void *target, size_t bytes) {
    uint64_t sum = 0;
    for (size_t at = 0; at + sizeof(uint32_t) <= bytes; at += LINE_BYTES) {
        uint32_t word;
        memcpy(&word, (const char *)target + at, sizeof word);
        sum += word;
    }
    return sum;
}
