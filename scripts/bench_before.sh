#!/usr/bin/env bash
# make bench-before: the server of this work tree beside that of COMMIT, all workloads in turn, and
# which points have slowed. Fails if one is below LEAST (0.97) times as fast. Both programs stay in
# the target directory, so a second run measures at once.
#   COMMIT=name  what to compare with; the commit before this one
#   ONLY=W1,W3   these workloads (default all, then the queries of TPC-H)
set -euo pipefail
source "$(dirname "$0")/env.sh"

COMMIT=$(git rev-parse --verify --quiet "${COMMIT:-HEAD~1}^{commit}") ||
    fail "COMMIT names no commit of this repository"
ROUNDS=${BENCH_ROUNDS:-5}
SECONDS_MEASURED=${BENCH_SECONDS:-2}
SECONDS_WARMUP=${BENCH_WARMUP:-0.5}
BENCH_MINUTES_MAX=${BENCH_MINUTES_MAX:-120}
BEFORE="$CARGO_TARGET_DIR/before/$COMMIT"

# The server as it was, built from a work tree of its own among the same dependencies.
build_before() {
    [[ ! -x $BEFORE/freshet ]] || return 0
    local tree
    tree=$(mktemp --directory "${TMPDIR:-/tmp}/freshet-before.XXXXXX")
    git worktree add --quiet --detach "$tree" "$COMMIT"
    (cd "$tree" && build_release)
    mkdir -p "$BEFORE"
    cp "$CARGO_TARGET_DIR/release/freshet" "$BEFORE/"
    git worktree remove --force "$tree"
}

scripts/setup.sh
build_before
[[ -n ${BENCH_BUILT:-} ]] || build_release
source scripts/bench_peers.sh

machine
start freshet freshet
SERVER="$BEFORE/freshet" start before freshet
both=(--target "${TARGETS[freshet]}" --target "${TARGETS[before]/name=freshet/name=before}")
workloads=${ONLY:-W1,W2,W3,W4,W5,W9,W7}
if [[ ${workloads//W7/} =~ W ]]; then
    bench run --rounds "$ROUNDS" --seconds "$SECONDS_MEASURED" --warmup "$SECONDS_WARMUP" \
        --form "${BENCH_FORM:-short}" --workloads "$(sed 's/,*W7//' <<<"$workloads")" "${both[@]}"
fi
if [[ $workloads == *W7* ]]; then
    bench tpch --scale "${TPCH_SCALE:-1}" --queries crates/query/tests/tpch "${both[@]}"
fi
"$CARGO_TARGET_DIR/release/freshet-bench" compare --least "${LEAST:-0.97}" "$BENCH_RESULTS"
