#!/usr/bin/env bash
# make bench: Freshet beside MariaDB and the null server on all workloads, then the queries of
# TPC-H at TPCH_SCALE (1), in less than 15 minutes.
set -euo pipefail
source "$(dirname "$0")/env.sh"

# Seconds of a run: what is measured, and the warm-up before it.
SECONDS_MEASURED=${BENCH_SECONDS:-1.5}
SECONDS_WARMUP=${BENCH_WARMUP:-0.5}
ROUNDS=${BENCH_ROUNDS:-2}

scripts/setup.sh
[[ -n ${BENCH_BUILT:-} ]] || build_release
source scripts/bench_peers.sh
source scripts/bench_report.sh

machine
start mariadb mariadb
start null null
start freshet freshet
timing=(--rounds "$ROUNDS" --seconds "$SECONDS_MEASURED" --warmup "$SECONDS_WARMUP")
# What was measured until something failed is worth a report all the same.
result=0
bench run "${timing[@]}" "$@" --target "${TARGETS[freshet]}" --target "${TARGETS[mariadb]}" \
    --target "${TARGETS[null]}" || result=$?
# Who asks for some workloads by name does not want the queries.
if (($# == 0)); then
    bench tpch --scale "${TPCH_SCALE:-1}" --queries crates/query/tests/tpch \
        --target "${TARGETS[freshet]}" || result=$?
fi
report "$BENCH_RESULTS"
exit "$result"
