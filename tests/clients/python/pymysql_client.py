"""PyMySQL: it turns autocommit off first, so everything here is a transaction."""

import datetime
import decimal

import pymysql

from common import HOST, MYSQL_PORT, database_of, raises

DATABASE = database_of("pymysql")
ROW = (
    7, "O'Neil \\ \"quoted\" %", decimal.Decimal("-12.50"), 2.5,
    datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
    b"\x00\xff'\\", None,
)


def connect(**options):
    return pymysql.connect(host=HOST, port=MYSQL_PORT, user="root", password="", **options)


def rows(connection, sql, args=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, args)
        return cursor.fetchall()


with connect() as admin:
    rows(admin, f"DROP DATABASE IF EXISTS {DATABASE}")
    rows(admin, f"CREATE DATABASE {DATABASE}")

writer = connect(database=DATABASE)
reader = connect(database=DATABASE, autocommit=True)

rows(writer, "CREATE TABLE t (id INT NOT NULL, s VARCHAR(40), d DECIMAL(10,2), f DOUBLE, "
     "day DATE, at DATETIME(6), b VARBINARY(10), n INT)")
with writer.cursor() as cursor:
    assert cursor.execute("INSERT INTO t VALUES (%s,%s,%s,%s,%s,%s,%s,%s)", ROW) == 1
assert rows(writer, "SELECT * FROM t") == (ROW,), rows(writer, "SELECT * FROM t")
assert rows(reader, "SELECT COUNT(*) FROM t") == ((0,),), "not committed, yet seen by another"
writer.commit()
assert rows(reader, "SELECT * FROM t") == (ROW,)

with writer.cursor() as cursor:
    count = cursor.executemany(
        "INSERT INTO t (id, s) VALUES (%s, %s)", [(i, f"name{i}") for i in range(5000)]
    )
    assert count == 5000, count
writer.rollback()
assert rows(reader, "SELECT COUNT(*) FROM t") == ((1,),)

writer.begin()
rows(writer, "INSERT INTO t (id) VALUES (1)")
dropped = connect(database=DATABASE)
rows(dropped, "INSERT INTO t (id) VALUES (100)")
dropped.close()
writer.commit()
assert rows(reader, "SELECT id FROM t ORDER BY id") == ((1,), (7,)), "a dropped connection stayed"

with reader.cursor(pymysql.cursors.DictCursor) as cursor:
    cursor.execute("SELECT id AS `the id`, s FROM t WHERE id = %s", (7,))
    assert cursor.fetchall() == [{"the id": 7, "s": ROW[1]}]
    assert [column[0] for column in cursor.description] == ["the id", "s"]

raises(1146, rows, reader, "SELECT * FROM nope")
raises(1064, rows, reader, "SELEC 1")
raises(1264, rows, reader, "INSERT INTO t (id) VALUES (2147483648)")
raises(1049, lambda: connect(database="no_such_database"))
raises(1045, lambda: pymysql.connect(host=HOST, port=MYSQL_PORT, user="root", password="wrong"))

reader.ping(reconnect=False)
reader.select_db("information_schema")
assert rows(reader, "SELECT DATABASE()") == (("information_schema",),)
reader.select_db(DATABASE)

many = connect(database=DATABASE, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS)
with many.cursor() as cursor:
    cursor.execute("SELECT 1; SELECT 2, 3; INSERT INTO t (id) VALUES (8)")
    found = [cursor.fetchall()]
    while cursor.nextset():
        found.append(cursor.fetchall())
    assert found[:2] == [((1,),), ((2, 3),)] and len(found) == 3, found

# CREATE INDEX needs its own right, and keys of ALTER TABLE that of ALTER.
rows(reader, "DROP USER IF EXISTS client_index")
rows(reader, "CREATE USER client_index")
rows(reader, f"GRANT ALTER ON {DATABASE}.* TO client_index")
few = pymysql.connect(host=HOST, port=MYSQL_PORT, user="client_index", database=DATABASE)
raises(1142, rows, few, "CREATE INDEX k ON t (n)")
raises(1142, rows, few, "DROP INDEX k ON t")
rows(few, "ALTER TABLE t ADD INDEX k (n)")
rows(reader, f"REVOKE ALTER ON {DATABASE}.* FROM client_index")
rows(reader, f"GRANT INDEX ON {DATABASE}.* TO client_index")
raises(1142, rows, few, "ALTER TABLE t DROP INDEX k")
rows(few, "DROP INDEX k ON t")
rows(few, "CREATE INDEX k ON t (n)")
few.close()
rows(reader, "DROP USER client_index")

streamed = connect(database=DATABASE, cursorclass=pymysql.cursors.SSCursor)
with streamed.cursor() as cursor:
    cursor.execute("SET cte_max_recursion_depth = 10000")
    cursor.execute("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n "
                   "WHERE i < 3000) SELECT i FROM n")
    assert sum(i for (i,) in cursor) == 3000 * 3001 // 2
for connection in (writer, reader, many, streamed):
    connection.close()
