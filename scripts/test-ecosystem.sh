#!/usr/bin/env bash
# make test-ecosystem: tools of MySQL that are large to install, against the real server: mydumper
# and myloader, R2DBC with two drivers, JMeter, dbt with two adapters, three drivers of Rust,
# Prisma, the migrations and ORMs of Java and Node.js; and the pages of docs/connect about them.
# Names given as arguments choose some of them.
set -euo pipefail
source "$(dirname "$0")/env.sh"
source scripts/clients_env.sh

FILES=tests/clients/ecosystem

main() {
    install_packages_for mariadb=mariadb-client mydumper=mydumper javac=default-jdk-headless \
        mvn=maven node=nodejs npm=npm
    install_node tools "$FILES/node"
    NODE_TOOLS=$MODULES
    install_node prisma "$FILES/prisma"
    install_venv python tests/clients/python/requirements.txt
    PYTHON=$VENV
    install_venv dbt "$FILES/requirements.txt"
    DBT=$VENV
    install_venv dbt_mysql "$FILES/dbt_mysql/requirements.txt"
    DBT_MYSQL=$VENV
    VENV=$PYTHON
    install_rust_clients
    install_reactive
    install_jars tools "$FILES/java/pom.xml"
    JAVA_TOOLS=$JARS
    install_jmeter
    start_server
    client mydumper  mydumper_client client_dump "$@"
    client r2dbc     reactive_client mysql "$@"
    client r2dbc_maria reactive_client mariadb "$@"
    client jmeter    jmeter_client "$FILES/jmeter/inserts.jmx" "$@"
    client dbt       dbt_client dbt "$@"
    client dbt_mysql dbt_mysql_client dbt_mysql "$@"
    client sqlx      rust_client sqlx "$@"
    client mysql_async rust_client mysql_async "$@"
    client diesel    rust_client diesel "$@"
    client rust_page rust_page rust "$@"
    client prisma    prisma_client "$FILES/prisma" "$@"
    client prisma_page prisma_page prisma "$@"
    client java_tools java_page java-tools "$@"
    client node_tools node_page node-tools "$@"
    [[ $FAILED == 0 ]] || fail "$FAILED clients failed"
}

# install_jars NAME POM: what a pom.xml names and what that needs; it is in $JARS.
install_jars() {
    JARS=$(pinned "$1" "$2")
    [[ -e $JARS/ready ]] && return
    say "fetching jars of $1 to $JARS (about half a minute)"
    rm -rf "$JARS"
    mvn --quiet --batch-mode --file "$2" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DoutputDirectory="$JARS"
    touch "$JARS/ready"
}

install_reactive() {
    install_jars r2dbc "$FILES/pom.xml"
    R2DBC=$JARS
}

# In the folders that it looks for its own parts in; a jar of Maven has its settings.
install_jmeter() {
    install_jars jmeter "$FILES/jmeter/pom.xml"
    JMETER=$JARS/home
    [[ -e $JMETER/ready ]] && return
    rm -rf "$JMETER"
    mkdir -p "$JMETER/lib/ext" "$JMETER/lib/junit"
    (cd "$JMETER" && jar -xf "$JARS"/ApacheJMeter_config-*.jar bin)
    ln "$JARS"/*.jar "$JMETER/lib"
    mv "$JMETER"/lib/ApacheJMeter_*.jar "$JMETER/lib/ext"
    mv "$JMETER"/lib/ApacheJMeter-*.jar "$JMETER/bin/ApacheJMeter.jar"
    touch "$JMETER/ready"
}

# A copy in a folder of the cache, since cargo builds anew for each folder that a clone may be in.
install_rust_clients() {
    RUST=$(pinned rust tests/clients/rust/Cargo.lock)
    [[ -d $RUST ]] || say "building drivers of Rust in $RUST (about a minute)"
    mkdir -p "$RUST/clients"
    cp -r tests/clients/rust/. "$RUST/clients"
    CARGO_INCREMENTAL=0 cargo build --quiet --locked --manifest-path "$RUST/clients/Cargo.toml" \
        --target-dir "$RUST" --bin freshet-rust-clients
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
    bounded java -Xshare:auto -cp "$R2DBC/*" "$FILES/Reactive.java" "$1" "$CLIENT_MYSQL_PORT"
}

# The inserts that the benchmarks of Doris make, with few threads. JMeter itself ends well even if
# its statements failed: the results say so.
jmeter_client() {
    sql "CREATE DATABASE client_jmeter; CREATE TABLE client_jmeter.lineitem (
            L_ORDERKEY INTEGER NOT NULL, L_PARTKEY INTEGER NOT NULL, L_SUPPKEY INTEGER NOT NULL,
            L_LINENUMBER INTEGER NOT NULL, L_QUANTITY DECIMAL(15,2) NOT NULL,
            L_EXTENDEDPRICE DECIMAL(15,2) NOT NULL, L_DISCOUNT DECIMAL(15,2) NOT NULL,
            L_TAX DECIMAL(15,2) NOT NULL, L_RETURNFLAG CHAR(1) NOT NULL,
            L_LINESTATUS CHAR(1) NOT NULL, L_SHIPDATE DATE NOT NULL, L_COMMITDATE DATE NOT NULL,
            L_RECEIPTDATE DATE NOT NULL, L_SHIPINSTRUCT CHAR(25) NOT NULL,
            L_SHIPMODE CHAR(10) NOT NULL, L_COMMENT VARCHAR(44) NOT NULL)
        DUPLICATE KEY(L_ORDERKEY, L_PARTKEY, L_SUPPKEY, L_LINENUMBER)
        DISTRIBUTED BY HASH(L_ORDERKEY) BUCKETS 32 PROPERTIES ('replication_num' = '3');
        CREATE TABLE client_jmeter.tbl (a INT, b INT) DUPLICATE KEY(a)
        DISTRIBUTED BY HASH(a) BUCKETS 2 PROPERTIES ('replication_num' = '1')" || return
    bounded java -Xshare:auto -Djava.awt.headless=true -Djava.util.prefs.userRoot="$WORK" \
        -jar "$JMETER/bin/ApacheJMeter.jar" --nongui --testfile "$1" --logfile "$WORK/jmeter.jtl" \
        --jmeterlogfile "$WORK/jmeter.log" --jmeterproperty port="$CLIENT_MYSQL_PORT" \
        --jmeterproperty jmeterengine.nongui.port=0 || return
    grep ',false,' "$WORK/jmeter.jtl" | head -n 5
    expect "SELECT COUNT(*), COUNT(DISTINCT L_ORDERKEY), SUM(L_DISCOUNT), MAX(L_SHIPDATE),
        COUNT(DISTINCT L_PARTKEY) FROM client_jmeter.lineitem" \
        $'400\t400\t16.00\t1996-03-13\t8' || return
    expect "SELECT COUNT(*), SUM(a) FROM client_jmeter.tbl" $'20000\t10010000'
}

# Views, tables and tests of a project; twice, since the second time it puts what it builds in place
# of what is there.
dbt_client() {
    dbt_build "$DBT" "$1" || return
    dbt_build "$DBT" "$1" || return
    expect "SELECT SUM(price) FROM client_dbt.totals" 15.50
}

# Seeds and snapshots too, and tables to which the second time adds.
dbt_mysql_client() {
    dbt_build "$DBT_MYSQL" "$1" || return
    dbt_build "$DBT_MYSQL" "$1" || return
    expect "SELECT COUNT(*), SUM(price) FROM client_dbt_mysql.added" $'2\t15.5' || return
    expect "SELECT COUNT(*), COUNT(dbt_valid_to) FROM client_dbt_mysql.kept" $'2\t0'
}

# dbt_build ENVIRONMENT PROJECT: in a copy, since dbt writes beside it.
dbt_build() {
    rm -rf "${WORK:?}/$2"
    cp -r "$FILES/$2" "$WORK/$2"
    (cd "$WORK/$2" && DO_NOT_TRACK=1 DBT_SEND_ANONYMOUS_USAGE_STATS=false \
        bounded "$1/bin/dbt" --no-use-colors build --profiles-dir .)
}

rust_client() { bounded "$RUST/debug/freshet-rust-clients" "$1" "$CLIENT_MYSQL_PORT"; }

rust_page() { RUST=$RUST CARGO_INCREMENTAL=0 python_client pages "$1"; }

# Its client in a copy, since it is generated beside its schema. To generate it Prisma would
# download the program of its migrations, unless it is told of one.
prisma_client() {
    sql "DROP DATABASE IF EXISTS client_prisma; CREATE DATABASE client_prisma; USE client_prisma;
        CREATE TABLE User (id INT NOT NULL AUTO_INCREMENT, email VARCHAR(191) NOT NULL,
            name VARCHAR(191) NULL, UNIQUE INDEX User_email_key (email), PRIMARY KEY (id))
            DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
        CREATE TABLE Post (id BIGINT NOT NULL AUTO_INCREMENT, title VARCHAR(255) NOT NULL,
            price DECIMAL(10,2) NOT NULL DEFAULT 0,
            at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), stamp TIMESTAMP(0) NULL,
            day DATE NULL, doc JSON NULL, raw LONGBLOB NULL, ratio DOUBLE NULL,
            published BOOLEAN NOT NULL DEFAULT false, authorId INT NOT NULL,
            INDEX Post_authorId_idx (authorId), PRIMARY KEY (id))
            DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci" || return
    cp -r "$1" "$WORK/prisma"
    ln -s "$MODULES" "$WORK/prisma/node_modules"
    (cd "$WORK/prisma" && without_downloads npx prisma generate) || return
    bounded node "$WORK/prisma/prisma_client.js"
}

prisma_page() {
    MODULES=$MODULES without_downloads "$VENV/bin/python" tests/clients/python/pages.py "$1"
}

java_page() { JARS=$JAVA_TOOLS python_client pages "$1"; }

node_page() { MODULES=$NODE_TOOLS python_client pages "$1"; }

without_downloads() {
    PRISMA_SCHEMA_ENGINE_BINARY=/bin/true CHECKPOINT_DISABLE=1 PRISMA_HIDE_UPDATE_MESSAGE=1 \
        PYTHONDONTWRITEBYTECODE=1 bounded "$@"
}

main "$@"
