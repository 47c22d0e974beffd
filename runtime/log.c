/* The log: makes one line of a record and hands it to the sink, or writes it to stderr at once. */
#include "runtime/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/env.h"
#include "runtime/text.h"

/* With its newline a line is below PIPE_BUF: lines of several ranks on one pipe do not mix. */
enum { LINE_BYTES = 2048, NEWLINE_BYTES = 1 };

const char *tu_log_level_name(enum tu_log_level level) {
    static const char *const name[] = {"off", "error", "warn", "info", "debug"};

    return (size_t)level < sizeof name / sizeof *name ? name[level] : "";
}

/* "tutti[3@host] warn: "; returns its length. */
static size_t make_prefix(const struct tu_env *env, enum tu_log_level level, char *line,
                          size_t bytes) {
    char name[64] = "", rank[16] = "-";
    const char *host = env ? env->host : name;

    if (!host[0]) {
        gethostname(name, sizeof name - 1);
        host = name[0] ? name : "?";
    }
    if (env && env->rank >= 0) {
        snprintf(rank, sizeof rank, "%d", env->rank);
    }
    return tu_text_format(line, bytes, "tutti[%s@%s] %s: ", rank, host, tu_log_level_name(level));
}

/* One write(2), so that the line stays whole; the rest of a partial write follows. */
static void write_line(char *line, size_t length) {
    struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};
    size_t done = 0;

    line[length++] = '\n';
    while (done < length) {
        ssize_t n = write(STDERR_FILENO, line + done, length - done);

        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN && poll(&writable, 1, 100) > 0) {
            continue; /* a nonblocking stderr that was full */
        } else if (errno != EINTR) {
            return; /* nobody to tell */
        }
    }
}

int tu_log_on(const struct tu_env *env, enum tu_log_level level) {
    enum tu_log_level limit = env ? env->log.level : TU_LOG_WARN;

    return level != TU_LOG_OFF && level <= limit;
}

void tu_log(struct tu_env *env, enum tu_log_level level, const char *format, ...) {
    int saved = errno;
    char line[LINE_BYTES];
    size_t length;
    va_list arguments;

    if (!tu_log_on(env, level)) {
        return;
    }
    length = make_prefix(env, level, line, sizeof line / 2);
    va_start(arguments, format);
    length +=
        tu_text_vformat(line + length, sizeof line - NEWLINE_BYTES - length, format, arguments);
    va_end(arguments);
    tu_text_one_line(line);
    if (env && env->log.sink) {
        env->log.sink(env->log.context, level, line);
    } else {
        write_line(line, length);
    }
    errno = saved;
}
