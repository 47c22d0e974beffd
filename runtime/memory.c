/* Private memory: sizes are checked, and running out is a status, never an abort. */
#include "runtime/memory.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"

bool tu_multiply(size_t a, size_t b, size_t *product) {
    size_t result;

    if (__builtin_mul_overflow(a, b, &result)) {
        return false;
    }
    *product = result;
    return true;
}

size_t tu_round_up(size_t value, size_t step) {
    size_t sum;

    return __builtin_add_overflow(value, step - 1, &sum) ? 0 : sum & ~(step - 1);
}

void *tu_alloc(size_t alignment, size_t count, size_t each_bytes) {
    size_t bytes;
    void *memory = NULL;

    if (!tu_multiply(count, each_bytes, &bytes) || bytes > PTRDIFF_MAX) {
        return NULL;
    }
    bytes = bytes ? bytes : 1;
    if (alignment <= _Alignof(max_align_t)) {
        return calloc(1, bytes); /* fresh pages are zero already: large ones are not touched */
    }
    if (posix_memalign(&memory, alignment, bytes) != 0) {
        return NULL;
    }
    return memset(memory, 0, bytes);
}

tutti_status tu_alloc_for(struct tu_env *env, const char *what, size_t alignment, size_t count,
                          size_t each_bytes, void **memory) {
    void *got = tu_alloc(alignment, count, each_bytes);
    char size[32];
    size_t bytes;

    if (got) {
        *memory = got;
        return TUTTI_OK;
    }
    if (!tu_multiply(count, each_bytes, &bytes)) {
        return tu_fail(env, TUTTI_ERR_MEMORY, "no memory for %s: %zu times %zu bytes overflows",
                       what, count, each_bytes);
    }
    return tu_fail(env, TUTTI_ERR_MEMORY, "no memory for %s: %s needed (check ulimit -v and free)",
                   what, tu_text_size(bytes, size, sizeof size));
}
