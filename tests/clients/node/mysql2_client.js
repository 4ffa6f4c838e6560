// mysql2: both protocols, types, bulk inserts, pools, streams, transactions, LOAD DATA, errors.
"use strict";
const { Readable } = require("node:stream");
const callbacks = require("mysql2");
const mysql = require("mysql2/promise");
const { assert, freshDatabase, raises, server } = require("./common.js");

const ROW = [7, "9007199254740993", "it's \"\u00fc\" \\", "-12.50", 0.1, "2024-02-29",
  "2024-02-29 23:59:59.123", Buffer.from([0, 255, 39, 92]), { a: [1, "b"] }, null];

async function main() {
  const database = await freshDatabase("mysql2");
  const options = { ...server, database, dateStrings: true, supportBigNumbers: true,
    bigNumberStrings: false, charset: "utf8mb4" };
  const connection = await mysql.createConnection(options);
  await types(connection);
  await bulk(connection);
  await transactions(connection, options);
  await others(connection, options);
  await connection.end();
  await pool(options);
}

async function types(connection) {
  await connection.query("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, big BIGINT, "
    + "s VARCHAR(40), d DECIMAL(10,2), f DOUBLE, day DATE, at DATETIME(3), b VARBINARY(8), "
    + "j JSON, n INT)");
  const insert = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  const values = ROW.with(8, JSON.stringify(ROW[8]));
  const [done] = await connection.execute(insert, values);
  assert.equal(done.affectedRows, 1);
  await connection.query(insert, values.with(0, 8));
  for (const method of ["query", "execute"]) {
    const [rows, fields] = await connection[method]("SELECT * FROM t WHERE id > ? ORDER BY id", [0]);
    assert.deepEqual(Object.values(rows[0]), ROW, method);
    assert.deepEqual(Object.values(rows[1]), ROW.with(0, 8), method);
    assert.deepEqual(fields.map((field) => field.name),
      ["id", "big", "s", "d", "f", "day", "at", "b", "j", "n"]);
  }
  const [[date]] = await connection.query({ sql: "SELECT at FROM t LIMIT 1", typeCast: true });
  assert.equal(date.at, ROW[6]);
}

async function bulk(connection) {
  const rows = Array.from({ length: 2000 }, (_, i) => [1000 + i, `name ${i}`]);
  const [done] = await connection.query("INSERT INTO t (id, s) VALUES ?", [rows]);
  assert.equal(done.affectedRows, 2000);
  let sum = 0;
  const stream = connection.connection.query("SELECT id FROM t WHERE id >= 1000").stream();
  for await (const row of stream) {
    sum += row.id - 1000;
  }
  assert.equal(sum, 2000 * 1999 / 2);
  const [deleted] = await connection.execute("DELETE FROM t WHERE id >= ?", [1000]);
  assert.equal(deleted.affectedRows, 2000);

  await connection.query("CREATE TABLE a (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, s TEXT)");
  const [first] = await connection.execute("INSERT INTO a (s) VALUES (?)", ["x"]);
  const [[last]] = await connection.query("SELECT LAST_INSERT_ID() AS id");
  assert.equal(first.insertId, last.id);
  const csv = () => Readable.from([Buffer.from("1,one\n2,two"), Buffer.from("\n3,three\n")]);
  await connection.query("TRUNCATE TABLE a");
  await connection.query({ sql: "LOAD DATA LOCAL INFILE 'a.csv' INTO TABLE a "
    + "FIELDS TERMINATED BY ','", infileStreamFactory: csv });
  const [loaded] = await connection.query({ sql: "SELECT * FROM a ORDER BY id", rowsAsArray: true });
  assert.deepEqual(loaded, [[1, "one"], [2, "two"], [3, "three"]]);
}

async function transactions(connection, options) {
  const other = await mysql.createConnection(options);
  const count = async (of) => (await of.query("SELECT COUNT(*) AS n FROM t"))[0][0].n;
  await connection.beginTransaction();
  await connection.execute("INSERT INTO t (id) VALUES (?)", [100]);
  assert.deepEqual([await count(connection), await count(other)], [3, 2]);
  await connection.rollback();
  await connection.beginTransaction();
  await connection.execute("UPDATE t SET n = n <=> NULL WHERE id = ?", [7]);
  await connection.commit();
  const [[row]] = await other.execute("SELECT n FROM t WHERE id = ?", [7]);
  assert.equal(row.n, 1);
  await other.end();
}

async function others(connection, options) {
  const many = await mysql.createConnection({ ...options, multipleStatements: true });
  const [results] = await many.query("SELECT 1 AS a; SELECT 2 AS b, 3 AS c");
  assert.deepEqual(results, [[{ a: 1 }], [{ b: 2, c: 3 }]]);
  await many.changeUser({ database: "information_schema" });
  const [[now]] = await many.query("SELECT DATABASE() AS d");
  assert.equal(now.d, "information_schema");
  await many.end();

  const secure = await mysql.createConnection({ ...options, ssl: { rejectUnauthorized: false },
    compress: true });
  const [[cipher]] = await secure.query("SHOW STATUS LIKE 'Ssl_cipher'");
  assert.match(cipher.Value, /TLS/);
  await secure.end();

  const named = await mysql.createConnection({ ...options, namedPlaceholders: true });
  const [[row]] = await named.execute("SELECT :a + :b AS sum", { a: 1, b: 2 });
  assert.equal(Number(row.sum), 3);
  await named.end();

  await raises(1146, connection.query("SELECT * FROM nope"));
  await raises(1064, connection.execute("SELEC 1"));
  await raises(1062, connection.execute("INSERT INTO t (id) VALUES (?)", [7]));
  await connection.ping();
  await raises(1045, mysql.createConnection({ ...options, password: "wrong" }));
}

async function pool(options) {
  const shared = mysql.createPool({ ...options, connectionLimit: 4 });
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) =>
    shared.execute("SELECT ? AS i, SLEEP(0) AS s", [i])));
  answers.forEach(([[row]], i) => assert.equal(Number(row.i), i));
  await shared.end();
  await new Promise((resolve, reject) => {
    const old = callbacks.createConnection(options);
    old.query("SELECT COUNT(*) AS n FROM t", (error, rows) => {
      old.end();
      return error ? reject(error) : resolve(assert.equal(rows[0].n, 2));
    });
  });
}

main();
