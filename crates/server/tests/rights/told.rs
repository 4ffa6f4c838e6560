//! The system tables that tell of privileges: `information_schema` and `mysql`.

use super::as_user;
use super::common::TestServer;

#[test]
fn privileges_stand_in_the_system_tables() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table d.t (a int, b int)");
    root.run("create user u, other");
    root.run("grant select, insert on d.* to u with grant option");
    root.run("grant update, delete on d.t to u");
    root.run("grant select (a) on d.t to other");
    root.run("grant process on *.* to other");
    assert_eq!(
        root.texts(
            "select table_schema, privilege_type, is_grantable \
             from information_schema.schema_privileges where grantee = \"'u'@'%'\" order by 2"
        ),
        [["d", "INSERT", "YES"], ["d", "SELECT", "YES"]]
    );
    assert_eq!(
        root.texts(
            "select table_name, privilege_type, is_grantable \
             from information_schema.table_privileges where grantee = \"'u'@'%'\" order by 2"
        ),
        [["t", "DELETE", "NO"], ["t", "UPDATE", "NO"]]
    );
    assert_eq!(
        root.texts(
            "select host, db, select_priv, insert_priv, update_priv, grant_priv, trigger_priv \
             from mysql.db where user = 'u'"
        ),
        [["%", "d", "Y", "Y", "N", "Y", "N"]]
    );
    assert_eq!(
        root.texts("select db, table_name, table_priv from mysql.tables_priv where user = 'u'"),
        [["d", "t", "Update,Delete"]]
    );
    assert_eq!(
        root.texts(
            "select user, process_priv, select_priv, super_priv from mysql.user \
             where user in ('root', 'other') order by user"
        ),
        [["other", "Y", "N", "N"], ["root", "Y", "Y", "Y"]]
    );
    // An account sees its own, and what it may read of the database mysql.
    let mut other = as_user(&server, "other");
    let grantees = "select count(distinct grantee) from information_schema.schema_privileges";
    assert_eq!(other.one(grantees), "0");
    assert_eq!(other.fails("select * from mysql.db").errno, 1142);
    assert_eq!(other.fails("select * from mysql.tables_priv").errno, 1142);
    let mut u = as_user(&server, "u");
    assert_eq!(u.one(grantees), "1");
}

#[test]
fn what_only_the_server_has_tells_of_no_table() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table d.t (a int)");
    root.run("create view d.v as select a as told from d.t");
    root.run("create user u");
    root.run("grant process, create user, reload, file, super on *.* to u");
    let mut client = as_user(&server, "u");
    let databases = "select count(*) from information_schema.schemata where schema_name = 'd'";
    let tables = "select count(*) from information_schema.tables where table_schema = 'd'";
    let columns = "select count(*) from information_schema.columns where table_schema = 'd'";
    let counts = |client: &mut super::common::Client| {
        [databases, tables, columns].map(|question| client.texts(question)[0][0].clone())
    };
    assert_eq!(counts(&mut client), ["0", "0", "0"]);
    assert_eq!(client.fails("show tables from d").errno, 1044);
    assert_eq!(client.fails("use d").errno, 1044);
    root.run("grant show databases on *.* to u");
    assert_eq!(counts(&mut client), ["1", "0", "0"]);
    assert_eq!(client.texts("show tables from d"), Vec::<Vec<String>>::new());
    root.run("grant show view on *.* to u");
    assert_eq!(client.texts("show tables from d"), [["t"], ["v"]]);
}

#[test]
fn ids_of_tables_tell_of_no_table() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table d.secret (id bigint primary key auto_increment)");
    root.run("create user u");
    let mut client = as_user(&server, "u");
    for form in [
        "select d.AUTO_SEQ_{}.nextval",
        "select currval(d.AUTO_SEQ_{})",
        "alter sequence d.AUTO_SEQ_{} start with 9",
    ] {
        let mut told = |table: &str| {
            let refused = client.fails(&form.replace("{}", table));
            (refused.errno, refused.message.replace(table, "it"))
        };
        let of_secret = told("secret");
        assert_eq!(of_secret.0, 1142, "{form}");
        assert_eq!(of_secret, told("nothing"), "{form}");
    }
    root.run("grant insert on d.secret to u");
    assert_eq!(client.one("select d.AUTO_SEQ_secret.nextval"), "1");
}

#[test]
fn a_foreign_key_tells_nothing_of_a_table_that_one_may_not_see() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create database secret");
    root.run("create table secret.users (email varchar(20) not null, unique key by_email (email))");
    root.run("create user u");
    root.run("grant all on d.* to u");
    let mut u = as_user(&server, "u");
    u.run("create table d.p (a varchar(20), foreign key (a) references secret.users (email))");
    let key = "select coalesce(unique_constraint_name, 'none') \
         from information_schema.referential_constraints where constraint_schema = 'd'";
    assert_eq!(u.one(key), "none");
    assert_eq!(root.one(key), "by_email");
}
