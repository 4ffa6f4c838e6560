//! How fast the log takes records: two threads that append without waiting, then one that
//! waits for each record. `cargo run --release -p freshet-wal --example wal_speed [directory]`
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freshet_base::clock::Clock;
use freshet_base::fail::Failpoints;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::metrics::Metrics;
use freshet_base::{Lsn, Run};
use freshet_wal::{FileState, LogFile, NewRun, Wal, WalOptions, WalWorld, make_file};
use futures::executor::block_on;
use futures::future::BoxFuture;

const THREADS: usize = 2;
const RUN_FOR: Duration = Duration::from_secs(2);
/// Records that a thread may have under way: what 250 connections each would.
const UNDER_WAY_MAX: u64 = 250;

struct MachineClock(Instant);

impl Clock for MachineClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_micros(&self) -> i64 {
        0
    }

    /// Nothing here goes idle for long enough to be measured.
    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/tmp/wal_speed".to_owned());
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir).unwrap();
    println!(
        "{:>9} {:>12} {:>10} {:>14} {:>12} {:>12}",
        "payload", "records/s", "MB/s", "records/batch", "batch us", "alone us"
    );
    for payload_bytes in [32, 1 << 10, 64 << 10] {
        measure(dir, payload_bytes);
    }
    std::fs::remove_dir_all(dir).unwrap();
}

fn measure(dir: &Path, payload_bytes: usize) {
    let fs: FsRef = Arc::new(RealFs);
    let options = WalOptions { wal_bytes_max: 1 << 30, ..WalOptions::default() };
    let metrics = Arc::new(Metrics::new());
    let world = WalWorld {
        fs: Arc::clone(&fs),
        clock: Arc::new(MachineClock(Instant::now())),
        metrics: Arc::clone(&metrics),
        failpoints: Failpoints::default(),
        on_fatal: Box::new(|message| panic!("{message}")),
    };
    let state = |id: u64| {
        let file = LogFile { id, path: dir.join(id.to_string()) };
        make_file(&*fs, &file.path, options.file_bytes).unwrap();
        FileState { file, live: None }
    };
    let files = (0..8).map(state).collect();
    let run = NewRun { run: Run(1), salt: 1, first_lsn: Lsn(1) };
    let wal = Wal::start(options.clone(), world, run, files).unwrap();
    let writer = std::thread::spawn({
        let wal = Arc::clone(&wal);
        move || block_on(wal.run())
    });

    let started = Instant::now();
    let payload = vec![7; payload_bytes];
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| append_for(&wal, &payload, RUN_FOR));
        }
    });
    let took = started.elapsed().as_secs_f64();
    let records = wal.horizon().get().get() as f64;
    let batches = metrics.wal_syncs.get() as f64;
    let batch_us = metrics.wal_sync_seconds.get_sample_sum() / batches * 1e6;
    let alone_us = alone(&wal, &payload);
    println!(
        "{payload_bytes:>9} {:>12.0} {:>10.1} {:>14.1} {batch_us:>12.0} {alone_us:>12.0}",
        records / took,
        records * payload_bytes as f64 / took / 1e6,
        records / batches,
    );
    wal.stop();
    writer.join().unwrap();
}

/// Appends with a bounded number of records under way, and recycles what is durable.
fn append_for(wal: &Wal, payload: &[u8], run_for: Duration) {
    let mut watch = wal.horizon().subscribe();
    let started = Instant::now();
    while started.elapsed() < run_for {
        let mut last = Lsn::ZERO;
        for _ in 0..UNDER_WAY_MAX {
            let Some(room) = wal.try_reserve(payload.len() + 32) else { break };
            let stamp = |_: Lsn, stamp: &mut Vec<u8>| {
                stamp.extend_from_slice(&[1; 32]);
                Ok::<(), ()>(())
            };
            last = wal.append(1, payload, room, stamp).unwrap().0;
        }
        while watch.get() < last {
            block_on(watch.changed(watch.get()));
        }
        wal.recycle(wal.horizon().get());
    }
}

/// The median time from the append of one record to its acknowledgement.
fn alone(wal: &Wal, payload: &[u8]) -> f64 {
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..1000 {
        let started = Instant::now();
        let room = wal.try_reserve(payload.len() + 32).unwrap();
        let (lsn, ()) = wal.append(1, payload, room, |_, _| Ok::<(), ()>(())).unwrap();
        block_on(wal.horizon().wait(lsn));
        took.push(started.elapsed());
        wal.recycle(wal.horizon().get());
    }
    took.sort();
    took[took.len() / 2].as_secs_f64() * 1e6
}
