/*
 * What verbs say about devices, ports, GIDs, limits and failures, on a real device: one rxe0 on the
 * interface d0 with 10.0.0.1. Some tests take its link down and put it back.
 */
#define _GNU_SOURCE /* setresuid */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/conformance/verbs_subject.h"
#include "transport/verbs_endpoint.h"

const struct conformance_subject conformance_subject = {.name = "verbs",
                                                        .ops = &tu_transport_verbs,
                                                        .configure = verbs_configure,
                                                        .send_depth = 128,
                                                        .starved = verbs_starved};

static bool has(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Opening fails with this status and a text that has both words, and leaves nothing behind. */
static void expect_failure(struct endpoint *e, tutti_status status, const char *word,
                           const char *other) {
    int before = open_files();

    cr_assert(eq(int, endpoint_open(e), status), "%s", e->env.error);
    cr_assert(has(e->env.error, word), "no \"%s\" in: %s", word, e->env.error);
    cr_assert(has(e->env.error, other), "no \"%s\" in: %s", other, e->env.error);
    cr_assert(e->transport == NULL, "*transport is untouched");
    cr_assert(eq(int, open_files(), before));
}

static void pass_something(struct party *party) {
    struct endpoint *e = party->endpoint;

    fill(e[0].window + OUT_AT, 50000, 3);
    send_write(&e[0], 0, OUT_AT, IN_AT, 50000, 0);
    while (e[1].link[0].arrived == 0)
        party_turn(party);
    cr_assert(is_filled(e[1].window + IN_AT, 50000, 3));
}

/* ---- the choice ----------------------------------------------------------------------------- */

Test(verbs_device, the_list_has_the_port_and_marks_the_choice, .timeout = 20) {
    struct party *party = party_make(2);
    tutti_port_info info = {.size = sizeof info};
    int chosen = 0, n = 0;

    party->endpoint[0].env.config.device[0] = '\0';
    for (; tu_verbs_port_at(&party->endpoint[0].env, n, &info) == TUTTI_OK; n++) {
        cr_assert(eq(str, info.device, "rxe0"));
        cr_assert(eq(str, info.link, "Ethernet"));
        cr_assert(info.active && info.port == 1 && info.mtu == 4096);
        if (!info.chosen)
            continue;
        chosen++;
        cr_assert(eq(str, info.gid, "::ffff:10.0.0.1"));
        cr_assert(eq(str, info.gid_type, "RoCE v2"));
        cr_assert(eq(str, info.interface, "d0"));
    }
    cr_assert(ge(int, n, 1));
    cr_assert(eq(int, chosen, 1));
    cr_assert(eq(int, tu_verbs_port_at(&party->endpoint[0].env, -1, &info), TUTTI_ERR_ARG));
    cr_assert(eq(str, party->endpoint[0].env.error, ""), "the end of the list is no error");
    party_close(party);
}

Test(verbs_device, one_line_says_what_was_chosen_and_why, .timeout = 20) {
    struct party *party = party_make(2);
    struct endpoint *e = party->endpoint;

    e->env.config.device[0] = '\0';
    cr_assert(eq(int, endpoint_open(e), TUTTI_OK));
    cr_assert(has(e->logged, "rxe0 port 1") && has(e->logged, "10.0.0.1") &&
                  has(e->logged, "first active port"),
              "%s", e->logged);
    party_close(party);
}

Test(verbs_device, what_is_forced_is_used_or_an_error, .timeout = 20) {
    struct party *party = party_make(2);
    struct endpoint *e = party->endpoint;
    struct tu_config *config = &e->env.config;

    strcpy(config->device, "mlx5_7");
    expect_failure(e, TUTTI_ERR_DEVICE, "mlx5_7", "rxe0");
    strcpy(config->device, "rxe0:2");
    expect_failure(e, TUTTI_ERR_DEVICE, "port 2 of rxe0", "TUTTI_DEVICE");
    strcpy(config->device, "rxe0:1");
    config->gid_index = 77;
    expect_failure(e, TUTTI_ERR_DEVICE, "TUTTI_GID_INDEX asks for GID 77", "::ffff:10.0.0.1");
    config->gid_index = 1;
    cr_assert(eq(int, endpoint_open(e), TUTTI_OK), "%s", e->env.error);
    cr_assert(has(e->logged, "forced by TUTTI_DEVICE and TUTTI_GID_INDEX"), "%s", e->logged);
    party_close(party);
}

Test(verbs_device, the_smaller_mtu_of_both_is_used, .timeout = 20) {
    struct party *party = party_make(2);

    party->endpoint[0].env.config.mtu = 512;
    for (int i = 0; i < 2; i++)
        cr_assert(eq(int, endpoint_open(&party->endpoint[i]), TUTTI_OK));
    for (int i = 0; i < 2; i++)
        endpoint_connect(&party->endpoint[i], 0);
    pass_something(party); /* a longer packet than the target's MTU would end the queue pair */
    party_close(party);
}

Test(verbs_device, an_mtu_above_the_ports_is_warned_about, .timeout = 20) {
    struct party *party = party_make(2);
    struct endpoint *e = party->endpoint;

    e->env.log.level = TU_LOG_WARN;
    e->env.config.mtu = 8192;
    cr_assert(eq(int, endpoint_open(e), TUTTI_OK));
    cr_assert(has(e->logged, "TUTTI_MTU=8192"), "%s", e->logged);
    party_close(party);
}

/* ---- limits --------------------------------------------------------------------------------- */

Test(verbs_device, a_low_limit_of_locked_memory_is_named, .timeout = 20) {
    struct party *party = party_make(2);
    struct rlimit limit = {64 << 10, 64 << 10};

    cr_assert(eq(int, setrlimit(RLIMIT_MEMLOCK, &limit), 0));
    cr_assert(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 &&
              setresuid(65534, 65534, 65534) == 0); /* root may lock any amount */
    expect_failure(party->endpoint, TUTTI_ERR_MEMORY, "ulimit -l", "64 KiB");
    cr_assert(has(party->endpoint->env.error, "4 MiB"), "%s", party->endpoint->env.error);
    party_close(party);
}

Test(verbs_device, what_the_device_cannot_hold_is_named, .timeout = 20) {
    static const uint32_t ranks[] = {1};
    static const char *const hosts[] = {"host1"};
    struct party *party = party_make(2);
    struct endpoint *e = party->endpoint;
    struct tu_transport_params params = {.env = &e->env,
                                         .window = e->window,
                                         .window_bytes = WINDOW_BYTES,
                                         .peers = 1,
                                         .peer_rank = ranks,
                                         .peer_host = hosts,
                                         .counters = &e->counters,
                                         .max_peers = 1,
                                         .slots_per_peer = 1 << 29};

    cr_assert(eq(int, tu_transport_verbs.open(&params, &e->transport), TUTTI_ERR_UNSUPPORTED));
    cr_assert(has(e->env.error, "TUTTI_RING"), "%s", e->env.error);
    party_close(party);
}

Test(verbs_device, memory_that_is_not_there_is_an_error, .timeout = 20) {
    struct party *party = party_open(2);
    struct endpoint *e = party->endpoint;
    uint64_t key = 5;

    cr_assert(eq(int, tu_transport_verbs.register_memory(e->transport, (void *)4096, 4096, &key),
                 TUTTI_ERR_MEMORY));
    cr_assert(eq(u64, key, 5));
    cr_assert(has(e->env.error, "Bad address"), "%s", e->env.error);
    party_close(party);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void run(const char *command) {
    cr_assert(eq(int, system(command), 0), "%s", command);
}

/* The text names peer, device, status and suspect. */
static void expect_why(const struct endpoint *e, const char *status, const char *hint) {
    cr_assert(has(e->why, "rank 1 (host host1)"), "%s", e->why);
    cr_assert(has(e->why, "rxe0 port 1"), "%s", e->why);
    cr_assert(has(e->why, status) && has(e->why, hint), "%s", e->why);
}

Test(verbs_device, a_peer_that_is_gone_is_explained, .timeout = 20) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;

    party->loses = true;
    endpoint_close(&e[1]);
    send_cell(&e[0], 0, 0, 1);
    tu_transport_verbs.drained(e[0].transport);
    while (!e[0].link[0].lost)
        party_turn(party);
    expect_why(e, "transport retry counter exceeded", "the peer is gone");
    party_close(party);
}

/* The window goes while the queue pair stays: the writer hears of it, and the owner when it sends. */
Test(verbs_device, a_window_that_is_gone_is_explained, .timeout = 20) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    struct tu_verbs *owner = tu_verbs_of(e[1].transport);

    pass_something(party);
    cr_assert(eq(int, ibv_dereg_mr(owner->window_mr), 0));
    owner->window_mr = NULL;
    party->loses = true;
    send_cell(&e[0], 0, 0, 1);
    while (!e[0].link[0].lost)
        party_turn(party);
    expect_why(&e[0], "remote access error", "not registered any more");
    if (!e[1].link[0].lost)
        send_cell(&e[1], 0, 0, 1);
    while (!e[1].link[0].lost)
        party_turn(party);
    cr_assert(has(e[1].why, "rank 0 (host host0)"), "%s", e[1].why);
    party_close(party);
}

/* A post that fails tells nothing at once; the next poll does. */
Test(verbs_device, a_post_that_fails_is_told_by_poll, .timeout = 20) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    struct tu_verbs *verbs = tu_verbs_of(e[0].transport);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

    party->loses = true;
    cr_assert(eq(int, ibv_modify_qp(verbs->peer[0].qp, &attr, IBV_QP_STATE), 0));
    cr_assert(
        eq(int, tu_transport_verbs.cell(e[0].transport, 0, CELLS_AT, 1), TUTTI_ERR_UNREACHABLE));
    cr_assert(eq(int, e[0].link[0].lost, 0));
    cr_assert(
        eq(int, tu_transport_verbs.cell(e[0].transport, 0, CELLS_AT, 1), TUTTI_ERR_UNREACHABLE));
    party_turn(party);
    cr_assert(eq(int, e[0].link[0].lost, 1));
    expect_why(&e[0], "takes no requests", "rank 1");
    party_turn(party);
    cr_assert(eq(int, e[0].link[0].lost, 1));
    party_close(party);
}

Test(verbs_device, a_link_that_is_down_is_explained, .timeout = 40) {
    struct party *party = party_connected(2);
    struct endpoint *e = party->endpoint;
    int outcome;

    party->loses = true;
    run("ip link set d0 down");
    send_cell(&e[0], 0, 0, 1);
    tu_transport_verbs.drained(e[0].transport);
    while (!e[0].link[0].lost)
        party_turn(party);
    endpoint_close(&e[0]);
    outcome = endpoint_open(&e[0]);
    run("ip link set d0 up");
    expect_why(e, "status", "rdma link");
    cr_assert(eq(int, outcome, TUTTI_ERR_DEVICE));
    cr_assert(has(e->env.error, "port 1 of rxe0 is not active"), "%s", e->env.error);
    party_close(party);
}
