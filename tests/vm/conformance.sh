#!/bin/bash
# Runs in the guest: conformance.sh [-d N [-n NETEM]] PROGRAM [ARG...] runs a test program with one
# soft-RoCE device, or with N that are linked as if on hosts of their own, each of which sends through
# a network as bad as NETEM says ("delay 1ms loss 1%").
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"

if [ "$1" = -d ]; then
    n=$2
    hosts "$n"
    shift 2
    if [ "$1" = -n ]; then
        for ((i = 0; i < n; i++)); do
            # shellcheck disable=SC2086
            tc qdisc add dev "h$i" root netem $2
        done
        shift 2
    fi
else
    one_device
fi
exec "$@"
