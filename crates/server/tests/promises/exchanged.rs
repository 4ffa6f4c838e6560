//! Transactions beside partitions that change places: their rows come without a lock of anybody.

use crate::common::{Client, TestServer};

/// A table in partitions, and one that may change places with the first of them.
fn tables(client: &mut Client) {
    client.run(
        "create table t (k int primary key, v int) partition by range (k) \
         (partition p values less than (10), partition q values less than (20))",
    );
    client.run("create table n (k int primary key, v int)");
    client.run("insert into n values (5, 500)");
}

#[test]
fn a_row_that_came_with_a_partition_is_not_replaced() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    tables(&mut one);
    let exchange = "alter table t exchange partition p with table n";
    let overwrite = "insert overwrite table t partition (p) select 5, 500";
    // A statement that would have skipped or changed it has its turn when the client begins again.
    for (insert, errno) in [
        ("insert into t values (5, 1), (6, 1)", 1062),
        ("insert ignore into t values (5, 1), (6, 1)", 1213),
        ("insert into t values (6, 1), (5, 1) on duplicate key update v = 2", 1213),
    ] {
        for comes in [exchange, overwrite] {
            one.run("begin");
            one.run(insert);
            one.run("update t set v = v + 1 where k = 5");
            two.run(comes);
            let refused = one.fails("commit");
            assert_eq!(refused.errno, errno, "{insert}, {comes}: {}", refused.message);
            let message = "Duplicate entry '5' for key 't.PRIMARY'";
            assert!(refused.message.contains(message), "{}", refused.message);
            assert_eq!(one.texts("select k, v from t"), [["5", "500"]], "{insert}, {comes}");
            two.run(if comes == exchange { exchange } else { "delete from t where k < 10" });
        }
    }
    // What it has taken back is not written, and the other row not removed.
    one.run("begin");
    one.run("insert into t values (5, 1), (7, 1)");
    two.run(exchange);
    one.run("delete from t where k = 5");
    one.run("commit");
    assert_eq!(one.texts("select k, v from t order by k"), [["5", "500"], ["7", "1"]]);
    // A row that the transaction has changed and that went with its partition is gone.
    one.run("begin");
    one.run("update t set v = v + 1 where k = 5");
    two.run(exchange);
    assert_eq!(one.fails("commit").errno, 1213);
    assert_eq!(one.one("select count(*) from t"), "0");
    assert_eq!(one.texts("select k, v from n order by k"), [["5", "500"], ["7", "1"]]);
}

#[test]
fn a_row_that_came_with_a_partition_is_replaced_by_who_replaces_rows() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    tables(&mut one);
    one.run("begin");
    one.run("replace into t values (5, 1), (6, 1)");
    one.run("update t set v = v + 1 where k = 5");
    two.run("alter table t exchange partition p with table n");
    one.run("commit");
    assert_eq!(one.texts("select k, v from t order by k"), [["5", "2"], ["6", "1"]]);
    // What was inserted first may meet none, whatever replaces it later.
    one.run("delete from t");
    one.run("insert into n values (8, 800)");
    one.run("begin");
    one.run("insert into t values (8, 1)");
    one.run("replace into t values (8, 2)");
    two.run("alter table t exchange partition p with table n");
    assert_eq!(one.fails("commit").errno, 1062);
    assert_eq!(one.texts("select k, v from t"), [["8", "800"]]);
}

#[test]
fn who_would_have_replaced_or_changed_a_row_that_came_with_a_partition_begins_again() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    let columns = "(k int, p int, u int, v int, primary key (k, p), unique key (u, p))";
    one.run(&format!(
        "create table t {columns} partition by range (p) (partition p values less than (10))"
    ));
    one.run(&format!("create table n {columns}"));
    one.run("insert into n values (5, 1, 7, 500)");
    let exchange = "alter table t exchange partition p with table n";
    let update = "on duplicate key update v = v + 1";
    for (statement, errno) in [
        ("replace into t values (6, 1, 7, 1)".to_owned(), 1213),
        ("insert ignore into t values (6, 1, 7, 1)".to_owned(), 1213),
        (format!("insert into t values (6, 1, 7, 1) {update}"), 1213),
        ("insert into t values (6, 1, 7, 1)".to_owned(), 1062),
    ] {
        one.run("begin");
        one.run(&statement);
        two.run(exchange);
        let refused = one.fails("commit");
        assert_eq!(refused.errno, errno, "{statement}: {}", refused.message);
        assert!(refused.message.contains("Duplicate entry '7-1'"), "{}", refused.message);
        assert_eq!(one.texts("select * from t"), [["5", "1", "7", "500"]], "{statement}");
        two.run(exchange);
    }
    two.run(exchange);
    one.run("begin");
    one.run("replace into t values (6, 1, 7, 1)");
    one.run("commit");
    assert_eq!(one.texts("select * from t"), [["6", "1", "7", "1"]]);
}
