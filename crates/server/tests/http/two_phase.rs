//! Loads of two phases: prepared by a stream load, then committed or aborted.

use std::io::Write;
use std::time::Duration;

use freshet_ingest::clean_labels;
use freshet_meta::Renaming;
use freshet_server::http::HttpConfig;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::site::Site;

/// Prepares a load and returns its transaction.
fn prepare(site: &Site, headers: &[&str], body: &str) -> i64 {
    let reply = site.load(&[&["two_phase_commit: true"], headers].concat(), body);
    assert_eq!((&reply["Status"], &reply["TwoPhaseCommit"]), (&json!("Success"), &json!("true")));
    reply["TxnId"].as_i64().unwrap()
}

/// Ends a load; the status and the message of the reply.
pub fn end(site: &Site, headers: &[&str]) -> (String, String) {
    let lines = [&[ROOT], headers].concat();
    let path = "/api/d/_stream_load_2pc";
    let reply = site.client().request("PUT", path, &lines, b"").json();
    let text = |name: &str| reply[name].as_str().unwrap().to_owned();
    (text("status"), text("msg"))
}

pub fn done(message: &str) -> (String, String) {
    ("Success".to_owned(), message.to_owned())
}

pub fn refused(message: &str) -> (String, String) {
    ("Fail".to_owned(), format!("errCode = 2, detailMessage = {message}"))
}

pub fn state(site: &Site, label: &str) -> Value {
    site.get(&format!("/api/d/get_load_state?label={label}"), &[ROOT]).json()["data"].clone()
}

/// How many notes of prepared loads are there, once those have gone that are on their way.
pub fn notes_left(site: &Site) -> usize {
    let notes = site.dir.path().join("store/prepared");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let left = std::fs::read_dir(&notes).unwrap().count();
        if left == 0 || std::time::Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_prepared_load_is_readable_behind_its_commit() {
    let site = Site::new();
    let txn = prepare(&site, &["label: one"], "1,10,x\n2,20,y\n");
    assert!(site.rows().is_empty());
    assert_eq!(state(&site, "one"), "PRECOMMITTED");
    let again = site.load(&["label: one"], "1,10,x\n");
    assert_eq!(again["Status"], "Label Already Exists");
    assert_eq!(again["ExistingJobStatus"], "PRECOMMITTED");
    assert_eq!(again["TxnId"], txn);
    let id = format!("txn_id: {txn}");
    let commit = [id.as_str(), "txn_operation: commit"];
    let told = format!("transaction [{txn}] commit successfully.");
    assert_eq!(end(&site, &commit), done(&told));
    assert_eq!(site.rows(), ["1,10,x", "2,20,y"]);
    assert_eq!(state(&site, "one"), "VISIBLE");
    let visible = format!("transaction [{txn}] is already visible, not pre-committed.");
    assert_eq!(end(&site, &commit), refused(&visible));
    let by_label = ["label: one", "txn_operation: abort"];
    assert_eq!(end(&site, &by_label), refused(&visible));
    assert_eq!(site.load(&["label: one"], "9,9,z\n")["ExistingJobStatus"], "FINISHED");
    site.stop();
}

#[test]
fn an_aborted_load_leaves_nothing_but_its_label_free() {
    let site = Site::new();
    let txn = prepare(&site, &["label: one", "group_commit: async_mode"], "1,10,x\n");
    let told = format!("transaction [{txn}] abort successfully.");
    assert_eq!(end(&site, &["label: one", "txn_operation: abort"]), done(&told));
    assert!(site.rows().is_empty());
    let id = format!("txn_id: {txn}");
    let aborted = format!("transaction [{txn}] is already aborted");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]), refused(&aborted));
    let again = prepare(&site, &["label: one"], "2,20,y\n");
    let commit = ["label: one", "txn_operation: COMMIT"];
    assert_eq!(end(&site, &commit), done(&format!("transaction [{again}] commit successfully.")));
    assert_eq!(site.rows(), ["2,20,y"]);
    assert_eq!(notes_left(&site), 0, "the note of an ended load is gone");
    site.stop();
}

#[test]
fn a_commit_is_told_before_its_note_goes() {
    let site = Site::new();
    let label = |number: usize| format!("label: l{number}");
    let prepared = (0..40).map(|number| {
        let txn = prepare(&site, &[&*label(number)], &format!("{number},1,x\n"));
        (number, txn)
    });
    for (number, txn) in prepared.collect::<Vec<_>>() {
        let label = label(number);
        let commit = [&*label, "txn_operation: commit"];
        assert_eq!(end(&site, &commit).0, "Success");
        // Whether the note is there or not.
        let visible = format!("transaction [{txn}] is already visible, not pre-committed.");
        assert_eq!(end(&site, &commit), refused(&visible));
        let id = format!("txn_id: {txn}");
        assert_eq!(end(&site, &[&id, "txn_operation: abort"]), refused(&visible));
    }
    // A label without which a start would take a note for a load that waits goes behind the note.
    let db = site.engine.catalog().require_database("d").unwrap().id;
    block_on(clean_labels(&site.engine, db, None)).unwrap();
    let notes = std::fs::read_dir(site.dir.path().join("store/prepared")).unwrap().count();
    assert_eq!((notes, &state(&site, "l39")), (0, &json!("UNKNOWN")));
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    assert_eq!(site.rows().len(), 40);
    assert_eq!(state(&site, "l39"), "UNKNOWN");
    site.stop();
}

#[test]
fn the_commit_of_a_prepared_load_joins_a_group_where_its_header_asks_for_it() {
    let site = Site::new();
    let grouped = ["group_commit: async_mode", "group_commit_labels: true"];
    let load = |label: &'static str, body: &str| {
        let headers = [&grouped[..], &["two_phase_commit: true", label]].concat();
        let reply = site.load(&headers, body);
        assert_eq!((&reply["TwoPhaseCommit"], reply.get("GroupCommit")), (&json!("true"), None));
        let note = reply["GroupCommitNote"].as_str().unwrap();
        assert!(note.starts_with("its commit joins a group"), "{note}");
        reply["TxnId"].as_i64().unwrap()
    };
    let (first, second) = (load("label: one", "1,10,x\n"), load("label: two", "2,20,y\n"));
    let waits = load("label: three", "3,30,z\n");
    for txn in [first, second] {
        let id = format!("txn_id: {txn}");
        let told = format!("transaction [{txn}] commit successfully.");
        assert_eq!(end(&site, &[&id, "txn_operation: commit"]), done(&told));
    }
    assert_eq!(site.rows(), ["1,10,x", "2,20,y"], "they are readable at once");
    let plain = site.load(&["group_commit: async_mode"], "4,40,w\n");
    assert_eq!(plain["TxnId"], first, "the first commit has opened the group of all three");
    // Each is known by its own transaction and label, behind a restart, too.
    let dir = site.stop();
    let site = Site::in_dir(dir, HttpConfig::default());
    for (label, txn) in [("one", first), ("two", second)] {
        let visible =
            refused(&format!("transaction [{txn}] is already visible, not pre-committed."));
        let (id, label) = (format!("txn_id: {txn}"), format!("label: {label}"));
        for name in [&id, &label] {
            assert_eq!(end(&site, &[name, "txn_operation: commit"]), visible);
        }
        let again = site.load(&[&label], "9,9,z\n");
        assert_eq!(again["ExistingJobStatus"], "FINISHED");
        assert_eq!(again["TxnId"], txn);
    }
    let told = format!("transaction [{waits}] commit successfully.");
    let id = format!("txn_id: {waits}");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]), done(&told));
    assert_eq!(site.rows(), ["1,10,x", "2,20,y", "3,30,z", "4,40,w"]);
    assert_eq!(notes_left(&site), 0);
    site.stop();
}

#[test]
fn what_names_no_prepared_load_is_told_so() {
    let site = Site::new();
    let fails = |headers: &[&str], message: &str| {
        assert_eq!(end(&site, headers), refused(message));
    };
    fails(&["txn_operation: commit"], "No transaction id or label selected.");
    fails(&["txn_id: 1"], "No transaction operation('commit' or 'abort') selected.");
    fails(&["txn_id: 77", "txn_operation: abort"], "transaction [77] not found");
    fails(&["label: no", "txn_operation: abort"], "transaction with label [no] not found");
    let (_, message) = end(&site, &["txn_id: x", "txn_operation: abort"]);
    assert!(message.contains("no number"), "{message}");
    let (_, message) = end(&site, &["txn_id: 1", "txn_operation: look"]);
    assert!(message.contains("'look'"), "{message}");
    let nobody = site.client().request("PUT", "/api/d/_stream_load_2pc", &[], b"");
    assert_eq!(nobody.status, 401, "{}", nobody.body);
    // Rows that are rejected fail the first phase.
    let headers = ["two_phase_commit: true", "strict_mode: true", "label: bad"];
    assert_eq!(site.load(&headers, "x,1,a\n")["Status"], "Fail");
    fails(&["label: bad", "txn_operation: commit"], "transaction with label [bad] not found");
    site.stop();
}

#[test]
fn prepared_loads_outlive_a_restart() {
    let site = Site::with_small_records();
    let rows = (0..200_000).map(|row| format!("{row},1,large\n")).collect::<String>();
    let large = prepare(&site, &["label: large"], &rows);
    let small = prepare(&site, &["columns: a, t, b = t + 1"], "-1,5\n");
    let empty = prepare(&site, &["label: empty"], "");
    let gone = prepare(&site, &["label: gone"], "-2,5,x\n");
    site.load(&[], "-3,3,c\n");
    // What is too large for a record has files; other rows stand behind their notes.
    let notes = site.dir.path().join("store/prepared");
    assert!(notes.join(format!("{large}.note")).exists());
    assert!(notes.join(format!("{small}.load")).exists());
    let site = Site::small_records_in(site.stop());
    assert_eq!(site.rows(), ["-3,3,c"]);
    assert_eq!(state(&site, "large"), "PRECOMMITTED");
    let commit = |txn: i64| {
        let id = format!("txn_id: {txn}");
        end(&site, &[&id, "txn_operation: commit"])
    };
    for txn in [large, small, empty] {
        assert_eq!(commit(txn), done(&format!("transaction [{txn}] commit successfully.")));
    }
    assert_eq!(end(&site, &["label: gone", "txn_operation: abort"]).0, "Success");
    assert_eq!(site.rows().len(), 200_002);
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    assert_eq!(site.rows().len(), 200_002);
    let id = format!("txn_id: {large}");
    let visible = format!("transaction [{large}] is already visible, not pre-committed.");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]), refused(&visible));
    let id = format!("txn_id: {gone}");
    let unknown = format!("transaction [{gone}] not found");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]), refused(&unknown));
    site.stop();
}

#[test]
fn rows_that_a_smaller_log_does_not_take_are_committed_as_files() {
    let site = Site::new();
    let rows = (0..40_000).map(|row| format!("{row},1,some\n")).collect::<String>();
    let txn = prepare(&site, &["label: one"], &rows);
    let dropped = prepare(&site, &["label: two"], &rows);
    let notes = site.dir.path().join("store/prepared");
    assert!(notes.join(format!("{txn}.load")).exists());
    let site = Site::small_log_in(site.stop());
    let told = format!("transaction [{txn}] commit successfully.");
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]), done(&told));
    assert_eq!(site.rows().len(), 40_000);
    let table = site.engine.target("d", "t").unwrap().id();
    block_on(site.engine.ddl().truncate(&[table])).unwrap();
    let id = format!("txn_id: {dropped}");
    let (status, message) = end(&site, &[&id, "txn_operation: commit"]);
    assert!(status == "Fail" && message.contains("truncated"), "{message}");
    let site = Site::small_log_in(site.stop());
    assert!(site.rows().is_empty());
    assert_eq!(state(&site, "one"), "VISIBLE");
    site.stop();
}

#[test]
fn a_note_behind_a_commit_commits_nothing_again() {
    let site = Site::new();
    let txn = prepare(&site, &["label: one"], "1,10,x\n");
    let note = site.dir.path().join(format!("store/prepared/{txn}.load"));
    let bytes = std::fs::read(&note).unwrap();
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]).0, "Success");
    let dir = site.stop();
    // As if the server had died before it removed the note.
    std::fs::write(&note, &bytes).unwrap();
    let site = Site::in_dir(dir, HttpConfig::default());
    assert!(!note.exists());
    let visible = format!("transaction [{txn}] is already visible, not pre-committed.");
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]), refused(&visible));
    assert_eq!(site.rows(), ["1,10,x"]);
    site.stop();
}

/// Changes the last byte of a file; doing it again heals it.
pub fn spoil(file: &std::path::Path) {
    let mut bytes = std::fs::read(file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(file, &bytes).unwrap();
}

#[test]
fn rows_of_a_prepared_load_stay_in_memory_while_there_is_enough() {
    let site = Site::new();
    let file = |txn: i64| site.dir.path().join(format!("store/prepared/{txn}.load"));
    let commit = |label: &str| end(&site, &[label, "txn_operation: commit"]);
    let memory = site.engine.memory();
    let before = memory.used_bytes();
    let freed = prepare(&site, &["label: freed"], "1,10,x\n");
    spoil(&file(freed));
    assert!(memory.used_bytes() > before, "its rows are counted");
    // Writers need the memory.
    let taken = memory.acquire_over(memory.limit_bytes());
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while memory.used_bytes() > before + taken.bytes() {
        assert!(std::time::Instant::now() < deadline, "the rows stay in memory");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(taken);
    let (status, message) = commit("label: freed");
    assert!(status == "Fail" && message.contains("damaged; abort it"), "{message}");
    spoil(&file(freed));
    assert_eq!(commit("label: freed").0, "Success");
    // Nobody does: the file is not read.
    let kept = prepare(&site, &["label: kept"], "2,20,y\n");
    spoil(&file(kept));
    assert_eq!(commit("label: kept").0, "Success");
    assert_eq!(notes_left(&site), 0, "the notes of committed loads are gone");
    assert_eq!(site.rows(), ["1,10,x", "2,20,y"]);
    let aborted = prepare(&site, &["label: aborted"], "3,30,z\n");
    let held = memory.used_bytes();
    assert_eq!(end(&site, &[&format!("txn_id: {aborted}"), "txn_operation: abort"]).0, "Success");
    assert!(memory.used_bytes() < held, "the memory of an aborted load is free");
    site.stop();
}

#[test]
fn rows_that_changed_on_the_disk_are_not_committed() {
    let site = Site::new();
    let txn = prepare(&site, &["label: one"], "1,10,x\n2,20,y\n");
    // Behind a start they are read from the file.
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    let file = site.dir.path().join(format!("store/prepared/{txn}.load"));
    spoil(&file);
    let (status, message) = end(&site, &["label: one", "txn_operation: commit"]);
    assert!(status == "Fail" && message.contains("damaged; abort it"), "{message}");
    assert!(site.rows().is_empty());
    assert_eq!(state(&site, "one"), "PRECOMMITTED");
    spoil(&file);
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]).0, "Success");
    assert_eq!(notes_left(&site), 0, "the note of a committed load is gone");
    assert_eq!(site.rows(), ["1,10,x", "2,20,y"]);
    site.stop();
}

#[test]
fn a_prepared_load_expires() {
    let mut config = HttpConfig::default();
    config.loads.precommit_timeout = Duration::from_millis(300);
    let site = Site::with(config);
    let txn = prepare(&site, &["label: short"], "1,10,x\n");
    let kept = prepare(&site, &["label: long", "timeout: 600"], "2,10,x\n");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while state(&site, "short") != "UNKNOWN" {
        assert!(std::time::Instant::now() < deadline, "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = format!("txn_id: {txn}");
    let aborted = format!("transaction [{txn}] is already aborted");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]), refused(&aborted));
    let told = format!("transaction [{kept}] commit successfully.");
    assert_eq!(end(&site, &["label: long", "txn_operation: commit"]), done(&told));
    assert_eq!(site.rows(), ["2,10,x"]);
    site.stop();
}

#[test]
fn a_truncate_or_drop_aborts_what_was_prepared_before() {
    let site = Site::new();
    let before = prepare(&site, &["label: before"], "1,10,x\n");
    let stays = prepare(&site, &["label: stays"], "2,10,x\n");
    let table = site.engine.target("d", "t").unwrap().id();
    block_on(site.engine.ddl().truncate(&[table])).unwrap();
    let id = format!("txn_id: {before}");
    let (status, message) = end(&site, &[&id, "txn_operation: commit"]);
    assert!(status == "Fail" && message.contains("truncated"), "{message}");
    assert_eq!(state(&site, "before"), "UNKNOWN");
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    let id = format!("txn_id: {stays}");
    let unknown = format!("transaction [{stays}] not found");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]), refused(&unknown));
    assert!(site.rows().is_empty());
    site.stop();
}

#[test]
fn generated_ids_of_a_prepared_load_are_given_once() {
    use freshet_meta::{ColumnSpec, KeyModelSpec, KeySpec, TableSpec};
    use freshet_schema::{ColumnType, TableForm};
    let site = Site::new();
    let int = ColumnType::Int { unsigned: false };
    let id = ColumnSpec { nullable: false, auto_increment: true, ..ColumnSpec::new("a", int) };
    let text = ColumnSpec::new("c", ColumnType::VarChar { len: 4 });
    let columns = vec![id, ColumnSpec::new("b", int), text];
    let key = KeySpec { model: KeyModelSpec::Duplicate, columns: vec!["a".to_owned()] };
    let spec = TableSpec { key: Some(key), ..TableSpec::new("i", TableForm::Olap, columns) };
    block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
    let load = |site: &Site, headers: &[&str], body: &str| {
        let lines = [&[ROOT, "column_separator: ,", "columns: b"], headers].concat();
        let path = "/api/d/i/_stream_load";
        let reply = site.client().request("PUT", path, &lines, body.as_bytes()).json();
        assert_eq!(reply["Status"], "Success", "{reply}");
        reply["TxnId"].as_i64().unwrap()
    };
    let txn = load(&site, &["two_phase_commit: true"], &"1\n".repeat(5000));
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    load(&site, &[], &"2\n".repeat(10));
    let id = format!("txn_id: {txn}");
    assert_eq!(end(&site, &[&id, "txn_operation: commit"]).0, "Success");
    let ids = site.rows_of("i").into_iter().map(|row| row.split(',').next().unwrap().to_owned());
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 5010);
    site.stop();
}

#[test]
fn the_load_of_a_dropped_table_can_be_aborted() {
    let site = Site::new();
    let txn = prepare(&site, &["label: one"], "1,10,x\n");
    block_on(site.engine.ddl().drop_table("d", "t", false)).unwrap();
    let told = format!("transaction [{txn}] abort successfully.");
    assert_eq!(end(&site, &["label: one", "txn_operation: abort"]), done(&told));
    assert_eq!(state(&site, "one"), "UNKNOWN");
    site.stop();
}

#[test]
fn a_table_that_a_prepared_load_waits_for_stays_in_its_database() {
    let site = Site::new();
    block_on(site.engine.ddl().create_database("e", None, None, false)).unwrap();
    let txn = prepare(&site, &["label: one"], "1,10,x\n");
    let to = |database: &str| Renaming {
        database: "d".to_owned(),
        from: "t".to_owned(),
        to_database: database.to_owned(),
        to: "moved".to_owned(),
    };
    let refused = block_on(site.engine.rename_tables(&[to("e")])).unwrap_err();
    assert!(refused.message().contains("a prepared load waits for table 't'"), "{refused}");
    // Nor by a name between.
    let onward = Renaming { from: "moved".to_owned(), ..to("e") };
    let refused = block_on(site.engine.rename_tables(&[to("d"), onward])).unwrap_err();
    assert!(refused.message().contains("a prepared load waits for table 't'"), "{refused}");
    block_on(site.engine.rename_tables(&[to("d")])).unwrap();
    let told = format!("transaction [{txn}] commit successfully.");
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]), done(&told));
    let back = Renaming { from: "moved".to_owned(), to: "t".to_owned(), ..to("e") };
    block_on(site.engine.rename_tables(&[back])).unwrap();
    site.stop();
}

#[test]
fn a_load_whose_table_moves_while_its_body_comes_is_not_prepared() {
    let site = Site::new();
    block_on(site.engine.ddl().create_database("e", None, None, false)).unwrap();
    let mut slow = site.client();
    let lines = [ROOT, "column_separator: ,", "label: one", "two_phase_commit: true"];
    slow.head("PUT", "/api/d/t/_stream_load", &[&lines[..], &["Content-Length: 14"]].concat());
    slow.0.write_all(b"1,10,x\n").unwrap();
    while state(&site, "one") != "PREPARE" {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (from, to) = (("d".to_owned(), "t".to_owned()), ("e".to_owned(), "t".to_owned()));
    let moved = Renaming { database: from.0, from: from.1, to_database: to.0, to: to.1 };
    block_on(site.engine.rename_tables(&[moved])).unwrap();
    slow.0.write_all(b"2,20,y\n").unwrap();
    let reply = slow.answer().json();
    assert_eq!(reply["Status"], "Fail");
    let told = reply["Message"].as_str().unwrap();
    assert!(told.contains("table 't' has gone to another database"), "{told}");
    assert_eq!(state(&site, "one"), "UNKNOWN", "the label is free");
    block_on(site.engine.ddl().drop_database("d", false)).unwrap();
    site.stop();
}
