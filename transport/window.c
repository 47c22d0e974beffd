/* Layout of the window, and handing out its memory. */
#include "transport/window.h"

#include "runtime/env.h"
#include "runtime/status.h"

enum { PAGE = 4096, LANDING_BYTES = TU_RECORDS * TU_RECORD_BYTES };

static size_t part_bytes(const struct tu_window_shape *s, enum tu_window_part part) {
    switch (part) {
    case TU_PART_POISON:
    case TU_PART_INFO:
    case TU_PART_BEAT:
        return TU_CELL_STRIDE;
    case TU_PART_RECORD:
        return TU_RECORDS * TU_RECORD_BYTES;
    case TU_PART_DONE:
        return (size_t)s->banks * TU_CELL_STRIDE;
    case TU_PART_CREDIT:
    case TU_PART_ANNOUNCE:
        return (size_t)s->peers * s->banks * TU_CELL_STRIDE;
    case TU_PART_BOARD_CREDIT:
        return (size_t)s->banks * s->members * TU_CELL_STRIDE;
    case TU_PART_LINE:
        return (size_t)s->peers * s->banks * s->slots * TU_LINE_STRIDE;
    case TU_PART_BOARD:
        return (size_t)s->banks * s->cells * TU_BOARD_STRIDE;
    case TU_PART_PAIR_SLOT:
    case TU_PART_PAIR_CREDIT:
        return s->members > 1 ? (size_t)s->banks * TU_CELL_STRIDE : 0;
    case TU_PART_PAIR:
        return s->members > 1 ? (size_t)s->banks * s->slots * TU_BOARD_STRIDE : 0;
    case TU_PARTS:
        break;
    }
    return 0;
}

size_t tu_window_part(const struct tu_window_shape *shape, enum tu_window_part part) {
    size_t at = 0;
    for (int i = 0; i < (int)part; i++)
        at += part_bytes(shape, (enum tu_window_part)i);
    return at;
}

size_t tu_window_comm(const struct tu_window_shape *shape, uint32_t comm) {
    return comm * tu_window_part(shape, TU_PARTS);
}

static size_t part_at(const struct tu_window_shape *s, uint32_t comm, enum tu_window_part part) {
    return tu_window_comm(s, comm) + tu_window_part(s, part);
}

size_t tu_window_credit(const struct tu_window_shape *s, uint32_t comm, uint32_t peer,
                        uint32_t bank) {
    return part_at(s, comm, TU_PART_CREDIT) + ((size_t)peer * s->banks + bank) * TU_CELL_STRIDE;
}

size_t tu_window_announce(const struct tu_window_shape *s, uint32_t comm, uint32_t peer,
                          uint32_t bank) {
    return part_at(s, comm, TU_PART_ANNOUNCE) + ((size_t)peer * s->banks + bank) * TU_CELL_STRIDE;
}

size_t tu_window_line(const struct tu_window_shape *s, uint32_t comm, uint32_t peer,
                      uint32_t bank) {
    return part_at(s, comm, TU_PART_LINE) +
           ((size_t)peer * s->banks + bank) * s->slots * TU_LINE_STRIDE;
}

size_t tu_window_board(const struct tu_window_shape *s, uint32_t comm, uint32_t bank) {
    return part_at(s, comm, TU_PART_BOARD) + (size_t)bank * s->cells * TU_BOARD_STRIDE;
}

size_t tu_window_pair_slot(const struct tu_window_shape *s, uint32_t comm, uint32_t bank) {
    return part_at(s, comm, TU_PART_PAIR_SLOT) + (size_t)bank * TU_CELL_STRIDE;
}

size_t tu_window_pair_credit(const struct tu_window_shape *s, uint32_t comm, uint32_t bank) {
    return part_at(s, comm, TU_PART_PAIR_CREDIT) + (size_t)bank * TU_CELL_STRIDE;
}

size_t tu_window_pair(const struct tu_window_shape *s, uint32_t comm, uint32_t bank) {
    return part_at(s, comm, TU_PART_PAIR) + (size_t)bank * s->slots * TU_BOARD_STRIDE;
}

size_t tu_window_board_credit(const struct tu_window_shape *s, uint32_t comm, uint32_t bank,
                              uint32_t member) {
    return part_at(s, comm, TU_PART_BOARD_CREDIT) +
           ((size_t)bank * s->members + member) * TU_CELL_STRIDE;
}

size_t tu_window_done(const struct tu_window_shape *s, uint32_t comm, uint32_t bank) {
    return part_at(s, comm, TU_PART_DONE) + (size_t)bank * TU_CELL_STRIDE;
}

size_t tu_window_record(const struct tu_window_shape *s, uint32_t comm, uint32_t record) {
    return part_at(s, comm, TU_PART_RECORD) + (size_t)record * TU_RECORD_BYTES;
}

tutti_status tu_window_open(struct tu_env *env, struct tu_shmem *shmem, size_t bytes,
                            const struct tu_window_shape *shape, struct tu_window *window) {
    struct tu_window w = {.env = env,
                          .shmem = shmem,
                          .base = shmem->memory,
                          .bytes = bytes,
                          .heap_at = bytes,
                          .heap_bytes = shmem->bytes - bytes,
                          .shape = *shape,
                          .top = bytes / PAGE * PAGE};
    uint64_t landing;
    tutti_status status = tu_window_take(&w, LANDING_BYTES, &landing);
    if (status)
        return status;
    w.scratch = landing;
    *window = w;
    return TUTTI_OK;
}

static size_t comms_end(const struct tu_window *w) {
    return tu_window_comm(&w->shape, w->comms);
}

static tutti_status full(const struct tu_window *w, size_t bytes, const char *what) {
    return tu_fail(
        w->env, TUTTI_ERR_MEMORY,
        "the window of %zu KiB has no room for %zu KiB of %s (%zu KiB are in use); set a "
        "larger TUTTI_WINDOW",
        w->bytes >> 10, (bytes + 1023) >> 10, what, tu_window_used(w) >> 10);
}

tutti_status tu_window_reserve_comm(struct tu_window *w, uint32_t comm) {
    if (comm < w->comms)
        return TUTTI_OK;
    size_t from = comms_end(w), to = tu_window_comm(&w->shape, comm + 1);
    if (to > w->top)
        return full(w, to - from, "cells and lines of another communicator");
    tutti_status status = tu_shmem_reserve(w->env, w->shmem, from, to - from);
    if (status == TUTTI_OK)
        w->comms = comm + 1;
    return status;
}

size_t tu_window_taken(size_t bytes) {
    return tu_round_up(bytes, PAGE);
}

size_t tu_window_own(void) {
    return tu_window_taken(LANDING_BYTES);
}

tutti_status tu_window_take(struct tu_window *w, size_t bytes, uint64_t *offset) {
    size_t need = tu_window_taken(bytes);
    if (need < bytes || need > w->top - comms_end(w))
        return full(w, bytes, "slots");
    tutti_status status = tu_shmem_reserve(w->env, w->shmem, w->top - need, need);
    if (status)
        return status;
    w->top -= need;
    *offset = w->top;
    return TUTTI_OK;
}

size_t tu_window_used(const struct tu_window *w) {
    return comms_end(w) + (w->bytes / PAGE * PAGE - w->top);
}
