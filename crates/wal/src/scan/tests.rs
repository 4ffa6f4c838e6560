//! The sequences that recovery must get right, one by one.

use freshet_base::Lsn;
use proptest::prelude::*;

use super::*;
use crate::checksum::Salted;
use crate::record::Header;
use crate::testing::{BLOCK, Fate, Kept, Running, Store, read_all};

/// The payload of a record that fills one block exactly, with its stamp.
const ONE_BLOCK: usize = BLOCK - 48 - 8;

/// Starts a log and appends each payload in a batch of its own.
fn written(store: &mut Store, payloads: &[&[u8]]) -> Vec<Kept> {
    let mut running = store.first_start(3);
    payloads.iter().map(|payload| append_alone(&mut running, payload)).collect()
}

fn append_alone(running: &mut Running, payload: &[u8]) -> Kept {
    let kept = running.append(1, payload);
    running.drive();
    assert_eq!(running.durable(), kept.lsn);
    kept
}

/// Appends payloads in one batch during whose write the power fails.
fn torn(store: &Store, running: &mut Running, payloads: &[&[u8]], fates: &[Fate]) -> Vec<Kept> {
    let before = running.durable();
    let kept = payloads.iter().map(|payload| running.append(1, payload)).collect();
    store.fs.cut_after(0, fates.to_vec());
    running.drive();
    assert_eq!(running.durable(), before, "nothing of a torn batch is acknowledged");
    store.fs.restart();
    kept
}

fn corruption(store: &Store) -> Corruption {
    match store.scan() {
        Err(ScanError::Corruption(corruption)) => corruption,
        Err(other) => panic!("{other}"),
        Ok(scan) => panic!("accepted, end {}", scan.end_lsn),
    }
}

fn hole(first: u64, last: u64) -> Hole {
    Hole { first: Lsn(first), last: Lsn(last) }
}

#[test]
fn records_come_back_in_order() {
    let mut store = Store::small();
    let mut running = store.first_start(5);
    let mut kept = Vec::new();
    for size in [0, 1, 100, 5000, 16_000, 3, 12_000, 8_000, 16_000, 7] {
        kept.push(running.append(2, &vec![size as u8; size]));
        if size % 2 == 0 {
            running.drive();
        }
    }
    running.drive();
    assert_eq!(running.durable(), Lsn(10));
    let (_, records, scan) = store.recover();
    assert_eq!(records, kept);
    assert_eq!((scan.end_lsn, scan.tail), (Lsn(10), Tail::Clean));
}

#[test]
fn an_empty_log_starts_again_and_again() {
    let mut store = Store::small();
    store.first_start(2);
    for _ in 0..3 {
        let (_, records, scan) = store.recover();
        assert_eq!((records, scan.end_lsn, scan.tail), (Vec::new(), Lsn(0), Tail::Clean));
    }
    let (mut running, ..) = store.recover();
    let kept = append_alone(&mut running, b"first");
    assert_eq!(store.recover().1, [kept]);
}

#[test]
fn a_torn_batch_ends_the_log_silently() {
    for fate in [Fate::Old, Fate::Garbage] {
        let mut store = Store::small();
        let mut running = store.first_start(3);
        let kept = append_alone(&mut running, b"acknowledged");
        torn(&store, &mut running, &[&[1; 100], &[2; 9000]], &[fate]);
        let (_, records, scan) = store.recover();
        assert_eq!((records, scan.end_lsn), (vec![kept], Lsn(1)));
    }
}

#[test]
fn what_a_torn_batch_brought_to_the_device_is_kept_as_far_as_it_is_whole() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = vec![append_alone(&mut running, b"acknowledged")];
    let fates = [Fate::New, Fate::New, Fate::Old, Fate::New];
    let torn = torn(&store, &mut running, &[&[1; ONE_BLOCK][..]; 4], &fates);
    kept.extend_from_slice(&torn[..2]);
    let (_, records, scan) = store.recover();
    assert_eq!(records, kept);
    assert_eq!(scan.durable_lsn, Lsn(1));
    let place = Place { file: store.files[0].clone(), offset: 3 * BLOCK as u64 };
    assert_eq!(scan.tail, Tail::Torn { place: Some(place), first: Lsn(4) });
}

#[test]
fn a_torn_record_and_its_old_successor_do_not_follow_the_next_run() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"acknowledged");
    // 2 is torn, old 3 reaches the device; the next run writes 2 again in the same length.
    torn(&store, &mut running, &[&[2; ONE_BLOCK], &[3; 50]], &[Fate::Garbage, Fate::New]);
    let (mut running, records, _) = store.recover();
    assert_eq!(records, vec![first.clone()]);
    let again = append_alone(&mut running, &[22; ONE_BLOCK]);
    let (mut running, records, scan) = store.recover();
    assert_eq!(records, [first.clone(), again.clone()]);
    assert_eq!(scan.tail, Tail::Clean, "old 3 is of a run that ended at 1");
    let third = append_alone(&mut running, &[33; 50]);
    assert_eq!(store.recover().1, [first, again, third]);
}

#[test]
fn a_run_that_wrote_nothing_does_not_reopen_the_run_before() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"acknowledged");
    torn(&store, &mut running, &[&[2; ONE_BLOCK], &[3; 50]], &[Fate::Garbage, Fate::New]);
    for _ in 0..3 {
        assert_eq!(store.recover().1, std::slice::from_ref(&first));
    }
}

#[test]
fn blocks_above_the_durable_lsn_are_written_again() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = vec![append_alone(&mut running, b"acknowledged")];
    // Readable after this power cut, gone after the next.
    kept.extend(torn(&store, &mut running, &[&[1; 9000], b"small"], &[Fate::Volatile]));
    let (running, records, scan) = store.recover();
    assert_eq!((records, scan.end_lsn), (kept.clone(), Lsn(3)));
    drop(running);
    store.fs.restart();
    assert_eq!(store.recover().1, kept, "what was replayed once stays");
}

#[test]
fn the_log_goes_on_in_the_file_where_it_ended() {
    let mut store = Store::small();
    let mut kept = written(&mut store, &[b"one", b"two"]);
    for _ in 0..5 {
        let (mut running, records, _) = store.recover();
        assert_eq!(records, kept);
        kept.push(append_alone(&mut running, b"more"));
    }
    let scan = store.scan().unwrap();
    let live = LiveRecords { first: Lsn(1), last: Lsn(7), used_bytes: 7 * BLOCK as u64 };
    assert_eq!(scan.files[0].live, Some(live));
    assert!(scan.files[1..].iter().all(|file| file.live.is_none()));
}

#[test]
fn a_hole_below_what_a_later_frame_names_is_corruption() {
    let mut store = Store::small();
    written(&mut store, &[b"one", b"two", b"three"]);
    // Frame 3 says that 2 is durable.
    let file = store.files[0].clone();
    store.fs.edit(&file.path, |bytes| bytes[BLOCK + 57] ^= 1);
    let found = corruption(&store);
    let place = Place { file, offset: BLOCK as u64 };
    assert_eq!((found.hole, found.place.as_ref()), (hole(2, 2), Some(&place)));
    let damaged = &found.damaged[0];
    assert_eq!((damaged.lsn, damaged.kind), (Lsn(2), 1));
    assert_eq!(damaged.stamp, 2u64.to_be_bytes());
    let told = ScanError::Corruption(found).to_string();
    assert!(told.contains("LSN 2 to 2") && told.contains("byte 4096 of /log/0"), "{told}");
}

#[test]
fn a_hole_below_what_metadata_knows_is_corruption() {
    let mut store = Store::small();
    written(&mut store, &[b"one", b"two"]);
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK] ^= 1);
    assert_eq!(store.scan().unwrap().end_lsn, Lsn(1), "nobody knows of 2");
    store.durable_known = Lsn(2);
    assert_eq!(corruption(&store).hole, hole(2, 2));
    store.durable_known = Lsn::ZERO;
    store.next_run(Lsn(2));
    let found = corruption(&store);
    assert_eq!(found.hole, hole(2, 2), "the next run began after 2");
    assert_eq!(found.place.unwrap().offset, 60 + 4, "where 1 ends");
}

#[test]
fn accepted_holes_are_passed() {
    let mut store = Store::small();
    let kept = written(&mut store, &[b"one", b"two", b"three", b"four"]);
    store.durable_known = Lsn(4);
    let path = store.files[0].path.clone();
    store.fs.edit(&path, |bytes| {
        bytes[BLOCK] ^= 1;
        bytes[3 * BLOCK] ^= 1;
    });
    assert_eq!(corruption(&store).hole, hole(2, 2));
    store.accepted.push(hole(2, 2));
    assert_eq!(corruption(&store).hole, hole(4, 4));
    store.accepted.push(hole(4, 4));
    let (mut running, records, scan) = store.recover();
    assert_eq!(records, [kept[0].clone(), kept[2].clone()]);
    assert_eq!(scan.end_lsn, Lsn(4));
    let fifth = append_alone(&mut running, b"five");
    assert_eq!(fifth.lsn, Lsn(5));
    assert_eq!(store.recover().1, [kept[0].clone(), kept[2].clone(), fifth]);
}

#[test]
fn a_missing_or_cut_file_is_named() {
    let mut store = Store::small();
    written(&mut store, &[b"one"]);
    let path = store.files[1].path.clone();
    store.fs.edit(&path, |bytes| bytes.truncate(BLOCK));
    let told = store.scan().err().unwrap().to_string();
    assert!(told.contains("/log/1") && told.contains("4096 bytes"), "{told}");
    freshet_base::io::Fs::remove_file(&store.fs, &path).unwrap();
    let told = store.scan().err().unwrap().to_string();
    assert!(told.contains("/log/1 is missing"), "{told}");
}

#[test]
fn what_was_recycled_never_comes_back() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = Vec::new();
    for turn in 0..40_u8 {
        kept.push(append_alone(&mut running, &vec![turn; 9000]));
        let up_to = Lsn(running.durable().get().saturating_sub(3));
        store.recycled_to = up_to;
        running.wal.recycle(up_to);
        kept.retain(|record| record.lsn > up_to);
        if turn % 7 == 0 {
            let (next, records, _) = store.recover();
            assert_eq!(records, kept);
            running = next;
        }
    }
    assert_eq!(store.files.len(), 3);
}

#[test]
fn what_follows_a_recycled_record_in_its_batch_is_found() {
    let mut store = Store::small();
    let mut running = store.first_start(2);
    running.append(1, b"recycled");
    let second = running.append(1, b"not recycled");
    running.drive();
    store.recycled_to = Lsn(1);
    assert_eq!(read_all(&store.scan().unwrap()), std::slice::from_ref(&second));
    // Nobody needs what was recycled, so that it is damaged harms nobody.
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[57] ^= 1);
    assert_eq!(read_all(&store.scan().unwrap()), [second]);
}

#[test]
fn a_new_record_that_cuts_a_recycled_one_short_is_found() {
    let mut store = Store::small();
    let mut running = store.first_start(2);
    // Long records, recycled; short ones are written over the start of the first file.
    (0..6).for_each(|_| drop(append_alone(&mut running, &[1; 14_000])));
    let path = store.files[0].path.clone();
    let mut old = Vec::new();
    store.fs.edit(&path, |bytes| old.extend_from_slice(&bytes[..BLOCK]));
    running.wal.recycle(Lsn(6));
    store.recycled_to = Lsn(6);
    let kept: Vec<_> = (0..12).map(|at| append_alone(&mut running, &[at; 100])).collect();
    assert_eq!(read_all(&store.scan().unwrap()), kept);
    // A write that was lost shows the old record again; what follows is seen nevertheless.
    store.fs.edit(&path, |bytes| bytes[..BLOCK].copy_from_slice(&old));
    assert_eq!(corruption(&store).hole, hole(15, 15));
}

#[test]
fn user_bytes_that_look_like_frames_are_no_frames() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"one");
    // A frame that would be next, with the true salt, where a frame may stand.
    let salted = Salted::new(store.runs[0].salt);
    let header = Header {
        kind: 9,
        stamp_bytes: 0,
        payload_bytes: 6,
        lsn: Lsn(3),
        run: store.runs[0].run,
        durable: Lsn(1),
        payload_checksum: salted.of(&[b"forged"]),
    };
    let mut payload = vec![0; ONE_BLOCK];
    payload.extend_from_slice(&header.encode(b"", &salted));
    payload.extend_from_slice(b"forged");
    let second = append_alone(&mut running, &payload);
    let scan = store.scan().unwrap();
    assert_eq!((read_all(&scan), scan.end_lsn), (vec![first.clone(), second], Lsn(2)));
    // The record around it torn: its header tells how long it is, so it stays closed.
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK + 100] ^= 1);
    let scan = store.scan().unwrap();
    assert_eq!((read_all(&scan), scan.end_lsn), (vec![first], Lsn(1)));
}

#[test]
fn a_copy_of_the_log_in_a_torn_record_is_not_taken_for_the_log() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let kept: Vec<_> = (0..5).map(|at| append_alone(&mut running, &[at; 10])).collect();
    let mut payload = vec![0; ONE_BLOCK];
    store.fs.edit(&store.files[0].path.clone(), |bytes| {
        payload.extend_from_slice(&bytes[..2 * BLOCK]);
    });
    torn(&store, &mut running, &[&payload], &[Fate::Old, Fate::New, Fate::New]);
    let (mut running, records, scan) = store.recover();
    assert_eq!((records, scan.end_lsn), (kept.clone(), Lsn(5)));
    let more = append_alone(&mut running, b"more");
    assert_eq!(store.recover().1, [kept, vec![more]].concat());
}

/// Every place in a frame, by what stands there.
fn position_classes() -> Vec<(&'static str, usize)> {
    vec![
        ("magic", 0),
        ("kind", 4),
        ("zero", 5),
        ("header bytes", 6),
        ("stamp bytes", 8),
        ("payload bytes", 12),
        ("lsn", 16),
        ("run", 24),
        ("durable", 32),
        ("payload checksum", 40),
        ("header checksum", 44),
        ("stamp", 48),
        ("payload", 56),
        ("last of payload", 56 + 99),
    ]
}

#[test]
fn a_flipped_bit_is_a_torn_tail_above_the_durable_lsn_and_corruption_below() {
    for (class, at) in position_classes() {
        for bit in 0..8 {
            let mut store = Store::small();
            let kept = written(&mut store, &[&[1; 100], &[2; 100], &[3; 100]]);
            let path = store.files[0].path.clone();
            let flip = |block: usize| {
                store.fs.edit(&path, |bytes| bytes[block * BLOCK + at] ^= 1 << bit);
            };
            flip(2);
            let scan = store.scan().unwrap();
            assert_eq!(read_all(&scan), kept[..2], "{class} bit {bit}");
            flip(2);
            flip(1);
            assert_eq!(corruption(&store).hole, hole(2, 2), "{class} bit {bit}");
            flip(1);
            assert_eq!(read_all(&store.scan().unwrap()), kept);
        }
    }
}

#[test]
fn padding_says_nothing() {
    let mut store = Store::small();
    let kept = written(&mut store, &[&[1; 99], &[2; 100]]);
    store.fs.edit(&store.files[0].path.clone(), |bytes| {
        bytes[48 + 8 + 99] = 0xff;
        bytes[BLOCK - 9..BLOCK].fill(0xff);
    });
    assert_eq!(read_all(&store.scan().unwrap()), kept);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// One damaged range anywhere in the log: what is read is a prefix, or an error.
    #[test]
    fn damage_is_never_accepted(at in 0..6 * BLOCK, len in 1..3000usize, with in 1..=255u8) {
        let mut store = Store::small();
        let sizes = [100, 5000, 40, 40, 3000, 700];
        let payloads: Vec<Vec<u8>> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
        let mut running = store.first_start(2);
        let kept: Vec<_> = payloads.iter().map(|payload| running.append(1, payload)).collect();
        running.drive();
        store.durable_known = Lsn(3);
        store.fs.edit(&store.files[0].path.clone(), |bytes| {
            let end = bytes.len().min(at + len);
            bytes[at..end].iter_mut().for_each(|byte| *byte ^= with);
        });
        match store.scan() {
            Ok(scan) => {
                let records = read_all(&scan);
                prop_assert!(records.len() >= 3);
                prop_assert_eq!(&records[..], &kept[..records.len()]);
            }
            Err(ScanError::Corruption(found)) => prop_assert!(found.hole.first <= Lsn(3)),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
