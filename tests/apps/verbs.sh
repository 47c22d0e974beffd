#!/bin/bash
# Runs in the virtual machine: what tutti-bench counts over verbs, and what tutti-info sees of the device.
set -euo pipefail
. "$(dirname "$0")/../vm/guest/lib.sh"
bin=$TUTTI_BUILD_DIR/bin
results=$(mktemp -d)
one_device

TUTTI_TRANSPORT=verbs launch 2 "$bin/tutti-bench" allreduce --max 8 --seconds 0.5 --json - > "$results/bench"
"$bin/tutti-info" --json > "$results/info"
python3 - "$results" <<'END'
import json, sys
bench, info = (json.load(open(f"{sys.argv[1]}/{name}")) for name in ("bench", "info"))
row, = bench["rows"]
print(row)
for counts in (row["counters_max"], row["counters_mean"]):
    assert counts["lines"] == 1 and counts["writes"] == 0, "one line per rank and call"
    assert abs(counts["requests"] - 1 - counts["cells"]) < 0.01, "one request each, and the cells"
    assert counts["completions"] < 0.05, "a completion for half a queue"
assert row["transports"] == "verbs"
chosen, = [port for port in info["ports"] if port["chosen"]]
print(chosen)
assert (chosen["device"], chosen["gid"], chosen["gid_type"]) == ("rxe0", "::ffff:10.0.0.1", "RoCE v2")
assert info["port_choice"]["status"] == "TUTTI_OK"
END
for call in allreduce bcast barrier; do
    TUTTI_TRANSPORT=verbs launch 3 "$bin/tutti-bench" "$call" --check-only --max 128K
done
