/* Log with levels and a replaceable sink. One line per record: "tutti[rank@host] level: text". */
#ifndef TU_RUNTIME_LOG_H
#define TU_RUNTIME_LOG_H

struct tu_env;

enum tu_log_level { TU_LOG_OFF, TU_LOG_ERROR, TU_LOG_WARN, TU_LOG_INFO, TU_LOG_DEBUG };

/* Gets one complete line without newline. May be called from any tutti call; must not call tutti. */
typedef void tu_log_sink(void *context, enum tu_log_level level, const char *line);

struct tu_log {
    enum tu_log_level level;
    tu_log_sink *sink; /* NULL: stderr */
    void *context;
};

void tu_log(struct tu_env *env, enum tu_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "warn" and the like; "" past the last level. */
const char *tu_log_level_name(enum tu_log_level level);

/* True if a record of this level would be written (to skip the work of making its text). */
int tu_log_on(const struct tu_env *env, enum tu_log_level level);

#endif
