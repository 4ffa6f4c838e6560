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
    for insert in [
        "insert into t values (5, 1), (6, 1)",
        "insert ignore into t values (5, 1), (6, 1)",
        "insert into t values (6, 1), (5, 1) on duplicate key update v = 2",
    ] {
        for comes in [exchange, overwrite] {
            one.run("begin");
            one.run(insert);
            one.run("update t set v = v + 1 where k = 5");
            two.run(comes);
            let refused = one.fails("commit");
            assert_eq!(refused.errno, 1062, "{insert}, {comes}: {}", refused.message);
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
