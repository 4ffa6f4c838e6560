//! Other users cannot read a store: directories have mode 0700 and files 0600 at all times.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use freshet_torture::client::Client;

use crate::{count, insert_many, started, world};

/// All paths below `dir`, including itself.
fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => found.extend(all(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Paths below `dir` on which group or others have any permission.
fn open_to_others(dir: &Path) -> Vec<String> {
    let mode = |path: &PathBuf| fs::symlink_metadata(path).map(|metadata| metadata.mode() & 0o777);
    let shown = |path: PathBuf| {
        let mode = mode(&path).ok().filter(|mode| mode & 0o077 != 0)?;
        Some(format!("{} {mode:o}", path.display()))
    };
    all(dir).into_iter().filter_map(shown).collect()
}

#[test]
fn nobody_else_reads_a_store_at_any_moment() {
    let world = world();
    let top = world.setup.data_dir.parent().unwrap().to_owned();
    let (log, spill) = (top.join("log"), top.join("spill"));
    let mut setup = world.setup.clone();
    setup = setup.with("group_commit_wal_path", log.display().to_string());
    setup = setup.with("spill_dir", spill.display().to_string());
    // Regardless of the umask that the server is started with.
    setup.wrapper = ["sh", "-c", "umask 000; exec \"$0\" \"$@\""].map(str::to_owned).to_vec();
    let done = AtomicBool::new(false);
    let dirs = [setup.data_dir.clone(), log, spill];
    let seen = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                seen.extend(dirs.iter().flat_map(|dir| open_to_others(dir)));
            }
            seen
        });
        let (mut server, mut client) = started(&setup);
        insert_many(&mut client, 0..8000);
        client.query("FLUSH TABLES torture.events_0").unwrap();
        server.stop().unwrap();
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert!(seen.is_empty(), "{seen:#?}");
    let files = dirs.iter().flat_map(|dir| all(dir)).count();
    assert!(files > 10, "{files}");
}

#[test]
fn a_store_that_others_could_read_is_closed_to_them_at_the_start() {
    let world = world();
    let (mut server, mut client) = started(&world.setup);
    insert_many(&mut client, 0..2000);
    client.query("FLUSH TABLES torture.events_0").unwrap();
    server.stop().unwrap();
    for path in all(&world.setup.data_dir) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    let mut server = world.setup.start().unwrap();
    let left = open_to_others(&world.setup.data_dir);
    assert!(left.is_empty(), "{left:#?}");
    let said = server.said();
    let lines = said.lines().filter(|line| line.contains("other users")).collect::<Vec<_>>();
    assert!(lines.len() == 1 && lines[0].contains("data"), "one line says so: {said}");
    assert_eq!(count(&mut Client::connect(server.mysql_port).unwrap()), 2000);
    server.stop().unwrap();
    let mut server = world.setup.start().unwrap();
    assert!(!server.said().contains("other users"), "{}", server.said());
    server.stop().unwrap();
}
