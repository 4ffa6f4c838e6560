#!/usr/bin/env bash
# Measures the engines that run in process, DuckDB and chdb, on the load of `lineitem` and the 22
# queries; appends lines to the file $2. Its environment and data go to the folder $1.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
out=$2
need python3 python3
environment="$CARGO_TARGET_DIR/peers/python"
if [[ ! -x $environment/bin/python ]]; then
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check duckdb chdb
fi
"$CARGO_TARGET_DIR/release/freshet-bench" tpch-files --scale "${TPCH_SCALE:-1}" "$folder"
"$environment/bin/python" scripts/peers/inprocess.py "$folder" crates/query/tests/tpch \
    >>"$out"
