/* Line cells in both formats, without a transport: layout, staleness, partial arrival, the wrap. */
#include "transport/line.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

/* A cell as a device would leave it: words of a message, some of them not there yet. */
struct cell {
    _Alignas(64) uint8_t bytes[TU_LINE_STRIDE];
};

static void payload_of(uint8_t *payload, uint32_t flag) {
    for (uint32_t i = 0; i < TU_LINE_PAYLOAD; i++)
        payload[i] = (uint8_t)(flag * 31 + i * 7 + 1);
}

static void store(struct cell *cell, enum tu_line_format format, uint32_t flag, size_t bytes) {
    struct tu_line_header header = {.fingerprint = ~flag, .flag = flag};
    uint8_t payload[TU_LINE_PAYLOAD];
    uint64_t words[TU_LINE_WORDS];

    payload_of(payload, flag);
    if (format == TU_FORMAT_CACHELINE)
        tu_line_store_cacheline(cell, header, payload, bytes);
    else
        memcpy(cell, words, tu_line_fill_words(words, header, payload, bytes));
}

static void check(const struct cell *cell, enum tu_line_format format, uint32_t flag,
                  size_t bytes) {
    uint8_t payload[TU_LINE_PAYLOAD], got[TU_LINE_PAYLOAD + 1];

    cr_assert(tu_line_arrived(cell, format, flag, bytes));
    cr_assert(not(tu_line_arrived(cell, format, flag + 1, bytes)));
    cr_assert(not(tu_line_arrived(cell, format, flag - 1, bytes)));
    cr_assert(eq(u32, tu_line_header(cell).fingerprint, ~flag));
    payload_of(payload, flag);
    memset(got, 0x77, sizeof got);
    tu_line_read(cell, format, got, bytes);
    cr_assert(eq(int, memcmp(got, payload, bytes), 0));
    cr_assert(eq(u8, got[bytes], 0x77), "reads no more than asked");
}

static void all_sizes(enum tu_line_format format) {
    struct cell cell = {{0}};
    uint32_t flag = UINT32_MAX - 30; /* wraps half way */

    for (size_t bytes = 0; bytes <= TU_LINE_PAYLOAD; bytes++, flag++) {
        store(&cell, format, flag, bytes);
        check(&cell, format, flag, bytes);
    }
    for (size_t bytes = TU_LINE_PAYLOAD; bytes < SIZE_MAX; bytes--, flag++) {
        cr_assert(not(tu_line_arrived(&cell, format, flag, bytes)));
        store(&cell, format, flag, bytes);
        check(&cell, format, flag, bytes);
    }
}

Test(line, all_sizes_as_a_cache_line, .timeout = 10) {
    all_sizes(TU_FORMAT_CACHELINE);
}

Test(line, all_sizes_as_words, .timeout = 10) {
    all_sizes(TU_FORMAT_WORDS);
}

Test(line, words_may_land_in_any_order, .timeout = 10) {
    struct cell cell = {{0}}, whole = {{0}};
    uint32_t flag = UINT32_MAX - 500;

    for (int round = 0; round < 1000; round++, flag++) {
        size_t bytes = (size_t)round % (TU_LINE_PAYLOAD + 1), words = tu_line_words(bytes);
        size_t stride = words == 1 ? 1 : 2 * (size_t)(round % 7) + 1, at = (size_t)round;
        uint8_t seen[TU_LINE_WORDS] = {0};

        store(&whole, TU_FORMAT_WORDS, flag, bytes);
        for (size_t done = 0; done < words; done++) {
            cr_assert(not(tu_line_arrived(&cell, TU_FORMAT_WORDS, flag, bytes)), "%zu of %zu words",
                      done, words);
            for (at += stride; seen[at % words]; at++)
                ;
            seen[at % words] = 1;
            memcpy(cell.bytes + at % words * 8, whole.bytes + at % words * 8, 8);
        }
        check(&cell, TU_FORMAT_WORDS, flag, bytes);
    }
}

Test(line, a_message_takes_the_words_it_needs, .timeout = 10) {
    cr_assert(eq(sz, tu_line_words(0), 1));
    cr_assert(eq(sz, tu_line_words(1), 2));
    cr_assert(eq(sz, tu_line_words(4), 2));
    cr_assert(eq(sz, tu_line_words(5), 3));
    cr_assert(eq(sz, tu_line_words(8), 3));
    cr_assert(eq(sz, tu_line_words(TU_LINE_PAYLOAD), TU_LINE_WORDS));
    cr_assert(eq(sz, sizeof(struct tu_line_word) * TU_LINE_WORDS, 120));
}

Test(line, a_source_may_have_any_alignment, .timeout = 10) {
    uint8_t source[TU_LINE_PAYLOAD + 8];
    uint64_t words[TU_LINE_WORDS];
    struct cell cell = {{0}};

    for (size_t shift = 0; shift < 8; shift++) {
        uint8_t got[9] = {0};
        payload_of(source + shift, (uint32_t)shift);
        size_t bytes = tu_line_fill_words(words, (struct tu_line_header){1, 2}, source + shift, 9);
        memcpy(&cell, words, bytes);
        tu_line_read(&cell, TU_FORMAT_WORDS, got, 9);
        cr_assert(eq(int, memcmp(got, source + shift, 9), 0));
    }
}
