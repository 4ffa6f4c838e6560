//! Every kind of statement that the parser knows, and every address, is refused to who has no right
//! to it. A new kind does not compile here until it is named, and then needs a statement.

use std::collections::BTreeSet;

use freshet_query::parser::{
    AlterAction, BinStatement, PolicyStatement, RoleStatement, SequenceStatement, SetTarget,
    ShowWhat, Statement, WorkloadStatement, parse,
};
use freshet_wire::client::Outcome;

use super::common::{TestServer, failure};
use super::options::asked;
use super::{Client, as_user};

macro_rules! kinds {
    ($of:ident, $all:ident, $enum:ident: $($name:ident)*) => {
        const $all: &[&str] = &[$(concat!(stringify!($enum), " ", stringify!($name)),)*];

        fn $of(one: &$enum) -> &'static str {
            match one {
                $($enum::$name { .. } => concat!(stringify!($enum), " ", stringify!($name)),)*
            }
        }
    };
}

kinds!(of_statement, STATEMENT_KINDS, Statement:
    Query SelectInto Explain Describe Insert LoadData Change ChangeSeveral CreateDatabase
    AlterDatabase DropDatabase CreateTable DropTable CreateView DropViews Sequence Truncate
    AlterTable RenameTables Use Set Begin Commit Rollback Savepoint RollbackTo ReleaseSavepoint
    Show Kill CreateUser AlterUser DropUser Grant Revoke Role Workload Prepare Execute
    Deallocate CancelLoad CleanLabels Bin Policy CancelAlter SetConfig ReloadTls FlushTables
    RenameUsers Tend Signal GetDiagnostics Do Assigning SideEffects LockTables
    Nothing);
kinds!(of_show, SHOW_KINDS, ShowWhat:
    Databases Tables TableStatus Within Columns Index GlobalIndexes CreateTable CreateView
    CreateSequence CreateDatabase Variables Status Warnings Processlist Grants CreateUser
    RowPolicies Property Partitions TemporaryPartitions DynamicPartitions Tablets Tablet
    ReplicaStatus ReplicaDistribution Trash Transaction LastInsert AlterTableColumn Load
    StreamLoad LoadWarnings Data Engine Proc Config Plain);
kinds!(of_alter, ALTER_KINDS, AlterAction:
    Clauses Index BuildIndex Replace Set Rename Partitions Distribution AddTemporary DropTemporary
    ReplacePartitions Exchange Tend DisableKeys EnableKeys);
kinds!(of_sequence, SEQUENCE_KINDS, SequenceStatement: Create Alter Drop Rename Convert);
kinds!(of_role, ROLE_KINDS, RoleStatement: Create Drop Grant Revoke SetDefault Set);
kinds!(of_bin, BIN_KINDS, BinStatement:
    Recover RecoverDatabase RecoverPartition Drop DropDatabase DropPartition);
kinds!(of_workload, WORKLOAD_KINDS, WorkloadStatement: Create Alter Drop SetProperty);
kinds!(of_policy, POLICY_KINDS, PolicyStatement: Create Drop);
kinds!(of_target, SET_KINDS, SetTarget:
    System ResetPersist User Names Charset Password Transaction);

/// The kind of a statement, and that of what it is about.
fn kinds_of(statement: &Statement) -> Vec<&'static str> {
    let mut kinds = vec![of_statement(statement)];
    match statement {
        Statement::Show(show) => kinds.push(of_show(&show.what)),
        Statement::AlterTable(_, action) => kinds.push(of_alter(action)),
        Statement::Sequence(of) => kinds.push(of_sequence(of)),
        Statement::Role(of) => kinds.push(of_role(of)),
        Statement::Bin(of) => kinds.push(of_bin(of)),
        Statement::Policy(of) => kinds.push(of_policy(of)),
        Statement::Workload(of) => kinds.push(of_workload(of)),
        Statement::Set(all) => kinds.extend(all.iter().map(|one| of_target(&one.target))),
        _ => {}
    }
    kinds
}

/// A statement, what root runs before it, the rights that it takes, the error without one of them,
/// and the error with all of them: 0 for none.
type Case = (&'static str, &'static str, &'static [&'static str], u16, u16);

const MORE: &[Case] = &[
    ("", "select a, b from d.t limit 1 into @a, @b", &["select on d.t"], 1142, 0),
    ("", "select a from d.t into outfile '/tmp/x'", &["select on d.t", "file on *.*"], 1142, 1290),
    ("", "load data infile '/tmp/x' into table d.t", &["insert on d.t", "file on *.*"], 1142, 1290),
    ("", "select @x := max(a) from d.t", &["select on d.t"], 1142, 0),
    ("", "do (select max(a) from d.t)", &["select on d.t"], 1142, 0),
    ("", "set @x = (select max(a) from d.t)", &["select on d.t"], 1142, 0),
    ("", "explain insert into d.t select * from d.k", &["select on d.k"], 1142, 0),
    ("", "explain update d.k set b = 1 where a = 1", &["select on d.k"], 1142, 0),
    ("", "select d.s.nextval", &["insert on d.s"], 1142, 0),
    ("", "show create sequence d.s", &["select on d.s"], 1142, 0),
    ("", "alter sequence d.s start with 50", &["alter on d.s"], 1142, 0),
    ("", "convert all sequences from new to new for d", &["alter on d.*"], 1142, 0),
    (
        "drop sequence if exists d.s2; create sequence if not exists d.s3",
        "rename sequence d.s3 to d.s2",
        &["alter on d.s3", "drop on d.s3", "create on d.s2", "insert on d.s2"],
        1142,
        0,
    ),
    ("", "alter table d.k set ('light_schema_change' = 'true')", &["alter on d.k"], 1142, 0),
    ("", "alter table d.k auto_increment = 90", &["alter on d.k"], 1142, 0),
    ("", "alter table d.k disable keys", &["alter on d.k"], 1142, 0),
    ("", "alter table d.k enable keys", &["alter on d.k"], 1142, 0),
    (
        "alter table d.k drop index if_there; create index if_there on d.k (b)",
        "drop index if_there on d.k",
        &["index on d.k"],
        1142,
        0,
    ),
    (
        "alter table d.k drop index to_build; create index to_build on d.k (b)",
        "build index to_build on d.k",
        &["index on d.k"],
        1142,
        0,
    ),
    (
        "alter table d.k drop index added",
        "alter table d.k add index added (b)",
        &["alter on d.k"],
        1142,
        0,
    ),
    (
        "alter table d.p add partition (partition p9 values less than (90))",
        "alter table d.p drop partition p9",
        &["alter on d.p", "drop on d.p"],
        1142,
        0,
    ),
    (
        "",
        "alter table d.p modify distribution distributed by random buckets 1",
        &["alter on d.p"],
        1142,
        0,
    ),
    ("", "truncate table d.p", &["drop on d.p"], 1142, 0),
    ("", "alter table d.p check partition all", &["alter on d.p", "select on d.p"], 1142, 0),
    ("", "recover partition p9 from d.p", &["drop on d.p", "create on d.p"], 1142, 1507),
    (
        "",
        "alter table d.p add temporary partition x values less than (9)",
        &["alter on d.p"],
        1142,
        1235,
    ),
    (
        "",
        "alter table d.p drop temporary partition x",
        &["alter on d.p", "drop on d.p"],
        1142,
        1507,
    ),
    (
        "",
        "alter table d.p replace partition (p0) with temporary partition (x)",
        &["alter on d.p", "drop on d.p"],
        1142,
        1735,
    ),
    (
        "create table if not exists d.x3 (a int)",
        "alter table d.p exchange partition p0 with table d.x3",
        &[
            "alter on d.p",
            "drop on d.p",
            "create on d.p",
            "insert on d.p",
            "alter on d.x3",
            "drop on d.x3",
            "create on d.x3",
            "insert on d.x3",
        ],
        1142,
        0,
    ),
    ("", "show temporary partitions from d.p", &["select on d.p"], 1142, 0),
    (
        "create table if not exists d.x1 (a int); create table if not exists d.x2 (a int)",
        "alter table d.x1 replace with table x2",
        &[
            "alter on d.x1",
            "drop on d.x1",
            "create on d.x1",
            "insert on d.x1",
            "alter on d.x2",
            "drop on d.x2",
            "create on d.x2",
            "insert on d.x2",
        ],
        1142,
        0,
    ),
    (
        "drop table if exists d.y2; create table if not exists d.y1 (a int)",
        "alter table d.y1 rename to y2",
        &["alter on d.y1", "drop on d.y1", "create on d.y2", "insert on d.y2"],
        1142,
        0,
    ),
    ("", "cancel alter table column from d.t", &["alter on d.t"], 1142, 1105),
    (
        "create database if not exists y9; drop database y9",
        "recover database y9",
        &["drop on y9.*", "create on y9.*"],
        1044,
        1008,
    ),
    ("", "clean label from d", &["insert on d.*"], 1044, 0),
    ("", "cancel load from d where label = 'none'", &["insert on d.*"], 1044, 1210),
    ("", "admin set frontend config ('x' = '1')", &["super on *.*"], 1227, 1105),
    ("", "admin show frontend config", &["super on *.*"], 1227, 0),
    ("", "alter instance reload tls", &["super on *.*"], 1227, 3160),
    ("", "set persist long_query_time = 10", &["super on *.*"], 1227, 0),
    ("", "set persist_only long_query_time = 10", &["super on *.*"], 1227, 0),
    ("", "reset persist", &["super on *.*"], 1227, 0),
    ("", "set password for other = 'x'", &["create user on *.*"], 1227, 0),
    ("", "show create user other", &["create user on *.*"], 1227, 0),
    ("", "show row policy", &["super on *.*"], 1227, 0),
    ("", "drop row policy if exists p on d.t", &["super on *.*"], 1227, 0),
    (
        "drop row policy if exists p on d.t",
        "create row policy p on d.t as permissive to other using (a = 1)",
        &["super on *.*"],
        1227,
        0,
    ),
    ("", "show tables from d", &["select on d.t"], 1044, 0),
    ("", "show table status from d", &["select on d.t"], 1044, 0),
    ("", "show create database d", &["select on d.t"], 1044, 0),
    ("", "show partitions from d.p", &["select on d.p"], 1142, 0),
    ("", "show tablets from d.p", &["select on d.p"], 1142, 0),
    ("", "show tablet 1000000", &[], 1210, 1210),
    ("", "admin show replica status from d.p", &["select on d.p"], 1142, 0),
    ("", "show replica distribution from d.p", &["select on d.p"], 1142, 0),
    ("", "show trash", &["process on *.*"], 1227, 0),
    ("", "show dynamic partition tables from d", &["select on d.t"], 1044, 0),
    ("", "show transaction from d", &["select on d.t"], 1044, 0),
    ("", "show alter table column from d", &["select on d.t"], 1044, 0),
    ("", "show load from d", &["select on d.t"], 1044, 0),
    ("", "show stream load from d", &["select on d.t"], 1044, 0),
    ("", "show load warnings from d where label = 'none'", &["select on d.t"], 1044, 0),
    ("", "show data from d.t", &["select on d.t"], 1044, 0),
    ("", "show proc '/backends'", &["process on *.*"], 1227, 0),
    ("", "show grants for other", &["create user on *.*"], 1227, 0),
    ("", "show engine innodb status", &["process on *.*"], 1227, 0),
    ("", "show open tables from d", &["select on d.t"], 1044, 0),
    ("", "show triggers from d", &["select on d.t"], 1044, 0),
    ("", "show full events from d", &["select on d.t"], 1044, 0),
    ("", "show master status", &["replication client on *.*"], 1227, 0),
    ("", "show binary logs", &["replication client on *.*"], 1227, 0),
    ("", "show replica status", &["super on *.*"], 1227, 0),
    ("", "show replicas", &["replication slave on *.*"], 1227, 0),
    ("", "show binlog events in 'x'", &["replication slave on *.*"], 1227, 0),
    ("", "reset master", &["reload on *.*"], 1227, 0),
    ("", "purge binary logs to 'x'", &["super on *.*"], 1227, 0),
    ("", "lock tables d.t read, d.k as x write", &["lock tables on d.*", "select on d.*"], 1044, 0),
    ("", "lock tables d.none read", &["lock tables on d.*", "select on d.*"], 1044, 1146),
    ("", "check table d.t", &["select on d.t"], 1142, 0),
    ("", "checksum table d.t", &["select on d.t"], 1142, 0),
    ("", "analyze table d.t", &["select on d.t", "insert on d.t"], 1142, 0),
    ("", "optimize table d.t", &["select on d.t", "insert on d.t"], 1142, 0),
    ("", "repair table d.t", &["select on d.t", "insert on d.t"], 1142, 0),
    ("", "alter table d.t convert to character set utf8mb4", &["alter on d.t"], 1142, 0),
    (
        "drop user if exists fresh; create user if not exists stale",
        "rename user stale to fresh",
        &["create user on *.*"],
        1227,
        0,
    ),
];

/// Statements that take no right, for they show or change what is the session's own.
const OPEN: &[&str] = &[
    "select 1",
    "begin",
    "savepoint s",
    "rollback to s",
    "release savepoint s",
    "commit",
    "rollback",
    "set autocommit = 1, @x = 5, names utf8mb4, character set utf8mb4",
    "set session transaction read write",
    "prepare p from 'select 1'",
    "execute p",
    "deallocate prepare p",
    "select sleep(0)",
    "set role none",
    "show databases",
    "show open tables",
    "show variables like 'version'",
    "show status like 'Uptime'",
    "show warnings",
    "show processlist",
    "show grants",
    "show create user current_user()",
    "show last insert",
    "show catalog recycle bin",
    "show workload groups",
    "show property",
    "show engines",
    "signal sqlstate '01000' set message_text = 'careful'",
    "get diagnostics @n = number",
];

/// Statements that are tried in tests of their own, or by other means.
const ELSEWHERE: &[&str] = &[
    "kill 1",
    "drop catalog recycle bin where 'TableId' = 1",
    "drop catalog recycle bin where 'DbId' = 1",
    "drop catalog recycle bin where 'PartitionId' = 1",
];

#[test]
fn no_kind_of_statement_is_forgotten() {
    let first = super::STATEMENTS.iter().map(|(_, statement, _)| *statement);
    let more = MORE.iter().map(|(_, statement, ..)| *statement);
    let all = first.chain(more).chain(OPEN.iter().copied()).chain(ELSEWHERE.iter().copied());
    let mut tried = BTreeSet::new();
    for sql in all {
        let parsed = parse(sql, Default::default()).unwrap_or_else(|e| panic!("{sql}: {e}"));
        tried.extend(parsed.iter().flat_map(|one| kinds_of(&one.statement)));
    }
    let lists = [
        STATEMENT_KINDS,
        SHOW_KINDS,
        ALTER_KINDS,
        SEQUENCE_KINDS,
        ROLE_KINDS,
        BIN_KINDS,
        POLICY_KINDS,
        WORKLOAD_KINDS,
        SET_KINDS,
    ];
    let missing = lists.iter().copied().flatten().filter(|kind| !tried.contains(*kind));
    assert_eq!(missing.collect::<Vec<_>>(), [&""; 0], "a statement of each kind is tried");
}

fn prepared_server() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int, b int)");
    root.run("create table k (a int primary key auto_increment, b int)");
    root.run("create table p (a int) partition by range (a) (partition p0 values less than (10))");
    root.run("insert into t values (1, 1)");
    root.run("insert into k values (1, 1)");
    root.run("create sequence s");
    root.run("create user other");
    (server, root)
}

const DENIED: [u16; 5] = [1044, 1045, 1142, 1143, 1227];

#[test]
fn every_other_kind_of_statement_takes_its_rights() {
    let (server, mut root) = prepared_server();
    let mut wrong = Vec::new();
    for (at, (before, sql, rights, errno, then)) in MORE.iter().enumerate() {
        let mut attempt = |rights: &[&str], number: usize| {
            for text in before.split(';').filter(|text| !text.trim().is_empty()) {
                root.query(text);
            }
            let user = format!("m{at}_{number}");
            root.run(&format!("create user {user}"));
            for right in rights {
                root.run(&format!("grant {right} to {user}"));
            }
            match failure(as_user(&server, &user).query(sql)) {
                Ok(refused) => (refused.errno, refused.message),
                Err(_) => (0, String::new()),
            }
        };
        let none = attempt(&[], 0);
        if none.0 != *errno {
            wrong.push(format!("{sql} without rights: {none:?}, and not {errno}"));
        }
        for left_out in 0..rights.len() {
            let mut some = rights.to_vec();
            some.remove(left_out);
            let answer = attempt(&some, 1 + left_out);
            if !DENIED.contains(&answer.0) {
                wrong.push(format!("{sql} without {}: {answer:?}", rights[left_out]));
            }
        }
        let all = attempt(rights, 1 + rights.len());
        if all.0 != *then {
            wrong.push(format!("{sql} with {rights:?}: {all:?}, and not {then}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_takes_no_right_shows_nothing_of_others() {
    let (server, mut root) = prepared_server();
    root.run("create user nobody");
    root.run("drop table d.t");
    let mut client = as_user(&server, "nobody");
    for sql in OPEN {
        match client.query(sql) {
            Outcome::Err { errno, message, .. } => panic!("{sql}: {errno} {message}"),
            Outcome::Rows(rows) => {
                let shown = format!("{rows:?}");
                for secret in ["\"d\"", "other", "root@"] {
                    assert!(!shown.contains(secret), "{sql} shows {secret}: {shown}");
                }
            }
            _ => {}
        }
    }
    let id = root.one("select connection_id()");
    assert_eq!(client.fails(&format!("kill {id}")).errno, 1095);
    assert_eq!(client.fails(&format!("kill query {id}")).errno, 1095);
    assert_eq!(client.fails("kill 4000000").errno, 1094);
}

/// Each address with the method, a body, and what the account needs: nothing (open), any account,
/// or a right.
const ADDRESSES: &[(&str, &str, &str, Option<&str>)] = &[
    (r#"["metrics"]"#, "GET /metrics", "", None),
    (r#"["api", "health"]"#, "GET /api/health", "", None),
    // Who has the URL may read it.
    (r#"["api", "_load_error_log"]"#, "GET /api/_load_error_log?file=none", "", None),
    (r#"["api", "bootstrap"]"#, "GET /api/bootstrap", "", Some("")),
    (r#"["api", "backends"]"#, "GET /api/backends", "", Some("")),
    (r#"["api", "get_wal_size"]"#, "GET /api/get_wal_size", "", Some("")),
    (r#"["rest", "v1", "login"]"#, "POST /rest/v1/login", "", Some("")),
    (r#"["rest", "v1", "system"]"#, "GET /rest/v1/system?path=//backends", "", Some("")),
    (
        r#"["rest", "v2", "manager", "node", "backends"]"#,
        "GET /rest/v2/manager/node/backends",
        "",
        Some(""),
    ),
    (
        r#"["rest", "v2", "manager", "node", "frontends"]"#,
        "GET /rest/v2/manager/node/frontends",
        "",
        Some(""),
    ),
    (
        r#"["api", "query", _, database]"#,
        "POST /api/query/default_cluster/d",
        r#"{"stmt": "select a from d.t"}"#,
        Some("select on d.t"),
    ),
    (r#"["api", "query_detail", ..]"#, "GET /api/query_detail/1", "", Some("")),
    (r#"["api", _, _, "_query_plan"]"#, "POST /api/d/t/_query_plan", "", Some("")),
    (
        r#"["api", "enable_light_schema_change", database, table]"#,
        "GET /api/enable_light_schema_change/d/t",
        "",
        Some("alter on d.t"),
    ),
    (r#"["api", "_http_stream"]"#, "PUT /api/_http_stream", "1,2\n", Some("insert on d.t")),
    (
        r#"["api", database, "get_load_state"]"#,
        "GET /api/d/get_load_state?label=l",
        "",
        Some("select on d.t"),
    ),
    (
        r#"["api", database, "_load_info"]"#,
        "GET /api/d/_load_info?label=l",
        "",
        Some("select on d.t"),
    ),
    (
        r#"["api", database, "_stream_load_2pc"]"#,
        "PUT /api/d/_stream_load_2pc",
        "",
        Some("insert on d.*"),
    ),
    (
        r#"["api", database, _, "_stream_load_2pc"]"#,
        "PUT /api/d/t/_stream_load_2pc",
        "",
        Some("insert on d.*"),
    ),
    (r#"["api", database, table, "_schema"]"#, "GET /api/d/t/_schema", "", Some("select on d.t")),
    (
        r#"["api", database, table, "_stream_load"]"#,
        "PUT /api/d/t/_stream_load",
        "1\t2\n",
        Some("insert on d.t"),
    ),
];

#[test]
fn every_address_takes_its_rights() {
    let routes = include_str!("../../src/http/route.rs");
    let routes = &routes[routes.find("match parts[..]").expect("addresses are matched there")..];
    let routes = &routes[..routes.find("_ => Route::Nothing").expect("and all else is nothing")];
    let patterns = routes.lines().flat_map(|line| line.split('|')).map(str::trim);
    let patterns = patterns.filter(|line| line.starts_with("[\""));
    let known = patterns.map(|line| &line[..=line.find(']').expect("it ends")]);
    let listed = ADDRESSES.iter().map(|(pattern, ..)| *pattern).collect::<BTreeSet<_>>();
    assert_eq!(known.collect::<BTreeSet<_>>(), listed, "each address has its rights here");

    let (server, mut root) = prepared_server();
    // Strangers are answered without the delay behind wrong passwords.
    root.run("set global connection_control_failed_connections_threshold = 0");
    root.run("create user nobody");
    root.run("create user locked account lock");
    let status = |user: &str, request: &str, body: &str| {
        let request = match request {
            "PUT /api/_http_stream" => format!(
                "{request} HTTP/1.1\r\nsql: insert into d.t select * from http_stream('format' = \
                 'csv', 'column_separator' = ',')\r\nx: y"
            ),
            "PUT /api/d/_stream_load_2pc" | "PUT /api/d/t/_stream_load_2pc" => {
                format!("{request} HTTP/1.1\r\ntxn_operation: abort\r\ntxn_id: 1\r\nx: y")
            }
            other => other.to_owned(),
        };
        let answer = asked(&server, (user, ""), &request, body);
        let status = answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap();
        (status, answer)
    };
    for (at, (_, request, body, right)) in ADDRESSES.iter().enumerate() {
        let Some(right) = right else {
            let (open, answer) = status("stranger", request, body);
            assert!(![401, 403].contains(&open), "{request}: {answer}");
            continue;
        };
        let (stranger, answer) = status("stranger", request, body);
        assert_eq!(stranger, 401, "{request} of a stranger: {answer}");
        let (locked, answer) = status("locked", request, body);
        assert_eq!(locked, 403, "{request} of a locked account: {answer}");
        let user = format!("h{at}");
        root.run(&format!("create user {user}"));
        if !right.is_empty() {
            let (nobody, answer) = status("nobody", request, body);
            assert_eq!(nobody, 403, "{request} without {right}: {answer}");
            root.run(&format!("grant {right} to {user}"));
        }
        let (allowed, answer) = status(&user, request, body);
        assert!(![401, 403].contains(&allowed), "{request} with {right}: {answer}");
        assert!(!answer.contains("denied"), "{request} with {right}: {answer}");
    }
}
