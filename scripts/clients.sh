#!/usr/bin/env bash
# Real clients against the real server: the mariadb command line with the documentation's
# transcripts, curl with its stream loads, its Go and its Java program, PyMySQL, SQLAlchemy,
# mysql-connector-python, go-sql-driver, Connector/J 9 and 5.1, some of them over TLS; and TPC-H,
# with the answers that DuckDB gives. Names given as arguments choose clients. What they need is
# fetched once, in pinned versions, to ~/.cache/freshet.
set -euo pipefail
source "$(dirname "$0")/env.sh"

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/freshet/clients"
CLIENT_SECONDS_MAX=180
SERVER_SECONDS_MAX=30
BINARY="$CARGO_TARGET_DIR/debug/freshet"
WORK=$(mktemp -d)
SERVER=""
FAILED=0

main() {
    [[ -x $BINARY ]] || fail "$BINARY is missing; make test builds it and runs this"
    install_tools
    install_python
    install_go
    install_java
    start_server
    client transcripts python_client transcripts "$@"
    client stream_load python_client stream_load "$@"
    client pymysql     python_client pymysql_client "$@"
    client sqlalchemy  python_client sqlalchemy_client "$@"
    client connector   python_client connector_client "$@"
    client passwords   password_clients passwords_client "$@"
    client tls         tls_clients tls_client "$@"
    client go          go_clients groupcommit "$@"
    client java        java_clients mysql-connector-j-9 "$@"
    client java51      java_clients mysql-connector-java-5.1 "$@"
    client tpch        python_client tpch "$@"
    [[ $FAILED == 0 ]] || fail "$FAILED clients failed"
}

# --- what the clients need -----------------------------------------------------------------

install_tools() {
    local missing=()
    command -v mariadb >/dev/null || command -v mysql >/dev/null || missing+=(mariadb-client)
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    command -v go >/dev/null || missing+=(golang-go)
    command -v javac >/dev/null || missing+=(default-jdk-headless)
    command -v mvn >/dev/null || missing+=(maven)
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

install_python() {
    PYTHON=$(pinned python tests/clients/python/requirements.txt)
    [[ -e $PYTHON/ready ]] && return
    say "fetching Python clients to $PYTHON (about half a minute)"
    rm -rf "$PYTHON"
    python3 -m venv "$PYTHON"
    "$PYTHON/bin/pip" install --quiet --disable-pip-version-check \
        --requirement tests/clients/python/requirements.txt
    touch "$PYTHON/ready"
}

install_go() {
    GO_BINARIES="$WORK/go"
    mkdir "$GO_BINARIES"
    (cd tests/clients/go && GOFLAGS=-mod=readonly go build -o "$GO_BINARIES/" ./...)
}

install_java() {
    JARS=$(pinned java tests/clients/java/pom.xml)
    if [[ ! -e $JARS/ready ]]; then
        say "fetching Connector/J to $JARS (about half a minute)"
        mvn --quiet --batch-mode --file tests/clients/java/pom.xml \
            org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
            -DoutputDirectory="$JARS"
        touch "$JARS/ready"
    fi
    javac -d "$WORK/java" tests/clients/java/*.java
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
trap 'stop_server; rm -rf "$WORK"' EXIT

# --- the clients ---------------------------------------------------------------------------

# client NAME COMMAND ARGUMENT [WANTED...]: runs it, unless other names are wanted.
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
    [[ $found == "$2" ]] || fail "$1: expected $2, found $found"
}

python_client() {
    PYTHONDONTWRITEBYTECODE=1 bounded "$PYTHON/bin/python" "tests/clients/python/$1.py" "${@:2}"
}

# Once on a fresh store and once after a restart, which forgets what it had cached.
password_clients() {
    python_client "$1" first || return
    stop_server
    start_server
    python_client "$1" again
}

tls_clients() { python_client "$1" "$WORK/data" "$SERVER"; }

go_clients() {
    sql "DROP DATABASE IF EXISTS client_go; CREATE DATABASE client_go;
        CREATE TABLE client_go.async_lineitem (
            l_orderkey INT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL,
            l_linenumber INT NOT NULL, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2),
            l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag CHAR(1),
            l_linestatus CHAR(1), l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE,
            l_shipinstruct CHAR(25), l_shipmode CHAR(10), l_comment VARCHAR(44))
        DUPLICATE KEY(l_orderkey, l_partkey, l_suppkey, l_linenumber)
        DISTRIBUTED BY HASH(l_orderkey) BUCKETS 4 PROPERTIES ('replication_num' = '1')" || return
    bounded "$GO_BINARIES/$1" "$CLIENT_MYSQL_PORT" || return
    expect "SELECT COUNT(*), MIN(l_quantity), MAX(l_shipmode) FROM client_go.async_lineitem" \
        $'40000\t1.00\tSHIP' || return
    bounded "$GO_BINARIES/checks" "$CLIENT_MYSQL_PORT"
}

java_clients() {
    local jar
    jar=$(echo "$JARS/$1"*.jar)
    sql "DROP DATABASE IF EXISTS client_java; CREATE DATABASE client_java;
        CREATE TABLE client_java.dt (id int(11) NOT NULL, name varchar(50) NULL, score int(11) NULL)
        ENGINE=OLAP DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1
        PROPERTIES ('replication_num' = '1')" || return
    bounded java -Xshare:auto -cp "$jar:$WORK/java" GroupCommit "$CLIENT_MYSQL_PORT" || return
    expect "SELECT COUNT(*), SUM(score), MAX(name) FROM client_java.dt" $'50\t725\tname9' || return
    bounded java -Xshare:auto -cp "$jar:$WORK/java" Checks "$CLIENT_MYSQL_PORT"
}

main "$@"
