/*
 * The device list: every device is opened once and asked for its ports and GIDs. Nothing is chosen
 * here, and a machine without devices is an empty list, not an error.
 */
#include "transport/verbs_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/memory.h"
#include "runtime/text.h"

enum { MAX_GIDS = 1024 }; /* of one device: tables have 16 to 256 per port, most of them empty */

/* ---- what a survey collects on its way ------------------------------------------------------ */

struct walk {
    struct tu_env *env;
    struct tu_verbs_survey *survey;
    struct ifaddrs *addresses; /* of this network namespace; NULL if they can't be had */
    struct ibv_gid_entry *gid; /* [MAX_GIDS] of the device at hand */
    ssize_t gids;
};

static tutti_status add(struct walk *walk, const struct tu_verbs_port *port) {
    struct tu_verbs_survey *survey = walk->survey;
    size_t n = (size_t)survey->ports + 1;
    struct tu_verbs_port *grown = realloc(survey->port, n * sizeof *grown);

    if (!grown)
        return tu_fail(walk->env, TUTTI_ERR_MEMORY, "no memory for the list of %zu RDMA ports", n);
    survey->port = grown;
    grown[survey->ports++] = *port;
    return TUTTI_OK;
}

static void note_unopened(struct tu_verbs_survey *survey, const char *device, int errnum) {
    size_t used = strlen(survey->unopened);

    if (used + 8 < sizeof survey->unopened)
        tu_text_format(survey->unopened + used, sizeof survey->unopened - used, "%s%s: %s",
                       used ? "; " : "", device, strerror(errnum));
}

/* ---- GIDs ----------------------------------------------------------------------------------- */

static bool is_ipv4_mapped(const union ibv_gid *gid) {
    return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->raw);
}

static bool same_address(const struct sockaddr *address, const union ibv_gid *gid) {
    if (address->sa_family == AF_INET)
        return is_ipv4_mapped(gid) &&
               memcmp(&((const struct sockaddr_in *)(const void *)address)->sin_addr, gid->raw + 12,
                      4) == 0;
    if (address->sa_family == AF_INET6)
        return memcmp(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, gid->raw,
                      16) == 0;
    return false;
}

/*
 * A GID table also lists addresses of other network namespaces, such as other containers'. Packets
 * sent in their name are not answered, so those GIDs must be told apart.
 */
static bool is_here(const struct walk *walk, const union ibv_gid *gid) {
    if (!walk->addresses)
        return true;
    for (const struct ifaddrs *a = walk->addresses; a; a = a->ifa_next)
        if (a->ifa_addr && same_address(a->ifa_addr, gid))
            return true;
    return false;
}

static tutti_status add_gid(struct walk *walk, struct tu_verbs_port *port,
                            const struct ibv_gid_entry *entry) {
    char name[IF_NAMESIZE];

    port->gid_index = (int)entry->gid_index;
    port->gid = entry->gid;
    port->gid_type = entry->gid_type;
    port->here = port->link_layer != IBV_LINK_LAYER_ETHERNET || is_here(walk, &entry->gid);
    port->interface[0] = '\0';
    if (entry->ndev_ifindex && if_indextoname(entry->ndev_ifindex, name))
        tu_text_format(port->interface, sizeof port->interface, "%s", name);
    return add(walk, port);
}

/* ---- ports and devices ---------------------------------------------------------------------- */

static tutti_status survey_port(struct walk *walk, struct ibv_context *context, int number,
                                struct tu_verbs_port *port) {
    struct ibv_port_attr attr;
    int before = walk->survey->ports;

    if (ibv_query_port(context, (uint8_t)number, &attr))
        return TUTTI_OK; /* a port that does not answer is of no use */
    port->port = number;
    port->state = attr.state;
    port->link_layer =
        attr.link_layer == IBV_LINK_LAYER_UNSPECIFIED ? IBV_LINK_LAYER_INFINIBAND : attr.link_layer;
    port->lid = attr.lid;
    port->mtu = attr.active_mtu;
    port->message_bytes = attr.max_msg_sz;
    for (ssize_t i = 0; i < walk->gids; i++) {
        if (walk->gid[i].port_num != (uint32_t)number)
            continue;
        tutti_status status = add_gid(walk, port, &walk->gid[i]);
        if (status)
            return status;
    }
    if (walk->survey->ports > before)
        return TUTTI_OK;
    port->gid_index = -1;
    port->interface[0] = '\0';
    return add(walk, port);
}

static tutti_status survey_device(struct walk *walk, struct ibv_device *device) {
    struct tu_verbs_port port = {.gid_index = -1};
    const char *name = ibv_get_device_name(device);
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_device_attr attr;
    tutti_status status = TUTTI_OK;
    int error = errno;

    if (context)
        error = ibv_query_device(context, &attr);
    if (!context || error) {
        note_unopened(walk->survey, name, error);
        attr.phys_port_cnt = 0;
    }
    tu_text_format(port.device, sizeof port.device, "%s", name);
    port.iwarp = device->transport_type != IBV_TRANSPORT_IB;
    walk->gids = attr.phys_port_cnt ? ibv_query_gid_table(context, walk->gid, MAX_GIDS, 0) : 0;
    for (int number = 1; status == TUTTI_OK && number <= attr.phys_port_cnt; number++)
        status = survey_port(walk, context, number, &port);
    if (context)
        ibv_close_device(context);
    return status;
}

tutti_status tu_verbs_survey(struct tu_env *env, struct tu_verbs_survey *survey) {
    struct walk walk = {.env = env, .survey = survey};
    struct ibv_device **list;
    tutti_status status;
    void *gids = NULL;

    memset(survey, 0, sizeof *survey);
    list = ibv_get_device_list(&survey->devices);
    if (!list || survey->devices == 0) {
        survey->devices = 0;
        if (list)
            ibv_free_device_list(list);
        return TUTTI_OK;
    }
    status = tu_alloc_for(env, "a table of GIDs", 0, MAX_GIDS, sizeof *walk.gid, &gids);
    walk.gid = gids;
    if (getifaddrs(&walk.addresses))
        walk.addresses = NULL;
    for (int i = 0; status == TUTTI_OK && i < survey->devices; i++)
        status = survey_device(&walk, list[i]);
    if (walk.addresses)
        freeifaddrs(walk.addresses);
    free(gids);
    ibv_free_device_list(list);
    if (status)
        tu_verbs_survey_free(survey);
    return status;
}

void tu_verbs_survey_free(struct tu_verbs_survey *survey) {
    free(survey->port);
    memset(survey, 0, sizeof *survey);
}

struct ibv_context *tu_verbs_open_device(const char *name) {
    int devices;
    struct ibv_device **list = ibv_get_device_list(&devices);
    struct ibv_context *context = NULL;
    int error = ENODEV;

    for (int i = 0; list && i < devices; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) != 0)
            continue;
        context = ibv_open_device(list[i]);
        error = errno;
        break;
    }
    if (list)
        ibv_free_device_list(list);
    errno = error;
    return context;
}

/* ---- names ---------------------------------------------------------------------------------- */

const char *tu_verbs_link_name(uint8_t link_layer) {
    return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

const char *tu_verbs_gid_type_name(uint32_t gid_type) {
    switch (gid_type) {
    case IBV_GID_TYPE_IB:
        return "IB";
    case IBV_GID_TYPE_ROCE_V1:
        return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
        return "RoCE v2";
    default:
        return "unknown";
    }
}

int tu_verbs_mtu_bytes(enum ibv_mtu mtu) {
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << (int)mtu : 0;
}
