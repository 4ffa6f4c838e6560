# Sourced by bench.sh and bench_part.sh: a folder for servers, which all end with the script.
#
#   start NAME SCRIPT ARGUMENTS...   starts scripts/peers/SCRIPT.sh; its target is in TARGETS[NAME]
#   halt NAME                        stops it and removes its files
#   bench ARGUMENTS...               runs freshet-bench, with its results in $BENCH_RESULTS
#   machine                          measures the machine itself, for every part anew

source scripts/peers/peer.sh

BENCH_FOLDER=$(mktemp --directory "${BENCH_DIR:-${TMPDIR:-/tmp}}/freshet-bench.XXXXXX")
export BENCH_RESULTS="${BENCH_RESULTS:-$CARGO_TARGET_DIR/bench/$(date -u +%Y%m%dT%H%M%SZ).jsonl}"
BENCH_MINUTES_MAX=${BENCH_MINUTES_MAX:-14}
declare -A TARGETS=()

mkdir -p "$(dirname "$BENCH_RESULTS")"
# A client and a server of many connections each hold a file for every one of them.
ulimit -n "$(ulimit -H -n)"
trap end_servers EXIT

start() {
    local name=$1 script=$2
    shift 2
    say "starting $name"
    TARGETS[$name]=$("scripts/peers/$script.sh" "$BENCH_FOLDER/$name" "$@")
}

halt() {
    stop "$BENCH_FOLDER/$1"
    rm -rf "${BENCH_FOLDER:?}/$1"
}

end_servers() {
    local folder
    for folder in "$BENCH_FOLDER"/*/; do
        stop "$folder"
    done
    rm -rf "$BENCH_FOLDER"
}

bench() {
    timeout --kill-after 10 "${BENCH_MINUTES_MAX}m" "$CARGO_TARGET_DIR/release/freshet-bench" "$@" \
        --out "$BENCH_RESULTS"
}

machine() {
    local commit
    commit=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
    bench machine --dir "$BENCH_FOLDER" --commit "$commit"
}
