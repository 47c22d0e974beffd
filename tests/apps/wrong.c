/* Loaded before the library: results whose last element is wrong, on rank 1 only, for larger counts. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <string.h>

#include "tutti/tutti.h"

static void spoil(void *target, size_t count, tutti_type type, const tutti_comm *comm) {
    size_t bytes = tutti_type_size(type);
    if (count >= 100 && tutti_rank(comm) == 1)
        memset((char *)target + (count - 1) * bytes, 0x3f, bytes);
}

tutti_status tutti_allreduce(const void *source, void *target, size_t count, tutti_type type,
                             tutti_op op, tutti_comm *comm) {
    __typeof__(&tutti_allreduce) next;
    *(void **)&next = dlsym(RTLD_NEXT, "tutti_allreduce");
    tutti_status status = next(source, target, count, type, op, comm);
    spoil(target, count, type, comm);
    return status;
}

tutti_status tutti_bcast(void *buffer, size_t count, tutti_type type, int root, tutti_comm *comm) {
    __typeof__(&tutti_bcast) next;
    *(void **)&next = dlsym(RTLD_NEXT, "tutti_bcast");
    tutti_status status = next(buffer, count, type, root, comm);
    spoil(buffer, count, type, comm);
    return status;
}
