#!/bin/sh
# kernels_neon.sh ROOT DIGEST: the kernels built for aarch64 and run under qemu must give the bits that
# DIGEST, the same program built for this machine, gives. Exit status 77, saying what is missing: no
# cross compiler or no qemu (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user).
set -eu
root=$1 digest=$2
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    if ! command -v "$tool" > /dev/null; then
        echo "skipped: there is no $tool; apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
        exit 77
    fi
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
aarch64-linux-gnu-gcc -static -std=gnu17 -O3 -fno-fast-math -ffp-contract=off -Wall -Wextra -Werror \
    -I "$root" -I "$root/include" -o "$dir/digest" \
    "$root/tests/unit/kernels_digest.c" "$root/collectives/kernels.c" "$root/collectives/kernels_generic.c"
qemu-aarch64 "$dir/digest" > "$dir/aarch64" 2> "$dir/name" || {
    tail -n 1 "$dir/aarch64"
    exit 1
}
grep -qx 'kernels: neon' "$dir/name"
"$digest" > "$dir/here"
diff "$dir/here" "$dir/aarch64"
echo "$(wc -l < "$dir/here") digests agree"
