"""Loads TPC-H into DuckDB and chdb and runs its 22 queries; prints lines of JSON.

Rows come from DuckDB's own generator, written once as text, so that both engines load the same
files; two threads, as everybody on this benchmark.
"""

import json
import pathlib
import re
import sys
import time

THREADS = 2
SCALE = 1
RUNS = 3
TABLES = ["region", "nation", "supplier", "part", "customer", "partsupp", "orders", "lineitem"]


def say(step, target, seconds, rows):
    line = {"format": 1, "tpch": step, "target": target, "seconds": seconds, "rows": rows}
    print(json.dumps(line), flush=True)


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def queries(folder):
    for number in range(1, 23):
        text = (folder / f"q{number:02}.sql").read_text()
        yield f"q{number}", text.strip().rstrip(";")


def duckdb_all(folder, sql):
    import duckdb

    maker = duckdb.connect()
    maker.execute(f"INSTALL tpch; LOAD tpch; CALL dbgen(sf={SCALE})")
    schemas = {}
    for table in TABLES:
        schemas[table] = maker.execute(f"DESCRIBE {table}").fetchall()
        maker.execute(f"COPY {table} TO '{folder}/{table}.csv' (HEADER false, DELIMITER '|')")
    maker.close()
    database = duckdb.connect(f"{folder}/duckdb.db")
    database.execute(f"SET threads = {THREADS}")
    for table in TABLES:
        columns = ", ".join(f"{row[0]} {row[1]}" for row in schemas[table])
        database.execute(f"CREATE TABLE {table} ({columns})")
        load = f"COPY {table} FROM '{folder}/{table}.csv' (HEADER false, DELIMITER '|')"
        seconds, rows = timed(lambda: database.execute(load).fetchone()[0])
        say(f"load {table}", "duckdb", seconds, rows)
    for name, text in queries(sql):
        for _ in range(RUNS):
            seconds, rows = timed(lambda: database.execute(text).fetchall())
            say(name, "duckdb", seconds, len(rows))
    database.close()
    return schemas


def chdb_type(name):
    plain = {"BIGINT": "Int64", "INTEGER": "Int32", "DATE": "Date", "VARCHAR": "String"}
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)
    return f"Decimal({decimal[1]}, {decimal[2]})" if decimal else plain[name]


def chdb_all(folder, sql, schemas):
    from chdb import session

    database = session.Session(f"{folder}/chdb")
    database.query(f"SET max_threads = {THREADS}")
    database.query("CREATE DATABASE tpch ENGINE = Atomic")
    database.query("USE tpch")
    for table in TABLES:
        columns = ", ".join(f"{row[0]} {chdb_type(row[1])}" for row in schemas[table])
        key = schemas[table][0][0]
        database.query(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY {key}")
        load = (
            f"INSERT INTO {table} SELECT * FROM file('{folder}/{table}.csv', 'CSV', '{columns}')"
            " SETTINGS format_csv_delimiter = '|'"
        )
        seconds, _ = timed(lambda: database.query(load))
        rows = int(str(database.query(f"SELECT count() FROM {table}")).strip())
        say(f"load {table}", "chdb", seconds, rows)
    for name, text in queries(sql):
        for _ in range(RUNS):
            try:
                seconds, answer = timed(lambda: str(database.query(text)))
            except Exception as error:
                print(f"chdb {name}: {error}", file=sys.stderr)
                break
            say(name, "chdb", seconds, len(answer.splitlines()))


def main():
    folder, sql = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    schemas = duckdb_all(folder, sql)
    chdb_all(folder, sql, schemas)


if __name__ == "__main__":
    main()
