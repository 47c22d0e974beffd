/* Which port and GID are chosen, and what is said when none fits: over made-up devices. */
#include "transport/verbs_device.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"
#include "transport/verbs_endpoint.h"

static struct tu_verbs_port roce(const char *device, int index, const char *gid, uint32_t type) {
    struct tu_verbs_port port = {.port = 1,
                                 .state = IBV_PORT_ACTIVE,
                                 .link_layer = IBV_LINK_LAYER_ETHERNET,
                                 .mtu = IBV_MTU_1024,
                                 .gid_index = index,
                                 .gid_type = type,
                                 .here = true};

    tu_text_format(port.device, sizeof port.device, "%s", device);
    inet_pton(AF_INET6, gid, port.gid.raw);
    return port;
}

static struct tu_verbs_port infiniband(const char *device) {
    struct tu_verbs_port port = roce(device, 0, "fe80::5", IBV_GID_TYPE_IB);

    port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    return port;
}

#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2

static bool has(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

struct scene {
    struct tu_env env;
    struct tu_verbs_port port[16];
    struct tu_verbs_survey survey;
    struct tu_verbs_choice choice;
};

static void begin(struct scene *scene) {
    memset(scene, 0, sizeof *scene);
    tu_config_defaults(&scene->env.config);
    scene->survey.port = scene->port;
}

static void add(struct scene *scene, struct tu_verbs_port port) {
    scene->port[scene->survey.ports++] = port;
    scene->survey.devices = 1;
}

static void expect(struct scene *scene, int index, const char *word) {
    tu_verbs_choose(&scene->env, &scene->survey, &scene->choice);
    cr_assert(eq(int, scene->choice.index, index), "%s", scene->choice.text);
    cr_assert(has(scene->choice.text, word), "no \"%s\" in: %s", word, scene->choice.text);
    cr_assert(eq(int, scene->choice.status == TUTTI_OK, index >= 0));
}

Test(verbs_choice, an_ipv4_gid_of_roce_v2_comes_first, .timeout = 10) {
    struct scene scene;

    begin(&scene);
    add(&scene, roce("a", 0, "fe80::1", V1));
    add(&scene, roce("a", 1, "fe80::1", V2));
    add(&scene, roce("a", 2, "::ffff:10.0.0.1", V1));
    expect(&scene, 1, "link-local");
    add(&scene, roce("a", 3, "fd00::1", V2));
    expect(&scene, 3, "IPv6");
    add(&scene, roce("a", 4, "::ffff:10.0.0.1", V2));
    add(&scene, roce("a", 5, "::ffff:10.0.0.2", V2));
    add(&scene, roce("b", 0, "::ffff:10.0.0.3", V2));
    expect(&scene, 4, "IPv4");
}

Test(verbs_choice, the_first_active_port_comes_first, .timeout = 10) {
    struct scene scene;

    begin(&scene);
    add(&scene, roce("a", 0, "::ffff:10.0.0.1", V2));
    scene.port[0].state = IBV_PORT_DOWN;
    add(&scene, infiniband("b"));
    add(&scene, roce("c", 0, "::ffff:10.0.0.3", V2));
    expect(&scene, 1, "InfiniBand");
}

Test(verbs_choice, addresses_of_other_namespaces_come_last, .timeout = 10) {
    struct scene scene;

    begin(&scene);
    add(&scene, roce("a", 0, "::ffff:10.0.0.1", V2));
    scene.port[0].here = false;
    expect(&scene, 0, "namespace");
    add(&scene, roce("a", 1, "fe80::1", V1));
    expect(&scene, 1, "no RoCE v2");
}

Test(verbs_choice, what_is_forced_comes_before_what_is_better, .timeout = 10) {
    struct scene scene;

    begin(&scene);
    add(&scene, roce("a", 0, "::ffff:10.0.0.1", V2));
    add(&scene, roce("a", 1, "fe80::1", V1));
    add(&scene, roce("b", 0, "::ffff:10.0.0.2", V2));
    add(&scene, roce("b", 1, "fe80::2", V1));
    strcpy(scene.env.config.device, "b");
    expect(&scene, 2, "forced by TUTTI_DEVICE");
    scene.env.config.gid_index = 1;
    expect(&scene, 3, "forced by TUTTI_DEVICE and TUTTI_GID_INDEX");
    scene.env.config.device[0] = '\0';
    expect(&scene, 1, "forced by TUTTI_GID_INDEX");
}

Test(verbs_choice, the_text_names_the_nearest_miss, .timeout = 10) {
    struct scene scene;

    begin(&scene);
    expect(&scene, -1, "ibv_devinfo");
    scene.survey.devices = 1;
    strcpy(scene.survey.unopened, "a: Permission denied");
    expect(&scene, -1, "a: Permission denied");

    add(&scene, roce("a", 0, "::ffff:10.0.0.1", V2));
    add(&scene, roce("a:1", 0, "::ffff:10.0.0.1", V2)); /* a name with a colon */
    strcpy(scene.env.config.device, "b");
    expect(&scene, -1, "TUTTI_DEVICE asks for b, there is: a, a:1");
    strcpy(scene.env.config.device, "a:2");
    expect(&scene, -1, "port 2 of a,");
    strcpy(scene.env.config.device, "a:1:1");
    expect(&scene, 1, "forced");
    strcpy(scene.env.config.device, "a:1");
    expect(&scene, 0, "forced");
    scene.env.config.gid_index = 3;
    expect(&scene, -1, "has: 0 (::ffff:10.0.0.1, RoCE v2)");
    scene.port[0].gid_index = -1;
    expect(&scene, -1, "has no GID");
    scene.port[0].state = IBV_PORT_INIT;
    expect(&scene, -1, "not active but init");
    cr_assert(eq(int, scene.choice.status, TUTTI_ERR_DEVICE));
    scene.port[0].iwarp = true;
    expect(&scene, -1, "iWARP");
    cr_assert(eq(int, scene.choice.status, TUTTI_ERR_UNSUPPORTED));
}

/* ---- sizes of queues ------------------------------------------------------------------------ */

static tutti_status plan(const struct ibv_device_attr *device, uint32_t peers, uint32_t allowance,
                         struct tu_verbs_sizes *sizes) {
    struct tu_env env = {.log = {.level = TU_LOG_OFF}};

    *sizes = (struct tu_verbs_sizes){0};
    return tu_verbs_plan(&env, device, "a", peers, allowance, 128, sizes);
}

Test(verbs_choice, queues_hold_the_worst_case_within_the_device, .timeout = 10) {
    struct ibv_device_attr device = {
        .max_srq = 1, .max_srq_wr = 4096, .max_cqe = 32767, .max_qp_wr = 16384};
    struct tu_verbs_sizes sizes;

    for (uint32_t peers = 0; peers <= 200; peers++) {
        cr_assert(eq(int, plan(&device, peers, 16, &sizes), TUTTI_OK));
        cr_assert(ge(u32, sizes.receives, peers * 16));
        cr_assert(ge(u32, sizes.completions, peers * sizes.send_depth + sizes.receives));
        cr_assert(le(u32, sizes.completions, 32767));
        cr_assert(eq(u32, sizes.send_depth & (sizes.send_depth - 1), 0));
    }
    cr_assert(eq(u32, sizes.send_depth, 128));
    device.max_cqe = 8191;
    cr_assert(eq(int, plan(&device, 100, 16, &sizes), TUTTI_OK));
    cr_assert(eq(u32, sizes.send_depth, 64), "shorter queues where the completion queue is small");
    device.max_qp_wr = 40;
    cr_assert(eq(int, plan(&device, 100, 16, &sizes), TUTTI_OK));
    cr_assert(eq(u32, sizes.send_depth, 32));
}

Test(verbs_choice, queues_too_large_for_the_device_are_an_error, .timeout = 10) {
    struct ibv_device_attr device = {
        .max_srq = 1, .max_srq_wr = 1000, .max_cqe = 32767, .max_qp_wr = 16384};
    struct tu_verbs_sizes sizes;

    cr_assert(eq(int, plan(&device, 100, 16, &sizes), TUTTI_ERR_UNSUPPORTED));
    cr_assert(eq(u32, sizes.completions, 0), "untouched");
    device.max_srq_wr = 100000;
    device.max_cqe = 2000;
    cr_assert(eq(int, plan(&device, 100, 16, &sizes), TUTTI_ERR_UNSUPPORTED));
    device.max_cqe = 32767;
    device.max_srq = 0;
    cr_assert(eq(int, plan(&device, 1, 1, &sizes), TUTTI_ERR_UNSUPPORTED));
    device.max_srq = 1;
    device.max_qp_wr = 4;
    cr_assert(eq(int, plan(&device, 1, 1, &sizes), TUTTI_ERR_UNSUPPORTED));
}
