"""The programs as their users start them. TUTTI_BIN: their folder, TUTTI_PRTERUN: the launcher."""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("TUTTI_BIN", ROOT / "build/dev/bin"))
PRTERUN = os.environ.get("TUTTI_PRTERUN", "prterun")
USAGE_ERROR = 64
COUNTERS = {"lines", "writes", "cells", "bytes", "requests", "doorbells", "completions"}


def clean_environment(more):
    kept = {name: value for name, value in os.environ.items()
            if not re.match(r"TUTTI_|PMIX_|PMI_|OMPI_", name)}
    return {**kept, **more}


def run(program, *words, launcher=(), **environment):
    """Returns (exit status, standard output, standard error)."""
    done = subprocess.run([*launcher, str(BIN / program), *map(str, words)], text=True,
                          capture_output=True, env=clean_environment(environment), timeout=100,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def ranks(n):
    return [PRTERUN, "--map-by", ":oversubscribe", "--bind-to", "none", "-n", str(n)]


class Info(unittest.TestCase):
    def info(self, *words, status=0, **environment):
        code, out, err = run("tutti-info", "--json", *words, **environment)
        self.assertEqual(code, status, err)
        return json.loads(out)

    def knob(self, info, name):
        return next(knob for knob in info["knobs"] if knob["name"] == name)

    def test_knobs_are_all_there_and_complete(self):
        info = self.info()
        self.assertGreater(len(info["knobs"]), 20)
        for knob in info["knobs"]:
            self.assertTrue(knob["name"].startswith("TUTTI_"))
            self.assertEqual(knob["value"], knob["default"])
            self.assertEqual(knob["origin"], "default")
            self.assertTrue(knob["valid"] and knob["help"] and knob["allowed"])
        self.assertTrue(self.knob(info, "TUTTI_RING")["agreed"])
        self.assertFalse(self.knob(info, "TUTTI_LOG")["agreed"])

    def test_a_knob_that_is_set(self):
        info = self.info(TUTTI_EAGER="8k", TUTTI_LOG="OFF")
        eager = self.knob(info, "TUTTI_EAGER")
        self.assertEqual((eager["value"], eager["origin"]), ("8K", "environment"))
        self.assertEqual(self.knob(info, "TUTTI_LOG")["value"], "off")
        self.assertEqual(self.knob(info, "TUTTI_RING")["origin"], "default")

    def test_bad_knobs_are_named_and_the_rest_is_shown(self):
        info = self.info(status=1, TUTTI_RING="99", TUTTI_SHM="disk", TUTTI_EAGER="8K")
        bad = [knob["name"] for knob in info["knobs"] if not knob["valid"]]
        self.assertEqual(sorted(bad), ["TUTTI_RING", "TUTTI_SHM"])
        self.assertEqual(self.knob(info, "TUTTI_RING")["value"], "99")
        self.assertEqual(self.knob(info, "TUTTI_EAGER")["value"], "8K")
        self.assertEqual(info["job"]["status"], "TUTTI_ERR_CONFIG")
        self.assertEqual(info["port_choice"]["status"], self.info()["port_choice"]["status"])
        code, out, _ = run("tutti-info", TUTTI_RING="99")
        self.assertEqual(code, 1)
        self.assertIn("! TUTTI_RING=99 is not allowed: it must be ", out)
        self.assertIn("Limits", out)

    def test_an_unknown_variable_is_told_once(self):
        code, out, err = run("tutti-info", TUTTI_RNG="3")
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("TUTTI_RNG"), 1)
        self.assertIn("did you mean TUTTI_RING?", out)
        self.assertEqual(err, "")

    def test_an_algorithm_that_does_not_exist(self):
        info = self.info(status=1, TUTTI_ALLREDUCE="fastest")
        self.assertEqual(info["job"]["status"], "TUTTI_ERR_CONFIG")
        self.assertIn("TUTTI_ALLREDUCE=fastest", info["job"]["error"])

    def test_ports(self):
        info = self.info(TUTTI_DEVICE="nonesuch")
        self.assertEqual([port for port in info["ports"] if port["chosen"]], [])
        self.assertEqual(info["port_choice"]["status"], "TUTTI_ERR_DEVICE")
        self.assertGreater(len(info["port_choice"]["text"]), 10)

    def test_limits(self):
        limits = self.info()["limits"]
        self.assertGreaterEqual(limits["cores"], 1)
        self.assertLessEqual(limits["cores"], len(os.sched_getaffinity(0)))
        shm = os.statvfs("/dev/shm")
        self.assertEqual(limits["shm_bytes"], shm.f_blocks * shm.f_frsize)
        self.assertLessEqual(limits["shm_free_bytes"], limits["shm_bytes"])

    def test_window_grows_with_the_logarithm_of_ranks(self):
        small, large = (self.info("--ranks", n, "--nodes", n // 2)["window"] for n in (8, 8192))
        self.assertEqual((large["ranks"], large["nodes"], large["members"]), (8192, 4096, 2))
        self.assertGreater(large["comm_bytes"], small["comm_bytes"])
        self.assertLess(large["comm_bytes"], 16 * small["comm_bytes"])
        parts = ("job_bytes", "comm_bytes", "edge_bytes", "board_bytes", "scratch_bytes")
        self.assertEqual(large["total_bytes"], sum(large[part] for part in parts))

    def test_alone_there_is_nobody_to_share_with(self):
        window = self.info()["window"]
        self.assertEqual((window["peers"], window["board_bytes"], window["scratch_bytes"]), (0, 0, 0))
        self.assertEqual(window["heap_bytes"], 0)

    def test_heap(self):
        window = self.info("--ranks", 4)["window"]
        self.assertEqual((window["window_bytes"], window["heap_bytes"]), (32 << 20, 1 << 30))
        self.assertEqual(self.info("--ranks", 4, TUTTI_HEAP="64M")["window"]["heap_bytes"], 64 << 20)
        self.assertEqual(self.info("--ranks", 4, "--nodes", 4)["window"]["heap_bytes"], 0)

    def test_text_is_aligned(self):
        code, out, err = run("tutti-info")
        self.assertEqual((code, err), (0, ""))
        lines = out.split("\n")
        first = next(i for i, line in enumerate(lines) if line.startswith("Knobs"))
        column = lines[first].index("what it does")
        for line in lines[first + 1:]:
            if not line.startswith("TUTTI_"):
                break
            self.assertEqual(line[column - 2:column], "  ")
            self.assertNotEqual(line[column], " ")


class Usage(unittest.TestCase):
    def rejected(self, program, *words, says):
        code, out, err = run(program, *words)
        self.assertEqual(code, USAGE_ERROR, err)
        self.assertEqual(out, "")
        self.assertIn(says, err)

    def test_bench(self):
        bench = "tutti-bench"
        self.rejected(bench, says="which collective?")
        self.rejected(bench, "alltoall", says='unknown collective "alltoall"')
        self.rejected(bench, "bcast", "barrier", says="one collective at a time")
        self.rejected(bench, "bcast", "--min", "x", says='"x" is no number of bytes')
        self.rejected(bench, "bcast", "--max", "-1", says='"-1" is no number of bytes')
        self.rejected(bench, "bcast", "--max", "1KB", says='"1KB" is no number of bytes')
        self.rejected(bench, "bcast", "--max", "99999999999G", says="is no number of bytes")
        self.rejected(bench, "bcast", "--min", "64", "--max", "8", says="--min is larger than --max")
        self.rejected(bench, "bcast", "--factor", "1", says='"1" is no number from 2 on')
        self.rejected(bench, "bcast", "--root", "first", says='"first" is no number from 0 on')
        self.rejected(bench, "allreduce", "--type", "f16", says='unknown type "f16"')
        self.rejected(bench, "allreduce", "--op", "avg", says='unknown operation "avg"')
        self.rejected(bench, "allreduce", "--op", "bor", says="bor is not defined on f32")
        self.rejected(bench, "allreduce", "--seconds", "0", says='"0" is no time')
        self.rejected(bench, "allreduce", "--cold", "--bare", says="exclude each other")
        self.rejected(bench, "allreduce", "--limit", "x", says='--limit: "x" is no time')
        self.rejected(bench, "allreduce", "--skew", "-1", says='"-1" is no number of microseconds')
        self.rejected(bench, "bcast", "--skew", "5", says="no rank waits for the last one in bcast")
        self.rejected(bench, "allreduce", "--speed", says="--speed")
        self.rejected(bench, "allreduce", "--write", "x", says="only tune finds something")

    def test_info(self):
        self.rejected("tutti-info", "--ranks", "0", says="--ranks must be a number from 1 on")
        self.rejected("tutti-info", "--ranks", "2", "--nodes", "3", says="2 ranks can't fill 3 nodes")
        self.rejected("tutti-info", "extra", says="Too many arguments")

    def test_help(self):
        for program in ("tutti-bench", "tutti-info"):
            code, out, _ = run(program, "--help")
            self.assertEqual(code, 0)
            self.assertIn("Usage: " + program, out)

    def test_a_file_that_cannot_be_written(self):
        code, _, err = run("tutti-bench", "barrier", "--check-only", "--json", "/nonesuch/x.json")
        self.assertEqual(code, 1)
        self.assertIn("/nonesuch/x.json: No such file or directory", err)


class BenchCase(unittest.TestCase):
    def bench(self, n, *words, program="tutti-bench", launcher=None, **environment):
        launcher = ranks(n) if launcher is None else launcher
        code, out, err = run(program, *words, "--json", "-", launcher=launcher, **environment)
        self.assertEqual(code, 0, err)
        return json.loads(out)


class Bench(BenchCase):
    def test_results_of_all_collectives(self):
        for n in (1, 2, 3):
            for call in ("allreduce", "bcast", "barrier"):
                with self.subTest(n=n, call=call):
                    result = self.bench(n, call, "--check-only", "--max", "128K")
                    self.assertEqual((result["ranks"], result["call"]), (n, call))
                    sizes = [row["bytes"] for row in result["rows"]]
                    wanted = [0] if call == "barrier" else [8 * 4 ** i for i in range(8)]
                    self.assertEqual(sizes, wanted)
                    self.assertTrue(all(row["checked"] for row in result["rows"]))

    def test_results_of_all_types_and_operations(self):
        for kind in ("i32", "i64", "f32", "f64"):
            logical = ["land", "lor", "lxor", "band", "bor", "bxor"] if kind[0] == "i" else []
            for op in ["sum", "prod", "min", "max"] + logical:
                with self.subTest(kind=kind, op=op):
                    self.bench(3, "allreduce", "--check-only", "--type", kind, "--op", op,
                               "--min", 40, "--max", 12345, "--factor", 17)

    def test_roots(self):
        for root in ("1", "2", "rotate"):
            result = self.bench(3, "bcast", "--root", root, "--max", "16K", "--seconds", 0.01)
            self.assertEqual(str(result["root"]), root)
        code, _, err = run("tutti-bench", "bcast", "--root", "3", "--check-only", launcher=ranks(3))
        self.assertEqual(code, 1)
        self.assertIn("root 3 is not in 0..2", err)

    def test_wrong_results_are_seen(self):
        for call in ("allreduce", "bcast"):
            launcher = [*ranks(2), "env", "LD_PRELOAD=" + os.environ["TUTTI_WRONG"]]
            code, out, err = run("tutti-bench", call, "--min", 32, "--max", 512, launcher=launcher)
            self.assertNotEqual(code, 0)
            self.assertIn(f"rank 1: {call} of 128 f32: element 127 is ", err)
            rows = [line.split()[0] for line in out.splitlines() if line[:1] == " "]
            self.assertIn(rows, (["bytes", "32", "128"], ["bytes", "32"]))  # the last may get lost

    def test_ranks_that_disagree(self):
        launcher = [*ranks(2), "sh", "-c", 'exec "$0" "$@" --op $([ "$PMIX_RANK" = 0 ] && '
                    "echo sum || echo prod)"]
        code, _, err = run("tutti-bench", "allreduce", "--check-only", launcher=launcher)
        self.assertNotEqual(code, 0)
        self.assertRegex(err, "sum.*prod|prod.*sum")

    def test_times_and_json_are_complete(self):
        result = self.bench(2, "allreduce", "--max", "64K", "--seconds", 0.01, "--floor")
        self.assertEqual(result["program"], "tutti-bench")
        self.assertRegex(result["library"], r"^tutti \d+\.\d+\.\d+$")
        self.assertEqual((result["hosts"], result["type"], result["op"]), (1, "f32", "sum"))
        self.assertIsNone(result["pinned_cores"])
        self.assertGreater(result["floor"]["yield_ns"], 0)
        self.assertGreater(result["floor"]["copy_gbs"], 0)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertGreater(result["floor"]["handoff_ns"], 0)
            self.assertGreater(result["rows"][0]["handoff_ns"], 0)
            self.assertEqual(result["rows"][0]["handoff_after_ns"], result["rows"][1]["handoff_ns"])
            self.check_floors(result)
        self.assertEqual(len(result["rows"]), 7)
        for row in result["rows"]:
            self.assertEqual(row["count"] * 4, row["bytes"])
            self.assertGreaterEqual(row["blocks"], 5)
            self.assertLessEqual(row["min_us"], row["median_us"])
            self.assertLessEqual(row["median_us"], row["max_us"])
            self.assertEqual(set(row["counters_max"]), COUNTERS)
            self.assertEqual(set(row["counters_mean"]), COUNTERS)
            self.assertTrue(row["algorithm"])
            self.assertEqual(row["transports"], "shm")

    def check_floors(self, result):
        """Two ranks: a hand-off; for many bytes as long as half of them take to be copied and all to be
        read. The rates of each size are measured anew, so only bounds can be given."""
        floor, rows = result["floor"], result["rows"]
        if floor["cores"] < 2:
            return
        for row in rows:
            least = row["handoff_ns"] + row["bytes"] / 2 * (1 / floor["copy_gbs"] + 1 / floor["reduce_gbs"])
            self.assertGreater(row["floor_us"] * 1e3, 0.99 * least)
            most = row["handoff_ns"] + row["bytes"] / 2 * 3 / 0.5
            self.assertLess(row["floor_us"] * 1e3, most, "less than 0.5 GB/s")

    def test_floors_with_more_ranks_than_cores(self):
        cores = len(os.sched_getaffinity(0))
        result = self.bench(3 * cores, "allreduce", "--max", "8", "--seconds", 0.01, "--floor")
        floor, [row] = result["floor"], result["rows"]
        self.assertEqual(floor["cores"], cores)
        self.assertGreater(row["floor_us"] * 1e3, 2 * floor["yield_ns"])
        self.assertLess(row["floor_us"] * 1e3, 2 * floor["yield_ns"] + row["handoff_ns"] + 20)

    def test_variants_of_the_loop(self):
        for call in ("allreduce", "bcast"):
            for option in ("--cold", "--bare"):
                result = self.bench(2, call, "--max", "2K", "--seconds", 0.01, option)
                self.assertTrue(result[option[2:]])

    def test_memory_of_the_library(self):
        def memory(result):
            return result["memory"], {row["memory"] for row in result["rows"]}
        short = ("--max", "2K", "--seconds", 0.01)
        for call in ("allreduce", "bcast"):
            self.assertEqual(memory(self.bench(2, call, *short)), ("malloc", {"malloc"}))
            self.assertEqual(memory(self.bench(2, call, *short, "--alloc")), ("tutti_alloc", {"shared"}))
        self.assertEqual(memory(self.bench(2, "allreduce", *short, "--alloc", TUTTI_HEAP="0")),
                         ("tutti_alloc", {"private"}))
        self.assertEqual(memory(self.bench(1, "allreduce", *short, "--alloc", "--cold")),
                         ("tutti_alloc", {"private"}))
        code, out, err = run("tutti-bench", "bcast", *short, "--alloc", launcher=ranks(2))
        self.assertEqual(code, 0, err)
        self.assertIn(", memory by tutti_alloc\n", out)
        self.assertIn(" memory ", out.splitlines()[1])

    def test_a_limit_ends_a_run(self):
        result = self.bench(2, "allreduce", "--seconds", 0.1, "--limit", 0.001)
        self.assertEqual([row["bytes"] for row in result["rows"]], [8])
        self.assertEqual((result["rows"][0]["slow"], result["rows"][0]["blocks"]), (True, 1))
        result = self.bench(2, "allreduce", "--seconds", 0.01, "--max", 128)
        self.assertEqual([row["slow"] for row in result["rows"]], [False] * 3)

    def test_delays_are_not_counted(self):
        """A delay of up to 20 ms, 13 of which the later of two has in the mean, for calls of some us."""
        for call in ("allreduce", "barrier"):
            result = self.bench(2, call, "--max", 8, "--seconds", 1, "--skew", 20000)
            [row] = result["rows"]
            self.assertEqual(result["skew_us"], 20000)
            self.assertLess(row["iterations"] * row["blocks"], 1.5 / 0.013)
            self.assertLess(row["min_us"], 4000)
            self.assertGreater(row["min_us"], 0)
        self.assertIsNone(self.bench(2, "barrier", "--check-only")["skew_us"])

    def test_tuning(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "entry"
            for n, entry, other in ((2, "flat_pair", "accumulate"), (3, "flat", "two_phase")):
                tuned = self.bench(n, "tune", "--min", 0, "--max", "4K", "--seconds", 0.01, "--write",
                                   file)["tuned"]
                sizes = [row["bytes"] for row in tuned["rows"]]
                self.assertEqual(sizes, [4, 16, 64, 256, 1024, 4096])
                self.assertEqual(tuned["entry"], entry)
                self.assertEqual(file.read_text(),
                                 f"    .{entry} = {tuned['value']}, /* {n} ranks on 1 hosts */\n")
                scale = 1 if n == 2 else n  # of all ranks together
                self.assertEqual(tuned["value"], scale * self.split(tuned["rows"], other))
        code, _, err = run("tutti-bench", "tune")
        self.assertEqual(code, 1)
        self.assertIn("nothing to choose between", err)

    def split(self, rows, other):
        """Up to where flat is to be taken: of all splits the one with the least product of times."""
        def product(up_to):
            return math.prod(row["flat" if row["bytes"] <= up_to else other] for row in rows)
        return min([0] + [row["bytes"] for row in rows], key=product)

    def test_waiting_takes_little_of_a_processor(self):
        most = []
        for _ in range(4):  # on a busy machine each waking costs more: the best counts
            took = self.bench(3, "late", "--seconds", 2)["waiting_cpu_ms"]
            self.assertEqual(len(took), 2)
            self.assertGreater(min(took), 0)
            most.append(max(took))
            if most[-1] < 50:
                break
        self.assertLess(min(most), 50)
        code, _, err = run("tutti-bench", "late")
        self.assertEqual(code, 1)
        self.assertIn("start two ranks or more", err)

    def test_table_and_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bench.json"
            code, out, err = run("tutti-bench", "bcast", "--max", "128", "--seconds", "0.01",
                                 "--json", file, launcher=ranks(2))
            self.assertEqual(code, 0, err)
            rows = json.loads(file.read_text())["rows"]
        self.assertRegex(out, r"# tutti-bench bcast: 2 ranks on 1 host \(.*\), tutti .*, not pinned")
        table = [line.split() for line in out.splitlines() if line[:1] == " "]
        self.assertEqual([line[0] for line in table[1:]], [str(row["bytes"]) for row in rows])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_pinning(self):
        result = self.bench(2, "barrier", "--check-only", "--pin")
        self.assertEqual(result["pinned_cores"], sorted(os.sched_getaffinity(0))[:2])
        bound = [PRTERUN, "--map-by", ":oversubscribe", "--bind-to", "none", "-n", "2", "taskset",
                 "-c", str(min(os.sched_getaffinity(0)))]
        code, _, err = run("tutti-bench", "barrier", "--pin", launcher=bound)
        self.assertEqual(code, 1)
        self.assertIn("needs a core of its own, but may run on 1 only", err)

    def test_an_allreduce_of_8_bytes_is_one_line_per_rank(self):
        result = self.bench(2, "allreduce", "--max", 8, "--seconds", 0.02)
        row = result["rows"][0]
        for counters in (row["counters_max"], row["counters_mean"]):
            self.assertEqual(counters["lines"], 1)
            self.assertEqual(counters["bytes"], 8)
            for name in ("writes", "requests", "doorbells", "completions"):
                self.assertEqual(counters[name], 0, name)
            self.assertLessEqual(counters["cells"], 1)

    def test_a_usage_error_is_said_once(self):
        code, _, err = run("tutti-bench", "bcast", "--factor", "0", launcher=ranks(3))
        self.assertNotEqual(code, 0)
        self.assertEqual(err.count('"0" is no number from 2 on'), 1)

    def test_an_init_that_fails_says_why(self):
        code, _, err = run("tutti-bench", "barrier", launcher=ranks(2), TUTTI_RING="99",
                           TUTTI_LOG="off")
        self.assertEqual(code, 1)
        self.assertIn('TUTTI_RING="99" is not allowed', err)


class Window(unittest.TestCase):
    """What tutti-info computes is what jobs take."""

    def parts(self, n):
        code, out, err = run("tutti-info", "--json", "--ranks", n)
        self.assertEqual(code, 0, err)
        return json.loads(out)["window"]

    def used(self, n, *words, **environment):
        code, out, err = run("tutti-bench", *words, "--check-only", "--json", "-",
                             launcher=ranks(n), **environment)
        self.assertEqual(code, 0, err)
        return json.loads(out)["window_used_bytes"]

    def test_each_part(self):
        for n in (2, 3, 5):
            window = self.parts(n)
            least = window["job_bytes"] + window["comm_bytes"]
            self.assertEqual(self.used(n, "barrier"), least)
            self.assertEqual(self.used(n, "allreduce", "--min", "1K", "--max", "1K"),
                             least + window["board_bytes"])
            for algorithm, part in (("two_phase", "board"), ("accumulate", "scratch")):
                self.assertEqual(self.used(n, "allreduce", "--min", "256K", "--max", "256K",
                                           TUTTI_ALLREDUCE=algorithm),
                                 least + window[part + "_bytes"])

    def test_edges(self):
        window = self.parts(2)
        self.assertEqual(self.used(2, "bcast", "--min", "1K", "--max", "1K", TUTTI_BCAST="circulant"),
                         window["job_bytes"] + window["comm_bytes"] + window["edge_bytes"])


class MpiBench(BenchCase):
    """The same benchmark over the system's MPI."""

    MPIEXEC = shutil.which("mpiexec.openmpi") or shutil.which("mpiexec")

    @unittest.skipIf(MPIEXEC is None, "no mpiexec")
    def test_same_output(self):
        real = os.path.realpath(self.MPIEXEC)
        more = ["--oversubscribe"] if re.search("orte|openmpi", real) else []
        allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        words = ("allreduce", "--max", "2K", "--seconds", 0.01)
        result = self.bench(2, *words, program="mpi-bench",
                            launcher=[self.MPIEXEC, *more, "-n", "2"], **allow)
        tutti = self.bench(2, *words)
        self.assertEqual(set(result), set(tutti))
        self.assertEqual([set(row) for row in result["rows"]], [set(row) for row in tutti["rows"]])
        self.assertEqual([row["bytes"] for row in result["rows"]],
                         [row["bytes"] for row in tutti["rows"]])
        self.assertEqual((result["ranks"], result["program"]), (2, "mpi-bench"))
        self.assertIsNone(result["rows"][0]["counters_max"])


if __name__ == "__main__":
    unittest.main()
