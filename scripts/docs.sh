#!/usr/bin/env bash
# make docs: writes the pages of docs/ that are made from lists in the code.
set -euo pipefail
source "$(dirname "$0")/env.sh"

build_dev
"$CARGO_TARGET_DIR/debug/freshet" settings >docs/configuration.md
"$CARGO_TARGET_DIR/debug/freshet" variables >docs/variables.md
"$CARGO_TARGET_DIR/debug/freshet" functions >docs/functions.md
say "docs/configuration.md, docs/variables.md and docs/functions.md are written"
