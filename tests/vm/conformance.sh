#!/bin/bash
# Runs in the guest: conformance.sh [-d N] PROGRAM [ARG...] runs a test program with one soft-RoCE
# device, or with N that are linked as if on hosts of their own.
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"

if [ "$1" = -d ]; then
    hosts "$2"
    shift 2
else
    one_device
fi
exec "$@"
