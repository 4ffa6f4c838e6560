//! Tests of batches of small and large records: they are one write, and remains of a torn one are
//! not read.

use bytes::Bytes;
use freshet_base::Lsn;
use freshet_testkit::Fate;

use crate::damage::ScanError;
use crate::scan::Tail;
use crate::testing::{BLOCK, Kept, Running, Store, read_all};
use crate::{Payload, WalOptions};

/// Appends records of these sizes, each filled with its number; large ones are shared instead of
/// copied.
fn append_all(running: &Running, sizes: &[usize]) -> Vec<Kept> {
    let append = |(at, size): (usize, &usize)| running.append(1, &vec![at as u8 + 1; *size]);
    sizes.iter().enumerate().map(append).collect()
}

fn with_files_of(file_bytes: u64) -> Store {
    Store::with(WalOptions {
        file_bytes,
        wal_bytes_max: 8 * file_bytes,
        kept_bytes: 1 << 16,
        ready_files_min: 1,
        ..WalOptions::default()
    })
}

#[test]
fn records_of_all_sizes_share_one_write() {
    let mut store = with_files_of(16 << 20);
    let mut running = store.first_start(2);
    let before = store.fs.writes();
    let sizes = [10, 100_000, 0, 70_001, 65_536, 65_537, 3, 1_000_000];
    let kept = append_all(&running, &sizes);
    running.drive();
    assert_eq!((store.fs.writes() - before, running.durable()), (1, kept.last().unwrap().lsn));
    assert_eq!(store.metrics.wal_syncs.get(), 1);
    let next = append_all(&running, &[90_000, 7]);
    running.drive();
    let frames = |kept: &[Kept]| {
        kept.iter().map(|kept| (32 + 8 + kept.payload.len()).next_multiple_of(8)).sum::<usize>()
    };
    let blocks = |kept: &[Kept]| (64 + frames(kept)).next_multiple_of(BLOCK) as u64;
    let used_bytes = running.wal.stats().live_files[0].used_bytes;
    assert_eq!(used_bytes, blocks(&kept) + blocks(&next), "no block is lost inside a batch");
    assert_eq!(read_all(&store.scan().unwrap()), [kept, next].concat());
}

#[test]
fn shared_bytes_are_written_from_where_they_stand() {
    let mut store = with_files_of(16 << 20);
    let mut running = store.first_start(1);
    let payload = Bytes::from(vec![7; 100_000]);
    let room = running.wal.try_reserve(payload.len()).unwrap();
    let shared = payload.clone();
    running.wal.append(1, shared, room, |_, _| Ok::<(), ()>(())).unwrap();
    assert!(!payload.is_unique(), "the log did not copy it");
    running.drive();
    assert!(payload.is_unique(), "the log has let go of it");
    assert_eq!(read_all(&store.scan().unwrap())[0].payload, payload);
}

#[test]
fn a_payload_in_pieces_is_one_record() {
    // Shorter than a write, and longer than one; with small pieces, and with an empty one.
    for sizes in [vec![28, 70_000, 5], vec![28, 3 << 20, 0, 2 << 20, 40_000, 2 << 20, 7]] {
        let mut store = with_files_of(32 << 20);
        let mut running = store.first_start(2);
        let mut kept = vec![running.append(1, b"before")];
        let piece = |(at, size): (usize, &usize)| Bytes::from(vec![at as u8 + 1; *size]);
        let pieces = sizes.iter().enumerate().map(piece).collect::<Vec<_>>();
        let payload = pieces.concat();
        let room = running.wal.try_reserve(payload.len()).unwrap();
        let (shared, nothing) = (Payload::Pieces(pieces.clone()), |_, _: &mut Vec<u8>| Ok(()));
        let (lsn, ()) = running.wal.append(1, shared, room, nothing).unwrap_or_else(|()| panic!());
        assert!(!pieces[1].is_unique(), "the log did not copy it");
        let behind = running.append(1, b"behind");
        assert_eq!(behind.lsn, lsn.next());
        running.drive();
        assert!(pieces[1].is_unique(), "the log has let go of it");
        let of_pieces = Kept { lsn, kind: 1, stamp: Vec::new(), payload };
        kept.extend([of_pieces, behind]);
        assert_eq!(read_all(&store.scan().unwrap()), kept, "{sizes:?}");
    }
}

/// Whatever happens to the blocks of a torn batch, it is read completely or not at all, and no part
/// of it reappears later.
#[test]
fn a_torn_batch_is_whole_or_not_there() {
    let sizes = [10, 5000, 30, 4200, 4200, 20];
    let fates = [Fate::Old, Fate::New, Fate::Garbage];
    for case in 0..3_usize.pow(4) {
        let fates = [0, 1, 2, 3].map(|block| fates[case / 3_usize.pow(block) % 3]);
        let mut store = Store::small();
        let mut running = store.first_start(3);
        let mut kept = vec![running.append(1, b"acknowledged")];
        running.drive();
        let batch = append_all(&running, &sizes);
        store.fs.cut_after(0, fates.to_vec());
        running.drive();
        assert_eq!(running.durable(), Lsn(1), "nothing of a torn batch is acknowledged");
        store.fs.crash();
        if fates == [Fate::New; 4] {
            kept.extend(batch);
        }
        let (mut running, records, scan) = store.recover();
        assert_eq!(records, kept, "{fates:?}");
        let is_torn = kept.len() == 1 && fates[0] == Fate::New;
        assert_eq!(matches!(scan.tail, Tail::Torn { .. }), is_torn, "{fates:?}");
        // The same sizes, so that remains of the old records would fit.
        kept.extend(append_all(&running, &sizes[kept.len() - 1..]));
        running.drive();
        drop(running);
        assert_eq!(store.recover().1, kept, "{fates:?}");
    }
}

/// A start after a torn batch is interrupted in any of its writes: zeroing heads, rewriting the
/// last batch, both blocks of the term file.
#[test]
fn a_start_that_dies_is_done_again() {
    for fate in [Fate::New, Fate::Volatile] {
        // One write to the log and two to the term file.
        for write in 0..3 {
            let mut store = Store::small();
            let mut running = store.first_start(3);
            let mut kept = vec![running.append(1, b"acknowledged")];
            running.drive();
            let batch = append_all(&running, &[10, 5000]);
            let fates = [fate, if fate == Fate::New { Fate::Garbage } else { fate }];
            store.fs.cut_after(0, fates.to_vec());
            running.drive();
            store.fs.crash();
            if fate == Fate::Volatile {
                kept.extend(batch);
            }
            store.fs.cut_after(write, vec![fate]);
            let start = |store: &Store| {
                let scan = store.scan()?;
                let started = store.try_start_after(&scan);
                started.map_err(|source| ScanError::Io { file: store.files[0].clone(), source })
            };
            let deaths = std::iter::from_fn(|| {
                let died = start(&store).is_err();
                store.fs.crash();
                died.then_some(())
            });
            assert_eq!(deaths.count(), 1, "{fate:?}, write {write}");
            assert_eq!(store.recover().1, kept, "{fate:?}, write {write}");
        }
    }
}

#[test]
fn a_record_larger_than_a_write_is_whole_or_not_there() {
    let large = 7 << 20;
    for torn in [None, Some(0), Some(1)] {
        let mut store = with_files_of(32 << 20);
        let mut running = store.first_start(2);
        let small = running.append(1, b"before");
        running.drive();
        let kept = [running.append(1, &vec![8; large]), running.append(1, b"behind")];
        if let Some(write) = torn {
            store.fs.cut_after(write, vec![Fate::New, Fate::Old]);
        }
        let before = store.fs.writes();
        running.drive();
        drop(running);
        store.fs.crash();
        let scan = store.scan().unwrap();
        let records = read_all(&scan);
        match torn {
            None => {
                assert_eq!(store.fs.writes() - before, 4, "two, one, and the last batch again");
                assert_eq!(records, [&[small][..], &kept].concat());
            }
            Some(_) => assert_eq!((records, scan.end.lsn), (vec![small], Lsn(1))),
        }
    }
}
