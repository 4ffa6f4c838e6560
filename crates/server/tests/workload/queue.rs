//! The queue of a group.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use freshet_wire::client::Outcome;

use super::common::failure;
use super::*;

/// A server with a group `g`, and an account `u` whose default it is.
fn server(properties: &str) -> (TestServer, Client) {
    let server = TestServer::start();
    let mut root = server.database("d");
    with_large_table(&mut root);
    root.run(&format!("create workload group g properties ({properties})"));
    root.run("create user u");
    root.run("grant all on d.* to u");
    root.run("grant usage_priv on workload group g to u");
    root.run("set property for u 'default_workload_group' = 'g'");
    (server, root)
}

const ONE: &str = "'max_concurrency' = '1', 'max_queue_size' = '2', 'queue_timeout' = '60000'";

#[test]
fn as_many_run_as_may_and_others_wait_in_order() {
    let (server, mut root) = server(ONE);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let mut waiting = [as_user(&server, "u"), as_user(&server, "u")];
    for (at, client) in waiting.iter_mut().enumerate() {
        begin(client, "select count(*) from d.large");
        waits_for(&mut root, "g", 1, at as u32 + 1);
    }
    let states = "select state from information_schema.processlist where state <> ''";
    assert_eq!(
        root.texts(states),
        [["Queued in workload group g"], ["Queued in workload group g"]]
    );
    let listed = root.texts("show processlist").concat();
    assert_eq!(listed.iter().filter(|cell| cell.starts_with("Queued in")).count(), 2);
    let mut late = as_user(&server, "u");
    let refused = late.fails("select count(*) from d.large");
    assert_eq!(refused.errno, 1041);
    assert_eq!(
        refused.message,
        "workload group 'g' runs 1 queries (max_concurrency is 1), and 2 wait (max_queue_size is \
         2); send the query again later, or ALTER WORKLOAD GROUP"
    );
    // Whatever reads no stored table has no need to wait, nor have other groups.
    assert_eq!(late.one("select 1 + 1"), "2");
    assert_eq!(late.texts("select user()").len(), 1);
    assert_eq!(late.texts("select name from information_schema.workload_groups").len(), 2);
    assert_eq!(root.one("select count(*) from d.large"), "60");
    assert!(matches!(end(&mut first), Outcome::Rows(rows) if rows.rows.len() == 60));
    for client in &mut waiting {
        assert!(matches!(end(client), Outcome::Rows(_)));
    }
    waits_for(&mut root, "g", 0, 0);
    assert_eq!(late.one("select count(*) from d.large"), "60");
}

#[test]
fn who_waits_too_long_is_refused() {
    let timely = "'max_concurrency' = '1', 'max_queue_size' = '2', 'queue_timeout' = '100'";
    let (server, mut root) = server(timely);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let mut second = as_user(&server, "u");
    let refused = second.fails("select count(*) from d.large");
    assert_eq!(refused.errno, 1205);
    assert_eq!(
        refused.message,
        "the query has waited 100 ms (queue_timeout) in workload group 'g', which runs 1 at once \
         (max_concurrency); send it again later, or ALTER WORKLOAD GROUP"
    );
    waits_for(&mut root, "g", 1, 0);
    root.run("alter workload group g properties ('max_queue_size' = '0')");
    let refused = second.fails("select count(*) from d.large");
    assert!(refused.message.contains("none may wait (max_queue_size is 0)"), "{refused:?}");
    root.run("alter workload group g properties ('max_queue_size' = '5', 'queue_timeout' = '0')");
    let refused = second.fails("select count(*) from d.large");
    assert!(refused.message.contains("none may wait (queue_timeout is 0)"), "{refused:?}");
    end(&mut first);
}

#[test]
fn kill_timeouts_and_lost_clients_end_waiting() {
    let (server, mut root) = server(ONE);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let mut killed = as_user(&server, "u");
    let id = killed.one("select connection_id()");
    begin(&mut killed, "select count(*) from d.large");
    waits_for(&mut root, "g", 1, 1);
    root.run(&format!("kill query {id}"));
    assert_eq!(failure(end(&mut killed)).unwrap().errno, 1317);
    waits_for(&mut root, "g", 1, 0);
    killed.run("set query_timeout = 1");
    assert_eq!(killed.fails("select count(*) from d.large").errno, 3024);
    waits_for(&mut root, "g", 1, 0);
    let mut lost = as_user(&server, "u");
    begin(&mut lost, "select count(*) from d.large");
    waits_for(&mut root, "g", 1, 1);
    drop(lost);
    waits_for(&mut root, "g", 1, 0);
    // The one who has the slot vanishes as well.
    drop(first);
    waits_for(&mut root, "g", 0, 0);
    killed.run("set query_timeout = 900");
    assert_eq!(killed.one("select count(*) from d.large"), "60");
}

#[test]
fn alter_lets_in_who_waits_and_drop_sends_them_away() {
    let (server, mut root) = server(ONE);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let mut second = as_user(&server, "u");
    begin(&mut second, "select count(*) from d.large");
    waits_for(&mut root, "g", 1, 1);
    root.run("alter workload group g properties ('max_concurrency' = '2')");
    assert!(matches!(end(&mut second), Outcome::Rows(_)));
    root.run("alter workload group g properties ('max_concurrency' = '1')");
    begin(&mut second, "select count(*) from d.large");
    waits_for(&mut root, "g", 1, 1);
    assert_eq!(root.fails("drop workload group g").errno, 1105);
    root.run("set property for u 'default_workload_group' = ''");
    root.run("drop workload group g");
    let sent_away = failure(end(&mut second)).unwrap();
    assert_eq!(sent_away.errno, 1105);
    assert!(sent_away.message.contains("workload group 'g' was dropped"), "{sent_away:?}");
    // Who runs goes on; who comes has the normal group.
    assert_eq!(second.one("select count(*) from d.large"), "60");
    assert!(matches!(end(&mut first), Outcome::Rows(_)));
    // A new group of the name has nothing of the old one.
    root.run(&format!("create workload group g properties ({ONE})"));
    assert_eq!(load(&mut root, "g"), ("0".to_owned(), "0".to_owned()));
    assert_eq!(root.texts("show workload groups like 'g'")[0][1], "g");
    root.run("set workload_group = 'g'");
    assert_eq!(root.one("select count(*) from d.large"), "60");
}

#[test]
fn a_right_that_is_revoked_counts_at_once() {
    let (server, mut root) = server(ONE);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let mut second = as_user(&server, "u");
    begin(&mut second, "select count(*) from d.large");
    waits_for(&mut root, "g", 1, 1);
    root.run("revoke usage_priv on workload group g from u");
    end(&mut first);
    let refused = failure(end(&mut second)).unwrap();
    assert_eq!(refused.errno, 1227);
    assert!(refused.message.contains("workload group 'g'"), "{refused:?}");
    waits_for(&mut root, "g", 0, 0);
    assert_eq!(first.fails("select count(*) from d.large").errno, 1227);
    assert_eq!(first.one("select 1"), "1");
    assert_eq!(first.texts("show workload groups").len(), 1, "only the normal one is seen");
    first.run("set workload_group = 'normal'");
    assert_eq!(first.one("select count(*) from d.large"), "60");
    first.run("set workload_group = 'g'");
    root.run("create role team");
    root.run("grant usage_priv on workload group g to team");
    root.run("grant team to u");
    assert_eq!(first.fails("select count(*) from d.large").errno, 1227);
    first.run("set role team");
    assert_eq!(first.one("select count(*) from d.large"), "60");
}

#[test]
fn each_kind_of_statement_gives_its_slot_back() {
    let (server, mut root) = server("'max_concurrency' = '1'");
    root.run("create table d.k (id int primary key, v int)");
    root.run("create table d.t (id int, v int)");
    let mut client = as_user(&server, "u");
    client.run("use d");
    for statement in [
        "insert into k select 1, 2 union select 2, 3 union select 3, 4",
        "insert into t select * from k",
        "update k set v = v + 1",
        "update k set v = (select max(v) from t) where id = 1",
        "update t set v = v + 1",
        "delete from t where v > (select min(v) from k)",
        "update k join t on k.id = t.id set k.v = 1, t.v = 2",
        "insert into k select id, v from t on duplicate key update v = 5",
        "replace into k select id, v from t",
        "set @x = (select max(v) from k)",
        "select max(v) into @x from k",
        "do (select max(v) from k)",
        "create table made as select * from k",
        "delete from k",
    ] {
        client.run(statement);
        assert_eq!(load(&mut root, "g").0, "0", "{statement}");
    }
    for query in [
        "select * from k",
        "explain analyze select * from k",
        "select @a := max(v) from k",
        "select * from k where id = 1 for update",
    ] {
        client.texts(query);
        assert_eq!(load(&mut root, "g").0, "0", "{query}");
    }
    assert!(client.fails("select v from k where nothing = 1").errno > 0);
    assert!(client.fails("select nothing from k").errno > 0);
    client.query_all("select count(*) from k; select count(*) from t; select 1");
    let id = client.prepare("select count(*) from k where v > ?").unwrap().statement_id;
    for _ in 0..3 {
        let outcome = client.execute(id, &[freshet_wire::Param::Int(1)]);
        assert!(matches!(outcome, Outcome::Rows(_)), "{outcome:?}");
    }
    client.run("begin");
    client.run("insert into k select 7, 7");
    client.texts("select * from k for update");
    assert_eq!(load(&mut root, "g").0, "0", "not to the end of the transaction");
    client.run("commit");
    assert_eq!(load(&mut root, "g"), ("0".to_owned(), "0".to_owned()));
}

/// The fast roads do not queue.
#[test]
fn what_is_done_by_key_and_inserts_do_not_wait() {
    let (server, mut root) = server("'max_concurrency' = '1'");
    root.run("create table d.k (id int primary key, v int)");
    let mut client = as_user(&server, "u");
    client.run("insert into d.k values (1, 2)");
    let text = "select v from d.k where id = 1";
    // The first is planned, and shows how it can be answered by its key.
    for _ in 0..2 {
        assert_eq!(client.one(text), "2");
    }
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    assert_eq!(client.one(text), "2");
    client.run("insert into d.k values (3, 4)");
    client.run("update d.k set v = 4 where id = 3");
    assert_eq!(client.fails("update d.k set v = 5 where v = 4").errno, 1041);
    assert_eq!(client.fails("select max(v) from d.k").errno, 1041);
    end(&mut first);
    assert_eq!(client.one("select max(v) from d.k"), "4");
}

#[test]
fn statements_over_http_queue_as_well() {
    let (server, mut root) = server(ONE);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let ask = || {
        let mut socket = TcpStream::connect(server.http_address()).unwrap();
        let (basic, body) =
            (BASE64_STANDARD.encode("u:"), r#"{"stmt":"select count(*) from large"}"#);
        let head = format!("Authorization: Basic {basic}\r\nConnection: close\r\nHost: h\r\n");
        let length = body.len();
        let request = "POST /api/query/default_cluster/d HTTP/1.1";
        write!(socket, "{request}\r\n{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
        socket
    };
    let mut socket = ask();
    waits_for(&mut root, "g", 1, 1);
    drop(ask());
    waits_for(&mut root, "g", 1, 1);
    end(&mut first);
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("[[60]]") || answer.contains("[[\"60\"]]"), "{answer}");
    waits_for(&mut root, "g", 0, 0);
    root.run("alter workload group g properties ('max_queue_size' = '0')");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    let mut refused = String::new();
    ask().read_to_string(&mut refused).unwrap();
    assert!(refused.contains("max_queue_size is 0"), "{refused}");
    end(&mut first);
}

#[test]
fn groups_and_properties_are_there_after_a_restart() {
    let (server, mut root) = server(ONE);
    root.run("alter workload group normal properties ('max_concurrency' = '3')");
    let shown = root.texts("show workload groups");
    let (grants, properties) = (root.texts("show grants for u"), root.texts("show property for u"));
    drop(root);
    let server = server.restart();
    let mut root = server.connect();
    assert_eq!(root.texts("show workload groups"), shown);
    assert_eq!(root.texts("show grants for u"), grants);
    assert_eq!(root.texts("show property for u"), properties);
    let mut first = as_user(&server, "u");
    begin(&mut first, LARGE);
    waits_for(&mut root, "g", 1, 0);
    root.run("alter workload group g properties ('max_queue_size' = '0')");
    assert_eq!(as_user(&server, "u").fails("select * from d.large").errno, 1041);
    end(&mut first);
}

/// A statement resolves its table, waits in the queue, and finds rows by the name of the table.
#[test]
fn who_waits_changes_the_table_that_has_the_name_then() {
    let (server, mut root) = server(ONE);
    for key in ["primary key (id)", "key (v)"] {
        root.run(&format!("create table d.t (id int, v int, {key})"));
        root.run(&format!("create table d.n (id int, v int, {key})"));
        root.run("insert into d.t values (1, 1), (2, 1)");
        root.run("insert into d.n values (1, 0), (2, 0), (3, 1)");
        let mut first = as_user(&server, "u");
        begin(&mut first, LARGE);
        waits_for(&mut root, "g", 1, 0);
        let mut waiting = as_user(&server, "u");
        begin(&mut waiting, "delete from d.t where v = 0");
        waits_for(&mut root, "g", 1, 1);
        root.run("rename table d.t to d.o, d.n to d.t");
        end(&mut first);
        let deleted = end(&mut waiting);
        assert!(matches!(deleted, Outcome::Ok { affected_rows: 2, .. }), "{key}: {deleted:?}");
        assert_eq!(root.texts("select id from d.t"), [["3"]], "{key}");
        assert_eq!(root.one("select count(*) from d.o"), "2", "{key}");
        root.run("drop table d.t, d.o");
        waits_for(&mut root, "g", 0, 0);
    }
}
