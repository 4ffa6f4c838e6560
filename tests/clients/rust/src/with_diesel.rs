//! diesel, through the C library of MariaDB: its query builder, batches, transactions, errors.

use crate::Failure;
use chrono::{NaiveDate, NaiveDateTime};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{BigInt, Text};

diesel::table! {
    orders (id) {
        id -> Unsigned<Integer>,
        name -> Varchar,
        ratio -> Nullable<Double>,
        at -> Nullable<Datetime>,
        raw -> Nullable<Blob>,
        paid -> Bool,
    }
}

diesel::table! {
    pieces (id) {
        id -> Integer,
        order_id -> Unsigned<Integer>,
        amount -> BigInt,
    }
}

diesel::joinable!(pieces -> orders (order_id));
diesel::allow_tables_to_appear_in_same_query!(orders, pieces);

#[derive(Clone, Debug, Insertable, PartialEq, Queryable, Selectable)]
#[diesel(table_name = orders, check_for_backend(diesel::mysql::Mysql))]
struct Order {
    id: u32,
    name: String,
    ratio: Option<f64>,
    at: Option<NaiveDateTime>,
    raw: Option<Vec<u8>>,
    paid: bool,
}

#[derive(QueryableByName)]
struct Total {
    #[diesel(sql_type = BigInt)]
    total: i64,
    #[diesel(sql_type = Text)]
    names: String,
}

pub fn run(port: u16) -> Result<(), Failure> {
    let mut connection = MysqlConnection::establish(&format!("mysql://root@127.0.0.1:{port}/"))?;
    connection.batch_execute(
        "DROP DATABASE IF EXISTS client_diesel; CREATE DATABASE client_diesel; USE client_diesel;
        CREATE TABLE orders (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
            name VARCHAR(30) NOT NULL, ratio DOUBLE, at DATETIME(6), raw BLOB,
            paid BOOLEAN NOT NULL);
        CREATE TABLE pieces (id INT PRIMARY KEY, order_id INT UNSIGNED NOT NULL,
            amount BIGINT NOT NULL)",
    )?;
    rows(&mut connection)?;
    queries(&mut connection)?;
    transactions(&mut connection)?;
    errors(&mut connection)
}

fn rows(connection: &mut MysqlConnection) -> Result<(), Failure> {
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no such day")?;
    let first = Order {
        id: 1,
        name: "it's \"\u{fc}\" \\".to_owned(),
        ratio: Some(0.1),
        at: day.and_hms_micro_opt(23, 59, 58, 123_456),
        raw: Some(vec![0, 255, 39, 92]),
        paid: true,
    };
    let second =
        Order { id: 2, name: String::new(), ratio: None, at: None, raw: None, paid: false };
    let wanted = vec![first, second];
    assert_eq!(diesel::insert_into(orders::table).values(&wanted).execute(connection)?, 2);
    let found = orders::table.order(orders::id).select(Order::as_select()).load(connection)?;
    assert_eq!(found, wanted);

    let without_id = (orders::name.eq("third"), orders::paid.eq(false));
    diesel::insert_into(orders::table).values(without_id).execute(connection)?;
    let id = diesel::select(diesel::dsl::sql::<BigInt>("LAST_INSERT_ID()"));
    assert_eq!(id.get_result::<i64>(connection)?, 3);
    let pieces: Vec<_> = (0..300)
        .map(|id| {
            let order_id = 1 + u32::from(id % 3 == 0);
            (pieces::id.eq(id), pieces::order_id.eq(order_id), pieces::amount.eq(i64::from(id)))
        })
        .collect();
    assert_eq!(diesel::insert_into(pieces::table).values(pieces).execute(connection)?, 300);
    Ok(())
}

fn queries(connection: &mut MysqlConnection) -> Result<(), Failure> {
    let joined = pieces::table
        .inner_join(orders::table)
        .filter(orders::paid.eq(true).and(pieces::amount.gt(10)))
        .filter(pieces::id.eq_any([9, 10, 11, 13]))
        .order(pieces::id.desc())
        .select((orders::name, pieces::amount))
        .limit(2);
    let name = "it's \"\u{fc}\" \\".to_owned();
    assert_eq!(joined.load::<(String, i64)>(connection)?, [(name.clone(), 13), (name, 11)]);
    let grouped = pieces::table.group_by(pieces::order_id).order(pieces::order_id).select((
        pieces::order_id,
        diesel::dsl::count_star(),
        diesel::dsl::max(pieces::amount),
    ));
    let wanted = [(1, 200, Some(299)), (2, 100, Some(297))];
    assert_eq!(grouped.load::<(u32, i64, Option<i64>)>(connection)?, wanted);
    let total: Total = diesel::sql_query(
        "SELECT CAST(SUM(id) AS SIGNED) AS total, GROUP_CONCAT(name ORDER BY id DESC) AS names \
         FROM orders WHERE id > ?",
    )
    .bind::<BigInt, _>(1)
    .get_result(connection)?;
    assert_eq!((total.total, total.names.as_str()), (5, "third,"));
    let mut read = 0;
    for amount in pieces::table.select(pieces::amount).load_iter::<i64, _>(connection)? {
        read += amount?;
    }
    assert_eq!(read, 299 * 150);
    let upsert = diesel::insert_into(orders::table)
        .values((orders::id.eq(3), orders::name.eq("none"), orders::paid.eq(true)))
        .on_conflict(diesel::dsl::DuplicatedKeys)
        .do_update()
        .set(orders::paid.eq(true));
    assert_eq!(upsert.execute(connection)?, 2);
    let third = orders::table.find(3).select((orders::name, orders::paid));
    assert_eq!(third.first::<(String, bool)>(connection)?, ("third".to_owned(), true));
    Ok(())
}

fn transactions(connection: &mut MysqlConnection) -> Result<(), Failure> {
    let failed = connection.transaction(|connection| {
        assert_eq!(diesel::delete(pieces::table).execute(connection)?, 300);
        // One within the other is a savepoint.
        let inner = connection.transaction(|connection| {
            diesel::insert_into(pieces::table)
                .values((pieces::id.eq(1), pieces::order_id.eq(1), pieces::amount.eq(1)))
                .execute(connection)?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        assert_eq!(inner, Err(Error::RollbackTransaction));
        assert_eq!(pieces::table.count().get_result(connection), Ok(0_i64));
        Err::<(), _>(Error::RollbackTransaction)
    });
    assert_eq!(failed, Err(Error::RollbackTransaction));
    assert_eq!(pieces::table.count().get_result::<i64>(connection)?, 300);
    let changed = connection.transaction::<_, Error, _>(|connection| {
        diesel::update(pieces::table.filter(pieces::order_id.eq(2)))
            .set(pieces::amount.eq(pieces::amount + 1))
            .execute(connection)
    })?;
    assert_eq!(changed, 100);
    let largest = pieces::table.filter(pieces::order_id.eq(2)).select(pieces::amount);
    assert_eq!(largest.order(pieces::id.desc()).first::<i64>(connection)?, 298);
    Ok(())
}

fn errors(connection: &mut MysqlConnection) -> Result<(), Failure> {
    let again = (orders::id.eq(1), orders::name.eq("again"), orders::paid.eq(false));
    let error = diesel::insert_into(orders::table).values(again).execute(connection);
    let Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, about)) = error else {
        return Err(format!("a key twice: {error:?}").into());
    };
    assert_eq!(about.message(), "Duplicate entry '1' for key 'orders.PRIMARY'");
    let error = diesel::sql_query("SELECT * FROM nope").execute(connection);
    let error = error.err().ok_or("no error")?.to_string();
    assert_eq!(error, "Table 'client_diesel.nope' doesn't exist");
    assert_eq!(
        orders::table.find(99).select(orders::name).first::<String>(connection).optional()?,
        None
    );
    Ok(())
}
