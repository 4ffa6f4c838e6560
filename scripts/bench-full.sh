#!/usr/bin/env bash
# make bench-full: all workloads beside all peers: hours; BENCH_PARTS, BENCH_ROUNDS, BENCH_SECONDS
# and BENCH_FORM make it shorter. One file of results, BENCH_RESULTS; a part that it already holds
# is not run again, and one that fails does not keep the others from running.
set -euo pipefail
source "$(dirname "$0")/env.sh"

ALL=modes,servers,questdb,clickhouse,forms,alters,tpch,inprocess,sweeps,beside,long
PARTS=${BENCH_PARTS:-$ALL}
export BENCH_RESULTS="${BENCH_RESULTS:-$CARGO_TARGET_DIR/bench/$(date -u +%Y%m%dT%H%M%SZ).jsonl}"
DONE="${BENCH_RESULTS%.jsonl}.done"

scripts/setup.sh
[[ -n ${BENCH_BUILT:-} ]] || build_release
source scripts/bench_report.sh

mkdir -p "$(dirname "$BENCH_RESULTS")"
touch "$DONE"
failed=()
for part in ${PARTS//,/ }; do
    if grep -qx "$part" "$DONE"; then
        say "$part: measured before, see $DONE"
        continue
    fi
    say "$part"
    began=$SECONDS
    if scripts/bench_part.sh "$part"; then
        echo "$part" >>"$DONE"
    else
        failed+=("$part")
    fi
    say "$part: $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
done
[[ ! -s $BENCH_RESULTS ]] || report "$BENCH_RESULTS"
[[ ${#failed[@]} == 0 ]] || fail "these parts failed: ${failed[*]}; what they measured is reported.
Run it again with BENCH_RESULTS=$BENCH_RESULTS to measure them again."
