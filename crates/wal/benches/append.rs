//! Benchmarks of the log: records appended by two threads with few or many outstanding, and single
//! records. `cargo bench -p freshet-wal`; `WAL_BENCH_DIR` selects the disk.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use freshet_base::clock::{LogClock, SystemClock};
use freshet_base::fail::Failpoints;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::metrics::Metrics;
use freshet_base::{LogPosition, Lsn, Term};
use freshet_wal::{FileState, LogFile, NewTerm, Secret, Wal, WalOptions, WalWorld, make_file};
use futures::executor::block_on;
use tempfile::TempDir;

const THREADS: u64 = 2;
/// Outstanding records per thread, corresponding to as many connections with one each.
const UNDER_WAY: [u64; 2] = [15, 250];
const FILES: u64 = 8;
const STAMP: [u8; 32] = [1; 32];

/// A log in its own directory, and the thread that writes it.
struct Log {
    wal: Arc<Wal>,
    writer: Option<JoinHandle<()>>,
    _dir: TempDir,
}

impl Log {
    fn start() -> Self {
        let dir = match std::env::var_os("WAL_BENCH_DIR") {
            Some(parent) => TempDir::new_in(parent).unwrap(),
            None => TempDir::new().unwrap(),
        };
        let fs: FsRef = Arc::new(RealFs);
        let options = WalOptions { wal_bytes_max: 1 << 30, ..WalOptions::default() };
        let files = (0..FILES).map(|id| file(&fs, dir.path(), id, &options)).collect();
        let world = WalWorld {
            fs,
            clock: Arc::new(SystemClock::new()),
            metrics: Arc::new(Metrics::new()),
            failpoints: Failpoints::default(),
            on_fatal: Box::new(|message| panic!("{message}")),
        };
        let term = NewTerm {
            term: Term(1),
            secrets: vec![Secret { from: Term(1), key: [1, 2] }],
            after: LogPosition::default(),
            durable_recorded: Lsn::ZERO,
            clock: Arc::new(LogClock::new(Arc::new(SystemClock::new()), None)),
        };
        let wal = Wal::start(options, world, term, files).unwrap();
        let running = Arc::clone(&wal);
        let writer = std::thread::spawn(move || block_on(running.run()));
        Self { wal, writer: Some(writer), _dir: dir }
    }

    /// Appends records, waits for the last, and recycles files when the log is full.
    fn append(&self, payload: &[u8], records: u64) {
        let mut last = Lsn::ZERO;
        for _ in 0..records {
            let room = loop {
                match self.wal.try_reserve(payload.len() + STAMP.len()) {
                    Some(room) => break room,
                    None => self.recycle(last),
                }
            };
            let stamp = |_: Lsn, stamp: &mut Vec<u8>| {
                stamp.extend_from_slice(&STAMP);
                Ok::<(), ()>(())
            };
            last = self.wal.append(1, payload, room, stamp).unwrap().0;
        }
        self.recycle(last);
    }

    fn recycle(&self, up_to: Lsn) {
        block_on(self.wal.horizon().wait(up_to));
        if let Some(position) = self.wal.stats().full_to {
            self.wal.recycle(position);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.wal.stop();
        self.writer.take().unwrap().join().unwrap();
    }
}

fn file(fs: &FsRef, dir: &Path, id: u64, options: &WalOptions) -> FileState {
    let file = LogFile { id, path: dir.join(id.to_string()), bytes: options.file_bytes };
    make_file(&**fs, &file.path, options.file_bytes).unwrap();
    FileState { file, live: None, leaving: false }
}

/// The time of `rounds` rounds, in each of which every thread appends `under_way` records.
fn together(log: &Log, payload: &[u8], under_way: u64, rounds: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..rounds).for_each(|_| log.append(payload, under_way)));
        }
    });
    start.elapsed()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let log = Log::start();
    let mut group = criterion.benchmark_group("wal append");
    for payload_bytes in [32, 1 << 10, 16 << 10, 100_000, 256 << 10] {
        let payload = vec![7; payload_bytes];
        for under_way in UNDER_WAY {
            let name = format!("{} under way", THREADS * under_way);
            group.throughput(Throughput::Elements(THREADS * under_way));
            group.bench_function(BenchmarkId::new(name, payload_bytes), |bencher| {
                bencher.iter_custom(|rounds| together(&log, &payload, under_way, rounds));
            });
        }
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("alone", payload_bytes), |bencher| {
            bencher.iter(|| log.append(&payload, 1));
        });
    }
    group.finish();
    criterion.final_summary();
}
