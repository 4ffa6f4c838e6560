//! Tables about the server show each account what it may see.

use super::as_user;
use super::common::TestServer;

#[test]
fn who_has_no_right_sees_itself_alone() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int primary key)");
    root.run("create view v as select a from t");
    root.run("create role r");
    root.run("grant select on d.t to r");
    root.run("create user nobody, reader, member");
    root.run("grant select, show view on d.v to reader");
    root.run("grant r to member");
    let mut nobody = as_user(&server, "nobody");
    let users = "select distinct user from performance_schema.processlist";
    assert_eq!(nobody.texts(users), [["nobody"]]);
    let of_threads = "select distinct processlist_user from performance_schema.threads";
    assert_eq!(nobody.texts(of_threads), [["nobody"]]);
    for table in ["session_connect_attrs", "session_account_connect_attrs"] {
        let others = format!(
            "select count(*) from performance_schema.{table} where processlist_id <> \
             connection_id()"
        );
        assert_eq!(nobody.texts(&others), [["0"]], "{table}");
    }
    for table in [
        "applicable_roles",
        "administrable_role_authorizations",
        "enabled_roles",
        "role_table_grants",
        "role_column_grants",
        "view_table_usage",
    ] {
        let count = format!("select count(*) from information_schema.{table}");
        assert_eq!(nobody.texts(&count), [["0"]], "{table}");
    }
    let accounts = "select user from information_schema.user_attributes";
    assert_eq!(nobody.texts(accounts), [["nobody"]]);
    assert_eq!(nobody.fails("select * from sys.version").errno, 1142);
    assert_eq!(nobody.fails("show create table sys.version").errno, 1142);
    let digests = "performance_schema.events_statements_summary_by_digest";
    let count = format!("select count(*) from {digests}");
    assert_eq!(nobody.texts(&count), [["0"]]);
    assert_ne!(root.texts(&count), [["0"]]);
    assert_eq!(nobody.fails(&format!("truncate table {digests}")).errno, 1227);
    // The view is shown, and not a table that its reader may not see.
    let usage = "select view_name, table_name from information_schema.view_table_usage";
    assert_eq!(as_user(&server, "reader").texts(usage), [[""; 2]; 0]);
    root.run("grant insert on d.t to reader");
    assert_eq!(as_user(&server, "reader").texts(usage), [["v", "t"]]);
    let mut member = as_user(&server, "member");
    let roles = "select role_name, is_default from information_schema.applicable_roles";
    assert_eq!(member.texts(roles), [["r", "NO"]]);
    let grants = "select count(*) from information_schema.role_table_grants";
    assert_eq!(member.texts(grants), [["0"]]);
    member.run("set role r");
    assert_eq!(member.texts(grants), [["1"]]);
    root.run("revoke r from member");
    assert_eq!(member.texts(grants), [["0"]], "a role that was taken away shows nothing");
}

#[test]
fn the_views_of_sys_show_each_what_it_may_see() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int primary key, b int, key x (b), key y (b))");
    root.run("create user nobody");
    root.run("grant select on sys.* to nobody");
    let redundant = "select table_name from sys.schema_redundant_indexes";
    let counted = "select table_name from sys.schema_table_statistics";
    let mut nobody = as_user(&server, "nobody");
    for sql in [redundant, counted] {
        assert_eq!(root.texts(sql), [["t"]], "{sql}");
        assert_eq!(nobody.texts(sql), [[""; 1]; 0], "{sql}");
    }
    let sessions = "select distinct substring_index(user, '@', 1) from sys.session";
    assert_eq!(nobody.texts(sessions), [["nobody"]]);
    assert_eq!(nobody.texts("select count(*) from sys.statement_analysis"), [["0"]]);
    assert_eq!(nobody.texts("select count(*) from sys.innodb_lock_waits"), [["0"]]);
}
