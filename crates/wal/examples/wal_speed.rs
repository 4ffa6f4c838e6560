//! How fast the log takes records: two threads that append without waiting, producers that wait
//! for each record as connections do, and one record at a time.
//! `cargo run --release -p freshet-wal --example wal_speed [directory]`
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use freshet_base::clock::Clock;
use freshet_base::fail::Failpoints;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::metrics::Metrics;
use freshet_base::{Lsn, Run};
use freshet_wal::{FileState, LogFile, NewRun, Wal, WalOptions, WalWorld, make_file};
use futures::executor::{LocalPool, block_on};
use futures::future::BoxFuture;
use futures::task::LocalSpawnExt;

const THREADS: usize = 2;
const RUN_FOR: Duration = Duration::from_secs(2);
/// Records that a thread may have under way: what 250 connections each would.
const UNDER_WAY_MAX: usize = 250;
/// And no more bytes of them than loads may hold.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;
/// Producers that wait for their records, shared out among the threads.
const PRODUCERS: usize = 30;
const PAYLOAD_BYTES: [usize; 7] = [32, 1 << 10, 16 << 10, 64 << 10, 100_000, 1 << 20, 10 << 20];

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
        "{:>9} {:>8} {:>12} {:>10} {:>14} {:>12} {:>10} {:>10}",
        "payload", "how", "records/s", "MB/s", "records/write", "write us", "p50 us", "p99 us"
    );
    for payload_bytes in PAYLOAD_BYTES {
        for how in [How::Bulk, How::Waiting(PRODUCERS), How::Waiting(1)] {
            measure(dir, payload_bytes, how);
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[derive(Clone, Copy)]
enum How {
    /// Each thread keeps many records under way.
    Bulk,
    /// So many producers, each of which waits for its record.
    Waiting(usize),
}

/// A log with files of its own, and the thread of its writer.
struct Running {
    wal: Arc<Wal>,
    metrics: Arc<Metrics>,
    writer: std::thread::JoinHandle<()>,
}

fn start(dir: &Path) -> Running {
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
    let wal = Wal::start(options, world, run, files).unwrap();
    let writer = std::thread::spawn({
        let wal = Arc::clone(&wal);
        move || block_on(wal.run())
    });
    Running { wal, metrics, writer }
}

fn measure(dir: &Path, payload_bytes: usize, how: How) {
    let Running { wal, metrics, writer } = start(dir);
    let started = Instant::now();
    let payload = vec![7; payload_bytes];
    let threads = match how {
        How::Waiting(1) => 1,
        How::Bulk | How::Waiting(_) => THREADS,
    };
    let work = || match how {
        How::Bulk => append_for(&wal, &payload),
        How::Waiting(producers) => wait_for_each(&wal, &payload, producers / threads),
    };
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |percent: usize| match took.get(took.len() * percent / 100) {
        Some(time) => format!("{:.0}", time.as_secs_f64() * 1e6),
        None => "-".to_owned(),
    };
    let how = match how {
        How::Bulk => "bulk".to_owned(),
        How::Waiting(producers) => format!("{producers} wait"),
    };
    let records = wal.horizon().get().get() as f64;
    let writes = metrics.wal_syncs.get() as f64;
    println!(
        "{payload_bytes:>9} {how:>8} {:>12.0} {:>10.1} {:>14.1} {:>12.0} {:>10} {:>10}",
        records / seconds,
        records * payload_bytes as f64 / seconds / 1e6,
        records / writes,
        metrics.wal_sync_seconds.get_sample_sum() / writes * 1e6,
        at(50),
        at(99),
    );
    wal.stop();
    writer.join().unwrap();
}

/// Appends one record, as a load does: a small one is copied, a large one handed over.
fn append(wal: &Wal, payload: &[u8]) -> Option<Lsn> {
    let room = wal.try_reserve(payload.len() + 32)?;
    let stamp = |_: Lsn, stamp: &mut Vec<u8>| {
        stamp.extend_from_slice(&[1; 32]);
        Ok::<(), ()>(())
    };
    let appended = match payload.len() {
        0..=65_536 => wal.append(1, payload, room, stamp),
        _ => wal.append(1, Bytes::copy_from_slice(payload), room, stamp),
    };
    Some(appended.unwrap().0)
}

/// Appends with a bounded number of records under way, and recycles what is durable.
fn append_for(wal: &Wal, payload: &[u8]) -> Vec<Duration> {
    let mut watch = wal.horizon().subscribe();
    let started = Instant::now();
    let under_way = UNDER_WAY_MAX.min(UNDER_WAY_BYTES_MAX / payload.len());
    while started.elapsed() < RUN_FOR {
        let appended = (0..under_way).map_while(|_| append(wal, payload)).last();
        while appended.is_some_and(|last| watch.get() < last) {
            block_on(watch.changed(watch.get()));
        }
        wal.recycle(wal.horizon().get());
    }
    Vec::new()
}

/// Tasks on one thread that append a record, wait until it is durable, and append the next;
/// the times from append to acknowledgement.
fn wait_for_each(wal: &Arc<Wal>, payload: &[u8], producers: usize) -> Vec<Duration> {
    let mut pool = LocalPool::new();
    let started = Instant::now();
    let payload = Bytes::copy_from_slice(payload);
    let tasks: Vec<_> = (0..producers)
        .map(|_| {
            let (wal, payload) = (Arc::clone(wal), payload.clone());
            let produce = async move {
                let mut took = Vec::new();
                while started.elapsed() < RUN_FOR {
                    let from = Instant::now();
                    let lsn = append(&wal, &payload).expect("the log has room");
                    wal.horizon().wait(lsn).await;
                    took.push(from.elapsed());
                    wal.recycle(wal.horizon().get());
                }
                took
            };
            pool.spawner().spawn_local_with_handle(produce).unwrap()
        })
        .collect();
    pool.run_until(futures::future::join_all(tasks)).concat()
}
