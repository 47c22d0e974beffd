"""scripts/compare and scripts/tutti-plot, as far as they go without peers from the network."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Compare(unittest.TestCase):
    """The arithmetic, and how runs are ended."""

    @classmethod
    def setUpClass(cls):
        loader = importlib.machinery.SourceFileLoader("compare", str(ROOT / "scripts/compare"))
        cls.compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
        loader.exec_module(cls.compare)

    def runner(self, name, times, handoffs=()):
        runner = self.compare.Runner(name, [], "", {})
        if times:
            handoffs = handoffs or [None] * len(times)
            runner.samples = {8: [self.compare.Sample(us, ns, None) for us, ns in zip(times, handoffs)]}
        return runner

    def test_ratios_are_of_medians(self):
        runners = [self.runner("tutti", (1, 2, 90), (60, 61, 62)), self.runner("a", (4, 4, 1)),
                   self.runner("b", (1, 8, 8))]
        [row] = self.compare.compare(runners)
        self.assertEqual(row["median_us"], {"tutti": 2, "a": 4, "b": 8})
        self.assertEqual(row["ratio"], {"a": 0.5, "b": 0.25})
        self.assertEqual(row["ratio_to_best"], 0.5)
        self.assertEqual(row["handoff_ns"], [60, 61, 62])

    def times(self, runner):
        return {size: [sample.us for sample in samples] for size, samples in runner.samples.items()}

    def test_without_peers(self):
        [row] = self.compare.compare([self.runner("tutti", (1,))])
        self.assertIsNone(row["ratio_to_best"])
        self.assertIsNone(row["floor_us"])

    def result(self, *times, floor=None, slow=False, cores=(0, 1)):
        """What the benchmark writes."""
        return {"library": "x 1", "floor": None, "pinned_cores": list(cores),
                "rows": [{"bytes": 8 * 4 ** i, "median_us": time, "handoff_ns": None,
                          "handoff_after_ns": None, "slow": slow,
                          "floor_us": floor} for i, time in enumerate(times)]}

    def test_times_the_floor_are_of_one_run_each(self):
        runner = self.runner("tutti", ())
        for time, floor in ((1, 0.5), (2, 1), (30, 1)):
            runner.take(self.result(time, floor=floor))
        [row] = self.compare.compare([runner])
        self.assertEqual((row["floor_us"], row["times_floor"]), (1, 2))

    def test_modes_of_the_machine_are_kept_apart(self):
        runners = [self.runner("tutti", (1, 1, 9), (34, 36, 210)),
                   self.runner("a", (2, 8, 18), (35, 230, 240))]
        self.assertEqual(self.compare.modes(runners), ["far cores", "near cores"])
        [near], [far] = (self.compare.compare(runners, mode) for mode in ("near cores", "far cores"))
        self.assertEqual((near["median_us"], near["ratio_to_best"]), ({"tutti": 1, "a": 2}, 0.5))
        self.assertEqual(far["median_us"], {"tutti": 9, "a": 13})
        self.assertEqual((near["handoff_ns"], far["handoff_ns"]), ([34, 36], [210]))
        self.assertEqual(self.compare.modes([self.runner("tutti", (1,))]), [])

    def test_a_time_during_which_cores_moved_is_of_no_mode(self):
        sample = self.compare.Sample
        self.assertEqual([self.compare.mode_of(sample(1, before, None, after)) for before, after in
                          ((34, 36), (210, 220), (34, 220), (210, 36), (None, None))],
                         ["near cores", "far cores", None, None, None])

    def measure(self, **results):
        """measure() over runners whose runs take results from lists; returns the names that are left."""
        runners, self.asked = [self.runner(name, ()) for name in results], {}
        for runner in runners:
            left = iter(results[runner.name])

            def run(ranks, options, timeout, runner=runner, left=left):
                self.asked.setdefault(runner.name, []).append(options)
                result = next(left)
                if isinstance(result, str):
                    return result
                runner.take(result)
                return None

            runner.run = run
        with contextlib.redirect_stderr(io.StringIO()) as err:
            left = self.compare.measure(runners, 2, [], 2, 1)
        return [runner.name for runner in left], runners, err.getvalue()

    def test_a_slow_peer_is_run_once_and_keeps_its_rows(self):
        tutti = [self.result(1, 2)] * 2
        names, runners, err = self.measure(tutti=tutti, a=[self.result(1000, slow=True)])
        self.assertEqual(names, ["tutti", "a"])
        self.assertIn("a with 2 ranks is slow: 8 B took over 1 s", err)
        rows = self.compare.compare(runners)
        self.assertEqual([row["median_us"]["a"] for row in rows], [1000, None])
        self.assertEqual([row["ratio_to_best"] for row in rows], [0.001, None])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.compare.print_table(rows, runners)
        self.assertEqual(len(out.getvalue().splitlines()), 5)

    def test_a_peer_that_is_slow_late_is_asked_for_less(self):
        first = self.result(1, 2, 1000)
        first["rows"][2]["slow"] = True
        tutti = [self.result(1, 2, 3)] * 2
        names, runners, err = self.measure(tutti=tutti, a=[first, self.result(3, 4)])
        self.assertIn("a with 2 ranks is slow: 128 B took over 1 s", err)
        self.assertNotIn("more rounds", err)
        self.assertEqual(self.times(runners[1]), {8: [1, 3], 32: [2, 4], 128: [1000]})
        self.assertEqual(self.asked["a"], [["--floor"], ["--floor", "--max", "127"]])

    def test_tutti_is_run_on_however_slow(self):
        _, runners, _ = self.measure(tutti=[self.result(1, slow=True), self.result(3)])
        self.assertEqual(self.times(runners[0]), {8: [1, 3]})

    def test_peers_that_fail_or_are_pinned_otherwise_are_left_out(self):
        names, _, err = self.measure(tutti=[self.result(1)] * 2, a=["status 1: no"],
                                     b=[self.result(1, cores=(1, 0))])
        self.assertEqual(names, ["tutti"])
        self.assertIn("a is left out of 2 ranks: status 1: no", err)
        self.assertIn("b is left out of 2 ranks: its ranks were pinned to [1, 0]", err)

    def test_a_run_that_hangs_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"trap 'kill $!; touch {folder}/asked; exit 1' TERM; sleep 60 & wait"
            with self.assertRaises(subprocess.TimeoutExpired):
                self.compare.execute(["bash", "-c", script], dict(os.environ), 0.5)
            self.assertTrue((pathlib.Path(folder) / "asked").exists())

    def test_words(self):
        self.assertEqual(self.compare.span([60, 62, 61]), "61")
        self.assertEqual(self.compare.span([60, 170]), "60-170")
        self.assertEqual(self.compare.size_text(2048), "2 KiB")
        self.assertEqual(self.compare.size_text(32 << 20), "32 MiB")
        self.assertEqual(self.compare.size_text(8), "8 B")

    def test_usage(self):
        for words in (["--peers", "nonesuch"], ["alltoall"], ["--ranks", "x"]):
            done = subprocess.run([ROOT / "scripts/compare", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)


class Plot(unittest.TestCase):
    RESULT = {"call": "allreduce", "ranks": 2, "cores": 2, "pinned": True, "floor": None,
              "libraries": {"tutti": "tutti 1", "mpich": "MPICH 5"},
              "rows": [{"bytes": 8, "median_us": {"tutti": 1, "mpich": 2}, "floor_us": 0.5},
                       {"bytes": 2048, "median_us": {"tutti": 3, "mpich": None}, "floor_us": None}]}

    def plot(self, script, folder, **environment):
        file = pathlib.Path(folder) / "in.json"
        file.write_text(json.dumps([self.RESULT]))
        return subprocess.run([script, file, "--out", f"{folder}/out"], text=True, capture_output=True,
                              env={**os.environ, **environment}, timeout=100)

    @unittest.skipIf(not (ROOT / "build/plot/complete").exists()
                     and importlib.util.find_spec("matplotlib") is None, "no matplotlib")
    def test_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.plot(ROOT / "scripts/tutti-plot", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.split(), [f"{folder}/out-2.png", f"{folder}/out-2.svg"])
            self.assertTrue((pathlib.Path(folder) / "out-2.png").read_bytes().startswith(b"\x89PNG"))
            svg = (pathlib.Path(folder) / "out-2.svg").read_text()
            for label in ("tutti 1", "MPICH 5", "floor of this machine", "2 KiB"):
                self.assertIn(f"<!-- {label} -->", svg)

    @unittest.skipIf(importlib.util.find_spec("matplotlib") is not None, "matplotlib is there")
    def test_without_matplotlib_and_network(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "scripts/tutti-plot"
            script.parent.mkdir()
            shutil.copy(ROOT / "scripts/tutti-plot", script)
            done = self.plot(script, folder, PIP_NO_INDEX="1")
            self.assertEqual(done.returncode, 1)
            self.assertIn("matplotlib is missing and can't be fetched", done.stderr)


if __name__ == "__main__":
    unittest.main()
