/*
 * Which port and GID to use, and the text that says why, or why none fits. A pure function of the
 * survey and the knobs, apart from the list for people at the end.
 */
#include "transport/verbs_device.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"
#include "transport/verbs.h"

/* What TUTTI_DEVICE and TUTTI_GID_INDEX ask for. */
struct forced {
    char device[64]; /* "": any */
    int port;        /* 0: any */
    int gid_index;   /* -1: any */
};

/* What stands in an entry's way, in the order in which it is asked: a later one is a nearer miss. */
enum obstacle { OTHER_DEVICE, OTHER_PORT, IS_IWARP, NOT_ACTIVE, NO_GID, OTHER_GID, USABLE };

/* Splits "dev:port"; a name may contain colons, a port is all digits. */
static void read_forced(const struct tu_config *config, struct forced *forced) {
    char *colon;

    tu_text_format(forced->device, sizeof forced->device, "%s", config->device);
    forced->port = 0;
    forced->gid_index = config->gid_index;
    colon = strrchr(forced->device, ':');
    if (colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1)) {
        forced->port = atoi(colon + 1);
        *colon = '\0';
    }
}

static enum obstacle obstacle(const struct forced *forced, const struct tu_verbs_port *port) {
    if (forced->device[0] && strcmp(forced->device, port->device) != 0)
        return OTHER_DEVICE;
    if (forced->port && forced->port != port->port)
        return OTHER_PORT;
    if (port->iwarp)
        return IS_IWARP;
    if (port->state != IBV_PORT_ACTIVE)
        return NOT_ACTIVE;
    if (port->gid_index < 0)
        return NO_GID;
    if (forced->gid_index >= 0 && forced->gid_index != port->gid_index)
        return OTHER_GID;
    return USABLE;
}

/* ---- the best of the usable ----------------------------------------------------------------- */

struct grade {
    int points;
    const char *text;
};

static struct grade grade(const struct tu_verbs_port *port) {
    const struct in6_addr *address = (const struct in6_addr *)(const void *)port->gid.raw;

    if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
        return (struct grade){5, "InfiniBand"};
    if (!port->here)
        return (struct grade){1, "only GIDs whose address is not of this network namespace"};
    if (port->gid_type != IBV_GID_TYPE_ROCE_V2)
        return (struct grade){2, "no RoCE v2"};
    if (IN6_IS_ADDR_V4MAPPED(address))
        return (struct grade){5, "RoCE v2 with an IPv4 address"};
    if (IN6_IS_ADDR_LINKLOCAL(address))
        return (struct grade){3, "RoCE v2 with a link-local address only"};
    return (struct grade){4, "RoCE v2 with an IPv6 address, none with IPv4"};
}

static void explain(const struct forced *forced, const struct tu_verbs_port *port,
                    struct tu_verbs_choice *choice) {
    char text[200];

    tu_verbs_port_text(port, text, sizeof text);
    if (forced->device[0] && forced->gid_index >= 0)
        tu_text_format(choice->text, sizeof choice->text,
                       "%s: forced by TUTTI_DEVICE and TUTTI_GID_INDEX", text);
    else if (forced->device[0] || forced->gid_index >= 0)
        tu_text_format(choice->text, sizeof choice->text, "%s: forced by %s; %s", text,
                       forced->device[0] ? "TUTTI_DEVICE" : "TUTTI_GID_INDEX", grade(port).text);
    else
        tu_text_format(choice->text, sizeof choice->text,
                       "%s: the first active port with the best "
                       "GID: %s",
                       text, grade(port).text);
}

/* ---- why none is usable --------------------------------------------------------------------- */

/* Appends to a text that ends at *used. */
__attribute__((format(printf, 3, 4))) static void append(struct tu_verbs_choice *choice,
                                                         size_t *used, const char *format, ...) {
    va_list arguments;

    if (*used + 8 > sizeof choice->text)
        return;
    va_start(arguments, format);
    *used += tu_text_vformat(choice->text + *used, sizeof choice->text - *used, format, arguments);
    va_end(arguments);
}

static void list_devices(const struct tu_verbs_survey *survey, struct tu_verbs_choice *choice,
                         size_t *used) {
    const char *last = "";

    for (int i = 0; i < survey->ports; i++) {
        if (strcmp(survey->port[i].device, last) == 0)
            continue;
        append(choice, used, "%s%s", last[0] ? ", " : "", survey->port[i].device);
        last = survey->port[i].device;
    }
}

static void list_gids(const struct tu_verbs_survey *survey, const struct tu_verbs_port *port,
                      struct tu_verbs_choice *choice, size_t *used) {
    const char *separator = "";
    char gid[INET6_ADDRSTRLEN];

    for (int i = 0; i < survey->ports; i++) {
        const struct tu_verbs_port *p = &survey->port[i];

        if (strcmp(p->device, port->device) != 0 || p->port != port->port)
            continue;
        append(choice, used, "%s%d (%s, %s)", separator, p->gid_index,
               inet_ntop(AF_INET6, p->gid.raw, gid, sizeof gid),
               tu_verbs_gid_type_name(p->gid_type));
        separator = ", ";
    }
}

static void explain_nothing(const struct tu_verbs_survey *survey, struct tu_verbs_choice *choice) {
    if (survey->devices == 0)
        tu_text_format(choice->text, sizeof choice->text,
                       "no RDMA device found (`rdma link` and `ibv_devinfo` list them): is its "
                       "driver loaded with ib_uverbs, is /dev/infiniband there in the container, "
                       "is libibverbs' provider of the device installed?");
    else
        tu_text_format(choice->text, sizeof choice->text, "no RDMA device could be opened: %s",
                       survey->unopened[0] ? survey->unopened : "no device has a port");
}

static void explain_failure(const struct tu_verbs_survey *survey, const struct forced *forced,
                            enum obstacle nearest, const struct tu_verbs_port *port,
                            struct tu_verbs_choice *choice) {
    size_t used = 0;

    choice->status = nearest == IS_IWARP ? TUTTI_ERR_UNSUPPORTED : TUTTI_ERR_DEVICE;
    switch (nearest) {
    case OTHER_DEVICE:
        append(choice, &used, "TUTTI_DEVICE asks for %s, there is: ", forced->device);
        list_devices(survey, choice, &used);
        if (survey->unopened[0])
            append(choice, &used, "; not opened: %s", survey->unopened);
        break;
    case OTHER_PORT:
        append(choice, &used, "TUTTI_DEVICE asks for port %d of %s, which has no such port",
               forced->port, port->device);
        break;
    case IS_IWARP:
        append(choice, &used,
               "%s is an iWARP device: it has no write with immediate data, which "
               "the verbs transport needs; InfiniBand and RoCE devices have it",
               port->device);
        break;
    case NOT_ACTIVE:
        append(choice, &used,
               "port %d of %s is not active but %s: look at `rdma link`, the cable, "
               "and the interface (`ip link`)%s",
               port->port, port->device, ibv_port_state_str(port->state),
               forced->device[0] ? "" : "; no other RDMA port is active either");
        break;
    case NO_GID:
        append(choice, &used,
               "port %d of %s has no GID: its interface needs an address (`ip addr`)", port->port,
               port->device);
        break;
    default:
        append(choice, &used,
               "TUTTI_GID_INDEX asks for GID %d; port %d of %s has: ", forced->gid_index,
               port->port, port->device);
        list_gids(survey, port, choice, &used);
    }
}

/* ---- the choice ----------------------------------------------------------------------------- */

void tu_verbs_choose(const struct tu_env *env, const struct tu_verbs_survey *survey,
                     struct tu_verbs_choice *choice) {
    struct forced forced;
    enum obstacle nearest = OTHER_DEVICE;
    int best_points = 0, example = 0;

    *choice = (struct tu_verbs_choice){.index = -1, .status = TUTTI_ERR_DEVICE};
    read_forced(&env->config, &forced);
    for (int i = 0; i < survey->ports; i++) {
        const struct tu_verbs_port *port = &survey->port[i];
        enum obstacle found = obstacle(&forced, port);

        if (found > nearest) {
            nearest = found;
            example = i;
        }
        if (found == USABLE && grade(port).points > best_points) {
            best_points = grade(port).points;
            choice->index = i;
        }
    }
    if (choice->index >= 0) {
        choice->status = TUTTI_OK;
        explain(&forced, &survey->port[choice->index], choice);
    } else if (survey->ports == 0) {
        explain_nothing(survey, choice);
    } else {
        explain_failure(survey, &forced, nearest, &survey->port[example], choice);
    }
}

const char *tu_verbs_port_text(const struct tu_verbs_port *port, char *buffer, size_t bytes) {
    char gid[INET6_ADDRSTRLEN] = "";

    inet_ntop(AF_INET6, port->gid.raw, gid, sizeof gid);
    tu_text_format(buffer, bytes, "%s port %d (%s, MTU %d), GID %d %s (%s%s%s)", port->device,
                   port->port, tu_verbs_link_name(port->link_layer), tu_verbs_mtu_bytes(port->mtu),
                   port->gid_index, gid, tu_verbs_gid_type_name(port->gid_type),
                   port->interface[0] ? ", " : "", port->interface);
    return buffer;
}

/* ---- the list for people -------------------------------------------------------------------- */

static void describe(const struct tu_verbs_port *port, tutti_port_info *info) {
    tu_text_format(info->device, sizeof info->device, "%s", port->device);
    info->port = port->port;
    info->active = port->state == IBV_PORT_ACTIVE;
    tu_text_format(info->link, sizeof info->link, "%s", tu_verbs_link_name(port->link_layer));
    info->mtu = tu_verbs_mtu_bytes(port->mtu);
    info->gid_index = port->gid_index;
    info->gid[0] = '\0';
    info->gid_type[0] = '\0';
    if (port->gid_index >= 0) {
        inet_ntop(AF_INET6, port->gid.raw, info->gid, sizeof info->gid);
        tu_text_format(info->gid_type, sizeof info->gid_type, "%s",
                       tu_verbs_gid_type_name(port->gid_type));
    }
    tu_text_format(info->interface, sizeof info->interface, "%s", port->interface);
}

tutti_status tu_verbs_port_at(struct tu_env *env, int index, tutti_port_info *info) {
    struct tu_verbs_survey survey;
    struct tu_verbs_choice choice;
    tutti_status status = tu_verbs_survey(env, &survey);

    if (status)
        return status;
    if (index >= 0 && index < survey.ports) {
        tu_verbs_choose(env, &survey, &choice);
        describe(&survey.port[index], info);
        info->chosen = index == choice.index;
    } else {
        status = TUTTI_ERR_ARG;
    }
    tu_verbs_survey_free(&survey);
    return status;
}

tutti_status tu_verbs_port_reason(struct tu_env *env, char *text, size_t bytes) {
    struct tu_verbs_survey survey;
    struct tu_verbs_choice choice;
    tutti_status status = tu_verbs_survey(env, &survey);

    if (status)
        return status;
    tu_verbs_choose(env, &survey, &choice);
    tu_text_format(text, bytes, "%s", choice.text);
    tu_verbs_survey_free(&survey);
    return choice.status;
}
