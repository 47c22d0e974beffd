/* Copies of all lengths between all places of a vector: every byte arrives, and none beside. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "collectives/copy.h"

enum { MOST = 3 * TU_COPY_LONG, ROOM = MOST + 256 };

typedef void copier(void *to, const void *from, size_t bytes);

static void expect(copier *copy, size_t to, size_t from, size_t bytes) {
    static _Alignas(64) uint8_t source[ROOM], target[ROOM];
    for (size_t i = 0; i < ROOM; i++) {
        source[i] = (uint8_t)(i * 7 + i / 251);
        target[i] = 0xee;
    }
    copy(target + to, source + from, bytes);
    for (size_t i = 0; i < ROOM; i++) {
        uint8_t want = i >= to && i < to + bytes ? source[from + i - to] : 0xee;
        cr_assert_eq(target[i], want, "%zu bytes from %zu to %zu: byte %zu", bytes, from, to, i);
    }
}

static void expect_copy(size_t to, size_t from, size_t bytes) {
    expect(tu_copy_bytes, to, from, bytes);
    expect(tu_copy_stream, to, from, bytes);
}

Test(copy, lengths, .timeout = 30) {
    for (size_t bytes = 0; bytes <= MOST; bytes += bytes < 300 || bytes > MOST - 300 ? 1 : 61)
        expect_copy(16, 0, bytes);
    for (size_t bytes = TU_COPY_LONG - 2; bytes <= TU_COPY_LONG + 130; bytes++)
        expect_copy(0, 16, bytes);
}

Test(copy, places, .timeout = 30) {
    for (size_t to = 0; to < 70; to++)
        for (size_t from = 0; from < 70; from += 5)
            expect_copy(to, from, TU_COPY_LONG + 77);
}
