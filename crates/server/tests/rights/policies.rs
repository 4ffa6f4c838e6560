//! Row policies: they hold on every road by which rows come out, or are changed.

use std::time::Duration;

use freshet_wire::Param;
use freshet_wire::client::{Outcome, Value};

use super::common::{TestServer, failure};
use super::options::asked;
use super::{Client, as_user};

/// Tables of several kinds with rows of three tenants, and `u`, who may do anything in `d` and sees
/// those of tenant 1.
fn server() -> (TestServer, Client, Client) {
    let server = TestServer::sized(|config| config.recycle_bin_keep = Duration::from_secs(3600));
    let mut root = server.database("d");
    root.run(
        "create table k (id int primary key, tenant int, v varchar(20) collate \
         utf8mb4_general_ci, key (v))",
    );
    root.run("create table n (id int, tenant int, v varchar(20))");
    root.run(
        "create table q (id int, tenant int, v varchar(20)) unique key (id) \
         distributed by hash (id) buckets 1",
    );
    root.run(
        "create table a (id int, tenant int, v int sum) aggregate key (id, tenant) \
         distributed by hash (id) buckets 1",
    );
    for table in ["k", "n", "q"] {
        root.run(&format!(
            "insert into {table} values (1, 1, 'one'), (2, 2, 'two'), (3, 3, '3x'), (4, 1, 'four')"
        ));
    }
    root.run("insert into a values (1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 1, 10), (4, 1, 4)");
    root.run("create table o (id int primary key, note varchar(20))");
    root.run("insert into o values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')");
    root.run("create user u");
    root.run("grant select, insert, update, delete, create, drop, alter, index on d.* to u");
    root.run("grant create view, show view on d.* to u");
    for table in ["k", "n", "q", "a"] {
        root.run(&format!(
            "create row policy p_{table} on d.{table} as permissive to u using (tenant = 1)"
        ));
    }
    let mut user = as_user(&server, "u");
    user.run("use d");
    (server, root, user)
}

fn ids(client: &mut Client, sql: &str) -> String {
    client.texts(sql).concat().join(",")
}

#[test]
fn nothing_tells_how_many_rows_are_hidden() {
    let (server, mut root, mut user) = server();
    let counts = "select table_name, table_rows from information_schema.tables where \
                  table_schema = 'd' order by 1";
    let parts = "select distinct table_rows from information_schema.partitions where \
                 table_schema = 'd' and table_name = 'k'";
    let index = "select distinct cardinality from information_schema.statistics where \
                 table_schema = 'd' and table_name = 'k' and index_name = 'PRIMARY'";
    let of_k = |client: &mut Client| {
        let status = client.texts("show table status from d like 'k'");
        let shown = client.texts("show index from d.k where Key_name = 'PRIMARY'")[0][6].clone();
        [status[0][4].clone(), client.texts(parts).concat().join(","), ids(client, index), shown]
    };
    assert_eq!(of_k(&mut root), ["4"; 4]);
    assert_eq!(of_k(&mut user), ["NULL"; 4]);
    assert_eq!(user.texts(counts).concat()[7..], ["4", "q", "NULL"], "of o all rows are seen");
    drop(server);
}

#[test]
fn no_query_shows_a_hidden_row() {
    let (server, mut root, mut user) = server();
    for flushed in [false, true] {
        for table in ["k", "n", "q", "a"] {
            for (query, expected) in [
                ("select id from {t} order by id", "1,4"),
                ("select count(*) from {t}", "2"),
                ("select min(id), max(id), count(id), count(distinct tenant) from {t}", "1,4,2,1"),
                ("select id from {t} where id = 2", ""),
                ("select id from {t} where id = 4", "4"),
                ("select id from {t} where id in (2, 3, 4)", "4"),
                ("select id from {t} where tenant = 2 or id > 0 order by id", "1,4"),
                ("select id from {t} order by id desc limit 1", "4"),
                ("select o.id from o left join {t} x on x.id = o.id where x.id is null", "2,3"),
                ("select x.id from {t} x join {t} y on x.id = y.id + 3", "4"),
                ("select id from o where id in (select id from {t}) order by id", "1,4"),
                (
                    "select id from o where exists (select 1 from {t} x where x.id = o.id and 1)",
                    "1,4",
                ),
                ("select (select max(x.id) from {t} x where x.id <> 4)", "1"),
                ("with w as (select id from {t}) select max(id) from w", "4"),
                ("select id from {t} union select id from {t} order by 1", "1,4"),
                ("select tenant, count(*) from {t} group by tenant", "1,2"),
                ("select id from {t} x where x.tenant = (select 1) order by id", "1,4"),
                ("select row_number() over (order by id) from {t}", "1,2"),
            ] {
                let sql = query.replace("{t}", table);
                let mut found = user.texts(&sql).concat();
                if query.contains("left join") || query.contains("exists") {
                    found.sort();
                }
                assert_eq!(found.join(","), expected, "{sql}");
                if flushed {
                    assert_eq!(found.join(","), ids_of_prepared(&mut user, &sql, query), "{sql}");
                }
            }
            assert_eq!(ids(&mut root, &format!("select count(*) from {table}")), "4");
        }
        assert_eq!(ids(&mut user, "select sum(v) from a"), "15");
        if !flushed {
            root.run("flush tables");
        }
    }
    drop(server);
}

/// What the statement gives when it is prepared, and executed twice.
fn ids_of_prepared(user: &mut Client, sql: &str, query: &str) -> String {
    let id = user.prepare(sql).unwrap().statement_id;
    let run = |user: &mut Client| match user.execute(id, &[]) {
        Outcome::Rows(rows) => {
            let mut cells = rows.rows.iter().flatten().map(super::common::text).collect::<Vec<_>>();
            if query.contains("left join") || query.contains("exists") {
                cells.sort();
            }
            cells.join(",")
        }
        other => panic!("{sql}: {other:?}"),
    };
    let first = run(user);
    assert_eq!(first, run(user), "{sql}");
    first
}

#[test]
fn rows_do_not_come_out_by_other_roads() {
    let (server, mut root, mut user) = server();
    // Point reads are answered without a plan, by what anybody's text has taught.
    for _ in 0..3 {
        assert_eq!(ids(&mut root, "select v from d.k where id = 2"), "two");
        assert_eq!(ids(&mut user, "select v from d.k where id = 2"), "");
        assert_eq!(ids(&mut user, "select v from d.k where id = 1"), "one");
    }
    let id = user.prepare("select v from k where id = ?").unwrap().statement_id;
    for (key, rows) in [(1, 1), (2, 0), (4, 1), (3, 0)] {
        let Outcome::Rows(found) = user.execute(id, &[Param::Int(key)]) else { panic!("{key}") };
        assert_eq!(found.rows.len(), rows, "{key}");
    }
    // Views have the rights, and so the policies, of their definer, or of who reads them.
    root.run("create view of_root as select id from k");
    root.run("create sql security invoker view of_reader as select id from k");
    user.run("create view of_user as select id from k");
    assert_eq!(ids(&mut user, "select count(*) from of_root"), "4");
    assert_eq!(ids(&mut user, "select id from of_reader order by id"), "1,4");
    assert_eq!(ids(&mut user, "select id from of_user order by id"), "1,4");
    assert_eq!(ids(&mut root, "select id from of_user order by id"), "1,4");
    // Into other tables, and variables.
    user.run("create table copied as select * from k");
    assert_eq!(ids(&mut user, "select id from copied order by id"), "1,4");
    user.run("insert into o select id + 100, v from n");
    assert_eq!(ids(&mut user, "select id from o where id > 100 order by id"), "101,104");
    user.run("select max(id), count(*) into @most, @count from n");
    assert_eq!(user.texts("select @most, @count"), [["4", "2"]]);
    user.run("set @other = (select count(*) from q)");
    assert_eq!(user.one("select @other"), "2");
    user.run("create temporary table own as select * from n");
    assert_eq!(ids(&mut user, "select id from own order by id"), "1,4");
    // Locking reads.
    user.run("begin");
    assert_eq!(ids(&mut user, "select id from k for update"), "1,4");
    assert_eq!(ids(&mut user, "select id from k where id = 2 for update"), "");
    root.run("update d.k set v = 'changed' where id = 2");
    user.run("rollback");
    // HTTP.
    let sql = r#"{"stmt": "select id from d.k order by id"}"#;
    let answer = asked(&server, ("u", ""), "POST /api/query/default_cluster/d", sql);
    assert!(answer.contains("[[1],[4]]"), "{answer}");
    // What is explained is what is executed.
    for explain in ["explain analyze select count(*) from k", "explain select max(id) from k"] {
        let shown = user.texts(explain).concat().join("\n");
        assert!(shown.contains("VisibleRowsExec"), "{shown}");
    }
}

#[test]
fn plans_do_not_tell_how_many_rows_are_hidden() {
    let (_server, mut root, mut user) = server();
    root.run("flush tables");
    for table in ["k", "n", "q", "a"] {
        for form in ["", "format = tree", "format = json", "analyze"] {
            let sql = format!("explain {form} select count(*) from {table} where id = 3");
            let shown = user.texts(&sql).concat().join("\n");
            for told in ["tenant", "ScanExec", "slices", "rows_examined"] {
                assert!(!shown.contains(told), "{sql}: {shown}");
            }
            assert!(shown.contains("VisibleRowsExec: what row policies show of d."), "{shown}");
            let all = root.texts(&sql).concat().join("\n");
            assert!(!all.contains("VisibleRowsExec"), "{all}");
        }
    }
    for table in ["k", "q"] {
        let sql = format!("explain format = traditional update {table} set v = 1 where tenant = 1");
        let row = user.texts(&sql).remove(0);
        assert_eq!([&*row[2], &*row[9]], [table, "NULL"], "{row:?}");
    }
    let both = user.texts("explain format = traditional select * from o, k where o.id = k.id");
    let rows = |table: &str| both.iter().find(|row| row[2] == table).unwrap()[9].clone();
    assert_eq!([rows("o"), rows("k")], ["4", "NULL"]);
}

#[test]
fn sizes_do_not_tell_how_many_rows_are_hidden() {
    let (_server, mut root, mut user) = server();
    root.run("flush tables");
    let size = |client: &mut Client| client.texts("show data from d.k")[0][1].clone();
    assert_ne!(size(&mut root), "NULL");
    assert_eq!(size(&mut user), "NULL");
    let all = |client: &mut Client| client.texts("show data").last().unwrap()[1].clone();
    assert_ne!(all(&mut root), all(&mut user), "the sum is of tables that are seen whole");
    for (sql, at) in [("show tablets from d.k", [8, 10]), ("show partitions from d.k", [14, 21])] {
        assert!(at.iter().all(|at| root.texts(sql)[0][*at] != "NULL"), "{sql}");
        assert!(at.iter().all(|at| user.texts(sql)[0][*at] == "NULL"), "{sql}");
    }
    user.run("drop table d.k");
    let bin = |client: &mut Client| client.texts("show catalog recycle bin")[0][6].clone();
    assert_ne!(bin(&mut root), "NULL");
    assert_eq!(bin(&mut user), "NULL");
}

#[test]
fn hidden_rows_tell_nothing_by_errors_and_warnings() {
    let (_server, mut root, mut user) = server();
    root.run("update d.n set v = '99999999999999999999' where id = 3");
    for sql in [
        "select id from n where cast(v as signed) = 5",
        "select id from n where v + 0 = 5",
        "select id from n where id = 3 and v * 1e308 * 1e308 > 0",
        "select id from n where pow(id, 1000 * (id = 3)) > 1e300",
    ] {
        let rows = user.texts(sql);
        assert!(rows.is_empty(), "{sql}: {rows:?}");
        let told = user.texts("show warnings").concat().join(" ");
        assert!(!told.contains("3x") && !told.contains("9999"), "{sql}: {told}");
    }
    root.run("update d.n set id = 2000000000 where id = 3");
    let overflows = "select count(*) from n where id * 2000000000 * 9 > 0";
    assert_eq!(user.one(overflows), "2");
    assert_eq!(root.fails(&overflows.replace(" n ", " d.n ")).errno, 1690);
}

#[test]
fn hidden_rows_are_neither_changed_nor_deleted_nor_replaced() {
    let (server, mut root, mut user) = server();
    for table in ["k", "n"] {
        let run = |client: &mut Client, sql: &str| client.run(&sql.replace("{t}", table)).0;
        assert_eq!(run(&mut user, "update {t} set v = 'mine'"), 2);
        assert_eq!(run(&mut user, "update {t} set v = 'x' where id = 2"), 0);
        assert_eq!(run(&mut user, "update {t} x join o on x.id = o.id set x.v = 'joined'"), 2);
        assert_eq!(run(&mut user, "delete from {t} where id in (2, 3)"), 0);
        user.run("begin");
        assert_eq!(run(&mut user, "delete from {t}"), 2);
        user.run("rollback");
        assert_eq!(run(&mut user, "delete x from {t} x join o on x.id = o.id where o.id = 2"), 0);
        let others = format!("select id, v from d.{table} where tenant <> 1 order by id");
        assert_eq!(root.texts(&others), [["2", "two"], ["3", "3x"]], "{table}");
    }
    // What an UPDATE moves out of sight is gone for who did so.
    assert_eq!(user.run("update n set tenant = 2 where id = 4").0, 1);
    assert_eq!(ids(&mut user, "select id from n"), "1");
    for table in ["k", "n", "q", "a"] {
        let left = if table == "a" { 2 } else { 2 + u32::from(table == "n") };
        user.run(&format!("delete from {table}"));
        assert_eq!(ids(&mut user, &format!("select count(*) from {table}")), "0");
        let counted = ids(&mut root, &format!("select count(*) from d.{table}"));
        assert_eq!(counted, left.to_string(), "{table}");
    }
    // A key is taken, whoever sees its row.
    user.run("insert into k values (10, 1, 'new'), (11, 2, 'unseen')");
    assert_eq!(user.fails("insert into k values (2, 1, 'x')").errno, 1062);
    let denied = user.fails("insert into k values (2, 1, 'x') on duplicate key update v = 'x'");
    assert_eq!(denied.errno, 1142, "{denied:?}");
    assert!(denied.message.contains("row policy"), "{denied:?}");
    let odku = "insert into k values (10, 1, 'x') on duplicate key update v = 'again'";
    assert_eq!(user.run(odku).0, 2);
    for sql in [
        "replace into k values (2, 1, 'x')",
        "insert into q values (2, 1, 'x')",
        "insert into q select 2, 1, 'x'",
        "insert into a values (2, 2, 1)",
    ] {
        assert_eq!(user.fails(sql).errno, 1142, "{sql}");
        assert!(user.prepare(sql).is_err() || failure(executed(&mut user, sql)).is_ok(), "{sql}");
    }
    for table in ["k", "q", "a"] {
        let path = format!("PUT /api/d/{table}/_stream_load");
        let answer = asked(&server, ("u", ""), &path, "2\t1\tx\n");
        assert!(answer.contains("denied to user"), "{table}: {answer}");
    }
    assert_eq!(root.one("select v from d.k where id = 2"), "two");
    assert_eq!(root.one("select v from d.q where id = 2"), "two");
    // The first value that is there twice, or violates the constraint, would be told.
    for sql in [
        "alter table k add unique (tenant)",
        "create unique index u on k (tenant)",
        "alter table k add check (tenant = 1)",
    ] {
        assert_eq!(user.fails(sql).errno, 1142, "{sql}");
    }
    let answer = asked(&server, ("u", ""), "PUT /api/d/n/_stream_load", "7\t1\tx\n");
    assert!(answer.contains("Success"), "{answer}");
}

fn executed(user: &mut Client, sql: &str) -> Outcome {
    let id = user.prepare(sql).unwrap().statement_id;
    user.execute(id, &[])
}

#[test]
fn policies_are_joined_and_follow_roles() {
    let (server, mut root, mut user) = server();
    let seen = |user: &mut Client| ids(user, "select id from d.k order by id");
    root.run("create row policy p2 on d.k as permissive to u using (tenant = 2)");
    assert_eq!(seen(&mut user), "1,2,4");
    root.run("create row policy r1 on d.k as restrictive to u using (id < 4)");
    assert_eq!(seen(&mut user), "1,2");
    root.run("create role part, outer_part");
    root.run("grant part to outer_part");
    root.run("create row policy r2 on d.k as restrictive to role part using (id > 1)");
    assert_eq!(seen(&mut user), "1,2", "it does not have the role");
    root.run("grant outer_part to u");
    assert_eq!(seen(&mut user), "2", "it has, and the role need not be active");
    user.run("set role none");
    assert_eq!(seen(&mut user), "2");
    let id = user.prepare("select count(*) from d.k where id < ?").unwrap().statement_id;
    let count = |user: &mut Client| match user.execute(id, &[Param::Int(100)]) {
        Outcome::Rows(rows) => rows.rows[0][0].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(&mut user), Value::Int(1));
    root.run("revoke outer_part from u");
    assert_eq!(count(&mut user), Value::Int(2), "of prepared statements, at once");
    root.run("drop row policy r1 on d.k");
    assert_eq!(count(&mut user), Value::Int(3));
    root.run("drop row policy p_k");
    root.run("drop row policy p2 for u");
    assert_eq!(count(&mut user), Value::Int(4));
    // A plan that was kept while the table had no policy of the user is not used.
    assert_eq!(count(&mut user), Value::Int(4));
    user.run("begin");
    assert_eq!(count(&mut user), Value::Int(4));
    root.run("create row policy p3 on d.k as permissive to u using (v = 'ONE')");
    assert_eq!(count(&mut user), Value::Int(1), "in an open transaction, and by the collation");
    user.run("commit");
    // Who administers sees all, also by way of a role, as long as that is active.
    root.run("create role boss");
    root.run("grant super on *.* to boss");
    root.run("grant boss to u");
    user.run("set role boss");
    assert_eq!(seen(&mut user), "1,2,3,4");
    user.run("set role none");
    assert_eq!(seen(&mut user), "1");
    // Variables of the session change nothing.
    user.run("set collation_connection = 'utf8mb4_bin', time_zone = '+10:00'");
    user.run("set sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'");
    assert_eq!(seen(&mut user), "1");
    // Other accounts have policies of their own.
    root.run("create user w");
    root.run("grant select on d.* to w");
    let mut other = as_user(&server, "w");
    assert_eq!(seen(&mut other), "1,2,3,4");
    root.run("create row policy p on d.k as permissive to w using (false)");
    assert_eq!(seen(&mut other), "");
    root.run("create row policy mine on d.o as permissive to w using (current_user() = 'w@%')");
    assert_eq!(ids(&mut other, "select count(*) from d.o"), "4");
}

#[test]
fn columns_that_a_policy_reads_need_no_right() {
    let (server, mut root, _user) = server();
    root.run("create user c");
    root.run("grant select (id, v), update (v) on d.k to c");
    root.run("grant select (id) on d.a to c");
    root.run("create row policy c1 on d.k as permissive to c using (tenant = 1)");
    root.run("create row policy c2 on d.a as permissive to c using (v > 3)");
    let mut client = as_user(&server, "c");
    client.run("use d");
    assert_eq!(ids(&mut client, "select id from k order by id"), "1,4");
    assert_eq!(ids(&mut client, "select v from k where id = 1"), "one");
    assert_eq!(ids(&mut client, "select count(*) from k"), "2");
    assert_eq!(client.run("update k set v = 'y'").0, 2);
    assert_eq!(ids(&mut client, "select id from a order by id"), "1,4");
    for sql in [
        "select * from k",
        "select tenant from k",
        "select id from k where tenant = 1",
        "select id from k order by tenant",
        "select v from a",
    ] {
        assert_eq!(client.fails(sql).errno, 1143, "{sql}");
    }
}

#[test]
fn policies_go_where_their_table_goes() {
    let (server, mut root, mut user) = server();
    let keep = |user: &mut Client, table: &str| ids(user, &format!("select id from {table}"));
    root.run("rename table d.k to d.k2");
    assert_eq!(keep(&mut user, "k2"), "1,4");
    for sql in [
        "alter table d.k2 drop column tenant",
        "alter table d.k2 rename column tenant to t",
        "alter table d.k2 change tenant t int",
    ] {
        let refused = root.fails(sql);
        assert!(refused.message.contains("Row policy 'p_k' reads column"), "{sql}: {refused:?}");
    }
    root.run("alter table d.k2 add column extra int default 5");
    root.run("alter table d.k2 modify tenant bigint");
    assert_eq!(keep(&mut user, "k2"), "1,4");
    root.run("truncate table d.k2");
    root.run("insert into d.k2 (id, tenant) values (1, 2), (2, 1)");
    assert_eq!(keep(&mut user, "k2"), "2");
    root.run("create table d.new (id int, tenant int)");
    for sql in
        ["alter table d.k2 replace with table new", "alter table d.new replace with table k2"]
    {
        let refused = root.fails(sql);
        assert_eq!(refused.errno, 1235, "{sql}");
        assert!(refused.message.contains("row policies"), "{refused:?}");
    }
    for sql in ["drop user u", "drop user if exists u"] {
        let refused = root.fails(sql);
        assert_eq!(refused.errno, 1396, "{sql}");
        assert!(refused.message.contains("row policies restrict it"), "{refused:?}");
    }
    let server = server.restart();
    let (mut root, mut user) = (server.connect(), as_user(&server, "u"));
    root.run("use d");
    user.run("use d");
    assert_eq!(keep(&mut user, "k2"), "2");
    assert_eq!(
        root.texts("show row policy for u where TableName = 'k2'"),
        [[
            "p_k",
            "internal",
            "d",
            "k2",
            "ROW",
            "PERMISSIVE",
            "tenant = 1",
            "'u'@'%'",
            "NULL",
            "CREATE ROW POLICY `p_k` ON `d`.`k2` AS PERMISSIVE TO `u`@`%` USING (tenant = 1)"
        ]]
    );
    assert_eq!(root.texts("show row policy").len(), 4);
    assert_eq!(root.texts("show row policy for role u").len(), 4);
    assert_eq!(root.texts("show row policy for root").len(), 0);
    root.run("drop table d.k2");
    root.run("create table d.k2 (id int, tenant int)");
    root.run("insert into d.k2 values (1, 2)");
    assert_eq!(keep(&mut user, "k2"), "1", "another table");
    for table in ["n", "q", "a"] {
        root.run(&format!("drop row policy p_{table} on d.{table} for u"));
    }
    root.run("drop user u");
}

#[test]
fn what_is_no_policy_is_refused() {
    let (_server, mut root, mut user) = server();
    root.run("create view d.v as select id from d.k");
    root.run("create role r");
    root.run("create table d.z (a int, at timestamp, x varchar(9) collate utf8mb4_bin)");
    for (sql, errno) in [
        ("create row policy p on d.k as permissive to u using (nope = 1)", 1054),
        ("create row policy p on d.k as permissive to u using (nope(id))", 1305),
        ("create row policy p on d.k as permissive to u using (max(id) > 1)", 1111),
        ("create row policy p on d.k as permissive to u using (id = (select 1))", 1235),
        ("create row policy p on d.k as permissive to u using (id = @x)", 1235),
        ("create row policy p on d.k as permissive to u using (id = @@port)", 1235),
        ("create row policy p on d.k as permissive to u using (sleep(1))", 1235),
        ("create row policy p on d.z as permissive to u using (at > '2024-01-01')", 1235),
        ("create row policy p on d.k as permissive to u", 1064),
        ("create row policy p on d.k as permissive to u using (id) x", 1064),
        ("create row policy p on d.k to u using (id = 1)", 1064),
        ("create row policy p on d.nope as permissive to u using (1)", 1146),
        ("create row policy p on nope.k as permissive to u using (1)", 1049),
        ("create row policy p on d.v as permissive to u using (1)", 1347),
        ("create row policy p on d.k as permissive to nobody using (1)", 1396),
        ("create row policy p on d.k as permissive to role nobody using (1)", 1396),
        ("create row policy p on d.k as permissive to role u using (1)", 1396),
        ("create row policy p on d.k as permissive to root using (1)", 1396),
        ("create row policy p_k on d.k as permissive to u using (1)", 1105),
        ("drop row policy nope", 1105),
        ("drop row policy p_k on d.n", 1105),
        ("drop row policy p_k for r", 1105),
        ("drop row policy p_k on d.nope", 1146),
    ] {
        let refused = root.fails(sql);
        assert_eq!(refused.errno, errno, "{sql}: {refused:?}");
    }
    root.run("create row policy if not exists p_k on d.k as restrictive to u using (false)");
    root.run("drop row policy if exists nope");
    assert_eq!(ids(&mut user, "select id from k order by id"), "1,4");
    root.run("create row policy `odd name` on d.z as permissive to r using (`x` like 'a''b%')");
    root.run("create row policy p_n on d.k as permissive to r using (id between 1 and 2)");
    assert_eq!(root.fails("drop row policy p_n").errno, 1210, "of two tables");
    root.run("drop row policy `ODD name`");
    assert_eq!(root.fails("drop role r").errno, 1396);
    for sql in [
        "create row policy mine on d.k as permissive to u using (true)",
        "drop row policy p_k on d.k",
        "show row policy",
    ] {
        assert_eq!(user.fails(sql).errno, 1227, "{sql}");
    }
}

#[test]
fn the_time_of_a_policy_is_that_of_the_clock() {
    let (_server, mut root, mut user) = server();
    root.run("create table s (id int primary key, at datetime)");
    root.run("insert into s values (1, '2020-01-01'), (2, '2037-01-01')");
    root.run("create row policy past on d.s as permissive to u using (at <= now())");
    assert_eq!(ids(&mut user, "select id from s"), "1");
    user.run("set timestamp = 2147000000");
    assert_eq!(ids(&mut user, "select year(now())"), "2038");
    assert_eq!(ids(&mut user, "select id from s"), "1");
    assert_eq!(ids(&mut user, "select id from s where id = 2"), "");
}
