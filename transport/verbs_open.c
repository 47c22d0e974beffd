/*
 * Opening and closing, in the order of the parts: device, protection domain, window, queues, queue
 * pairs. Whatever is made hangs in struct tu_verbs at once, so closing takes apart just what is
 * there and serves a failed opening as well. The transport's table stands at the end.
 */
#include "transport/verbs_endpoint.h"

#include <errno.h>
#include <stdlib.h>

#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/text.h"

const struct tu_verbs_limits tu_verbs_limits_default = {
    .inline_bytes = TU_VERBS_LINE_BYTES,
    .send_depth = 128,
    .message_bytes = 0,
};

static tutti_status make(const struct tu_transport_params *params, struct tu_verbs **result) {
    void *memory;
    tutti_status status = tu_alloc_for(
        params->env, "the verbs transport", 64, 1,
        sizeof(struct tu_verbs) + params->peers * sizeof(struct tu_verbs_peer), &memory);
    struct tu_verbs *verbs = memory;

    if (status)
        return status;
    verbs->head.ops = &tu_transport_verbs;
    verbs->env = params->env;
    verbs->counters = params->counters;
    verbs->events = params->events;
    verbs->window = params->window;
    verbs->window_bytes = params->window_bytes;
    verbs->rank = params->rank;
    verbs->peers = params->peers;
    verbs->max_peers = params->max_peers;
    verbs->allowance = tu_verbs_allowance(params->slots_per_peer);
    verbs->limits = params->context ? *(const struct tu_verbs_limits *)params->context
                                    : tu_verbs_limits_default;
    for (uint32_t i = 0; i < params->peers; i++) {
        verbs->peer[i].rank = params->peer_rank[i];
        tu_text_format(verbs->peer[i].host, sizeof verbs->peer[i].host, "%s", params->peer_host[i]);
    }
    *result = verbs;
    return TUTTI_OK;
}

/* ---- the device ----------------------------------------------------------------------------- */

static tutti_status choose_port(struct tu_verbs *verbs) {
    struct tu_verbs_survey survey;
    struct tu_verbs_choice choice;
    tutti_status status = tu_verbs_survey(verbs->env, &survey);

    if (status)
        return status;
    tu_verbs_choose(verbs->env, &survey, &choice);
    if (choice.index >= 0) {
        verbs->port = survey.port[choice.index];
        tu_log(verbs->env, TU_LOG_INFO, "verbs: %s", choice.text);
    } else {
        status = tu_fail(verbs->env, choice.status, "%s", choice.text);
    }
    tu_verbs_survey_free(&survey);
    return status;
}

static enum ibv_mtu mtu_of(int bytes) {
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && tu_verbs_mtu_bytes(mtu + 1) <= bytes)
        mtu++;
    return mtu;
}

static void choose_limits(struct tu_verbs *verbs) {
    int wanted = verbs->env->config.mtu, own = tu_verbs_mtu_bytes(verbs->port.mtu);

    verbs->mtu = verbs->port.mtu;
    if (wanted > own)
        tu_log(verbs->env, TU_LOG_WARN,
               "TUTTI_MTU=%d is more than port %d of %s has: its %d bytes are used", wanted,
               verbs->port.port, verbs->port.device, own);
    else if (wanted > 0)
        verbs->mtu = mtu_of(wanted);
    if (!verbs->limits.message_bytes || verbs->limits.message_bytes > verbs->port.message_bytes)
        verbs->limits.message_bytes = verbs->port.message_bytes;
}

static tutti_status open_device(struct tu_verbs *verbs) {
    const char *name = verbs->port.device;
    int error;

    verbs->context = tu_verbs_open_device(name);
    if (!verbs->context)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, errno, "opening RDMA device %s", name);
    error = ibv_query_device(verbs->context, &verbs->device);
    if (error)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, error,
                             "asking RDMA device %s for its "
                             "limits",
                             name);
    verbs->pd = ibv_alloc_pd(verbs->context);
    if (!verbs->pd)
        return tu_fail_errno(verbs->env, TUTTI_ERR_DEVICE, errno,
                             "making a protection domain on %s", name);
    return TUTTI_OK;
}

/* ---- open and close ------------------------------------------------------------------------- */

static void close_verbs(struct tu_transport *transport) {
    struct tu_verbs *verbs = tu_verbs_of(transport);

    tu_verbs_drop_pairs(verbs);
    if (verbs->srq)
        ibv_destroy_srq(verbs->srq);
    if (verbs->cq)
        ibv_destroy_cq(verbs->cq);
    if (verbs->channel)
        ibv_destroy_comp_channel(verbs->channel);
    tu_verbs_drop_memory(verbs);
    if (verbs->pd)
        ibv_dealloc_pd(verbs->pd);
    if (verbs->context)
        ibv_close_device(verbs->context);
    free(verbs);
}

static tutti_status open_parts(struct tu_verbs *verbs) {
    tutti_status status = choose_port(verbs);

    if (status)
        return status;
    choose_limits(verbs);
    status = open_device(verbs);
    if (status == TUTTI_OK)
        status = tu_verbs_plan(verbs->env, &verbs->device, verbs->port.device, verbs->peers,
                               verbs->allowance, verbs->limits.send_depth, &verbs->sizes);
    if (status == TUTTI_OK)
        status = tu_verbs_register_window(verbs);
    if (status == TUTTI_OK)
        status = tu_verbs_make_credits(verbs);
    if (status == TUTTI_OK)
        status = tu_verbs_make_queues(verbs);
    if (status == TUTTI_OK)
        status = tu_verbs_make_pairs(verbs);
    if (status == TUTTI_OK)
        status = tu_verbs_make_stage(verbs);
    return status;
}

static tutti_status open_verbs(const struct tu_transport_params *params,
                               struct tu_transport **transport) {
    struct tu_verbs *verbs;
    tutti_status status;

    if (params->peers > params->max_peers)
        return tu_fail(params->env, TUTTI_ERR_INTERNAL, "%u verbs peers, but at most %u announced",
                       params->peers, params->max_peers);
    status = make(params, &verbs);
    if (status)
        return status;
    status = open_parts(verbs);
    if (status) {
        close_verbs(&verbs->head);
        return status;
    }
    tu_log(
        verbs->env, TU_LOG_DEBUG,
        "verbs: %u peers, %u requests each, %u receive entries, %u completions, %u bytes inline, "
        "path MTU %d",
        verbs->peers, verbs->sizes.send_depth, verbs->sizes.receives, verbs->sizes.completions,
        verbs->inline_bytes, tu_verbs_mtu_bytes(verbs->mtu));
    *transport = &verbs->head;
    return TUTTI_OK;
}

static struct tu_transport_caps capabilities(const struct tu_transport *transport) {
    const struct tu_verbs *verbs = (const struct tu_verbs *)transport;
    uint32_t half = verbs->sizes.send_depth / 2;

    return (struct tu_transport_caps){
        .format = TU_FORMAT_WORDS,
        .mapped = false,
        .immediate = true,
        .max_write_bytes =
            (size_t)verbs->limits.message_bytes * (half < TU_VERBS_PIECES ? half : TU_VERBS_PIECES),
    };
}

const struct tu_transport_ops tu_transport_verbs = {
    "verbs",
    open_verbs,
    close_verbs,
    capabilities,
    tu_verbs_address_bytes,
    tu_verbs_address,
    tu_verbs_connect,
    tu_verbs_register,
    tu_verbs_deregister,
    tu_verbs_line,
    tu_verbs_write,
    tu_verbs_cell,
    tu_verbs_read,
    tu_verbs_poll,
    tu_verbs_drained,
    tu_verbs_arm,
    tu_verbs_wake,
};
