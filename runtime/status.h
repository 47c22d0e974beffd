/* Status names, and the one way to report an error: tu_fail(). */
#ifndef TU_RUNTIME_STATUS_H
#define TU_RUNTIME_STATUS_H

#include "tutti/tutti.h"

struct tu_env;

/* "TUTTI_ERR_ARG" and the like; never NULL. */
const char *tu_status_name(tutti_status status);

/*
 * Records the text as the job's last error, logs it once at level error, and returns `status`.
 * Called by whoever decides that something is an error, and by nobody above: callers pass the status
 * on. `env` may be NULL (then the text goes to the default log sink only).
 */
tutti_status tu_fail(struct tu_env *env, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/*
 * The same with the text of `errnum` (an errno value) appended: "...: No space left on device".
 */
tutti_status tu_fail_errno(struct tu_env *env, tutti_status status, int errnum, const char *format,
                           ...) __attribute__((format(printf, 4, 5), cold));

#endif
