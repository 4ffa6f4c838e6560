#!/usr/bin/env bash
# Measures the engines that run in process, DuckDB, DataFusion over Parquet and chdb, on the load of
# `lineitem` and the 22 queries; appends lines to the file $2. Its data go to the folder $1.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
out=$2
need python3 python3
environment="$CARGO_TARGET_DIR/peers/python"
if ! "$environment/bin/python" -c 'import chdb, datafusion, duckdb' 2>/dev/null; then
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check \
        duckdb==2.0.0 datafusion==55.0.0 chdb==4.4.0
fi
"$CARGO_TARGET_DIR/release/freshet-bench" tpch-files --scale "${TPCH_SCALE:-1}" "$folder"
timeout --kill-after 10 "${TPCH_SECONDS_MAX:-1800}" \
    "$environment/bin/python" scripts/peers/inprocess.py "$folder" crates/query/tests/tpch \
    >>"$out"
