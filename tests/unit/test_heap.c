/* Heaps: blocks against a model, what lies at the edges, and pages that come and go. */
#define _GNU_SOURCE /* unshare */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "capture.h"
#include "runtime/heap.h"

enum { MIB = 1 << 20, WINDOW = 64 << 10, UNIT = TU_HEAP_UNIT, PAGE = TU_HEAP_PAGE };

struct scene {
    struct capture *c;
    struct tu_shmem shmem;
    struct tu_heap heap;
    unsigned char *base; /* of the heap */
    char why[256];
};

/* A heap of `bytes` behind a window. */
static struct scene *open_scene(size_t bytes, enum tu_shm_choice kind) {
    struct scene *s = calloc(1, sizeof *s);

    s->c = capture_open();
    s->c->env.config.shm = kind;
    cr_assert_eq(tu_shmem_create(&s->c->env, WINDOW + bytes, &s->shmem), TUTTI_OK, "%s",
                 s->c->env.error);
    cr_assert(tu_heap_open(&s->shmem, bytes, &s->heap));
    cr_assert_eq(s->heap.at, WINDOW);
    s->base = (unsigned char *)s->shmem.memory + WINDOW;
    return s;
}

static void close_scene(struct scene *s) {
    cr_expect(tu_heap_is_valid(&s->heap));
    cr_expect_eq(s->c->lines, 0, "a heap that is full is the caller's to tell");
    tu_heap_close(&s->heap);
    tu_shmem_destroy(&s->shmem);
    free(s->c);
    free(s);
}

static bool take(struct scene *s, size_t bytes, size_t *offset) {
    return tu_heap_take(&s->heap, bytes, offset, s->why, sizeof s->why);
}

static size_t took(struct scene *s, size_t bytes) {
    size_t offset = SIZE_MAX;

    cr_assert(take(s, bytes, &offset), "%zu bytes: %s", bytes, s->why);
    return offset;
}

/* Memory that the segment holds. */
static size_t held(const struct scene *s) {
    struct stat file;

    cr_assert_eq(fstat(s->shmem.fd, &file), 0);
    return (size_t)file.st_blocks * 512;
}

/* ---- against a model ----------------------------------------------------------------------- */

enum { BLOCKS = 300, MODEL_UNITS = 2 * MIB / UNIT };

struct model {
    struct {
        size_t at, bytes;
        unsigned char fill;
    } block[BLOCKS];
    int n;
    unsigned char taken[MODEL_UNITS];
    unsigned state;
};

static unsigned below(struct model *m, unsigned n) {
    m->state = m->state * 1664525u + 1013904223u;
    return (m->state >> 8) % n;
}

static size_t step_of(size_t bytes) {
    return bytes < PAGE ? UNIT : PAGE;
}

static size_t units_of(size_t bytes) {
    size_t step = step_of(bytes);

    return ((bytes ? bytes : 1) + step - 1) / step * step / UNIT;
}

/* Where the lowest free run of that length starts, in units; MODEL_UNITS: nowhere. */
static size_t first_fit(const struct model *m, size_t bytes) {
    size_t step = step_of(bytes) / UNIT, need = units_of(bytes);

    for (size_t at = 0; at + need <= MODEL_UNITS; at += step) {
        size_t i = 0;
        while (i < need && !m->taken[at + i]) {
            i++;
        }
        if (i == need) {
            return at;
        }
    }
    return MODEL_UNITS;
}

static size_t draw_bytes(struct model *m) {
    static const size_t edge[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 256 << 10, (256 << 10) + 1};

    switch (below(m, 4)) {
    case 0:
        return edge[below(m, sizeof edge / sizeof *edge)];
    case 1:
        return below(m, 2000);
    case 2:
        return below(m, 20000);
    default:
        return below(m, 700000);
    }
}

static void model_take(struct scene *s, struct model *m) {
    size_t bytes = draw_bytes(m), expected = first_fit(m, bytes), offset = SIZE_MAX;

    if (m->n == BLOCKS) {
        return;
    }
    bool fits = take(s, bytes, &offset);
    cr_assert_eq(fits, expected < MODEL_UNITS, "%zu bytes", bytes);
    if (!fits) {
        cr_assert_eq(offset, SIZE_MAX);
        return;
    }
    cr_assert_eq(offset, expected * UNIT, "%zu bytes", bytes);
    memset(m->taken + expected, 1, units_of(bytes));
    m->block[m->n].at = offset;
    m->block[m->n].bytes = bytes;
    m->block[m->n].fill = (unsigned char)below(m, 255);
    memset(s->base + offset, m->block[m->n++].fill, bytes);
}

static void model_give(struct scene *s, struct model *m) {
    int i = m->n ? (int)below(m, (unsigned)m->n) : 0;

    if (m->n == 0) {
        return;
    }
    for (size_t b = 0; b < m->block[i].bytes; b++) {
        cr_assert_eq(s->base[m->block[i].at + b], m->block[i].fill, "byte %zu was changed", b);
    }
    cr_assert(tu_heap_give(&s->heap, m->block[i].at));
    cr_assert_not(tu_heap_give(&s->heap, m->block[i].at));
    memset(m->taken + m->block[i].at / UNIT, 0, units_of(m->block[i].bytes));
    m->block[i] = m->block[--m->n];
}

/* First fit, block by block, with contents that nobody else touches; through full and empty. */
Test(heap, random_blocks, .timeout = 300) {
    struct model *m = calloc(1, sizeof *m);

    for (unsigned seed = 1; seed <= 4; seed++) {
        struct scene *s = open_scene(2 * MIB, TU_SHM_AUTO);

        memset(m, 0, sizeof *m);
        m->state = seed;
        for (int i = 0; i < 6000; i++) {
            bool growing = (i / 500) % 2 == 0;
            below(m, 10) < (growing ? 7 : 3) ? model_take(s, m) : model_give(s, m);
            cr_assert(tu_heap_is_valid(&s->heap), "seed %u, step %d", seed, i);
        }
        while (m->n) {
            model_give(s, m);
        }
        cr_expect_eq(s->heap.used_bytes, 0);
        cr_expect_eq(took(s, 2 * MIB), 0, "all gaps have become one");
        close_scene(s);
    }
    free(m);
}

/* ---- edges --------------------------------------------------------------------------------- */

/* Whatever the order in which neighbours go, what they leave is one gap. */
Test(heap, gaps_become_one, .timeout = 20) {
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    for (int i = 0; i < 6; i++) {
        struct scene *s = open_scene(MIB, TU_SHM_AUTO);
        size_t below_it = took(s, 64), at[3], offset;

        for (int k = 0; k < 3; k++) {
            at[k] = took(s, PAGE);
        }
        took(s, MIB - 4 * PAGE); /* up to the end */
        cr_expect_not(take(s, PAGE, &offset));
        for (int k = 0; k < 3; k++) {
            cr_assert(tu_heap_give(&s->heap, at[order[i][k]]));
        }
        cr_expect_eq(took(s, 3 * PAGE), at[0]);
        cr_expect(tu_heap_give(&s->heap, below_it));
        close_scene(s);
    }
}

Test(heap, places, .timeout = 20) {
    struct scene *s = open_scene(MIB, TU_SHM_AUTO);
    size_t nothing = took(s, 0), one = took(s, 1), page = took(s, PAGE), line = took(s, 64);

    cr_expect_eq(nothing, 0, "an empty block is a block");
    cr_expect_eq(one, UNIT);
    cr_expect_eq(page, PAGE);
    cr_expect_eq(line, 2 * UNIT, "small ones fill the gap in front of a page");
    cr_expect(tu_heap_give(&s->heap, nothing));
    cr_expect_eq(took(s, 0), 0);
    close_scene(s);
}

Test(heap, what_can_not_be, .timeout = 20) {
    static const size_t too_much[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - PAGE, PTRDIFF_MAX,
                                      MIB + 1};
    struct scene *s = open_scene(MIB, TU_SHM_AUTO);
    size_t offset = 7;

    for (size_t i = 0; i < sizeof too_much / sizeof *too_much; i++) {
        cr_expect_not(take(s, too_much[i], &offset));
        cr_expect_eq(offset, 7);
    }
    cr_expect_eq(took(s, MIB), 0);
    cr_expect_not(take(s, 0, &offset));
    cr_expect(strstr(s->why, "1.0 MiB of the heap's 1.0 MiB are in use") ||
                  strstr(s->why, "1 MiB of the heap's 1 MiB are in use"),
              "%s", s->why);
    close_scene(s);
}

Test(heap, wrong_offsets_free_nothing, .timeout = 20) {
    struct scene *s = open_scene(MIB, TU_SHM_AUTO);
    size_t first = took(s, PAGE), second = took(s, 10 * PAGE);
    size_t wrong[] = {first + 1, second + UNIT, second + PAGE, 11 * PAGE, MIB, SIZE_MAX};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_not(tu_heap_give(&s->heap, wrong[i]));
    }
    cr_expect_eq(s->heap.used_bytes, 11 * PAGE);
    cr_expect(tu_heap_give(&s->heap, first));
    cr_expect_not(tu_heap_give(&s->heap, first));
    cr_expect_eq(s->heap.used_bytes, 10 * PAGE);
    close_scene(s);
}

/* A heap of nothing: what a job has that shares memory with nobody. */
Test(heap, none, .timeout = 20) {
    struct tu_heap heap = {0};
    size_t offset;
    char why[64];

    cr_expect_not(tu_heap_take(&heap, 0, &offset, why, sizeof why));
    cr_expect_not(tu_heap_give(&heap, 0));
    cr_expect(tu_heap_is_valid(&heap));
    tu_heap_close(&heap);
}

/* ---- pages --------------------------------------------------------------------------------- */

Test(heap, pages_come_and_go, .timeout = 30) {
    struct scene *s = open_scene(256 * MIB, TU_SHM_AUTO);
    size_t start = held(s), large, second, small;

    cr_expect_lt(start, MIB, "an empty heap holds no memory");
    small = took(s, 100);
    cr_expect_lt(held(s), start + MIB);
    large = took(s, 64 * MIB);
    cr_expect_geq(held(s), 64 * MIB, "a block has its pages before it is touched");
    second = took(s, 4 * MIB);
    memset(s->base + large, 1, 64 * MIB);
    cr_expect(tu_heap_give(&s->heap, second));
    cr_expect_geq(held(s), 68 * MIB, "little that is free stays for the next block");
    cr_expect_eq(took(s, 4 * MIB), second);
    s->base[small] = s->base[second] = 5;
    cr_expect(tu_heap_give(&s->heap, large));
    cr_expect_lt(held(s), start + 5 * MIB, "much of it goes");
    cr_expect_eq(s->base[small], 5);
    cr_expect_eq(s->base[second], 5);
    cr_expect_eq(took(s, 64 * MIB), large);
    cr_expect_eq(s->base[large + 32 * MIB], 0);
    close_scene(s);
}

/* What many small blocks leave goes too, and never more than the limit stays. */
Test(heap, pages_of_small_blocks_go, .timeout = 30) {
    struct scene *s = open_scene(128 * MIB, TU_SHM_AUTO);
    size_t blocks = 128 * MIB / 8192;

    for (size_t i = 0; i < blocks; i++) {
        cr_assert_eq(took(s, 8192), i * 8192);
    }
    for (size_t i = 0; i < blocks; i++) { /* every seventh from anywhere: gaps of all lengths */
        cr_assert(tu_heap_give(&s->heap, i * 7 % blocks * 8192));
        if (i % 1024 == 0) {
            cr_assert(tu_heap_is_valid(&s->heap));
        }
    }
    cr_expect_leq(held(s), (size_t)TU_HEAP_KEPT + MIB);
    close_scene(s);
}

/* A file system that has no room for a block: an error with the reason, and the rest goes on. */
Test(heap, full_file_system, .timeout = 20) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4m") != 0) {
        cr_skip_test("no mount namespace: %s", strerror(errno));
    }
    struct scene *s = open_scene(64 * MIB, TU_SHM_POSIX);
    size_t offset = 7, first = took(s, MIB);

    cr_expect_not(take(s, 8 * MIB, &offset));
    cr_expect_eq(offset, 7);
    cr_expect(strstr(s->why, "/dev/shm has ") != NULL, "%s", s->why);
    cr_expect(tu_heap_is_valid(&s->heap));
    cr_expect_lt(held(s), 3 * MIB, "what was taken in vain is given back");
    memset(s->base + took(s, 2 * MIB), 1, 2 * MIB);
    cr_expect(tu_heap_give(&s->heap, first));
    close_scene(s);
}

/* ---- how large ----------------------------------------------------------------------------- */

static size_t wanted_under(struct capture *c, int resource, rlim_t most) {
    struct rlimit before, limit;

    cr_assert_eq(getrlimit(resource, &before), 0);
    limit = before;
    limit.rlim_cur = most;
    cr_assert_eq(setrlimit(resource, &limit), 0);
    size_t wanted = tu_heap_wanted(&c->env, 32 * MIB);
    cr_assert_eq(setrlimit(resource, &before), 0);
    return wanted;
}

Test(heap, size_under_limits, .timeout = 20) {
    struct capture *c = capture_open();
    size_t gib = (size_t)1 << 30;

    c->env.log.level = TU_LOG_INFO;
    cr_expect_eq(tu_heap_wanted(&c->env, 32 * MIB), gib);
    c->env.config.heap_bytes = 3 * MIB + 5;
    cr_expect_eq(tu_heap_wanted(&c->env, 32 * MIB), 3 * MIB);
    c->env.config.heap_bytes = 0;
    cr_expect_eq(wanted_under(c, RLIMIT_AS, 64 * gib), 0);
    cr_expect_eq(c->lines, 0);
    c->env.config.heap_bytes = gib;
    cr_expect_eq(wanted_under(c, RLIMIT_AS, 64 * gib), 256 * MIB);
    cr_expect(capture_has(c, "the shared heap has 256 MiB, not TUTTI_HEAP=1G"), "%s", c->line[0]);
    cr_expect_eq(wanted_under(c, RLIMIT_AS, 1024 * gib), gib);
    cr_expect_eq(wanted_under(c, RLIMIT_FSIZE, 133 * MIB), 100 * MIB);
    cr_expect_eq(wanted_under(c, RLIMIT_FSIZE, 8 * MIB), 0);
    cr_expect_eq(c->lines, 3);
    free(c);
}
