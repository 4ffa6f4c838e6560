//! sqlx: everything that it sends is prepared, DDL and transactions too, and `||` joins text.

use crate::Failure;
use futures_util::TryStreamExt;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlSslMode};
use sqlx::types::chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use sqlx::types::{Decimal, Json};
use sqlx::{Column, Connection, Executor, QueryBuilder, Row, TypeInfo};

pub async fn run(port: u16) -> Result<(), Failure> {
    for tls in [MySqlSslMode::Disabled, MySqlSslMode::Required] {
        let server = MySqlConnectOptions::new().host("127.0.0.1").port(port).username("root");
        let mut admin = sqlx::MySqlConnection::connect_with(&server.clone().ssl_mode(tls)).await?;
        admin.execute("DROP DATABASE IF EXISTS client_sqlx").await?;
        admin.execute("CREATE DATABASE client_sqlx").await?;
        admin.close().await?;

        let server = server.ssl_mode(tls).database("client_sqlx");
        let pool = MySqlPoolOptions::new().max_connections(2).connect_with(server).await?;
        session(&pool, tls).await?;
        migrations(&pool).await?;
        types(&pool).await?;
        rows(&pool).await?;
        transactions(&pool).await?;
        errors(&pool).await?;
        pool.close().await;
    }
    Ok(())
}

async fn session(pool: &MySqlPool, tls: MySqlSslMode) -> Result<(), Failure> {
    let (joined, zone): (String, String) =
        sqlx::query_as("SELECT 'a' || 'b', @@time_zone").fetch_one(pool).await?;
    assert_eq!((joined.as_str(), zone.as_str()), ("ab", "+00:00"));
    let cipher = sqlx::query("SHOW STATUS LIKE 'Ssl_cipher'").fetch_one(pool).await?;
    let cipher: String = cipher.try_get(1)?;
    assert_eq!(cipher.is_empty(), matches!(tls, MySqlSslMode::Disabled), "{cipher}");
    Ok(())
}

/// Its migrations, under a lock by name, twice; and what its macros ask of a statement.
async fn migrations(pool: &MySqlPool) -> Result<(), Failure> {
    let migration = |version, sql: &'static str| {
        let kind = MigrationType::Simple;
        Migration::new(version, "step".into(), kind, sql.into(), false)
    };
    let steps = vec![
        migration(
            1,
            "CREATE TABLE step (id INT NOT NULL, name VARCHAR(9)); INSERT INTO step VALUES (1, '')",
        ),
        migration(2, "ALTER TABLE step ADD COLUMN more DECIMAL(8,2) NOT NULL DEFAULT 1.5"),
    ];
    let migrator = Migrator { migrations: steps.into(), ..Migrator::DEFAULT };
    migrator.run(pool).await?;
    migrator.run(pool).await?;
    let more: Decimal = sqlx::query_scalar("SELECT more FROM step").fetch_one(pool).await?;
    assert_eq!(more.to_string(), "1.50");

    let about = pool.describe("SELECT id, name, more FROM step WHERE id = ?").await?;
    let types: Vec<_> = about.columns().iter().map(|column| column.type_info().name()).collect();
    let nullable: Vec<_> = (0..3).map(|column| about.nullable(column)).collect();
    assert_eq!(types, ["INT", "VARCHAR", "DECIMAL"]);
    assert_eq!(nullable, [Some(false), Some(true), Some(false)]);
    Ok(())
}

async fn types(pool: &MySqlPool) -> Result<(), Failure> {
    sqlx::query(
        "CREATE TABLE typed (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         tiny TINYINT, flag BOOLEAN, ratio DOUBLE, price DECIMAL(20,4), name VARCHAR(30), \
         day DATE, clock TIME(6), at DATETIME(6), stamp TIMESTAMP NULL, doc JSON, raw BLOB)",
    )
    .execute(pool)
    .await?;
    let price: Decimal = "-1234567890123456.7891".parse()?;
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no such day")?;
    let clock = NaiveTime::from_hms_micro_opt(23, 59, 58, 123_456).ok_or("no such time")?;
    let at = NaiveDateTime::new(day, clock);
    let stamp = DateTime::from_timestamp(1_700_000_000, 0).ok_or("no such instant")?;
    let doc = sqlx::types::JsonValue::from(vec![1, 2, 3]);
    let raw = vec![0_u8, 255, 39, 92];
    let insert = "INSERT INTO typed (tiny, flag, ratio, price, name, day, clock, at, stamp, doc, \
         raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let done = sqlx::query(insert)
        .bind(-128_i8)
        .bind(true)
        .bind(0.1_f64)
        .bind(price)
        .bind("it's \"\u{fc}\" \\")
        .bind(day)
        .bind(clock)
        .bind(at)
        .bind(stamp)
        .bind(Json(&doc))
        .bind(&raw)
        .execute(pool)
        .await?;
    assert_eq!((done.rows_affected(), done.last_insert_id()), (1, 1));

    let row = sqlx::query("SELECT * FROM typed WHERE id = ?").bind(1_u64).fetch_one(pool).await?;
    assert_eq!(row.try_get::<u64, _>("id")?, 1);
    assert_eq!(row.try_get::<i8, _>("tiny")?, -128);
    assert!(row.try_get::<bool, _>("flag")?);
    assert_eq!(row.try_get::<f64, _>("ratio")?, 0.1);
    assert_eq!(row.try_get::<Decimal, _>("price")?, price);
    assert_eq!(row.try_get::<String, _>("name")?, "it's \"\u{fc}\" \\");
    assert_eq!(row.try_get::<NaiveDate, _>("day")?, day);
    assert_eq!(row.try_get::<NaiveTime, _>("clock")?, clock);
    assert_eq!(row.try_get::<NaiveDateTime, _>("at")?, at);
    assert_eq!(row.try_get::<DateTime<Utc>, _>("stamp")?, stamp);
    assert_eq!(row.try_get::<Json<sqlx::types::JsonValue>, _>("doc")?.0, doc);
    assert_eq!(row.try_get::<Vec<u8>, _>("raw")?, raw);

    let done = sqlx::query("INSERT INTO typed (name) VALUES (?)")
        .bind(None::<String>)
        .execute(pool)
        .await?;
    assert_eq!(done.last_insert_id(), 2);
    let row = sqlx::query("SELECT * FROM typed WHERE id = 2").fetch_one(pool).await?;
    assert_eq!(row.try_get::<Option<String>, _>("name")?, None);
    assert_eq!(row.try_get::<Option<Decimal>, _>("price")?, None);
    assert_eq!(row.try_get::<Option<NaiveDateTime>, _>("at")?, None);
    Ok(())
}

/// Many rows in one statement, and read as they come.
async fn rows(pool: &MySqlPool) -> Result<(), Failure> {
    sqlx::query("CREATE TABLE many (id INT PRIMARY KEY, name VARCHAR(20))").execute(pool).await?;
    for first in (0..3000).step_by(1000) {
        let mut insert = QueryBuilder::new("INSERT INTO many (id, name) ");
        insert.push_values(first..first + 1000, |mut row, id| {
            row.push_bind(id).push_bind(format!("n{id}"));
        });
        assert_eq!(insert.build().execute(pool).await?.rows_affected(), 1000);
    }
    let mut stream = sqlx::query_as("SELECT id, name FROM many ORDER BY id").fetch(pool);
    let mut wanted = 0;
    while let Some((id, name)) = stream.try_next().await? as Option<(i32, String)> {
        assert_eq!((id, name), (wanted, format!("n{wanted}")));
        wanted += 1;
    }
    assert_eq!(wanted, 3000);
    // A stream that is dropped early leaves its connection fit for use.
    drop(stream);
    sqlx::query("SELECT id FROM many").fetch(pool).try_next().await?;
    assert_eq!(count(pool).await?, 3000);
    Ok(())
}

async fn transactions(pool: &MySqlPool) -> Result<(), Failure> {
    let mut transaction = pool.begin().await?;
    sqlx::query("DELETE FROM many WHERE id >= ?").bind(10).execute(&mut *transaction).await?;
    let mut inner = transaction.begin().await?;
    sqlx::query("DELETE FROM many").execute(&mut *inner).await?;
    inner.rollback().await?;
    let left: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM many").fetch_one(&mut *transaction).await?;
    assert_eq!((left, count(pool).await?), (10, 3000));
    // Dropped, it is rolled back when the connection is next used.
    drop(transaction);
    assert_eq!(count(pool).await?, 3000);

    let mut transaction = pool.begin().await?;
    let done = sqlx::query("UPDATE many SET name = ? WHERE id < ?")
        .bind("changed")
        .bind(10)
        .execute(&mut *transaction)
        .await?;
    assert_eq!(done.rows_affected(), 10);
    transaction.commit().await?;
    let changed: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM many WHERE name = 'changed'")
        .fetch_one(pool)
        .await?;
    assert_eq!(changed, 10);
    Ok(())
}

async fn errors(pool: &MySqlPool) -> Result<(), Failure> {
    let again = sqlx::query("INSERT INTO many VALUES (1, 'again')").execute(pool).await;
    let error = again.err().ok_or("a key was stored twice")?;
    let error = error.as_database_error().ok_or("no error of the server")?;
    assert!(error.is_unique_violation(), "{error}");
    assert_eq!(error.code().as_deref(), Some("23000"));
    for (statement, number) in
        [("SELECT * FROM nope", 1146), ("SELEC 1", 1064), ("SELECT nope FROM many", 1054)]
    {
        let error = sqlx::query(statement).execute(pool).await.err().ok_or(statement)?;
        let error = error.into_database_error().ok_or(statement)?;
        let error = error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>();
        assert_eq!(error.number(), number, "{error}");
    }
    assert_eq!(count(pool).await?, 3000);
    Ok(())
}

async fn count(pool: &MySqlPool) -> Result<i64, Failure> {
    Ok(sqlx::query_scalar("SELECT COUNT(*) FROM many").fetch_one(pool).await?)
}
