#!/usr/bin/env bash
# make sim: searches seeds of the simulation for a broken promise, SEEDS of them from FIRST on.
set -euo pipefail
source "$(dirname "$0")/env.sh"

cargo run --locked --package freshet-sim -- --seeds "${SEEDS:-1000}" --first "${FIRST:-1000}"
