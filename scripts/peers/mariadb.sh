#!/usr/bin/env bash
# Starts MariaDB for the benchmarks in the folder $1 and prints its target; what follows goes to
# mariadbd. The caller stops it.
# Settings are those of somebody who wants speed and keeps every commit: a thread pool as wide as
# the machine, a quarter of the memory as buffer pool, a log of 4 GiB, a flush at every commit.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
shift
need mariadbd mariadb-server-core
mkdir -p "$folder/data"
# A MariaDB that starts deletes the temporary tables in its TMPDIR, those of another one too.
export TMPDIR="$folder"
pool_mib=$(memory_mib 4 6144)
mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$folder/data" --skip-test-db \
    --auth-root-authentication-method=normal >"$folder/install.log" 2>&1 ||
    { tail -n 20 "$folder/install.log" >&2; exit 1; }
port=$(free_port)
begin "$folder" mariadbd --no-defaults --user="$(id -un)" --datadir="$folder/data" \
    --bind-address=127.0.0.1 --port="$port" --socket="$folder/socket" \
    --thread-handling=pool-of-threads --thread-pool-size=2 --max-connections=2000 \
    --innodb-buffer-pool-size="${pool_mib}M" --innodb-log-file-size=4G \
    --innodb-flush-method=O_DIRECT --innodb-flush-log-at-trx-commit=1 \
    --skip-log-bin --local-infile=ON --max-allowed-packet=256M \
    --max-prepared-stmt-count=100000 --skip-name-resolve "$@"
await_port "$port" "$folder"
echo "mysql://root@127.0.0.1:$port/bench?name=mariadb&pid=$(cat "$folder/pid")&dir=$folder/data\
&sync=flush+at+every+commit"
