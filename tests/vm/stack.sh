#!/bin/bash
# Runs in the guest. The RDMA stack without tutti: a device is there, and ib_write_lat gets through,
# over one device and between two hosts, whose traffic (TCP from a bound address too) crosses links.
set -euo pipefail
. "$(dirname "$0")/guest/lib.sh"

write_lat() { # SERVER_DEVICE SERVER_IP CLIENT_DEVICE CLIENT_IP BYTES
    local common=(-F -n 200 -s "$5") server client
    ib_write_lat "${common[@]}" -d "$1" -x "$(gid_index "$1" "$2")" > server.out 2>&1 &
    server=$!
    until grep -q ':4853 .* 0A ' /proc/net/tcp{,6}; do # 18515, listening
        kill -0 "$server" || fail "server: $(cat server.out)"
        sleep 0.1
    done
    client=$(
        timeout 30 ib_write_lat "${common[@]}" -d "$3" -x "$(gid_index "$3" "$4")" "$2" 2>&1
    ) || fail "client: $client"
    wait "$server" || fail "server: $(cat server.out)"
    awk -v what="$3 -> $1" -v bytes="$5" '$1 == bytes && $2 == 200 { found = 1
        print what ": " bytes " bytes in " $5 " us (median)" } END { exit !found }' <<< "$client" ||
        fail "no result in: $client"
}

cd "$(mktemp -d)"
one_device
ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE || fail "rxe0 is not active: $(ibv_devinfo)"
for bytes in 8 65536; do write_lat rxe0 10.0.0.1 rxe0 10.0.0.1 $bytes; done
rdma link del rxe0

hosts 2
expect_crossed() { # WHAT BYTES: each host has sent that much since the last call
    local i sent
    for i in 0 1; do
        sent=$(< /sys/class/net/h$i/statistics/tx_bytes)
        [ $((sent - before[i])) -gt "$2" ] ||
            fail "$1: h$i sent $((sent - before[i])) bytes only, so they did not cross the link"
        before[i]=$sent
    done
}
before=(0 0)
for bytes in 8 65536; do write_lat rxe0 10.0.1.1 rxe1 10.0.1.2 $bytes; done
expect_crossed RDMA $((200 * 65536))
timeout 20 python3 - << 'END' || fail "TCP between hosts"
import socket
server = socket.create_server(("10.0.1.1", 5000))
ends = socket.create_connection(("10.0.1.1", 5000), 10, ("10.0.1.2", 0)), server.accept()[0]
for sender, receiver in ends, ends[::-1]:
    sender.sendall(bytes(20000))
    assert receiver.recv(20000, socket.MSG_WAITALL) == bytes(20000)
END
expect_crossed TCP 20000
