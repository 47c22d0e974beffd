/* Version and names: what needs no job. */
#include "collectives/kernels.h"
#include "runtime/status.h"

const char *tutti_version_string(void) {
    return TUTTI_VERSION;
}

void tutti_version(int *major, int *minor, int *patch) {
    if (major)
        *major = TUTTI_VERSION_MAJOR;
    if (minor)
        *minor = TUTTI_VERSION_MINOR;
    if (patch)
        *patch = TUTTI_VERSION_PATCH;
}

const char *tutti_status_string(tutti_status status) {
    return tu_status_name(status);
}

size_t tutti_type_size(tutti_type type) {
    return tu_type_bytes(type);
}
