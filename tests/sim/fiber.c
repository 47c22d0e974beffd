/* Fibers: see fiber.h. */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "tests/sim/fiber.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_BYTES = 256 << 10, GUARD_BYTES = 4096 };

/* ---- what sanitizers must know ---- */

static void leave(struct fiber *from, const struct fiber *to) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(to->sanitizer, 0);
#endif
    (void)from, (void)to;
}

static void entered(struct fiber *fiber) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#endif
    (void)fiber;
}

static void announce(struct fiber *fiber) {
#ifdef __SANITIZE_THREAD__
    fiber->sanitizer = __tsan_create_fiber(0);
#endif
    (void)fiber;
}

static void withdraw(struct fiber *fiber) {
#ifdef __SANITIZE_THREAD__
    __tsan_destroy_fiber(fiber->sanitizer);
#endif
    (void)fiber;
}

/* ---- life ---- */

void fiber_of_thread(struct fiber *fiber) {
    pthread_attr_t attributes;

    memset(fiber, 0, sizeof *fiber);
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &fiber->stack, &fiber->stack_bytes);
    pthread_attr_destroy(&attributes);
#ifdef __SANITIZE_THREAD__
    fiber->sanitizer = __tsan_get_current_fiber();
#endif
}

/* Arguments of a context are ints: a pointer takes two. */
static void begin(unsigned high, unsigned low) {
    struct fiber *fiber = (struct fiber *)((uintptr_t)high << 32 | low);

    entered(fiber);
    fiber->body(fiber->context);
    assert(!"a fiber's body must not return");
}

void fiber_make(struct fiber *fiber, fiber_body *body, void *context) {
    char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert(memory != MAP_FAILED);
    mprotect(memory, GUARD_BYTES, PROT_NONE);
    memset(fiber, 0, sizeof *fiber);
    fiber->stack = memory + GUARD_BYTES;
    fiber->stack_bytes = STACK_BYTES;
    fiber->body = body;
    fiber->context = context;
    announce(fiber);
    getcontext(&fiber->machine);
    fiber->machine.uc_stack.ss_sp = fiber->stack;
    fiber->machine.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->machine, (void (*)(void))begin, 2, (unsigned)((uintptr_t)fiber >> 32),
                (unsigned)(uintptr_t)fiber);
}

void fiber_free(struct fiber *fiber) {
    withdraw(fiber);
    munmap((char *)fiber->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
}

void fiber_switch(struct fiber *from, struct fiber *to) {
    leave(from, to);
    swapcontext(&from->machine, &to->machine);
    entered(from);
}
