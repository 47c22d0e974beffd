/* Formatting into buffers of fixed size: a text that does not fit ends in "..." and stays valid. */
#ifndef TU_RUNTIME_TEXT_H
#define TU_RUNTIME_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As vsnprintf; returns the length of what stands in the buffer. bytes >= 4. */
size_t tu_text_vformat(char *buffer, size_t bytes, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

size_t tu_text_format(char *buffer, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Replaces control characters (new lines, escapes) so that the text is one harmless line. */
void tu_text_one_line(char *text);

/* Bytes in the largest unit that divides them: "32K", "1000". For values that are read back. */
const char *tu_text_bytes(size_t value, char *buffer, size_t bytes);

/* Bytes for people, rounded down: "31.9 MiB". */
const char *tu_text_size(uint64_t value, char *buffer, size_t bytes);

/* Reads a small text file (of /proc or /sys), cut to fit, without its last newline. False if it can't. */
bool tu_text_read(const char *path, char *buffer, size_t bytes);

#endif
