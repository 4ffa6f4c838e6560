#!/usr/bin/env bash
# Starts ClickHouse 18.16 of Debian for the benchmarks in the folder $1 and prints its target: as it
# comes, which means without a sync.
set -euo pipefail
source "$(dirname "$0")/peer.sh"

folder=$1
need clickhouse-server clickhouse-server
mkdir -p "$folder/data" "$folder/tmp"
http_port=$(free_port)
tcp_port=$(free_port)
cat >"$folder/users.xml" <<'END'
<yandex>
  <profiles><default><max_memory_usage>4000000000</max_memory_usage></default></profiles>
  <users><default><password></password><profile>default</profile><quota>default</quota>
    <networks><ip>127.0.0.1</ip></networks></default></users>
  <quotas><default/></quotas>
</yandex>
END
cat >"$folder/config.xml" <<END
<yandex>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>$http_port</http_port>
  <tcp_port>$tcp_port</tcp_port>
  <path>$folder/data/</path>
  <tmp_path>$folder/tmp/</tmp_path>
  <users_config>$folder/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <mark_cache_size>1000000000</mark_cache_size>
  <max_connections>200</max_connections>
  <keep_alive_timeout>60</keep_alive_timeout>
</yandex>
END
begin "$folder" "$(command -v clickhouse-server)" --config-file="$folder/config.xml"
await_port "$http_port" "$folder"
echo "clickhouse://127.0.0.1:$http_port/default?name=clickhouse&http=$http_port\
&pid=$(cat "$folder/pid")&sync=no+sync"
