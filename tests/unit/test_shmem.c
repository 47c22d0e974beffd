/* Shared segments: both kinds, between processes, and everything that can be wrong with them. */
#define _GNU_SOURCE /* unshare */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "runtime/memory.h"
#include "runtime/process.h"
#include "runtime/shmem.h"

enum { MIB = 1 << 20 };

static struct capture *open_kind(enum tu_shm_choice choice) {
    struct capture *c = capture_open();

    c->env.config.shm = choice;
    return c;
}

/* A private /dev/shm of `bytes`; skips the test where that is not permitted. */
static void small_dev_shm(const char *size) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, size) != 0) {
        cr_skip_test("no mount namespace: %s", strerror(errno));
    }
}

static int exit_code(pid_t child) {
    int status = 0;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool name_exists(const char *name) {
    char path[200];

    snprintf(path, sizeof path, "/dev/shm%s", name);
    return access(path, F_OK) == 0;
}

/* ---- both kinds ---------------------------------------------------------------------------- */

ParameterizedTestParameters(shmem, life) {
    static enum tu_shm_choice kind[] = {TU_SHM_AUTO, TU_SHM_MEMFD, TU_SHM_POSIX};

    return cr_make_param_array(enum tu_shm_choice, kind, 3);
}

/* A forked child attaches, reads, writes back; the creator sees it; nothing stays behind. */
ParameterizedTest(enum tu_shm_choice *kind, shmem, life, .timeout = 20) {
    struct capture *c = open_kind(*kind);
    struct tu_shmem shmem, peer;
    struct tu_shmem_blob blob;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char name[TU_SHMEM_NAME_BYTES], *memory;
    pid_t child;

    cr_assert_eq(tu_shmem_create(&c->env, MIB + 1, &shmem), TUTTI_OK, "%s", c->env.error);
    cr_expect_eq(shmem.bytes, MIB + page);
    cr_expect_eq((uintptr_t)shmem.memory % page, 0);
    cr_expect_eq(shmem.kind, *kind == TU_SHM_POSIX ? TU_SHMEM_POSIX : TU_SHMEM_MEMFD);
    cr_assert_eq(tu_shmem_reserve(&c->env, &shmem, 0, shmem.bytes), TUTTI_OK);
    memory = shmem.memory;
    cr_expect_eq(memory[0] | memory[MIB], 0);
    strcpy(memory + 100, "from the creator");
    memory[shmem.bytes - 1] = 'z';
    tu_shmem_export(&shmem, &blob);
    snprintf(name, sizeof name, "%s", shmem.name);
    cr_expect_eq(name[0] != 0 && name_exists(name), shmem.kind == TU_SHMEM_POSIX);

    child = start_child();
    if (child == 0) { /* as another process would: through the description alone */
        tu_shmem_destroy(&shmem);
        if (tu_shmem_attach(&c->env, &blob, &peer) != TUTTI_OK) {
            _exit(1);
        }
        memory = peer.memory;
        if (peer.bytes != blob.bytes || strcmp(memory + 100, "from the creator") ||
            memory[peer.bytes - 1] != 'z' || (uintptr_t)memory % page) {
            _exit(2);
        }
        strcpy(memory + 200, "from the child");
        tu_shmem_destroy(&peer);
        _exit(peer.memory || peer.kind ? 3 : 0);
    }
    cr_expect_eq(exit_code(child), 0);
    cr_expect_str_eq(memory + 200, "from the child");
    cr_expect_eq(name[0] != 0 && name_exists(name), shmem.kind == TU_SHMEM_POSIX,
                 "a forked child's destroy takes no name away");

    tu_shmem_unlink(&shmem);
    cr_expect_not(name[0] && name_exists(name));
    tu_shmem_unlink(&shmem);
    memory[300] = 1; /* mapped all the same */
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 0, shmem.bytes), TUTTI_OK);
    tu_shmem_destroy(&shmem);
    cr_expect_null(shmem.memory);
    tu_shmem_destroy(&shmem);
    cr_expect_eq(c->lines, 0);
    free(c);
}

Test(shmem, two_segments_of_one_process, .timeout = 20) { /* ranks that are threads */
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem one, two, seen;
    struct tu_shmem_blob blob;

    cr_assert_eq(tu_shmem_create(&c->env, 1, &one), TUTTI_OK);
    cr_assert_eq(tu_shmem_create(&c->env, 1, &two), TUTTI_OK);
    cr_expect_str_neq(one.name, two.name);
    cr_expect_neq(one.token, two.token);
    tu_shmem_export(&two, &blob);
    cr_assert_eq(tu_shmem_attach(&c->env, &blob, &seen), TUTTI_OK);
    cr_assert_eq(tu_shmem_reserve(&c->env, &two, 0, 8), TUTTI_OK);
    *(char *)two.memory = 'x';
    cr_expect_eq(*(char *)seen.memory, 'x');
    cr_expect_eq(tu_shmem_reserve(&c->env, &seen, 0, 8), TUTTI_ERR_INTERNAL);
    tu_shmem_destroy(&one);
    tu_shmem_destroy(&two);
    *(char *)seen.memory = 'y';
    tu_shmem_destroy(&seen);
    free(c);
}

/* Nobody can shrink a memfd, which would turn its pages into SIGBUS for all. */
Test(shmem, memfd_is_sealed, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_MEMFD);
    struct tu_shmem shmem;

    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
    cr_expect_eq(ftruncate(shmem.fd, 0), -1);
    cr_expect_eq(ftruncate(shmem.fd, 1 << 30), -1);
    cr_expect(fcntl(shmem.fd, F_GETFD) & FD_CLOEXEC);
    tu_shmem_destroy(&shmem);
    free(c);
}

Test(shmem, posix_is_private_to_the_user, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem shmem;
    struct stat file;

    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
    cr_assert_eq(fstat(shmem.fd, &file), 0);
    cr_expect_eq(file.st_mode & 0777, 0600);
    cr_expect(fcntl(shmem.fd, F_GETFD) & FD_CLOEXEC);
    tu_shmem_destroy(&shmem);
    free(c);
}

/* A process that hides its /proc entries from its equals can't share a memfd. */
Test(shmem, undumpable_process_uses_posix, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_AUTO);
    struct tu_shmem shmem;

    prctl(PR_SET_DUMPABLE, 0);
    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK, "%s", c->env.error);
    cr_expect_eq(shmem.kind, TU_SHMEM_POSIX);
    tu_shmem_destroy(&shmem);
    c->env.config.shm = TU_SHM_MEMFD;
    cr_expect_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_ERR_UNSUPPORTED);
    cr_expect(strstr(c->env.error, "TUTTI_SHM=memfd") != NULL, "%s", c->env.error);
    cr_expect_eq(shmem.kind, TU_SHMEM_NONE);
    free(c);
}

/* ---- attaching to the wrong thing ------------------------------------------------------------ */

/* Fails, says why, logs nothing, and leaves nothing. */
static void expect_refused(const struct tu_shmem_blob *blob, const char *reason) {
    struct tu_shmem shmem;
    char why[256] = "";

    memset(&shmem, 0xff, sizeof shmem);
    cr_expect_eq(tu_shmem_try_attach(blob, &shmem, why, sizeof why), TUTTI_ERR_UNSUPPORTED);
    cr_expect(strstr(why, reason) != NULL, "\"%s\", not \"%s\"", why, reason);
    cr_expect_eq(shmem.kind, TU_SHMEM_NONE);
    cr_expect_null(shmem.memory);
}

Test(shmem, token_and_size_must_match, .timeout = 20) {
    static const enum tu_shm_choice kind[] = {TU_SHM_MEMFD, TU_SHM_POSIX};

    for (int i = 0; i < 2; i++) {
        struct capture *c = open_kind(kind[i]);
        struct tu_shmem shmem, seen;
        struct tu_shmem_blob blob, wrong;

        cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
        tu_shmem_export(&shmem, &blob);
        wrong = blob;
        wrong.token ^= 1;
        expect_refused(&wrong, "size or token");
        wrong = blob;
        wrong.bytes *= 2;
        expect_refused(&wrong, "size or token");
        cr_expect_eq(tu_shmem_attach(&c->env, &wrong, &seen), TUTTI_ERR_UNSUPPORTED);
        cr_expect(strstr(c->env.error, "can't attach to the shared memory of process") != NULL,
                  "%s", c->env.error);
        cr_expect_eq(c->lines, 1);
        cr_expect_eq(tu_shmem_attach(&c->env, &blob, &seen), TUTTI_OK);
        tu_shmem_destroy(&seen);
        tu_shmem_destroy(&shmem);
        free(c);
    }
}

/* Mapped, the pages that are missing would be SIGBUS. */
Test(shmem, segment_that_was_cut, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem shmem;
    struct tu_shmem_blob blob;

    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
    tu_shmem_export(&shmem, &blob);
    cr_assert_eq(ftruncate(shmem.fd, MIB / 2), 0);
    expect_refused(&blob, "size or token");
    tu_shmem_destroy(&shmem);
    free(c);
}

Test(shmem, damaged_descriptions, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem shmem;
    struct tu_shmem_blob blob, wrong;

    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
    tu_shmem_export(&shmem, &blob);
    memset(&wrong, 0, sizeof wrong);
    expect_refused(&wrong, "damaged");
    memset(&wrong, 0xff, sizeof wrong);
    expect_refused(&wrong, "damaged");
    wrong = blob;
    wrong.bytes = 0;
    expect_refused(&wrong, "damaged");
    wrong = blob;
    wrong.bytes = (uint64_t)0 - 4096;
    expect_refused(&wrong, "damaged");
    wrong = blob;
    wrong.bytes++;
    expect_refused(&wrong, "damaged");
    wrong = blob;
    memset(wrong.name, 'a', sizeof wrong.name); /* no end */
    expect_refused(&wrong, "damaged");
    wrong = blob;
    snprintf(wrong.name, sizeof wrong.name, "/../etc/passwd");
    expect_refused(&wrong, "damaged");
    wrong = blob;
    wrong.kind = TU_SHMEM_MEMFD;
    expect_refused(&wrong, "damaged");
    tu_shmem_destroy(&shmem);
    expect_refused(&blob, "No such file");
    free(c);
}

/* The number of the descriptor may be something else by now: it is not even opened. */
Test(shmem, memfd_that_is_something_else, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_MEMFD);
    struct tu_shmem shmem;
    struct tu_shmem_blob blob;
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
    tu_shmem_export(&shmem, &blob);
    blob.fd = ends[1];
    expect_refused(&blob, "is not shared memory of tutti");
    blob.fd = 9999;
    expect_refused(&blob, "No such file");
    tu_shmem_export(&shmem, &blob);
    blob.pid_namespace++;
    expect_refused(&blob, "another pid namespace");
    tu_shmem_export(&shmem, &blob);
    tu_shmem_destroy(&shmem);
    expect_refused(&blob, "");
    free(c);
}

Test(shmem, creator_that_died, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_MEMFD);
    struct tu_shmem_blob *blob =
        mmap(NULL, sizeof *blob, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct tu_shmem shmem;
    pid_t child = start_child();

    if (child == 0) {
        tu_shmem_create(&c->env, MIB, &shmem);
        tu_shmem_export(&shmem, blob);
        _exit(0);
    }
    cr_expect_eq(exit_code(child), 0);
    cr_assert_eq(blob->pid, child);
    expect_refused(blob, "No such file");
    free(c);
}

/* ---- running out --------------------------------------------------------------------------- */

Test(shmem, full_dev_shm_is_an_error_with_figures, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem shmem;

    small_dev_shm("size=2m");
    cr_assert_eq(tu_shmem_create(&c->env, 8 * MIB, &shmem), TUTTI_OK, "%s", c->env.error);
    cr_assert_eq(tu_shmem_reserve(&c->env, &shmem, 0, MIB), TUTTI_OK);
    memset(shmem.memory, 1, MIB);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, MIB, 3 * MIB), TUTTI_ERR_MEMORY);
    cr_expect(strstr(c->env.error,
                     "shared memory needs 3 MiB more, /dev/shm has 1020 KiB free of 2 "
                     "MiB: enlarge it") != NULL,
              "%s", c->env.error);
    cr_expect(strstr(c->env.error, "TUTTI_WINDOW") != NULL, "%s", c->env.error);
    /* the failure took nothing: what fits still fits, and what was reserved costs nothing again */
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, MIB, MIB - 4096), TUTTI_OK, "%s", c->env.error);
    memset(shmem.memory, 2, 2 * MIB - 4096);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 0, 2 * MIB - 4096), TUTTI_OK, "%s",
                 c->env.error);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 2 * MIB, 1), TUTTI_ERR_MEMORY);
    tu_shmem_destroy(&shmem);
    cr_expect_eq(c->lines, 2);
    free(c);
}

Test(shmem, no_room_even_to_create, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem shmem, other;
    int swept;

    small_dev_shm("size=64k");
    cr_assert_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK);
    cr_assert_eq(tu_shmem_reserve(&c->env, &shmem, 0, 60 << 10), TUTTI_OK, "%s", c->env.error);
    cr_expect_eq(tu_shmem_create(&c->env, MIB, &other), TUTTI_ERR_MEMORY);
    cr_expect(strstr(c->env.error, "0 bytes free of 64 KiB") != NULL, "%s", c->env.error);
    cr_expect_eq(other.kind, TU_SHMEM_NONE);
    swept = tu_shmem_sweep(&c->env);
    cr_expect_eq(swept, 0, "the failed one left its name");
    tu_shmem_destroy(&shmem);
    free(c);
}

Test(shmem, missing_dev_shm, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem shmem;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", MS_RDONLY, NULL) != 0) {
        cr_skip_test("no mount namespace: %s", strerror(errno));
    }
    cr_expect_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_ERR_SYSTEM);
    cr_expect(strstr(c->env.error, "TUTTI_SHM=memfd does without") != NULL, "%s", c->env.error);
    c->env.config.shm = TU_SHM_AUTO; /* needs no /dev/shm */
    cr_expect_eq(tu_shmem_create(&c->env, MIB, &shmem), TUTTI_OK, "%s", c->env.error);
    tu_shmem_destroy(&shmem);
    free(c);
}

Test(shmem, file_size_limit, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_AUTO);
    struct rlimit limit = {MIB, MIB};
    struct tu_shmem shmem;

    setrlimit(RLIMIT_FSIZE, &limit);
    cr_expect_eq(tu_shmem_create(&c->env, 4 * MIB, &shmem), TUTTI_ERR_MEMORY);
    cr_expect(strstr(c->env.error, "limit on file size is 1 MiB") != NULL, "%s", c->env.error);
    cr_expect_eq(tu_shmem_create(&c->env, MIB / 2, &shmem), TUTTI_OK, "%s", c->env.error);
    tu_shmem_destroy(&shmem);
    free(c);
}

Test(shmem, impossible_sizes, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_AUTO);
    struct tu_shmem shmem;

    cr_expect_eq(tu_shmem_create(&c->env, SIZE_MAX, &shmem), TUTTI_ERR_MEMORY);
    cr_expect_eq(tu_shmem_create(&c->env, SIZE_MAX / 2 - 100, &shmem), TUTTI_ERR_MEMORY);
    cr_expect_eq(tu_shmem_create(&c->env, (size_t)1 << 60, &shmem), TUTTI_ERR_MEMORY);
    cr_expect_null(shmem.memory);
    cr_assert_eq(tu_shmem_create(&c->env, 0, &shmem), TUTTI_OK);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 0, 0), TUTTI_OK);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, shmem.bytes + 1, 0), TUTTI_ERR_INTERNAL);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 1, shmem.bytes), TUTTI_ERR_INTERNAL);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 8, SIZE_MAX), TUTTI_ERR_INTERNAL);
    tu_shmem_destroy(&shmem);
    free(c);
}

/* More than the machine has: an error before the kernel starts to kill. */
Test(shmem, more_than_the_machine, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_MEMFD);
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    struct tu_shmem shmem;
    FILE *score = fopen("/proc/self/oom_score_adj", "w");

    cr_assert_not_null(score); /* if the check failed, the killer must come here first */
    cr_assert_geq(fputs("1000\n", score), 0);
    cr_assert_eq(fclose(score), 0);
    cr_assert_eq(tu_shmem_create(&c->env, 4 * machine, &shmem), TUTTI_OK, "%s", c->env.error);
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 0, 4 * machine), TUTTI_ERR_MEMORY);
    cr_expect(strstr(c->env.error, "shared memory needs ") != NULL, "%s", c->env.error);
    tu_shmem_destroy(&shmem);
    free(c);
}

/* What the kernel's list of mappings says of the one with `address`: whether a dump takes it. */
static bool is_dumped(const void *address) {
    char line[300];
    bool here = false, dumped = false;
    FILE *in = fopen("/proc/self/smaps", "r");

    cr_assert_not_null(in);
    while (fgets(line, sizeof line, in)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            here = (uintptr_t)address >= from && (uintptr_t)address < to;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            dumped = strstr(line, " dd") == NULL;
        }
    }
    fclose(in);
    return dumped;
}

/* Pages go back and come again as zeros; and a dump takes only those that are there. */
Test(shmem, release, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_AUTO);
    struct tu_shmem shmem, seen;
    struct tu_shmem_blob blob;
    struct stat file;

    cr_assert_eq(tu_shmem_create(&c->env, 8 * MIB, &shmem), TUTTI_OK);
    char *memory = shmem.memory;
    cr_expect_not(is_dumped(memory + 4 * MIB));
    cr_assert_eq(tu_shmem_reserve(&c->env, &shmem, 2 * MIB, 4 * MIB), TUTTI_OK);
    cr_expect(is_dumped(memory + 2 * MIB) && is_dumped(memory + 6 * MIB - 1));
    cr_expect_not(is_dumped(memory + 6 * MIB));
    memset(memory + 2 * MIB, 7, 4 * MIB);
    tu_shmem_export(&shmem, &blob);
    cr_assert_eq(tu_shmem_attach(&c->env, &blob, &seen), TUTTI_OK);
    cr_expect_not(is_dumped((char *)seen.memory + 2 * MIB),
                  "a peer's memory is the peer's to dump");

    cr_expect_not(tu_shmem_release(&seen, 3 * MIB, MIB), "another's segment");
    cr_expect_not(tu_shmem_release(&shmem, 7 * MIB, 2 * MIB));
    cr_expect(tu_shmem_release(&shmem, 3 * MIB, MIB));
    cr_expect_eq(fstat(shmem.fd, &file), 0);
    cr_expect_lt(file.st_blocks * 512, 4 * MIB);
    cr_expect_not(is_dumped(memory + 3 * MIB));
    cr_expect(is_dumped(memory + 4 * MIB));
    cr_assert_eq(tu_shmem_reserve(&c->env, &shmem, 3 * MIB, MIB), TUTTI_OK);
    cr_expect_eq(memory[3 * MIB - 1], 7);
    cr_expect_eq(memory[3 * MIB], 0);
    cr_expect_eq(((char *)seen.memory)[4 * MIB - 1], 0);
    cr_expect_eq(((char *)seen.memory)[4 * MIB], 7);
    tu_shmem_destroy(&seen);
    tu_shmem_destroy(&shmem);
    free(c);
}

static void write_text(const char *folder, const char *file, const char *text) {
    char path[200];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    out = fopen(path, "w");
    cr_assert_not_null(out, "%s", path);
    fputs(text, out);
    fclose(out);
}

/* A group of its own with 64 MiB; false where groups of version 1 can't be made. */
static bool make_group(char *folder, size_t bytes) {
    snprintf(folder, bytes, "/sys/fs/cgroup/memory/tutti-test-%d", getpid());
    if (access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) != 0 ||
        mkdir(folder, 0755) != 0) {
        return false;
    }
    write_text(folder, "memory.limit_in_bytes", "67108864\n");
    return true;
}

Test(shmem, memory_cgroup, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_MEMFD);
    struct tu_shmem shmem;
    char folder[100];
    pid_t child;

    if (!make_group(folder, sizeof folder)) {
        cr_skip_test("no memory cgroup can be made here");
    }
    child = start_child();
    if (child == 0) {
        write_text(folder, "cgroup.procs", "0\n");
        if (tu_shmem_create(&c->env, 256 * MIB, &shmem) != TUTTI_OK ||
            tu_shmem_reserve(&c->env, &shmem, 0, 16 * MIB) != TUTTI_OK) {
            _exit(1);
        }
        memset(shmem.memory, 1, 16 * MIB);
        if (tu_shmem_reserve(&c->env, &shmem, 16 * MIB, 200 * MIB) != TUTTI_ERR_MEMORY) {
            _exit(2);
        }
        _exit(strstr(c->env.error, "the memory cgroup") && strstr(c->env.error, "left of 64 MiB")
                  ? 0
                  : 3);
    }
    cr_expect_eq(exit_code(child), 0);
    for (int i = 0; rmdir(folder) != 0 && i < 100; i++) {
        usleep(10000);
    }
    free(c);
}

/* A profiler's signals must not keep a long allocation from ever ending. */
static void count_signal(int number) {
    (void)number;
}

Test(shmem, signals_do_not_disturb, .timeout = 30) {
    struct capture *c = open_kind(TU_SHM_MEMFD);
    struct tu_shmem shmem;
    struct sigaction action = {.sa_handler = count_signal};
    pid_t parent = getpid(), child;
    sigset_t after;

    sigaction(SIGUSR1, &action, NULL);
    cr_assert_eq(tu_shmem_create(&c->env, 64 * MIB, &shmem), TUTTI_OK);
    child = start_child();
    if (child == 0) {
        for (;;) {
            kill(parent, SIGUSR1);
            usleep(200);
        }
    }
    cr_expect_eq(tu_shmem_reserve(&c->env, &shmem, 0, 64 * MIB), TUTTI_OK, "%s", c->env.error);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_expect_not(sigismember(&after, SIGUSR1), "signals stay blocked");
    tu_shmem_destroy(&shmem);
    free(c);
}

/* ---- names and their removal ------------------------------------------------------------------ */

static bool same_maker(const struct tu_shmem_maker *a, const struct tu_shmem_maker *b) {
    return a->pid_namespace == b->pid_namespace && a->pid == b->pid &&
           a->start_time == b->start_time;
}

Test(sweep, names, .timeout = 10) {
    struct tu_shmem_maker maker = {4026531836, 12345, 987654321}, got = {0};
    char name[TU_SHMEM_NAME_BYTES];

    tu_shmem_name(&maker, 0xabcdef, name, sizeof name);
    cr_expect_str_eq(name, "/tutti.4026531836.12345.987654321.0000000000abcdef");
    cr_expect(tu_shmem_parse_name(name, &got));
    cr_expect(same_maker(&got, &maker));
    cr_expect(tu_shmem_parse_name(name + 1, &got));
    cr_expect_not(tu_shmem_parse_name("/tutti.1.2.3", &got));
    cr_expect_not(tu_shmem_parse_name("/tutti.1.-2.3.0000000000abcdef", &got));
    cr_expect_not(tu_shmem_parse_name("/tutti.1.2.3.0000000000abcdef.txt", &got));
    cr_expect_not(tu_shmem_parse_name("/sem.tutti", &got));
    cr_expect_not(tu_shmem_parse_name("", &got));
    maker = (struct tu_shmem_maker){UINT64_MAX, INT32_MAX, UINT64_MAX};
    tu_shmem_name(&maker, UINT64_MAX, name, sizeof name);
    cr_expect(tu_shmem_parse_name(name, &got));
    cr_expect(same_maker(&got, &maker));
    cr_expect_lt(strlen(name), sizeof((struct tu_shmem_blob *)0)->name);
}

/* An object in /dev/shm as a maker would leave it. */
static void leave_behind(uint64_t namespace, int32_t pid, uint64_t start_time, char *name) {
    struct tu_shmem_maker maker = {namespace, pid, start_time};
    int fd;

    tu_shmem_name(&maker, 0x1234, name, TU_SHMEM_NAME_BYTES);
    fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
}

Test(sweep, only_what_dead_processes_left, .timeout = 20) {
    struct capture *c = open_kind(TU_SHM_POSIX);
    struct tu_shmem mine, theirs;
    char reused[TU_SHMEM_NAME_BYTES], foreign[TU_SHMEM_NAME_BYTES], killed[TU_SHMEM_NAME_BYTES];
    uint64_t here = tu_process_namespace();
    int ready[2], other;
    pid_t child;

    c->env.log.level = TU_LOG_INFO;
    small_dev_shm("size=4m");
    cr_assert_eq(pipe(ready), 0);
    cr_assert_eq(tu_shmem_create(&c->env, MIB, &mine), TUTTI_OK);
    child = start_child();
    if (child == 0) {
        tu_shmem_create(&c->env, MIB, &theirs);
        if (write(ready[1], theirs.name, sizeof theirs.name) < 0) {
            _exit(1);
        }
        pause();
    }
    cr_assert_eq(read(ready[0], killed, sizeof killed), sizeof killed);
    leave_behind(here, getpid(), tu_process_start_time(getpid()) - 1, reused);
    leave_behind(here + 1, getpid(), 1, foreign);
    other = shm_open("/tutti.note", O_CREAT | O_RDWR, 0600);

    cr_expect_eq(tu_shmem_sweep(&c->env), 1);
    cr_expect_not(name_exists(reused), "its pid belongs to another process now");
    cr_expect(name_exists(killed), "its maker lives");
    kill(child, SIGKILL);
    cr_expect_eq(exit_code(child), -SIGKILL);
    cr_expect(name_exists(killed));
    cr_expect_eq(tu_shmem_sweep(&c->env), 1);
    cr_expect_not(name_exists(killed));
    cr_expect(name_exists(mine.name));
    cr_expect(name_exists(foreign));
    cr_expect(name_exists("/tutti.note"));
    cr_expect(capture_has(c, "removed /dev/shm/tutti."));
    cr_expect_eq(tu_shmem_sweep(&c->env), 0);
    close(other);
    tu_shmem_destroy(&mine);
    free(c);
}
