#!/usr/bin/env bash
# make coverage: lines of wal, storage, ingest and meta that their own tests and the simulation run.
set -euo pipefail
source "$(dirname "$0")/env.sh"

OUT=${OUT:-$CARGO_TARGET_DIR/coverage}

command -v cargo-tarpaulin >/dev/null || cargo install --locked cargo-tarpaulin
mkdir -p "$OUT"
cargo tarpaulin --locked --engine llvm --skip-clean --out Json --out Html --output-dir "$OUT" \
    --target-dir "$CARGO_TARGET_DIR/tarpaulin" --timeout 3600 --exclude-files 'crates/*/tests/*' \
    --exclude-files '*/tests.rs' --exclude-files 'crates/*/examples/*' \
    --exclude-files 'crates/*/benches/*' \
    --packages freshet-wal --packages freshet-storage --packages freshet-ingest \
    --packages freshet-meta --packages freshet-sim -- --skip a_hundred_seeds
