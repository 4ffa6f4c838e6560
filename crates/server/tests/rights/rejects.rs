//! Rows that INSERT and LOAD DATA leave out are shown to who has sent them, and to who may read all
//! rows of their table.

use std::io::{Read, Write};
use std::net::TcpStream;

use freshet_server::Settings;
use freshet_wire::Param;

use super::as_user;
use super::common::{Client, TestServer};

const LAX: &str = "set enable_insert_strict = false";

/// Label, status, row, column, line and address of the rows left out of `d.t`, the newest first.
fn seen(client: &mut Client) -> Vec<Vec<String>> {
    client.texts(
        "select label, status, `row_number`, column_name, line, error_url \
         from information_schema.load_rejects where table_schema = 'd' and table_name = 't'",
    )
}

/// The last row that was left out, without its address.
#[track_caller]
fn last(client: &mut Client) -> Vec<String> {
    let mut row = seen(client).remove(0);
    row.truncate(5);
    row
}

fn get(server: &TestServer, url: &str) -> String {
    let path = &url[url.find("/api/").unwrap()..];
    let mut socket = TcpStream::connect(server.http_address()).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn server(settings: Settings) -> (TestServer, Client) {
    let server = TestServer::with(settings);
    let mut root = server.database("d");
    root.run(
        "create table t (a int not null, b tinyint, c varchar(9)) duplicate key(a) \
         partition by range(a) (partition p values less than (1000)) \
         distributed by hash(a) buckets 1",
    );
    root.run("create user app, other, reader");
    root.run("grant insert on d.t to app");
    root.run("grant insert on d.t to other");
    root.run("grant select on d.t to reader");
    (server, root)
}

#[test]
fn rows_that_inserts_leave_out_are_listed() {
    let (server, mut root) = server(Settings::local());
    let mut app = as_user(&server, "app");
    app.run("use d");
    app.run(LAX);
    let (rows, info) = app.run("insert into t values (1, 1, 'a'), (null, 2, 'b' ) , (3, 3, 'c')");
    assert_eq!(rows, 2);
    let label = info.split('\'').nth(3).unwrap().to_owned();
    let row = |label: &str, row: &str, column: &str, line: &str| {
        [label, "Success", row, column, line].map(str::to_owned)
    };
    assert_eq!(last(&mut app), row(&label, "2", "a", "(null, 2, 'b' )"));
    app.run("insert into t with label one select 4, 1, 'x' union all select null, 2, 'y'");
    let shown = last(&mut app);
    assert_eq!((&shown[0][..], &shown[4][..]), ("one", "\\N\t2\ty"));
    app.run("insert into t values (1 + 4, 1, 'a'), (nullif(1, 1), 2, upper('b')), (2000, 3, 'c')");
    assert_eq!(seen(&mut app)[0][4], "\\N\t2\tB");
    assert_eq!(seen(&mut app)[1][3..5], ["NULL", "2000\t3\tc"]);
    let prepared = app.prepare("insert into t values (?, 1, 'z')").unwrap();
    app.execute(prepared.statement_id, &[Param::Int(5000)]);
    assert_eq!(last(&mut app)[2..], ["1", "NULL", ""]);
    // In a transaction, too; and where all rows are left out.
    app.run("begin");
    app.run("insert into t values (6, 1, 'a'), (6000, 1, 'a')");
    assert_eq!(last(&mut app)[4], "(6000, 1, 'a')");
    app.run("rollback");
    app.run("insert into t values (7000, 1, 'a')");
    assert_eq!(last(&mut app), row("", "1", "NULL", "(7000, 1, 'a')"));
    // A statement that fails by the ratio says where its rows are.
    app.run("set insert_max_filter_ratio = 0.2");
    for (label, sql) in [
        ("", "insert into t values (8, 1, 'a'), (8000, 1, 'a')"),
        ("two", "insert into t with label two values (8, 1, 'a'), (8000, 1, 'a')"),
    ] {
        let failed = app.fails(sql);
        assert_eq!(failed.errno, 1105, "{failed:?}");
        let shown = seen(&mut app).remove(0);
        assert_eq!(shown[..3], [label, "Fail", "2"]);
        assert!(failed.message.ends_with(&format!(" url: {}", shown[5])), "{failed:?}");
        let answer = get(&server, &shown[5]);
        let line = "src line [(8000, 1, 'a')]; \n";
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(line), "{answer}");
        let told = app.texts(&format!("show load warnings on '{}'", shown[5]));
        assert!(told.len() == 1 && told[0][2].contains(line.trim()), "{told:?}");
    }
    // A statement that fails for another reason forgets no row, and adds none.
    let count = seen(&mut app).len();
    app.fails("insert into t (nothing) values (1)");
    app.fails("select nothing");
    assert_eq!((seen(&mut app).len(), seen(&mut root).len()), (count, count));
    root.run("set enable_insert_strict = true");
    root.fails("insert into t values (null, 1, 'a')");
    assert_eq!(seen(&mut root).len(), count, "one bad row fails it, and is told by its error");
    let labels = app.texts("show load from d where label = 'two'");
    assert_eq!((labels.len(), labels[0][2].as_str()), (1, "CANCELLED"));
    assert_eq!(app.texts("show load from d where label = ''").len(), 0);
}

#[test]
fn rows_that_are_left_out_are_shown_to_few() {
    let (server, mut root) = server(Settings::local());
    let [mut app, mut other, mut reader] =
        ["app", "other", "reader"].map(|user| as_user(&server, user));
    app.run(LAX);
    app.run("insert into d.t with label one values (1, 1, 'a'), (null, 2, 'secret')");
    let all = seen(&mut app);
    assert_eq!(all.len(), 1);
    let urls = |client: &mut Client| {
        let load = client.texts("show load from d where label = 'one'").remove(0);
        (load[13].clone(), client.texts("show load warnings from d").len())
    };
    for client in [&mut app, &mut reader, &mut root] {
        assert_eq!(seen(client), all);
        assert_eq!(urls(client), (all[0][5].clone(), 1));
    }
    assert!(seen(&mut other).is_empty());
    assert_eq!(urls(&mut other), (String::new(), 0));
    root.run("create row policy p on d.t as restrictive to reader using (a > 100)");
    assert!(seen(&mut reader).is_empty());
    assert_eq!(urls(&mut reader), (String::new(), 0));
    assert_eq!(urls(&mut app).1, 1);
    // Nor is the value told by the error of a load that failed.
    app.run("set insert_max_filter_ratio = 0");
    app.fails("insert into d.t with label two values (2, 1, 'a'), (5000, 3, 'secret')");
    let why = |client: &mut Client| {
        let load = client.texts("show load from d where label = 'two'").remove(0);
        assert_eq!(load[7], format!("type:LOAD_RUN_FAIL; msg:{}", load[19]));
        load[19].clone()
    };
    assert!(why(&mut app).contains("5000") && why(&mut root).contains("5000"));
    assert!(why(&mut other).starts_with("told to who has sent it"), "{}", why(&mut other));
    // Nobody guesses an address, and none leads out of the rows.
    let guessed = format!("{}0", &all[0][5][..all[0][5].len() - 1]);
    for url in [guessed.as_str(), "/api/_load_error_log?file=", "/api/_load_error_log?file=../x"] {
        if url != all[0][5] {
            assert!(get(&server, url).starts_with("HTTP/1.1 404"), "{url}");
        }
    }
}

#[test]
fn rows_that_load_data_leaves_out_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { file_dir: Some(dir.path().to_owned()), ..Settings::local() };
    let (_server, mut root) = server(settings);
    let file = dir.path().join("rows.txt");
    std::fs::write(&file, "1\t2\tx\n\\N\t5\tzz\n9000\t6\ty\n").unwrap();
    root.run(LAX);
    let load = format!("load data infile '{}' into table t", file.display());
    assert_eq!(root.run(&load).0, 1);
    let rows = seen(&mut root);
    assert_eq!(rows[0][1..5], ["Success", "2", "a", "\\N\t5\tzz"]);
    assert_eq!(rows[1][1..5], ["Success", "3", "NULL", "9000\t6\ty"]);
    root.run(&format!("{load} (a, @b, c) set b = @b + 1"));
    assert_eq!(seen(&mut root).len(), 4);
    assert_eq!(seen(&mut root)[0][2..4], ["2", "a"]);
    root.run("set insert_max_filter_ratio = 0");
    let failed = root.fails(&load);
    assert!(failed.message.contains("2/3") && failed.message.contains(" url: "), "{failed:?}");
    assert_eq!(seen(&mut root)[0][1], "Fail");
}

#[test]
fn rows_that_an_overwrite_leaves_out_are_told_behind_it() {
    let (_server, mut root) = server(Settings::local());
    root.run(LAX);
    let rows = "select 1, 1, 'a' union all select null, 2, 'b'";
    root.run(&format!("insert overwrite table t with label over {rows}"));
    let shown = last(&mut root);
    assert_eq!((&shown[0][..], &shown[1][..], &shown[4][..]), ("over", "Success", "\\N\t2\tb"));
    assert_eq!(seen(&mut root).len(), 1, "it is told once");
    root.run(&format!("insert overwrite table t {rows}"));
    assert_eq!((seen(&mut root).len(), &last(&mut root)[1][..]), (2, "Success"));
    assert_eq!(root.texts("select a, b, c from t"), [["1", "1", "a"]]);
}
