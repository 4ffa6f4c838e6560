#!/usr/bin/env bash
# Starts the null server for the benchmarks in the folder $1 and prints its target: MySQL's
# protocol and bodies over HTTP without any work, an answer when the next flush has ended.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
mkdir -p "$folder"
port=$(free_port)
http_port=$(free_port)
begin "$folder" "$CARGO_TARGET_DIR/release/freshet-bench" null-server --port "$port" \
    --http-port "$http_port" --flush-file "$folder/flush"
await_port "$port" "$folder"
echo "null://127.0.0.1:$port?name=null&http=$http_port&pid=$(cat "$folder/pid")"
