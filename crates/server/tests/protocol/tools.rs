//! What tools and monitors of MySQL ask for, in the types in which they read it.

use crate::common::{Client, TestServer};
use freshet_wire::client::{Outcome, Rows, Value};
use freshet_wire::{ColumnType, Param};

/// The columns of a result that have numbers and times; drivers give these to programs as such,
/// and `not row['Non_unique']` is true of every text.
fn typed(rows: &Rows, ty: ColumnType) -> Vec<&str> {
    let of_type = rows.names.iter().zip(&rows.types).filter(|(_, (found, _))| *found == ty);
    of_type.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn status_counts_what_clients_do() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let number = |client: &mut Client, name: &str| {
        let rows = client.texts(&format!("show global status like '{name}'"));
        assert_eq!(rows.len(), 1, "{name}");
        rows[0][1].parse::<u64>().unwrap()
    };
    client.run("create table t (id int primary key, a int)");
    let names = [
        "Com_insert",
        "Com_insert_select",
        "Com_update",
        "Com_delete",
        "Com_select",
        "Com_commit",
        "Com_stmt_prepare",
        "Com_stmt_execute",
        "Com_show_keys",
        "Com_create_table",
    ];
    let before = names.map(|name| number(&mut client, name));
    client.run("insert into t values (1, 1), (2, 2)");
    client.run("insert into t select id + 10, a from t");
    client.run("update t set a = 5 where id = 1");
    client.run("update t set a = a + 1");
    client.run("delete from t where id = 2");
    client.texts("select a from t where id = 1");
    client.texts("select count(*) from t");
    client.run("begin");
    client.run("commit");
    let prepared = client.prepare("insert into t values (?, ?)").unwrap();
    for id in [20, 21] {
        client.execute(prepared.statement_id, &[Param::Int(id), Param::Null]);
    }
    client.rows("show index from t");
    let grown = names.map(|name| number(&mut client, name));
    let grown = std::array::from_fn::<_, 10, _>(|at| grown[at] - before[at]);
    assert_eq!(grown, [3, 1, 2, 1, 2, 1, 1, 2, 1, 0]);
    let sent = number(&mut client, "Bytes_sent");
    client.texts("select repeat('x', 10000)");
    assert!(number(&mut client, "Bytes_sent") >= sent + 10_000);
    let received = number(&mut client, "Bytes_received");
    client.texts(&format!("select 1 -- {}", "y".repeat(5000)));
    assert!(number(&mut client, "Bytes_received") >= received + 5000);
    let [aborted, refused] = ["Aborted_clients", "Aborted_connects"];
    let ended = [aborted, refused].map(|name| number(&mut client, name));
    drop(server.connect());
    assert!(Client::connect(server.address, "root", "wrong", None).is_err());
    for (name, before) in [aborted, refused].into_iter().zip(ended) {
        let begun = std::time::Instant::now();
        while number(&mut client, name) == before {
            assert!(begun.elapsed().as_secs() < 20, "{name}");
        }
    }
    assert!(number(&mut client, "Max_used_connections") >= 2);
    assert!(number(&mut client, "Connections") >= 3);
    // What monitors of MySQL read, and is not here.
    assert_eq!(number(&mut client, "Innodb_buffer_pool_read_requests"), 0);
    let all = client.texts("show global status");
    assert!(all.windows(2).all(|pair| pair[0][0] < pair[1][0]), "in order, each once: {all:?}");
    assert!(all.len() > 200, "{}", all.len());
}

#[test]
fn open_transactions_are_listed_for_who_may_see_their_connections() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let mut other = server.connect();
    other.run("create user plain");
    let open = "select trx_mysql_thread_id = connection_id(), trx_state, trx_isolation_level, \
                trx_is_read_only, trx_started > '2000-01-01', trx_rows_locked from \
                information_schema.innodb_trx order by trx_isolation_level";
    assert_eq!(client.texts(open).len(), 0);
    client.run("begin");
    let row = ["1", "RUNNING", "READ COMMITTED", "0", "1", "NULL"];
    assert_eq!(client.texts(open), [row]);
    other.run("set session transaction isolation level repeatable read");
    other.run("start transaction read only");
    let all = other.texts(open);
    assert_eq!(all[0][..2], ["0", "RUNNING"]);
    assert_eq!(all[1][..4], ["1", "RUNNING", "REPEATABLE READ", "1"]);
    let mut plain = Client::connect(server.address, "plain", "", None).unwrap();
    assert_eq!(plain.texts(open).len(), 0, "others are not shown to it");
    client.run("commit");
    other.run("rollback");
    assert_eq!(other.texts(open).len(), 0);
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
    client.run("create table large (id bigint unsigned auto_increment primary key)");
    client.run("insert into large values (9223372036854775900)");
    let large = client.texts("show table status like 'large'");
    assert_eq!(large[0][10], "9223372036854775901", "beyond a signed number");
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

#[test]
fn who_waits_for_a_locked_row_is_told_with_who_holds_it() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, a int, unique key u (a))");
    client.run("insert into t values (1, 1), (2, 2)");
    let waits = "select waiting_pid, blocking_pid, locked_table, locked_index, waiting_query, \
                 blocking_trx_id, waiting_lock_mode, sql_kill_blocking_connection from \
                 sys.innodb_lock_waits";
    assert_eq!(client.texts(waits).len(), 0);
    let mut holder = server.connect();
    let blocking = holder.one("select connection_id()");
    holder.run("begin");
    holder.run("update d.t set a = 5 where id = 1");
    let mut waiter = server.connect();
    let waiting = waiter.one("select connection_id()");
    std::thread::scope(|scope| {
        let sql = "update d.t set a = a + 1 where id = 1";
        scope.spawn(move || waiter.run(sql));
        let begun = std::time::Instant::now();
        let told = loop {
            let told = client.texts(waits);
            if !told.is_empty() {
                break told;
            }
            assert!(begun.elapsed().as_secs() < 20, "nobody waits");
        };
        let kill = format!("KILL {blocking}");
        let (table, mode) = ("`d`.`t`", "X,REC_NOT_GAP");
        let expected = [&*waiting, &blocking, table, "PRIMARY", sql, &blocking, mode, &kill];
        assert_eq!(told, [expected]);
        holder.run("commit");
    });
    assert_eq!(client.texts(waits).len(), 0);
    assert_eq!(client.one("select a from t where id = 1"), "6");
}
