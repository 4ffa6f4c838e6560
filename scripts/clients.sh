#!/usr/bin/env bash
# Real clients against the real server: the mariadb command line with the documentation's
# transcripts, curl with its stream loads, its Go and its Java program, drivers and frameworks of
# Python, Go, Java and Node.js, some of them over TLS, sysbench; what DataX, Metabase, Grafana,
# doris-streamloader and Superset send; every example of docs/connect; and TPC-H, with the answers
# that DuckDB gives. Names given as arguments choose clients. What they
# need is fetched once, in pinned versions, to ~/.cache/freshet.
set -euo pipefail
source "$(dirname "$0")/env.sh"
source scripts/clients_env.sh

main() {
    install_tools
    start_server
    client transcripts python_client transcripts "$@"
    client stream_load python_client stream_load "$@"
    client pymysql     python_client pymysql_client "$@"
    client sqlalchemy  python_client sqlalchemy_client "$@"
    client connector   python_client connector_client "$@"
    client passwords   password_clients passwords_client "$@"
    client tls         tls_clients tls_client "$@"
    client mysqlclient python_client mysqlclient_client "$@"
    client django      python_client django_client "$@"
    client pandas      python_client pandas_client "$@"
    client go          go_clients groupcommit "$@"
    client java        java_clients mysql-connector-j-9 "$@"
    client java8       java_clients mysql-connector-j-8 "$@"
    client java51      java_clients mysql-connector-java-5.1 "$@"
    client java_maria  java_clients mariadb-java-client-3 "$@"
    client datax       datax_client "" "$@"
    client metabase    metabase_client "" "$@"
    client grafana     go_program grafana "$@"
    client gorm        gorm_client gorm "$@"
    client streamloader streamloader_client "" "$@"
    client superset    python_client superset_client "$@"
    client mysql2      node_client mysql2_client "$@"
    client knex        node_client knex_client "$@"
    client sysbench    sysbench_client prepare "$@"
    client pages       pages_client "" "$@"
    client tpch        python_client tpch "$@"
    [[ $FAILED == 0 ]] || fail "$FAILED clients failed"
}

# --- what the clients need -----------------------------------------------------------------

install_tools() {
    python3 -c 'import ensurepip' 2>/dev/null || install_packages_for python3-venv=python3-venv
    install_packages_for mariadb=mariadb-client go=golang-go javac=default-jdk-headless mvn=maven \
        node=nodejs npm=npm sysbench=sysbench mariadb_config=libmariadb-dev pkg-config=pkg-config
    install_venv python tests/clients/python/requirements.txt
    install_node node tests/clients/node
    install_go
    install_java
}

install_go() {
    GO_BINARIES="$WORK/go"
    mkdir "$GO_BINARIES"
    (cd tests/clients/go && GOFLAGS=-mod=readonly go build -o "$GO_BINARIES/" ./...)
}

install_java() {
    JARS=$(pinned java tests/clients/java/pom.xml)
    if [[ ! -e $JARS/ready ]]; then
        say "fetching drivers for Java to $JARS (about half a minute)"
        mvn --quiet --batch-mode --file tests/clients/java/pom.xml \
            org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
            -DoutputDirectory="$JARS"
        touch "$JARS/ready"
    fi
    javac -d "$WORK/java" tests/clients/java/*.java
}

# --- the clients ---------------------------------------------------------------------------

# Once on a fresh store and once after a restart, which forgets what it had cached.
password_clients() {
    python_client "$1" first || return
    stop_server
    start_server
    python_client "$1" again
}

tls_clients() { python_client "$1" "$WORK/data" "$SERVER"; }

# Every example of docs/connect.
pages_client() {
    JARS=$JARS MODULES=$MODULES python_client pages
}

node_client() { NODE_PATH="$MODULES" bounded node "tests/clients/node/$1.js"; }

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
    local jar scheme=mysql
    jar=$(echo "$JARS/$1"*.jar)
    [[ $1 != mariadb* ]] || scheme=mariadb
    sql "DROP DATABASE IF EXISTS client_java; CREATE DATABASE client_java;
        CREATE TABLE client_java.dt (id int(11) NOT NULL, name varchar(50) NULL, score int(11) NULL)
        ENGINE=OLAP DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1
        PROPERTIES ('replication_num' = '1')" || return
    bounded java -Xshare:auto -cp "$jar:$WORK/java" GroupCommit "$CLIENT_MYSQL_PORT" $scheme ||
        return
    expect "SELECT COUNT(*), SUM(score), MAX(name) FROM client_java.dt" $'50\t725\tname9' || return
    bounded java -Xshare:auto -cp "$jar:$WORK/java" Checks "$CLIENT_MYSQL_PORT" $scheme
}

datax_client() {
    sql "DROP DATABASE IF EXISTS client_datax; CREATE DATABASE client_datax" || return
    java_program DataX mysql-connector-java-5.1 5.1 || return
    java_program DataX mysql-connector-j-8 8
}

# With its own driver, and with that of MySQL.
metabase_client() {
    local driver
    for driver in mariadb-java-client-2.7 mysql-connector-j-9; do
        sql "DROP DATABASE IF EXISTS client_metabase; CREATE DATABASE client_metabase;
            USE client_metabase;
            CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20));
            CREATE TABLE orders (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, person INT,
                price DECIMAL(8,2) NOT NULL DEFAULT 0 COMMENT 'with tax', at DATETIME, note TEXT,
                doc JSON, KEY by_person (person), FOREIGN KEY (person) REFERENCES people (id))
                COMMENT 'what was sold';
            CREATE VIEW recent AS SELECT id, at FROM orders WHERE at > '2024-02-01';
            INSERT INTO people VALUES (1, 'Ada'), (2, 'Grace');
            INSERT INTO orders (person, price, at, note, doc) VALUES
                (1, 1.5, '2024-02-29 13:14:15', 'first', '{\"a\": 2}'),
                (2, 10, '2024-02-29 20:00:00', NULL, NULL), (2, 10, '2023-12-31', NULL, NULL)" ||
            return
        java_program Metabase "$driver" || return
    done
}

# java_program CLASS DRIVER ARGUMENT...
java_program() {
    echo "$1 with $2"
    bounded java -Xshare:auto -cp "$(echo "$JARS/$2"*.jar):$WORK/java" "$1" "$CLIENT_MYSQL_PORT" \
        "${@:3}"
}

go_program() {
    sql "CREATE DATABASE IF NOT EXISTS client_go" || return
    bounded "$GO_BINARIES/$1" "$CLIENT_MYSQL_PORT"
}

gorm_client() {
    sql "DROP DATABASE IF EXISTS client_gorm; CREATE DATABASE client_gorm" || return
    bounded "$GO_BINARIES/$1" "$CLIENT_MYSQL_PORT"
}

streamloader_client() {
    sql "CREATE DATABASE IF NOT EXISTS client_go; DROP TABLE IF EXISTS client_go.loaded;
        CREATE TABLE client_go.loaded (id BIGINT NOT NULL, name VARCHAR(30), price DECIMAL(10,2))
        DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 4
        PROPERTIES ('replication_num' = '1')" || return
    bounded "$GO_BINARIES/streamloader" "$CLIENT_HTTP_PORT" || return
    expect "SELECT COUNT(*), COUNT(DISTINCT id), SUM(price) FROM client_go.loaded" \
        $'725000\t60000\t36068750.00'
}

# The workloads of sysbench, each for some hundred events, with prepared statements and without.
sysbench_client() {
    local mode workload
    for mode in auto disable; do
        sql "DROP DATABASE IF EXISTS sbtest; CREATE DATABASE sbtest" || return
        sysbench_run "$mode" oltp_read_write prepare || return
        for workload in oltp_point_select oltp_read_only select_random_points \
            select_random_ranges oltp_write_only oltp_read_write oltp_insert oltp_update_index \
            oltp_update_non_index oltp_delete; do
            sysbench_run "$mode" "$workload" run || return
        done
        sysbench_run "$mode" oltp_read_write cleanup || return
        sysbench_run "$mode" bulk_insert prepare || return
        sysbench_run "$mode" bulk_insert run || return
        expect "SELECT COUNT(*) >= 30 FROM (SELECT id FROM sbtest.sbtest1
            UNION ALL SELECT id FROM sbtest.sbtest2) AS t" 1 || return
    done
}

# sysbench_run MODE WORKLOAD COMMAND
sysbench_run() {
    echo "sysbench $2 $3, prepared statements: $1"
    bounded sysbench "$2" --db-driver=mysql --db-ps-mode="$1" --mysql-host=127.0.0.1 \
        --mysql-port="$CLIENT_MYSQL_PORT" --mysql-user=root --mysql-db=sbtest --tables=1 \
        --table-size=500 --threads=2 --events=30 --time=20 "$3"
}

main "$@"
