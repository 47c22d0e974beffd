/* Status names, error reporting, log lines and texts of fixed size. */
#define _GNU_SOURCE /* pipes that keep writes apart */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "capture.h"
#include "runtime/text.h"

/* ---- status ------------------------------------------------------------------------------- */

Test(status, names, .timeout = 10) {
    static const int all[] = {0,   1,   -1,  -2,  -3,  -4,  -5,  -6,  -7,  -20, -21,
                              -22, -40, -41, -42, -43, -44, -60, -61, -62, -63};
    size_t n = sizeof all / sizeof *all;

    for (size_t i = 0; i < n; i++) {
        const char *name = tu_status_name((tutti_status)all[i]);

        cr_expect_eq(strncmp(name, "TUTTI_", 6), 0, "%d is %s", all[i], name);
        for (size_t j = 0; j < i; j++) {
            cr_expect_str_neq(name, tu_status_name((tutti_status)all[j]));
        }
    }
    cr_expect_str_eq(tu_status_name(TUTTI_ERR_DEAD), "TUTTI_ERR_DEAD");
    cr_expect_str_eq(tu_status_name((tutti_status)-999), "unknown tutti_status");
    cr_expect_str_eq(tu_status_name((tutti_status)7777), "unknown tutti_status");
}

Test(status, fail_records_and_logs_once, .timeout = 10) {
    struct capture *c = capture_open();

    errno = EBADF;
    cr_expect_eq(tu_fail(&c->env, TUTTI_ERR_DEAD, "rank %d on %s died", 7, "n1"), TUTTI_ERR_DEAD);
    cr_expect_eq(errno, EBADF);
    cr_expect_str_eq(c->env.error, "rank 7 on n1 died");
    cr_expect_eq(c->lines, 1);
    cr_expect_eq(c->level[0], TU_LOG_ERROR);
    cr_expect_str_eq(c->line[0], "tutti[3@box] error: rank 7 on n1 died");
    free(c);
}

Test(status, fail_keeps_the_text_when_the_log_is_off, .timeout = 10) {
    struct capture *c = capture_open();

    c->env.log.level = TU_LOG_OFF;
    tu_fail(&c->env, TUTTI_ERR_ARG, "quiet");
    cr_expect_eq(c->lines, 0);
    cr_expect_str_eq(c->env.error, "quiet");
    free(c);
}

Test(status, fail_may_quote_the_last_error, .timeout = 10) {
    struct capture *c = capture_open();

    tu_fail(&c->env, TUTTI_ERR_DEAD, "rank 7 died");
    tu_fail(&c->env, TUTTI_ERR_COMM, "communicator 2 was ruined: %s", c->env.error);
    cr_expect_str_eq(c->env.error, "communicator 2 was ruined: rank 7 died");
    free(c);
}

Test(status, fail_errno_appends_the_cause, .timeout = 10) {
    struct capture *c = capture_open();

    cr_expect_eq(tu_fail_errno(&c->env, TUTTI_ERR_SYSTEM, ENOSPC, "writing %s", "x"),
                 TUTTI_ERR_SYSTEM);
    cr_expect_str_eq(c->env.error, "writing x: No space left on device");
    cr_expect_eq(c->lines, 1);
    free(c);
}

Test(status, long_texts_are_cut_and_marked, .timeout = 10) {
    struct capture *c = capture_open();
    char *text = malloc(5000);
    size_t room = sizeof c->env.error;

    memset(text, 'x', 4999);
    text[4999] = 0;
    c->env.rank = 0x7eadbeef; /* must survive, it lies behind the text */
    tu_fail(&c->env, TUTTI_ERR_ARG, "%s", text);
    cr_expect_eq(strlen(c->env.error), room - 1);
    cr_expect_str_eq(c->env.error + room - 4, "...");
    tu_fail_errno(&c->env, TUTTI_ERR_ARG, ENOSPC, "%s", text);
    cr_expect_lt(strlen(c->env.error), room);
    cr_expect(strstr(c->env.error, "x...: No space left on device") != NULL, "%s", c->env.error);
    cr_expect_eq(c->env.rank, 0x7eadbeef);
    free(text);
    free(c);
}

/* ---- text ---------------------------------------------------------------------------------- */

Test(text, cut_leaves_no_half_character, .timeout = 10) {
    char buffer[16];

    for (size_t room = 4; room <= sizeof buffer; room++) {
        size_t length = tu_text_format(buffer, room,
                                       "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
                                       "\xe2\x82\xac\xe2\x82\xac");

        cr_expect_eq(length, strlen(buffer));
        cr_expect_lt(length, room);
        cr_expect_eq((length - 3) % 3, 0, "room %zu: length %zu", room, length);
        cr_expect_str_eq(buffer + length - 3, "...");
    }
    cr_expect_eq(tu_text_format(buffer, 4, "abc"), 3);
    cr_expect_str_eq(buffer, "abc");
}

Test(text, sizes, .timeout = 10) {
    char buffer[32];

    cr_expect_str_eq(tu_text_bytes(0, buffer, sizeof buffer), "0");
    cr_expect_str_eq(tu_text_bytes(1000, buffer, sizeof buffer), "1000");
    cr_expect_str_eq(tu_text_bytes(32768, buffer, sizeof buffer), "32K");
    cr_expect_str_eq(tu_text_bytes(32769, buffer, sizeof buffer), "32769");
    cr_expect_str_eq(tu_text_bytes((size_t)5 << 40, buffer, sizeof buffer), "5120G");
    cr_expect_str_eq(tu_text_size(0, buffer, sizeof buffer), "0 bytes");
    cr_expect_str_eq(tu_text_size(1023, buffer, sizeof buffer), "1023 bytes");
    cr_expect_str_eq(tu_text_size(33554431, buffer, sizeof buffer), "31.9 MiB");
    cr_expect_str_eq(tu_text_size(33554432, buffer, sizeof buffer), "32 MiB");
    cr_expect_str_eq(tu_text_size(UINT64_MAX, buffer, sizeof buffer), "15.9 EiB");
}

Test(text, read, .timeout = 10) {
    char buffer[8], path[] = "/tmp/tutti-text-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "12345\n", 6), 6);
    cr_expect(tu_text_read(path, buffer, sizeof buffer));
    cr_expect_str_eq(buffer, "12345");
    cr_assert_eq(write(fd, "6789\n", 5), 5);
    cr_expect(tu_text_read(path, buffer, sizeof buffer));
    cr_expect_str_eq(buffer, "12345\n6");
    unlink(path);
    close(fd);
    cr_expect_not(tu_text_read(path, buffer, sizeof buffer));
    cr_expect_str_eq(buffer, "");
}

/* ---- log ----------------------------------------------------------------------------------- */

Test(log, levels, .timeout = 10) {
    struct capture *c = capture_open();

    for (int limit = TU_LOG_OFF; limit <= TU_LOG_DEBUG; limit++) {
        c->env.log.level = (enum tu_log_level)limit;
        c->lines = 0;
        for (int level = TU_LOG_OFF; level <= TU_LOG_DEBUG; level++) {
            tu_log(&c->env, (enum tu_log_level)level, "x");
            cr_expect_eq(tu_log_on(&c->env, (enum tu_log_level)level),
                         level != TU_LOG_OFF && level <= limit);
        }
        cr_expect_eq(c->lines, limit);
    }
    cr_expect(tu_log_on(NULL, TU_LOG_WARN));
    cr_expect_not(tu_log_on(NULL, TU_LOG_INFO));
    cr_expect_str_eq(tu_log_level_name(TU_LOG_DEBUG), "debug");
    cr_expect_str_eq(tu_log_level_name((enum tu_log_level)5), "");
    free(c);
}

Test(log, rank_and_host_that_are_not_known_yet, .timeout = 10) {
    struct capture *c = capture_open();
    char host[256] = "", expected[512];

    gethostname(host, sizeof host - 1);
    c->env.rank = -1;
    tu_log(&c->env, TU_LOG_WARN, "text");
    cr_expect_str_eq(c->line[0], "tutti[-@box] warn: text");
    c->env.host[0] = 0;
    tu_log(&c->env, TU_LOG_WARN, "text");
    snprintf(expected, sizeof expected, "tutti[-@%.63s] warn: text", host);
    cr_expect_str_eq(c->line[1], expected);
    free(c);
}

Test(log, one_record_is_one_line, .timeout = 10) {
    struct capture *c = capture_open();

    tu_log(&c->env, TU_LOG_WARN,
           "a\nb\r\x1b[1m\x7f"
           "c\xc3\xa9");
    cr_expect_str_eq(c->line[0], "tutti[3@box] warn: a b  [1m c\xc3\xa9");
    free(c);
}

/* Standard error becomes a pipe that keeps writes apart; returns its reading end. */
static int catch_stderr(void) {
    int ends[2];

    cr_assert_eq(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
    fcntl(ends[1], F_SETFL, O_DIRECT);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

Test(log, stderr_gets_a_line_in_one_write, .timeout = 10) {
    struct capture *c = capture_open();
    int out = catch_stderr();
    char got[8192];
    ssize_t n;

    c->env.log.sink = NULL;
    tu_log(&c->env, TU_LOG_WARN, "hello");
    tu_log(&c->env, TU_LOG_INFO, "not said");
    tu_log(NULL, TU_LOG_ERROR, "again");
    n = read(out, got, sizeof got - 1);
    cr_assert_gt(n, 0);
    got[n] = 0;
    cr_expect_str_eq(got, "tutti[3@box] warn: hello\n");
    n = read(out, got, sizeof got - 1);
    cr_assert_gt(n, 0);
    got[n] = 0;
    cr_expect_eq(strncmp(got, "tutti[-@", 8), 0, "%s", got);
    cr_expect_str_eq(strstr(got, "error: ") ? strstr(got, "error: ") : "", "error: again\n");
    cr_expect_eq(read(out, got, sizeof got), -1);
    free(c);
}

Test(log, long_lines_are_cut, .timeout = 10) {
    struct capture *c = capture_open();
    int out = catch_stderr();
    char got[8192], *text = malloc(10000);
    ssize_t n;

    memset(text, 'y', 9999);
    text[9999] = 0;
    c->env.log.sink = NULL;
    tu_log(&c->env, TU_LOG_WARN, "%s", text);
    n = read(out, got, sizeof got - 1);
    cr_assert_gt(n, 4);
    cr_expect_leq(n, 2048);
    got[n] = 0;
    cr_expect_str_eq(got + n - 4, "...\n");
    cr_expect_eq(read(out, got, sizeof got), -1, "the line came in two writes");
    free(text);
    free(c);
}

Test(log, a_closed_or_full_stderr_is_no_harm, .timeout = 20) {
    struct capture *c = capture_open();
    int out = catch_stderr(), flags = fcntl(STDERR_FILENO, F_GETFL);

    c->env.log.sink = NULL;
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    for (int i = 0; i < 18; i++) { /* a pipe holds 16 packets */
        errno = EDOM;
        tu_log(&c->env, TU_LOG_WARN, "line");
        cr_expect_eq(errno, EDOM);
    }
    close(STDERR_FILENO);
    errno = EDOM;
    tu_log(&c->env, TU_LOG_WARN, "line");
    cr_expect_eq(errno, EDOM);
    close(out);
    free(c);
}
