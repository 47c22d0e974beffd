/*
 * tutti-info: what is known about library, environment and machine is collected into one JSON
 * document, which is printed as it is or as text.
 */
#ifndef APPS_INFO_H
#define APPS_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The job whose window memory is asked for. */
struct info_shape {
    int ranks, nodes;
};

/*
 * The whole document:
 *   version, header_version, host
 *   knobs        [{name, value, default, origin, unit, allowed, agreed, valid, help}]
 *   ports        [{device, port, active, link, mtu, gid_index, gid, gid_type, interface, chosen}]
 *   port_choice  {status, text}
 *   limits       {cores, quota_cores, memory_bytes, ...}; null: no limit
 *   window       {ranks, nodes, window_bytes, ..., total_bytes}
 *   job          {status, error, log}: what became of a job of one rank
 */
json_t *info_collect(const struct info_shape *shape);

/* Are all knobs valid, and did the job of one rank start? */
bool info_is_good(const json_t *info);

void info_print(const json_t *info, FILE *out);

#endif
