//! Full and read-only disks, simulated with tmpfs mounts, which need root; without the permission
//! to mount, these tests print that they are skipped.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use freshet_torture::client::{Client, Failure};
use freshet_torture::server::Setup;

use crate::{END_PATIENCE, count, insert, started, world};

/// A file system, unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(&at)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        eprintln!("skipped: a disk cannot be mounted here, which needs root");
        None
    }

    fn remount(&self, mode: &str) {
        let mode = format!("remount,{mode}");
        let status = Command::new("mount").args(["-o", &mode]).arg(&self.0).status().unwrap();
        assert!(status.success());
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Fills the disk up to `left_kib` of free space.
    fn fill(&self, left_kib: u64) {
        self.fill_with(&self.filler(), left_kib);
    }

    fn fill_with(&self, filler: &Path, left_kib: u64) {
        let mut filler = File::create(filler).unwrap();
        let mut bytes = 0;
        while filler.write_all(&[1; 4096]).is_ok() {
            bytes += 4096;
        }
        filler.set_len(u64::saturating_sub(bytes, left_kib << 10)).unwrap();
    }

    fn empty(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Runs up to 200 INSERTs of many rows, until one is refused; returns the number of rows.
fn insert_until_refused(client: &mut Client) -> u64 {
    insert_until(client).0
}

/// As `insert_until_refused`, with the reason, if one was refused.
fn insert_until(client: &mut Client) -> (u64, Option<String>) {
    let row = format!("(7, 0, '{}')", "d".repeat(150));
    let sql = format!("INSERT INTO torture.events_0 VALUES {}", vec![row; 200].join(","));
    for done in 0..200 {
        match client.query(&sql) {
            Ok(_) => {}
            Err(Failure::Refused { errno: 1021 | 1041, message }) => {
                return (done * 200, Some(message));
            }
            Err(failure) => panic!("a full disk has its own error: {failure}"),
        }
    }
    (200 * 200, None)
}

/// Fills `disk` in several phases while a server runs on it: no data is lost, reads work
/// throughout, and loads work again once there is space.
fn survives_a_full(disk: &Disk, setup: &Setup) {
    let setup = setup.clone().with("load_patience", "300ms");
    let (mut server, mut client) = started(&setup);
    let mut rows = 0;
    for left_kib in [0, 300, 1500] {
        disk.fill(left_kib);
        rows += insert_until_refused(&mut client);
        assert_eq!(count(&mut client) as u64, rows, "{left_kib} KiB left");
        assert_eq!(server.ended(), None, "{}", server.said());
        disk.empty();
        let deadline = Instant::now() + END_PATIENCE;
        while insert(&mut client, 1).is_err() {
            assert!(Instant::now() < deadline, "loads go on when there is room");
            sleep(Duration::from_millis(50));
        }
        rows += 1;
    }
    // A start on a full disk, where the log wants more files.
    server.kill();
    disk.fill(0);
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(count(&mut client) as u64, rows, "a start on a full disk");
    rows += insert_until_refused(&mut client);
    disk.empty();
    server.kill();
    let mut server = setup.start().unwrap();
    assert_eq!(count(&mut Client::connect(server.mysql_port).unwrap()) as u64, rows);
    server.stop().unwrap();
    setup.check_files().unwrap();
}

#[test]
fn a_full_disk_of_data_and_metadata_loses_nothing() {
    let mut world = world();
    let Some(disk) = Disk::mount(world.setup.data_dir.join("../disk"), 32) else { return };
    let log = world.setup.data_dir.join("../log");
    world.setup = world.setup.clone().with("group_commit_wal_path", path(&log));
    world.setup.data_dir = disk.0.join("data");
    survives_a_full(&disk, &world.setup);
}

#[test]
fn a_full_disk_of_the_log_loses_nothing() {
    let mut world = world();
    let Some(disk) = Disk::mount(world.setup.data_dir.join("../disk"), 12) else { return };
    world.setup = world.setup.clone().with("group_commit_wal_path", path(&disk.0.join("log")));
    survives_a_full(&disk, &world.setup);
}

#[test]
fn a_full_disk_of_everything_loses_nothing() {
    let mut world = world();
    let Some(disk) = Disk::mount(world.setup.data_dir.join("../disk"), 32) else { return };
    world.setup.data_dir = disk.0.join("data");
    survives_a_full(&disk, &world.setup);
}

#[test]
fn a_full_disk_with_memory_full_of_rows_starts_again() {
    let mut world = world();
    let Some(disk) = Disk::mount(world.setup.data_dir.join("../disk"), 32) else { return };
    world.setup.data_dir = disk.0.join("data");
    let setup = world.setup.clone().with("load_patience", "300ms").with("flush_bytes", "64MiB");
    let setup = setup.with("write_memory", "2MiB");
    let (mut server, mut client) = started(&setup);
    // The log keeps its files, and no writes are pending.
    let mut rows = insert_until_refused(&mut client);
    client.query("FLUSH TABLES torture.events_0").unwrap();
    let mut fillers = Vec::new();
    loop {
        // Repeatedly, because the server releases reserved space when the disk is full, and a flush
        // that was under way frees memory.
        let filler = disk.0.join(format!("filler-{}", fillers.len()));
        disk.fill_with(&filler, 0);
        fillers.push(filler);
        let (more, refused) = insert_until(&mut client);
        rows += more;
        if more == 0 {
            // Memory, as a rule; where flushes freed some of it, their rows still fill the log.
            let refused = refused.expect("200 rows have no room");
            let full = ["memory for writes is full", "the log has no room"];
            assert!(full.iter().any(|of| refused.contains(of)), "{refused}");
            break;
        }
    }
    server.kill();
    disk.fill_with(&disk.0.join("filler-last"), 0);
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(count(&mut client) as u64, rows);
    for filler in &fillers {
        std::fs::remove_file(filler).unwrap();
    }
    let deadline = Instant::now() + END_PATIENCE;
    while insert(&mut client, 1).is_err() {
        assert!(Instant::now() < deadline, "loads go on when there is room");
        sleep(Duration::from_millis(50));
    }
    assert_eq!(count(&mut client) as u64, rows + 1);
    server.stop().unwrap();
    setup.check_files().unwrap();
}

#[test]
fn a_read_only_disk_is_named_and_changes_nothing() {
    let mut world = world();
    let Some(disk) = Disk::mount(world.setup.data_dir.join("../disk"), 32) else { return };
    world.setup.data_dir = disk.0.join("data");
    let (mut server, mut client) = started(&world.setup);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
    disk.remount("ro");
    let refused = world.setup.start().unwrap_err();
    assert!(refused.contains("Read-only file system"), "{refused}");
    assert!(refused.contains("data"), "the place is named: {refused}");
    disk.remount("rw");
    let mut server = world.setup.start().unwrap();
    assert_eq!(count(&mut Client::connect(server.mysql_port).unwrap()), 1);
    server.stop().unwrap();
}

fn path(path: &Path) -> String {
    std::path::absolute(path).unwrap().display().to_string()
}
