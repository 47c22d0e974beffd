/* Devices for the endpoints, and the counters that devices keep. */
#include "tests/conformance/verbs_subject.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text.h"

void verbs_configure(struct tu_config *config, uint32_t rank) {
    glob_t found;

    if (glob("/sys/class/infiniband/*", 0, NULL, &found) == 0) {
        const char *path = found.gl_pathv[rank % found.gl_pathc];
        tu_text_format(config->device, sizeof config->device, "%s", strrchr(path, '/') + 1);
    }
    globfree(&found);
}

static uint64_t sum(const char *pattern) {
    uint64_t total = 0;
    glob_t found;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char text[32];
            if (tu_text_read(found.gl_pathv[i], text, sizeof text))
                total += strtoull(text, NULL, 10);
        }
    globfree(&found);
    return total;
}

uint64_t verbs_starved(void) {
    return sum("/sys/class/infiniband/*/ports/*/hw_counters/*rnr*");
}
