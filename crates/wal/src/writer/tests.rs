use std::sync::atomic::AtomicU64;

use freshet_base::fail::Action;
use futures::FutureExt;

use super::*;
use crate::scan::Tail;
use crate::testing::{BLOCK, Running, Store, read_all};

#[test]
fn an_append_whose_stamp_errs_has_not_happened() {
    let mut store = Store::small();
    let mut running = store.first_start(1);
    let free = running.wal.stats().free_bytes;
    let room = running.wal.try_reserve(10).unwrap();
    let refused = running.wal.append(1, &b"row"[..], room, |_, stamp| {
        stamp.extend_from_slice(b"half a stamp");
        Err::<(), &str>("table is gone")
    });
    assert_eq!(refused, Err("table is gone"));
    assert_eq!(running.wal.stats().free_bytes, free, "its room came back");
    let kept = running.append(1, b"row");
    assert_eq!(kept.lsn, Lsn(1), "its LSN was not used");
    running.drive();
    assert_eq!(read_all(&store.scan().unwrap()), [kept]);
}

#[test]
fn everything_queued_is_one_write_and_the_next_batch_starts_a_block() {
    let mut store = Store::small();
    let mut running = store.first_start(1);
    let before = store.fs.writes();
    for size in [10, 20, 5000] {
        running.append(1, &vec![1; size]);
    }
    running.drive();
    assert_eq!((store.fs.writes() - before, running.durable()), (1, Lsn(3)));
    running.append(1, b"next");
    running.drive();
    let live = &running.wal.stats().live_files[0];
    assert_eq!((live.first, live.last.lsn, live.used_bytes), (Lsn(1), Lsn(4), 3 * BLOCK as u64));
    assert_eq!(store.metrics.wal_records.get(), 4);
    assert_eq!(store.metrics.wal_bytes.get(), 3 * BLOCK as u64);
    assert_eq!(store.metrics.wal_syncs.get(), 2);
}

#[test]
fn many_batches_go_over_files_in_order() {
    let mut store = Store::small();
    let mut running = store.first_start(6);
    let mut watch = running.wal.horizon().subscribe();
    let kept: Vec<_> = (0..12_u8).map(|at| running.append(1, &vec![at; 14_000])).collect();
    running.drive();
    assert_eq!(watch.changed(Lsn(0)).now_or_never(), Some(Lsn(12)));
    let live: Vec<_> =
        running.wal.stats().live_files.iter().map(|file| (file.first, file.last.lsn)).collect();
    assert_eq!(live, [(Lsn(1), Lsn(4)), (Lsn(5), Lsn(8)), (Lsn(9), Lsn(12))]);
    assert_eq!(read_all(&store.scan().unwrap()), kept);
}

fn small_reserves() -> WalOptions {
    WalOptions { kept_bytes: 1 << 16, ready_files_min: 1, ..WalOptions::default() }
}

#[test]
fn a_record_of_the_largest_size_is_taken_and_a_larger_one_is_not() {
    let mut store = Store::small();
    let mut running = store.first_start(2);
    let largest = 4 * BLOCK - 64 - 32;
    assert!(running.wal.takes_record_of(largest) && !running.wal.takes_record_of(largest + 1));
    assert!(running.wal.try_reserve(largest + 1).is_none());
    let kept = running.append(1, &vec![1; largest - 8]);
    running.drive();
    assert_eq!(read_all(&store.scan().unwrap()), [kept]);
}

#[test]
#[should_panic(expected = "has room for 4096 only")]
fn a_record_larger_than_its_room_is_a_bug() {
    let mut store = Store::small();
    let running = store.first_start(1);
    let room = running.wal.try_reserve(10).unwrap();
    let payload = vec![0; 5000];
    let _ = running.wal.append(1, &payload[..], room, |_, _| Ok::<(), ()>(()));
}

#[test]
fn a_failed_write_is_fatal_and_acknowledges_nobody() {
    for point in ["wal-before-write", "wal-after-write"] {
        let mut store = Store::small();
        let mut running = store.first_start(1);
        running.append(1, b"good");
        running.drive();
        store.failpoints.arm(point, 0, Action::Io(io::ErrorKind::StorageFull));
        let waiting = running.wal.horizon().wait(Lsn(2));
        running.append(1, b"bad");
        running.drive();
        let told = store.fatal.lock().clone().unwrap();
        assert!(told.contains("LSN 2 failed: /log/0 at byte 4096"), "{told}");
        assert!(waiting.now_or_never().is_none());
        store.failpoints.disarm(point);
        running.append(1, b"never");
        running.drive();
        assert_eq!(running.durable(), Lsn(1));
    }
}

#[test]
fn an_idle_log_records_once_that_its_last_record_is_durable() {
    let mut store = Store::small();
    let mut running = store.first_start(1);
    running.append(1, b"one");
    running.drive();
    running.append(1, b"two");
    running.drive();
    assert_eq!(store.clock.ring(), 1, "one timer for both batches");
    running.drive();
    assert_eq!(running.durable(), Lsn(2), "it was not idle when the timer was set");
    assert_eq!(store.clock.ring(), 1);
    running.drive();
    assert_eq!(running.durable(), Lsn(3), "the head of an idle record names 2 as durable");
    for _ in 0..3 {
        assert_eq!(store.clock.ring(), 0, "an idle record wants no other");
        running.drive();
    }
    assert_eq!(running.durable(), Lsn(3));
    let scan = store.scan().unwrap();
    assert_eq!((scan.durable_lsn, scan.end.lsn, scan.tail.clone()), (Lsn(2), Lsn(3), Tail::Clean));
    assert_eq!(read_all(&scan).len(), 2, "idle records are nobody's");
    // Since 2 is known to have been acknowledged, its loss is detected.
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK + 64] ^= 1);
    assert!(store.scan().is_err());
}

#[test]
fn an_idle_record_is_put_off_while_the_log_is_held() {
    let mut store = Store::small();
    let mut running = store.first_start(1);
    running.append(1, b"term");
    running.wal.hold();
    running.drive();
    assert_eq!(store.clock.ring(), 0, "no timer runs for what would find no room");
    running.wal.release();
    running.drive();
    store.clock.ring();
    running.drive();
    store.clock.ring();
    running.drive();
    assert_eq!(running.durable(), Lsn(2), "1 is named as durable after all");
}

#[test]
fn a_stopped_log_has_written_everything_and_that_it_is_durable() {
    let mut store = Store::small();
    let running = store.first_start(1);
    let kept = running.append(1, b"last words");
    running.stop();
    let scan = store.scan().unwrap();
    assert_eq!(read_all(&scan), [kept]);
    assert_eq!((scan.durable_lsn, scan.end.lsn), (Lsn(1), Lsn(2)));
}

#[test]
fn a_log_has_ended_when_its_last_record_is_written() {
    let mut store = Store::small();
    let mut running = store.first_start(1);
    running.append(1, b"last words");
    running.drive();
    running.wal.stop();
    assert!(
        running.wal.ended().now_or_never().is_none(),
        "one more record tells that the last is durable"
    );
    running.drive();
    assert!(running.wal.ended().now_or_never().is_some());
    assert_eq!(running.wal.stats().next_lsn, running.durable().next());
}

#[test]
fn files_are_asked_for_offered_and_recycled() {
    let mut store = Store::small();
    let mut running = store.first_start(2);
    assert!(!running.wal.needs_file());
    let fill = |running: &mut crate::testing::Running, records: usize| {
        for _ in 0..records {
            running.append(1, &[1; 14_000]);
            running.drive();
        }
    };
    fill(&mut running, 4);
    assert!(!running.wal.needs_file());
    fill(&mut running, 2);
    assert!(running.wal.needs_file());
    // The last file is in use: room is only given for files that exist.
    assert!(running.wal.try_reserve(14_000).is_none());
    assert!(running.wal.try_reserve_privileged(14_000).is_some());
    assert_eq!(running.recycle(&mut store, Lsn(3)).used_again, 0, "4 is in the first file, too");
    assert_eq!(running.recycle(&mut store, Lsn(6)).used_again, 1, "the file being written stays");
    assert!(running.wal.try_reserve(14_000).is_some() && !running.wal.needs_file());
    let file = store.make_file();
    running.wal.offer_file(file).unwrap();
    let stats = running.wal.stats();
    assert_eq!((stats.ready_files, stats.files_max, stats.live_files.len()), (2, 8, 1));
    assert_eq!(store.metrics.wal_files.get(), 3);
    let mut cut = store.make_file();
    store.fs.edit(&cut.path, |bytes| bytes.truncate(BLOCK));
    assert!(running.wal.offer_file(cut.clone()).is_err());
    cut.path = "/log/nowhere".into();
    assert!(running.wal.offer_file(cut).is_err());
}

#[test]
fn files_of_another_size_are_read_and_never_written_again() {
    let mut store = Store::small();
    let mut running = store.first_start(8);
    let mut kept = (0..20).map(|n| running.append(1, &[n; 3 * BLOCK])).collect::<Vec<_>>();
    running.drive();
    running.stop();
    let sizes = [8, 64, 32];
    for (turn, blocks) in sizes.into_iter().enumerate() {
        let bytes = blocks * BLOCK as u64;
        let kept_bytes = bytes / 8;
        let options = WalOptions {
            file_bytes: bytes,
            wal_bytes_max: 8 * bytes,
            kept_bytes,
            ..store.options.clone()
        };
        let (mut running, records) = store.recover_with(options);
        assert_eq!(records, kept, "turn {turn}");
        assert!(running.wal.needs_file(), "those that leave are not counted");
        running.wal.offer_file(store.make_file()).unwrap();
        kept.push(running.append(1, &[100; BLOCK / 2]));
        running.drive();
        assert_eq!(running.durable(), kept.last().unwrap().lsn);
        if turn == 2 {
            let live = running.wal.stats().live_files.len();
            let up_to = Lsn(kept.last().unwrap().lsn.get() - 1);
            let recycled = running.recycle(&mut store, up_to);
            assert_eq!((recycled.used_again, recycled.left.len()), (0, live - 1), "{recycled:?}");
            assert!(recycled.left.iter().all(|file| file.bytes != bytes));
            assert_eq!(running.wal.stats().live_files.len(), 1);
        }
        running.stop();
    }
}

/// Appends a record and returns its log time.
fn append_timed(running: &mut Running) -> i64 {
    let room = running.wal.try_reserve(10).unwrap();
    let told = running.wal.append_timed(1, &b"row"[..], room, |_, time, _| Ok::<i64, ()>(time));
    told.unwrap().1
}

/// The log times of all records, as a reader sees them.
fn times(store: &Store) -> Vec<i64> {
    let mut records = store.scan().unwrap().records();
    let mut times = Vec::new();
    while let Some(record) = records.next_record().unwrap() {
        times.push(record.time_micros);
    }
    times
}

/// Regardless of changes to the wall clock, and although each process has another monotonic clock.
#[test]
fn log_time_goes_on_by_the_time_that_is_served() {
    let mut store = Store::small();
    store.clock.set(50, 1_000);
    let mut running = store.first_start(2);
    let mut told = Vec::new();
    for (now, wall) in [(50, 1_000), (60, -9_000_000), (75, 9_000_000)] {
        store.clock.set(now, wall);
        told.push(append_timed(&mut running));
        // In the same batch.
        store.clock.set(now + 1, wall);
        told.push(append_timed(&mut running));
        running.drive();
    }
    assert_eq!(told, [1_000, 1_000, 1_010, 1_010, 1_025, 1_025]);
    for (began, wall) in [(7, 0), (100, 1 << 60), (0, -5)] {
        drop(running);
        store.clock.set(began, wall);
        (running, ..) = store.recover();
        store.clock.set(began + 3, wall / 2);
        told.push(append_timed(&mut running));
        running.drive();
    }
    assert_eq!(told[6..], [1_028, 1_031, 1_034]);
    assert_eq!(times(&store), told, "readers find what was told");
}

/// Threads append as fast as they can, to real files, with a writer thread.
#[test]
#[allow(clippy::disallowed_methods)]
fn threads_append_in_one_order() {
    let dir = tempfile::tempdir().unwrap();
    let fs: FsRef = Arc::new(freshet_base::io::RealFs);
    let options = WalOptions { file_bytes: 4 << 20, wal_bytes_max: 64 << 20, ..small_reserves() };
    let files: Vec<LogFile> = (0..4)
        .map(|id| LogFile { id, path: dir.path().join(id.to_string()), bytes: 4 << 20 })
        .inspect(|file| crate::make_file(&*fs, &file.path, options.file_bytes).unwrap())
        .collect();
    let world = WalWorld {
        fs: Arc::clone(&fs),
        clock: Arc::new(crate::testing::TestClock::default()),
        metrics: Arc::new(Metrics::new()),
        failpoints: Failpoints::default(),
        on_fatal: Box::new(|message| panic!("{message}")),
    };
    let secrets = vec![Secret { from: Term(1), key: [7, 8] }];
    let clock: ClockRef = Arc::clone(&world.clock);
    let term = NewTerm {
        term: Term(1),
        secrets: secrets.clone(),
        after: LogPosition::default(),
        durable_recorded: Lsn::ZERO,
        clock: Arc::new(LogClock::new(clock, None)),
    };
    let states = files.iter().cloned().map(|file| FileState { file, live: None, leaving: false });
    let states = states.collect();
    let wal = Wal::start(options.clone(), world, term, states).unwrap();
    let writer = {
        let wal = Arc::clone(&wal);
        std::thread::spawn(move || futures::executor::block_on(wal.run()))
    };
    let in_order = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (wal, in_order) = (&wal, &in_order);
            scope.spawn(move || {
                for _ in 0..500 {
                    let room = wal.try_reserve(100).unwrap();
                    let stamp = |lsn: Lsn, _: &mut Vec<u8>| {
                        let before = in_order.swap(lsn.get(), Ordering::Relaxed);
                        assert_eq!(before + 1, lsn.get(), "the closure runs in LSN order");
                        Ok::<(), ()>(())
                    };
                    let (lsn, ()) = wal.append(1, &[thread; 100][..], room, stamp).unwrap();
                    futures::executor::block_on(wal.horizon().wait(lsn));
                }
            });
        }
    });
    wal.stop();
    writer.join().unwrap();
    let scan = crate::scan(crate::ScanInput {
        fs,
        files: &files,
        secrets: &secrets,
        recycled: LogPosition::default(),
        durable_known: Lsn::ZERO,
        accepted_holes: &[],
    });
    let records = read_all(&scan.unwrap());
    assert_eq!(records.len(), 2000);
    let of_each = |thread: u8| records.iter().filter(|record| record.payload[0] == thread).count();
    assert_eq!([0, 1, 2, 3].map(of_each), [500; 4]);
}
