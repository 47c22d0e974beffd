#!/bin/bash
# Runs in the guest: launch.sh KIND SHAPE,... PROGRAM [ARG...] launches PROGRAM once for each shape:
#   one 2,3,5       so many ranks, over verbs on one device
#   devices 2,3,5   so many ranks, over verbs with a device each, as if on hosts of their own
#   nodes 2+2,3+1   so many ranks on each node, that choose between shared memory and verbs
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"
kind=$1 shapes=${2//,/ }
shift 2

case $kind in
    one) one_device ;;
    devices) hosts "$(tr ' ' '\n' <<< "$shapes" | sort -n | tail -1)" ;;
    nodes) hosts "$(tr ' ' '\n' <<< "$shapes" | awk -F + 'NF > n { n = NF } END { print n }')" ;;
    *) fail "no such kind: $kind" ;;
esac
[ "$kind" = nodes ] || export TUTTI_TRANSPORT=verbs

nodes_of() { # 2+1 -> n0:2,n1:1
    local ranks nodes='' i=0
    for ranks in ${1//+/ }; do
        nodes+=",n$i:$ranks"
        i=$((i + 1))
    done
    echo "${nodes#,}"
}
for shape in $shapes; do
    echo "== $kind $shape"
    case $kind in
        one) launch "$shape" "$@" ;;
        devices) launch_devices "$shape" "$@" ;;
        nodes) launch_nodes "$(nodes_of "$shape")" $((shape)) "$@" ;;
    esac || fail "$kind $shape: status $?"
done
