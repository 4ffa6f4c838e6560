# Sourced by bench.sh and bench-full.sh: a folder for servers, which all end with the script.
#
#   start NAME SCRIPT ARGUMENTS...   starts scripts/peers/SCRIPT.sh; its target is in TARGETS[NAME]
#   bench ARGUMENTS...               runs freshet-bench, with its results in $RESULTS

source scripts/peers/peer.sh

BENCH_FOLDER=$(mktemp --directory "${BENCH_DIR:-${TMPDIR:-/tmp}}/freshet-bench.XXXXXX")
RESULTS="${BENCH_RESULTS:-$CARGO_TARGET_DIR/bench/$(date -u +%Y%m%dT%H%M%SZ).jsonl}"
declare -A TARGETS=()

mkdir -p "$(dirname "$RESULTS")"
trap end_servers EXIT

start() {
    local name=$1 script=$2
    shift 2
    say "starting $name"
    TARGETS[$name]=$("scripts/peers/$script.sh" "$BENCH_FOLDER/$name" "$@")
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
        --out "$RESULTS"
}

# Prints tables, ratios and what is met; draws pictures beside the results.
report() {
    "$CARGO_TARGET_DIR/release/freshet-bench" report "$RESULTS"
    "$CARGO_TARGET_DIR/release/freshet-bench" plot "$RESULTS" "${RESULTS%.jsonl}"
    say "results: $RESULTS; pictures: ${RESULTS%.jsonl}/"
}
