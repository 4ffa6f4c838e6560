#!/usr/bin/env bash
# Starts PostgreSQL 15 for the benchmarks in the folder $1 and prints its target.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
binaries=/usr/lib/postgresql/15/bin
# The package makes and starts a cluster of its own unless it is told not to.
if [[ ! -x $binaries/postgres ]]; then
    mkdir -p /etc/postgresql-common 2>/dev/null && [[ -w /etc/postgresql-common ]] &&
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    install_package postgresql-15
fi
# It refuses to run as root.
as=()
mkdir -p "$folder/data"
if [[ $(id -u) == 0 ]]; then
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    chown postgres "$folder" "$folder/data"
    reachable "$folder"
fi
buffers_mib=$(memory_mib 6 4096)
"${as[@]}" "$binaries/initdb" --pgdata="$folder/data" --username=root --auth=trust \
    --encoding=UTF8 --locale=C >"$folder/install.log" 2>&1 ||
    { tail -n 20 "$folder/install.log" >&2; exit 1; }
port=$(free_port)
begin "$folder" "${as[@]}" "$binaries/postgres" -D "$folder/data" -p "$port" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories="$folder" \
    -c max_connections=600 -c shared_buffers="${buffers_mib}MB" -c max_wal_size=16GB \
    -c synchronous_commit=on
await_port "$port" "$folder"
for _ in $(seq 50); do
    "$binaries/createdb" --host=127.0.0.1 --port="$port" --username=root bench 2>/dev/null && break
    sleep 0.2
done
echo "postgres://root@127.0.0.1:$port/bench?name=postgres&pid=$(cat "$folder/pid")\
&sync=synchronous+commit"
