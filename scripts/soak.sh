#!/usr/bin/env bash
# make soak: mixed load for MINUTES; memory, descriptors, files and latencies must stay flat.
set -euo pipefail
source "$(dirname "$0")/env.sh"

MINUTES=${MINUTES:-30}
OUT=${OUT:-$CARGO_TARGET_DIR/soak}

scripts/setup.sh
cargo build --locked --workspace --bins
DIR=$(mktemp --directory /tmp/freshet-soak.XXXXXX)
say "$MINUTES minutes in $DIR; numbers and plot in $OUT"
"$CARGO_TARGET_DIR/debug/torture" soak --server "$CARGO_TARGET_DIR/debug/freshet" \
    --dir "$DIR" --minutes "$MINUTES" --out "$OUT"
rm -rf "$DIR"
# A picture for places that show no SVG.
if command -v rsvg-convert >/dev/null; then
    rsvg-convert --output "$OUT/soak.png" "$OUT/soak.svg"
elif command -v convert >/dev/null; then
    convert "$OUT/soak.svg" "$OUT/soak.png"
else
    say "for soak.png beside soak.svg: apt-get install librsvg2-bin"
fi
