"""mysqlclient, which is MariaDB's library in C: types, bulk inserts, transactions, LOAD DATA, cursors on the server."""

import datetime
import decimal
import os
import tempfile

import MySQLdb
import MySQLdb.cursors

from common import HOST, MYSQL_PORT, database_of, raises

DATABASE = database_of("mysqlclient")
ROW = (
    7, "O'Neil \\ \"quoted\" %", decimal.Decimal("-12.50"), 2.5, datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 23, 59, 59, 123456), b"\x00\xff'\\", None,
)


def connect(**options):
    return MySQLdb.connect(host=HOST, port=MYSQL_PORT, user="root", password="", **options)


def rows(connection, sql, args=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, args)
        return cursor.fetchall()


admin = connect()
rows(admin, f"DROP DATABASE IF EXISTS {DATABASE}")
rows(admin, f"CREATE DATABASE {DATABASE}")
admin.close()

writer = connect(database=DATABASE, charset="utf8mb4", local_infile=True)
reader = connect(database=DATABASE, charset="utf8mb4", autocommit=True)
assert writer.get_server_info() == rows(reader, "SELECT VERSION()")[0][0]

rows(writer, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, s VARCHAR(40), d DECIMAL(10,2), "
     "f DOUBLE, day DATE, at DATETIME(6), b VARBINARY(10), n INT)")
with writer.cursor() as cursor:
    assert cursor.execute("INSERT INTO t VALUES (%s,%s,%s,%s,%s,%s,%s,%s)", ROW) == 1
assert rows(reader, "SELECT COUNT(*) FROM t") == ((0,),)
writer.commit()
assert rows(reader, "SELECT * FROM t") == (ROW,), rows(reader, "SELECT * FROM t")

with writer.cursor() as cursor:
    added = [(i, f"name{i}") for i in range(100, 5100)]
    assert cursor.executemany("INSERT INTO t (id, s) VALUES (%s, %s)", added) == 5000
    assert cursor.execute("UPDATE t SET n = 1 WHERE id BETWEEN 100 AND 109") == 10
    assert cursor.execute("DELETE FROM t WHERE id = 100") == 1
writer.rollback()
assert rows(reader, "SELECT COUNT(*) FROM t") == ((1,),)

with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
    file.write("".join(f"{i},loaded {i}\n" for i in range(1000, 3000)))
with writer.cursor() as cursor:
    loaded = cursor.execute(f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE t "
                            "FIELDS TERMINATED BY ',' (id, s)")
    assert loaded == 2000, loaded
os.unlink(file.name)
writer.commit()
assert rows(reader, "SELECT s FROM t WHERE id = 1234") == (("loaded 1234",),)

streamed = connect(database=DATABASE, cursorclass=MySQLdb.cursors.SSDictCursor)
with streamed.cursor() as cursor:
    cursor.execute("SELECT id FROM t WHERE id >= 1000 ORDER BY id")
    assert [row["id"] for row in cursor] == list(range(1000, 3000))

many = connect(database=DATABASE)
many.set_server_option(0)  # multi statements on
with many.cursor() as cursor:
    cursor.execute("SELECT 1; SELECT 2, 3")
    assert cursor.fetchall() == ((1,),) and cursor.nextset() == 1
    assert cursor.fetchall() == ((2, 3),) and cursor.nextset() is None

raises(1146, rows, reader, "SELECT * FROM nope")
raises(1062, rows, reader, "INSERT INTO t (id) VALUES (7)")
reader.ping()
reader.change_user("root", "", "information_schema")
assert rows(reader, "SELECT DATABASE()") == (("information_schema",),)
assert "Uptime" in reader.stat() and reader.thread_id() > 0
for connection in (writer, reader, streamed, many):
    connection.close()
