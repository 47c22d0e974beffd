/* Formatting into buffers of fixed size, and reading the small text files of /proc and /sys. */
#include "runtime/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Ends a full buffer in "..." without leaving half of a UTF-8 sequence before it. */
static size_t mark_cut(char *buffer, size_t bytes) {
    size_t end = bytes - 4;

    while (end > 0 && ((unsigned char)buffer[end] & 0xC0) == 0x80) {
        end--;
    }
    memcpy(buffer + end, "...", 4);
    return end + 3;
}

size_t tu_text_vformat(char *buffer, size_t bytes, const char *format, va_list arguments) {
    int length = vsnprintf(buffer, bytes, format, arguments);

    if (length < 0) {
        buffer[0] = 0;
        return 0;
    }
    return (size_t)length < bytes ? (size_t)length : mark_cut(buffer, bytes);
}

size_t tu_text_format(char *buffer, size_t bytes, const char *format, ...) {
    va_list arguments;
    size_t length;

    va_start(arguments, format);
    length = tu_text_vformat(buffer, bytes, format, arguments);
    va_end(arguments);
    return length;
}

void tu_text_one_line(char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c == 0x7F) {
            *text = ' ';
        }
    }
}

const char *tu_text_bytes(size_t value, char *buffer, size_t bytes) {
    static const char unit[] = {0, 'K', 'M', 'G'};
    size_t step = 0;

    while (value != 0 && step < 3 && value % 1024 == 0) {
        value /= 1024;
        step++;
    }
    snprintf(buffer, bytes, step ? "%zu%c" : "%zu", value, unit[step]);
    return buffer;
}

const char *tu_text_size(uint64_t value, char *buffer, size_t bytes) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t rest = 0;
    size_t step = 0;

    while (value >= 1024) {
        rest = value % 1024;
        value /= 1024;
        step++;
    }
    rest = rest * 10 / 1024;
    if (rest) {
        snprintf(buffer, bytes, "%" PRIu64 ".%" PRIu64 " %s", value, rest, unit[step]);
    } else {
        snprintf(buffer, bytes, "%" PRIu64 " %s", value, unit[step]);
    }
    return buffer;
}

bool tu_text_read(const char *path, char *buffer, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;

    buffer[0] = 0;
    if (fd < 0) {
        return false;
    }
    while (used < bytes - 1) {
        got = read(fd, buffer + used, bytes - 1 - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    close(fd);
    if (used > 0 && buffer[used - 1] == '\n') {
        used--;
    }
    buffer[used] = 0;
    return got >= 0;
}
