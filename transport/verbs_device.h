/* Devices, their ports and GIDs as one flat list, and which entry of it to use. */
#ifndef TU_TRANSPORT_VERBS_DEVICE_H
#define TU_TRANSPORT_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tu_env;

/* One GID of one port, or a port that has none (gid_index -1). */
struct tu_verbs_port {
    char device[64];
    char interface[32]; /* of the GID; "" if none or not visible here */
    bool iwarp;
    int port; /* from 1 */
    enum ibv_port_state state;
    uint8_t link_layer; /* IBV_LINK_LAYER_... */
    uint16_t lid;
    enum ibv_mtu mtu;       /* active */
    uint32_t message_bytes; /* longest message */
    int gid_index;
    union ibv_gid gid;
    uint32_t gid_type; /* enum ibv_gid_type */
    bool here;         /* the GID's address is one of this network namespace (RoCE) */
};

struct tu_verbs_survey {
    struct tu_verbs_port *port;
    int ports;
    int devices;
    char unopened[160]; /* devices that could not be opened, with the reason; "" if none */
};

/*
 * Looks at all devices. No device, and no RDMA in the kernel, is an empty list. TUTTI_ERR_MEMORY is
 * the only failure. Blocks (device commands).
 */
tutti_status tu_verbs_survey(struct tu_env *env, struct tu_verbs_survey *survey);
void tu_verbs_survey_free(struct tu_verbs_survey *survey);

/* Opens the device of that name; NULL and errno if it can't. */
struct ibv_context *tu_verbs_open_device(const char *name);

struct tu_verbs_choice {
    int index;           /* in the survey, -1: none fits */
    tutti_status status; /* why none fits */
    char text[600];      /* why this one, or why none */
};

/*
 * Picks a port and GID as TUTTI_DEVICE and TUTTI_GID_INDEX force, else the best: active, RoCE v2 with
 * an IPv4-mapped GID or InfiniBand before others, the first of equals. Logs nothing.
 */
void tu_verbs_choose(const struct tu_env *env, const struct tu_verbs_survey *survey,
                     struct tu_verbs_choice *choice);

/* "rxe0 port 1 (Ethernet, MTU 4096), GID 1 ::ffff:10.0.0.1 (RoCE v2, d0)". Returns `buffer`. */
const char *tu_verbs_port_text(const struct tu_verbs_port *port, char *buffer, size_t bytes);

const char *tu_verbs_link_name(uint8_t link_layer);
const char *tu_verbs_gid_type_name(uint32_t gid_type);
int tu_verbs_mtu_bytes(enum ibv_mtu mtu);

#endif
