/* Limits of control groups, in trees of files laid out for the purpose, and usable cores. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <criterion/criterion.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "runtime/cgroup.h"
#include "runtime/cpus.h"

/* ---- control groups ------------------------------------------------------------------------ */

struct tree {
    char root[64];
};

static void tree_make(struct tree *tree) {
    strcpy(tree->root, "/tmp/tutti-cgroup-XXXXXX");
    cr_assert_not_null(mkdtemp(tree->root));
}

static void tree_remove(struct tree *tree) {
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", tree->root);
    cr_expect_eq(system(command), 0);
}

/* Writes a file of the tree and makes the folders that it needs. */
static void put(const struct tree *tree, const char *file, const char *text) {
    char path[512];
    FILE *out;

    snprintf(path, sizeof path, "%s%s", tree->root, file);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    out = fopen(path, "w");
    cr_assert_not_null(out, "%s", path);
    fputs(text, out);
    fclose(out);
}

static const char mount_2[] =
    "23 0 8:1 / / rw - ext4 /dev/sda rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";
static const char mount_1[] =
    "31 30 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "34 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

#define G2 "/sys/fs/cgroup"

Test(cgroup, nothing_there, .timeout = 10) {
    struct tree tree;
    struct tu_cgroup_memory memory;

    tree_make(&tree);
    cr_expect_eq(tu_cgroup_cpus(tree.root), 0);
    tu_cgroup_memory(tree.root, &memory);
    cr_expect_eq(memory.limit_bytes, UINT64_MAX);
    cr_expect_eq(memory.free_bytes, UINT64_MAX);
    put(&tree, "/proc/self/cgroup", "0::/a/b\n");
    cr_expect_eq(tu_cgroup_cpus(tree.root), 0);
    put(&tree, "/proc/self/mountinfo", mount_2);
    cr_expect_eq(tu_cgroup_cpus(tree.root), 0);
    put(&tree, "/proc/self/cgroup", "garbage\n\n:\n");
    cr_expect_eq(tu_cgroup_cpus(tree.root), 0);
    tree_remove(&tree);
}

Test(cgroup, cpu_version_2, .timeout = 10) {
    struct tree tree;

    tree_make(&tree);
    put(&tree, "/proc/self/cgroup", "0::/a/b\n");
    put(&tree, "/proc/self/mountinfo", mount_2);
    put(&tree, G2 "/a/b/cpu.max", "max 100000\n");
    cr_expect_eq(tu_cgroup_cpus(tree.root), 0);
    put(&tree, G2 "/a/b/cpu.max", "250000 100000\n");
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 2.5, 1e-9);
    put(&tree, G2 "/a/cpu.max", "50000 100000\n"); /* the parent is tighter */
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 0.5, 1e-9);
    put(&tree, G2 "/a/cpu.max", "800000 100000\n");
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 2.5, 1e-9);
    put(&tree, G2 "/cpu.max", "100000 100000\n"); /* a container's mount shows it at the top */
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 1, 1e-9);
    put(&tree, G2 "/a/c/cpu.max", "1000 100000\n"); /* not ours */
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 1, 1e-9);
    tree_remove(&tree);
}

Test(cgroup, cpu_version_1, .timeout = 10) {
    struct tree tree;

    tree_make(&tree);
    put(&tree, "/proc/self/cgroup", "7:cpuset:/other\n4:cpu,cpuacct:/job\n2:memory:/\n0::/\n");
    put(&tree, "/proc/self/mountinfo", mount_1);
    put(&tree, "/sys/fs/cgroup/cpuset/other/cpu.cfs_quota_us", "1\n");
    put(&tree, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    put(&tree, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    cr_expect_eq(tu_cgroup_cpus(tree.root), 0);
    put(&tree, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 3, 1e-9);
    tree_remove(&tree);
}

/* A container: the mount shows only its own part of the tree, whose name the process still has. */
Test(cgroup, mounted_in_part, .timeout = 10) {
    struct tree tree;

    tree_make(&tree);
    put(&tree, "/proc/self/cgroup", "0::/docker/abc/sub\n");
    put(&tree, "/proc/self/mountinfo",
        "9 8 0:26 /docker/abc /cg\\040roup ro - cgroup2 cgroup rw\n");
    put(&tree, "/cg roup/sub/cpu.max", "200000 100000\n");
    put(&tree, "/cg roup/cpu.max", "400000 100000\n");
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 2, 1e-9);
    put(&tree, "/proc/self/cgroup", "0::/../../elsewhere\n");
    put(&tree, "/cpu.max", "100000 100000\n"); /* no group's: above the mount */
    put(&tree, "/proc/self/mountinfo", "9 8 0:26 / /cg\\040roup ro - cgroup2 cgroup rw\n");
    cr_expect_float_eq(tu_cgroup_cpus(tree.root), 4, 1e-9);
    tree_remove(&tree);
}

Test(cgroup, memory_version_2, .timeout = 10) {
    struct tree tree;
    struct tu_cgroup_memory memory;

    tree_make(&tree);
    put(&tree, "/proc/self/cgroup", "0::/a/b\n");
    put(&tree, "/proc/self/mountinfo", mount_2);
    put(&tree, G2 "/a/b/memory.max", "max\n");
    put(&tree, G2 "/a/b/memory.current", "700\n");
    put(&tree, G2 "/a/memory.max", "10000\n");
    put(&tree, G2 "/a/memory.current", "9000\n");
    tu_cgroup_memory(tree.root, &memory);
    cr_expect_eq(memory.limit_bytes, 10000);
    cr_expect_eq(memory.free_bytes, 1000);
    cr_expect_str_eq(memory.path + strlen(tree.root), G2 "/a");
    put(&tree, G2 "/a/memory.stat",
        "anon 500\nfile 8000\nshmem 4000\ninactive_anon 1\n"
        "inactive_file 1500\nactive_file 2500\nslab 77\n");
    tu_cgroup_memory(tree.root, &memory);
    cr_expect_eq(memory.free_bytes, 5000, "page cache can go, shared memory can't");
    put(&tree, G2 "/a/memory.current", "20000\n"); /* above a limit that was lowered */
    tu_cgroup_memory(tree.root, &memory);
    cr_expect_eq(memory.free_bytes, 0);
    tree_remove(&tree);
}

Test(cgroup, memory_version_1, .timeout = 10) {
    struct tree tree;
    struct tu_cgroup_memory memory;

    tree_make(&tree);
    put(&tree, "/proc/self/cgroup", "2:memory:/job\n0::/\n");
    put(&tree, "/proc/self/mountinfo", mount_1);
    put(&tree, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put(&tree, "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100\n");
    tu_cgroup_memory(tree.root, &memory);
    cr_expect_eq(memory.limit_bytes, UINT64_MAX);
    put(&tree, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
    put(&tree, "/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 9\ntotal_inactive_file 30\ntotal_active_file 20\n");
    tu_cgroup_memory(tree.root, &memory);
    cr_expect_eq(memory.limit_bytes, 1000);
    cr_expect_eq(memory.free_bytes, 950);
    tree_remove(&tree);
}

/* ---- cores --------------------------------------------------------------------------------- */

static void bind_to(int cpu) {
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

/* The first CPUs that this process may use. */
static int first_cpus(int *cpu, int most) {
    cpu_set_t set;
    int n = 0;

    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (int i = 0; i < CPU_SETSIZE && n < most; i++) {
        if (CPU_ISSET(i, &set)) {
            cpu[n++] = i;
        }
    }
    return n;
}

Test(cpus, affinity_counts, .timeout = 10) {
    int cpu[2], n = first_cpus(cpu, 2);

    cr_expect_geq(tu_usable_cpus(), 1);
    cr_expect_leq(tu_usable_cpus(), (int)sysconf(_SC_NPROCESSORS_ONLN));
    bind_to(cpu[n - 1]);
    cr_expect_eq(tu_usable_cpus(), 1);
}

/* Two ranks bound to a core each have two cores, two ranks bound to the same have one. */
Test(cpus, bound_ranks_together, .timeout = 10) {
    int cpu[2], ready[2], before = tu_usable_cpus();
    int32_t pid[3];
    char byte;
    pid_t child;

    if (before < 2 || first_cpus(cpu, 2) < 2) {
        cr_skip_test("needs two cores");
    }
    cr_assert_eq(pipe(ready), 0);
    bind_to(cpu[0]);
    child = start_child();
    if (child == 0) {
        bind_to(cpu[1]);
        if (write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    pid[0] = getpid();
    pid[1] = child;
    pid[2] = 0x3fffffff; /* nobody */
    cr_expect_eq(tu_usable_cpus_of(pid, 3), 2);
    cr_expect_eq(tu_usable_cpus_of(pid, 1), 1);
    bind_to(cpu[1]);
    cr_expect_eq(tu_usable_cpus_of(pid, 3), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* ---- caches -------------------------------------------------------------------------------- */

/* The largest of all that the system tells of. */
Test(cpus, largest_cache, .timeout = 10) {
    size_t largest = 0;
    glob_t found;

    if (glob("/sys/devices/system/cpu/cpu0/cache/index*/size", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            size_t kib = 0;
            FILE *in = fopen(found.gl_pathv[i], "r");

            cr_assert(in && fscanf(in, "%zuK", &kib) == 1);
            fclose(in);
            largest = kib > largest ? kib : largest;
        }
        globfree(&found);
    }
    cr_assert_eq(tu_cache_bytes(), largest << 10);
}
