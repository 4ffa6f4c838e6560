//! Compares the log with a `Vec`: after any appends, power cuts, recycling and restarts, the
//! records read are a prefix of those appended and contain everything acknowledged.

use freshet_base::Lsn;
use freshet_base::io::{Fs, Mode};
use freshet_testkit::Fate;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::damage::ScanError;
use crate::scan::Scan;
use crate::testing::{BLOCK, Kept, Running, Store, read_all};

#[derive(Clone, Debug)]
enum Step {
    /// Appends a record of this size.
    Append(usize),
    /// Appends a record whose payload contains blocks of a log file, at positions where frames
    /// could be.
    AppendCopy { file: usize, block: usize, blocks: usize },
    /// Runs the writer until it has nothing to do.
    Drive,
    /// Lets time pass, so that an idle log records its last record as durable.
    Ring,
    /// Schedules a power cut during a later write; its blocks have these fates.
    Cut { writes: u64, fates: Vec<Fate> },
    /// Recycles records at this distance below the horizon.
    Recycle(u64),
    /// Restarts the machine.
    Restart,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![Just(Fate::Old), Just(Fate::New), Just(Fate::Volatile), Just(Fate::Garbage)]
}

fn step() -> impl Strategy<Value = Step> {
    let cut = (0..3u64, vec(fate(), 1..5));
    prop_oneof![
        6 => (0..200usize).prop_map(Step::Append),
        3 => (3900..15_000usize).prop_map(Step::Append),
        2 => (0..4usize, 0..16usize, 1..3usize)
            .prop_map(|(file, block, blocks)| Step::AppendCopy { file, block, blocks }),
        6 => Just(Step::Drive),
        1 => Just(Step::Ring),
        2 => cut.prop_map(|(writes, fates)| Step::Cut { writes, fates }),
        2 => (0..20u64).prop_map(Step::Recycle),
        2 => Just(Step::Restart),
    ]
}

/// A store, its running log, and the expected contents of the log.
struct Model {
    store: Store,
    running: Running,
    records: Vec<Kept>,
    /// The highest horizon that was observed.
    acknowledged: Lsn,
}

impl Model {
    fn new() -> Self {
        let mut store = Store::small();
        let running = store.first_start(2);
        Self { store, running, records: Vec::new(), acknowledged: Lsn::ZERO }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(bytes) => self.append(&vec![bytes as u8; bytes]),
            Step::AppendCopy { file, block, blocks } => {
                if !self.store.fs.has_crashed() {
                    let payload = self.copy_of_log(file, block, blocks);
                    self.append(&payload);
                }
            }
            Step::Drive => self.drive(),
            Step::Ring => {
                self.store.clock.ring();
                self.drive();
            }
            Step::Cut { writes, fates } => self.store.fs.cut_after(writes, fates),
            Step::Recycle(below) => self.recycle(below),
            Step::Restart => self.restart(),
        }
    }

    /// Appends if the log has room; the owner creates files when asked.
    fn append(&mut self, payload: &[u8]) {
        if self.store.fatal.lock().is_some() {
            return;
        }
        if self.running.wal.try_reserve(payload.len() + 8).is_some() {
            self.records.push(self.running.append(1, payload));
        }
    }

    fn copy_of_log(&self, file: usize, block: usize, blocks: usize) -> Vec<u8> {
        let file = &self.store.files[file % self.store.files.len()];
        let mut bytes = vec![0; blocks * BLOCK];
        let at = block.min(16 - blocks) * BLOCK;
        let open = self.store.fs.open(&file.path, Mode::Read).unwrap();
        open.read_exact_at(&mut bytes, at as u64).unwrap();
        // In the first block, head, header and stamp come before the payload.
        [vec![0; BLOCK - 64 - 32 - 8], bytes].concat()
    }

    fn drive(&mut self) {
        self.running.drive();
        self.acknowledged = self.acknowledged.max(self.running.durable());
        if self.running.wal.needs_file() && self.store.fatal.lock().is_none() {
            // A power cut may hit this write as well: then the file is not listed.
            if let Ok(file) = self.store.try_make_file() {
                self.running.wal.offer_file(file).unwrap();
            }
        }
    }

    fn recycle(&mut self, below: u64) {
        let up_to = Lsn(self.running.durable().get().saturating_sub(below));
        if self.running.position(up_to).lsn > self.store.recycled.lsn {
            self.running.recycle(&mut self.store, up_to);
        }
    }

    fn restart(&mut self) {
        *self.store.fatal.lock() = None;
        // Again if the power fails during recovery.
        self.running = loop {
            self.store.fs.crash();
            let scan = match self.store.scan() {
                Err(ScanError::Io { .. }) => continue,
                other => other.unwrap_or_else(|error| panic!("{error}")),
            };
            self.compare(&scan);
            if let Ok(running) = self.store.try_start_after(&scan) {
                break running;
            }
        };
    }

    fn compare(&mut self, scan: &Scan) {
        let (records, end) = (read_all(scan), scan.end.lsn);
        let recycled_to = self.store.recycled.lsn;
        assert!(end >= self.acknowledged, "what was acknowledged is there");
        let expected = self.records.iter().filter(|record| record.lsn > recycled_to);
        let expected: Vec<_> = expected.filter(|record| record.lsn <= end).collect();
        assert_eq!(records.iter().collect::<Vec<_>>(), expected);
        self.records.retain(|record| record.lsn <= end);
        self.acknowledged = end;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_comes_back_is_a_prefix_with_everything_acknowledged(steps in vec(step(), 1..120)) {
        let mut model = Model::new();
        for step in steps {
            model.step(step);
        }
        model.restart();
        model.restart();
    }
}
