#!/bin/bash
# Runs in the guest: conformance.sh PROGRAM [ARG...] runs a test program with one soft-RoCE device.
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"

one_device
exec "$@"
