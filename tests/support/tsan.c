/* What makes Criterion and ThreadSanitizer work together. Linked into test programs under the
 * latter only. */
#include <stdlib.h>

int rand_r(unsigned *seed);
const char *__tsan_default_options(void);

/*
 * Criterion puts the memory that it shares with its test processes at 0x200000000000 + rand_r() *
 * 16 MiB, most of which is ThreadSanitizer's shadow. This makes it a place that both accept: the
 * range left to position-independent programs, below where Linux loads them.
 */
int rand_r(unsigned *seed)
{
    return 0x350000 + (int)(++*seed & 0xfff); /* 0x550000000000 and up, 64 GiB */
}

/* A test process leaves by _exit(), which forgets what was found: end it at once, so that Criterion
 * sees it die. */
const char *__tsan_default_options(void)
{
    return "halt_on_error=1:second_deadlock_stack=1";
}
