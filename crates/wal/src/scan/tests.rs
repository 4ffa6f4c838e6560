//! The sequences that recovery must get right, one by one.

use freshet_base::Lsn;

use super::*;
use crate::testing::{BLOCK, Fate, Kept, Running, Store, read_all};

/// Starts a log, appends each payload in a batch of its own, and turns the power off.
fn written(store: &mut Store, payloads: &[&[u8]]) -> Vec<Kept> {
    let mut running = store.first_start(3);
    let kept = payloads.iter().map(|payload| append_alone(&mut running, payload)).collect();
    store.fs.restart();
    kept
}

fn append_alone(running: &mut Running, payload: &[u8]) -> Kept {
    let kept = running.append(1, payload);
    running.drive();
    assert_eq!(running.durable(), kept.lsn);
    kept
}

fn corruption(store: &Store) -> Corruption {
    match store.scan() {
        Err(ScanError::Corruption(corruption)) => corruption,
        Err(other) => panic!("{other}"),
        Ok(scan) => panic!("accepted, end {}", scan.end_lsn),
    }
}

#[test]
fn records_come_back_in_order() {
    let mut store = Store::small();
    let mut running = store.first_start(3);
    let mut kept = Vec::new();
    for size in [0, 1, 100, 5000, 16_000, 3, 12_000, 8_000, 16_000, 7] {
        kept.push(running.append(2, &vec![size as u8; size]));
        if size % 2 == 0 {
            running.drive();
        }
    }
    running.drive();
    assert_eq!(running.durable(), Lsn(10));
    store.fs.restart();
    let (_, records, scan) = store.recover();
    assert_eq!(records, kept);
    assert_eq!((scan.end_lsn, scan.tail), (Lsn(10), Tail::Clean));
}
