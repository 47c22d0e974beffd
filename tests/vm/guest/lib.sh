# shellcheck shell=bash
# Sourced by the scripts that run in the guest (as root): soft-RoCE devices, an ordinary user, and
# launches on one device, with a device per rank, and on several "nodes".

guest=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
mtu=${MTU:-4200}                                     # gives the RDMA path its largest MTU, 4096
prterun=${TUTTI_PRTERUN:-${TUTTI_BUILD_DIR:-}/bin/prterun} # the build's, else that of the system
[ -x "$prterun" ] || prterun=prterun
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The host's /tmp may hold session folders of launchers that were killed there.
TMPDIR=$(mktemp -d)
export TMPDIR
export -n TUTTI_PRTERUN TUTTI_BUILD_DIR # tutti would take them for misspelt knobs
launch_options=() # more options for prterun

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# gid_index DEVICE IP: prints the index of the GID of an IPv4 address
gid_index() {
    local index gid wanted
    # shellcheck disable=SC2086
    printf -v wanted '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${2//./ }
    for index in {0..7}; do
        read -r gid 2> /dev/null < "/sys/class/infiniband/$1/ports/1/gids/$index" || continue
        if [ "$gid" = "$wanted" ]; then
            echo "$index"
            return 0
        fi
    done
    return 1
}

# add_device DEVICE INTERFACE IP: the GID of the address appears some time after the device
add_device() {
    local try
    rdma link add "$1" type rxe netdev "$2" || return
    for try in {1..100}; do
        gid_index "$1" "$3" > /dev/null && return
        sleep 0.05
    done
    fail "device $1 has no GID of $3 after $try tries"
}

# one_device: rxe0 with 10.0.0.1 on a dummy interface; its traffic loops back inside the device
one_device() {
    ip link add d0 mtu "$mtu" type dummy
    ip addr add 10.0.0.1/24 dev d0
    ip link set d0 up
    add_device rxe0 d0 10.0.0.1
}

host_address() { echo "10.0.1.$(($1 + 1))"; }

# hosts N: devices rxe0..rxe(N-1), each as if on a host of its own: rxeI sits on hI with address
# 10.0.1.(I+1), and hI is a link to port pI of a bridge. A soft-RoCE device works in the first
# network name space only, so all live there; the rules below send what comes from one of the
# addresses to another over the links. RDMA names its source address by the GID; TCP and rdma_cm
# must bind theirs.   tc qdisc add dev h0 root netem loss 5%   acts on what host 0 sends.
hosts() {
    local n=$1 i key
    for key in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
        echo "${key#*=}" | tee /proc/sys/net/ipv4/conf/{all,default}/"${key%=*}" > /dev/null
    done
    echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 # no packets but those of the test
    {
        echo "link add br0 mtu $mtu type bridge"
        echo "link set br0 up"
        for ((i = 0; i < n; i++)); do
            echo "link add h$i mtu $mtu type veth peer name p$i mtu $mtu"
            echo "link set p$i master br0 up"
            echo "addr add $(host_address $i)/24 dev h$i noprefixroute"
            echo "rule add pref $((100 + i)) iif h$i lookup local"
            echo "rule add pref $((200 + i)) from $(host_address $i) to 10.0.1.0/24" \
                "lookup $((1000 + i))"
        done
        # Last, not first: else every packet between two of our own addresses stays inside.
        echo "rule add pref 500 lookup local"
        echo "rule del pref 0 lookup local"
    } | ip -batch - || return
    for ((i = 0; i < n; i++)); do host_link $i up || return; done
    for ((i = 0; i < n; i++)); do add_device rxe$i h$i "$(host_address $i)" || return; done
}

# host_link I up|down: takes host I off the network and puts it back (its routes go with the link)
host_link() {
    local own table=$((1000 + $1))
    own=$(host_address "$1")
    ip link set "h$1" "$2" || return
    [ "$2" = down ] || printf '%s\n' "route replace local $own dev h$1 table $table" \
        "route replace 10.0.1.0/24 dev h$1 src $own table $table" | ip -batch -
}

# as_user LIMIT_KIB CMD...: as an ordinary user that may lock LIMIT_KIB of memory (root may lock
# any amount). The one capability left lets it reach files below somebody's private home.
as_user() {
    local kib=$1
    shift
    (
        ulimit -l "$kib" || exit
        export HOME=/tmp
        exec setpriv --reuid 65534 --regid 65534 --clear-groups \
            --inh-caps -all,+dac_read_search --ambient-caps +dac_read_search "$@"
    )
}

# launch NP PROG...: all ranks on this node, on the devices that they choose
launch() {
    local np=$1
    shift
    "$prterun" --map-by :oversubscribe --bind-to none "${launch_options[@]}" -n "$np" "$@"
}

# launch_devices NP PROG...: rank r has rxe(r) for its own; call "hosts NP" first
launch_devices() {
    local np=$1
    shift
    launch "$np" "$guest/with-device" "$@"
}

# launch_nodes n0:2,n1:2 NP PROG...: a daemon per node, whose ranks share its device (nI: rxeI)
# and its /dev/shm; call "hosts" first. See node-agent.
launch_nodes() {
    local nodes=$1 np=$2
    shift 2
    "$prterun" --host "$nodes" --prtemca plm_ssh_agent "$guest/node-agent" --bind-to none \
        "${launch_options[@]}" -n "$np" "$guest/with-device" "$@"
}
