#!/usr/bin/env bash
# Starts Freshet, built for speed, for the benchmarks in the folder $1 and prints its target; what
# follows goes to `freshet server`. SERVER names another program than the one just built.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
shift
server="${SERVER:-$CARGO_TARGET_DIR/release/freshet}"
[[ -x $server ]] || fail "$server is missing; run this from make bench, which builds it"
mkdir -p "$folder/data"
mysql_port=$(free_port)
http_port=$(free_port)
# DROP TABLE of the peers is final too. Older versions, measured beside it, ignore what they lack.
export FRESHET_RECYCLE_BIN_KEEP=0
begin "$folder" "$server" server --data-dir "$folder/data" \
    --mysql-listen "127.0.0.1:$mysql_port" --http-listen "127.0.0.1:$http_port" "$@"
await_port "$mysql_port" "$folder"
await_port "$http_port" "$folder"
echo "freshet://root@127.0.0.1:$mysql_port/bench?name=freshet&http=$http_port\
&pid=$(cat "$folder/pid")&dir=$folder/data&sync=synced+log"
