//! Statements of hostile clients.

use rand::Rng;
use rand::rngs::StdRng;

/// The tables that they have.
pub const TABLES: [&str; 2] = [
    "CREATE TABLE hostile.t (id BIGINT, a INT, s VARCHAR(100), d DECIMAL(20, 4), at DATETIME(6), \
     j JSON, b VARBINARY(50))",
    "CREATE TABLE hostile.k (id BIGINT PRIMARY KEY, u INT, s VARCHAR(40), UNIQUE KEY (u), KEY (s))",
];

const STATEMENTS: [&str; 40] = [
    "SELECT 1",
    "SELECT * FROM t LIMIT 20",
    "SELECT s, COUNT(*) FROM t GROUP BY s ORDER BY 2 DESC LIMIT 3",
    "SELECT * FROM k WHERE id = 17",
    "SELECT * FROM k WHERE id IN (1, 2, 3)",
    "SELECT t.id, k.s FROM t JOIN k ON t.id = k.id LIMIT 5",
    "SELECT REPEAT('x', 100000)",
    "SELECT * FROM neighbour.t",
    "INSERT INTO neighbour.t VALUES (-1, -1)",
    "INSERT INTO t (id, a, s) VALUES (1, 2, 'three'), (4, 5, NULL)",
    "INSERT INTO t (id, d, at) VALUES (1, 1234.5, NOW(6))",
    "INSERT INTO t (id, j) VALUES (1, '{\"a\": [1, 2]}')",
    "INSERT INTO k VALUES (17, 17, 'a') ON DUPLICATE KEY UPDATE u = u + 1",
    "REPLACE INTO k VALUES (1, 2, 'x'), (2, 3, 'y')",
    "UPDATE k SET s = CONCAT(s, 'x') WHERE id < 10",
    "DELETE FROM k WHERE u > 100 LIMIT 2",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT p",
    "SET autocommit = 0",
    "SET group_commit = async_mode",
    "SET NAMES latin1",
    "SET SESSION max_execution_time = 1000",
    "SET GLOBAL max_connections = 1",
    "SHOW FULL COLUMNS FROM t",
    "SHOW CREATE TABLE k",
    "SHOW VARIABLES",
    "SHOW WARNINGS",
    "SHOW PROCESSLIST",
    "SELECT * FROM information_schema.columns LIMIT 50",
    "PREPARE p FROM 'SELECT ? + 1'",
    "EXECUTE p USING @a",
    "SET @a = 5, @b = 'text'",
    "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (id, a)",
    "CREATE TEMPORARY TABLE z (a INT PRIMARY KEY)",
    "EXPLAIN SELECT * FROM k WHERE s = 'a'",
    "SELECT 1; SELECT 2; SELECT * FROM missing; SELECT 3",
    "XA START 'x'",
    "SELECT SLEEP(0.05)",
];

const PREPARED: [&str; 8] = [
    "SELECT ?, ? + 1",
    "SELECT * FROM k WHERE id = ?",
    "SELECT * FROM t WHERE s LIKE ? LIMIT ?",
    "INSERT INTO t (id, a, s) VALUES (?, ?, ?)",
    "INSERT INTO t (id, d, at, b) VALUES (?, ?, ?, ?), (?, ?, ?, ?)",
    "INSERT INTO k VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE s = VALUES(s)",
    "UPDATE k SET s = ? WHERE id = ?",
    "DELETE FROM k WHERE id = ?",
];

/// A statement, some with something else in them.
pub fn statement(random: &mut StdRng) -> Vec<u8> {
    let sql = STATEMENTS[random.random_range(0..STATEMENTS.len())];
    let mut sql = match random.random_range(0..20) {
        0 => TABLES[random.random_range(0..TABLES.len())].as_bytes().to_vec(),
        1 => format!("/*!99999 {sql} */ {sql}").into_bytes(),
        2 => format!("{sql} -- {}", "(".repeat(random.random_range(0..3000))).into_bytes(),
        3 => format!("SELECT {}1{}", "(".repeat(300), ")".repeat(300)).into_bytes(),
        4 => format!("{sql};{sql};{sql}").into_bytes(),
        _ => sql.as_bytes().to_vec(),
    };
    if super::happens(random, 15) {
        super::mutation::payload(&mut sql, random);
    }
    sql
}

/// A statement with placeholders, and how many.
pub fn prepared(random: &mut StdRng) -> (Vec<u8>, u16) {
    let sql = PREPARED[random.random_range(0..PREPARED.len())];
    let holes = sql.bytes().filter(|byte| *byte == b'?').count();
    (sql.as_bytes().to_vec(), holes as u16)
}
