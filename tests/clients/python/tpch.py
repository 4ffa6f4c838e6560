"""TPC-H: its eight tables through Stream Load, its 22 queries unchanged, and the answers that
DuckDB gives on the same data. CLIENT_TPCH_SCALE says how much."""

import datetime
import decimal
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import duckdb
import pymysql

from common import HOST, HTTP_PORT, MYSQL_PORT, database_of

SCALE = os.environ.get("CLIENT_TPCH_SCALE", "0.1")
DATABASE = database_of("tpch")
QUERIES = pathlib.Path(__file__).parents[3] / "crates/query/tests/tpch"
MONEY = "decimal(15,2)"
TABLES = {
    "region": "r_regionkey int, r_name char(25), r_comment varchar(152)",
    "nation": "n_nationkey int, n_name char(25), n_regionkey int, n_comment varchar(152)",
    "supplier": f"s_suppkey int, s_name char(25), s_address varchar(40), s_nationkey int, "
                f"s_phone char(15), s_acctbal {MONEY}, s_comment varchar(101)",
    "part": f"p_partkey int, p_name varchar(55), p_mfgr char(25), p_brand char(10), "
            f"p_type varchar(25), p_size int, p_container char(10), p_retailprice {MONEY}, "
            f"p_comment varchar(23)",
    "partsupp": f"ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost {MONEY}, "
                f"ps_comment varchar(199)",
    "customer": f"c_custkey int, c_name varchar(25), c_address varchar(40), c_nationkey int, "
                f"c_phone char(15), c_acctbal {MONEY}, c_mktsegment char(10), "
                f"c_comment varchar(117)",
    "orders": f"o_orderkey bigint, o_custkey int, o_orderstatus char(1), o_totalprice {MONEY}, "
              f"o_orderdate date, o_orderpriority char(15), o_clerk char(15), "
              f"o_shippriority int, o_comment varchar(79)",
    "lineitem": f"l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, "
                f"l_quantity {MONEY}, l_extendedprice {MONEY}, l_discount {MONEY}, "
                f"l_tax {MONEY}, l_returnflag char(1), l_linestatus char(1), l_shipdate date, "
                f"l_commitdate date, l_receiptdate date, l_shipinstruct char(25), "
                f"l_shipmode char(10), l_comment varchar(44)",
}


def names(definition):
    """Column names of a table, types with commas in them left out."""
    return [column.split()[0] for column in re.sub(r"\(.*?\)", "", definition).split(",")]


def generate(folder):
    generator = pathlib.Path(sys.executable).parent / "tpchgen-cli"
    command = [generator, "tbl", "-s", SCALE, "--output-dir", folder]
    subprocess.run(command, check=True, capture_output=True)


def fill_duckdb(judge, folder):
    for table, definition in TABLES.items():
        judge.execute(f"CREATE TABLE {table} ({definition})")
        columns = ", ".join(names(definition))
        judge.execute(
            f"INSERT INTO {table} SELECT {columns} FROM read_csv('{folder}/{table}.tbl', "
            f"delim='|', header=false, quote='', all_varchar=true, "
            f"names={names(definition) + ['rest']})"
        )


def fill_freshet(connection, folder):
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(f"USE {DATABASE}")
    for table, definition in TABLES.items():
        key = names(definition)[0]
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {table} ({definition}) DUPLICATE KEY({key}) "
                           f"DISTRIBUTED BY HASH({key}) BUCKETS 2")
        columns = ",".join(names(definition) + ["rest"])
        url = f"http://{HOST}:{HTTP_PORT}/api/{DATABASE}/{table}/_stream_load"
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--location-trusted", "-u", "root:",
             "-H", "column_separator:|", "-H", f"columns:{columns}", "-T",
             f"{folder}/{table}.tbl", url],
            capture_output=True, text=True, check=True)
        assert '"Success"' in done.stdout, f"{table}: {done.stdout}"


def plain(value):
    """A value that can be compared and sorted, whichever engine it is from."""
    if isinstance(value, (int, float, decimal.Decimal)):
        return float(value)
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()[:10]
    return value.rstrip() if isinstance(value, str) else value


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=2e-6)
    return left == right


def ordered_by(query, columns):
    """Places of the columns that the last ORDER BY names."""
    parts = re.split(r"\border\s+by\b", query, flags=re.IGNORECASE)
    if len(parts) == 1 or ")" in parts[-1]:
        return []
    keys = re.sub(r"\blimit\b.*|;", "", parts[-1], flags=re.IGNORECASE | re.DOTALL)
    wanted = [re.split(r"\s+", key.strip())[0].lower() for key in keys.split(",")]
    return [columns.index(name) for name in wanted]


def differs(query, columns, found, expected):
    """What is wrong with the rows found, or None."""
    if len(found) != len(expected):
        return f"{len(found)} rows, not {len(expected)}"
    keys = ordered_by(query, columns)
    for number, (left, right) in enumerate(zip(found, expected)):
        if not all(same(left[key], right[key]) for key in keys):
            return f"row {number} in order: {left}, not {right}"
    def rounded(row):
        return [round(v, 2) if isinstance(v, float) else v for v in row]

    for left, right in zip(sorted(found, key=rounded), sorted(expected, key=rounded)):
        if not all(map(same, left, right)):
            return f"{left}, not {right}"
    return None


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        generate(folder)
        judge = duckdb.connect()
        fill_duckdb(judge, folder)
        connection = pymysql.connect(host=HOST, port=MYSQL_PORT, user="root", autocommit=True)
        fill_freshet(connection, folder)
    for path in sorted(QUERIES.glob("q*.sql")):
        query = path.read_text()
        expected = [[plain(v) for v in row] for row in judge.execute(query).fetchall()]
        began = time.monotonic()
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                found = [[plain(v) for v in row] for row in cursor.fetchall()]
                columns = [column[0].lower() for column in cursor.description]
            wrong = differs(query, columns, found, expected)
        except pymysql.MySQLError as error:
            wrong = str(error)
        seconds = time.monotonic() - began
        print(f"{path.stem} {seconds:6.2f} s, {len(expected):5} rows: {wrong or 'ok'}", flush=True)
        failures += wrong is not None
    sys.exit(f"{failures} of 22 queries differ" if failures else None)


main()
