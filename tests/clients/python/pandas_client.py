"""pandas: frames to tables and back, in pieces, with every type of column, through SQLAlchemy."""

import datetime

import numpy
import pandas
from sqlalchemy import create_engine, text, types

from common import HOST, MYSQL_PORT, database_of

DATABASE = database_of("pandas")
URL = f"mysql+pymysql://root:@{HOST}:{MYSQL_PORT}"

with create_engine(URL, isolation_level="AUTOCOMMIT").connect() as admin:
    admin.execute(text(f"DROP DATABASE IF EXISTS {DATABASE}"))
    admin.execute(text(f"CREATE DATABASE {DATABASE}"))
engine = create_engine(f"{URL}/{DATABASE}")

ROWS = 3000
frame = pandas.DataFrame({
    "i": numpy.arange(ROWS, dtype="int64"),
    "f": numpy.arange(ROWS) / 8,
    "s": [f"name {i} \u00fc" for i in range(ROWS)],
    "at": pandas.date_range("2024-01-01", periods=ROWS, freq="min"),
    "flag": [i % 3 == 0 for i in range(ROWS)],
})
frame.loc[5, ["f", "s"]] = [None, None]

assert frame.to_sql("t", engine, index=False, chunksize=700, method="multi") == ROWS
back = pandas.read_sql("SELECT * FROM t ORDER BY i", engine)
assert back["i"].sum() == ROWS * (ROWS - 1) // 2
assert back["f"].isna().sum() == 1 and back["f"].sum() == frame["f"].sum()
assert back["s"].dropna().tolist() == frame["s"].dropna().tolist()
assert (back["at"] == frame["at"]).all() and back["at"].dtype.kind == "M"
assert back["flag"].astype(bool).tolist() == frame["flag"].tolist()

by_name = pandas.read_sql_table("t", engine, index_col="i", columns=["s", "at"])
assert len(by_name) == ROWS and by_name.loc[7, "s"] == "name 7 \u00fc"
pieces = pandas.read_sql(text("SELECT i FROM t WHERE i < :n"), engine, params={"n": 1000},
                         chunksize=300)
assert [len(piece) for piece in pieces] == [300, 300, 300, 100]
dated = pandas.read_sql("SELECT i, at FROM t WHERE i = 1", engine, parse_dates=["at"])
assert dated["at"][0] == datetime.datetime(2024, 1, 1, 0, 1)

# An index becomes a column with a key; types may be chosen; a table may grow or be replaced.
daily = frame.set_index("at").resample("D")["i"].agg(["count", "sum"])
daily.to_sql("daily", engine, index_label="day", if_exists="replace",
             dtype={"day": types.DateTime(), "count": types.Integer()})
daily.to_sql("daily", engine, index_label="day", if_exists="append",
             dtype={"day": types.DateTime(), "count": types.Integer()})
assert pandas.read_sql("SELECT SUM(`count`) AS n FROM daily", engine)["n"][0] == 2 * ROWS
daily.to_sql("daily", engine, index_label="day", if_exists="replace")
assert pandas.read_sql("SELECT SUM(`count`) AS n FROM daily", engine)["n"][0] == ROWS
try:
    daily.to_sql("daily", engine)
except ValueError as error:
    assert "already exists" in str(error)
else:
    raise AssertionError("a table was written over")

grouped = pandas.read_sql(
    "SELECT DATE(at) AS day, COUNT(*) AS n, AVG(f) AS f FROM t GROUP BY DATE(at) ORDER BY 1", engine)
assert grouped["n"].tolist() == [1440, 1440, 120] and grouped["day"][0] == datetime.date(2024, 1, 1)
