/*
 * Fibers: functions with stacks of their own in one thread, known to AddressSanitizer and
 * ThreadSanitizer.
 */
#ifndef TU_TESTS_SIM_FIBER_H
#define TU_TESTS_SIM_FIBER_H

#include <stddef.h>
#include <ucontext.h>

typedef void fiber_body(void *context);

struct fiber {
    ucontext_t machine;
    void *stack; /* lowest address */
    size_t stack_bytes;
    fiber_body *body; /* must not return */
    void *context;
    void *fake_stack; /* of AddressSanitizer */
    void *sanitizer;  /* of ThreadSanitizer */
};

/* The fiber of the thread itself. */
void fiber_of_thread(struct fiber *fiber);

/* A new one; it begins when it is first switched to. */
void fiber_make(struct fiber *fiber, fiber_body *body, void *context);
void fiber_free(struct fiber *fiber);

/* Leaves `from`, which runs now; returns when somebody switches to it. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
