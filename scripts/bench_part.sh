#!/usr/bin/env bash
# One part of make bench-full: starts the servers it needs, measures, stops them.
#   modes       W1 and W2 under off_mode, sync_mode and async_mode
#   servers     BENCH_WORKLOADS (W1 to W5 and W9) beside MariaDB, PostgreSQL and the null server
#   questdb     W1 and W5 beside QuestDB, without sync and with it
#   clickhouse  W5 beside ClickHouse
#   forms       W10: mapped, compressed, Parquet and two-phase bodies beside plain ones
#   alters      W1 and W2 while a column comes and goes
#   tpch        W7: load and 22 queries; the load of MariaDB and PostgreSQL
#   inprocess   W7 of DuckDB, chdb, DataFusion over Parquet
#   sweeps      columns, row width, buckets, tables, connections, of Freshet alone
#   beside      W2 with two analytic queries in a loop
#   sessions    connections that come and go, idle ones, information_schema, with and without TLS
#   keys        sbtest1 with its keys: INSERT by batch and connections, reads, UPDATE, DELETE and
#               upserts by key, TRUNCATE, DROP and DELETE of KEYS_ROWS (2,000,000) rows
#   parts       sbtest1 in one and 32 partitions, by batch and connections (E1, E3 to E5)
#   upserts     KEYS_MINUTES (10) of upserts of KEYS_ROWS (20,000,000) rows, scans of a keyed table
#   long        W2 for BENCH_LONG_SECONDS (600)
set -euo pipefail
source "$(dirname "$0")/env.sh"

part=$1
BENCH_MINUTES_MAX=300
source scripts/bench_peers.sh

ROUNDS=${BENCH_ROUNDS:-3}
SECONDS_MEASURED=${BENCH_SECONDS:-3}
WORKLOADS=${BENCH_WORKLOADS:-W1,W2,W3,W4,W5,W9}
SCALE=${TPCH_SCALE:-1}

# run WORKLOADS ARGUMENTS... -- NAMES...: workloads on targets that were started.
run() {
    local workloads=$1 arguments=() targets=()
    shift
    while [[ $1 != -- ]]; do
        arguments+=("$1")
        shift
    done
    shift
    for name in "$@"; do
        targets+=(--target "${TARGETS[$name]}")
    done
    bench run --form "${BENCH_FORM:-full}" --rounds "$ROUNDS" --seconds "$SECONDS_MEASURED" \
        --warmup "${BENCH_WARMUP:-1}" --workloads "$workloads" "${arguments[@]}" "${targets[@]}"
}

begin_ours() {
    machine
    start freshet freshet "$@"
}

part_modes() {
    begin_ours
    local mode ours=${TARGETS[freshet]}
    for mode in sync async; do
        TARGETS[$mode]="${ours/name=freshet/name=freshet-$mode}&group_commit=${mode}_mode"
    done
    run W1,W2 -- freshet sync async
}

# Servers that have no part in a run wait, and cost nothing.
part_servers() {
    begin_ours
    start null null
    start mariadb mariadb
    start postgres postgres
    run "$WORKLOADS" -- freshet null mariadb postgres
}

# Rounds are compared within a run, so ours is measured again beside these.
part_questdb() {
    begin_ours
    start null null
    start questdb questdb nosync
    run W1 --only "ints prepared" -- freshet null questdb
    run W5 -- freshet null questdb
    halt questdb
    start questdb-sync questdb sync
    run W1 --only "ints prepared" -- freshet questdb-sync
    run W5 --only "100KB x 30" -- freshet questdb-sync
}

part_clickhouse() {
    begin_ours
    start null null
    start clickhouse clickhouse
    run W5 -- freshet null clickhouse
}

# Each form is a target of its own, so that a round has all of them.
part_forms() {
    begin_ours
    local form ours=${TARGETS[freshet]} forms=(mapped gz zstd lz4 parquet 2pc)
    for form in "${forms[@]}"; do
        TARGETS[$form]="${ours/name=freshet/name=freshet-$form}&form=$form"
    done
    run W10 -- freshet "${forms[@]}"
}

part_alters() {
    begin_ours
    run alters -- freshet
}

part_tpch() {
    begin_ours
    bench tpch --scale "$SCALE" --queries crates/query/tests/tpch --target "${TARGETS[freshet]}"
    start postgres postgres
    bench tpch --scale "$SCALE" --only lineitem --target "${TARGETS[postgres]}"
    halt postgres
    start mariadb mariadb
    bench tpch --scale "$SCALE" --only lineitem --target "${TARGETS[mariadb]}"
}

part_inprocess() {
    TPCH_SCALE=$SCALE scripts/peers/inprocess.sh "$BENCH_FOLDER/inprocess" "$BENCH_RESULTS"
}

part_sweeps() {
    begin_ours --set max_connections=6000
    ROUNDS=1
    run sweeps -- freshet
}

part_beside() {
    begin_ours
    run beside -- freshet
}

part_sessions() {
    begin_ours --set max_connections=15000
    # Both have the same certificate, so that both do the same work.
    local keys=$BENCH_FOLDER/freshet/data/tls program=$CARGO_TARGET_DIR/release/freshet-bench
    start mariadb mariadb "--ssl-cert=$keys/server-cert.pem" "--ssl-key=$keys/server-key.pem"
    local ours=${TARGETS[freshet]} theirs=${TARGETS[mariadb]} tls="tls=$keys/ca.pem"
    TARGETS[tls]="${ours/name=freshet/name=freshet-tls}&$tls"
    "$program" sessions --target "$ours" --target "$theirs" --idle 1900 --tables 2000
    "$program" sessions --target "${TARGETS[tls]}" \
        --target "${theirs/name=mariadb/name=mariadb-tls}&$tls" --idle 1900
    "$program" sessions --target "$ours" --idle 2000,10000 --rounds 1
    run W1,W3 -- freshet tls
    "$program" compare "$BENCH_RESULTS" --to freshet-tls --least 0
}

# With the scheme of MySQL tables have the keys that they have there.
part_keys() {
    begin_ours
    start null null
    start mariadb mariadb
    local ours=${TARGETS[freshet]} rows=${KEYS_ROWS:-2000000}
    ours=${ours/#freshet:/mysql:}
    TARGETS[keys]=${ours/name=freshet/name=freshet-keys}
    run W4 -- keys null mariadb
    local both=(--target "${TARGETS[keys]}" --target "${TARGETS[mariadb]}")
    local timed=(--rounds "$ROUNDS" --seconds "$SECONDS_MEASURED" --rows "$rows")
    local program=$CARGO_TARGET_DIR/release/freshet-bench
    "$program" keyed "${both[@]}" "${timed[@]}" --connections 100,400 --truncates 1000
    "$program" keyed "${both[@]}" "${timed[@]}" --connections 16 \
        --works range,sum,ordered,distinct
    "$program" keyed "${both[@]}" "${timed[@]}" --connections 100 \
        --works update-index,update,delete
    "$program" keyed "${both[@]}" "${timed[@]}" --connections 4 --works upsert
    "$program" keyed "${both[@]}" --rounds "$ROUNDS" --emptied "$rows"
}

# With the scheme of MySQL tables have the partitions that they have there.
part_parts() {
    begin_ours
    start null null
    start mariadb mariadb
    local ours=${TARGETS[freshet]/#freshet:/mysql:}
    TARGETS[parts]=${ours/name=freshet/name=freshet-keys}
    run parts -- parts null mariadb
}

part_upserts() {
    begin_ours
    local ours=${TARGETS[freshet]} rows=${KEYS_ROWS:-20000000}
    local program=$CARGO_TARGET_DIR/release/freshet-bench
    "$program" keyed --target "${ours/#freshet:/mysql:}" --rounds 5 --scanned 2000000
    "$program" keyed --target "$ours" --rows "$rows" --minutes "${KEYS_MINUTES:-10}"
}

part_long() {
    begin_ours
    ROUNDS=1
    SECONDS_MEASURED=${BENCH_LONG_SECONDS:-600}
    run long -- freshet
}

[[ $(type -t "part_$part") == function ]] || fail "there is no part \`$part\`; see $0"
"part_$part"
