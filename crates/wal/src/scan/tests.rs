//! Tests of recovery for individual sequences of events.

use freshet_base::{BatchIndex, LogPosition, Lsn, Term};
use freshet_testkit::Fate;
use proptest::prelude::*;

use super::*;
use crate::damage::Corruption;
use crate::head::Head;
use crate::record::Header;
use crate::testing::{BLOCK, Kept, Running, Store, read_all};

mod damage;

/// The size of a payload that exactly fills a block, with its stamp.
const ONE_BLOCK: usize = BLOCK - 64 - 32 - 8;

/// Starts a log and appends each payload in its own batch.
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

/// Appends payloads in one batch, during whose write the power fails.
fn torn(store: &Store, running: &mut Running, payloads: &[&[u8]], fates: &[Fate]) -> Vec<Kept> {
    let before = running.durable();
    let kept = payloads.iter().map(|payload| running.append(1, payload)).collect();
    store.fs.cut_after(0, fates.to_vec());
    running.drive();
    assert_eq!(running.durable(), before, "nothing of a torn batch is acknowledged");
    store.fs.crash();
    kept
}

fn corruption(store: &Store) -> Corruption {
    match store.scan() {
        Err(ScanError::Corruption(corruption)) => corruption,
        Err(other) => panic!("{other}"),
        Ok(scan) => panic!("accepted, end {}", scan.end.lsn),
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
    assert_eq!((scan.end.lsn, scan.tail), (Lsn(10), Tail::Clean));
}

#[test]
fn an_empty_log_starts_again_and_again() {
    let mut store = Store::small();
    store.first_start(2);
    for _ in 0..3 {
        let (_, records, scan) = store.recover();
        assert_eq!((records, scan.end.lsn, scan.tail), (Vec::new(), Lsn(0), Tail::Clean));
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
        assert_eq!((records, scan.end.lsn), (vec![kept], Lsn(1)));
    }
}

#[test]
fn the_head_of_a_torn_batch_becomes_zeros() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let kept = vec![append_alone(&mut running, b"acknowledged")];
    let fates = [Fate::New, Fate::New, Fate::Old, Fate::New];
    torn(&store, &mut running, &[&[1; ONE_BLOCK][..]; 4], &fates);
    let scan = store.scan().unwrap();
    assert_eq!((read_all(&scan), scan.durable_lsn), (kept.clone(), Lsn(1)));
    let place = Place { file: store.files[0].clone(), offset: BLOCK as u64 };
    assert_eq!(scan.tail, Tail::Torn { place: Some(place), first: Lsn(2) });
    let again = store.scan().unwrap();
    assert_eq!((read_all(&again), again.tail), (kept, Tail::Clean), "nothing of it is left");
}

#[test]
fn a_torn_record_and_its_old_successor_do_not_follow_the_next_term() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"acknowledged");
    // 2 is torn, the old 3 reaches the device; the next term writes 2 again with the same length.
    torn(&store, &mut running, &[&[2; ONE_BLOCK], &[3; 50]], &[Fate::Garbage, Fate::New]);
    let (mut running, records, _) = store.recover();
    assert_eq!(records, vec![first.clone()]);
    let again = append_alone(&mut running, &[22; ONE_BLOCK]);
    let (mut running, records, scan) = store.recover();
    assert_eq!(records, [first.clone(), again.clone()]);
    assert_eq!(scan.tail, Tail::Clean, "old 3 is of a term that ended at 1");
    let third = append_alone(&mut running, &[33; 50]);
    let fourth = append_alone(&mut running, b"follows the third");
    // Nor does it reappear after damage to the head of the batch in front of the new 3.
    let path = store.files[0].path.clone();
    store.fs.edit(&path, |bytes| bytes[2 * BLOCK] ^= 1);
    let (_, records, scan) = store.recover();
    assert_eq!(records, [first, again, third, fourth]);
    assert_eq!(scan.without_head, [hole(3, 3)]);
}

#[test]
fn a_term_that_wrote_nothing_does_not_reopen_the_term_before() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"acknowledged");
    torn(&store, &mut running, &[&[2; ONE_BLOCK], &[3; 50]], &[Fate::Garbage, Fate::New]);
    for _ in 0..3 {
        assert_eq!(store.recover().1, std::slice::from_ref(&first));
    }
}

/// A removed batch is also in another file, unchanged: with the same LSNs and length.
#[test]
fn a_batch_that_was_cut_off_does_not_come_back_from_another_file() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"acknowledged");
    let path = store.files[0].path.clone();
    torn(&store, &mut running, &[&[2; 500]], &[Fate::New]);
    let mut old = Vec::new();
    store.fs.edit(&path, |bytes| {
        old.extend_from_slice(&bytes[BLOCK..2 * BLOCK]);
        bytes[BLOCK + 100] ^= 1;
    });
    let (mut running, records, _) = store.recover();
    assert_eq!(records, std::slice::from_ref(&first));
    let mut kept = vec![first, append_alone(&mut running, &[22; 500])];
    store.fs.edit(&store.files[2].path.clone(), |bytes| bytes[..BLOCK].copy_from_slice(&old));
    assert_eq!(store.recover().1, kept, "the batch of the later term counts");
    kept.push(append_alone(&mut running, b"behind"));
    let (_, records, scan) = store.recover();
    assert_eq!((records, scan.tail), (kept, Tail::Clean));
}

#[test]
fn blocks_above_the_durable_lsn_are_written_again() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = vec![append_alone(&mut running, b"acknowledged")];
    // Readable after this power cut, lost after the next.
    kept.extend(torn(&store, &mut running, &[&[1; 9000], b"small"], &[Fate::Volatile]));
    let (running, records, scan) = store.recover();
    assert_eq!((records, scan.end.lsn), (kept.clone(), Lsn(3)));
    drop(running);
    store.fs.crash();
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
    let last = LogPosition { lsn: Lsn(7), index: BatchIndex(7), term: Term(6) };
    let live = LiveRecords { first: Lsn(1), last, used_bytes: 7 * BLOCK as u64 };
    assert_eq!(scan.files[0].live, Some(live));
    assert!(scan.files[1..].iter().all(|file| file.live.is_none()));
}

#[test]
fn a_hole_below_what_a_later_head_names_is_corruption() {
    let mut store = Store::small();
    written(&mut store, &[b"one", b"two", b"three"]);
    // The head of 3 names 2 as durable.
    let file = store.files[0].clone();
    store.fs.edit(&file.path, |bytes| bytes[BLOCK + 105] ^= 1);
    let found = corruption(&store);
    let place = Place { file, offset: BLOCK as u64 + 64 };
    assert_eq!((found.hole, found.place.as_ref()), (hole(2, 2), Some(&place)));
    let damaged = &found.damaged[0];
    assert_eq!((damaged.lsn, damaged.kind), (Lsn(2), 1));
    assert_eq!(damaged.stamp, 2u64.to_be_bytes());
    let told = ScanError::Corruption(found).to_string();
    assert!(told.contains("LSN 2 to 2") && told.contains("byte 4160 of /log/0"), "{told}");
}

#[test]
fn a_hole_below_what_metadata_knows_is_corruption() {
    let mut store = Store::small();
    written(&mut store, &[b"one", b"two"]);
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK] ^= 1);
    assert_eq!(store.scan().unwrap().end.lsn, Lsn(1), "nobody knows of 2");
    store.durable_known = Lsn(2);
    let found = corruption(&store);
    assert_eq!(found.hole, hole(2, 2));
    assert_eq!(found.place.unwrap().offset, BLOCK as u64, "where the batch of 1 ends");
}

#[test]
fn a_batch_becomes_durable_as_a_whole() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    (0..4).for_each(|_| drop(running.append(1, b"in one batch")));
    running.drive();
    // Metadata names a record in the middle as durable, and the last record is damaged.
    store.durable_known = Lsn(2);
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[64 + 3 * 56 + 45] ^= 1);
    assert_eq!(corruption(&store).hole, hole(4, 4));
}

#[test]
fn accepted_holes_are_passed() {
    let mut store = Store::small();
    let kept = written(&mut store, &[b"one", b"two", b"three", b"four"]);
    store.durable_known = Lsn(4);
    let path = store.files[0].path.clone();
    store.fs.edit(&path, |bytes| {
        bytes[BLOCK + 64] ^= 1;
        bytes[3 * BLOCK + 64] ^= 1;
    });
    assert_eq!(corruption(&store).hole, hole(2, 2));
    store.accepted.push(hole(2, 2));
    assert_eq!(corruption(&store).hole, hole(4, 4));
    store.accepted.push(hole(4, 4));
    let mut kept = vec![kept[0].clone(), kept[2].clone()];
    let (mut running, records, scan) = store.recover();
    assert_eq!((&records, scan.end.lsn), (&kept, Lsn(4)));
    for lsn in 5..9 {
        let more = append_alone(&mut running, b"behind");
        assert_eq!(more.lsn, Lsn(lsn));
        kept.push(more);
        let records;
        (running, records, _) = store.recover();
        assert_eq!(records, kept);
    }
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
        running.recycle(&mut store, up_to);
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
fn a_new_record_that_cuts_a_recycled_one_short_is_found() {
    let mut store = Store::small();
    let mut running = store.first_start(2);
    // Long records are recycled; short ones overwrite the start of the first file.
    (0..6).for_each(|_| drop(append_alone(&mut running, &[1; 14_000])));
    let path = store.files[0].path.clone();
    let mut old = Vec::new();
    store.fs.edit(&path, |bytes| old.extend_from_slice(&bytes[..BLOCK]));
    running.recycle(&mut store, Lsn(6));
    let kept: Vec<_> = (0..12).map(|at| append_alone(&mut running, &[at; 100])).collect();
    assert_eq!(read_all(&store.scan().unwrap()), kept);
    // A lost write exposes the old record again; the following ones are found nevertheless.
    store.fs.edit(&path, |bytes| bytes[..BLOCK].copy_from_slice(&old));
    assert_eq!(corruption(&store).hole, hole(15, 15));
}

#[test]
fn user_bytes_that_look_like_a_batch_are_none() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"one");
    // A forged batch with the correct salt and next LSN, at a possible start of a batch.
    let salt = Terms::new(&store.secrets).salt(Term(1)).unwrap();
    let header = Header {
        kind: 9,
        stamp_bytes: 0,
        payload_bytes: 6,
        lsn: Lsn(3),
        payload_checksum: salt.checksum(&[b"forged"]),
    };
    let head = Head {
        term: Term(1),
        index: BatchIndex(3),
        previous: Term(1),
        first: Lsn(3),
        records: 1,
        frames_bytes: 40,
        durable: Lsn(1),
        time_micros: 0,
    };
    let mut payload = vec![0; ONE_BLOCK];
    payload.extend_from_slice(&head.encode(&salt));
    payload.extend_from_slice(&header.encode(b"", &salt));
    payload.extend_from_slice(b"forged\0\0");
    let second = append_alone(&mut running, &payload);
    let scan = store.scan().unwrap();
    assert_eq!((read_all(&scan), scan.end.lsn), (vec![first.clone(), second], Lsn(2)));
    // The batch around it is damaged: its head defines its length, so its contents are not
    // searched.
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK + 200] ^= 1);
    let scan = store.scan().unwrap();
    assert_eq!((read_all(&scan), scan.end.lsn), (vec![first], Lsn(1)));
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
    assert_eq!((records, scan.end.lsn), (kept.clone(), Lsn(5)));
    let more = append_alone(&mut running, b"more");
    assert_eq!(store.recover().1, [kept, vec![more]].concat());
}

/// Positions in a batch of one record, by field.
fn position_classes() -> Vec<(&'static str, usize)> {
    vec![
        ("magic of the head", 0),
        ("checksum of the head", 4),
        ("term", 8),
        ("index", 16),
        ("term before", 24),
        ("first lsn", 32),
        ("records", 40),
        ("bytes of frames", 44),
        ("durable", 48),
        ("log time", 56),
        ("magic", 64),
        ("kind", 68),
        ("zero", 69),
        ("header bytes", 70),
        ("stamp bytes", 72),
        ("payload bytes", 76),
        ("lsn", 80),
        ("payload checksum", 88),
        ("header checksum", 92),
        ("stamp", 96),
        ("payload", 104),
        ("last of payload", 104 + 99),
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
            flip(1);
            match at < 64 {
                true => assert_eq!(read_all(&store.scan().unwrap()), kept, "{class} bit {bit}"),
                false => assert_eq!(corruption(&store).hole, hole(2, 2), "{class} bit {bit}"),
            }
            flip(1);
            assert_eq!(read_all(&store.scan().unwrap()), kept);
            flip(2);
            let scan = store.scan().unwrap();
            assert_eq!(read_all(&scan), kept[..2], "{class} bit {bit}");
        }
    }
}

#[test]
fn padding_says_nothing() {
    let mut store = Store::small();
    let kept = written(&mut store, &[&[1; 99], &[2; 100]]);
    store.fs.edit(&store.files[0].path.clone(), |bytes| {
        bytes[64 + 32 + 8 + 99] = 0xff;
        bytes[BLOCK - 9..BLOCK].fill(0xff);
    });
    assert_eq!(read_all(&store.scan().unwrap()), kept);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// A damaged range anywhere in the log: the result is a prefix or an error.
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
            Err(ScanError::Corruption(found)) => prop_assert!(found.hole.first <= Lsn(6)),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
