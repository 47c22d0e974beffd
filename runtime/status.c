/* Status names, and the one way to report an error. */
#define _GNU_SOURCE /* strerror_r that returns a text */
#include "runtime/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"

/* Room for the text of one error: as much as a job keeps. */
enum { TEXT_BYTES = sizeof(((struct tu_env *)0)->error) };

const char *tu_status_name(tutti_status status) {
    /* clang-format off */
    switch (status) {
    case TUTTI_OK: return "TUTTI_OK";
    case TUTTI_IN_PROGRESS: return "TUTTI_IN_PROGRESS";
    case TUTTI_ERR_ARG: return "TUTTI_ERR_ARG";
    case TUTTI_ERR_COUNT: return "TUTTI_ERR_COUNT";
    case TUTTI_ERR_TYPE: return "TUTTI_ERR_TYPE";
    case TUTTI_ERR_OP: return "TUTTI_ERR_OP";
    case TUTTI_ERR_ROOT: return "TUTTI_ERR_ROOT";
    case TUTTI_ERR_CONFIG: return "TUTTI_ERR_CONFIG";
    case TUTTI_ERR_UNSUPPORTED: return "TUTTI_ERR_UNSUPPORTED";
    case TUTTI_ERR_BUSY: return "TUTTI_ERR_BUSY";
    case TUTTI_ERR_MEMORY: return "TUTTI_ERR_MEMORY";
    case TUTTI_ERR_LIMIT: return "TUTTI_ERR_LIMIT";
    case TUTTI_ERR_MISMATCH: return "TUTTI_ERR_MISMATCH";
    case TUTTI_ERR_DEAD: return "TUTTI_ERR_DEAD";
    case TUTTI_ERR_UNREACHABLE: return "TUTTI_ERR_UNREACHABLE";
    case TUTTI_ERR_TIMEOUT: return "TUTTI_ERR_TIMEOUT";
    case TUTTI_ERR_COMM: return "TUTTI_ERR_COMM";
    case TUTTI_ERR_LAUNCH: return "TUTTI_ERR_LAUNCH";
    case TUTTI_ERR_SYSTEM: return "TUTTI_ERR_SYSTEM";
    case TUTTI_ERR_DEVICE: return "TUTTI_ERR_DEVICE";
    case TUTTI_ERR_INTERNAL: return "TUTTI_ERR_INTERNAL";
    }
    /* clang-format on */
    return "unknown tutti_status";
}

/* `text` was made apart from env->error, which may have been one of its arguments. */
static tutti_status report(struct tu_env *env, tutti_status status, const char *text) {
    if (env) {
        memcpy(env->error, text, strlen(text) + 1);
    }
    tu_log(env, TU_LOG_ERROR, "%s", text);
    return status;
}

tutti_status tu_fail(struct tu_env *env, tutti_status status, const char *format, ...) {
    int saved = errno;
    char text[TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    tu_text_vformat(text, sizeof text, format, arguments);
    va_end(arguments);
    report(env, status, text);
    errno = saved;
    return status;
}

tutti_status tu_fail_errno(struct tu_env *env, tutti_status status, int errnum, const char *format,
                           ...) {
    int saved = errno;
    char text[TEXT_BYTES], cause[128];
    const char *known = strerror_r(errnum, cause, sizeof cause);
    size_t room = sizeof text - strlen(known) - 2, length; /* the cause is never cut */
    va_list arguments;

    va_start(arguments, format);
    length = tu_text_vformat(text, room, format, arguments);
    va_end(arguments);
    snprintf(text + length, sizeof text - length, ": %s", known);
    report(env, status, text);
    errno = saved;
    return status;
}
