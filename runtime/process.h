/* What the process table tells: whether a process, known by pid and start time, is still there. */
#ifndef TU_RUNTIME_PROCESS_H
#define TU_RUNTIME_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When the process started, in clock ticks since boot: with the pid it names one process for ever. 0
 * if there is no such process, it is a zombie, or /proc does not tell.
 */
uint64_t tu_process_start_time(int32_t pid);

/*
 * False if the process is certainly gone: no such pid, a zombie, or another process has the pid now.
 * start_time 0 (not known) leaves only the pid to judge by.
 */
bool tu_process_alive(int32_t pid, uint64_t start_time);

/* Number of this process's pid namespace: pids mean something only within one. 0 if not known. */
uint64_t tu_process_namespace(void);

#endif
