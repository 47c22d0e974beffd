/*
 * Line cells: how they are laid out, stored, recognised and read. The only place that knows both
 * formats of transport.h.
 *
 * Everything shared is read and written as aligned words of 8 bytes: devices and processors store
 * such a word whole, so payload and flag of a word belong together.
 */
#ifndef TU_TRANSPORT_LINE_H
#define TU_TRANSPORT_LINE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "transport/transport.h"

enum { TU_CACHE_LINE = 64 };
enum { TU_LINE_WORD_PAYLOAD = 4, TU_LINE_WORDS = 1 + TU_LINE_PAYLOAD / TU_LINE_WORD_PAYLOAD };

/* Words 1, 2, ... of TU_FORMAT_WORDS; word 0 is the header. The flag stands at the same place. */
struct tu_line_word {
    uint32_t payload;
    uint32_t flag;
};
_Static_assert(sizeof(struct tu_line_header) == 8 && sizeof(struct tu_line_word) == 8, "one word");
_Static_assert(offsetof(struct tu_line_header, flag) == offsetof(struct tu_line_word, flag),
               "one flag");
_Static_assert(TU_LINE_WORDS * sizeof(struct tu_line_word) <= TU_LINE_STRIDE, "words fit the cell");
_Static_assert(sizeof(struct tu_line_header) + TU_LINE_PAYLOAD == TU_CACHE_LINE, "one line");
_Static_assert(sizeof(struct tu_line_header) + TU_BOARD_PAYLOAD == TU_BOARD_STRIDE, "whole lines");
_Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "words are plain memory to devices");

/* Words of a message of TU_FORMAT_WORDS, the header included. */
static inline size_t tu_line_words(size_t payload_bytes) {
    return 1 + (payload_bytes + TU_LINE_WORD_PAYLOAD - 1) / TU_LINE_WORD_PAYLOAD;
}

static inline uint64_t tu_line_load(const void *cell, size_t word, memory_order order) {
    return atomic_load_explicit((const _Atomic uint64_t *)cell + word, order);
}

static inline struct tu_line_word tu_line_word(const void *cell, size_t word) {
    uint64_t value = tu_line_load(cell, word, memory_order_relaxed);
    struct tu_line_word result;

    memcpy(&result, &value, sizeof result);
    return result;
}

/* The header as it stands now, arrived or not. Acquire: pairs with tu_line_store_cacheline(). */
static inline struct tu_line_header tu_line_header(const void *cell) {
    uint64_t value = tu_line_load(cell, 0, memory_order_acquire);
    struct tu_line_header header;

    memcpy(&header, &value, sizeof header);
    return header;
}

/*
 * True when use number `flag` of the cell, with `bytes` bytes of payload, is all here. In
 * TU_FORMAT_CACHELINE the header was stored last with release order, so its acquire load makes the
 * payload visible. In TU_FORMAT_WORDS words may land in any order, so every one is asked; no order
 * between them is needed, as a word that was seen once with its flag is read again with the same or
 * a newer value, and there is no newer one before the reader gives the cell back.
 */
static inline bool tu_line_arrived(const void *cell, enum tu_line_format format, uint32_t flag,
                                   size_t bytes) {
    assert(bytes <= TU_LINE_PAYLOAD);
    if (tu_line_header(cell).flag != flag)
        return false;
    if (format == TU_FORMAT_CACHELINE)
        return true;
    for (size_t i = 1; i < tu_line_words(bytes); i++)
        if (tu_line_word(cell, i).flag != flag)
            return false;
    return true;
}

/* Lines of the cache that a cell with so much payload fills behind its first one. */
static inline uint32_t tu_line_more(size_t payload_bytes) {
    return (uint32_t)((sizeof(struct tu_line_header) + payload_bytes - 1) / TU_CACHE_LINE);
}

/* Starts to fetch lines `from` to `to` of a cell that this core will read. */
static inline void tu_line_fetch(const uint8_t *cell, uint32_t from, uint32_t to) {
    for (uint32_t line = from; line <= to; line++)
        __builtin_prefetch(cell + (size_t)line * TU_CACHE_LINE);
}

/* The same for one that it will write: takes it from all other caches. */
static inline void tu_line_claim(const uint8_t *cell, uint32_t to) {
    for (uint32_t line = 0; line <= to; line++) {
        const uint8_t *at = cell + (size_t)line * TU_CACHE_LINE;
#ifdef __x86_64__ /* the compiler's own is a fetch for reading, unless it may assume newer processors */
        __asm__ volatile("prefetchw %0" : : "m"(*at));
#else
        __builtin_prefetch(at, 1);
#endif
    }
}

/* Copies the payload of a line: by words of constant size, not by a call. */
static inline void tu_line_copy(void *to, const void *from, size_t bytes) {
    char *out = to;
    const char *in = from;
    if (bytes >= 32) {
        memcpy(out, in, 16);
        memcpy(out + 16, in + 16, 16);
        if (bytes > 48)
            memcpy(out + 32, in + 32, 16);
        memcpy(out + bytes - 16, in + bytes - 16, 16);
    } else if (bytes >= 16) {
        memcpy(out, in, 16);
        memcpy(out + bytes - 16, in + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(out, in, 8);
        memcpy(out + bytes - 8, in + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(out, in, 4);
        memcpy(out + bytes - 4, in + bytes - 4, 4);
    } else {
        for (size_t i = 0; i < bytes; i++)
            out[i] = in[i];
    }
}

/* The same for the longer cells of boards: by vectors, the last of which overlaps. */
static inline void tu_board_copy(void *to, const void *from, size_t bytes) {
    if (bytes <= TU_LINE_PAYLOAD) {
        tu_line_copy(to, from, bytes);
        return;
    }
    size_t last = bytes - 32;
    for (size_t at = 0; at < last; at += 32)
        memcpy((char *)to + at, (const char *)from + at, 32);
    memcpy((char *)to + last, (const char *)from + last, 32);
}

/* Copies the payload of a cell that has arrived. */
static inline void tu_line_read(const void *cell, enum tu_line_format format, void *payload,
                                size_t bytes) {
    if (format == TU_FORMAT_CACHELINE) {
        tu_line_copy(payload, (const char *)cell + sizeof(struct tu_line_header), bytes);
        return;
    }
    for (size_t done = 0; done < bytes; done += TU_LINE_WORD_PAYLOAD) {
        struct tu_line_word word = tu_line_word(cell, 1 + done / TU_LINE_WORD_PAYLOAD);
        size_t rest = bytes - done;

        memcpy((char *)payload + done, &word.payload,
               rest < TU_LINE_WORD_PAYLOAD ? rest : TU_LINE_WORD_PAYLOAD);
    }
}

/*
 * Lays a message of TU_FORMAT_WORDS out in private memory, ready to be sent as it is. Returns the
 * number of bytes to send. Padding is zero.
 */
static inline size_t tu_line_fill_words(uint64_t words[TU_LINE_WORDS], struct tu_line_header header,
                                        const void *payload, size_t bytes) {
    assert(bytes <= TU_LINE_PAYLOAD);
    memcpy(words, &header, sizeof header);
    for (size_t done = 0; done < bytes; done += TU_LINE_WORD_PAYLOAD) {
        struct tu_line_word word = {.payload = 0, .flag = header.flag};
        size_t rest = bytes - done;

        memcpy(&word.payload, (const char *)payload + done,
               rest < TU_LINE_WORD_PAYLOAD ? rest : TU_LINE_WORD_PAYLOAD);
        memcpy(&words[1 + done / TU_LINE_WORD_PAYLOAD], &word, sizeof word);
    }
    return tu_line_words(bytes) * sizeof(struct tu_line_word);
}

/* Where the payload of TU_FORMAT_CACHELINE lies in a cell. */
static inline void *tu_line_payload(void *cell) {
    return (char *)cell + sizeof(struct tu_line_header);
}

/* Stores the header, behind which the payload lies already. Release: pairs with tu_line_header(). */
static inline void tu_line_publish(void *cell, struct tu_line_header header) {
    uint64_t value;

    memcpy(&value, &header, sizeof value);
    atomic_store_explicit((_Atomic uint64_t *)cell, value, memory_order_release);
}

/* Stores a message of TU_FORMAT_CACHELINE in shared memory: payload first, then the header. */
static inline void tu_line_store_cacheline(void *cell, struct tu_line_header header,
                                           const void *payload, size_t bytes) {
    assert(bytes <= TU_LINE_PAYLOAD);
    tu_line_copy(tu_line_payload(cell), payload, bytes);
    tu_line_publish(cell, header);
}

#endif
