#!/usr/bin/env bash
# Starts QuestDB 9.3 of Maven Central for the benchmarks in the folder $1 and prints its target.
# $2 is its commit mode: nosync (its default) or sync.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
mode=${2:-nosync}
VERSION=${QUESTDB_VERSION:-9.3.1}
jar="$CARGO_TARGET_DIR/peers/questdb-$VERSION.jar"
need java openjdk-17-jre-headless
need curl curl
if [[ ! -s $jar ]]; then
    mkdir -p "$(dirname "$jar")"
    curl --fail --silent --show-error --location --max-time 300 --output "$jar.part" \
        "https://repo1.maven.org/maven2/org/questdb/questdb/$VERSION/questdb-$VERSION.jar"
    mv "$jar.part" "$jar"
fi
mkdir -p "$folder/root/conf"
http_port=$(free_port)
postgres_port=$(free_port)
cat >"$folder/root/conf/server.conf" <<END
cairo.commit.mode=$mode
shared.worker.count=2
http.bind.to=127.0.0.1:$http_port
pg.net.bind.to=127.0.0.1:$postgres_port
pg.net.connection.limit=1000
http.net.connection.limit=1000
line.tcp.enabled=false
http.min.enabled=false
telemetry.enabled=false
END
begin "$folder" java -XX:+UseParallelGC -p "$jar" -m io.questdb/io.questdb.ServerMain \
    -d "$folder/root"
await_port "$postgres_port" "$folder"
await_port "$http_port" "$folder"
name=questdb
[[ $mode == nosync ]] || name=questdb-sync
echo "questdb://admin:quest@127.0.0.1:$postgres_port/qdb?name=$name&http=$http_port\
&pid=$(cat "$folder/pid")&sync=commit+mode+$mode"
