//! What tools and monitors of MySQL ask for, in the types in which they read it.

use crate::common::TestServer;
use freshet_wire::ColumnType;
use freshet_wire::client::{Outcome, Rows, Value};

/// The columns of a result that have numbers and times; drivers give these to programs as such,
/// and `not row['Non_unique']` is true of every text.
fn typed(rows: &Rows, ty: ColumnType) -> Vec<&str> {
    let of_type = rows.names.iter().zip(&rows.types).filter(|(_, (found, _))| *found == ty);
    of_type.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn show_has_numbers_and_times_where_mysql_has() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, a int, key k (a))");
    let index = client.rows("show index from t");
    let numbers = ["Non_unique", "Seq_in_index", "Cardinality", "Sub_part"];
    assert_eq!(typed(&index, ColumnType::LongLong), numbers);
    assert_eq!(index.rows[0][1], Value::Bytes(b"0".to_vec()));
    let status = client.rows("show table status");
    assert_eq!(typed(&status, ColumnType::LongLong).len(), 9);
    let times = ["Create_time", "Update_time", "Check_time"];
    assert_eq!(typed(&status, ColumnType::DateTime), times);
    let Value::Bytes(created) = &status.rows[0][11] else { panic!("{status:?}") };
    assert_eq!(created.len(), "2026-11-27 18:00:00".len(), "{status:?}");
    let filtered = client.rows("show table status where `Rows` = 0 and Create_time > '2000-01-01'");
    assert_eq!(filtered.rows.len(), 1);
    let sets = client.rows("show character set like 'utf8mb4'");
    assert_eq!(typed(&sets, ColumnType::LongLong), ["Maxlen"]);
    let replica = client.rows("show replica status");
    assert_eq!((replica.names.len(), replica.rows.len()), (60, 0));
    assert_eq!(replica.names[0], "Replica_IO_State");
    let slave = client.rows("show slave status").names;
    assert!(slave.contains(&"Seconds_Behind_Master".to_owned()), "{slave:?}");
    assert!(slave.contains(&"Get_master_public_key".to_owned()), "{slave:?}");
    let prepared = client.prepare("show index from t").unwrap();
    let Outcome::Rows(rows) = client.execute(prepared.statement_id, &[]) else { panic!("rows") };
    assert_eq!(rows.rows[1][1], Value::Int(1), "as a number of the binary protocol");
}
