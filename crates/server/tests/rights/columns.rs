//! Privileges on columns.

use freshet_wire::client::Outcome;

use super::as_user;
use super::common::{Client, TestServer, failure};
use super::options::asked;

fn server() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int, b int, c int, hidden int)");
    root.run("insert into t values (1, 2, 3, 4), (5, 6, 7, 8)");
    root.run("create table k (id int primary key, a int, b int, key (b))");
    root.run("insert into k values (1, 2, 3)");
    root.run("create user u");
    (server, root)
}

#[track_caller]
fn refused(client: &mut Client, statement: &str, privilege: &str, column: &str) {
    let error = client.fails(statement);
    assert_eq!(error.errno, 1143, "{statement}: {error:?}");
    assert_eq!(
        error.message,
        format!("{privilege} command denied to user 'u'@'%' for column '{column}' in table 't'"),
        "{statement}"
    );
}

#[test]
fn a_statement_needs_its_privilege_on_each_column() {
    let (server, mut root) = server();
    root.run("grant select (a, B), update (c), insert (a) on d.t to u");
    let mut client = as_user(&server, "u");
    client.run("use d");
    assert_eq!(client.texts("select b, a from t where b > 2"), [["6", "5"]]);
    assert_eq!(client.texts("select count(*) from t"), [["2"]]);
    for statement in [
        "select c from t",
        "select a from t where c = 3",
        "select a from t order by c",
        "select max(c) from t",
        "select x.a from t x join t y on x.a = y.c",
        "select a from t where a in (select c from t)",
        "update t set c = c + 1",
        "update t set c = 1 where c = 3",
    ] {
        refused(&mut client, statement, "SELECT", "c");
    }
    assert_eq!(client.fails("select * from t").errno, 1143);
    assert_eq!(client.fails("select a from d.k").errno, 1142);
    client.run("insert into t (a) values (9)");
    client.run("insert into t (a) select a + 10 from t where a = 9");
    refused(&mut client, "insert into t (a, b) values (1, 2)", "INSERT", "b");
    refused(&mut client, "insert into t values (1, 2, 3, 4)", "INSERT", "b");
    refused(&mut client, "insert into t (a) select 1 from t where c = 1", "SELECT", "c");
    assert_eq!(client.run("update t set c = a + b where b = 2").0, 1);
    assert_eq!(client.run("update t set c = 70 limit 1").0, 1);
    refused(&mut client, "update t set a = 1", "UPDATE", "a");
    refused(&mut client, "update t set c = 1, b = 1", "UPDATE", "b");
    for statement in ["delete from t", "truncate table t", "alter table t add x int"] {
        assert_eq!(client.fails(statement).errno, 1142, "{statement}");
    }
    assert_eq!(root.texts("select count(*) from t where c = 70"), [["1"]]);
    assert_eq!(root.texts("select count(*) from t"), [["4"]]);
}

#[test]
fn keys_and_prepared_statements_give_no_column_away() {
    let (server, mut root) = server();
    root.run("grant select (id, a), update (a) on d.k to u");
    let mut client = as_user(&server, "u");
    client.run("use d");
    assert_eq!(client.texts("select a from k where id = 1"), [["2"]]);
    assert_eq!(client.fails("select b from k where id = 1").errno, 1143);
    assert_eq!(client.fails("select id from k where b = 3").errno, 1143);
    assert_eq!(client.fails("select * from k where id = 1").errno, 1143);
    assert_eq!(client.run("update k set a = 5 where id = 1").0, 1);
    assert_eq!(client.fails("update k set a = 5 where b = 3").errno, 1143);
    let id = client.prepare("select a from k where id = 1").unwrap().statement_id;
    assert!(matches!(client.execute(id, &[]), Outcome::Rows(_)));
    root.run("revoke select (a) on d.k from u");
    assert_eq!(failure(client.execute(id, &[])).unwrap().errno, 1143);
    root.run("grant select on d.k to u");
    assert!(matches!(client.execute(id, &[]), Outcome::Rows(_)));
    assert_eq!(client.texts("select b from k where id = 1"), [["3"]]);
}

#[test]
fn grants_on_columns_are_shown_kept_and_revoked() {
    let (server, mut root) = server();
    root.run("grant select (a, b), insert (a), delete on d.t to u");
    let shown = |root: &mut Client| root.texts("show grants for u")[1..].concat();
    let grant = "GRANT SELECT (`a`, `b`), INSERT (`a`), DELETE ON `d`.`t` TO `u`@`%`";
    assert_eq!(shown(&mut root), [grant]);
    let mut client = as_user(&server, "u");
    let columns = "select column_name from information_schema.columns where table_name = 't'";
    assert_eq!(client.texts(columns).concat().len(), 4, "DELETE is on all columns");
    root.run("revoke delete on d.t from u");
    assert_eq!(client.texts(columns).concat(), ["a", "b"]);
    let listed = client.texts("show full columns from d.t");
    let listed = listed.iter().map(|row| (row[0].as_str(), row[7].as_str())).collect::<Vec<_>>();
    assert_eq!(listed, [("a", "select,insert"), ("b", "select")]);
    assert_eq!(client.texts("show tables from d"), [["t"]]);
    let of = "select grantee, table_schema, table_name, column_name, privilege_type, is_grantable \
              from information_schema.column_privileges order by column_name, privilege_type";
    assert_eq!(
        client.texts(of),
        [
            ["'u'@'%'", "d", "t", "a", "INSERT", "NO"],
            ["'u'@'%'", "d", "t", "a", "SELECT", "NO"],
            ["'u'@'%'", "d", "t", "b", "SELECT", "NO"],
        ]
    );
    let of = "select user, db, table_name, column_name, column_priv from mysql.columns_priv \
              order by column_name";
    assert_eq!(
        root.texts(of),
        [["u", "d", "t", "a", "Select,Insert"], ["u", "d", "t", "b", "Select"]]
    );
    let server = server.restart();
    let mut root = server.connect();
    assert_eq!(shown(&mut root), ["GRANT SELECT (`a`, `b`), INSERT (`a`) ON `d`.`t` TO `u`@`%`"]);
    root.run("revoke select (b), insert (a) on d.t from u");
    assert_eq!(shown(&mut root), ["GRANT SELECT (`a`) ON `d`.`t` TO `u`@`%`"]);
    root.run("grant select, insert (c) on d.t to u");
    let both = "GRANT SELECT, SELECT (`a`), INSERT (`c`) ON `d`.`t` TO `u`@`%`";
    assert_eq!(shown(&mut root), [both]);
    root.run("revoke all privileges on d.t from u");
    assert_eq!(shown(&mut root), [""; 0]);
}

#[test]
fn who_grants_has_the_column_and_it_exists() {
    let (server, mut root) = server();
    root.run("create user v");
    for (statement, errno) in [
        ("grant select (nope) on d.t to u", 1054),
        ("grant select (a) on d.nope to u", 1146),
        ("grant select (a) on d.* to u", 1144),
        ("grant select (a) on *.* to u", 1144),
        ("grant delete (a) on d.t to u", 1064),
        ("grant references (a) on d.t to u", 1064),
        ("grant all (a) on d.t to u", 1064),
        ("grant select (a), update (nope) on d.t to u", 1054),
    ] {
        assert_eq!(root.fails(statement).errno, errno, "{statement}");
    }
    assert_eq!(root.texts("show grants for u"), [["GRANT USAGE ON *.* TO `u`@`%`"]]);
    root.run("grant select (a) on d.t to u");
    let mut client = as_user(&server, "u");
    assert_eq!(client.fails("grant select (a) on d.t to v").errno, 1142);
    root.run("grant grant option on d.t to u");
    client.run("grant select (a) on d.t to v");
    assert_eq!(client.fails("grant select (b) on d.t to v").errno, 1143);
    root.run("create role r");
    root.run("grant select (c) on d.t to r");
    root.run("grant r to v");
    let mut client = as_user(&server, "v");
    assert_eq!(client.fails("select c from d.t").errno, 1143);
    client.run("set role r");
    assert_eq!(client.texts("select a, c from d.t where a = 1"), [["1", "3"]]);
}

#[test]
fn a_hidden_column_is_told_of_by_no_other_road() {
    let (server, mut root) = server();
    root.run("create table d.s (id int primary key, a int, h varchar(20) default 'hidden')");
    root.run("create table d.o (id int primary key, a int)");
    root.run("create user w");
    root.run("grant insert (id, a) on d.s to w");
    root.run("grant create on d.* to w");
    let mut client = as_user(&server, "w");
    let listed = "select column_name from information_schema.columns where table_name = 's'";
    assert_eq!(client.texts(listed), [["id"], ["a"]], "CREATE tells of no columns");
    assert_eq!(client.fails("insert into d.s (id, a) values (5, default(h))").errno, 1143);
    client.run("insert into d.s (id, a) values (5, default(a))");
    // What reads whole rows says so of the table.
    root.run("insert into d.o values (5, 1)");
    root.run("grant delete on d.s to w");
    root.run("grant select (id) on d.s to w");
    root.run("grant select on d.o to w");
    let denied = client.fails("delete d.s from d.s join d.o on d.s.id = d.o.id");
    assert_eq!(denied.errno, 1142);
    assert!(denied.message.contains("SELECT") && !denied.message.contains('\u{1}'), "{denied:?}");
}

#[test]
fn who_may_not_delete_sets_no_delete_sign() {
    let (server, mut root) = server();
    root.run(
        "create table s (k int, v int) unique key (k) distributed by hash (k) buckets 1 \
         properties ('function_column.sequence_col' = 'v')",
    );
    root.run("insert into s values (1, 1), (2, 2)");
    root.run("grant select, update on d.s to u");
    let mut client = as_user(&server, "u");
    let denied = client.fails("update d.s set __DORIS_DELETE_SIGN__ = 1 where k = 1");
    assert_eq!(denied.errno, 1142, "{denied:?}");
    assert!(denied.message.starts_with("DELETE command denied"), "{denied:?}");
    root.run("create table p (k int, v int) unique key (k) distributed by hash (k) buckets 1");
    root.run("grant select, insert on d.* to u");
    for table in ["s", "p"] {
        let sign = format!("insert into d.{table} (k, v, __DORIS_DELETE_SIGN__) values (1, 1, 1)");
        let denied = client.fails(&sign);
        assert_eq!(denied.errno, 1142, "{denied:?}");
        assert!(denied.message.starts_with("DELETE command denied"), "{denied:?}");
        let sql = "select c1, c2, 1 from http_stream('format' = 'csv', 'column_separator' = ',')";
        let names = format!("insert into d.{table} (k, v, __DORIS_DELETE_SIGN__)");
        let request = format!("PUT /api/_http_stream HTTP/1.1\r\nsql: {names} {sql}\r\nx: y");
        let answer = asked(&server, ("u", ""), &request, "1,1\n");
        assert!(answer.contains("DELETE command denied"), "{answer}");
    }
    root.run("grant delete on d.s to u");
    client.run("update d.s set __DORIS_DELETE_SIGN__ = 1 where k = 1");
    assert_eq!(client.texts("select k from d.s"), [["2"]]);
    client.run("insert into d.s (k, v, __DORIS_DELETE_SIGN__) values (2, 2, 1)");
    assert_eq!(client.one("select count(*) from d.s"), "0");
}
