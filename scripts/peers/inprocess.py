"""Loads TPC-H into engines that run in process and runs its 22 queries; prints lines of JSON.

`inprocess.py FOLDER QUERIES ENGINE...`: DuckDB and chdb load the files that `freshet-bench
tpch-files` wrote to FOLDER, DataFusion reads Parquet files that DuckDB writes from them. All take
two threads, as everybody on this benchmark. An engine runs in a process of its own, so that none
leaves memory or threads to the next.
"""

import json
import pathlib
import subprocess
import sys
import time

THREADS = 2
RUNS = 3
TABLES = ["region", "nation", "supplier", "part", "customer", "partsupp", "orders", "lineitem"]


def say(step, target, seconds, rows):
    line = {"format": 1, "tpch": step, "target": target, "seconds": seconds, "rows": rows}
    print(json.dumps(line), flush=True)


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def run_queries(target, folder, run):
    """Runs each query some times; `run` returns how many rows came."""
    for number in range(1, 23):
        text = (folder / f"q{number:02}.sql").read_text().strip().rstrip(";")
        for _ in range(RUNS):
            try:
                seconds, rows = timed(lambda: run(text))
            except Exception as error:  # Each engine refuses in its own way.
                print(f"{target} q{number}: {error}", file=sys.stderr)
                break
            say(f"q{number}", target, seconds, rows)


def run_duckdb(folder, queries):
    import duckdb

    database = duckdb.connect(f"{folder}/duckdb.db")
    database.execute(f"SET threads = {THREADS}")
    for table in TABLES:
        database.execute((folder / f"{table}.postgres.sql").read_text())
        load = f"COPY {table} FROM '{folder}/{table}.csv' (HEADER false, DELIMITER '|')"
        seconds, rows = timed(lambda: database.execute(load).fetchone()[0])
        say(f"load {table}", "duckdb", seconds, rows)
    run_queries("duckdb", queries, lambda text: len(database.execute(text).fetchall()))
    database.close()


def run_datafusion(folder, queries):
    import datafusion
    import duckdb

    database = duckdb.connect()
    for table in TABLES:
        database.execute((folder / f"{table}.postgres.sql").read_text())
        database.execute(f"COPY {table} FROM '{folder}/{table}.csv' (HEADER false, DELIMITER '|')")
        database.execute(f"COPY {table} TO '{folder}/{table}.parquet' (FORMAT parquet)")
    database.close()
    context = datafusion.SessionContext(
        datafusion.SessionConfig().with_target_partitions(THREADS)
    )
    for table in TABLES:
        context.register_parquet(table, f"{folder}/{table}.parquet")
    run_queries(
        "datafusion",
        queries,
        lambda text: sum(batch.num_rows for batch in context.sql(text).collect()),
    )


def run_chdb(folder, queries):
    from chdb import session

    database = session.Session(f"{folder}/chdb")
    database.query(f"SET max_threads = {THREADS}")
    database.query("CREATE DATABASE tpch ENGINE = Atomic")
    database.query("USE tpch")
    for table in TABLES:
        create = (folder / f"{table}.clickhouse.sql").read_text()
        columns = create[create.index("(") + 1 : create.index(") ENGINE")]
        database.query(create)
        load = (
            f"INSERT INTO {table} SELECT * FROM file('{folder}/{table}.csv', 'CSV', '{columns}')"
            " SETTINGS format_csv_delimiter = '|'"
        )
        seconds, _ = timed(lambda: database.query(load))
        rows = int(str(database.query(f"SELECT count() FROM {table}")).strip())
        say(f"load {table}", "chdb", seconds, rows)
    run_queries("chdb", queries, lambda text: len(str(database.query(text)).splitlines()))


ENGINES = {"duckdb": run_duckdb, "datafusion": run_datafusion, "chdb": run_chdb}


def main():
    folder, queries = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    engines = sys.argv[3:]
    if len(engines) == 1:
        ENGINES[engines[0]](folder, queries)
        return
    command = [sys.executable, __file__, str(folder), str(queries)]
    codes = [subprocess.run([*command, engine]).returncode for engine in engines or ENGINES]
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
