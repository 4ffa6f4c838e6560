#!/usr/bin/env bash
# make hostile: for MINUTES, clients that speak the protocol wrongly, with and without TLS, beside a
# neighbour who must not notice.
set -euo pipefail
source "$(dirname "$0")/env.sh"

MINUTES=${MINUTES:-60}
SEED=${SEED:-$RANDOM}

scripts/setup.sh
build_dev
DIR=$(mktemp --directory /tmp/freshet-hostile.XXXXXX)
say "$MINUTES minutes with seed $SEED in $DIR, kept if something is wrong"
"$CARGO_TARGET_DIR/debug/torture" hostile --server "$CARGO_TARGET_DIR/debug/freshet" \
    --dir "$DIR" --minutes "$MINUTES" --seed "$SEED"
rm -rf "$DIR"
