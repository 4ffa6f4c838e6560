#!/usr/bin/env bash
# make test-ecosystem: tools of MySQL that are large to install, against the real server: mydumper
# and myloader, R2DBC with two drivers, dbt. Names given as arguments choose some of them.
set -euo pipefail
source "$(dirname "$0")/env.sh"
source scripts/clients_env.sh

FILES=tests/clients/ecosystem

main() {
    install_packages_for mariadb=mariadb-client mydumper=mydumper javac=default-jdk-headless \
        mvn=maven
    install_venv dbt "$FILES/requirements.txt"
    install_reactive
    start_server
    client mydumper  mydumper_client client_dump "$@"
    client r2dbc     reactive_client mysql "$@"
    client r2dbc_maria reactive_client mariadb "$@"
    client dbt       dbt_client "$FILES/dbt" "$@"
    [[ $FAILED == 0 ]] || fail "$FAILED clients failed"
}

install_reactive() {
    JARS=$(pinned r2dbc "$FILES/pom.xml")
    [[ -e $JARS/ready ]] && return
    say "fetching drivers of R2DBC to $JARS (about half a minute)"
    mvn --quiet --batch-mode --file "$FILES/pom.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DoutputDirectory="$JARS"
    touch "$JARS/ready"
}

# A dump of a database, loaded under another name.
mydumper_client() {
    sql "CREATE DATABASE $1; CREATE TABLE $1.t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
            s VARCHAR(30), d DECIMAL(10,2), at DATETIME(3), b VARBINARY(10), KEY k (s));
        INSERT INTO $1.t (s, d, at, b) VALUES
            ('it''s \\\\', -1.5, '2024-02-29 23:59:59.123', X'00ff27'), (NULL, NULL, NULL, NULL);
        CREATE TABLE $1.u (a INT) ENGINE=OLAP DUPLICATE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 2;
        INSERT INTO $1.u VALUES (1), (1)" || return
    local server=(--host 127.0.0.1 --port "$CLIENT_MYSQL_PORT" --user root)
    bounded mydumper "${server[@]}" --database "$1" --outputdir "$WORK/dump" || return
    bounded myloader "${server[@]}" --database "$1_2" --directory "$WORK/dump" || return
    expect "SELECT id, s, d, at, HEX(b) FROM $1_2.t ORDER BY id LIMIT 1" \
        $'1\tit\'s \\\\\t-1.50\t2024-02-29 23:59:59.123\t00FF27' || return
    expect "SELECT (SELECT COUNT(*) FROM $1_2.t), (SELECT COUNT(*) FROM $1_2.u)" $'2\t2'
}

reactive_client() {
    sql "CREATE DATABASE IF NOT EXISTS client_r2dbc" || return
    bounded java -Xshare:auto -cp "$JARS/*" "$FILES/Reactive.java" "$1" "$CLIENT_MYSQL_PORT"
}

# Views, tables and tests of a project, in a copy, since dbt writes beside it.
dbt_client() {
    cp -r "$1" "$WORK/dbt"
    (cd "$WORK/dbt" && DO_NOT_TRACK=1 DBT_SEND_ANONYMOUS_USAGE_STATS=false \
        bounded "$VENV/bin/dbt" build --profiles-dir .) || return
    expect "SELECT SUM(price) FROM client_dbt.totals" 15.50
}

main "$@"
