/*
 * Copying blocks. memcpy of the common C library moves pieces of 2 KiB up to a good part of the L2
 * cache with one string instruction ("rep movsb"), which some processors carry out 15 times slower
 * where the target lies a few bytes above the source modulo the page (an AMD EPYC: 256 KiB in 110
 * us instead of 7). That is the usual case here: slots start with a page, and what malloc returns for
 * large pieces lies 16 bytes behind the start of one. So long pieces are moved by a loop of vectors,
 * which is as fast as memcpy at its best whatever the places.
 */
#ifndef TU_COLLECTIVES_COPY_H
#define TU_COLLECTIVES_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { TU_COPY_LONG = 1024 }; /* below, memcpy uses vectors itself */

typedef long long tu_copy_vector __attribute__((vector_size(16), aligned(1), may_alias));

/* A whole block is read before any of it is written: no load waits for a store that it resembles. Eight
   variables, as compilers put an array on the stack. */
static inline void tu_copy_128(unsigned char *to, const unsigned char *from) {
    const tu_copy_vector *in = (const void *)from;
    tu_copy_vector *out = (void *)to;
    tu_copy_vector a = in[0], b = in[1], c = in[2], d = in[3];
    tu_copy_vector e = in[4], f = in[5], g = in[6], h = in[7];
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
    out[4] = e, out[5] = f, out[6] = g, out[7] = h;
}

/* The two do not overlap. */
static inline void tu_copy_bytes(void *to, const void *from, size_t bytes) {
    unsigned char *out = to;
    const unsigned char *in = from;
    if (bytes >= TU_COPY_LONG)
        for (; bytes >= 128; bytes -= 128, out += 128, in += 128)
            tu_copy_128(out, in);
    memcpy(out, in, bytes);
}

/*
 * The same past the caches (non-temporal), in whole lines of the cache, where the compiler has such
 * stores and the piece is long. All stores are done on return: a flag stored later is seen later. It
 * pays only where nothing of the target could stay in a cache until it is read.
 */
static inline void tu_copy_stream(void *to, const void *from, size_t bytes) {
#if defined(__x86_64__)
    enum { LINE = 64, VECTORS = LINE / sizeof(__m128i) };
    unsigned char *out = to;
    const unsigned char *in = from;
    if (bytes >= TU_COPY_LONG) {
        size_t head = -(uintptr_t)out % LINE;
        memcpy(out, in, head);
        for (bytes -= head, out += head, in += head; bytes >= LINE;
             bytes -= LINE, out += LINE, in += LINE)
            for (size_t i = 0; i < VECTORS; i++)
                _mm_stream_si128((__m128i *)(void *)out + i,
                                 _mm_loadu_si128((const __m128i *)(const void *)in + i));
        _mm_sfence();
    }
    memcpy(out, in, bytes);
#else
    tu_copy_bytes(to, from, bytes);
#endif
}

#endif
