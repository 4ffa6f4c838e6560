#!/usr/bin/env bash
# make powercut: CUTS power cuts under load, by cloning the device of the server; needs root.
#
# The server's data stand on ext4, on a loop device whose backing file stands on XFS with reflink.
# A clone of that file holds exactly what had reached the device. XFS is made in a file of its own.
# Afterwards the run is repeated on a disk that lies about syncs, and has to find losses.
set -euo pipefail
source "$(dirname "$0")/env.sh"

CUTS=${CUTS:-100}
SEED=${SEED:-$RANDOM}
XFS_GIB=6
DISK_GIB=2
LYING_CUTS=10

[[ $EUID == 0 ]] || fail "make powercut mounts file systems and needs root"
for tool in mkfs.xfs mkfs.ext4 losetup gcc; do
    command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install xfsprogs e2fsprogs gcc"
done
scripts/setup.sh
build_dev

BASE=$(mktemp --directory /tmp/freshet-powercut.XXXXXX)
cleanup() {
    umount "$BASE/xfs/work/clone" 2>/dev/null || true
    umount "$BASE/disk" 2>/dev/null || true
    umount "$BASE/xfs" 2>/dev/null || true
    rm -rf --one-file-system "$BASE"
}
trap cleanup EXIT

mkdir "$BASE/xfs" "$BASE/disk"
truncate --size "${XFS_GIB}G" "$BASE/xfs.img"
mkfs.xfs -q -m reflink=1 "$BASE/xfs.img"
mount -o loop "$BASE/xfs.img" "$BASE/xfs"

# cut COUNT ARGUMENTS...: a fresh disk and so many cuts.
cut_power() {
    local count=$1
    shift
    rm -rf "$BASE/xfs/work"
    mkdir "$BASE/xfs/work"
    truncate --size "${DISK_GIB}G" "$BASE/xfs/disk.img"
    mkfs.ext4 -q -F "$BASE/xfs/disk.img"
    mount -o loop "$BASE/xfs/disk.img" "$BASE/disk"
    "$CARGO_TARGET_DIR/debug/torture" powercut --server "$CARGO_TARGET_DIR/debug/freshet" \
        --dir "$BASE/xfs/work" --image "$BASE/xfs/disk.img" --mounted "$BASE/disk" \
        --cuts "$count" --seed "$SEED" "$@"
    umount "$BASE/disk"
    rm "$BASE/xfs/disk.img"
}

say "$CUTS power cuts with seed $SEED"
cut_power "$CUTS"

say "the same with a disk that lies: losses have to be found"
gcc -O2 -Wall -shared -fPIC -o "$BASE/lying_disk.so" scripts/powercut/lying_disk.c -ldl
cut_power "$LYING_CUTS" --lying-disk "$BASE/lying_disk.so"
