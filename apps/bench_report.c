/* What a run prints: head, table and the JSON file. Rank 0 alone does. */
#include "apps/bench.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench_report {
    const struct bench_options *options;
    FILE *table; /* NULL: none */
    FILE *file;  /* of the JSON, NULL: none */
    json_t *root, *rows;
    bool headed, floored; /* the table has its heading, and that the floors */
};

static const char *const count_names[BENCH_COUNTS] = {
    "lines", "writes", "cells", "bytes", "requests", "doorbells", "completions"};

/* ---- head ---- */

static void host_name(char *name, size_t bytes) {
    memset(name, 0, bytes);
    if (gethostname(name, bytes - 1))
        snprintf(name, bytes, "?");
}

static void print_head(const struct bench_world *world, const struct bench_options *o,
                       const int *cpu_of, FILE *out) {
    char host[256];
    host_name(host, sizeof host);
    fprintf(out, "# %s %s: %d rank%s on %d host%s (%s), %s, ", world->backend->program,
            bench_call_name(o->call), world->size, world->size > 1 ? "s" : "", world->hosts,
            world->hosts > 1 ? "s" : "", host, world->version);
    if (!cpu_of)
        fprintf(out, "not pinned");
    for (int r = 0; cpu_of && r < world->size; r++)
        fprintf(out, "%s%d", r ? "," : "pinned to cores ", cpu_of[r]);
    if (o->call == BENCH_ALLREDUCE)
        fprintf(out, ", %s %s", bench_type_name(o->type), bench_op_name(o->op));
    if (o->call == BENCH_BCAST && o->root == BENCH_ROTATE)
        fprintf(out, ", root rotates");
    else if (o->call == BENCH_BCAST)
        fprintf(out, ", root %d", o->root);
    if (o->skew_us >= 0)
        fprintf(out, ", skew up to %g us", o->skew_us);
    fprintf(out, "%s%s", o->cold ? ", cold" : "", o->bare ? ", bare" : "");
    if (o->alloc)
        fprintf(out, ", memory by %s", world->backend->alloc_name);
    fprintf(out, "\n");
}

void bench_floor_print(const struct bench_floor *f, FILE *out) {
    fprintf(out, "# floor: %s", f->mode);
    if (f->exchange_ns > 0) {
        fprintf(out, " (%d and %d)\n", f->cpu[0], f->cpu[1]);
        fprintf(out, "#   one-line exchange        %8.0f ns\n", f->exchange_ns);
        fprintf(out, "#   one-line hand-off        %8.0f ns (half a ping-pong)\n", f->handoff_ns);
        fprintf(out, "#   read the peer's data     %8.1f GB/s\n", f->read_gbs);
        fprintf(out, "#   write, I read it last    %8.1f GB/s\n", f->takeover_gbs);
        fprintf(out, "#   write, the peer read it  %8.1f GB/s\n", f->rewrite_gbs);
    } else {
        fprintf(out, "\n");
    }
    fprintf(out, "#   copy 32 KiB, 16 MiB      %8.1f, %.1f GB/s\n", f->copy_gbs, f->copy_large_gbs);
    fprintf(out, "#   sum 32 KiB, 16 MiB       %8.1f, %.1f GB/s\n", f->reduce_gbs,
            f->reduce_large_gbs);
    fprintf(out, "#   sched_yield              %8.0f ns a switch\n", f->yield_ns);
}

/* ---- JSON ---- */

static json_t *positive_or_null(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static json_t *json_floor(const struct bench_floor *f) {
    if (!f)
        return json_null();
    return json_pack(
        "{s:s, s:[i,i], s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "mode", f->mode,
        "measured_cores", f->cpu[0], f->cpu[1], "cores", f->cores, "exchange_ns",
        positive_or_null(f->exchange_ns), "handoff_ns", positive_or_null(f->handoff_ns), "read_gbs",
        positive_or_null(f->read_gbs), "takeover_gbs", positive_or_null(f->takeover_gbs),
        "rewrite_gbs", positive_or_null(f->rewrite_gbs), "copy_gbs", positive_or_null(f->copy_gbs),
        "copy_large_gbs", positive_or_null(f->copy_large_gbs), "reduce_gbs",
        positive_or_null(f->reduce_gbs), "reduce_large_gbs", positive_or_null(f->reduce_large_gbs),
        "yield_ns", positive_or_null(f->yield_ns));
}

static json_t *json_head(const struct bench_world *world, const struct bench_options *o,
                         const struct bench_floor *floor, const int *cpu_of) {
    char host[256];
    json_t *cores = cpu_of ? json_array() : json_null();
    host_name(host, sizeof host);
    for (int r = 0; cpu_of && r < world->size; r++)
        json_array_append_new(cores, json_integer(cpu_of[r]));
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:o, s:f, s:o, s:b, s:b, s:b, s:s, s:o, s:o}",
        "program", world->backend->program, "library", world->version, "call",
        bench_call_name(o->call), "ranks", world->size, "hosts", world->hosts, "host", host, "type",
        bench_type_name(o->type), "op", bench_op_name(o->op), "root",
        o->root == BENCH_ROTATE ? json_string("rotate") : json_integer(o->root), "seconds",
        o->seconds, "skew_us", o->skew_us < 0 ? json_null() : json_real(o->skew_us), "cold",
        o->cold, "bare", o->bare, "check_only", o->check_only, "memory",
        o->alloc ? world->backend->alloc_name : "malloc", "pinned_cores", cores, "floor",
        json_floor(floor));
}

static json_t *json_counts(const double count[BENCH_COUNTS]) {
    json_t *counts = json_object();
    for (int i = 0; i < BENCH_COUNTS; i++)
        json_object_set_new(counts, count_names[i], json_real(count[i]));
    return counts;
}

static double mb_per_s(const struct bench_row *row) {
    return row->median_us > 0 ? (double)row->bytes / row->median_us : 0;
}

static json_t *json_row(const struct bench_row *row) {
    json_t *object =
        json_pack("{s:I, s:I, s:b, s:s, s:s, s:s}", "bytes", (json_int_t)row->bytes, "count",
                  (json_int_t)row->count, "checked", 1, "algorithm", row->algorithm, "transports",
                  row->transports, "memory", row->memory);
    json_object_set_new(object, "handoff_ns", positive_or_null(row->handoff_ns));
    json_object_set_new(object, "handoff_after_ns", positive_or_null(row->handoff_after_ns));
    json_object_set_new(object, "floor_us", positive_or_null(row->floor_us));
    if (row->blocks == 0)
        return object;
    json_object_update_new(object,
                           json_pack("{s:I, s:i, s:b, s:f, s:f, s:f, s:f}", "iterations",
                                     (json_int_t)row->iterations, "blocks", row->blocks, "slow",
                                     row->slow, "min_us", row->min_us, "median_us", row->median_us,
                                     "max_us", row->max_us, "mb_per_s", mb_per_s(row)));
    json_object_set_new(object, "counters_max",
                        row->counted ? json_counts(row->most) : json_null());
    json_object_set_new(object, "counters_mean",
                        row->counted ? json_counts(row->mean) : json_null());
    return object;
}

/* ---- table ---- */

static void print_heading(struct bench_report *report, const struct bench_row *row) {
    FILE *out = report->table;
    report->headed = true;
    fprintf(out, "%10s", "bytes");
    if (row->blocks)
        fprintf(out, " %9s %10s %10s %10s %9s", "calls", "min us", "median", "max", "MB/s");
    else
        fprintf(out, "  result");
    if (row->algorithm[0])
        fprintf(out, "  %-10s %-9s", "algorithm", "transport");
    if (report->options->alloc)
        fprintf(out, " %-7s", "memory");
    for (int i = 0; row->blocks && row->counted && i < BENCH_COUNTS; i++)
        if (i != BENCH_BYTES)
            fprintf(out, " %8.8s", count_names[i]);
    report->floored = row->floor_us > 0 && row->blocks;
    if (report->floored)
        fprintf(out, "   floor us    times");
    if (row->handoff_ns > 0)
        fprintf(out, "  hand-off ns  after");
    fprintf(out, "\n");
}

static void print_row(struct bench_report *report, const struct bench_row *row) {
    FILE *out = report->table;
    if (!report->headed)
        print_heading(report, row);
    fprintf(out, "%10zu", row->bytes);
    if (row->blocks)
        fprintf(out, " %9llu %10.3f %10.3f %10.3f %9.1f",
                (unsigned long long)row->iterations * (unsigned)row->blocks, row->min_us,
                row->median_us, row->max_us, mb_per_s(row));
    else
        fprintf(out, "  right ");
    if (row->algorithm[0])
        fprintf(out, "  %-10s %-9s", row->algorithm, row->transports);
    if (report->options->alloc)
        fprintf(out, " %-7s", row->memory);
    for (int i = 0; row->blocks && row->counted && i < BENCH_COUNTS; i++)
        if (i != BENCH_BYTES)
            fprintf(out, " %8.4g", row->most[i]);
    if (report->floored)
        fprintf(out, " %10.3f %8.2f", row->floor_us, row->median_us / row->floor_us);
    if (row->handoff_ns > 0)
        fprintf(out, "  %11.0f  %5.0f", row->handoff_ns, row->handoff_after_ns);
    if (row->slow)
        fprintf(out, "  over %g s, larger ones are left out", report->options->limit_s);
    fprintf(out, "\n");
    fflush(out);
}

/* ---- life ---- */

static void open_file(struct bench_report *report, const struct bench_world *world) {
    const char *name = report->options->json;
    bool to_stdout = name && strcmp(name, "-") == 0;
    report->table = to_stdout ? NULL : stdout;
    report->file = to_stdout ? stdout : NULL;
    if (!name || to_stdout)
        return;
    report->file = fopen(name, "w");
    if (!report->file)
        bench_fail(world, "--json: %s: %s", name, strerror(errno));
}

struct bench_report *bench_report_open(const struct bench_world *world,
                                       const struct bench_options *options,
                                       const struct bench_floor *floor, const int *cpu_of) {
    struct bench_report *report = calloc(1, sizeof *report);
    if (!report)
        bench_fail(world, "no memory");
    if (world->rank != 0)
        return report;
    report->options = options;
    open_file(report, world);
    report->root = json_head(world, options, floor, cpu_of);
    report->rows = json_array();
    json_object_set(report->root, "rows", report->rows);
    if (report->table) {
        print_head(world, options, cpu_of, report->table);
        if (floor)
            bench_floor_print(floor, report->table);
        fflush(report->table);
    }
    return report;
}

void bench_report_row(struct bench_report *report, const struct bench_row *row) {
    if (!report->root)
        return;
    json_array_append_new(report->rows, json_row(row));
    if (report->table)
        print_row(report, row);
}

void bench_report_late(struct bench_report *report, const int64_t *cpu_us, int waiting) {
    if (!report->root)
        return;
    json_t *ranks = json_array();
    for (int r = 0; r < waiting; r++)
        json_array_append_new(ranks, json_real((double)cpu_us[r] * 1e-3));
    json_object_set_new(report->root, "waiting_cpu_ms", ranks);
    if (!report->table)
        return;
    fprintf(report->table, "%10s %14s   rank %d came %g s late\n", "rank", "processor ms", waiting,
            report->options->seconds);
    for (int r = 0; r < waiting; r++)
        fprintf(report->table, "%10d %14.1f\n", r, (double)cpu_us[r] * 1e-3);
}

static json_t *json_tuned(const struct bench_tuned *tuned) {
    json_t *rows = json_array();
    for (size_t i = 0; i < tuned->sizes; i++)
        json_array_append_new(rows,
                              json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)tuned->bytes[i],
                                        tuned->algorithm[0], tuned->us[0][i], tuned->algorithm[1],
                                        tuned->us[1][i]));
    return json_pack("{s:s, s:I, s:I, s:o}", "entry", tuned->entry, "up_to_bytes",
                     (json_int_t)tuned->up_to, "value", (json_int_t)(tuned->up_to * tuned->scale),
                     "rows", rows);
}

void bench_report_tuned(struct bench_report *report, const struct bench_world *world,
                        const struct bench_tuned *tuned) {
    FILE *out = report->table;
    if (!report->root)
        return;
    json_object_set_new(report->root, "tuned", json_tuned(tuned));
    if (!out)
        return;
    fprintf(out, "%10s %10s us %10s us  better\n", "bytes", tuned->algorithm[0],
            tuned->algorithm[1]);
    for (size_t i = 0; i < tuned->sizes; i++)
        fprintf(out, "%10zu %13.3f %13.3f  %s\n", tuned->bytes[i], tuned->us[0][i], tuned->us[1][i],
                tuned->algorithm[tuned->us[1][i] < tuned->us[0][i]]);
    fprintf(out, "%d ranks on %d host%s: %s up to %zu bytes%s\n.%s = %zu\n", world->size,
            world->hosts, world->hosts > 1 ? "s" : "", tuned->algorithm[0], tuned->up_to,
            tuned->sizes && tuned->up_to == tuned->bytes[tuned->sizes - 1] ? " or more (--max)"
                                                                           : "",
            tuned->entry, tuned->up_to * tuned->scale);
}

static int write_file(struct bench_report *report) {
    int bad = json_dumpf(report->root, report->file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    bad |= fputc('\n', report->file) == EOF;
    bad |= report->file == stdout ? fflush(stdout) : fclose(report->file);
    if (bad)
        fprintf(stderr, "--json: %s can't be written\n", report->options->json);
    return bad ? 1 : 0;
}

int bench_report_close(struct bench_report *report, uint64_t window_bytes, uint64_t used_bytes) {
    int status = 0;
    if (report->root) {
        json_object_set_new(report->root, "window_bytes", json_integer((json_int_t)window_bytes));
        json_object_set_new(report->root, "window_used_bytes",
                            json_integer((json_int_t)used_bytes));
        if (report->file)
            status = write_file(report);
        json_decref(report->rows);
        json_decref(report->root);
    }
    free(report);
    return status;
}
