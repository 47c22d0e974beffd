#!/bin/bash
# tests/vm/run itself, seen from the host: output, status, time limit, death of the guest, and what
# comes back of the files that the command writes.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
run=$here/run
"$here/setup"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/shared"
cd "$work"

expect() { # WHAT GOT WANTED
    [ "$2" = "$3" ] && echo "ok: $1" && return
    echo "FAILED: $1: got '$2', not '$3'" >&2
    cat err >&2
    exit 1
}

status=0
export COLOUR='dark "red"'
# shellcheck disable=SC2016
"$run" --rw "$work/shared" --env COLOUR --env NOT_SET --console log -- bash -c '
    echo "$0 $COLOUR"; echo "${NOT_SET-unset}"; echo oops > /dev/stderr; pwd; ulimit -l
    echo lost > lost; echo kept > shared/kept
    sleep 1000 & exit 42' "first  word" > out 2> err || status=$?
expect "status of the command" $status 42
expect "stdout, words, variables, directory" "$(cat out)" \
    "first  word dark \"red\"
unset
$work
unlimited"
expect "stderr" "$(cat err)" oops
expect "files written" "$(echo lost*; cat shared/kept)" "lost*
kept"
expect "kernel log" "$(grep -c 'vm: command ends with 42' log)" 1

status=0
"$run" -- sh -c 'seq 300000; cat' > out 2> err || status=$?
expect "a long output arrives whole" "$status $(md5sum < out)" "0 $(seq 300000 | md5sum)"

status=0
"$run" -t 4 -- sleep 1000 > out 2> err || status=$?
expect "status when time runs out, in boot or later" $status 124
expect "end of the kernel log, then" "$(grep -c 'out of time after 4 s; end of .*log:' err)" 1

status=0
"$run" -- sh -c 'echo before; sleep 1; echo c > /proc/sysrq-trigger' > out 2> err || status=$?
expect "status when the kernel dies, and output before that" "$status $(cat out)" "125 before"
expect "its last words" "$(grep -c 'Kernel panic' err)" 1
