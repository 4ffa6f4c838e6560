use freshet_base::LogPosition;
use freshet_testkit::SimFs;
use futures::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::recycle::Files;
use crate::testing::TestClock;
use crate::{BLOCK_BYTES, LogFile, file::OpenFile, make_file};

const FILE_BYTES: u64 = 16 * BLOCK_BYTES;
const RECORD_BYTES_MAX: u64 = 4 * BLOCK_BYTES;
const SOON: Deadline = Deadline(std::time::Duration::from_secs(1));

fn space(files: u64, kept_blocks: u64) -> Arc<LogSpace> {
    let space = Arc::new(LogSpace::new(FILE_BYTES, RECORD_BYTES_MAX, kept_blocks * BLOCK_BYTES));
    space.add_files(files);
    space
}

#[test]
fn room_is_whole_blocks_and_comes_back() {
    let space = space(1, 0);
    let free = space.free_bytes();
    assert_eq!(free, FILE_BYTES - RECORD_BYTES_MAX);
    let small = space.try_reserve(1, Priority::Load).unwrap();
    let block = space.try_reserve(BLOCK_BYTES as usize - 96, Priority::Load).unwrap();
    let two = space.try_reserve(BLOCK_BYTES as usize - 95, Priority::Load).unwrap();
    let charges = [&small, &block, &two].map(|room| room.charge_bytes() / BLOCK_BYTES);
    assert_eq!(charges, [1, 1, 2]);
    assert_eq!(space.free_bytes(), free - 4 * BLOCK_BYTES);
    drop((small, block, two));
    assert_eq!(space.free_bytes(), free);
}

#[test]
fn loads_leave_alone_what_is_kept() {
    let space = space(1, 2);
    let rooms: Vec<_> = std::iter::from_fn(|| space.try_reserve(0, Priority::Load)).collect();
    assert_eq!(rooms.len(), 10);
    let kept = std::iter::from_fn(|| space.try_reserve(0, Priority::Privileged));
    assert_eq!(kept.collect::<Vec<_>>().len(), 2);
}

#[test]
fn nobody_gets_room_before_the_term_does() {
    let space = space(1, 2);
    let clock = TestClock::default();
    space.hold(true);
    for priority in [Priority::Load, Priority::Publish, Priority::Privileged] {
        assert!(space.try_reserve(0, priority).is_none(), "{priority:?}");
    }
    let mut load = Box::pin(space.reserve(0, Priority::Load, &clock, SOON));
    assert!((&mut load).now_or_never().is_none());
    let term = std::iter::from_fn(|| space.try_reserve(0, Priority::Term)).collect::<Vec<_>>();
    assert_eq!(term.len(), 12, "what is kept back is for it as well");
    assert_eq!(space.kept_bytes_left(), 0);
    drop(term);
    assert_eq!(space.kept_bytes_left(), 2 * BLOCK_BYTES);
    space.hold(false);
    assert!(load.now_or_never().is_some(), "who has waited is served");
}

#[test]
fn waiters_are_served_in_order_as_room_comes() {
    let space = space(0, 0);
    let clock = TestClock::default();
    let too_large =
        space.reserve(RECORD_BYTES_MAX as usize, Priority::Load, &clock, SOON).now_or_never();
    assert_eq!(too_large.unwrap().unwrap_err(), NoRoom::Never);
    let mut large = Box::pin(space.reserve(3 * BLOCK_BYTES as usize, Priority::Load, &clock, SOON));
    let mut small = Box::pin(space.reserve(1, Priority::Load, &clock, SOON));
    assert!((&mut large).now_or_never().is_none());
    assert!((&mut small).now_or_never().is_none());
    assert_eq!(space.waiting(), 2);
    space.add_files(1);
    let large = large.now_or_never().unwrap().unwrap();
    let small = small.now_or_never().unwrap().unwrap();
    assert_eq!(large.charge_bytes() + small.charge_bytes(), 5 * BLOCK_BYTES);
    assert_eq!(space.waiting(), 0);
}

#[test]
fn a_deadline_ends_the_wait_and_holds_nobody_back() {
    let space = space(0, 0);
    let clock = TestClock::default();
    let mut late = Box::pin(space.reserve(1, Priority::Load, &clock, SOON));
    assert!((&mut late).now_or_never().is_none());
    clock.ring();
    assert_eq!(late.now_or_never().unwrap().unwrap_err(), NoRoom::TimedOut);
    space.add_files(1);
    assert!(space.try_reserve(1, Priority::Load).is_some());
}

#[test]
fn who_publishes_is_served_before_loads_and_overtakes_only_those() {
    let space = space(0, 4);
    let clock = TestClock::default();
    let mut load = Box::pin(space.reserve(1, Priority::Load, &clock, SOON));
    let large = 12 * BLOCK_BYTES as usize;
    assert_eq!(
        space.reserve(large, Priority::Publish, &clock, SOON).now_or_never().map(|r| r.is_err()),
        Some(true)
    );
    let publish = |bytes| space.reserve(bytes, Priority::Publish, &clock, SOON);
    let (mut first, mut second) =
        (Box::pin(publish(3 * BLOCK_BYTES as usize)), Box::pin(publish(1)));
    assert!((&mut load).now_or_never().is_none());
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    assert_eq!(space.waiting(), 3);
    assert!(space.try_reserve(1, Priority::Publish).is_none(), "two wait already");
    // Twelve blocks are guaranteed: ten of them for publishes, eight for loads.
    space.add_files(1);
    let first = first.now_or_never().unwrap().unwrap();
    let second = second.now_or_never().unwrap().unwrap();
    assert_eq!((first.charge_bytes() + second.charge_bytes()) / BLOCK_BYTES, 5);
    let load = load.now_or_never().unwrap().unwrap();
    assert_eq!((load.charge_bytes(), space.waiting()), (BLOCK_BYTES, 0));
    let publishes =
        std::iter::from_fn(|| space.try_reserve(0, Priority::Publish)).collect::<Vec<_>>();
    assert_eq!(publishes.len(), 4, "half of what is kept stays for ends and barriers");
    assert!(space.try_reserve(0, Priority::Privileged).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(usize),
    /// Writes up to this many of the reserved records in batches.
    Write(usize),
    Release,
    AddFile,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4 * BLOCK_BYTES as usize - 96).prop_map(Step::Reserve),
        3 => (0..200usize).prop_map(Step::Reserve),
        4 => (1..8usize).prop_map(Step::Write),
        1 => Just(Step::Release),
        1 => Just(Step::AddFile),
    ]
}

/// The space with the files it accounts for.
struct Disk {
    fs: SimFs,
    space: Arc<LogSpace>,
    files: Files,
    made: u64,
    written: u64,
}

impl Disk {
    /// With one ready file.
    fn new() -> Self {
        let (fs, files) = (SimFs::default(), Files::new(FILE_BYTES));
        let mut disk = Self { fs, space: space(0, 0), files, made: 0, written: 0 };
        disk.add_file();
        disk
    }

    fn add_file(&mut self) {
        let path = format!("/{}", self.made).into();
        let log_file = LogFile { id: self.made, path, bytes: FILE_BYTES };
        make_file(&self.fs, &log_file.path, FILE_BYTES).unwrap();
        self.files.add_ready(OpenFile::open(&self.fs, log_file).unwrap());
        self.space.add_files(1);
        self.made += 1;
    }

    fn write(&mut self, records: u64, charge_bytes: u64, bytes: u64) {
        let block_bytes = next_block(bytes);
        if self.files.place(block_bytes).switched {
            self.space.switch_file();
        }
        let first = self.written + 1;
        self.written += records;
        let last = LogPosition { lsn: self.written.into(), ..LogPosition::default() };
        self.files.wrote(first.into(), last, block_bytes);
        self.space.written(charge_bytes, block_bytes);
    }

    /// Packs records like the queue: into batches of the maximum record size, with heads.
    fn write_batches(&mut self, records: Vec<(usize, Room)>) {
        let empty = (0, 0, BATCH_HEAD_BYTES as u64);
        let mut batch = empty;
        for (bytes, room) in records {
            let bytes = frame_bytes(0, bytes) as u64;
            if batch.0 > 0 && batch.2 + bytes > RECORD_BYTES_MAX {
                self.write(batch.0, batch.1, batch.2);
                batch = empty;
            }
            batch = (batch.0 + 1, batch.1 + room.into_charge(), batch.2 + bytes);
        }
        if batch.0 > 0 {
            self.write(batch.0, batch.1, batch.2);
        }
    }
}

proptest! {
    /// Every reserved record fits: `place` panics when no file is ready.
    #[test]
    fn who_holds_room_never_finds_the_log_full(steps in proptest::collection::vec(step(), 1..200)) {
        let mut disk = Disk::new();
        let mut held = Vec::new();
        for step in steps {
            match step {
                Step::Reserve(bytes) => {
                    let room = disk.space.try_reserve(bytes, Priority::Load);
                    held.extend(room.map(|room| (bytes, room)));
                }
                Step::Write(records) => {
                    let rest = held.split_off(held.len().min(records));
                    disk.write_batches(std::mem::replace(&mut held, rest));
                }
                Step::Release => drop(held.pop()),
                Step::AddFile => disk.add_file(),
            }
        }
        disk.write_batches(held);
    }
}
