#!/usr/bin/env bash
# make demo-stop: stops the server that make demo left running; its data stay.
set -euo pipefail
source "$(dirname "$0")/env.sh"

DATA_DIR="${DATA_DIR:-$PWD/freshet-data}"
PID_FILE="$DATA_DIR.pid"
STOP_SECONDS_MAX=60

[[ -e $PID_FILE ]] || exit 0
server=$(cat "$PID_FILE")
# A number that another program has by now is not ours to stop.
if [[ $(cat "/proc/$server/comm" 2>/dev/null) == freshet ]]; then
    say "stopping the server (process $server)"
    kill "$server"
    tenths=0
    while kill -0 "$server" 2>/dev/null; do
        ((tenths++ < STOP_SECONDS_MAX * 10)) || fail "process $server does not end"
        sleep 0.1
    done
fi
rm -f "$PID_FILE"
