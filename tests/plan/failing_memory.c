/* Memory that runs out, see failing_memory.h. */
#include "failing_memory.h"

#include <stdbool.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *memory);

/* Criterion gives each test a process of its own. */
static long until_failure = -1;
static long held;

void memory_fails_after(long allocations) {
    until_failure = allocations;
}

long memory_held(void) {
    return held;
}

static bool fails(void) {
    return until_failure >= 0 && until_failure-- == 0;
}

static void *got(void *memory) {
    held += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t bytes) {
    return fails() ? NULL : got(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return fails() ? NULL : got(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    if (fails())
        return NULL;
    return old ? __real_realloc(old, bytes) : got(__real_realloc(old, bytes));
}

void __wrap_free(void *memory) {
    held -= memory != NULL;
    __real_free(memory);
}
