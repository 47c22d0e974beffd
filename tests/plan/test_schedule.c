/*
 * The broadcast schedules: known vectors, and for every rank count to 1399 (and samples above) the
 * conditions that make a broadcast right. The plans made of them are proved in test_algorithms.c.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "collectives/schedule.h"
#include "scale.h"

Test(schedule, known_vectors, .timeout = 10) {
    const int32_t of_5[3][5] = {{-3, 0, -3, -2, -1}, {-1, -1, 1, -3, -2}, {-2, -2, -1, 2, 0}};
    const int32_t of_6[3][6] = {
        {-2, 0, -3, -2, -1, -3}, {-3, -2, 1, -3, -2, -1}, {-1, -1, -1, 2, 0, 1}};
    struct tu_skips five = tu_skips_of(5), six = tu_skips_of(6);
    int32_t block[TU_MAX_SKIPS];
    for (uint32_t v = 0; v < 6; v++) {
        if (v < 5)
            tu_receive_schedule(&five, v, block);
        for (uint32_t k = 0; v < 5 && k < 3; k++)
            cr_assert_eq(block[k], of_5[k][v], "p = 5, v = %u, k = %u: %d", v, k, block[k]);
        tu_receive_schedule(&six, v, block);
        for (uint32_t k = 0; k < 3; k++)
            cr_assert_eq(block[k], of_6[k][v], "p = 6, v = %u, k = %u: %d", v, k, block[k]);
    }
}

/* A base block is the last skip of the greedy sum; sums end at v. */
Test(schedule, base_blocks, .timeout = 10) {
    const uint32_t of_5[5] = {3, 0, 1, 2, 0}, of_6[6] = {3, 0, 1, 2, 0, 1};
    struct tu_skips five = tu_skips_of(5), six = tu_skips_of(6);
    for (uint32_t v = 0; v < 5; v++)
        cr_assert_eq(tu_base_block(&five, v), of_5[v]);
    for (uint32_t v = 0; v < 6; v++)
        cr_assert_eq(tu_base_block(&six, v), of_6[v]);
}

/* Within q rounds each rank receives the q blocks of a phase: all of -1 .. -q, but for one that it
 * had a phase earlier, as its base block. */
static void expect_all_blocks(uint32_t p, uint32_t v, const struct tu_skips *skips,
                              const int32_t *receive) {
    int32_t q = (int32_t)skips->q, base = (int32_t)tu_base_block(skips, v);
    uint64_t seen = 0;
    for (int32_t k = 0; k < q; k++) {
        int32_t block = receive[k] >= 0 ? receive[k] - q : receive[k];
        cr_assert(block < 0 && block >= -q, "p = %u, v = %u, k = %d: %d", p, v, k, receive[k]);
        cr_assert(receive[k] < 0 || (v > 0 && receive[k] == base),
                  "p = %u, v = %u, k = %d: %d, base block %d", p, v, k, receive[k], base);
        seen |= (uint64_t)1 << -block;
    }
    cr_assert_eq(seen, ((uint64_t)2 << q) - 2, "p = %u, v = %u: a block is missing", p, v);
}

/* A rank sends what it has: the base block of the phase before, or what it received this phase. */
static void expect_sendable(uint32_t p, uint32_t v, const struct tu_skips *skips,
                            const int32_t *receive, const int32_t *send) {
    int32_t q = (int32_t)skips->q, base = (int32_t)tu_base_block(skips, v);
    for (int32_t k = 0; k < q; k++) {
        bool has = send[k] == base - q;
        for (int32_t j = 0; j < k; j++)
            has = has || send[k] == receive[j];
        cr_assert(has, "p = %u, v = %u sends %d in round %d", p, v, send[k], k);
    }
}

static void expect_schedules(uint32_t p) {
    struct tu_skips skips = tu_skips_of(p);
    uint32_t q = skips.q;
    int32_t *receive = malloc(p * (q + 1) * sizeof *receive), send[TU_MAX_SKIPS];
    for (uint32_t v = 0; v < p; v++)
        tu_receive_schedule(&skips, v, receive + v * q);
    for (uint32_t v = 0; v < p; v++) {
        expect_all_blocks(p, v, &skips, receive + v * q);
        tu_send_schedule(&skips, v, send);
        for (uint32_t k = 0; k < q; k++) {
            uint32_t to = (v + skips.s[k]) % p;
            cr_assert_eq(send[k], receive[to * q + k], "p = %u, v = %u, k = %u", p, v, k);
            cr_assert(v > 0 || send[k] == (int32_t)k, "p = %u: the root's round %u", p, k);
        }
        if (v > 0)
            expect_sendable(p, v, &skips, receive + v * q, send);
    }
    free(receive);
}

Test(schedule, conditions, .timeout = 60) {
    for (uint32_t p = 1; p <= SCHEDULES_TO; p++)
        expect_schedules(p);
}

Test(schedule, conditions_for_larger_samples, .timeout = 60) {
    const uint32_t sample[] = {1666, 2047, 2048,  2049,  2500,  4095,
                               4096, 4097, 10007, 65537, 100000};
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++)
        expect_schedules(sample[i]);
}

/* One rank of a very large job, where a search that is not logarithmic would not end. */
Test(schedule, a_rank_among_four_billion, .timeout = 10) {
    struct tu_skips skips = tu_skips_of(UINT32_MAX);
    int32_t receive[TU_MAX_SKIPS], send[TU_MAX_SKIPS];
    for (uint32_t i = 1; i <= 2000; i++) {
        uint32_t v = (uint32_t)(((uint64_t)UINT32_MAX * i) / 2001);
        tu_receive_schedule(&skips, v, receive);
        expect_all_blocks(UINT32_MAX, v, &skips, receive);
        tu_send_schedule(&skips, v, send);
        expect_sendable(UINT32_MAX, v, &skips, receive, send);
    }
}
