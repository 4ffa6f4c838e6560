# Sourced by the scripts of the peers: what starting any of them needs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../env.sh"

START_SECONDS_MAX=120

# need COMMAND PACKAGE: installs the Debian package that brings COMMAND, if it is missing.
need() {
    command -v "$1" >/dev/null || [[ -x $1 ]] || install_package "$2"
}

install_package() {
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "the package $1 is missing. Install it, on Debian or Ubuntu with:
  sudo apt-get update && sudo apt-get install --yes --no-install-recommends $1"
    fi
    say "installing $1 with apt-get"
    apt-get update --quiet=2 >&2
    DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --quiet=2 --no-install-recommends "$1" >&2
}

# memory_mib PART MAX: that part of the machine's memory (4 is a quarter), at most MAX.
memory_mib() {
    awk -v part="$1" -v max="$2" '/^MemTotal:/ { mib = int($2 / 1024 / part)
        print (mib < max) ? mib : max }' /proc/meminfo
}

# A port of loopback that nobody listens on now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# begin FOLDER COMMAND...: starts a server in the background, its pid in FOLDER/pid.
begin() {
    local folder=$1
    shift
    setsid "$@" </dev/null >"$folder/log" 2>&1 &
    echo $! >"$folder/pid"
}

# await_port PORT FOLDER: waits until the server listens; fails with its log if it ends before.
await_port() {
    local began=$SECONDS
    until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
        if ! kill -0 "$(cat "$2/pid")" 2>/dev/null || ((SECONDS - began > START_SECONDS_MAX)); then
            tail -n 20 "$2/log" >&2
            fail "the server in $2 did not start; the end of its log is above"
        fi
        sleep 0.2
    done
}

# stop FOLDER: ends the server that `begin` started and waits for it.
stop() {
    local pid
    pid=$(cat "$1/pid" 2>/dev/null) || return 0
    kill "$pid" 2>/dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.2
    done
    kill -KILL "$pid" 2>/dev/null || true
}

# reachable FOLDER: lets other users pass through the folders above it.
reachable() {
    local folder
    folder=$(dirname "$1")
    while [[ $folder != / ]]; do
        chmod o+x "$folder" 2>/dev/null || return 0
        folder=$(dirname "$folder")
    done
}
