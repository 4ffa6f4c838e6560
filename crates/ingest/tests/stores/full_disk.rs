//! A disk that is nearly full.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_base::ErrorCode;
use freshet_base::io::{Entry, FileRef, Fs, Mode, RealFs};
use freshet_ingest::{Destination, Engine, PreparedEnd, World, spool};
use freshet_schema::GroupCommitMode::Off;
use freshet_storage::delta::Freshness;
use futures::executor::block_on;
use parking_lot::{Condvar, Mutex};

use crate::common::{PATIENCE, Store, create_table, encoded, rows_of};

/// What is left on the disk where rows may be written.
const PLENTY_BYTES: u64 = 1 << 40;

/// Whether the disk is full.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Plenty,
    /// Until a note of a prepared load is gone, which goes once somebody has asked for room.
    BehindANote {
        asked: bool,
    },
    None,
}

/// Real files on a disk with as much room as a test says.
struct TightFs {
    room: Mutex<Room>,
    changed: Condvar,
}

fn is_note(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "load")
}

impl Fs for TightFs {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef> {
        RealFs.open(path, mode)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        RealFs.list(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut room = self.room.lock();
        if is_note(path) && matches!(*room, Room::BehindANote { .. }) {
            let is_unasked = |room: &mut Room| *room == Room::BehindANote { asked: false };
            self.changed.wait_while(&mut room, is_unasked);
            *room = Room::Plenty;
        }
        RealFs.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFs.remove_dir_all(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> bool {
        RealFs.exists(path)
    }
    fn available_bytes(&self, _path: &Path) -> io::Result<u64> {
        let mut room = self.room.lock();
        match *room {
            Room::Plenty => return Ok(PLENTY_BYTES),
            Room::None => {}
            Room::BehindANote { .. } => *room = Room::BehindANote { asked: true },
        }
        self.changed.notify_all();
        Ok(0)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        RealFs.lock(path)
    }
}

#[test]
fn rows_wait_for_notes_that_are_just_going() {
    let store = Store::new();
    let fs = Arc::new(TightFs { room: Mutex::new(Room::Plenty), changed: Condvar::new() });
    let world = World { fs: Arc::clone(&fs) as _, ..store.world() };
    let engine = block_on(Engine::open(store.config(), world)).unwrap();
    let table = create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    let load = engine.load(&target, Destination::Group(Off), PATIENCE);
    let keep = (None, Duration::from_secs(60));
    let (txn, _) = block_on(engine.prepare(load, &mut encoded(&[(1, 10)]), keep)).unwrap();
    let file = block_on(spool::create(&engine, "rows")).unwrap();
    let write = || {
        let rows = Bytes::from_static(b"rows");
        block_on(spool::write(&engine, Arc::clone(&file), rows, 0))
    };
    *fs.room.lock() = Room::BehindANote { asked: false };
    block_on(engine.end_prepared(txn, PreparedEnd::Commit)).unwrap();
    write().unwrap();
    assert!(*fs.room.lock() == Room::Plenty, "the note is gone");
    *fs.room.lock() = Room::None;
    assert_eq!(write().unwrap_err().code(), ErrorCode::DiskFull);
    *fs.room.lock() = Room::Plenty;
    assert_eq!(rows_of(&engine, table, Freshness::Committed), [(1, 10)]);
    store.stop(engine);
}
