# Sourced by clients.sh and test-ecosystem.sh behind env.sh: what clients need, a server of their
# own, and running one client after another.
#
#   install_packages_for COMMAND=PACKAGE...   with apt-get, what is missing
#   install_venv NAME REQUIREMENTS            a Python environment; its folder is in $VENV
#   start_server, stop_server                 its ports are in $CLIENT_MYSQL_PORT, $CLIENT_HTTP_PORT
#   client NAME COMMAND ARGUMENT [WANTED...]  runs a client, unless other names are wanted

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/freshet/clients"
CLIENT_SECONDS_MAX=180
SERVER_SECONDS_MAX=30
BINARY="$CARGO_TARGET_DIR/debug/freshet"
WORK=$(mktemp -d)
SERVER=""
FAILED=0

[[ -x $BINARY ]] || fail "$BINARY is missing; make test builds it and runs this"
trap 'stop_server; rm -rf "$WORK"' EXIT

# --- what the clients need -----------------------------------------------------------------

# COMMAND=PACKAGE for programs, FILE=PACKAGE for libraries.
install_packages_for() {
    local missing=() pair
    for pair in "$@"; do
        [[ -e ${pair%=*} ]] || command -v "${pair%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [[ ${#missing[@]} == 0 ]] && return
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        fail "missing: ${missing[*]}. Install them, on Debian or Ubuntu with:
  sudo apt-get update && sudo apt-get install --yes ${missing[*]}"
    fi
    say "installing ${missing[*]} with apt-get (about two minutes)"
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends \
        "${missing[@]}" >/dev/null
}

# A folder of the cache named after the content of a file that pins versions.
pinned() { echo "$CACHE/$1-$(sha256sum "$2" | cut -c 1-16)"; }

install_venv() {
    VENV=$(pinned "$1" "$2")
    [[ -e $VENV/ready ]] && return
    say "fetching Python clients to $VENV (about a minute)"
    rm -rf "$VENV"
    python3 -m venv "$VENV"
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --requirement "$2"
    touch "$VENV/ready"
}

# install_node NAME FOLDER: what the package-lock.json of a folder names; it is in $MODULES.
install_node() {
    local folder
    folder=$(pinned "$1" "$2/package-lock.json")
    MODULES="$folder/node_modules"
    [[ -e $folder/ready ]] && return
    say "fetching Node.js clients to $folder (about half a minute)"
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$2/package.json" "$2/package-lock.json" "$folder"
    npm ci --prefix "$folder" --silent --no-audit --no-fund --ignore-scripts
    touch "$folder/ready"
}

# --- the server ----------------------------------------------------------------------------

start_server() {
    rm -f "$WORK/ready"
    TZ=UTC "$BINARY" server --data-dir "$WORK/data" --mysql-listen 127.0.0.1:0 \
        --http-listen 127.0.0.1:0 >"$WORK/ready" 2>"$WORK/server.log" &
    SERVER=$!
    local tenths=0
    until [[ -s $WORK/ready ]]; do
        kill -0 "$SERVER" 2>/dev/null || fail "the server ended: $(tail -n 5 "$WORK/server.log")"
        ((tenths++ < SERVER_SECONDS_MAX * 10)) || fail "no server after $SERVER_SECONDS_MAX s"
        sleep 0.1
    done
    local ports
    ports=$(grep -oE '127\.0\.0\.1:[0-9]+' "$WORK/ready" | cut -d : -f 2)
    CLIENT_MYSQL_PORT=$(sed -n 1p <<<"$ports")
    CLIENT_HTTP_PORT=$(sed -n 2p <<<"$ports")
    export CLIENT_MYSQL_PORT CLIENT_HTTP_PORT
}

stop_server() {
    [[ -z $SERVER ]] || kill "$SERVER" 2>/dev/null || true
    wait "$SERVER" 2>/dev/null || true
}

# --- the clients ---------------------------------------------------------------------------

client() {
    local name=$1 command=$2 argument=$3 began result=ok
    shift 3
    if [[ $# -gt 0 && " $* " != *" $name "* ]]; then return; fi
    began=$(date +%s%N)
    "$command" "$argument" >"$WORK/client.log" 2>&1 || result=FAILED
    printf '%-12s %-6s %5s ms\n' "$name" "$result" $((($(date +%s%N) - began) / 1000000))
    [[ $result == ok ]] && return
    FAILED=$((FAILED + 1))
    sed 's/^/    | /' "$WORK/client.log" | tail -n 30
    kill -0 "$SERVER" 2>/dev/null || fail "the server is gone: $(tail -n 20 "$WORK/server.log")"
}

bounded() { timeout --kill-after 5 "$CLIENT_SECONDS_MAX" "$@"; }

sql() { bounded "$(command -v mariadb || command -v mysql)" --no-defaults -h 127.0.0.1 \
    -P "$CLIENT_MYSQL_PORT" -uroot --batch --skip-column-names -e "$1"; }

# Fails unless a query answers this.
expect() {
    local found
    found=$(sql "$1")
    [[ $found == "$2" ]] && return
    echo "$1: expected $2, found $found"
    return 1
}

python_client() {
    PYTHONDONTWRITEBYTECODE=1 bounded "$VENV/bin/python" "tests/clients/python/$1.py" "${@:2}"
}
