/* TUTTI_KERNELS, looked up among the variants that this processor runs. */
#include "collectives/kernels_choice.h"

#include <strings.h>

#include "runtime/env.h"
#include "runtime/text.h"

tutti_status tu_kernels_choose(struct tu_env *env, const struct tu_kernels **kernels) {
    const char *name = env->config.kernels;
    int n;
    const struct tu_kernels *const *variant = tu_kernels_all(&n);
    char names[64] = "";
    size_t length = 0;

    if (!name[0]) {
        *kernels = tu_kernels_best();
        return TUTTI_OK;
    }
    for (int i = 0; i < n; i++) {
        if (strcasecmp(variant[i]->name, name) == 0) {
            *kernels = variant[i];
            return TUTTI_OK;
        }
        length += tu_text_format(names + length, sizeof(names) - length, "%s%s", i ? ", " : "",
                                 variant[i]->name);
    }
    return tu_fail(env, TUTTI_ERR_CONFIG, "TUTTI_KERNELS=%s: this processor runs %s", name, names);
}
