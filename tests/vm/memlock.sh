#!/bin/bash
# Runs in the guest. as_user: an ordinary user that may lock little memory cannot register a large
# buffer, and one that may lock enough can; so a later failure is due to the limit alone.
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"

one_device
# shellcheck disable=SC2016
got=$(as_user 64 bash -c 'echo "$UID $(ulimit -l)"')
[ "$got" = "65534 64" ] || fail "user and limit are $got"

# The server registers its buffer and then waits for a client, who never comes.
register_1_mib() { # LIMIT_KIB
    as_user "$1" timeout 2 ibv_rc_pingpong -d rxe0 -g "$(gid_index rxe0 10.0.0.1)" -s 1048576 2>&1
}
status=0
out=$(register_1_mib 64) || status=$?
grep "register MR" <<< "$out" ||
    fail "registered beyond the limit, or another error ($status): $out"
status=0
out=$(register_1_mib 2048) || status=$?
[ $status = 124 ] || fail "not registered within the limit ($status): $out"
