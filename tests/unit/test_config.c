/* Knobs: the table, the environment, bad and unknown variables, agreement, launchers. */
#include <criterion/criterion.h>
#include <limits.h>

#include "capture.h"

/* ---- the table ----------------------------------------------------------------------------- */

Test(config, table_is_complete_and_its_defaults_are_allowed, .timeout = 10) {
    struct capture *c = capture_open();
    struct tu_config defaults = c->env.config;
    size_t n;
    const struct tu_knob *knob = tu_config_knobs(&n);
    char text[128];

    cr_assert_gt(n, 20);
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(strncmp(knob[i].name, "TUTTI_", 6), 0);
        cr_expect(knob[i].help && *knob[i].help && knob[i].unit, "%s", knob[i].name);
        cr_expect_eq(tu_config_find(knob[i].name), &knob[i]);
        cr_expect_str_eq(tu_config_format(&defaults, &knob[i], text, sizeof text),
                         knob[i].fallback);
        cr_expect_str_eq(tu_config_origin(&defaults, &knob[i]), "default");
        cr_expect_eq(tu_config_set(&c->env, knob[i].name, knob[i].fallback), TUTTI_OK, "%s: %s",
                     knob[i].name, c->env.error);
        cr_expect_str_eq(tu_config_origin(&c->env.config, &knob[i]), "environment");
        cr_expect_gt(strlen(tu_config_allowed(&knob[i], text, sizeof text)), 5);
    }
    c->env.config.set = 0;
    cr_expect_eq(memcmp(&c->env.config, &defaults, sizeof defaults), 0);
    free(c);
}

Test(config, defaults, .timeout = 10) {
    struct tu_config config;

    memset(&config, 0xff, sizeof config);
    tu_config_defaults(&config);
    cr_expect_str_eq(config.log, "warn");
    cr_expect_str_eq(config.node, "");
    cr_expect_eq(config.shm, TU_SHM_AUTO);
    cr_expect_eq(config.gid_index, -1);
    cr_expect_eq(config.init_timeout_ms, 60000);
    cr_expect_eq(config.timeout_ms, 0);
    cr_expect_eq(config.late_ms, 10000);
    cr_expect_eq(config.spin, -1);
    cr_expect_str_eq(config.kernels, "");
    cr_expect_eq(config.mtu, 0);
    cr_expect_eq(config.retry_count, 6);
    cr_expect_eq(config.ack_timeout, 14);
    cr_expect_eq(config.transport, TU_TRANSPORT_AUTO);
    cr_expect_eq(config.window_bytes, 32u << 20);
    cr_expect_eq(config.heap_bytes, 1u << 30);
    cr_expect_eq(config.eager_bytes, 32u << 10);
    cr_expect_eq(config.share_bytes, 128u << 10);
    cr_expect_eq(config.ring_slots, 4);
    cr_expect_eq(config.board_cells, 32);
    cr_expect_eq(config.banks, 2);
    cr_expect_eq(config.segments, 2);
    cr_expect_eq(config.scratch_slots, 2);
    cr_expect_eq(config.set, 0);
}

/* ---- values -------------------------------------------------------------------------------- */

/* Sets and formats again. */
static void expect_value(struct capture *c, const char *name, const char *value,
                         const char *expected) {
    char text[128];

    cr_expect_eq(tu_config_set(&c->env, name, value), TUTTI_OK, "%s=%s: %s", name, value,
                 c->env.error);
    cr_expect_str_eq(tu_config_format(&c->env.config, tu_config_find(name), text, sizeof text),
                     expected);
}

Test(config, good_values, .timeout = 10) {
    struct capture *c = capture_open();

    expect_value(c, "TUTTI_RING", "16", "16");
    expect_value(c, "TUTTI_RING", "008", "8");
    expect_value(c, "TUTTI_GID_INDEX", "-1", "-1");
    expect_value(c, "TUTTI_TIMEOUT_MS", "2147483647", "2147483647");
    expect_value(c, "TUTTI_WINDOW", "65536", "64K");
    expect_value(c, "TUTTI_WINDOW", "96m", "96M");
    expect_value(c, "TUTTI_WINDOW", "3G", "3G");
    cr_expect_eq(c->env.config.window_bytes, (size_t)3 << 30);
    expect_value(c, "TUTTI_WINDOW", "1000001", "1000001");
    expect_value(c, "TUTTI_HEAP", "0", "0");
    expect_value(c, "TUTTI_HEAP", "64G", "64G");
    expect_value(c, "TUTTI_EAGER", "4K", "4K");
    expect_value(c, "TUTTI_EAGER", "1024K", "1M");
    expect_value(c, "TUTTI_MTU", "0", "0");
    expect_value(c, "TUTTI_MTU", "1024", "1024");
    expect_value(c, "TUTTI_TRANSPORT", "VERBS", "verbs");
    cr_expect_eq(c->env.config.transport, TU_TRANSPORT_VERBS);
    expect_value(c, "TUTTI_SHM", "posix", "posix");
    cr_expect_eq(c->env.config.shm, TU_SHM_POSIX);
    expect_value(c, "TUTTI_LOG", "Debug", "debug");
    expect_value(c, "TUTTI_ALLREDUCE", "circulant", "circulant");
    expect_value(c, "TUTTI_ALLREDUCE", "", "");
    expect_value(c, "TUTTI_DEVICE", "mlx5_0:1", "mlx5_0:1");
    cr_expect_eq(c->lines, 0);
    free(c);
}

struct bad {
    const char *name, *value, *told; /* what the text must say is allowed */
};

static const struct bad bad[] = {
    {"TUTTI_RING", "0", "a power of two from 1 to 16 slots"},
    {"TUTTI_RING", "17", "a power of two from 1 to 16 slots"},
    {"TUTTI_RING", "3", "a power of two from 1 to 16 slots"},
    {"TUTTI_BANKS", "5", "a whole number from 1 to 4"},
    {"TUTTI_RING", "four", "from 1 to 16"},
    {"TUTTI_RING", "", "from 1 to 16"},
    {"TUTTI_RING", "4 ", "from 1 to 16"},
    {"TUTTI_RING", " 4", "from 1 to 16"},
    {"TUTTI_RING", "+4", "from 1 to 16"},
    {"TUTTI_RING", "4.0", "from 1 to 16"},
    {"TUTTI_RING", "0x4", "from 1 to 16"},
    {"TUTTI_RING", "4K", "from 1 to 16"},
    {"TUTTI_RING", "-4", "from 1 to 16"},
    {"TUTTI_RING", "4294967300", "from 1 to 16"},
    {"TUTTI_RING", "99999999999999999999", "from 1 to 16"},
    {"TUTTI_GID_INDEX", "-2", "from -1 to 65535"},
    {"TUTTI_GID_INDEX", "-", "from -1 to 65535"},
    {"TUTTI_TIMEOUT_MS", "2147483648", "from 0 to 2147483647 ms"},
    {"TUTTI_RETRY_COUNT", "7", "from 0 to 6"},
    {"TUTTI_ACK_TIMEOUT", "0", "from 1 to 31"},
    {"TUTTI_MTU", "1500", "0 or a power of two from 256 to 4096 bytes"},
    {"TUTTI_MTU", "128", "0 or a power of two from 256 to 4096 bytes"},
    {"TUTTI_MTU", "8192", "0 or a power of two from 256 to 4096 bytes"},
    {"TUTTI_EAGER", "5000", "a power of two from 4K to 1M bytes"},
    {"TUTTI_EAGER", "2K", "a power of two from 4K to 1M bytes"},
    {"TUTTI_EAGER", "2M", "a power of two from 4K to 1M bytes"},
    {"TUTTI_EAGER", "0", "a power of two from 4K to 1M bytes"},
    {"TUTTI_SHARE", "32M", "a power of two from 4K to 16M bytes"},
    {"TUTTI_WINDOW", "32MB", "from 64K to 1024G bytes"},
    {"TUTTI_WINDOW", "32T", "from 64K to 1024G bytes"},
    {"TUTTI_WINDOW", "K", "from 64K to 1024G bytes"},
    {"TUTTI_WINDOW", "-32M", "from 64K to 1024G bytes"},
    {"TUTTI_WINDOW", "9223372036854775807G", "from 64K to 1024G bytes"},
    {"TUTTI_WINDOW", "17179869185G", "from 64K to 1024G bytes"}, /* 1G modulo 2^64 */
    {"TUTTI_TRANSPORT", "tcp", "one of auto|shm|verbs"},
    {"TUTTI_TRANSPORT", "", "one of auto|shm|verbs"},
    {"TUTTI_TRANSPORT", "shm|verbs", "one of auto|shm|verbs"},
    {"TUTTI_TRANSPORT", "verb", "one of auto|shm|verbs"},
    {"TUTTI_SHM", "sysv", "one of auto|memfd|posix"},
    {"TUTTI_LOG", "loud", "one of off|error|warn|info|debug"},
    {"TUTTI_NODE", "a b", "at most 63 characters without blanks"},
    {"TUTTI_NODE", "a\nTUTTI_RING=8", "at most 63 characters"},
    {"TUTTI_ALLREDUCE", "a-name-of-24-characters-", "at most 23 characters"},
};

Test(config, bad_values, .timeout = 10) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct capture *c = capture_open();
        struct tu_config before = c->env.config;
        char quoted[128];

        cr_expect_eq(tu_config_set(&c->env, bad[i].name, bad[i].value), TUTTI_ERR_CONFIG, "%s=%s",
                     bad[i].name, bad[i].value);
        snprintf(quoted, sizeof quoted, "%s=\"%s\"", bad[i].name, bad[i].value);
        cr_expect(strstr(c->env.error, quoted) != NULL, "%s", c->env.error);
        cr_expect(strstr(c->env.error, bad[i].told) != NULL, "%s, not %s", c->env.error,
                  bad[i].told);
        cr_expect_eq(memcmp(&before, &c->env.config, sizeof before), 0, "%s=%s", bad[i].name,
                     bad[i].value);
        cr_expect_eq(c->lines, 1);
        free(c);
    }
}

Test(config, endless_values_are_quoted_in_part, .timeout = 10) {
    struct capture *c = capture_open();
    char *value = calloc(1, 100001);

    memset(value, '1', 100000);
    cr_expect_eq(tu_config_set(&c->env, "TUTTI_RING", value), TUTTI_ERR_CONFIG);
    cr_expect(strstr(c->env.error, "from 1 to 16") != NULL, "%s", c->env.error);
    cr_expect_eq(tu_config_set(&c->env, "TUTTI_NODE", value), TUTTI_ERR_CONFIG);
    cr_expect_eq(tu_config_set(&c->env, value, "1"), TUTTI_ERR_CONFIG);
    free(value);
    free(c);
}

Test(config, unknown_names, .timeout = 10) {
    struct capture *c = capture_open();

    cr_expect_eq(tu_config_set(&c->env, "TUTTI_RNG", "4"), TUTTI_ERR_CONFIG);
    cr_expect(strstr(c->env.error, "TUTTI_RNG is not a knob; the nearest is TUTTI_RING") != NULL,
              "%s", c->env.error);
    cr_expect_str_eq(tu_config_nearest("TUTTI_TRANSPROT"), "TUTTI_TRANSPORT");
    cr_expect_str_eq(tu_config_nearest("TUTTI_TIMEOUT"), "TUTTI_TIMEOUT_MS");
    cr_expect_str_eq(tu_config_nearest("TUTTI_EAGER_BYTES"), "TUTTI_EAGER");
    cr_expect_str_eq(tu_config_nearest("TUTTI_window"), "TUTTI_WINDOW");
    cr_expect_str_eq(tu_config_nearest("TUTTI_ALL_REDUCE"), "TUTTI_ALLREDUCE");
    cr_expect_str_eq(tu_config_nearest("TUTTI_SEGMENT"), "TUTTI_SEGMENTS");
    cr_expect_str_eq(tu_config_nearest("RING"), "TUTTI_RING");
    cr_expect_null(tu_config_nearest("TUTTI_QUANTUM_FLUX"));
    cr_expect_null(tu_config_nearest("TUTTI_"));
    free(c);
}

/* ---- the environment ------------------------------------------------------------------------ */

Test(config, load, .timeout = 10) {
    struct capture *c = capture_open();

    clean_environment();
    setenv("TUTTI_RING", "8", 1);
    setenv("TUTTI_LOG", "debug", 1);
    c->env.config.banks = 4; /* what stood there before does not count */
    cr_expect_eq(tu_config_load(&c->env), TUTTI_OK);
    cr_expect_eq(c->env.config.ring_slots, 8);
    cr_expect_eq(c->env.config.banks, 2);
    cr_expect_eq(c->env.log.level, TU_LOG_DEBUG);
    cr_expect_str_eq(tu_config_origin(&c->env.config, tu_config_find("TUTTI_RING")), "environment");
    cr_expect_str_eq(tu_config_origin(&c->env.config, tu_config_find("TUTTI_BANKS")), "default");
    cr_expect_eq(c->lines, 0);
    free(c);
}

Test(config, every_log_level, .timeout = 10) {
    static const char *const name[] = {"off", "error", "warn", "info", "debug"};
    struct capture *c = capture_open();

    clean_environment();
    cr_expect_eq(tu_config_load(&c->env), TUTTI_OK);
    cr_expect_eq(c->env.log.level, TU_LOG_WARN);
    for (int i = 0; i < 5; i++) {
        setenv("TUTTI_LOG", name[i], 1);
        cr_expect_eq(tu_config_load(&c->env), TUTTI_OK);
        cr_expect_eq(c->env.log.level, (enum tu_log_level)i);
    }
    free(c);
}

Test(config, load_stops_at_a_bad_value, .timeout = 10) {
    struct capture *c = capture_open();

    clean_environment();
    setenv("TUTTI_EAGER", "48K", 1);
    cr_expect_eq(tu_config_load(&c->env), TUTTI_ERR_CONFIG);
    cr_expect_str_eq(c->env.error, "TUTTI_EAGER=\"48K\" is not allowed: it must be a power of two "
                                   "from 4K to 1M bytes");
    cr_expect_eq(c->lines, 1);
    free(c);
}

Test(config, unknown_variables_draw_a_warning, .timeout = 10) {
    struct capture *c = capture_open();

    clean_environment();
    setenv("TUTTI_RINGS", "8", 1);
    setenv("TUTTI_COFFEE_STRENGTH", "8", 1);
    setenv("TUTTIFRUTTI", "8", 1);
    cr_expect_eq(tu_config_load(&c->env), TUTTI_OK);
    cr_expect_eq(c->lines, 2);
    cr_expect_eq(c->level[0], TU_LOG_WARN);
    cr_expect(capture_has(c, "TUTTI_RINGS is not known and changes nothing; did you mean "
                             "TUTTI_RING?"));
    cr_expect(capture_has(c, "TUTTI_COFFEE_STRENGTH is not known and changes nothing; tutti-info"));
    cr_expect_str_eq(c->env.error, "");
    free(c);
}

Test(config, a_large_job_warns_once, .timeout = 10) {
    struct capture *c = capture_open();

    clean_environment();
    setenv("TUTTI_RINGS", "8", 1);
    setenv("PMIX_RANK", "5", 1);
    tu_config_load(&c->env);
    cr_expect_eq(c->lines, 0);
    setenv("TUTTI_LOG", "debug", 1);
    tu_config_load(&c->env);
    cr_expect_eq(c->lines, 1);
    unsetenv("TUTTI_LOG");
    setenv("PMIX_RANK", "0", 1);
    tu_config_load(&c->env);
    cr_expect_eq(c->lines, 2);
    cr_expect_eq(c->level[1], TU_LOG_WARN);
    free(c);
}

/* ---- agreement ------------------------------------------------------------------------------ */

Test(config, equal_knobs_agree, .timeout = 10) {
    struct capture *c = capture_open();
    char packed[TU_CONFIG_PACK_BYTES];
    struct tu_config other;

    tu_config_defaults(&other);
    other.late_ms = 1; /* each rank's own */
    other.shm = TU_SHM_POSIX;
    snprintf(other.node, sizeof other.node, "left");
    tu_config_pack(&other, packed);
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_OK);
    cr_expect_eq(c->lines, 0);
    free(c);
}

Test(config, each_differing_knob_is_an_error, .timeout = 10) {
    static const char *const set[][2] = {
        {"TUTTI_TRANSPORT", "shm"}, {"TUTTI_ALLREDUCE", "flat"}, {"TUTTI_BCAST", "x"},
        {"TUTTI_BARRIER", "x"},     {"TUTTI_WINDOW", "64M"},     {"TUTTI_EAGER", "8K"},
        {"TUTTI_SHARE", "8K"},      {"TUTTI_RING", "8"},         {"TUTTI_BANKS", "1"},
        {"TUTTI_SEGMENTS", "1"},    {"TUTTI_SCRATCH", "1"},     {"TUTTI_HEAP", "0"},
        {"TUTTI_BOARD", "4"},
    };
    size_t n, agreed = 0;
    const struct tu_knob *knob = tu_config_knobs(&n);

    for (size_t i = 0; i < n; i++) {
        agreed += knob[i].agreed != 0;
    }
    cr_expect_eq(agreed, sizeof set / sizeof *set);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        struct capture *c = capture_open();
        char packed[TU_CONFIG_PACK_BYTES], expected[64];

        tu_config_pack(&c->env.config, packed);
        cr_assert_eq(tu_config_set(&c->env, set[i][0], set[i][1]), TUTTI_OK);
        cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG, "%s", set[i][0]);
        snprintf(expected, sizeof expected, "ranks differ in %s:", set[i][0]);
        cr_expect(strstr(c->env.error, expected) != NULL, "%s", c->env.error);
        cr_expect_eq(c->lines, 1);
        free(c);
    }
}

Test(config, a_difference_names_both_sides, .timeout = 10) {
    struct capture *c = capture_open();
    struct tu_config other = c->env.config;
    char packed[TU_CONFIG_PACK_BYTES];

    other.ring_slots = 8;
    tu_config_pack(&other, packed);
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG);
    cr_expect_str_eq(c->env.error,
                     "ranks differ in TUTTI_RING: rank 0 on n0 has 8, rank 3 on box has 4 "
                     "(default); set it alike for all ranks (prterun -x TUTTI_RING=VALUE)");
    tu_config_set(&c->env, "TUTTI_RING", "8");
    tu_config_set(&c->env, "TUTTI_BCAST", "circulant");
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG);
    cr_expect(strstr(c->env.error, "in TUTTI_BCAST: rank 0 on n0 has (empty), rank 3 on box has "
                                   "circulant (environment)") != NULL,
              "%s", c->env.error);
    free(c);
}

/* Puts `with` in the place of `what` in packed knobs. */
static void replace(char *packed, const char *what, const char *with) {
    char *at = strstr(packed, what), tail[TU_CONFIG_PACK_BYTES];

    cr_assert_not_null(at);
    snprintf(tail, sizeof tail, "%s", at + strlen(what));
    snprintf(at, (size_t)(packed + TU_CONFIG_PACK_BYTES - at), "%s%s", with, tail);
}

Test(config, other_versions, .timeout = 10) {
    struct capture *c = capture_open();
    char packed[TU_CONFIG_PACK_BYTES];

    tu_config_pack(&c->env.config, packed);
    replace(packed, "tutti=" TUTTI_VERSION, "tutti=9.8.7");
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG);
    cr_expect(
        strstr(c->env.error,
               "version of tutti: rank 0 on n0 has 9.8.7, rank 3 on box has " TUTTI_VERSION) !=
            NULL,
        "%s", c->env.error);
    tu_config_pack(&c->env.config, packed);
    replace(packed, "TUTTI_BANKS=2", "TUTTI_BANKS_MAX=2"); /* a knob that rank 0 does not have */
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG);
    cr_expect(strstr(c->env.error, "in TUTTI_BANKS: rank 0 on n0 has (unknown there)") != NULL,
              "%s", c->env.error);
    memset(packed, 'x', sizeof packed); /* no end */
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG);
    memset(packed, 0, sizeof packed);
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_ERR_CONFIG);
    free(c);
}

Test(config, the_longest_values_fit_a_pack, .timeout = 10) {
    struct capture *c = capture_open();
    struct tu_config *config = &c->env.config;
    char packed[TU_CONFIG_PACK_BYTES];
    size_t n;
    const struct tu_knob *knob = tu_config_knobs(&n);

    for (size_t i = 0; i < n; i++) {
        char *field = (char *)config + knob[i].offset;

        if (knob[i].type == TU_KNOB_TEXT) {
            memset(field, 'w', knob[i].text_bytes - 1);
        } else if (knob[i].type == TU_KNOB_BYTES) {
            *(size_t *)(void *)field = (size_t)knob[i].max - 1;
        } else if (knob[i].type == TU_KNOB_INT) {
            *(int *)(void *)field = INT_MIN;
        }
    }
    config->transport = TU_TRANSPORT_VERBS;
    tu_config_pack(config, packed);
    cr_expect_lt(strlen(packed), sizeof packed - 4, "%zu", strlen(packed));
    cr_expect_eq(packed[strlen(packed) - 1], '\n');
    cr_expect_eq(tu_config_agree(&c->env, packed, "n0"), TUTTI_OK);
    free(c);
}

/* ---- launchers ------------------------------------------------------------------------------ */

static const char *launcher(char *buffer) {
    tu_config_foreign_launcher(buffer, 128);
    return buffer;
}

Test(launcher, none, .timeout = 10) {
    char text[128] = "before";

    clean_environment();
    cr_expect_str_eq(launcher(text), "");
    setenv("PMI_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("MPI_LOCALNRANKS", "1", 1);
    cr_expect_str_eq(launcher(text), "");
    setenv("PMI_SIZE", "many", 1);
    cr_expect_str_eq(launcher(text), "");
}

Test(launcher, known_ones, .timeout = 10) {
    char text[128];

    clean_environment();
    setenv("PMI_SIZE", "4", 1);
    cr_expect_str_eq(launcher(text), "MPICH's or Intel MPI's mpiexec (PMI_SIZE=4)");
    setenv("MPI_LOCALNRANKS", "2", 1);
    cr_expect_str_eq(launcher(text), "MPICH's or Intel MPI's mpiexec (MPI_LOCALNRANKS=2)");
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    cr_expect_str_eq(launcher(text), "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE=8)");
}

Test(launcher, slurm_only_within_a_step, .timeout = 10) {
    char text[128];

    clean_environment();
    setenv("SLURM_NTASKS", "4", 1); /* what a batch script sees, and the shell of salloc */
    setenv("SLURM_PROCID", "0", 1);
    cr_expect_str_eq(launcher(text), "");
    setenv("SLURM_STEP_ID", "0", 1);
    cr_expect_str_eq(launcher(text), "srun (SLURM_NTASKS=4)");
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("PMI_SIZE", "2", 1); /* srun's own PMI */
    cr_expect_str_eq(launcher(text), "srun (SLURM_STEP_NUM_TASKS=2)");
    setenv("SLURM_STEP_NUM_TASKS", "1", 1); /* an interactive step in a larger allocation */
    unsetenv("PMI_SIZE");
    cr_expect_str_eq(launcher(text), "");
}

Test(launcher, pmix, .timeout = 10) {
    clean_environment();
    cr_expect_not(tu_config_pmix_launcher());
    setenv("PMIX_NAMESPACE", "job@1", 1);
    setenv("PMIX_RANK", "0", 1);
    cr_expect_not(tu_config_pmix_launcher());
    setenv("PMIX_SERVER_URI41", "job.0;tcp4://127.0.0.1:1", 1);
    cr_expect(tu_config_pmix_launcher());
    unsetenv("PMIX_RANK");
    cr_expect_not(tu_config_pmix_launcher());
}
