#!/bin/bash
# Runs in the guest: collectives.sh KIND runs the launched tests of collectives over RDMA. TUTTI_BUILD_DIR
# has the programs. Kinds:
#   one      2, 3 and 5 ranks over verbs on one device; counters; what a dead rank does to the others
#   devices  2, 3, 5, 10 and 11 ranks, over verbs with a device each
#   labels   4 ranks on one device that TUTTI_NODE puts on nodes 2+2, 3+1 and by turns
#   nodes    2+2, 3+1 and 2+2+1+3 ranks on nodes, shared memory inside and verbs between them
#   misuse   an ordinary user with little locked memory; a full /dev/shm; a forced transport
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"
bin=$TUTTI_BUILD_DIR/tests/launch

ok() { # COMMAND...: it must succeed
    echo "== $*"
    "$@" || fail "status $?: $*"
}

case $1 in
one)
    one_device
    export TUTTI_TRANSPORT=verbs
    ok launch 2 "$bin/launch_counters" wire
    for np in 2 3; do ok launch $np "$bin/launch_values" small; done
    ok launch 5 "$bin/launch_values" bits
    ok launch 3 "$bin/launch_values" bcast_small
    for np in 2 3 5; do ok launch $np "$bin/launch_order" mixed; done
    for case in requests comms again; do ok launch 3 "$bin/launch_order" $case; done
    for case in arguments counts_differ crossed_roots; do
        ok launch 2 "$bin/launch_misuse" $case
    done
    # shellcheck disable=SC2034 # lib.sh reads it
    launch_options=(--rtos "notifyerrors,recoverable")
    echo "== a rank is killed"
    launch 3 "$bin/launch_misuse" killed > survivors 2>&1 || true
    cat survivors
    [ "$(grep -c '^ok' survivors)" = 2 ] || fail "the survivors did not end well"
    ;;
devices)
    hosts 11
    export TUTTI_TRANSPORT=verbs
    for np in 2 3 5; do ok launch_devices $np "$bin/launch_order" mixed; done
    for np in 10 11; do ok launch_devices $np "$bin/launch_values" bits; done
    ;;
labels)
    one_device
    # shellcheck disable=SC2016
    for label in '$((PMIX_RANK / 2))' '$((PMIX_RANK / 3))' '$((PMIX_RANK % 2))'; do
        ok launch 4 sh -c "TUTTI_NODE=$label exec \"\$0\" \"\$@\"" "$bin/launch_order" mixed
        ok launch 4 sh -c "TUTTI_NODE=$label exec \"\$0\" \"\$@\"" "$bin/launch_values" bits
    done
    ;;
nodes)
    hosts 4
    ok launch_nodes n0:2,n1:2 4 "$bin/launch_values" small
    ok launch_nodes n0:3,n1:1 4 "$bin/launch_order" requests
    for case in mixed comms; do
        ok launch_nodes n0:2,n1:2,n2:1,n3:3 8 "$bin/launch_order" $case
    done
    ok launch_nodes n0:2,n1:2,n2:1,n3:3 8 "$bin/launch_values" bits
    export TUTTI_ALLREDUCE
    for TUTTI_ALLREDUCE in ordered circulant two_level leaders; do
        ok launch_nodes n0:2,n1:1 3 "$bin/launch_values" bits
    done
    ;;
misuse)
    one_device
    echo "== little locked memory"
    export TUTTI_TRANSPORT=verbs
    status=0
    as_user 64 "$bin/launch_locked" > out 2>&1 || status=$?
    cat out
    [ $status = 0 ] || fail "status $status"
    unset TUTTI_TRANSPORT
    echo "== a full /dev/shm"
    export TUTTI_SHM=posix
    mount -t tmpfs -o size=8k small /dev/shm
    ok launch 2 "$bin/launch_init" TUTTI_ERR_MEMORY /dev/shm
    umount /dev/shm
    mount -t tmpfs -o size=256k small /dev/shm # enough for lines, not for slots
    ok launch 2 "$bin/launch_misuse" no_room
    umount /dev/shm
    [ -z "$(ls -A /dev/shm)" ] || fail "left in /dev/shm: $(ls /dev/shm)"
    ;;
esac
