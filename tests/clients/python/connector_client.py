"""mysql-connector-python: server-side prepared statements, pools and their resets."""

import datetime
import decimal

import mysql.connector
from mysql.connector.pooling import MySQLConnectionPool

from common import HOST, MYSQL_PORT, database_of, raises

DATABASE = database_of("connector")
ROW = (
    1, -(2**40), "text ü", decimal.Decimal("99.95"), 0.25,
    datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5), None,
)
OPTIONS = {"host": HOST, "port": MYSQL_PORT, "user": "root", "password": "", "use_pure": True}

admin = mysql.connector.connect(**OPTIONS)
with admin.cursor() as cursor:
    cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    cursor.execute(f"CREATE DATABASE {DATABASE}")
admin.close()

connection = mysql.connector.connect(database=DATABASE, **OPTIONS)
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE t (id INT, big BIGINT, s VARCHAR(20), d DECIMAL(8,2), f DOUBLE, "
                   "day DATE, at DATETIME, n INT)")

insert = connection.cursor(prepared=True)
for i in range(1, 21):
    insert.execute("INSERT INTO t VALUES (%s,%s,%s,%s,%s,%s,%s,%s)", (i, *ROW[1:]))
    assert insert.rowcount == 1
connection.commit()
insert.close()

select = connection.cursor(prepared=True)
select.execute("SELECT * FROM t WHERE id = %s", (1,))
assert select.fetchall() == [ROW], "the binary protocol"
select.execute("SELECT * FROM t WHERE id = %s", (2,))
assert select.fetchone()[0] == 2
select.fetchall()
select.close()

totals = connection.cursor(prepared=True)
totals.execute("SELECT COUNT(*), SUM(id), MAX(s) FROM t WHERE id BETWEEN %s AND %s", (3, 12))
assert totals.fetchall() == [(10, decimal.Decimal(75), "text ü")]
totals.close()

plain = connection.cursor()
plain.execute("SELECT * FROM t WHERE id = %s", (1,))
assert plain.fetchall() == [ROW], "the text protocol"
plain.executemany("INSERT INTO t (id, s) VALUES (%s, %s)", [(i, "m") for i in range(100, 200)])
assert plain.rowcount == 100
connection.rollback()
plain.execute("SELECT COUNT(*) FROM t")
assert plain.fetchone() == (20,)

raises(1146, plain.execute, "SELECT * FROM nope")
raises(1406, plain.execute, "INSERT INTO t (s) VALUES (REPEAT('x', 21))")
warned = mysql.connector.connect(database=DATABASE, get_warnings=True, **OPTIONS)
with warned.cursor() as cursor:
    cursor.execute("DROP TABLE IF EXISTS nope")
    assert cursor.fetchwarnings() == [("Note", 1051, f"Unknown table '{DATABASE}.nope'")]
    cursor.execute("DO 1")
    assert cursor.fetchwarnings() is None
warned.close()

connection.ping()
connection.reset_session()
connection.close()

pool = MySQLConnectionPool(pool_name="p", pool_size=2, database=DATABASE, **OPTIONS)
for _ in range(3):
    pooled = pool.get_connection()
    with pooled.cursor() as cursor:
        cursor.execute("SELECT @x")
        assert cursor.fetchone() == (None,), "a pooled connection kept a variable"
        cursor.execute("SET @x = 1")
    pooled.close()
