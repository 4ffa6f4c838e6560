#!/usr/bin/env bash
# make docs: writes the pages of docs/ that are made from lists in the code.
set -euo pipefail
source "$(dirname "$0")/env.sh"

build_dev
"$CARGO_TARGET_DIR/debug/freshet" settings >docs/configuration.md
"$CARGO_TARGET_DIR/debug/freshet" variables >docs/variables.md
say "docs/configuration.md and docs/variables.md are written"
