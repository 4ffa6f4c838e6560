#!/usr/bin/env bash
# make demo: builds the server, starts it, streams TPC-H lineitem and a web server's log into it,
# asks questions, and leaves it running. SF=0.1 makes it smaller, DATA_DIR and the two LISTEN
# variables put it elsewhere.
set -euo pipefail
source "$(dirname "$0")/env.sh"

SF="${SF:-1}"
DATA_DIR="${DATA_DIR:-$PWD/freshet-data}"
MYSQL_LISTEN="${MYSQL_LISTEN:-127.0.0.1:9030}"
HTTP_LISTEN="${HTTP_LISTEN:-127.0.0.1:8030}"
READY_SECONDS_MAX=120
PID_FILE="$DATA_DIR.pid"
LOG_FILE="$DATA_DIR.log"

scripts/setup.sh
build_release
scripts/demo-stop.sh

say "starting the server on $DATA_DIR"
nohup "$CARGO_TARGET_DIR/release/freshet" server --data-dir "$DATA_DIR" \
    --mysql-listen "$MYSQL_LISTEN" --http-listen "$HTTP_LISTEN" >"$LOG_FILE" 2>&1 </dev/null &
server=$!
echo "$server" >"$PID_FILE"
tenths=0
until grep --quiet --no-messages 'is ready' "$LOG_FILE"; do
    kill -0 "$server" 2>/dev/null || fail "the server did not start: $(tail -n 5 "$LOG_FILE")"
    ((tenths++ < READY_SECONDS_MAX * 10)) || fail "not ready after $READY_SECONDS_MAX s: $LOG_FILE"
    sleep 0.1
done
grep 'is ready' "$LOG_FILE"

say "streaming rows in (scale $SF: about a minute at scale 1 on two cores)"
"$CARGO_TARGET_DIR/release/freshet-bench" demo --scale "$SF" \
    --target "freshet://root:@$MYSQL_LISTEN/demo?http=${HTTP_LISTEN##*:}"

cat <<END

The server goes on running (process $server, data in $DATA_DIR).
  mysql -h ${MYSQL_LISTEN%:*} -P ${MYSQL_LISTEN##*:} -u root demo
  echo '2026-01-01 00:00:00|10.0.0.1|GET / HTTP/1.1|200|512' |
      curl --location-trusted -u root: -H 'column_separator:|' -T - \\
      http://$HTTP_LISTEN/api/demo/httplogs/_stream_load
Stop it with: make demo-stop
END
