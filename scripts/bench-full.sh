#!/usr/bin/env bash
# make bench-full: all workloads on all peers, with the settings of docs/benchmarks.md: hours.
set -euo pipefail
source "$(dirname "$0")/env.sh"

BENCH_MINUTES_MAX=300
ROUNDS=${BENCH_ROUNDS:-3}

scripts/setup.sh
build_release
source scripts/bench_peers.sh

bench machine --dir "$BENCH_FOLDER"
start freshet freshet
start null null
ours=(--target "${TARGETS[freshet]}" --target "${TARGETS[null]}")
timing=(--form full --rounds "$ROUNDS" --seconds 3 --warmup 1)

# What clients get under each promise, beside each other, before the files of peers fill the disk.
modes=("${TARGETS[freshet]}")
for mode in sync async; do
    modes+=("${TARGETS[freshet]/name=freshet/name=freshet-$mode}&group_commit=${mode}_mode")
done
bench run "${timing[@]}" --workloads W1,W2 "${modes[@]/#/--target=}"

# Servers that have no part in a run wait, and cost nothing; memory is for two large peers at once.
start mariadb mariadb
start postgres postgres
bench run "${timing[@]}" --workloads W1,W2,W3,W4,W5,W9 "${ours[@]}" \
    --target "${TARGETS[mariadb]}" --target "${TARGETS[postgres]}"
bench tpch --queries crates/query/tests/tpch --target "${TARGETS[freshet]}"
bench tpch --target "${TARGETS[postgres]}" --target "${TARGETS[mariadb]}"
stop "$BENCH_FOLDER/mariadb"
stop "$BENCH_FOLDER/postgres"

# Rounds are compared within a run, so what is measured against these peers is measured again.
start questdb questdb nosync
start clickhouse clickhouse
bench run "${timing[@]}" --workloads W1,W5 "${ours[@]}" --target "${TARGETS[questdb]}" \
    --target "${TARGETS[clickhouse]}"
stop "$BENCH_FOLDER/questdb"
start questdb-sync questdb sync
bench run "${timing[@]}" --workloads W1,W5 "${ours[@]}" --target "${TARGETS[questdb-sync]}"
stop "$BENCH_FOLDER/questdb-sync"
scripts/peers/inprocess.sh "$BENCH_FOLDER/inprocess" "$RESULTS"
report
