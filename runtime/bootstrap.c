/* Which bootstrap fits this process, and how ranks are named in its errors. */
#include "runtime/bootstrap.h"

#include <string.h>
#include <unistd.h>

#include "runtime/env.h"
#include "runtime/text.h"

static tutti_status choose(struct tu_env *env, const struct tutti_options *options,
                           struct tu_boot **boot) {
    char launcher[128];

    if (options && options->allgather) {
        return tu_boot_caller_open(env, options, boot);
    }
    if (tu_config_pmix_launcher()) {
        return tu_boot_pmix_open(env, boot);
    }
    tu_config_foreign_launcher(launcher, sizeof launcher);
    if (launcher[0]) {
        return tu_fail(env, TUTTI_ERR_LAUNCH,
                       "this process was started together with others by %s, which offers no PMIx: "
                       "start it with prterun, Open MPI's mpirun or srun --mpi=pmix, or give "
                       "tutti_init() an allgather (struct tutti_options)",
                       launcher);
    }
    return tu_boot_single_open(env, boot);
}

tutti_status tu_boot_open(struct tu_env *env, const struct tutti_options *options,
                          struct tu_boot **boot) {
    struct tu_boot *opened;
    tutti_status status;

    if (!env->host[0]) {
        gethostname(env->host, sizeof env->host - 1);
    }
    status = choose(env, options, &opened);
    if (status != TUTTI_OK) {
        return status;
    }
    env->rank = (int)opened->rank;
    tu_log(env, TU_LOG_DEBUG, "bootstrap: %s, rank %u of %u", opened->ops->name, opened->rank,
           opened->size);
    *boot = opened;
    return TUTTI_OK;
}

/* ---- names --------------------------------------------------------------------------------- */

enum { NAMED_RANKS = 8 };

void tu_rank_list_add(struct tu_rank_list *list, uint32_t rank, const char *host) {
    size_t length = strlen(list->text);
    const char *comma = list->count ? ", " : "";

    list->count++;
    if (list->count > NAMED_RANKS) {
        return;
    }
    if (host && *host) {
        tu_text_format(list->text + length, sizeof list->text - length, "%srank %u (host %.40s)",
                       comma, rank, host);
    } else {
        tu_text_format(list->text + length, sizeof list->text - length, "%srank %u", comma, rank);
    }
}

const char *tu_rank_list_text(struct tu_rank_list *list) {
    size_t length = strlen(list->text);

    if (list->count > NAMED_RANKS) {
        tu_text_format(list->text + length, sizeof list->text - length, " and %u more",
                       list->count - NAMED_RANKS);
        list->count = NAMED_RANKS; /* said */
    }
    return list->text;
}
