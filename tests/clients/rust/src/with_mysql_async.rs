//! mysql_async: prepared statements and batches, a pool that resets its connections, files.

use crate::Failure;
use futures_util::{StreamExt, TryStreamExt, stream};
use mysql_async::prelude::Queryable;
use mysql_async::{
    Compression, Conn, Error, OptsBuilder, Pool, PoolConstraints, PoolOpts, Row, SslOpts, TxOpts,
    Value, params,
};

pub async fn run(port: u16) -> Result<(), Failure> {
    for encoded in [false, true] {
        let pool = pool(port, encoded)?;
        let mut connection = pool.get_conn().await?;
        for statement in [
            "DROP DATABASE IF EXISTS client_mysql_async",
            "CREATE DATABASE client_mysql_async",
            "USE client_mysql_async",
            "CREATE TABLE t (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
             name VARCHAR(30), price DECIMAL(12,2), ratio DOUBLE, at DATETIME(6), doc JSON, \
             raw BLOB)",
        ] {
            connection.query_drop(statement).await?;
        }
        let cipher: Option<(String, String)> =
            connection.query_first("SHOW STATUS LIKE 'Ssl_cipher'").await?;
        assert_eq!(cipher.is_some_and(|(_, cipher)| !cipher.is_empty()), encoded);
        types(&mut connection).await?;
        batches(&mut connection).await?;
        transactions(&mut connection).await?;
        results(&mut connection).await?;
        files(&mut connection).await?;
        errors(&mut connection).await?;
        drop(connection);
        reused(&pool).await?;
        pool.disconnect().await?;
    }
    Ok(())
}

/// A pool of one connection, so that it is always the same one; with compression and TLS, or
/// without.
fn pool(port: u16, encoded: bool) -> Result<Pool, Failure> {
    let one = PoolConstraints::new(1, 1).ok_or("no pool of one")?;
    let ssl = SslOpts::default().with_danger_accept_invalid_certs(true);
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .prefer_socket(false)
        .user(Some("root"))
        .ssl_opts(encoded.then_some(ssl))
        .compression(encoded.then(Compression::default))
        .pool_opts(PoolOpts::default().with_constraints(one));
    Ok(Pool::new(options))
}

async fn types(connection: &mut Conn) -> Result<(), Failure> {
    let insert = "INSERT INTO t (name, price, ratio, at, doc, raw) \
         VALUES (:name, :price, :ratio, :at, :doc, :raw)";
    let at = Value::Date(2024, 2, 29, 23, 59, 58, 123_456);
    let raw = vec![0_u8, 255, 39, 92];
    let named = params! {
        "name" => "it's \"\u{fc}\" \\", "price" => "-1234567890.12", "ratio" => 0.1,
        "at" => &at, "doc" => "[1, 2]", "raw" => &raw,
    };
    connection.exec_drop(insert, named).await?;
    assert_eq!((connection.affected_rows(), connection.last_insert_id()), (1, Some(1)));
    connection.exec_drop("INSERT INTO t (name) VALUES (?)", (None::<String>,)).await?;
    assert_eq!(connection.last_insert_id(), Some(2));

    let row: Option<Row> = connection.exec_first("SELECT * FROM t WHERE id = ?", (1,)).await?;
    let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
    let wanted = vec![
        Value::Int(1),
        bytes("it's \"\u{fc}\" \\"),
        bytes("-1234567890.12"),
        Value::Double(0.1),
        at,
        bytes("[1, 2]"),
        Value::Bytes(raw),
    ];
    assert_eq!(values(row), wanted);
    let row: Option<Row> = connection.exec_first("SELECT * FROM t WHERE id = ?", (2,)).await?;
    let mut wanted = vec![Value::NULL; 7];
    wanted[0] = Value::Int(2);
    assert_eq!(values(row), wanted);
    Ok(())
}

async fn batches(connection: &mut Conn) -> Result<(), Failure> {
    let rows = (0..500).map(|n| (format!("b{n}"), n));
    connection.exec_batch("INSERT INTO t (name, price) VALUES (?, ?)", rows).await?;
    assert_eq!(count(connection).await?, 502);
    let total: Option<String> =
        connection.query_first("SELECT SUM(price) FROM t WHERE name LIKE 'b%'").await?;
    assert_eq!(total.as_deref(), Some("124750.00"));
    Ok(())
}

async fn transactions(connection: &mut Conn) -> Result<(), Failure> {
    let mut transaction = connection.start_transaction(TxOpts::default()).await?;
    transaction.exec_drop("DELETE FROM t WHERE id > ?", (1,)).await?;
    assert_eq!(transaction.affected_rows(), 501);
    transaction.rollback().await?;
    assert_eq!(count(connection).await?, 502);
    // Dropped, it is rolled back when the connection is next used.
    let mut transaction = connection.start_transaction(TxOpts::default()).await?;
    transaction.query_drop("DELETE FROM t").await?;
    drop(transaction);
    assert_eq!(count(connection).await?, 502);
    let mut transaction = connection.start_transaction(TxOpts::default()).await?;
    transaction.query_drop("DELETE FROM t WHERE id = 2").await?;
    transaction.commit().await?;
    assert_eq!(count(connection).await?, 501);
    Ok(())
}

/// Results of several statements, and a result that is read as it comes.
async fn results(connection: &mut Conn) -> Result<(), Failure> {
    let mut results = connection.query_iter("SELECT 1; SELECT 2, 3; DO 0").await?;
    assert_eq!(results.collect::<u8>().await?, [1]);
    assert_eq!(results.collect::<(u8, u8)>().await?, [(2, 3)]);
    results.drop_result().await?;
    let names = connection.exec_stream("SELECT name FROM t WHERE id > ?", (2,)).await?;
    let longest: usize = names
        .map_ok(|name: String| name.len())
        .try_fold(0, |a, b| async move { Ok(a.max(b)) })
        .await?;
    assert_eq!(longest, 4);
    Ok(())
}

/// LOAD DATA LOCAL, from memory.
async fn files(connection: &mut Conn) -> Result<(), Failure> {
    let text = (1..=1000).map(|n| format!("l{n},{n}.5\n")).collect::<String>();
    let mut pieces = Vec::new();
    for piece in text.into_bytes().chunks(1000) {
        pieces.push(Ok(piece.to_vec().into()));
    }
    connection.set_infile_handler(async move { Ok(stream::iter(pieces).boxed()) });
    let load =
        "LOAD DATA LOCAL INFILE 'memory' INTO TABLE t FIELDS TERMINATED BY ',' (name, price)";
    connection.query_drop(load).await?;
    assert_eq!(connection.affected_rows(), 1000);
    let total: Option<(i64, String)> =
        connection.query_first("SELECT COUNT(*), SUM(price) FROM t WHERE name LIKE 'l%'").await?;
    assert_eq!(total, Some((1000, "501000.00".to_owned())));
    Ok(())
}

async fn errors(connection: &mut Conn) -> Result<(), Failure> {
    for (statement, number, state) in [
        ("INSERT INTO t (id) VALUES (1)", 1062, "23000"),
        ("SELECT * FROM nope", 1146, "42S02"),
        ("SELEC 1", 1064, "42000"),
    ] {
        let prepared = connection.exec_drop(statement, ()).await.err().ok_or(statement)?;
        let text = connection.query_drop(statement).await.err().ok_or(statement)?;
        for error in [prepared, text] {
            let Error::Server(error) = error else { return Err(error.into()) };
            assert_eq!((error.code, error.state.as_str()), (number, state), "{error}");
        }
    }
    Ok(())
}

/// A connection that comes from the pool again has nothing of its earlier user.
async fn reused(pool: &Pool) -> Result<(), Failure> {
    let mut first = pool.get_conn().await?;
    let id = first.id();
    first.query_drop("SET @left = 1, group_commit = async_mode").await?;
    drop(first);
    let mut second = pool.get_conn().await?;
    assert_eq!(second.id(), id);
    let found: Option<(Option<i32>, String)> =
        second.query_first("SELECT @left, @@group_commit").await?;
    assert_eq!(found, Some((None, "off_mode".to_owned())));
    Ok(())
}

async fn count(connection: &mut Conn) -> Result<i64, Failure> {
    Ok(connection
        .query_first("SELECT COUNT(*) FROM client_mysql_async.t")
        .await?
        .ok_or("no count")?)
}

fn values(row: Option<Row>) -> Vec<Value> {
    let Some(row) = row else { return Vec::new() };
    (0..row.len()).filter_map(|column| row.as_ref(column).cloned()).collect()
}
