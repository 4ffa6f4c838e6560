//! Directories and settings that do not belong to the store: they are refused with a message, or
//! accepted without harm, by the server and its tools.

use std::fs;
use std::path::{Path, PathBuf};

use freshet_torture::client::{Client, Failure};
use freshet_torture::http::{ask, load_head};
use freshet_torture::server::{Server, Setup};

use crate::{World, count, files, insert, insert_many, started, world};

/// Two stores that share a log directory.
fn sharing(world: &World) -> (Setup, Setup, PathBuf) {
    let top = world.setup.data_dir.parent().unwrap().to_owned();
    let log = top.join("log");
    let shared = world.setup.clone().with("group_commit_wal_path", log.display().to_string());
    let mut second = shared.clone();
    (second.data_dir, second.log) = (top.join("second"), top.join("second.log"));
    (shared, second, log)
}

fn rows_after_start(setup: &Setup) -> (Server, i64) {
    let server = setup.start().unwrap();
    let rows = count(&mut Client::connect(server.mysql_port).unwrap());
    (server, rows)
}

#[test]
fn two_stores_never_share_a_log_directory() {
    let world = world();
    let (first, second, log) = sharing(&world);
    let (mut server, mut client) = started(&first);
    for id in 0..100 {
        insert(&mut client, id).unwrap();
    }
    let refused = second.start().unwrap_err();
    assert!(refused.contains(&log.display().to_string()), "{refused}");
    assert!(refused.contains("group_commit_wal_path"), "says what to do: {refused}");
    server.kill();
    // Neither does it use the directory of a stopped store.
    second.start().unwrap_err();
    for command in ["check", "repair"] {
        let (status, said) = second.run(&[command]).unwrap();
        assert!(said.contains("no store"), "{command}: {status}: {said}");
    }
    let (mut server, rows) = rows_after_start(&first);
    assert_eq!(rows, 100);
    server.stop().unwrap();
    first.check_files().unwrap();
}

#[test]
fn a_log_directory_in_use_is_refused_even_by_a_copy_of_its_store() {
    let world = world();
    let (first, _, log) = sharing(&world);
    let (mut server, mut client) = started(&first);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
    // A copy has the mark of the store: what keeps it out is the lock of the other server, here of
    // this process.
    let lock = fs::File::options().write(true).open(log.join("LOCK")).unwrap();
    lock.try_lock().unwrap();
    let refused = first.start().unwrap_err();
    assert!(refused.contains("another server has the log directory"), "{refused}");
    assert!(refused.contains(&log.display().to_string()), "{refused}");
    assert!(refused.contains("group_commit_wal_path"), "says what to do: {refused}");
    drop(lock);
    assert_eq!(rows_after_start(&first).1, 1);
}

#[test]
fn a_log_directory_that_another_store_has_now_is_named() {
    let world = world();
    let (first, second, log) = sharing(&world);
    let (mut server, mut client) = started(&first);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
    let aside = log.with_extension("aside");
    fs::rename(&log, &aside).unwrap();
    let (mut server, mut client) = started(&second);
    insert(&mut client, 2).unwrap();
    server.stop().unwrap();

    let name = log.display().to_string();
    let refused = first.start().unwrap_err();
    assert!(refused.contains(&name) && refused.contains("another store"), "{refused}");
    for command in ["check", "repair"] {
        let (status, said) = first.run(&[command]).unwrap();
        assert!(!status.success() && said.contains(&name), "{command}: {status}: {said}");
    }
    // Discarding the log must not touch the other store's files.
    let (status, said) = first.run(&["repair", "--accept"]).unwrap();
    assert!(status.success(), "{status}: {said}");
    first.start().unwrap_err();
    let own = first.clone().with("group_commit_wal_path", aside_of(&log, "new"));
    rows_after_start(&own).0.stop().unwrap();
    let (mut server, rows) = rows_after_start(&second);
    assert_eq!(rows, 1);
    server.stop().unwrap();
}

fn aside_of(path: &Path, ending: &str) -> String {
    path.with_extension(ending).display().to_string()
}

#[test]
fn files_of_the_log_may_get_another_size() {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    let mut rows = 0;
    let sizes = [("2MiB", "16MiB"), ("1MiB", "4MiB"), ("4MiB", "16MiB"), ("1MiB", "8MiB")];
    for (turn, (file, all)) in sizes.into_iter().enumerate() {
        let ids = turn as u64 * 10_000..turn as u64 * 10_000 + 4000;
        rows += ids.clone().count() as i64;
        insert_many(&mut client, ids);
        if turn % 2 == 0 {
            server.kill()
        } else {
            server.stop().unwrap()
        }
        let changed = world.setup.clone().with("wal_file_bytes", file).with("wal_bytes_max", all);
        // The tools are run with the previous settings and with the new ones.
        for setup in [&world.setup, &changed] {
            setup.check_files().unwrap();
            let (status, said) = setup.run(&["repair"]).unwrap();
            assert!(status.success() && said.contains("nothing stands"), "{status}: {said}");
        }
        server = changed.start().unwrap();
        client = Client::connect(server.mysql_port).unwrap();
        assert_eq!(count(&mut client), rows);
    }
    // Files of other sizes are deleted once their records are flushed.
    insert_many(&mut client, 100_000..140_000);
    rows += 40_000;
    server.kill();
    let lengths = files(&world.setup.data_dir.join("wal"), ".log");
    let lengths = lengths.iter().map(|file| fs::metadata(file).unwrap().len());
    assert!(lengths.clone().all(|bytes| bytes == 1 << 20), "{:?}", lengths.collect::<Vec<_>>());
    assert_eq!(rows_after_start(&world.setup).1, rows);
}

#[test]
fn check_and_repair_find_the_log_whatever_their_settings() {
    let world = world();
    let (first, _, _) = sharing(&world);
    let (mut server, mut client) = started(&first);
    insert_many(&mut client, 0..500);
    server.kill();
    // As run by a user who passes only the data directory.
    let nothing = world.setup.with("wal_file_bytes", "64MiB").with("wal_bytes_max", "4GiB");
    for command in ["check", "repair"] {
        let (status, said) = nothing.run(&[command]).unwrap();
        assert!(status.success(), "{command}: {status}: {said}");
    }
    assert!(!nothing.data_dir.join("wal").exists(), "tools make no directories");
    let (mut server, rows) = rows_after_start(&first);
    assert_eq!(rows, 500);
    server.stop().unwrap();
    // New log files go to the new directory; existing ones are still read from the old one.
    let (mut server, rows) = rows_after_start(&nothing);
    assert_eq!(rows, 500);
    server.stop().unwrap();
    assert!(nothing.data_dir.join("wal").exists());
}

#[test]
fn tools_make_no_store_where_there_is_none() {
    let world = world();
    fs::create_dir(&world.setup.data_dir).unwrap();
    for command in [&["check"][..], &["repair"], &["repair", "--accept"]] {
        let (status, said) = world.setup.run(command).unwrap();
        assert!(!status.success() && said.contains("no store"), "{status}: {said}");
    }
    assert_eq!(fs::read_dir(&world.setup.data_dir).unwrap().count(), 0);
}

#[test]
fn a_store_that_lost_its_metadata_is_not_begun_anew() {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
    let meta = world.setup.data_dir.join("meta.redb");
    let aside = world.setup.data_dir.join("aside");
    fs::rename(&meta, &aside).unwrap();
    let refused = world.setup.start().unwrap_err();
    assert!(refused.contains("meta.redb"), "{refused}");
    assert!(!meta.exists());
    fs::rename(&aside, &meta).unwrap();
    assert_eq!(rows_after_start(&world.setup).1, 1);
}

#[test]
fn a_log_directory_whose_disk_is_not_mounted_is_named() {
    let world = world();
    let top = world.setup.data_dir.parent().unwrap().to_owned();
    let (one, other) = (top.join("one"), top.join("other"));
    let both = format!("{};{}", one.display(), other.display());
    let setup = world.setup.clone().with("group_commit_wal_path", both);
    let (mut server, mut client) = started(&setup);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
    // The directory without files is recognised only by its marker.
    let empty = if files(&one, ".log").is_empty() { &one } else { &other };
    assert!(files(empty, ".log").is_empty());
    fs::remove_dir_all(empty).unwrap();
    for made in [false, true] {
        if made {
            fs::create_dir(empty).unwrap();
        }
        let refused = setup.start().unwrap_err();
        assert!(refused.contains(&empty.display().to_string()), "{refused}");
        assert!(refused.contains("mounted"), "{refused}");
    }
    let (status, said) = setup.run(&["repair", "--accept"]).unwrap();
    assert!(status.success(), "{status}: {said}");
    assert_eq!(rows_after_start(&setup).1, 1);
}

#[test]
fn a_variable_of_the_environment_that_is_no_setting_is_told_and_passed_over() {
    let mut world = world();
    world.setup.environment = vec![
        ("FRESHET_BIN".to_owned(), "/usr/bin/freshet".to_owned()),
        ("FRESHET_WAL_FILE_BYTE".to_owned(), "1MiB".to_owned()),
    ];
    let mut server = world.setup.start().unwrap();
    let said = server.said();
    assert!(said.contains("FRESHET_BIN"), "{said}");
    assert!(said.contains("did you mean 'wal_file_bytes'"), "{said}");
    server.stop().unwrap();
    // A setting with an invalid value is still an error.
    world.setup.environment = vec![("FRESHET_LABELS_MAX".to_owned(), "none".to_owned())];
    let refused = world.setup.start().unwrap_err();
    assert!(refused.contains("FRESHET_LABELS_MAX"), "{refused}");
}

#[test]
fn both_kinds_of_labels_keep_theirs_at_the_limit() {
    let world = world();
    let setup = world.setup.clone().with("labels_max", "6");
    let (mut server, mut client) = started(&setup);
    for n in 0..5 {
        let sql = format!("INSERT INTO torture.events_0 WITH LABEL i{n} VALUES ({n}, 0, 'i')");
        client.query(&sql).unwrap();
    }
    let load = |port: u16, label: &str| {
        let body = "100,0,s\n";
        let head = load_head("events_0", &[("label", label)], body.len());
        ask(port, (head + body).as_bytes()).unwrap().body
    };
    assert!(load(server.http_port, "s").contains("Success"));
    let refused = load(server.http_port, "t");
    assert!(refused.contains("labels_max") && refused.contains("free in 11h 59m"), "{refused}");
    let refused = client.query("INSERT INTO torture.events_0 WITH LABEL u VALUES (9, 0, 'u')");
    assert!(matches!(refused, Err(Failure::Refused { errno: 1041, .. })), "{refused:?}");
    for restarted in [false, true] {
        for label in ["s", "i0", "i4"] {
            let again = load(server.http_port, label);
            assert!(again.contains("Label Already Exists"), "{label} {restarted}: {again}");
        }
        server.kill();
        server = setup.start().unwrap();
    }
    // Loads without a label are unaffected.
    let mut client = Client::connect(server.mysql_port).unwrap();
    insert(&mut client, 7).unwrap();
    assert_eq!(count(&mut client), 7);
    server.stop().unwrap();
}
