//! What is open when a right is taken away: it ends with the next statement, what was done stays.

use freshet_wire::client::Outcome;

use super::common::{TestServer, failure};
use super::{Client, as_user};

#[test]
fn a_right_that_is_taken_away_is_gone_for_the_next_statement() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int primary key, b int)");
    root.run("insert into t values (1, 1), (2, 2)");
    root.run("create user u");
    root.run("grant select, insert, update, delete on d.* to u");
    let mut user = as_user(&server, "u");
    user.run("use d");
    let read = user.prepare("select b from t where a = 1").unwrap().statement_id;
    let write = user.prepare("insert into t values (9, 9)").unwrap().statement_id;
    assert!(matches!(user.execute(read, &[]), Outcome::Rows(_)));
    user.run("insert into t values (3, 3)");
    user.run("begin");
    user.run("insert into t values (4, 4)");
    assert_eq!(user.texts("select b from t where a = 2 for update"), [["2"]]);
    root.run("revoke select, insert, update, delete on d.* from u");
    for sql in [
        "select b from d.t where a = 1",
        "insert into d.t values (5, 5)",
        "update d.t set b = 5",
        "delete from d.t",
        "replace into d.t values (5, 5)",
        "select b from d.t for update",
    ] {
        assert_eq!(user.fails(sql).errno, 1142, "{sql}");
    }
    for statement in [read, write] {
        assert_eq!(failure(user.execute(statement, &[])).unwrap().errno, 1142);
    }
    assert_eq!(user.fails("use d").errno, 1044);
    // What it had done when it had the right is its to end.
    user.run("commit");
    assert_eq!(root.one("select count(*) from t"), "4");
    let ids = |root: &mut Client| root.texts("select a from t order by a").concat().join(",");
    assert_eq!(ids(&mut root), "1,2,3,4");
    root.run("grant insert on d.t to u");
    assert!(matches!(user.execute(write, &[]), Outcome::Ok { .. }), "and it comes back at once");
    root.run("drop user u");
    assert_eq!(failure(user.execute(write, &[])).unwrap().errno, 1142);
    assert_eq!(user.one("select 1"), "1", "its session lasts, without rights");
    root.run("create user u");
    assert_eq!(user.fails("insert into d.t values (10, 10)").errno, 1142);
}

/// FOR SHARE takes the right to read alone, FOR UPDATE one of those to change rows beside it.
#[test]
fn locking_reads_take_the_rights_of_mysql() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int primary key, b int)");
    root.run("insert into t values (1, 10)");
    root.run("create table secret (a int primary key)");
    root.run("create user reader, cleaner");
    root.run("grant select on d.t to reader");
    root.run("grant select, delete on d.t to cleaner");
    let (mut reader, mut cleaner) = (as_user(&server, "reader"), as_user(&server, "cleaner"));
    for begin in ["begin", "start transaction read only"] {
        reader.run(begin);
        assert_eq!(reader.one("select b from d.t where a = 1 for share"), "10");
        assert_eq!(reader.one("select b from d.t where a = 1 lock in share mode"), "10");
        assert_eq!(reader.fails("select a from d.secret for share").errno, 1142);
        root.run("set innodb_lock_wait_timeout = 1");
        assert_eq!(root.fails("update t set b = 11").errno, 1205, "{begin}: it holds the row");
        reader.run("commit");
    }
    // Nobody holds the row.
    root.run("update t set b = 10");
    reader.run("begin");
    assert_eq!(reader.fails("select b from d.t for update").errno, 1142);
    reader.run("rollback");
    cleaner.run("begin");
    assert_eq!(cleaner.one("select b from d.t for update"), "10");
    assert_eq!(cleaner.fails("update d.t set b = 1").errno, 1142);
    assert_eq!(cleaner.run("delete from d.t where a = 1").0, 1);
    cleaner.run("rollback");
}
