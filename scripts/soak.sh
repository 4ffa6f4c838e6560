#!/usr/bin/env bash
# make soak: mixed load for MINUTES; memory, descriptors, files and latencies must stay flat.
set -euo pipefail
source "$(dirname "$0")/env.sh"

MINUTES=${MINUTES:-30}
OUT=${OUT:-$CARGO_TARGET_DIR/soak}

scripts/setup.sh
build_release
DIR=$(mktemp --directory /tmp/freshet-soak.XXXXXX)
say "$MINUTES minutes in $DIR; numbers and plot in $OUT"
"$CARGO_TARGET_DIR/release/torture" soak --server "$CARGO_TARGET_DIR/release/freshet" \
    --dir "$DIR" --minutes "$MINUTES" --out "$OUT"
rm -rf "$DIR"
# A picture for places that show no SVG.
if ! command -v rsvg-convert >/dev/null && [[ $EUID == 0 ]] && command -v apt-get >/dev/null; then
    apt-get install --yes --quiet=2 --no-install-recommends librsvg2-bin || true
fi
if command -v rsvg-convert >/dev/null; then
    rsvg-convert --output "$OUT/soak.png" "$OUT/soak.svg"
else
    say "no soak.png beside soak.svg: rsvg-convert is missing, apt-get install librsvg2-bin"
fi
