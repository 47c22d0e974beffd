/* Watches the processes of ranks on this host through the process table, without ever blocking. */
#ifndef TU_RUNTIME_TOPOLOGY_WATCH_H
#define TU_RUNTIME_TOPOLOGY_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct tu_watch;

/* Room for `ranks` ranks. NULL: no memory. */
struct tu_watch *tu_watch_create(uint32_t ranks);
void tu_watch_free(struct tu_watch *watch);

/*
 * Adds a rank's process. Nothing is added if this pid is not that process (another machine of the same
 * name), or it is this process itself.
 */
void tu_watch_add(struct tu_watch *watch, uint32_t rank, int32_t pid, uint64_t start_time);

/* Sets *rank to one whose process has ended since, and was not told before; or false. */
bool tu_watch_ended(struct tu_watch *watch, uint32_t *rank);

#endif
