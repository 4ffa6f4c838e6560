//! Which loads share a group, their labels, and what SHOW tells of them.

use freshet_wire::client::Outcome;

use super::common::{Client, TestServer};
use super::rewrites::put;

fn server() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int not null) duplicate key(a) distributed by hash(a) buckets 1");
    (server, client)
}

/// A member of the info of an OK packet.
fn member(info: &str, name: &str) -> String {
    let rest = info.split_once(&format!("'{name}':'")).unwrap_or_else(|| panic!("{name}: {info}"));
    rest.1.split_once('\'').unwrap().0.to_owned()
}

#[track_caller]
fn loaded(client: &mut Client, sql: &str) -> (String, String, String) {
    let info = client.run(sql).1;
    (member(&info, "label"), member(&info, "status"), member(&info, "txnId"))
}

#[test]
fn the_mode_of_a_table_counts_unless_the_session_sets_one() {
    let (_server, mut client) = server();
    client.run("alter table t set ('group_commit_mode' = 'async_mode')");
    let (label, status, txn) = loaded(&mut client, "insert into t values (1)");
    assert!(label.starts_with("group_commit_") && status == "PREPARE", "{label} {status}");
    assert_eq!(loaded(&mut client, "insert into t values (2)").2, txn, "one group");
    client.run("set group_commit = off_mode");
    assert_eq!(loaded(&mut client, "insert into t values (3)").1, "VISIBLE");
    client.run("set group_commit = default");
    assert_eq!(loaded(&mut client, "insert into t values (4)").1, "PREPARE");
    client.run("alter table t set ('group_commit_mode' = 'off_mode')");
    assert_eq!(loaded(&mut client, "insert into t values (5)").1, "VISIBLE");
    client.run("set group_commit = async_mode");
    assert_eq!(loaded(&mut client, "insert into t values (6)").1, "PREPARE");
    assert_eq!(client.one("select count(*) from t"), "6");
}

#[test]
fn labelled_loads_share_a_group_where_the_session_asks_for_it() {
    let (_server, mut client) = server();
    client.run("set group_commit = async_mode");
    assert_eq!(loaded(&mut client, "insert into t with label a values (1)").1, "VISIBLE");
    client.run("set group_commit_labels = true");
    let group = loaded(&mut client, "insert into t values (2)").2;
    let own = loaded(&mut client, "insert into t with label b values (3)");
    assert_eq!(own, ("b".to_owned(), "PREPARE".to_owned(), group.clone()));
    let prepared = client.prepare("insert into t with label c values (?)").unwrap();
    let Outcome::Ok { info, .. } =
        client.execute(prepared.statement_id, &[freshet_wire::Param::Int(4)])
    else {
        panic!("it is loaded")
    };
    assert_eq!((member(&info, "label"), member(&info, "txnId")), ("c".to_owned(), group.clone()));
    let again = client.fails("insert into t with label b values (9)");
    assert!(again.message.contains(&format!("relate to txn [{group}]")), "{}", again.message);
    assert_eq!(loaded(&mut client, "insert into t with label e values (4 + 1)").1, "VISIBLE");
    assert_eq!(client.one("select sum(a) from t"), "15");
}

#[test]
fn why_a_statement_shares_no_group_is_told() {
    let (_server, mut client) = server();
    client.run("set group_commit = async_mode");
    let mut why = |sql: &str| {
        client.run(sql);
        let told = client.texts("show warnings");
        told.first().map_or(String::new(), |row| row[2].clone())
    };
    assert_eq!(why("insert into t values (1)"), "");
    assert!(why("insert into t values (1 + 1)").contains("its rows are computed"));
    assert!(why("insert into t select a + 2 from t where a = 1").contains("computed"));
    assert!(why("insert into t with label x values (1)").contains("it has a label"));
    client.run("begin");
    client.run("insert into t values (7)");
    assert!(client.texts("show warnings")[0][2].contains("in a transaction"));
    client.run("commit");
    client.run(
        "create table h (a int) distributed by hash(a) buckets 1 properties \
                ('light_schema_change' = 'false')",
    );
    assert_eq!(loaded(&mut client, "insert into h values (1)").1, "VISIBLE");
    assert!(client.texts("show warnings")[0][2].contains("light_schema_change"));
    let explained = |client: &mut Client, sql: &str| client.texts(sql).concat().join("\n");
    let shares = explained(&mut client, "explain insert into t values (1)");
    assert!(shares.contains("Share a group of 10000 ms"), "{shares}");
    let alone = explained(&mut client, "explain insert into h values (1)");
    assert!(alone.contains("Share no group"), "{alone}");
}

#[test]
fn behind_a_refused_begin_nothing_is_written_until_it_is_ended() {
    let (_server, mut client) = server();
    client.run("insert into t with label used values (1)");
    assert!(client.fails("begin with label used").message.contains("already been used"));
    for sql in [
        "insert into t values (2)",
        "insert into t select 2",
        "select * from t",
        "truncate table t",
        "commit",
    ] {
        let refused = client.fails(sql);
        assert!(refused.message.contains("was refused"), "{sql}: {}", refused.message);
    }
    // The COMMIT has ended it.
    client.run("insert into t values (3)");
    client.fails("begin with label `not a label`");
    client.run("rollback");
    client.run("insert into t values (4)");
    client.fails("begin with label used");
    client.run("begin with label fresh");
    client.run("insert into t values (5)");
    client.run("commit");
    assert_eq!(client.one("select group_concat(a order by a) from t"), "1,3,4,5");
}

#[test]
fn a_begin_inside_of_a_labelled_transaction_ends_nothing() {
    let (_server, mut client) = server();
    let status = "show transaction where label = 'half'";
    for begin in ["begin", "start transaction", "start transaction read only"] {
        client.run("begin with label half");
        client.run("insert into t values (1)");
        client.run(begin);
        client.run("insert into t values (2)");
        assert_eq!(client.one("select count(*) from t"), "2", "{begin}");
        client.run("rollback");
        assert_eq!(client.one("select count(*) from t"), "0", "{begin}");
        assert!(client.texts(status).is_empty(), "{begin}");
    }
    client.run("begin with label half");
    client.run("insert into t values (1)");
    let refused = client.fails("begin with label other");
    assert!(refused.message.contains("This is in a transaction"), "{}", refused.message);
    client.run("insert into t values (2)");
    client.run("commit");
    assert_eq!(client.one("select count(*) from t"), "2");
    client.run("begin with label other");
    client.run("rollback");
    assert_eq!(client.texts(status)[0][3], "VISIBLE");
}

#[test]
fn the_newest_of_one_second_is_shown_first() {
    let (_server, mut client) = server();
    for column in ["b", "c", "d", "e"] {
        client.run(&format!("alter table t add column {column} int"));
    }
    let jobs = |client: &mut Client, order: &str| {
        let rows = client.texts(&format!("show alter table column from d order by {order}"));
        rows.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>()
    };
    let by_id = jobs(&mut client, "JobId desc");
    assert_eq!(by_id.len(), 4);
    assert_eq!(jobs(&mut client, "CreateTime desc"), by_id);
    assert_eq!(jobs(&mut client, "CreateTime desc limit 1"), by_id[..1]);
    assert_eq!(jobs(&mut client, "CreateTime"), by_id.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn loads_are_shown_by_their_labels() {
    let (_server, mut client) = server();
    client.run("insert into t with label one values (1), (2)");
    // They are no loads of these labels.
    client.fails("insert into t with label one values (1), (2)");
    client.fails("insert into t with label `no good` values (1)");
    client.run("set group_commit_labels = on");
    client.fails("insert into t with label one values (1), (2)");
    client.run("set group_commit_labels = off");
    client.run("insert into t with label two values (3)");
    client.fails("insert into t with label three values (null)");
    let shown = |client: &mut Client, sql: &str| {
        let rows = client.texts(sql);
        rows.into_iter().map(|row| (row[1].clone(), row[2].clone())).collect::<Vec<_>>()
    };
    let pair = |label: &str, state: &str| (label.to_owned(), state.to_owned());
    assert_eq!(
        shown(&mut client, "show load order by Label"),
        [pair("one", "FINISHED"), pair("three", "CANCELLED"), pair("two", "FINISHED")]
    );
    let two = "show load from d where label = 'two' limit 1";
    assert_eq!(shown(&mut client, two), [pair("two", "FINISHED")]);
    let latest = "show load where label like 't%' and state = \"FINISHED\" order by JobId desc";
    assert_eq!(shown(&mut client, latest), [pair("two", "FINISHED")]);
    assert_eq!(shown(&mut client, "show load order by 1 desc limit 1"), [pair("two", "FINISHED")]);
    assert_eq!(client.fails("show load order by nothing").errno, 1054);
    let details = &client.texts("show load where label = 'one'")[0];
    assert!(details[14].contains("\"ScannedRows\":2"), "{details:?}");
    let txn = details[15].clone();
    let by_id = client.texts(&format!("show transaction from d where id = {txn}"));
    assert_eq!((by_id.len(), by_id[0][1].as_str(), by_id[0][3].as_str()), (1, "one", "VISIBLE"));
    let by_label = client.texts("show transaction where label = 'two'");
    assert_eq!((by_label.len(), by_label[0][1].as_str()), (1, "two"));
    assert!(by_label[0][5..=9].iter().all(|time| time.starts_with("20")), "{by_label:?}");
    assert_eq!(client.texts("show last insert")[0][1], "two");
    assert!(client.fails("cancel load where label = 'one'").message.contains("no uncompleted job"));
    // A label that is forgotten can be used again, as one that never was; the other one cannot.
    let again = |label: &str| format!("insert into t with label {label} values (7)");
    client.run("clean label never from d");
    assert_eq!(client.fails("clean label one from nowhere").errno, 1049);
    assert!(client.fails(&again("one")).message.contains("already been used"));
    client.run("clean label one from d");
    client.run(&again("one"));
    assert!(client.fails(&again("one")).message.contains("already been used"));
    client.run("clean label from d");
    client.run(&again("two"));
    client.run(&again("one"));
    assert_eq!(client.texts("show transaction where label = 'one'").len(), 1);
}

#[test]
fn the_last_insert_of_a_transaction_is_that_of_all_its_inserts() {
    let (_server, mut client) = server();
    let last = |client: &mut Client| client.texts("show last insert").remove(0);
    client.run("create table other (id int)");
    client.run("begin with label three");
    client.run("insert into t values (1), (2)");
    client.run("insert into other values (3)");
    let open = ["-1", "three", "d", "other", "PREPARE", "3", "0"];
    assert_eq!(last(&mut client), open);
    client.run("commit");
    let done = last(&mut client);
    let txn = client.texts("show transaction where label = 'three'")[0][0].clone();
    assert_eq!(done[..2], [txn, "three".to_owned()]);
    assert_eq!(done[2..], ["d", "other", "VISIBLE", "3", "0"]);
    // A transaction without INSERT has none, and one that is undone tells so.
    client.run("begin");
    client.run("commit");
    assert_eq!(last(&mut client), done);
    client.run("begin");
    client.run("insert into t values (4)");
    let label = last(&mut client)[1].clone();
    assert!(label.starts_with("txn_insert_"), "{label}");
    client.run("rollback");
    assert_eq!(last(&mut client), ["-1", &label, "d", "t", "ABORTED", "1", "0"]);
    client.run("insert into t values (5)");
    assert_eq!(last(&mut client)[4..], ["VISIBLE", "1", "0"]);
    // What a savepoint takes back was not inserted.
    client.run("begin");
    client.run("savepoint none");
    client.run("insert into t values (10)");
    client.run("savepoint one");
    client.run("insert into other values (11), (12)");
    assert_eq!(last(&mut client)[3..], ["other", "PREPARE", "3", "0"]);
    client.run("rollback to one");
    assert_eq!(last(&mut client)[3..], ["t", "PREPARE", "1", "0"]);
    client.run("insert into t values (13)");
    assert_eq!(last(&mut client)[4..], ["PREPARE", "2", "0"]);
    client.run("rollback to none");
    assert_eq!(last(&mut client)[4..], ["PREPARE", "0", "0"]);
    client.run("insert into t values (14)");
    client.run("commit");
    assert_eq!(last(&mut client)[4..], ["VISIBLE", "1", "0"]);
    // A label that is used again is that of another transaction.
    client.run("begin with label four");
    client.run("insert into t values (6), (7)");
    client.run("rollback");
    client.run("begin with label four");
    assert_eq!(last(&mut client)[1..], ["four", "d", "t", "ABORTED", "2", "0"]);
    client.run("insert into t values (6), (7)");
    client.run("commit");
    assert_eq!(last(&mut client)[4..], ["VISIBLE", "2", "0"]);
}

#[test]
fn the_transaction_of_a_group_is_shown_by_its_id() {
    let (server, mut client) = server();
    client.run("set group_commit = async_mode");
    let (label, _, txn) = loaded(&mut client, "insert into t values (1)");
    let shown = |client: &mut Client| {
        let rows = client.texts(&format!("show transaction where id = {txn}"));
        assert_eq!((rows.len(), &rows[0][1]), (1, &label), "{rows:?}");
        (rows[0][3].clone(), rows[0][9].clone())
    };
    assert_eq!(shown(&mut client), ("PREPARE".to_owned(), "NULL".to_owned()));
    // A change of columns ends the group.
    client.run("alter table t add column b int");
    let (status, finished) = shown(&mut client);
    assert!(status == "VISIBLE" && finished.starts_with("20"), "{status} {finished}");
    client.run("create user other");
    client.run("create table u (a int)");
    client.run("grant select on d.u to other");
    let mut other = Client::connect(server.address, "other", "", None).unwrap();
    assert!(other.texts("show transaction from d").is_empty(), "of a table that it may not see");
}

#[test]
fn what_a_load_has_asked_for_is_shown() {
    let (server, mut client) = server();
    let load = |headers: &[&str], body: &str| {
        let reply = put(&server, "/api/d/t/_stream_load", headers, body);
        assert!(reply.contains("Success"), "{reply}");
    };
    load(&["label: a", "timeout: 77", "max_filter_ratio: 0.5"], "1\nx\n");
    load(&["label: b", "timeout: 78", "two_phase_commit: true"], "1\n");
    client.run("set insert_timeout = 33");
    client.run("insert into t with label c values (1)");
    client.run("set enable_insert_strict = false, insert_max_filter_ratio = 0.25");
    client.run("insert into t with label d values (1)");
    client.fails("insert into t with label e values (null)");
    let timeouts = |client: &mut Client| {
        let rows = client.texts("show transaction order by Label");
        rows.iter().map(|row| row[13].clone()).collect::<Vec<_>>()
    };
    assert_eq!(timeouts(&mut client), ["77000", "78000", "33000", "33000"]);
    let tasks = client.texts("show load order by Label");
    let tasks = tasks.iter().map(|row| row[6].as_str()).collect::<Vec<_>>();
    let task = |seconds: u64, ratio: &str| {
        format!("cluster:N/A; timeout(s):{seconds}; max_filter_ratio:{ratio}")
    };
    let asked = [(77, "0.5"), (78, "0.0"), (33, "0.0"), (33, "0.25"), (33, "0.25")];
    assert_eq!(tasks, asked.map(|(seconds, ratio)| task(seconds, ratio)));
}

#[test]
fn a_tablet_is_found_by_its_id() {
    let (server, mut client) = server();
    client.run("insert into t values (1)");
    client.run("flush tables t");
    let tablet = client.texts("show tablets from t")[0][0].clone();
    let found = &client.texts(&format!("show tablet {tablet}"))[0];
    assert_eq!(found[..4], ["d", "t", "t", "t"]);
    let detail = found[11].trim_end_matches(';').to_owned();
    let copies = client.texts(&detail);
    assert_eq!((copies.len(), copies[0][0].as_str(), copies[0][9].as_str()), (1, &*tablet, "1"));
    // Each step of the path has the next one in its list.
    let ids = [&found[4], &found[5], &found[6], &found[7]].map(String::as_str);
    let [db, table, partition, index] = ids;
    let mut path = "/dbs".to_owned();
    for step in [db, table, "partitions", partition, index, &tablet] {
        let rows = client.texts(&format!("show proc '{path}'"));
        assert!(rows.iter().any(|row| row[0] == step), "{step} in {path}: {rows:?}");
        path = format!("{path}/{step}");
    }
    assert_eq!(client.fails("show tablet 1000000").errno, 1210);
    assert_eq!(client.fails("show proc '/dbs/1000000'").errno, 1049);
    assert_eq!(client.fails("show proc '/dbs/x'").errno, 1210);
    assert_eq!(client.fails(&format!("show proc '/dbs/{db}/1000000'")).errno, 1146);
    assert_eq!(client.fails(&format!("show proc '{path}/1'")).errno, 1235);
    // Who may not see the table is told as of a tablet that there is none.
    client.run("create user other");
    let mut other = Client::connect(server.address, "other", "", None).unwrap();
    assert_eq!(other.fails(&format!("show tablet {tablet}")).errno, 1210);
}

#[test]
fn labels_that_wait_are_shown_as_running_transactions() {
    let (server, mut client) = server();
    let reply = put(&server, "/api/d/t/_stream_load", &["label: p", "two_phase_commit: true"], "1");
    assert!(reply.contains("Success"), "{reply}");
    client.run("insert into t with label q values (2)");
    let databases = client.texts("show proc '/transactions'");
    let own = databases.iter().find(|row| row[1] == "d").unwrap();
    assert_eq!(own[2], "1");
    let path = format!("/transactions/{}", own[0]);
    let states = client.texts(&format!("show proc '{path}'"));
    assert_eq!(states, [["running", "1"], ["finished", "1"]]);
    let label = |client: &mut Client, state: &str| {
        let rows = client.texts(&format!("show proc '{path}/{state}'"));
        rows.iter().map(|row| row[1].clone()).collect::<Vec<_>>()
    };
    assert_eq!(label(&mut client, "running"), ["p"]);
    assert_eq!(label(&mut client, "finished"), ["q"]);
    client.run("cancel load where label = 'p'");
    assert!(label(&mut client, "running").is_empty());
}

#[test]
fn stream_loads_are_known_as_such_behind_a_restart() {
    let (mut server, mut client) = server();
    let load = |server: &TestServer, headers: &[&str]| {
        let reply = put(server, "/api/d/t/_stream_load", headers, "1\n");
        assert!(reply.contains("Success"), "{reply}");
    };
    client.run("insert into t with label stated values (1)");
    load(&server, &["label: streamed"]);
    load(&server, &["label: waiting", "two_phase_commit: true"]);
    // Behind the first start labels are those of the log, behind the second those of metadata.
    for start in 0..3 {
        let rows = client.texts("show transaction from d order by Label");
        let of = |row: &Vec<String>| (row[1].clone(), row[3].clone(), row[4].clone());
        let timeouts = rows.iter().map(|row| (&row[2][..3], row[13].as_str())).collect::<Vec<_>>();
        let expected = [("FE:", "14400000"), ("BE:", "259200000"), ("BE:", "3600000")];
        assert_eq!(timeouts, expected, "start {start}");
        let line = |label: &str, state: &str, kind: &str| {
            (label.to_owned(), state.to_owned(), kind.to_owned())
        };
        let expected = [
            line("stated", "VISIBLE", "INSERT_STREAMING"),
            line("streamed", "VISIBLE", "BACKEND_STREAMING"),
            line("waiting", "PRECOMMITTED", "BACKEND_STREAMING"),
        ];
        assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), expected, "start {start}");
        let rows = client.texts("show load from d order by Label");
        let kinds = rows.iter().map(|row| row[4].as_str()).collect::<Vec<_>>();
        assert_eq!(kinds, ["INSERT", "STREAM_LOAD", "STREAM_LOAD"], "start {start}");
        client.run("flush tables");
        drop(client);
        server = server.restart();
        client = server.connect();
    }
}

#[test]
fn settings_and_nodes_are_shown_by_the_names_of_doris() {
    let (_server, mut client) = server();
    let shown = client.texts("admin show frontend config like 'label_%'");
    let names = shown.iter().map(|row| row[0].as_str()).collect::<Vec<_>>();
    assert_eq!(
        names,
        ["label_clean_interval_second", "label_keep_max_second", "label_num_threshold"]
    );
    assert_eq!(shown[1][1], "259200");
    let shown = client.texts("admin show frontend config like '%load%'");
    let values = shown.iter().map(|row| (row[0].as_str(), row[1].as_str()));
    let values = values.collect::<std::collections::BTreeMap<_, _>>();
    assert_eq!(values["load_error_log_reserve_hours"], "48");
    assert_eq!(values["load_error_log_limit_bytes"], "209715200");
    assert_eq!(values["stream_load_default_timeout_second"], "259200");
    assert_eq!(values["enable_stream_load_record"], "true");
    for (name, value) in [
        ("commit_timeout_second", "30"),
        ("drop_backend_after_decommission", "true"),
        ("group_commit_timeout_multipler", "10"),
        ("max_running_txn_num_per_db", "1000"),
        ("streaming_label_keep_max_second", "43200"),
        ("streaming_load_json_max_mb", "100"),
        ("streaming_load_max_mb", "10240"),
    ] {
        let shown = client.texts(&format!("show frontend config like '{name}'"));
        assert_eq!((shown.len(), shown[0][1].as_str()), (1, value), "{name}");
    }
    client.run("admin set frontend config ('label_keep_max_second' = '259200')");
    let fixed = client.fails("admin set frontend config ('label_keep_max_second' = '1')");
    assert!(fixed.message.contains("is not mutable: it is the setting label_keep"), "{fixed:?}");
    client.run("admin set frontend config ('commit_timeout_second' = '60')");
    assert!(client.texts("show warnings")[0][2].contains("has no effect"));
    client.fails("admin set frontend config ('nope' = '1')");
    assert_eq!(client.texts("show proc '/frontends'").len(), 1);
    let backend = &client.texts("show proc '/backends'")[0];
    assert_eq!(backend[9], "true");
    // What is free and all there is, on a disk that is not full.
    assert!(backend[14..=15].iter().all(|size| !size.starts_with("0.000 ")), "{backend:?}");
    let databases = client.texts("show proc '/dbs'");
    assert!(databases.iter().any(|row| row[1] == "d" && row[2] == "1"), "{databases:?}");
    let statistic = client.texts("show proc '/statistic'");
    let own = statistic.iter().find(|row| row[1] == "d").unwrap();
    assert_eq!(own[2..], ["1", "1", "1", "1", "1"]);
    assert_eq!(statistic.last().unwrap()[0], "Total");
    let refused = client.fails("show proc '/nothing'").message;
    assert!(refused.contains("there are '/backends', '/dbs', '/frontends'"), "{refused}");
    client.run("insert into t values (1)");
    client.run("flush tables t");
    let data = client.texts("show data");
    assert_eq!((data[0][0].as_str(), data[1][0].as_str()), ("t", "Total"));
    assert_ne!(data[0][1], "0.000 ");
    assert_eq!(client.texts("show data from t").len(), 1);
    client.fails("show data from d.nope");
}
