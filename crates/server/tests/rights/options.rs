//! Options of accounts: locks, limits, passwords that expire.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use freshet_wire::client::Outcome;
use freshet_wire::{Capabilities, Param};

use super::common::{TestServer, failure};
use super::{Client, as_user};

fn refused(server: &TestServer, user: &str, password: &str) -> u16 {
    match Client::connect(server.address, user, password, None) {
        Ok(_) => 0,
        Err(failure) => failure.errno,
    }
}

/// The status of an HTTP request by an account.
fn status(server: &TestServer, user: &str, password: &str) -> u16 {
    let answer = asked(server, (user, password), "GET /api/bootstrap", "");
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The answer to an HTTP request by an account.
pub fn asked(
    server: &TestServer,
    (user, password): (&str, &str),
    request: &str,
    body: &str,
) -> String {
    let basic = BASE64_STANDARD.encode(format!("{user}:{password}"));
    let head = format!(
        "Authorization: Basic {basic}\r\nConnection: close\r\nHost: h\r\nContent-Length: {}",
        body.len()
    );
    let mut socket = TcpStream::connect(server.http_address()).unwrap();
    write!(socket, "{request} HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// A client that can change an expired password.
fn changing(server: &TestServer, user: &str, password: &str) -> Client {
    let capabilities = Capabilities::SERVER.with(Capabilities::EXPIRED_PASSWORDS);
    Client::with(server.address, user, password, None, capabilities).unwrap()
}

#[test]
fn a_locked_account_is_open_to_nobody() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u identified by 'p' account lock");
    let locked = Client::connect(server.address, "u", "p", None).err().unwrap();
    assert_eq!(locked.errno, 3118);
    assert_eq!(locked.message, "Access denied for user 'u'@'%'. Account is locked.");
    assert_eq!(refused(&server, "u", "wrong"), 1045, "who has no password learns nothing");
    assert_eq!(status(&server, "u", "p"), 403);
    root.run("alter user u account unlock");
    assert_eq!(refused(&server, "u", "p"), 0);
    assert_eq!(status(&server, "u", "p"), 200);
    assert_eq!(root.fails("alter user root account lock").errno, 1396);
    let mut own = Client::connect(server.address, "u", "p", None).unwrap();
    assert_eq!(own.fails("alter user u with max_user_connections 9").errno, 1227);
}

#[test]
fn an_expired_password_is_not_retained() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u identified by 'p' password expire");
    let mut own = changing(&server, "u", "p");
    for retained in [
        "alter user user() identified by 'q' retain current password",
        "set password = 'q' retain current password",
    ] {
        assert_eq!(own.fails(retained).errno, 1820, "{retained}");
    }
    own.run("alter user user() identified by 'q'");
    own.run("alter user user() identified by 'r' retain current password");
    assert_eq!((refused(&server, "u", "q"), refused(&server, "u", "p")), (0, 1045));
}

#[test]
fn wrong_passwords_in_a_row_block_the_account() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("set global connection_control_failed_connections_threshold = 0");
    root.run(
        "create user u identified by 'p' failed_login_attempts 2 password_lock_time unbounded",
    );
    assert_eq!(refused(&server, "u", "wrong"), 1045);
    assert_eq!(refused(&server, "u", "p"), 0, "a right one forgets those before");
    assert_eq!(refused(&server, "u", "wrong"), 1045);
    assert_eq!(status(&server, "u", "wrong"), 403, "the second in a row");
    assert_eq!(refused(&server, "u", "p"), 3955);
    root.run("alter user u account unlock");
    assert_eq!(refused(&server, "u", "p"), 0);
}

#[test]
fn limits_hold_for_connections_and_by_the_hour() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run(
        "create user u with max_queries_per_hour 4 max_updates_per_hour 1 max_user_connections 1",
    );
    root.run("grant all on d.* to u");
    let mut client = as_user(&server, "u");
    assert_eq!(refused(&server, "u", ""), 1226);
    client.run("insert into d.t values (1)");
    let over = client.fails("insert into d.t values (2)");
    assert_eq!(over.errno, 1226);
    assert!(over.message.contains("'max_updates' resource (current value: 1)"), "{over:?}");
    assert_eq!(client.texts("select a from d.t"), [["1"]]);
    let prepared = client.prepare("select a from d.t").map(drop);
    assert!(prepared.is_ok());
    assert_eq!(client.fails("select 1").errno, 1226);
    drop(client);
    root.run("create user v with max_connections_per_hour 2");
    drop(as_user(&server, "v"));
    drop(as_user(&server, "v"));
    assert_eq!(refused(&server, "v", ""), 1226);
    assert_eq!(root.texts("select count(*) from d.t"), [["1"]]);
}

#[test]
fn an_expired_password_is_changed_before_anything_else() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u identified by 'p' password expire");
    root.run("create user other");
    assert_eq!(refused(&server, "u", "p"), 1862);
    assert_eq!(status(&server, "u", "p"), 403);
    let mut client = changing(&server, "u", "p");
    assert_eq!(client.fails("select 1").errno, 1820);
    assert_eq!(client.fails("use d").errno, 1820);
    assert!(client.prepare("select 1").is_err());
    assert_eq!(client.fails("alter user other identified by 'x'").errno, 1820);
    assert_eq!(client.fails("set password for other = 'x'").errno, 1820);
    client.run("alter user u identified by 'q'");
    assert_eq!(client.texts("select 1"), [["1"]]);
    assert_eq!(refused(&server, "u", "q"), 0);
    root.run("alter user u password expire");
    let mut client = changing(&server, "u", "q");
    client.run("set password = 'r'");
    assert_eq!(client.texts("select 1"), [["1"]]);
    root.run("alter user u password expire interval 1 day");
    assert_eq!(refused(&server, "u", "r"), 0, "it was changed today");
    root.run("alter user u password expire never");
    assert_eq!(refused(&server, "u", "r"), 0);
    root.run("alter user u password expire");
    let mut client = changing(&server, "u", "r");
    assert_eq!(client.fails("alter user if exists other account lock").errno, 1820);
    client.run("alter user user() identified by 's'");
    assert_eq!(client.texts("select 1"), [["1"]]);
    assert_eq!(client.fails("alter user current_user() comment 'x'").errno, 1227);
    assert_eq!(refused(&server, "u", "s"), 0);
}

#[test]
fn an_update_is_counted_however_it_is_sent() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    for (at, ways) in [
        &["/* x */ insert into d.t values (1)", "insert into d.t select 1"][..],
        &["-- y\ninsert into d.t values (1)", "/*! update d.t set a = 1 */"],
        &["execute i", "execute i", "select 1"],
        &["create table d.n (a int)", "drop table d.n"],
        &["set password = ''", "alter user u4 identified by ''"],
        &["select 1; insert into d.t values (2)", "select 1; delete from d.t where a = 7"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("u{at}");
        root.run(&format!("create user {name} with max_updates_per_hour 1"));
        root.run(&format!("grant all on d.* to {name}"));
        let mut client = as_user(&server, &name);
        client.run("prepare i from 'insert into d.t values (5)'");
        let last = |outcomes: Vec<Outcome>| outcomes.into_iter().next_back().unwrap();
        let first = last(client.query_all(ways[0]));
        assert!(!matches!(first, Outcome::Err { .. }), "{}: {first:?}", ways[0]);
        let second = failure(last(client.query_all(ways[1]))).unwrap();
        assert_eq!(second.errno, 1226, "{}", ways[1]);
        assert_eq!(client.texts("select 1"), [["1"]], "a query is none");
    }
}

#[test]
fn an_update_is_counted_by_either_protocol() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("create user u with max_updates_per_hour 3");
    root.run("grant all on d.* to u");
    let mut client = as_user(&server, "u");
    let id = client.prepare("insert into d.t values (?)").unwrap().statement_id;
    assert!(matches!(client.execute(id, &[Param::Int(1)]), Outcome::Ok { .. }));
    let load = |body: &str| asked(&server, ("u", ""), "PUT /api/d/t/_stream_load", body);
    let query = |sql: &str| {
        let body = format!("{{\"stmt\": \"{sql}\"}}");
        asked(&server, ("u", ""), "POST /api/query/c/d", &body)
    };
    assert!(load("2\n").contains("\"Success\""), "{}", load("2\n"));
    assert!(query("/* x */ insert into t values (3)").contains("\"affected_rows\":1"));
    let over = "'max_updates' resource (current value: 3)";
    assert!(load("4\n").contains(over), "{}", load("4\n"));
    assert!(query("insert into t values (4)").contains(over));
    assert!(query("select count(*) from t").contains("\"data\":[[3]]"));
    let fourth = failure(client.execute(id, &[Param::Int(4)])).unwrap();
    assert_eq!(fourth.errno, 1226);
    root.run("drop user u");
    root.run("create user u with max_updates_per_hour 1");
    root.run("grant all on d.* to u");
    as_user(&server, "u").run("insert into d.t values (5)");
    assert_eq!(root.texts("select count(*) from d.t"), [["4"]]);
}

#[test]
fn each_statement_of_a_text_is_counted() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("create user u with max_queries_per_hour 3");
    root.run("grant all on d.* to u");
    let mut client = as_user(&server, "u");
    let outcomes = client.query_all("insert into d.t values (1); select 1; select 2; select 3");
    assert_eq!(outcomes.len(), 4);
    let over = failure(outcomes.into_iter().next_back().unwrap()).unwrap();
    assert_eq!(over.errno, 1226, "{over:?}");
    assert_eq!(client.fails("insert into d.t values (2)").errno, 1226);
    assert_eq!(root.texts("select count(*) from d.t"), [["1"]]);
}

#[test]
fn an_expired_password_is_not_kept_by_who_may_create_users() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create user u identified by 'p' password expire");
    root.run("grant create user on *.* to u");
    let mut client = changing(&server, "u", "p");
    assert_eq!(client.fails("alter user u password expire never").errno, 1820);
    assert_eq!(client.fails("/* x */ alter user u account unlock").errno, 1820);
    assert_eq!(client.fails("alter user u require none").errno, 1820);
    assert_eq!(client.fails("create user w").errno, 1820);
    assert_eq!(client.fails("insert into d.t values (1)").errno, 1820);
    assert_eq!(client.fails("commit").errno, 1820);
    assert!(client.prepare("select 1").is_err());
    root.run("alter user u password expire never");
    assert_eq!(refused(&server, "u", "p"), 1862, "the password is as old as before");
    client.run("/* new */ alter user u identified by 'q' password expire never");
    assert_eq!(client.texts("select 1"), [["1"]]);
    assert_eq!(refused(&server, "u", "q"), 0);
    root.run("alter user u password expire");
    let mut client = changing(&server, "u", "q");
    let id = client.prepare("alter user u identified by 'r'").unwrap().statement_id;
    assert!(matches!(client.execute(id, &[]), Outcome::Ok { .. }));
    assert_eq!(client.texts("select 1"), [["1"]]);
}

#[test]
fn a_statement_about_several_accounts_changes_all_or_none() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create user b");
    let users =
        |root: &mut Client| root.texts("select user from mysql.user order by user").concat();
    for (statement, errno) in [
        ("create user a, b", 1396),
        ("drop user b, nobody", 1396),
        ("alter user b, nobody account lock", 1396),
        ("alter user b identified by 'x', nobody identified by 'y'", 1396),
        ("grant select on d.* to b, nobody", 1410),
        ("revoke select on d.* from b, nobody", 1141),
        ("create role r, b", 1396),
    ] {
        assert_eq!(root.fails(statement).errno, errno, "{statement}");
        assert_eq!(users(&mut root), ["b", "root"], "{statement}");
    }
    assert_eq!(root.texts("show grants for b"), [["GRANT USAGE ON *.* TO `b`@`%`"]]);
    assert_eq!(refused(&server, "b", ""), 0);
    root.run("create user if not exists a, b");
    assert_eq!(users(&mut root), ["a", "b", "root"]);
    let server = server.restart();
    assert_eq!(users(&mut server.connect()), ["a", "b", "root"]);
}

#[test]
fn a_new_account_of_a_dropped_name_has_no_failed_logins() {
    let server = TestServer::start();
    let mut root = server.connect();
    let create = "create user u identified by 'p' failed_login_attempts 1 password_lock_time 1";
    root.run(create);
    assert_eq!(refused(&server, "u", "wrong"), 3955);
    assert_eq!(refused(&server, "u", "p"), 3955);
    root.run("drop user u");
    root.run(create);
    assert_eq!(refused(&server, "u", "p"), 0);
}

#[test]
fn options_are_shown_as_mysql_shows_them() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run(
        "create user u require ssl with max_user_connections 3 password expire interval 9 day \
         failed_login_attempts 4 password_lock_time 2 account lock comment 'for nightly loads'",
    );
    let shown = root.texts("show create user u")[0][0].clone();
    assert!(
        shown.ends_with(
            " REQUIRE SSL WITH MAX_USER_CONNECTIONS 3 PASSWORD EXPIRE INTERVAL 9 DAY ACCOUNT LOCK \
             PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT \
             DEFAULT FAILED_LOGIN_ATTEMPTS 4 PASSWORD_LOCK_TIME 2 ATTRIBUTE \
             '{\"comment\": \"for nightly loads\"}'"
        ),
        "{shown}"
    );
    root.run("drop user u");
    root.run(&shown);
    assert_eq!(root.texts("show create user u")[0][0], shown);
    let columns = "account_locked, password_expired, password_lifetime, max_user_connections";
    let read = format!("select {columns} from mysql.user where user = 'u'");
    assert_eq!(root.texts(&read), [["Y", "N", "9", "3"]]);
    for (statement, errno) in [
        ("create user w with max_everything 1", 1064),
        ("create user w password history 40000", 1064),
        ("create user w password expire interval 0 day", 1064),
        ("create user w failed_login_attempts 40000", 1064),
        ("create user w account frozen", 1064),
        ("create user w with", 1064),
    ] {
        assert_eq!(root.fails(statement).errno, errno, "{statement}");
    }
}
