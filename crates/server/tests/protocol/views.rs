//! Views: whose rights count, what a restart keeps, what prepared statements see.

use crate::common::{Client, TestServer};
use freshet_wire::Param;
use freshet_wire::client::{Outcome, Rows};

fn as_user(server: &TestServer, user: &str) -> Client {
    Client::connect(server.address, user, "", None).unwrap()
}

fn firsts(outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::Rows(Rows { rows, .. }) => {
            rows.iter().map(|row| crate::common::text(&row[0])).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_view_is_read_with_the_rights_of_its_definer_or_of_who_reads_it() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table secret (a int, b int)");
    root.run("insert into secret values (1, 10), (2, 20)");
    root.run("create view part as select a, current_user() as who from secret");
    root.run("create sql security invoker view own as select a, current_user() as who from secret");
    root.run("create user reader");
    root.run("grant select on d.part to reader");
    root.run("grant select on d.own to reader");
    let mut reader = as_user(&server, "reader");
    let seen = reader.texts("select * from d.part order by a");
    assert_eq!(seen, [["1", "root@%"], ["2", "root@%"]]);
    assert_eq!(reader.fails("select b from d.part").errno, 1054);
    assert_eq!(reader.fails("select * from d.secret").errno, 1142);
    assert_eq!(reader.fails("select * from d.own").errno, 1356, "it has no right on the table");
    assert_eq!(reader.fails("show create view d.part").errno, 1142);
    assert_eq!(
        reader.one("select view_definition from information_schema.views where table_name = 'own'"),
        "",
        "what it selects is not for everybody"
    );
    // A prepared plan asks for the rights of its views again.
    let prepared = reader.prepare("select who from d.part where a = ?").unwrap();
    for _ in 0..2 {
        let row = reader.execute(prepared.statement_id, &[Param::Int(1)]);
        assert_eq!(firsts(row), ["root@%"]);
    }
    root.run("revoke select on d.part from reader");
    assert!(matches!(
        reader.execute(prepared.statement_id, &[Param::Int(1)]),
        Outcome::Err { errno: 1142, .. }
    ));
    root.run("grant select on d.secret to reader");
    assert_eq!(reader.texts("select * from d.own order by a")[0], ["1", "reader@%"]);

    // A view inside a view has the rights of its own definer, and a definer may lose them.
    root.run("grant all on d.* to reader");
    reader.run("create view d.mine as select a from d.secret");
    root.run("revoke all on d.* from reader");
    root.run("revoke select on d.secret from reader");
    assert_eq!(root.fails("select * from mine").errno, 1356);
    root.run("create view above as select * from part");
    assert_eq!(root.texts("select who from above where a = 2"), [["root@%"]]);
    assert_eq!(reader.fails("create view d.x as select 1 as a").errno, 1142);
    root.run("grant create view on d.x to reader");
    let failure = reader.fails("create definer = root view d.x as select 1 as a");
    assert_eq!(failure.errno, 1227, "nobody borrows the rights of others");
    assert_eq!(reader.fails("create view d.x as select * from d.secret").errno, 1142);
}

#[test]
fn views_and_exchanged_names_stay_through_a_restart() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table a (x int)");
    root.run("create table b (y int)");
    root.run("insert into a values (1)");
    root.run("insert into b values (2)");
    root.run("create view v (n) as select x from a");
    root.run("create view gone as select 1 as c");
    root.run("drop view gone");
    root.run("rename table a to swap, b to a, swap to b");
    root.run("insert into b values (3)");
    assert_eq!(root.fails("select * from v").errno, 1356, "a has other columns now");
    let server = server.restart();
    let mut root = server.database("d");
    assert_eq!(root.one("select y from a"), "2");
    assert_eq!(root.texts("select x from b order by x"), [["1"], ["3"]]);
    assert_eq!(root.fails("select * from v").errno, 1356);
    assert_eq!(root.fails("select * from gone").errno, 1146);
    root.run("rename table a to swap, b to a, swap to b");
    assert_eq!(root.texts("select n from v order by n"), [["1"], ["3"]]);
    root.run("drop database d");
    let mut root = server.database("d");
    assert_eq!(root.fails("select * from v").errno, 1146, "views end with their database");
    root.run("create table v (z int)");
    let server = server.restart();
    let mut root = server.database("d");
    assert_eq!(root.one("select count(*) from v"), "0");
}

#[test]
fn a_view_reads_what_a_transaction_has_written_and_the_snapshot_of_its_query() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("create view v as select count(*) as n from t");
    let prepared = root.prepare("select n from v").unwrap();
    root.run("begin");
    root.run("insert into t values (1)");
    assert_eq!(root.one("select n from v"), "1");
    assert_eq!(server.database("d").one("select n from v"), "0");
    assert_eq!(firsts(root.execute(prepared.statement_id, &[])), ["1"]);
    root.run("rollback");
    assert_eq!(firsts(root.execute(prepared.statement_id, &[])), ["0"]);
    root.run("create or replace view v as select 7 as n");
    assert_eq!(firsts(root.execute(prepared.statement_id, &[])), ["7"]);
    root.run("drop view v");
    assert!(matches!(root.execute(prepared.statement_id, &[]), Outcome::Err { errno: 1146, .. }));
}
