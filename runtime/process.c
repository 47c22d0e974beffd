/* What the process table tells, read from /proc. */
#include "runtime/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/text.h"

/*
 * /proc/PID/stat: "pid (name) state ppid ...", the start time is the 22nd field. A name may hold blanks
 * and brackets, so fields are counted from the last bracket. False if it can't be read.
 */
static bool read_stat(int32_t pid, char *state, uint64_t *start_time) {
    char path[32], text[1024], *field;

    snprintf(path, sizeof path, "/proc/%" PRId32 "/stat", pid);
    if (!tu_text_read(path, text, sizeof text)) {
        return false;
    }
    field = strrchr(text, ')');
    if (!field || sscanf(field + 1, " %c", state) != 1) {
        return false;
    }
    for (int i = 2; i < 22 && field; i++) {
        field = strchr(field + 1, ' ');
    }
    return field && sscanf(field, "%" SCNu64, start_time) == 1;
}

static bool is_gone(char state) {
    return state == 'Z' || state == 'X' || state == 'x';
}

uint64_t tu_process_start_time(int32_t pid) {
    uint64_t start_time;
    char state;

    return read_stat(pid, &state, &start_time) && !is_gone(state) ? start_time : 0;
}

bool tu_process_alive(int32_t pid, uint64_t start_time) {
    uint64_t now;
    char state;

    if (kill(pid, 0) != 0 && errno == ESRCH) {
        return false;
    }
    if (!read_stat(pid, &state, &now)) { /* hidden, or gone since */
        return kill(pid, 0) == 0 || errno != ESRCH;
    }
    return !is_gone(state) && (start_time == 0 || start_time == now);
}

uint64_t tu_process_namespace(void) {
    struct stat namespace;

    return stat("/proc/self/ns/pid", &namespace) == 0 ? (uint64_t) namespace.st_ino : 0;
}
