/*
 * What other rooms may know of the verbs transport besides its table (transport.h): the list of
 * ports for people to look at, and limits that tests lower. No verbs type appears here.
 */
#ifndef TU_TRANSPORT_VERBS_H
#define TU_TRANSPORT_VERBS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;

/*
 * Entry `index` of the list of ports and their GIDs (a port without GIDs has one entry with
 * gid_index -1), in the order of the devices. Sets everything but info->size. TUTTI_ERR_ARG past the
 * last one, which is no error and leaves no record: without devices the list is empty.
 */
tutti_status tu_verbs_port_at(struct tu_env *env, int index, tutti_port_info *info);

/* Which port a job would use and why; or why there is none, and TUTTI_ERR_DEVICE or _UNSUPPORTED. */
tutti_status tu_verbs_port_reason(struct tu_env *env, char *text, size_t bytes);

/*
 * Upper limits; what the device has may be less. tu_transport_params.context may point to one, NULL
 * stands for tu_verbs_limits_default. The send depth is a power of two of at least 8.
 */
struct tu_verbs_limits {
    uint32_t inline_bytes;  /* asked of a queue pair; larger lines go through registered memory */
    uint32_t send_depth;    /* work requests under way per peer */
    uint32_t message_bytes; /* of one work request; 0: the device's */
};
extern const struct tu_verbs_limits tu_verbs_limits_default;

#endif
