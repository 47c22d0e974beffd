/* Private memory, and the process table. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "runtime/memory.h"
#include "runtime/process.h"

/* ---- sizes --------------------------------------------------------------------------------- */

Test(memory, multiply, .timeout = 10) {
    size_t product = 7;

    cr_expect(tu_multiply(0, SIZE_MAX, &product));
    cr_expect_eq(product, 0);
    cr_expect(tu_multiply((size_t)1 << 32, ((size_t)1 << 32) - 1, &product));
    cr_expect_eq(product, 0xffffffff00000000);
    product = 7;
    cr_expect_not(tu_multiply((size_t)1 << 32, (size_t)1 << 32, &product));
    cr_expect_not(tu_multiply(SIZE_MAX, 2, &product));
    cr_expect_eq(product, 7);
}

Test(memory, round_up, .timeout = 10) {
    cr_expect_eq(tu_round_up(0, 64), 0);
    cr_expect_eq(tu_round_up(1, 64), 64);
    cr_expect_eq(tu_round_up(64, 64), 64);
    cr_expect_eq(tu_round_up(65, 64), 128);
    cr_expect_eq(tu_round_up(SIZE_MAX - 63, 64), SIZE_MAX - 63);
    cr_expect_eq(tu_round_up(SIZE_MAX - 62, 64), 0);
}

static bool all_zero(const unsigned char *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i]) {
            return false;
        }
    }
    return true;
}

Test(memory, alloc_is_aligned_and_zero, .timeout = 10) {
    for (size_t alignment = 1; alignment <= 8192; alignment *= 2) {
        for (int again = 0; again < 3; again++) { /* memory that was used before, too */
            unsigned char *memory = tu_alloc(alignment, 100, 33);

            cr_assert_not_null(memory);
            cr_expect_eq((uintptr_t)memory % alignment, 0);
            cr_expect(all_zero(memory, 3300));
            memset(memory, 0xee, 3300);
            free(memory);
        }
    }
}

Test(memory, alloc_refuses, .timeout = 10) {
    void *empty = tu_alloc(0, 0, 8), *other = tu_alloc(64, 8, 0);

    cr_expect_not_null(empty);
    cr_expect_not_null(other);
    cr_expect_neq(empty, other);
    cr_expect_null(tu_alloc(64, SIZE_MAX / 2, 3));
    cr_expect_null(tu_alloc(0, SIZE_MAX, 1));
    cr_expect_null(tu_alloc(64, SIZE_MAX / 2 + 1, 1));
    free(empty);
    free(other);
}

Test(memory, alloc_for_says_what_for, .timeout = 10) {
    struct capture *c = capture_open();
    char untouched;
    void *memory = &untouched;

    cr_expect_eq(tu_alloc_for(&c->env, "edges of 9 peers", 64, SIZE_MAX, 16, &memory),
                 TUTTI_ERR_MEMORY);
    cr_expect(strstr(c->env.error, "edges of 9 peers: 18446744073709551615 times 16 bytes") != NULL,
              "%s", c->env.error);
    cr_expect_eq(tu_alloc_for(&c->env, "a plan", 0, (size_t)1 << 50, 1 << 13, &memory),
                 TUTTI_ERR_MEMORY);
    cr_expect(strstr(c->env.error, "no memory for a plan: 8 EiB needed") != NULL, "%s",
              c->env.error);
    cr_expect_eq(memory, (void *)&untouched);
    cr_expect_eq(tu_alloc_for(&c->env, "a plan", 64, 10, 10, &memory), TUTTI_OK);
    cr_expect_neq(memory, (void *)&untouched);
    cr_expect_eq(c->lines, 2);
    free(memory);
    free(c);
}

/* ---- processes ----------------------------------------------------------------------------- */

Test(process, self, .timeout = 10) {
    uint64_t start_time = tu_process_start_time(getpid());

    cr_expect_neq(start_time, 0);
    cr_expect_eq(tu_process_start_time(getpid()), start_time);
    cr_expect(tu_process_alive(getpid(), start_time));
    cr_expect(tu_process_alive(getpid(), 0));
    cr_expect_not(tu_process_alive(getpid(), start_time + 1), "another process with this pid");
    cr_expect_neq(tu_process_namespace(), 0);
}

Test(process, a_child_that_ends, .timeout = 10) {
    pid_t child = start_child();
    uint64_t start_time;
    siginfo_t info;

    if (child == 0) {
        pause();
        _exit(0);
    }
    start_time = tu_process_start_time(child);
    cr_expect_neq(start_time, 0);
    cr_expect(tu_process_alive(child, start_time));
    kill(child, SIGKILL);
    cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    cr_expect_not(tu_process_alive(child, start_time), "a zombie");
    cr_expect_not(tu_process_alive(child, 0), "a zombie");
    cr_expect_eq(tu_process_start_time(child), 0);
    waitpid(child, NULL, 0);
    cr_expect_not(tu_process_alive(child, start_time));
    cr_expect_not(tu_process_alive(child, 0));
    cr_expect_eq(tu_process_start_time(child), 0);
}

/* A name with brackets and blanks must not shift the fields. */
Test(process, odd_names, .timeout = 10) {
    char name[] = "a) R 1 (b";
    uint64_t start_time = tu_process_start_time(getpid());
    FILE *comm = fopen("/proc/self/comm", "w");

    cr_assert_not_null(comm);
    fputs(name, comm);
    fclose(comm);
    cr_expect_eq(tu_process_start_time(getpid()), start_time);
    cr_expect(tu_process_alive(getpid(), start_time));
}
