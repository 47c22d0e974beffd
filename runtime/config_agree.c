/* The knobs that must be the same on all ranks: as they travel, and compared with rank 0's. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/env.h"
#include "runtime/text.h"

/*
 * Packed, they are lines of text, so that ranks with different versions understand each other well
 * enough to say so: "tutti=0.1.0\nTUTTI_TRANSPORT=auto\n...".
 */
static const char version_name[] = "tutti";
enum { VALUE_BYTES = 64 };

void tu_config_pack(const struct tu_config *config, char packed[TU_CONFIG_PACK_BYTES]) {
    size_t n, used;
    const struct tu_knob *knob = tu_config_knobs(&n);
    char value[VALUE_BYTES];

    memset(packed, 0, TU_CONFIG_PACK_BYTES);
    used = tu_text_format(packed, TU_CONFIG_PACK_BYTES, "%s=%s\n", version_name, TUTTI_VERSION);
    for (size_t i = 0; i < n; i++) {
        if (knob[i].agreed) {
            used +=
                tu_text_format(packed + used, TU_CONFIG_PACK_BYTES - used, "%s=%s\n", knob[i].name,
                               tu_config_format(config, &knob[i], value, sizeof value));
        }
    }
    assert(used < TU_CONFIG_PACK_BYTES - 4); /* a unit test fills every text */
}

/* Takes the value of `name` out of packed knobs; "(unknown there)" if they do not have it. */
static void find_value(const char *packed, const char *name, char *value, size_t bytes) {
    size_t length = strlen(name);

    for (const char *line = packed; line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, length) == 0 && line[length] == '=') {
            line += length + 1;
            tu_text_format(value, bytes, "%.*s", (int)strcspn(line, "\n"), line);
            return;
        }
    }
    tu_text_format(value, bytes, "(unknown there)");
}

/* "" is a value too: it needs to be seen in an error text. */
static const char *shown(const char *value) {
    return *value ? value : "(empty)";
}

static tutti_status agree_one(struct tu_env *env, const struct tu_knob *knob, const char *packed0,
                              const char *host0) {
    char mine[VALUE_BYTES], theirs[VALUE_BYTES];

    tu_config_format(&env->config, knob, mine, sizeof mine);
    find_value(packed0, knob->name, theirs, sizeof theirs);
    if (strcmp(mine, theirs) == 0) {
        return TUTTI_OK;
    }
    return tu_fail(
        env, TUTTI_ERR_CONFIG,
        "ranks differ in %s: rank 0 on %s has %s, rank %d on %s has %s (%s); set it alike "
        "for all ranks (prterun -x %s=VALUE)",
        knob->name, host0, shown(theirs), env->rank, env->host, shown(mine),
        tu_config_origin(&env->config, knob), knob->name);
}

tutti_status tu_config_agree(struct tu_env *env, const char packed0[TU_CONFIG_PACK_BYTES],
                             const char *host0) {
    size_t n;
    const struct tu_knob *knob = tu_config_knobs(&n);
    char text[TU_CONFIG_PACK_BYTES], version[VALUE_BYTES];
    tutti_status status = TUTTI_OK;

    memcpy(text, packed0, sizeof text); /* it came from elsewhere: make sure that it ends */
    text[sizeof text - 1] = 0;
    find_value(text, version_name, version, sizeof version);
    if (strcmp(version, TUTTI_VERSION) != 0) {
        return tu_fail(
            env, TUTTI_ERR_CONFIG,
            "ranks differ in the version of tutti: rank 0 on %s has %s, rank %d on %s has "
            "%s; install the same library on all hosts (or check LD_LIBRARY_PATH)",
            host0, version, env->rank, env->host, TUTTI_VERSION);
    }
    for (size_t i = 0; i < n && status == TUTTI_OK; i++) {
        if (knob[i].agreed) {
            status = agree_one(env, &knob[i], text, host0);
        }
    }
    return status;
}
