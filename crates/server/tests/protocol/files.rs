//! LOAD DATA INFILE and SELECT .. INTO OUTFILE: files of the server, and of the client.

use crate::common::{Client, TestServer};
use freshet_server::Settings;
use freshet_wire::Param;
use freshet_wire::client::Outcome;

/// A server whose files are in the directory.
fn server(dir: &std::path::Path) -> TestServer {
    TestServer::with(Settings { file_dir: Some(dir.to_owned()), ..Settings::local() })
}

fn errno(client: &mut Client, sql: &str) -> u16 {
    client.fails(sql).errno
}

#[test]
fn what_is_written_to_a_file_is_read_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(40), n DECIMAL(8,2), d DATETIME)");
    client.run(
        "INSERT INTO t VALUES (1, 'tab\\tand\\\\', 1.5, '2024-01-02 03:04:05'), \
         (2, NULL, NULL, NULL), (3, 'a\\nb', -2, NULL), (4, 'NULL', 0, NULL), \
         (5, '\"q,\"', 7, NULL)",
    );
    for (number, form) in [
        "",
        " FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES STARTING BY '>>'",
        " FIELDS TERMINATED BY 'abc' ESCAPED BY '!' LINES TERMINATED BY '\\r\\n'",
    ]
    .into_iter()
    .enumerate()
    {
        let file = dir.path().join(format!("{number}.txt"));
        let file = file.display();
        client.run(&format!("SELECT * FROM t ORDER BY id INTO OUTFILE '{file}'{form}"));
        client.run("CREATE TABLE back LIKE t");
        client.run(&format!("LOAD DATA INFILE '{file}' INTO TABLE back{form}"));
        let all = |table: &str| format!("SELECT * FROM {table} ORDER BY id");
        assert_eq!(client.texts(&all("back")), client.texts(&all("t")), "{form}");
        client.run("DROP TABLE back");
    }
}

#[test]
fn files_of_other_character_sets_are_converted() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20))");
    let file = dir.path().join("rows");
    let load = |charset: &str| {
        format!(
            "LOAD DATA INFILE '{}' INTO TABLE t CHARACTER SET {charset} FIELDS TERMINATED BY ','",
            file.display()
        )
    };
    std::fs::write(&file, b"1,\xd6\xd0\n2,a\xce\xc4\n").unwrap();
    client.run(&load("gbk"));
    let utf16 = "\u{feff}3,\u{e9}\n4,\u{1f600}\n".encode_utf16().flat_map(u16::to_le_bytes);
    std::fs::write(&file, utf16.collect::<Vec<_>>()).unwrap();
    client.run(&load("utf16le"));
    let hex = client.texts("SELECT id, HEX(c) FROM t ORDER BY id");
    assert_eq!(hex, [["1", "E4B8AD"], ["2", "61E69687"], ["3", "C3A9"], ["4", "F09F9880"]]);
    std::fs::write(&file, b"5,\xd6").unwrap();
    assert_eq!(errno(&mut client, &load("gbk")), 1300);
    assert_eq!(errno(&mut client, &load("utf32")), 1235);
    assert_eq!(errno(&mut client, &load("nothing")), 1115);
    assert_eq!(client.one("SELECT COUNT(*) FROM t"), "4");
}

#[test]
fn rows_of_named_partitions_alone_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = server.database("d");
    client.run(
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) \
         (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    );
    let file = dir.path().join("rows");
    std::fs::write(&file, "1\n2\n").unwrap();
    let load = |partition: &str| {
        format!("LOAD DATA INFILE '{}' INTO TABLE t PARTITION ({partition})", file.display())
    };
    assert_eq!(errno(&mut client, &load("p1")), 1748);
    assert_eq!(errno(&mut client, &load("p2")), 1735);
    client.run(&load("p0, p1"));
    assert_eq!(client.one("SELECT COUNT(*) FROM t PARTITION (p0)"), "2");
}

#[test]
fn the_bytes_of_one_row_are_dumped() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = server.database("d");
    let file = dir.path().join("bytes");
    let out = file.display();
    client.run(&format!("SELECT x'00FF0A5C', 'a\\\\b', NULL, 7 INTO DUMPFILE '{out}'"));
    assert_eq!(std::fs::read(&file).unwrap(), b"\x00\xff\x0a\x5ca\\b\x007");
    assert_eq!(errno(&mut client, &format!("SELECT 1 INTO DUMPFILE '{out}'")), 1086);
    let other = dir.path().join("rows");
    let two = format!("SELECT 1 UNION SELECT 2 INTO DUMPFILE '{}'", other.display());
    assert_eq!(errno(&mut client, &two), 1172);
    assert!(!other.exists());
}

#[test]
fn a_failed_statement_leaves_no_file_and_loads_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)");
    let file = dir.path().join("out.txt");
    let out = file.display();
    let failing =
        format!("SELECT 9223372036854775807 + id FROM (SELECT 1 AS id) AS d INTO OUTFILE '{out}'");
    assert_eq!(errno(&mut client, &failing), 1690);
    assert!(!file.exists());
    std::fs::write(&file, "1\t1\n2\t2\nx\t3\n").unwrap();
    let load = format!("LOAD DATA INFILE '{out}' INTO TABLE t");
    assert_eq!(errno(&mut client, &load), 1366);
    std::fs::write(&file, "1\t1\n2\n").unwrap();
    assert_eq!(errno(&mut client, &load), 1261);
    std::fs::write(&file, "1\t1\n2\t2\t3\n").unwrap();
    assert_eq!(errno(&mut client, &load), 1262);
    std::fs::write(&file, "1\t1\n1\t2\n").unwrap();
    assert_eq!(errno(&mut client, &load), 1062);
    assert_eq!(client.one("SELECT COUNT(*) FROM t"), "0");
}

#[test]
fn set_computes_columns_of_a_view() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, m INT)");
    client.run("CREATE TABLE u (id INT PRIMARY KEY, b INT)");
    client.run("CREATE VIEW v (k, w) AS SELECT id, n FROM t WHERE id < 100 WITH CHECK OPTION");
    client.run("CREATE VIEW j AS SELECT t.id, t.n, u.b FROM t JOIN u ON t.id = u.id");
    let file = dir.path().join("rows");
    std::fs::write(&file, "1\t10\n2\t20\n").unwrap();
    let load = |into: &str| format!("LOAD DATA INFILE '{}' INTO TABLE {into}", file.display());
    client.run(&load("v (k, @x) SET w = @x * 2 + k"));
    client.run(&load("j (id, @x) SET id = id + 5, n = @x"));
    let rows = [["1", "21", "NULL"], ["2", "42", "NULL"], ["6", "10", "NULL"], ["7", "20", "NULL"]];
    assert_eq!(client.texts("SELECT * FROM t ORDER BY id"), rows);
    for (into, refused) in [
        ("v (k, @x) SET k = 200 + k", 1369),
        ("v (k, @x) SET w = (SELECT MAX(n) FROM t)", 1093),
        ("v (k, @x) SET m = 1", 1054),
        ("v (m, @x) SET w = 1", 1054),
        ("j (id, @x) SET b = @x", 1393),
    ] {
        assert_eq!(errno(&mut client, &load(into)), refused, "{into}");
    }
    assert_eq!(client.one("SELECT COUNT(*) FROM t"), "4");
}

#[test]
fn files_are_those_of_the_directory() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("files");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(outer.path().join("secret"), "1\n").unwrap();
    std::fs::write(dir.join("known"), "1\n").unwrap();
    std::os::unix::fs::symlink(outer.path().join("secret"), dir.join("link")).unwrap();
    std::os::unix::fs::symlink(outer.path(), dir.join("up")).unwrap();
    let server = server(&dir);
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT)");
    let mut load = |name: &str| {
        let name = dir.join(name);
        errno(&mut client, &format!("LOAD DATA INFILE '{}' INTO TABLE t", name.display()))
    };
    assert_eq!(load("none"), 29);
    for outside in ["../secret", "link", "up/secret", "..", ""] {
        assert_eq!(load(outside), 1290, "{outside}");
    }
    let mut out = |name: &str| {
        let name = dir.join(name);
        errno(&mut client, &format!("SELECT 1 INTO OUTFILE '{}'", name.display()))
    };
    assert_eq!(out("known"), 1086);
    assert_eq!(out("../new"), 1290);
    assert_eq!(out("up/new"), 1290);
    assert_eq!(errno(&mut client, "LOAD DATA INFILE 'known' INTO TABLE t"), 1290);
    client.run("CREATE USER app");
    client.run("GRANT INSERT, SELECT ON d.* TO app");
    let mut app = Client::connect(server.address, "app", "", Some("d")).unwrap();
    let load = format!("LOAD DATA INFILE '{}' INTO TABLE t", dir.join("known").display());
    assert_eq!(errno(&mut app, &load), 1227);
    client.run("GRANT FILE ON *.* TO app");
    app.run(&load);
    assert_eq!(client.one("SELECT * FROM t"), "1");
}

/// Sends a file that the server requests; returns its answer and the sequence id of it.
fn send_local(client: &mut Client, sql: &str, pieces: &[&[u8]]) -> (Vec<u8>, u8) {
    client.writer.command_query(sql.as_bytes());
    client.send();
    let (request, sequence) = client.packet(1).unwrap();
    assert_eq!(request[0], 0xfb, "{request:?}");
    client.writer.reply_to(sequence.wrapping_add(1));
    pieces.iter().chain(&[&b""[..]]).for_each(|piece| client.writer.infile_piece(piece));
    let expected = client.writer.sequence();
    client.send();
    client.packet(expected).unwrap()
}

#[test]
fn a_connection_is_usable_behind_a_file_that_was_not_wanted_to_its_end() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT, n INT)");
    // More packets than there are sequence ids.
    let lines = b"1\t2\n".repeat(20_000);
    let pieces = vec![&lines[..]; 300];
    let failing = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t SET n = (SELECT 1 UNION SELECT 2)";
    let (answer, _) = send_local(&mut client, failing, &pieces);
    assert_eq!((answer[0], u16::from_le_bytes([answer[1], answer[2]])), (0xff, 1242));
    assert_eq!(client.one("SELECT COUNT(*) FROM t"), "0");
    let load = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t";
    let (answer, _) = send_local(&mut client, load, &[b"1\t", b"2\n3", b"\t4"]);
    assert_eq!(answer[0], 0);
    assert_eq!(client.texts("SELECT * FROM t ORDER BY id"), [["1", "2"], ["3", "4"]]);
    client.run("SET GLOBAL local_infile = 0");
    assert_eq!(errno(&mut client, load), 3948);
}

#[test]
fn load_file_reads_what_the_user_may_read_and_is_null_otherwise() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("files");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(outer.path().join("secret"), "secret").unwrap();
    std::fs::write(dir.join("bytes"), b"a\xff'\\\0z").unwrap();
    std::fs::write(dir.join("empty"), b"").unwrap();
    std::fs::write(dir.join("half"), vec![b'x'; 25 << 10]).unwrap();
    std::fs::write(dir.join("long"), vec![b'x'; 128 << 10]).unwrap();
    std::os::unix::fs::symlink(outer.path().join("secret"), dir.join("link")).unwrap();
    let server = server(&dir);
    let mut client = server.database("d");
    let load = |name: &str| format!("LOAD_FILE('{}')", dir.join(name).display());
    let one = |client: &mut Client, expr: String| client.one(&format!("SELECT {expr}"));
    assert_eq!(one(&mut client, format!("HEX({})", load("bytes"))), "61FF275C007A");
    assert_eq!(one(&mut client, format!("LENGTH({})", load("empty"))), "0");
    assert_eq!(one(&mut client, format!("LENGTH({})", load("long"))), "131072");
    for name in ["none", "../secret", "link", "."] {
        assert_eq!(one(&mut client, load(name)), "NULL", "{name}");
    }
    assert_eq!(one(&mut client, "LOAD_FILE(NULL)".to_owned()), "NULL");
    assert_eq!(errno(&mut client, &format!("SELECT {} FROM d.none", load("bytes"))), 1146);
    client.run("CREATE TABLE f (id INT PRIMARY KEY, name VARCHAR(200), b BLOB)");
    client.run(&format!(
        "INSERT INTO f VALUES (1, 'x', {0}), (2, 'y', NULL), (3, 'z', 'b')",
        load("bytes")
    ));
    client.run(&format!("UPDATE f SET b = {} WHERE id = 2", load("empty")));
    let put = client.prepare("UPDATE f SET b = CONCAT(LOAD_FILE(?), 'x') WHERE id = 3").unwrap();
    let name = dir.join("bytes").display().to_string();
    let done = client.execute(put.statement_id, &[Param::Bytes(name.as_bytes())]);
    assert!(matches!(done, Outcome::Ok { .. }), "{done:?}");
    let stored = client.texts("SELECT id, HEX(b) FROM f ORDER BY id");
    assert_eq!(stored, [["1", "61FF275C007A"], ["2", ""], ["3", "61FF275C007A78"]]);
    let count = format!("SELECT COUNT(*) FROM f WHERE b = {} OR id IN (SELECT 2)", load("bytes"));
    assert_eq!(client.one(&count), "2");
    assert_eq!(errno(&mut client, "SELECT LOAD_FILE(name) FROM f"), 1235);
    client.run("SET GLOBAL max_allowed_packet = 65536");
    let mut small = server.database("d");
    assert_eq!(one(&mut small, load("long")), "NULL");
    assert_eq!(one(&mut small, format!("LENGTH(CONCAT({0}, {0}))", load("half"))), "51200");
    let three = vec![load("half"); 3].join(", ");
    assert_eq!(errno(&mut small, &format!("SELECT {three}")), 3170);
    client.run("SET GLOBAL max_allowed_packet = DEFAULT");
    client.run("CREATE USER u");
    let mut user = Client::connect(server.address, "u", "", None).unwrap();
    assert_eq!(one(&mut user, load("bytes")), "NULL");
    client.run("GRANT FILE ON *.* TO u");
    assert_eq!(one(&mut user, format!("LENGTH({})", load("bytes"))), "6");
    let none = TestServer::start();
    assert_eq!(one(&mut none.connect(), load("bytes")), "NULL");
}
