//! Tests of damage, of salvaging, and of accepted losses.

use freshet_base::{Lsn, Term};
use freshet_testkit::Fate;

use super::{append_alone, corruption, hole, torn, written};
use crate::testing::{BLOCK, Running, Store, read_all};

/// A hole with some records that are intact on the device, without the head of their batch.
#[test]
fn what_was_given_up_is_never_read_again() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = vec![append_alone(&mut running, b"one")];
    for byte in 0..6_u8 {
        running.append(1, &[byte; 2000]);
    }
    running.drive();
    // The head of the last batch is damaged, and metadata names its records as durable.
    store.durable_known = Lsn(7);
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK] ^= 1);
    assert_eq!(corruption(&store).hole, hole(2, 7));
    store.accepted.push(hole(2, 7));
    // The next batch takes one block of three, and names the term of the lost records.
    for payload in [&b"eight"[..], b"nine"] {
        let (mut running, records, scan) = store.recover();
        assert_eq!((records, scan.without_head), (kept.clone(), vec![]));
        kept.push(append_alone(&mut running, payload));
    }
    assert_eq!(kept[1].lsn, Lsn(8));
    assert_eq!(store.recover().1, kept);
    // Nor after the damage is undone.
    store.accepted.push(hole(8, 8));
    kept.remove(1);
    assert_eq!(store.recover().1, kept);
}

#[test]
fn the_lsns_of_what_was_given_up_are_not_given_again() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let first = append_alone(&mut running, b"one");
    append_alone(&mut running, b"two");
    // Only the head of a torn batch names 2 as durable.
    torn(&store, &mut running, &[&[3; 5000]], &[Fate::New, Fate::Old]);
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK + 105] ^= 1);
    assert_eq!(corruption(&store).hole, hole(2, 2));
    store.accepted.push(hole(2, 2));
    for _ in 0..3 {
        assert_eq!(store.scan().unwrap().end.lsn, Lsn(2));
    }
    let (mut running, records, _) = store.recover();
    assert_eq!(records, [first]);
    assert_eq!(append_alone(&mut running, b"three").lsn, Lsn(3));
}

/// A torn batch names the previous one as durable; then its head is removed.
#[test]
fn what_was_durable_stays_so_when_a_torn_head_becomes_zeros() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    written_again(&mut running);
    torn(&store, &mut running, &[&[3; 5000]], &[Fate::New, Fate::Old]);
    let (mut running, records, scan) = store.recover();
    assert_eq!((records.len(), scan.durable_lsn, scan.durable_recorded), (2, Lsn(2), Lsn(1)));
    // No record is appended.
    running.drive();
    store.clock.ring();
    running.drive();
    assert_eq!(running.durable(), Lsn(3), "the log itself says that 2 is durable");
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK + 105] ^= 1);
    assert_eq!(corruption(&store).hole, hole(2, 2));
}

fn written_again(running: &mut Running) {
    append_alone(running, b"one");
    append_alone(running, b"two");
}

#[test]
fn a_start_behind_a_clean_end_writes_no_record() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    append_alone(&mut running, b"one");
    running.stop();
    for _ in 0..5 {
        let (mut running, records, scan) = store.recover();
        assert_eq!((records.len(), scan.end.lsn), (1, Lsn(2)));
        running.drive();
        store.clock.ring();
        running.drive();
        assert_eq!(running.durable(), Lsn(2), "an idle record is behind it already");
        running.stop();
    }
}

#[test]
fn a_damaged_head_is_made_up_for_by_that_of_a_torn_batch() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = vec![append_alone(&mut running, b"one")];
    kept.extend((0..8).map(|_| running.append(1, &[7; 100])));
    running.drive();
    torn(&store, &mut running, &[&[3; 5000]], &[Fate::New, Fate::Old]);
    store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[BLOCK] ^= 1);
    let (mut running, records, scan) = store.recover();
    assert_eq!((records, scan.without_head), (kept.clone(), vec![hole(2, 9)]));
    kept.push(append_alone(&mut running, b"behind"));
    assert_eq!(store.recover().1, kept);
}

#[test]
fn a_damaged_head_is_made_up_for_by_that_of_a_damaged_batch_of_the_next_term() {
    let mut store = Store::small();
    let mut kept = written(&mut store, &[b"one", b"two"]);
    let (mut running, ..) = store.recover();
    kept.extend([b"three", b"four!"].map(|payload| append_alone(&mut running, payload)));
    let path = store.files[0].path.clone();
    store.fs.edit(&path, |bytes| {
        bytes[BLOCK] ^= 1;
        bytes[2 * BLOCK + 105] ^= 1;
    });
    assert_eq!(corruption(&store).hole, hole(3, 3));
    store.accepted.push(hole(3, 3));
    kept.remove(2);
    assert_eq!(store.recover().1, kept);
}

#[test]
fn the_log_says_which_terms_there_were() {
    let mut store = Store::small();
    let mut kept = written(&mut store, &[b"one"]);
    for term in 2..6 {
        let (mut running, ..) = store.recover();
        kept.push(append_alone(&mut running, b"more"));
        // However outdated the term file is.
        crate::write_term(&store.fs, std::path::Path::new(crate::testing::TERM_FILE), Term(1))
            .unwrap();
        let scan = store.scan().unwrap();
        assert_eq!((read_all(&scan), scan.highest_term), (kept.clone(), Term(term)));
        crate::write_term(&store.fs, std::path::Path::new(crate::testing::TERM_FILE), Term(term))
            .unwrap();
    }
}

#[test]
fn a_damaged_head_costs_no_record() {
    let mut store = Store::small();
    let mut running = store.first_start(4);
    let mut kept = Vec::new();
    // Batches of many records, over three files.
    for batch in 0..12_u8 {
        kept.extend((0..8).map(|_| running.append(1, &[batch; 500])));
        running.drive();
    }
    let files: Vec<_> = store.files.iter().map(|file| file.path.clone()).collect();
    let mut heads = Vec::new();
    for path in &files {
        store.fs.edit(path, |bytes| {
            let blocks = (0..16).filter(|block| bytes[block * BLOCK..].starts_with(b"FWB\x02"));
            heads.extend(blocks.map(|block| (path.clone(), block * BLOCK)));
        });
    }
    assert_eq!(heads.len(), 12);
    for (at, (path, offset)) in heads.iter().enumerate() {
        for byte in [0, 5, 9, 41, 63] {
            store.fs.edit(path, |bytes| bytes[offset + byte] ^= 4);
            let scan = store.scan().unwrap();
            let is_last = at + 1 == heads.len();
            let expected = if is_last { &kept[..88] } else { &kept[..] };
            assert_eq!(read_all(&scan), expected, "batch {at}, byte {byte}");
            let first = at as u64 * 8 + 1;
            let without = if is_last { vec![] } else { vec![hole(first, first + 7)] };
            assert_eq!(scan.without_head, without);
            store.fs.edit(path, |bytes| bytes[offset + byte] ^= 4);
        }
    }
}

#[test]
fn heads_of_two_terms_that_are_damaged_cost_the_records_of_the_first() {
    let mut store = Store::small();
    let mut kept = written(&mut store, &[b"one", b"two"]);
    let (mut running, ..) = store.recover();
    kept.extend([b"three", b"four!"].map(|payload| append_alone(&mut running, payload)));
    let path = store.files[0].path.clone();
    store.fs.edit(&path, |bytes| {
        bytes[BLOCK] ^= 1;
        bytes[2 * BLOCK] ^= 1;
    });
    assert_eq!(corruption(&store).hole, hole(2, 2), "nobody says of which term 2 was");
    store.accepted.push(hole(2, 2));
    kept.remove(1);
    assert_eq!(store.recover().1, kept);
}

#[test]
fn a_damaged_frame_costs_no_other_record_of_its_batch() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept: Vec<_> = (0..10_u8).map(|at| running.append(1, &[at; 100])).collect();
    running.drive();
    kept.push(append_alone(&mut running, b"follows them"));
    let frame = 32 + 8 + 104;
    let at = 64 + 6 * frame;
    for byte in 0..frame - 4 {
        store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[at + byte] ^= 8);
        store.accepted.clear();
        assert_eq!(corruption(&store).hole, hole(7, 7), "byte {byte}");
        store.accepted.push(hole(7, 7));
        let records = read_all(&store.scan().unwrap());
        assert!(records.iter().eq(kept.iter().filter(|record| record.lsn != Lsn(7))));
        store.fs.edit(&store.files[0].path.clone(), |bytes| bytes[at + byte] ^= 8);
    }
}
