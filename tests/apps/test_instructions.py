"""What a call costs in instructions, which unlike time is the same on a busy machine. TUTTI_INSTRUCTIONS:
the program, VALGRIND: its path."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ["TUTTI_INSTRUCTIONS"]
VALGRIND = os.environ.get("VALGRIND", "valgrind")
CALLS = 1000
RANKS = 2
SLACK = 1.2  # compilers differ


def recorded():
    lines = (HERE / "instructions.txt").read_text().splitlines()
    [number] = [line for line in lines if line.strip() and line[0] != "#"]
    return int(number)


def executed(calls):
    """Instructions of that many turns of the loop, the first call's preparation included."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        done = subprocess.run(
            [VALGRIND, "--tool=callgrind", "--toggle-collect=drive", f"--callgrind-out-file={out}",
             PROGRAM, str(calls)], text=True, capture_output=True, timeout=100)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        if f"{calls} calls, 0 more tests, right" not in done.stdout:
            raise AssertionError(f"somebody had to wait: {done.stdout}")
        return int(re.search(r"^summary: (\d+)", out.read_text(), re.M).group(1))


class Instructions(unittest.TestCase):
    def test_an_allreduce_of_8_bytes(self):
        count = (executed(2 * CALLS) - executed(CALLS)) / CALLS / RANKS
        print(f"{count:.0f} instructions per call, {recorded()} recorded")
        self.assertGreater(count, 100, "the loop was not counted")
        self.assertLessEqual(count, recorded() * SLACK)


if __name__ == "__main__":
    unittest.main()
