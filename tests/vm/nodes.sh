#!/bin/bash
# Runs in the guest. The launch of several "nodes" without tutti: ranks land where they should, and
# a node has a host name, /dev/shm, System V IPC, process ids and a device of its own, which its
# ranks share; a rank's status comes back.
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"

hosts 4
cd "$(mktemp -d)"
# shellcheck disable=SC2016
launch_nodes n0:2,n1:2,n2:1,n3:3 8 sh -c 'echo "$PMIX_RANK $(hostname) $TUTTI_DEVICE" \
    "$(stat -c %d /dev/shm) $(readlink /proc/self/ns/ipc /proc/self/ns/pid | xargs)"' | sort > ranks
cat ranks
cut -d ' ' -f 1-3 ranks | diff - <(printf '%s\n' '0 n0 rxe0' '1 n0 rxe0' '2 n1 rxe1' '3 n1 rxe1' \
    '4 n2 rxe2' '5 n3 rxe3' '6 n3 rxe3' '7 n3 rxe3') || fail "ranks are not where they should be"
[ "$(cut -d ' ' -f 2,4- ranks | sort -u | wc -l)" = 4 ] || fail "ranks of a node do not share all"
for column in 4 5 6; do
    [ "$(cut -d ' ' -f $column ranks | sort -u | wc -l)" = 4 ] || fail "nodes share column $column"
done

status=0
# shellcheck disable=SC2016
launch_nodes n0:2,n1:1 3 sh -c 'exit $((PMIX_RANK == 2 ? 3 : 0))' 2> /dev/null || status=$?
[ $status = 3 ] || fail "the status of a rank on n1 was lost: $status"
