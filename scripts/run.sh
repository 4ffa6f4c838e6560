#!/usr/bin/env bash
# make run: builds the server for speed and runs it in the foreground.
set -euo pipefail
source "$(dirname "$0")/env.sh"

scripts/setup.sh
say "building the server; the first time takes about 20 minutes on two cores"
cargo build --locked --release --package freshet
exec "$CARGO_TARGET_DIR/release/freshet" server "$@"
