#!/usr/bin/env python3
"""Starts a program as ranks and judges the run: launch.py [OPTION...] -- PROGRAM [ARG...]

Without --ok every rank must exit with 0. With it, exactly these ranks must say "ok RANK" (what others
do, and the launcher's status, does not matter). A run that takes too long, names left in /dev/shm and
errors of PMIx fail it, too. Exits with 77 if this machine can't do what is asked for.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
NODE_AGENT = HERE.parent / "vm" / "guest" / "node-agent"
VALGRIND = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
            "--show-leak-kinds=definite,indirect", "--errors-for-leak-kinds=definite,indirect",
            f"--suppressions={HERE / 'valgrind.supp'}"]
# What a launcher with PMIx 5 says of each rank with PMIx 4.2.2; harmless.
OLD_CLIENT = re.compile(r"PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER in file .*/bfrop_pmix41\.c")


def arguments():
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--launcher", default="prterun", help="prterun, Open MPI's mpirun, or none")
    add("--ranks", type=int, default=1)
    add("--nodes", help='such as n0:2,n1:2: so many ranks on each of several "nodes"')
    add("--ok", help="ranks that must say ok: 0,2,3")
    add("--option", action="append", default=[], help="one more word for the launcher")
    add("--env", action="append", default=[], help="NAME=VALUE for the ranks")
    add("--rank-env", action="append", default=[], help="RANK:NAME=VALUE for one rank")
    add("--system-pmix", action="store_true", help="ranks load the system's PMIx, not the launcher's")
    add("--valgrind", action="store_true", help="ranks run under valgrind; a leak or error fails them")
    add("--says", action="append", default=[], help="text that must be in the output")
    add("--timeout", type=float, default=60)
    add("program", nargs="+")
    return parser.parse_args()


def can_pretend_nodes():
    """Several nodes on one machine need name spaces, which an unprivileged container does not give."""
    probe = ["unshare", "--uts", "--ipc", "--mount", "--pid", "--kill-child", "--mount-proc", "true"]
    return subprocess.run(probe, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def launcher_command(args):
    if args.launcher == "none":
        return []
    command = [args.launcher, "--bind-to", "none"]
    if "mpirun" in os.path.basename(args.launcher):
        command += ["--oversubscribe"]
    elif args.nodes:
        command += ["--host", args.nodes, "--prtemca", "plm_ssh_agent", str(NODE_AGENT)]
    else:
        command += ["--map-by", ":oversubscribe"]
    return command + args.option + ["-n", str(args.ranks)]


def rank_command(args):
    """The program, behind a shell if one rank has an environment of its own."""
    command = ["env"]
    if args.system_pmix:
        command += ["-u", "LD_LIBRARY_PATH"]
    command += args.env
    if args.rank_env:
        cases = []
        for setting in args.rank_env:
            rank, variable = setting.split(":", 1)
            cases.append(f"{rank}) export '{variable}';;")
        rank = "${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-0}}"
        command += ["sh", "-c", f'case {rank} in {" ".join(cases)} esac; exec "$0" "$@"']
    return command + VALGRIND * args.valgrind + args.program


def run(command, timeout):
    """Returns output and status; None if it took too long."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    status = None
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # a launcher takes its ranks along
        try:
            output, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    return output.decode(errors="replace"), status


def shared_names():
    return {name for name in os.listdir("/dev/shm") if name.startswith("tutti")}


def complaints(args, output, status):
    if status is None:
        yield f"took longer than {args.timeout:g} seconds"
    if args.ok is None:
        if status:
            yield f"status {status}"
    else:
        wanted = sorted(int(rank) for rank in args.ok.split(","))
        said = sorted(int(rank) for rank in re.findall(r"^ok (-?\d+)\b", output, re.M))
        if said != wanted:
            yield f"ok from ranks {said}, not {wanted}"
    for text in args.says:
        if text not in output:
            yield f"nobody said: {text}"
    for line in output.splitlines():
        if "PMIX ERROR" in line and not (args.system_pmix and OLD_CLIENT.search(line)):
            yield f"error of PMIx: {line}"
        if "Sanitizer" in line:
            yield line


def main():
    args = arguments()
    if args.nodes and not can_pretend_nodes():
        print("skipped: no name spaces (unshare) here")
        return SKIPPED
    os.environ.update(PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    before = shared_names()
    output, status = run(launcher_command(args) + rank_command(args), args.timeout)
    wrong = list(complaints(args, output, status))
    left = shared_names() - before
    if left:
        wrong.append(f"left in /dev/shm: {' '.join(sorted(left))}")
    print(output, end="")
    for text in wrong:
        print(f"FAILED: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
