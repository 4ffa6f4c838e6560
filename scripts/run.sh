#!/usr/bin/env bash
# make run: builds the server for speed and runs it in the foreground.
set -euo pipefail
source "$(dirname "$0")/env.sh"

scripts/setup.sh
build_release
exec "$CARGO_TARGET_DIR/release/freshet" server "$@"
