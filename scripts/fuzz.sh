#!/usr/bin/env bash
# make fuzz: feeds each reader MINUTES of rubbish, or one of them, TARGET; what breaks it is kept.
set -euo pipefail
source "$(dirname "$0")/env.sh"

MINUTES=${MINUTES:-60}
TARGET=${TARGET:-}
INPUT_BYTES_MAX=4096
# A reader that takes longer for one input, or more memory, has a bug too.
INPUT_SECONDS_MAX=10
MEMORY_MIB_MAX=2048

rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/fuzz"

failed=()
for name in ${TARGET:-$(cargo +nightly fuzz list --fuzz-dir fuzz)}; do
    say "$name: $MINUTES minutes"
    mkdir -p "fuzz/corpus/$name"
    cargo +nightly fuzz run --fuzz-dir fuzz "$name" "fuzz/corpus/$name" \
        "fuzz/corpus-seeds/$name" -- -dict="fuzz/dictionaries/$name.dict" \
        -max_total_time=$((MINUTES * 60)) -max_len=$INPUT_BYTES_MAX \
        -timeout=$INPUT_SECONDS_MAX -rss_limit_mb=$MEMORY_MIB_MAX -print_final_stats=1 \
        || failed+=("$name")
done
((${#failed[@]} == 0)) || fail "broken: ${failed[*]}; move the inputs in fuzz/artifacts to \
fuzz/corpus-seeds, mend, and make test keeps them"
