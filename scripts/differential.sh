#!/usr/bin/env bash
# make differential: compares the answers to QUERIES random statements with those of MariaDB.
# SEED chooses the statements; with the SEED and the number of one that differed, FIRST=number
# QUERIES=1 shows it again, and NUMBERS=file shows those whose numbers are in a file.
# UNEXPLAINED_MAX differences without a known reason are no failure. EXAMPLES=1 shows one of each
# known difference.
# Installs MariaDB if it is missing, on Debian and Ubuntu as root.
set -euo pipefail
source "$(dirname "$0")/env.sh"

QUERIES=${QUERIES:-10000}
SEED=${SEED:-1}
FIRST=${FIRST:-0}
NUMBERS=${NUMBERS:-}
MINUTES=${MINUTES:-120}
UNEXPLAINED_MAX=${UNEXPLAINED_MAX:-0}
START_SECONDS_MAX=60
WORK=$(mktemp --directory /tmp/freshet-differential.XXXXXX)
MARIADB=""
FRESHET=""

main() {
    install_mariadb
    [[ ${1:-} == built ]] || build_dev
    start_freshet
    start_mariadb
    local options=()
    [[ -z ${EXAMPLES:-} ]] || options+=(--examples)
    if [[ -n $NUMBERS ]]; then
        options+=(--numbers "$NUMBERS")
        say "the statements whose numbers are in $NUMBERS, seed $SEED"
    else
        say "$QUERIES statements from number $FIRST on, seed $SEED"
    fi
    "$CARGO_TARGET_DIR/debug/differential" --freshet "$FRESHET_PORT" --mariadb "$MARIADB_PORT" \
        --queries "$QUERIES" --seed "$SEED" --first "$FIRST" --minutes "$MINUTES" \
        --unexplained-max "$UNEXPLAINED_MAX" "${options[@]}"
}

install_mariadb() {
    command -v mariadbd >/dev/null && return
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "MariaDB is missing. Install it, on Debian or Ubuntu with:
  sudo apt-get update && sudo apt-get install --yes mariadb-server"
    fi
    say "installing mariadb-server with apt-get (about a minute)"
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends \
        mariadb-server >/dev/null
}

# Waits until the command succeeds, as long as the process lives. Then its log says why not.
await() {
    local pid=$1 log=$2 tenths=0
    shift 2
    until "$@" >/dev/null 2>&1; do
        kill -0 "$pid" 2>/dev/null || fail "it ended at its start: $(tail -n 5 "$log")"
        ((tenths++ < START_SECONDS_MAX * 10)) || fail "no start in $START_SECONDS_MAX s: $log"
        sleep 0.1
    done
}

start_freshet() {
    TZ=UTC "$CARGO_TARGET_DIR/debug/freshet" server --data-dir "$WORK/freshet" \
        --mysql-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 \
        >"$WORK/freshet.ready" 2>"$WORK/freshet.log" &
    FRESHET=$!
    await "$FRESHET" "$WORK/freshet.log" test -s "$WORK/freshet.ready"
    FRESHET_PORT=$(grep -oE '127\.0\.0\.1:[0-9]+' "$WORK/freshet.ready" | head -n 1 | cut -d : -f 2)
}

# A port that was free a moment ago; if another process takes it first, the start fails and says so.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# Text compares as in freshet: by code point, with spaces at the end. A MariaDB that starts deletes
# the temporary tables in its TMPDIR, those of another one too.
start_mariadb() {
    local data="$WORK/mariadb" log="$WORK/mariadb.log" as=()
    local -x TMPDIR="$WORK"
    [[ $(id -u) != 0 ]] || as=(--user=root)
    mariadb-install-db --no-defaults "${as[@]}" --datadir="$data" --skip-test-db \
        --auth-root-authentication-method=normal >"$log" 2>&1 || fail "$(tail -n 5 "$log")"
    MARIADB_PORT=$(free_port)
    mariadbd --no-defaults "${as[@]}" --datadir="$data" --socket="$WORK/mariadb.sock" \
        --bind-address=127.0.0.1 --port="$MARIADB_PORT" --default-time-zone=+00:00 \
        --character-set-server=utf8mb4 --collation-server=utf8mb4_nopad_bin \
        --innodb-flush-log-at-trx-commit=0 --skip-log-bin >"$log" 2>&1 &
    MARIADB=$!
    await "$MARIADB" "$log" mariadb-admin --no-defaults --socket="$WORK/mariadb.sock" \
        --user=root ping
}

finish() {
    local pid
    for pid in $FRESHET $MARIADB; do kill "$pid" 2>/dev/null || true; done
    for pid in $FRESHET $MARIADB; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$WORK"
}
trap finish EXIT

main "$@"
