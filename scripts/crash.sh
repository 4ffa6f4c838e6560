#!/usr/bin/env bash
# make crash: kills the server under load CYCLES times and compares what is left with what was
# acknowledged.
set -euo pipefail
source "$(dirname "$0")/env.sh"

CYCLES=${CYCLES:-500}
SEED=${SEED:-$RANDOM}

scripts/setup.sh
build_dev
DIR=$(mktemp --directory /tmp/freshet-crash.XXXXXX)
say "$CYCLES crashes with seed $SEED in $DIR, kept if something is wrong"
"$CARGO_TARGET_DIR/debug/torture" crash --server "$CARGO_TARGET_DIR/debug/freshet" \
    --dir "$DIR" --cycles "$CYCLES" --seed "$SEED"
rm -rf "$DIR"
