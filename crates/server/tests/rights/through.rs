//! Writing through views: the user needs rights on the view, its definer or the user on the table,
//! and no road goes past either.

use freshet_wire::Param;
use freshet_wire::client::Outcome;

use super::common::TestServer;
use super::{Client, as_user};

/// `d.t` with three rows, seen by the views `d.of_root`, `d.of_definer` and `d.of_invoker`, and
/// `app`, who has no rights.
fn server() -> (TestServer, Client, Client) {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (id int primary key, a int, secret int)");
    root.run("insert into t values (1, 10, 100), (2, 20, 200), (3, 30, 300)");
    root.run("create user app, definer");
    root.run("create view of_root as select id, a from t where id < 10");
    root.run("create definer = definer view of_definer as select id, a from t where id < 10");
    root.run("create sql security invoker view of_invoker as select id, a from t where id < 10");
    let app = as_user(&server, "app");
    (server, root, app)
}

/// Statements that write through a view, and what they take on it.
const WRITES: &[(&str, &[&str])] = &[
    ("insert into VIEW values (5, 50)", &["insert"]),
    ("insert into VIEW (id) select 6", &["insert"]),
    ("insert into VIEW values (5 + 2, 70)", &["insert"]),
    ("replace into VIEW values (5, 51)", &["insert", "delete"]),
    ("insert into VIEW values (5, 1) on duplicate key update a = 52", &["insert", "update"]),
    ("insert into VIEW values (5, 1) on duplicate key update a = values(a)", &["insert", "update"]),
    (
        "insert into VIEW values (5, 1) on duplicate key update a = of_it.a + 1",
        &["insert", "update", "select"],
    ),
    ("update VIEW set a = 7", &["update"]),
    ("update VIEW set a = a + 1", &["update", "select"]),
    ("update VIEW set a = 8 where id = 1", &["update", "select"]),
    ("delete from VIEW where id = 6", &["delete", "select"]),
    ("delete from VIEW limit 1", &["delete"]),
];

fn each(view: &str) -> impl Iterator<Item = (String, &'static [&'static str])> {
    let name = view.split_once('.').map_or(view, |(_, name)| name).to_owned();
    let view = view.to_owned();
    let said = move |sql: &str| sql.replace("VIEW", &view).replace("of_it", &name);
    WRITES.iter().map(move |(sql, rights)| (said(sql), *rights))
}

#[test]
fn a_statement_takes_its_rights_on_the_view() {
    let (_server, mut root, mut app) = server();
    for (sql, rights) in each("d.of_root") {
        assert_eq!(app.fails(&sql).errno, 1142, "{sql} without rights");
        for right in rights {
            root.run(&format!("grant {right} on d.of_root to app"));
        }
        for right in rights {
            root.run(&format!("revoke {right} on d.of_root from app"));
            assert_eq!(app.fails(&sql).errno, 1142, "{sql} without {right}");
            root.run(&format!("grant {right} on d.of_root to app"));
        }
        app.run(&sql);
        root.run("revoke all on d.of_root from app");
    }
    // Rights on the table are none on the view.
    root.run("grant all on d.t to app");
    for (sql, _) in each("d.of_root") {
        assert_eq!(app.fails(&sql).errno, 1142, "{sql}");
    }
}

#[test]
fn the_definer_needs_rights_on_the_table() {
    let (_server, mut root, mut app) = server();
    root.run("grant all on d.of_definer to app");
    for (sql, _) in each("d.of_definer") {
        assert_eq!(app.fails(&sql).errno, 1356, "{sql}");
    }
    root.run("grant select on d.t to definer");
    for (sql, _) in each("d.of_definer") {
        assert_eq!(app.fails(&sql).errno, 1356, "{sql}");
    }
    root.run("grant insert, update, delete on d.t to definer");
    for (sql, _) in each("d.of_definer") {
        app.run(&sql);
    }
    assert_eq!(app.fails("select * from d.t").errno, 1142);
    assert_eq!(app.fails("update d.t set a = 1").errno, 1142);
    // What was resolved before does not outlive the right.
    let prepared = app.prepare("insert into d.of_definer values (?, ?)").unwrap();
    let values = [Param::Int(60), Param::Int(1)];
    assert!(matches!(app.execute(prepared.statement_id, &values), Outcome::Ok { .. }));
    app.run("insert into d.of_definer values (61, 1)");
    root.run("revoke insert on d.t from definer");
    let values = [Param::Int(62), Param::Int(1)];
    let refused = app.execute(prepared.statement_id, &values);
    assert!(matches!(refused, Outcome::Err { errno: 1356, .. }), "{refused:?}");
    assert_eq!(app.fails("insert into d.of_definer values (63, 1)").errno, 1356);
    root.run("revoke insert on d.of_definer from app");
    assert_eq!(app.fails("insert into d.of_definer values (63, 1)").errno, 1142);
    assert_eq!(root.one("select group_concat(id order by id) from t where id > 9"), "60,61");
}

#[test]
fn the_invoker_needs_rights_on_the_table() {
    let (_server, mut root, mut app) = server();
    root.run("grant all on d.of_invoker to app");
    for (sql, _) in each("d.of_invoker") {
        assert_eq!(app.fails(&sql).errno, 1356, "{sql}");
    }
    root.run("grant select, insert, update, delete on d.t to app");
    for (sql, _) in each("d.of_invoker") {
        app.run(&sql);
    }
}

#[test]
fn other_tables_of_the_statement_take_the_rights_of_the_user() {
    let (_server, mut root, mut app) = server();
    root.run("create table other (id int primary key, x int)");
    root.run("insert into other values (1, 1)");
    root.run("grant all on d.of_root to app");
    for sql in [
        "update d.of_root set a = (select max(x) from d.other)",
        "update d.of_root v join d.other o on v.id = o.id set v.a = o.x",
        "delete from d.of_root where a in (select x from d.other)",
        "insert into d.of_root select id + 10, x from d.other",
        "insert into d.of_root values (1, (select max(x) from d.other))",
        "insert into d.of_root values (1, 1) on duplicate key update a = (select x from d.other)",
        // The table behind the view is one of them.
        "insert into d.of_root select id + 10, secret from d.t",
        "insert into d.of_root values (1, (select max(secret) from d.t))",
        "insert into d.of_root values (1, 1) on duplicate key update a = (select max(secret) from \
         d.t)",
        "delete from d.of_root where a in (select d.secret from (select secret from d.t) d)",
    ] {
        assert_eq!(app.fails(sql).errno, 1142, "{sql}");
    }
    let own = "update d.of_root set a = (select m from (select max(secret) m from d.t) d)";
    assert_eq!(app.fails(own).errno, 1142);
    // Names that the server marks things with are none of a statement.
    for mark in ['\u{1}', '\u{4}'] {
        let sql = format!("select * from d.`of_root\u{1}{mark}\u{1}secret`");
        assert_eq!(app.fails(&sql).errno, 1064);
        let sql = format!("select `{mark}secret` from d.of_root partition (`{mark}`, `secret`)");
        assert_eq!(app.fails(&sql).errno, 1064);
        for quote in ['\'', '"'] {
            let sql = format!("select {quote}a{quote} as {quote}{mark}secret{quote}");
            assert_eq!(app.fails(&sql).errno, 1064, "{sql}");
            let sql = format!("select * from (select 1 {quote}{mark}secret{quote}) d");
            assert_eq!(app.fails(&sql).errno, 1064, "{sql}");
        }
    }
    root.run("grant select on d.other to app");
    app.run("update d.of_root set a = (select max(x) from d.other)");
}

#[test]
fn no_name_gives_a_right() {
    let (_server, mut root, mut app) = server();
    root.run("create table other (x int)");
    root.run("insert into other values (7)");
    root.run(
        "create table divided (a int) partition by range (a) (partition p values less than (9))",
    );
    root.run("grant create view, drop on d.* to app");
    // What the server writes where it lets a view show columns of its table, or stands rows in
    // place of those of a table.
    let listed =
        ["'\u{4}', 'secret'", "\"\u{4}\", \"secret\"", "'\u{4}0', 'secret'", "'\u{4}'", "'\u{3}'"];
    for list in listed.into_iter().chain(["''", "``", "\"\"", "`p`, ``", "p, ''"]) {
        for sql in [
            format!("select * from d.of_root partition ({list})"),
            format!("select 1 from d.other o join d.of_root partition ({list}) v"),
            format!("select (select max(secret) from d.of_root partition ({list}))"),
            format!("create view d.mine as select * from d.of_root partition ({list})"),
            format!("select * from d.divided partition ( {list})"),
        ] {
            assert_eq!(app.fails(&sql).errno, 1064, "{sql}");
        }
    }
    for sql in [
        "select * from d.'of_root\u{1}\u{4}\u{1}secret'",
        "select v.'\u{4}secret' from d.of_root v",
        "select * from ''",
    ] {
        assert_eq!(app.fails(sql).errno, 1064, "{sql}");
    }
    root.run("grant all on d.of_root to app");
    for list in ["``", "''", "`\u{4}`"] {
        let sql = format!(
            "insert into d.of_root values (1, 1) on duplicate key update a = (select max(x) from \
             d.other partition ({list}))"
        );
        assert_eq!(app.fails(&sql).errno, 1064, "{sql}");
    }
    assert_eq!(root.one("select group_concat(a order by id) from t"), "10,20,30");
}

#[test]
fn names_that_differ_by_case_are_two() {
    let (_server, mut root, _app) = server();
    root.run(
        "create table parts (id int, primary key (id)) partition by range (id) \
         (partition p values less than (3))",
    );
    root.run("insert into parts values (1)");
    root.run("delete a from of_root as a join parts partition (p) as A on a.id = A.id");
    assert_eq!(root.one("select group_concat(id order by id) from t"), "2,3");
    assert_eq!(root.one("select count(*) from parts"), "1");
}

#[test]
fn a_view_that_is_altered_while_rows_are_waited_for_is_looked_at_again() {
    let (server, mut root, mut app) = server();
    root.run("grant select, update on d.of_root to app");
    root.run("begin");
    root.run("update t set a = 11 where id = 1");
    let mut other = as_user(&server, "root");
    let waiting = std::thread::spawn(move || {
        app.run("update d.of_root set a = a + 1 where id = 1");
        app
    });
    while other
        .one("select count(*) from information_schema.processlist where info like 'update d.%'")
        == "0"
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    other.run("create or replace view d.of_root as select id, secret as a from d.t where id < 10");
    root.run("commit");
    let mut app = waiting.join().unwrap();
    assert_eq!(root.one("select concat(a, '-', secret) from t where id = 1"), "11-101");
    assert_eq!(app.one("select a from d.of_root where id = 1"), "101");
}

#[test]
fn a_subquery_of_a_view_reads_the_table_that_is_changed_with_its_right() {
    let (_server, mut root, mut app) = server();
    root.run("create sql security invoker view secrets as select secret from t");
    root.run("grant update on d.t to app");
    root.run("grant select on d.secrets to app");
    let sql = "update d.t set a = (select m from (select max(secret) m from d.secrets) d)";
    assert!(matches!(app.fails(sql).errno, 1142 | 1356), "it may not read the table");
    assert_eq!(root.one("select max(a) from t"), "30");
}

#[test]
fn views_over_views_take_the_rights_of_each_definer() {
    let (_server, mut root, mut app) = server();
    root.run("create definer = definer view outer_one as select id, a from of_root where a < 500");
    root.run("grant insert, update, delete, select on d.outer_one to app");
    for (sql, _) in each("d.outer_one") {
        assert_eq!(app.fails(&sql).errno, 1356, "{sql}");
    }
    root.run("grant select, insert, update, delete on d.of_root to definer");
    for (sql, _) in each("d.outer_one") {
        app.run(&sql);
    }
    root.run("revoke update on d.of_root from definer");
    assert_eq!(app.fails("update d.outer_one set a = 1").errno, 1356);
}

#[test]
fn a_column_that_the_definer_may_not_read_is_not_told_of() {
    let (_server, mut root, mut app) = server();
    root.run("grant select (id), update, delete on d.t to definer");
    root.run("grant all on d.of_definer to app");
    for sql in [
        "select a from d.of_definer",
        "update d.of_definer set a = a + 1",
        "update d.of_definer set a = 1 where a > 0",
        "delete from d.of_definer where a = 10",
    ] {
        let failed = app.fails(sql);
        assert_eq!(failed.errno, 1356, "{sql}: {}", failed.message);
    }
    assert_eq!(app.one("select count(id) from d.of_definer"), "3");
}

#[test]
fn joined_tables_take_the_rights_of_each() {
    let (_server, mut root, mut app) = server();
    root.run("create table u (id int primary key, b int)");
    root.run("insert into u values (1, 5), (2, 6)");
    root.run(
        "create definer = definer view both_of as select t.id, a, b from t join u on t.id = u.id",
    );
    let (left, right) = ("update d.both_of set a = 1", "update d.both_of set b = 2");
    assert_eq!(app.fails(left).errno, 1142);
    root.run("grant update on d.both_of to app");
    assert_eq!(app.fails(left).errno, 1356, "the definer has no rights");
    root.run("grant select, update on d.t to definer");
    assert_eq!(app.fails(left).errno, 1356, "the definer cannot read the other table");
    root.run("grant select on d.u to definer");
    app.run(left);
    assert_eq!(app.fails(right).errno, 1356, "the definer cannot change the other table");
    root.run("grant update (b) on d.u to definer");
    app.run(right);
    let read = "update d.both_of set a = b";
    assert_eq!(app.fails(read).errno, 1142, "it reads columns of the view");
    root.run("grant select on d.both_of to app");
    app.run(read);
    assert_eq!(root.one("select group_concat(a order by id) from t"), "2,2,30");
    // The columns that are written say whose rights an INSERT takes.
    root.run("grant insert on d.both_of to app");
    root.run("grant insert on d.u to definer");
    assert_eq!(app.fails("insert into d.both_of (a) values (9)").errno, 1356);
    assert_eq!(app.fails("insert into d.both_of (b) values (9)").errno, 1423);
    // Several tables at once, of which one is a view.
    root.run("create table w (id int primary key, x int)");
    root.run("insert into w values (1, 1)");
    let several = "update d.both_of v join d.w on v.id = w.id set v.a = 3, w.x = 3";
    assert_eq!(app.fails(several).errno, 1142);
    root.run("grant select, update on d.w to app");
    app.run(several);
    assert_eq!(root.one("select concat(a, x) from t join w using (id)"), "33");
}

#[test]
fn row_policies_of_the_definer_hold() {
    let (_server, mut root, mut app) = server();
    root.run("grant select, insert, update, delete on d.t to definer");
    root.run("create row policy p on d.t as permissive to definer using (id = 1)");
    root.run("grant all on d.of_definer to app");
    app.run("update d.of_definer set a = 77");
    assert_eq!(root.one("select group_concat(a order by id) from t"), "77,20,30");
    app.run("delete from d.of_definer");
    assert_eq!(root.one("select group_concat(a order by id) from t"), "20,30");
    assert_eq!(app.fails("replace into d.of_definer values (2, 1)").errno, 1142);
    let upsert = "insert into d.of_definer values (2, 1) on duplicate key update a = 1";
    assert_eq!(app.fails(upsert).errno, 1235);
    assert_eq!(root.one("select group_concat(a order by id) from t"), "20,30");
    // Those of the user are none of the view's.
    root.run("create row policy q on d.t as permissive to app using (id = 2)");
    root.run("grant all on d.of_root to app");
    app.run("update d.of_root set a = 5");
    assert_eq!(root.one("select group_concat(a order by id) from t"), "5,5");
}

#[test]
fn roads_that_know_no_views_refuse_them() {
    let (_server, mut root, mut app) = server();
    root.run("grant all on d.of_root to app");
    for (sql, errno) in [
        ("insert overwrite table d.of_root values (1, 1)", 1347),
        ("truncate table d.of_root", 1347),
        ("insert into d.of_root partition (p) values (8, 8)", 1747),
        ("alter table d.of_root add column x int", 1347),
    ] {
        assert_eq!(app.fails(sql).errno, errno, "{sql}");
    }
    assert_eq!(root.one("select count(*) from t"), "3");
}

#[test]
fn short_views_make_no_long_work() {
    let (_server, mut root, _app) = server();
    root.run("create view v0 as select a from t where a > 0");
    for n in 1..=10 {
        root.run(&format!("create view v{n} as select a + a as a from v{} where a > 0", n - 1));
    }
    let updatable = "select count(*) from information_schema.views where table_name like 'v%' and \
                     is_updatable = 'YES'";
    assert_eq!(root.one(updatable), "11");
    let checked = "create view w as select a from v10 where a > 0 with check option";
    assert_eq!(root.fails(checked).errno, 1235);
}

#[test]
fn a_transaction_does_not_wait_for_a_view_that_was_altered() {
    let (_server, mut root, mut app) = server();
    root.run("grant select, update on d.of_root to app");
    app.run("set session transaction isolation level repeatable read");
    app.run("begin");
    assert_eq!(app.one("select count(*) from d.of_root"), "3");
    root.run("alter view of_root as select id, secret as a from t");
    assert_eq!(app.fails("update d.of_root set a = 1 where id = 1").errno, 1356);
    app.run("rollback");
    app.run("update d.of_root set a = 1 where id = 1");
    assert_eq!(root.one("select secret from t where id = 1"), "1");
}

#[test]
fn alter_view_keeps_whose_rights_count() {
    let (_server, mut root, mut app) = server();
    root.run("grant all on d.* to app");
    root.run("alter view of_invoker as select id, a from t");
    let shown = root.texts("show create view of_invoker")[0][1].clone();
    assert!(shown.contains("SQL SECURITY INVOKER"), "{shown}");
    root.run("alter view of_definer as select id, a from t");
    let shown = root.texts("show create view of_definer")[0][1].clone();
    assert!(shown.contains("DEFINER=`definer`"), "{shown}");
    assert_eq!(app.fails("alter view d.of_root as select secret as a from d.t").errno, 1227);
    root.run("alter sql security definer view of_invoker as select id, a from t");
    let shown = root.texts("show create view of_invoker")[0][1].clone();
    assert!(shown.contains("SQL SECURITY DEFINER"), "{shown}");
}
