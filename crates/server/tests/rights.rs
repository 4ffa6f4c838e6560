//! Rights: each kind of statement is refused to who may not, and roles give rights while they are
//! active and granted.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "rights/bin.rs"]
mod bin;
#[path = "rights/columns.rs"]
mod columns;
mod common;
#[path = "rights/matrix.rs"]
mod matrix;
#[path = "rights/open.rs"]
mod open;
#[path = "rights/options.rs"]
mod options;
#[path = "rights/passwords.rs"]
mod passwords;
#[path = "rights/policies.rs"]
mod policies;
#[path = "rights/rejects.rs"]
mod rejects;
#[path = "rights/schemas.rs"]
mod schemas;
#[path = "rights/temporary.rs"]
mod temporary;
#[path = "rights/through.rs"]
mod through;
#[path = "rights/told.rs"]
mod told;

use common::{Client, TestServer};
use freshet_wire::Param;
use freshet_wire::client::Outcome;

fn as_user(server: &TestServer, user: &str) -> Client {
    Client::connect(server.address, user, "", None).unwrap()
}

/// The rights that a statement takes, the statement, and the error without them.
const STATEMENTS: &[(&[&str], &str, u16)] = &[
    (&["select on d.t"], "use d", 1044),
    (&["select on d.t"], "select * from d.t", 1142),
    (&["select on d.t"], "explain select * from d.t", 1142),
    (&["select on d.t"], "describe d.t", 1142),
    (&["select on d.t"], "show columns from d.t", 1142),
    (&["select on d.t"], "show index from d.t", 1142),
    (&["select on d.t"], "show global index from d.t", 1142),
    (&["select on d.t"], "show create table d.t", 1142),
    (&["select on d.v"], "select * from d.v", 1142),
    (&["select on d.v", "show view on d.v"], "show create view d.v", 1142),
    (&["select on mysql.user"], "select user from mysql.user", 1142),
    (&["insert on d.t"], "insert into d.t values (9, 9)", 1142),
    (&["insert on d.k", "select on d.t"], "insert into d.k select a + 100, b from d.t", 1142),
    (&["insert on d.k", "delete on d.k"], "replace into d.k values (1, 2)", 1142),
    (&["insert on d.t", "delete on d.t"], "insert overwrite table d.t values (9, 9)", 1142),
    (
        &["insert on d.k", "update on d.k", "select on d.k"],
        "insert into d.k values (1, 3) on duplicate key update b = 3",
        1142,
    ),
    (&["select on d.k", "update on d.k"], "update d.k set b = 4 where a = 1", 1142),
    (&["select on d.k", "delete on d.k"], "delete from d.k where a = 1", 1142),
    (&["update on d.k"], "update d.k set b = 5", 1142),
    (&["update on d.t"], "update d.t set b = default limit 1", 1142),
    (&["select on d.t", "update on d.t"], "update d.t set b = a", 1142),
    (&["select on d.k", "update on d.t"], "update d.t set b = (select max(k.b) from d.k)", 1142),
    (&["delete on d.k"], "delete from d.k limit 1", 1142),
    (&["delete on d.t"], "delete from d.t where 1 = 1 limit 1", 1142),
    (
        &["select on d.k", "update on d.k", "select on d.t", "update on d.t"],
        "update d.k join d.t on k.a = t.a set k.b = 5, t.b = 6",
        1142,
    ),
    (
        &["select on d.k", "update on d.k", "select on d.t"],
        "update d.k join d.t on k.a = t.a set k.b = t.b",
        1142,
    ),
    (
        &["select on d.k", "delete on d.k", "select on d.t", "delete on d.t"],
        "delete d.k, d.t from d.k join d.t on k.a = t.a + 100",
        1142,
    ),
    (&["create on d.*"], "create database if not exists d", 1044),
    (&["alter on d.*"], "alter database d collate utf8mb4_0900_ai_ci", 1044),
    (
        &["alter on d.goes", "drop on d.goes", "create on e.*", "insert on e.*"],
        "rename table d.goes to e.came",
        1142,
    ),
    (&["drop on e.*"], "drop database e", 1044),
    (&["create on d.*"], "create table d.n (a int)", 1142),
    (&["create on d.*", "select on d.t"], "create table d.like_t like d.t", 1142),
    (
        &["create on d.*", "insert on d.*", "select on d.t"],
        "create table d.as_t as select * from d.t",
        1142,
    ),
    (&["drop on d.n"], "drop table d.n", 1142),
    (&["drop on d.n", "create on d.*"], "recover table d.n as back", 1142),
    (&["drop on d.t"], "truncate table d.t", 1142),
    (&["alter on d.t"], "alter table d.t add column z int", 1142),
    (&["create view on d.*", "select on d.t"], "create view d.v2 as select a from d.t", 1142),
    (&["drop on d.v2"], "drop view d.v2", 1142),
    (&["create on d.*"], "create sequence d.s", 1142),
    (&["drop on d.s"], "drop sequence d.s", 1142),
    (
        &["alter on d.t", "drop on d.t", "create on d.*", "insert on d.*"],
        "rename table d.t to d.moved",
        1142,
    ),
    (&["grant option on d.k", "select on d.k"], "grant select on d.k to other", 1142),
    (&["grant option on d.k", "select on d.k"], "revoke select on d.k from other", 1142),
    (&["create user on *.*"], "create user fresh", 1227),
    (&["create user on *.*"], "alter user other identified by 'x'", 1227),
    (&["create user on *.*"], "alter user other comment 'x'", 1227),
    (&["create user on *.*"], "alter user if exists nobody account lock", 1227),
    (&["create user on *.*"], "revoke all privileges, grant option from other", 1227),
    (&["create user on *.*"], "show grants for other", 1227),
    (&["create user on *.*"], "drop user fresh", 1227),
    (&["create user on *.*"], "create role made", 1227),
    (&["create user on *.*"], "set default role none to other", 1227),
    (&["create user on *.*"], "drop role made", 1227),
    (&["super on *.*"], "grant plain to other", 1227),
    (&["super on *.*"], "revoke plain from other", 1227),
    (&["super on *.*"], "set global wait_timeout = 28800", 1227),
    (&["super on *.*"], "create workload group if not exists g", 1227),
    (&["super on *.*"], "alter workload group g properties ('cpu_share' = '9')", 1227),
    (&["super on *.*"], "grant usage_priv on workload group g to other", 1227),
    (&["super on *.*"], "revoke usage_priv on workload group g from other", 1227),
    (&["super on *.*"], "drop workload group if exists g", 1227),
    (&["create user on *.*"], "set property for other 'query_timeout' = '900'", 1227),
    (&["create user on *.*"], "set property 'query_timeout' = '900'", 1227),
    (&["create user on *.*"], "show property for other", 1227),
    (&["process on *.*"], "select * from information_schema.wal", 1227),
    (&["reload on *.*"], "flush tables", 1227),
    (&["reload on *.*"], "flush privileges", 1227),
];

#[test]
fn every_kind_of_statement_takes_its_rights_by_a_role_as_by_the_account() {
    let keep = std::time::Duration::from_secs(3600);
    let server = TestServer::sized(|config| config.recycle_bin_keep = keep);
    let mut root = server.database("d");
    root.run("create database e");
    root.run("create table goes (a int)");
    root.run("create table t (a int, b int)");
    root.run("create table k (a int, b int, primary key (a))");
    root.run("insert into t values (1, 1)");
    root.run("insert into k values (1, 1)");
    root.run("create view v as select a from t");
    root.run("create user app, other");
    root.run("create role plain");
    let mut app = as_user(&server, "app");
    for (at, (rights, statement, errno)) in STATEMENTS.iter().enumerate() {
        assert_eq!(app.fails(statement).errno, *errno, "{statement} without rights");
        let role = format!("r{at}");
        root.run(&format!("create role {role}"));
        for right in *rights {
            root.run(&format!("grant {right} to {role}"));
        }
        root.run(&format!("grant {role} to app"));
        assert_eq!(
            app.fails(statement).errno,
            *errno,
            "{statement} with a role that is not active"
        );
        app.run(&format!("set role {role}"));
        root.run(&format!("revoke {role} from app"));
        assert_eq!(app.fails(statement).errno, *errno, "{statement} with a revoked role");
        // The role is still among those that the session has made active.
        root.run(&format!("grant {role} to app"));
        for (left_out, right) in rights.iter().enumerate().filter(|_| rights.len() > 1) {
            root.run(&format!("revoke {right} from {role}"));
            if !statement.starts_with("show create view") || left_out == 1 {
                assert!(
                    [*errno, 1044].contains(&app.fails(statement).errno),
                    "{statement}: {right}"
                );
            }
            root.run(&format!("grant {right} to {role}"));
        }
        let answer = app.query(statement);
        assert!(!matches!(answer, Outcome::Err { .. }), "{statement} with {role}: {answer:?}");
        root.run(&format!("drop role {role}"));
    }
}

#[test]
fn roles_are_active_as_the_session_says() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int, primary key (a))");
    root.run("create role reading, 'writing'@'%', outer_one");
    root.run("grant select on d.* to reading");
    root.run("grant insert on d.* to writing");
    root.run("grant writing to outer_one");
    root.run("create user app");
    root.run("grant reading, outer_one to app");
    assert!(Client::connect(server.address, "reading", "", None).is_err(), "nobody is a role");
    let mut app = as_user(&server, "app");
    assert_eq!(app.one("select current_role()"), "NONE");
    assert_eq!(app.fails("select * from d.t").errno, 1142);
    app.run("set role all");
    assert_eq!(app.one("select current_role()"), "`outer_one`@`%`,`reading`@`%`");
    app.run("insert into d.t values (1)");
    assert_eq!(app.one("select a from d.t"), "1");
    app.run("set role all except reading");
    assert_eq!(app.fails("select * from d.t").errno, 1142);
    app.run("insert into d.t values (2)");
    assert_eq!(app.fails("set role nothing").errno, 3530);
    assert_eq!(app.fails("set role writing").errno, 3530, "it comes by way of another role only");
    // A plan that is kept asks again for the roles of now.
    app.run("set role reading");
    let prepared = app.prepare("select count(*) from d.t where a < ?").unwrap();
    let execute = |app: &mut Client| app.execute(prepared.statement_id, &[Param::Int(9)]);
    assert!(matches!(execute(&mut app), Outcome::Rows(_)));
    app.run("set role none");
    assert!(matches!(execute(&mut app), Outcome::Err { errno: 1142, .. }));
    app.run("set role reading");
    assert!(matches!(execute(&mut app), Outcome::Rows(_)));
    root.run("revoke reading from app");
    assert!(matches!(execute(&mut app), Outcome::Err { errno: 1142, .. }));
    assert_eq!(app.one("select current_role()"), "NONE");
}

#[test]
fn default_roles_are_active_behind_a_login() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("create role reading, writing");
    root.run("grant select on d.* to reading");
    root.run("grant insert on d.* to writing");
    root.run("create user app");
    root.run("grant reading to app with admin option");
    root.run("grant writing to app");
    let role = |client: &mut Client| client.one("select current_role()");
    assert_eq!(root.fails("set default role nothing to app").errno, 3530);
    root.run("set default role reading to app");
    let mut app = as_user(&server, "app");
    assert_eq!(role(&mut app), "`reading`@`%`");
    app.run("set role none");
    app.run("set default role all to app");
    app.run("set role default");
    assert_eq!(role(&mut app), "`reading`@`%`,`writing`@`%`");
    root.run("alter user app default role none");
    assert_eq!(role(&mut as_user(&server, "app")), "NONE");
    root.run("set global activate_all_roles_on_login = on");
    assert_eq!(role(&mut as_user(&server, "app")), "`reading`@`%`,`writing`@`%`");
    // What is shown.
    let grants = |client: &mut Client, sql: &str| -> Vec<String> {
        client.texts(sql).into_iter().map(|mut row| row.remove(0)).collect()
    };
    assert_eq!(
        grants(&mut root, "show grants for app"),
        [
            "GRANT USAGE ON *.* TO `app`@`%`",
            "GRANT `writing`@`%` TO `app`@`%`",
            "GRANT `reading`@`%` TO `app`@`%` WITH ADMIN OPTION",
        ]
    );
    assert_eq!(
        grants(&mut root, "show grants for app using reading, writing")[1],
        "GRANT SELECT, INSERT ON `d`.* TO `app`@`%`"
    );
    assert_eq!(
        root.texts("select * from mysql.role_edges order by from_user"),
        [["%", "reading", "%", "app", "Y"], ["%", "writing", "%", "app", "N"]]
    );
    assert_eq!(root.one("select account_locked from mysql.user where user = 'reading'"), "Y");
    // Who has it WITH ADMIN OPTION may pass it on, and no other.
    root.run("create user other");
    app.run("grant reading to other");
    assert_eq!(app.fails("grant writing to other").errno, 1227);
    assert_eq!(root.fails("grant app to app").errno, 3527);
    root.run("grant other to writing");
    assert_eq!(root.fails("grant writing to other").errno, 3527, "a circle");
    assert_eq!(root.fails("grant nothing to app").errno, 3523);
    assert_eq!(root.fails("grant reading to nobody").errno, 3523);
    assert_eq!(root.fails("create role reading").errno, 1396);
    assert_eq!(root.fails("drop role nothing").errno, 1396);
    // A role of the same name that is made again is nobody's.
    root.run("drop role reading, writing");
    root.run("create role reading");
    root.run("grant select on d.* to reading");
    assert_eq!(app.fails("select * from d.t").errno, 1142);
    assert_eq!(grants(&mut root, "show grants for app").len(), 1);
}
