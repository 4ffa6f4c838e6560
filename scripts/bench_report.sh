# Sourced by bench.sh and bench-full.sh: prints tables, ratios and what is met, draws pictures.
#
#   report FILE   of results

report() {
    local program="$CARGO_TARGET_DIR/release/freshet-bench"
    "$program" report "$1"
    "$program" plot "${1%.jsonl}" "$1"
    say "results: $1; pictures: ${1%.jsonl}/"
    say "into the document: $program report --into docs/benchmarks.md $1"
}
