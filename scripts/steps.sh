# Sourced by check.sh and test.sh: runs named steps one after another and ends with one table.
#
#   step NAME ABOUT COMMAND...   runs the program COMMAND with its output in $LOGS/NAME.log; while
#                                it runs a line now and then says how far it is; a failure shows
#                                the end of the log, and the next step runs all the same, so that
#                                one run tells everything
#   steps_end                    prints the table; the exit code is 1 if a step has failed

LOGS="${FRESHET_LOGS:-$CARGO_TARGET_DIR/logs}"
STEP_MINUTES_MAX=40
STEP_ROWS=()
STEPS_FAILED=()
FAILURE_LINES_SHOWN=60
HEARTBEAT_SECONDS=20
PULSE=""

mkdir -p "$LOGS"
trap 'stop_heartbeat' EXIT

step() {
    local name=$1 about=$2 log="$LOGS/$1.log" began=$SECONDS result=ok
    shift 2
    printf '==> %-10s (about %s when warm)  %s\n' "$name" "$about" "$*"
    heartbeat "$log" &
    PULSE=$!
    timeout --foreground --kill-after 10 "${STEP_MINUTES_MAX}m" "$@" >"$log" 2>&1 || result=FAILED
    stop_heartbeat
    local seconds=$((SECONDS - began))
    if [[ $result == FAILED ]]; then
        STEPS_FAILED+=("$name")
        show_failure "$log"
        printf '    FAILED after %s s; all of it: %s\n' "$seconds" "$log"
    fi
    local row
    row=$(printf '%-10s %-8s %6s s  %s' "$name" "$result" "$seconds" "$(tests_in "$log")")
    STEP_ROWS+=("$row")
}

# The end of the log, then what failed and where.
show_failure() {
    {
        tail -n "$FAILURE_LINES_SHOWN" "$1"
        echo '...'
        failures_in "$1"
    } | sed 's/^/    | /'
}

# Names of tests that failed, their panics with the line behind, and errors of the compiler.
failures_in() {
    grep -E --after-context 1 '^(error|test .* FAILED|thread .* panicked at)' "$1" |
        grep -vE '^--$|\.\.\. ok$' | head -n 30 || true
}

# How many tests a log of cargo tells of; nothing if none.
tests_in() {
    awk '/^test result:/ { n += $4; bad += $6 }
         END { if (n + bad) printf "%d tests passed, %d failed", n, bad }' "$1"
}

# Says what the step is at, from the last line of its log, so that nobody thinks it hangs.
heartbeat() {
    local log=$1 began=$SECONDS sleeper="" last
    trap 'kill $sleeper 2>/dev/null; exit' TERM
    while true; do
        sleep "$HEARTBEAT_SECONDS" &
        sleeper=$!
        wait "$sleeper"
        last=$(tail -n 1 "$log" 2>/dev/null | cut -c 1-80)
        printf '    %4s s  %s\n' $((SECONDS - began)) "$last"
    done
}

stop_heartbeat() {
    [[ -z $PULSE ]] || kill "$PULSE" 2>/dev/null || true
    wait "$PULSE" 2>/dev/null || true
    PULSE=""
}

# The end of what is printed is often all that is kept, so it names what failed once more.
steps_end() {
    printf '\n%-10s %-8s %8s\n' step result time
    printf '%s\n' "${STEP_ROWS[@]}"
    printf '%-10s %-8s %6s s\n' total "${#STEPS_FAILED[@]} bad" "$SECONDS"
    printf 'logs: %s\n' "$LOGS"
    local name
    for name in "${STEPS_FAILED[@]}"; do
        printf 'failed: %s\n' "$name"
        failures_in "$LOGS/$name.log" | sed 's/^/    | /'
    done
    [[ ${#STEPS_FAILED[@]} == 0 ]]
}
