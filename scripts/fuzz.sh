#!/usr/bin/env bash
# make fuzz: feeds each reader MINUTES of rubbish, JOBS of them at a time, or only TARGET; what
# breaks one is kept.
set -euo pipefail
source "$(dirname "$0")/env.sh"

MINUTES=${MINUTES:-60}
JOBS=${JOBS:-$(nproc)}
TARGET=${TARGET:-}
INPUT_BYTES_MAX=4096
# A reader that takes longer for one input, or more memory, has a bug too. By the clock, so it is
# longer where more readers run than there are cores.
INPUT_SECONDS_MAX=$((10 + 10 * JOBS / $(nproc)))
MEMORY_MIB_MAX=2048

rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/fuzz"
# shellcheck disable=SC2086 # without a target there is no argument
cargo +nightly fuzz build --fuzz-dir fuzz $TARGET
binaries=$CARGO_TARGET_DIR/$(rustc +nightly --print host-tuple)/release
logs=$CARGO_TARGET_DIR/logs
mkdir -p "$logs"

declare -A running=()
broken=()
trap 'kill "${!running[@]}" 2>/dev/null || true' EXIT

begin() {
    local name=$1
    mkdir -p "fuzz/corpus/$name" "fuzz/artifacts/$name"
    "$binaries/$name" "fuzz/corpus/$name" "fuzz/corpus-seeds/$name" \
        -artifact_prefix="fuzz/artifacts/$name/" -dict="fuzz/dictionaries/$name.dict" \
        -max_total_time=$((MINUTES * 60)) -max_len=$INPUT_BYTES_MAX \
        -timeout=$INPUT_SECONDS_MAX -rss_limit_mb=$MEMORY_MIB_MAX -print_final_stats=1 \
        &>"$logs/$name.log" &
    running[$!]=$name
}

# Waits for one that runs and says what came of it.
end() {
    local pid status=0 name inputs
    wait -n -p pid "${!running[@]}" || status=$?
    name=${running[$pid]}
    unset "running[$pid]"
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name.log")
    if ((status == 0)); then
        say "$name: ${inputs:-?} inputs, nothing broke"
    else
        say "$name: BROKEN, see $logs/$name.log"
        broken+=("$name")
    fi
}

for name in ${TARGET:-$(cargo +nightly fuzz list --fuzz-dir fuzz)}; do
    ((${#running[@]} < JOBS)) || end
    say "$name: $MINUTES minutes"
    begin "$name"
done
while ((${#running[@]} > 0)); do
    end
done
((${#broken[@]} == 0)) || fail "broken: ${broken[*]}; move the inputs in fuzz/artifacts to \
fuzz/corpus-seeds, mend, and make test keeps them"
