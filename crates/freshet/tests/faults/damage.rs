//! Damaged and missing logs, and crashes during recovery.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use freshet_torture::client::Client;

use crate::{END_PATIENCE, World, count, files, flip, insert, started, world};

/// A stopped store with five records of one row.
fn stopped() -> World {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    for id in 1..=5 {
        insert(&mut client, id).unwrap();
    }
    server.stop().unwrap();
    world
}

fn log_file(world: &World) -> PathBuf {
    files(&world.setup.data_dir.join("wal"), "").into_iter().next().expect("a log file")
}

/// The offset of the frame of the second load, and the length of its stamp.
fn second_load(path: &Path) -> (u64, u64) {
    const LOAD: u8 = 1;
    let bytes = std::fs::read(path).unwrap();
    let is_it = |at: &usize| bytes[*at..].starts_with(b"FWL\x02") && bytes[at + 4] == LOAD;
    let mut frames = (0..bytes.len() - 24).step_by(8).filter(is_it);
    let at = frames.nth(1).expect("five records with rows are in the log");
    let stamp = bytes[at + 8..at + 12].try_into().unwrap();
    (at as u64, u64::from(u32::from_le_bytes(stamp)))
}

#[test]
fn a_byte_flipped_in_any_part_of_a_record_is_named_and_the_start_refused() {
    let world = stopped();
    let log = log_file(&world);
    let name = log.file_name().unwrap().to_string_lossy().into_owned();
    let (begin, stamp_bytes) = second_load(&log);
    let places = [
        ("magic", 0),
        ("kind", 4),
        ("length of the stamp", 8),
        ("length of the payload", 12),
        ("LSN", 16),
        ("checksum of the payload", 24),
        ("checksum of the header", 28),
        ("stamp", 32 + stamp_bytes / 2),
        ("payload", 32 + stamp_bytes + 30),
    ];
    for (place, offset) in places {
        flip(&log, begin + offset);
        let refused = world.setup.start().unwrap_err();
        assert!(refused.contains(&name) && refused.contains("repair"), "{place}: {refused}");
        let (status, said) = world.setup.run(&["check"]).unwrap();
        assert!(status.code() == Some(1) && said.contains(&name), "{place}: {status}: {said}");
        let (status, said) = world.setup.run(&["repair"]).unwrap();
        assert!(status.code() == Some(1) && said.contains("gives up 1 records"), "{place}: {said}");
        flip(&log, begin + offset);
    }
    world.setup.check_files().unwrap();

    flip(&log, begin + 32 + stamp_bytes);
    let (status, said) = world.setup.run(&["repair", "--accept"]).unwrap();
    assert!(status.success() && said.contains("events_0"), "{status}: {said}");
    let mut server = world.setup.start().unwrap();
    assert_eq!(count(&mut Client::connect(server.mysql_port).unwrap()), 4, "one row was given up");
    server.stop().unwrap();
}

#[test]
fn a_missing_log_directory_is_named() {
    let world = stopped();
    let (wal, aside) = (world.setup.data_dir.join("wal"), world.setup.data_dir.join("aside"));
    std::fs::rename(&wal, &aside).unwrap();
    let refused = world.setup.start().unwrap_err();
    let name = wal.display().to_string();
    assert!(refused.contains(&name) && refused.contains("repair"), "{refused}");
    let (status, said) = world.setup.run(&["check"]).unwrap();
    assert!(status.code() == Some(1) && said.contains(&name), "{status}: {said}");
    assert!(!wal.exists(), "nothing is made in its place");
    std::fs::rename(&aside, &wal).unwrap();
    let server = world.setup.start().unwrap();
    assert_eq!(count(&mut Client::connect(server.mysql_port).unwrap()), 5);
}

#[test]
fn a_recovery_may_end_at_every_step_and_be_repeated() {
    let steps = ["scanned", "term-begun", "side-file-replayed", "log-replayed", "log-started"];
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    for id in 1..=5 {
        insert(&mut client, id).unwrap();
    }
    server.kill();
    for (done, step) in steps.into_iter().enumerate() {
        let point = format!("recovery-{step}=abort");
        for _ in 0..2 {
            let setup = world.setup.clone().with("failpoints", &point);
            let mut dying = setup.spawn().unwrap();
            let status = dying.wait_end(END_PATIENCE).expect("it ends at the failpoint");
            assert!(!status.success() && dying.said().contains(step), "{}", dying.said());
        }
        let mut server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let expected = 5 + done as u64;
        assert_eq!(count(&mut client) as u64, expected, "after {step}");
        insert(&mut client, 100 + expected).unwrap();
        server.kill();
    }
    world.setup.check_files().unwrap();
}

#[test]
fn an_empty_log_file_is_named() {
    let world = stopped();
    let log = log_file(&world);
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, b"").unwrap();
    let refused = world.setup.start().unwrap_err();
    assert!(refused.contains(&log.display().to_string()), "{refused}");
    let file = std::fs::File::options().write(true).open(&log).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    world.setup.start().unwrap();
}
