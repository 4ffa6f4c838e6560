"""What Superset does through SQLAlchemy: databases, tables, views and columns of its lists, times cut
to grains, estimates, limits, uploads, and queries that are stopped."""

import datetime
import threading
import time

import pandas
from sqlalchemy import create_engine, inspect, text, types

from common import HOST, MYSQL_PORT, database_of, raises

DATABASE = database_of("superset")
URL = f"mysql+pymysql://root@{HOST}:{MYSQL_PORT}"

admin = create_engine(f"{URL}/", isolation_level="AUTOCOMMIT")
with admin.connect() as connection:
    for statement in (
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"USE {DATABASE}",
        "CREATE TABLE events (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, at DATETIME(3) "
        "COMMENT 'when', host VARCHAR(20) NOT NULL, ms INT, price DECIMAL(10,2), up TINYINT(1), "
        "kind ENUM('a', 'b'), doc JSON, raw BLOB, note LONGTEXT, KEY by_host (host, at)) "
        "COMMENT 'what was measured'",
        "INSERT INTO events (at, host, ms) VALUES ('2024-02-29 13:14:15.678', 'x', 10), "
        "('2024-12-31 23:59:59.999', 'y', 20), (NULL, 'x', NULL)",
        "CREATE VIEW slow AS SELECT at, ms FROM events WHERE ms > 10",
    ):
        connection.execute(text(statement))

# Queries run in another engine for each use, without a pool.
engine = create_engine(f"{URL}/{DATABASE}?charset=utf8mb4", pool_pre_ping=True)
inspector = inspect(engine)
assert DATABASE in inspector.get_schema_names()
assert inspector.get_table_names(schema=DATABASE) == ["events"]
assert inspector.get_view_names(schema=DATABASE) == ["slow"]
columns = {column["name"]: column for column in inspector.get_columns("events", schema=DATABASE)}
assert columns["at"]["comment"] == "when" and columns["at"]["type"].fsp == 3
assert not columns["host"]["nullable"] and columns["ms"]["nullable"]
assert columns["id"]["type"].unsigned and columns["id"]["autoincrement"]
for name, kind in (("id", types.BigInteger), ("price", types.Numeric), ("doc", types.JSON),
                   ("raw", types.LargeBinary), ("kind", types.Enum), ("note", types.String)):
    assert isinstance(columns[name]["type"], kind), columns[name]
assert [column["name"] for column in inspector.get_columns("slow", schema=DATABASE)] == ["at", "ms"]
assert inspector.get_pk_constraint("events", schema=DATABASE)["constrained_columns"] == ["id"]
assert inspector.get_foreign_keys("events", schema=DATABASE) == []
(index,) = inspector.get_indexes("events", schema=DATABASE)
assert (index["name"], index["column_names"]) == ("by_host", ["host", "at"]), index
assert inspector.get_unique_constraints("events", schema=DATABASE) == []
assert inspector.get_table_comment("events", schema=DATABASE) == {"text": "what was measured"}
definition = inspector.get_view_definition("slow", schema=DATABASE)
assert definition and "events" in definition

GRAINS = {
    "DATE_ADD(DATE(at), INTERVAL (HOUR(at)*60*60 + MINUTE(at)*60 + SECOND(at)) SECOND)":
        ["2024-02-29 13:14:15", "2024-12-31 23:59:59"],
    "DATE_ADD(DATE(at), INTERVAL (HOUR(at)*60 + MINUTE(at)) MINUTE)":
        ["2024-02-29 13:14:00", "2024-12-31 23:59:00"],
    "DATE_ADD(DATE(at), INTERVAL HOUR(at) HOUR)": ["2024-02-29 13:00:00", "2024-12-31 23:00:00"],
    "DATE(at)": ["2024-02-29", "2024-12-31"],
    "DATE(DATE_SUB(at, INTERVAL DAYOFWEEK(at) - 1 DAY))": ["2024-02-25", "2024-12-29"],
    "DATE(DATE_SUB(at, INTERVAL DAYOFWEEK(DATE_SUB(at, INTERVAL 1 DAY)) - 1 DAY))":
        ["2024-02-26", "2024-12-30"],
    "DATE(DATE_SUB(at, INTERVAL DAYOFMONTH(at) - 1 DAY))": ["2024-02-01", "2024-12-01"],
    "MAKEDATE(YEAR(at), 1) + INTERVAL QUARTER(at) QUARTER - INTERVAL 1 QUARTER":
        ["2024-01-01", "2024-10-01"],
    "DATE(DATE_SUB(at, INTERVAL DAYOFYEAR(at) - 1 DAY))": ["2024-01-01", "2024-01-01"],
}
with engine.connect() as connection:
    for grain, wanted in GRAINS.items():
        # Grouped by the name of the item, as a chart of times is.
        query = (f"SELECT {grain} AS __timestamp, COUNT(*) AS count, AVG(ms) AS `AVG(ms)` FROM events "
                 "WHERE at >= STR_TO_DATE('2024-01-01 00:00:00.000000', '%Y-%m-%d %H:%i:%s.%f') "
                 "AND at < STR_TO_DATE('2025-01-01 00:00:00.000000', '%Y-%m-%d %H:%i:%s.%f') "
                 f"GROUP BY {grain} ORDER BY `AVG(ms)` ASC LIMIT 50000")
        rows = connection.exec_driver_sql(query.replace("%", "%%"), ()).all()
        found = [str(row[0]) for row in rows]
        if rows[0][0] == rows[-1][0] or len(rows) == 1:
            found = found * 2
        assert found == wanted, (grain, found)
    assert connection.exec_driver_sql("SELECT from_unixtime(1709212455)").scalar() == (
        datetime.datetime(2024, 2, 29, 13, 14, 15))
    # What an editor sends: a query behind a limit, an estimate, a query inside a count.
    assert len(connection.exec_driver_sql("SELECT *\nFROM events\nLIMIT 1001").all()) == 3
    assert connection.exec_driver_sql("EXPLAIN SELECT * FROM events WHERE ms > 1").all()
    inner = "SELECT COUNT(*) AS rowcount FROM (SELECT host AS host FROM events GROUP BY host) AS rowcount_qry"
    assert connection.exec_driver_sql(inner).scalar() == 2
    # Totals joined with the largest series.
    series = connection.exec_driver_sql(
        "SELECT DATE(at) AS __timestamp, events.host AS host, SUM(ms) AS ms FROM events JOIN (SELECT host "
        "AS host__, SUM(ms) AS mme_inner__ FROM events GROUP BY host ORDER BY mme_inner__ DESC LIMIT 1) AS "
        "series_limit ON events.host = series_limit.host__ GROUP BY DATE(at), host ORDER BY ms DESC").all()
    assert series == [(datetime.date(2024, 12, 31), "y", 20)], series
    raises(1054, connection.exec_driver_sql, "SELECT nope FROM events")

# An upload, and what the editor makes of a query.
frame = pandas.DataFrame({"day": pandas.to_datetime(["2024-01-01", None]), "n": [1.5, None],
                          "name": ["it's", None]})
frame.to_sql("uploaded", engine, schema=DATABASE, if_exists="replace", index=False, chunksize=1000,
             method="multi")
frame.to_sql("uploaded", engine, schema=DATABASE, if_exists="append", index=False, method="multi")
with engine.begin() as connection:
    assert connection.exec_driver_sql("SELECT COUNT(*), SUM(n) FROM uploaded").one() == (4, 3)
    connection.exec_driver_sql("CREATE TABLE tmp_kept AS\nSELECT host, SUM(ms) AS ms FROM events GROUP BY host")
    assert connection.exec_driver_sql("SELECT COUNT(*) FROM tmp_kept").scalar() == 2


def stopped():
    """A query that another connection kills."""
    with engine.connect() as connection:
        ids.append(connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar())
        try:
            connection.exec_driver_sql("SELECT SLEEP(60)")
        except Exception as error:  # the connection is lost
            ids.append(error)


ids, began = [], time.monotonic()
thread = threading.Thread(target=stopped)
thread.start()
while not ids and time.monotonic() - began < 10:
    time.sleep(0.05)
time.sleep(0.2)
with engine.connect() as connection:
    connection.exec_driver_sql(f"KILL CONNECTION {ids[0]}")
thread.join(20)
assert not thread.is_alive() and time.monotonic() - began < 30, ids
