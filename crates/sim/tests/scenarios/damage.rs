//! Flipped bits in old files, and missing files: reported, isolated, and given up only on request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use freshet_base::Lsn;
use freshet_base::io::Fs;
use freshet_ingest::check::{Loss, accept, check, next_loss};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::rows;
use freshet_storage::delta::Freshness;

use crate::{act, fill_log, store};

/// The files below `dir`, ordered by name.
pub(crate) fn files(sim: &Sim, dir: &str) -> Vec<PathBuf> {
    let below = |(path, _): (PathBuf, u64)| path.starts_with(dir).then_some(path);
    sim.fs.files().into_iter().filter_map(below).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The number of findings of `freshet check` in `path`.
fn findings(sim: &mut Sim, path: &Path) -> usize {
    let (config, world) = (sim.config.clone(), sim.world());
    let report = check(&config, &world).unwrap();
    report.findings.iter().filter(|finding| finding.file == path).count()
}

/// Checks that the store does not open, and that the error says why and what to do.
fn refused(sim: &mut Sim, path: &Path) {
    let error = sim.try_open().unwrap().unwrap_err().to_string();
    assert!(error.contains(name(path)) && error.contains("freshet repair"), "{error}");
    assert_eq!(findings(sim, path), 1, "{}", path.display());
}

/// Runs `freshet repair --accept`; returns what was given up.
pub(crate) fn repair(sim: &mut Sim) -> Vec<Loss> {
    let (config, world) = (sim.config.clone(), sim.world());
    let mut losses = Vec::new();
    while let Some(loss) = next_loss(&config, &world).unwrap() {
        accept(&config, &world, &loss).unwrap();
        losses.push(loss);
    }
    losses
}

/// Offsets and sizes of the frames in a log file, in order, including idle records.
pub(crate) fn frames(sim: &Sim, path: &Path) -> Vec<(usize, usize)> {
    let bytes = sim.fs.read(path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let begins = (0..bytes.len()).step_by(8).filter(|at| bytes[*at..].starts_with(b"FWL\x02"));
    begins.map(|at| (at, 32 + number(at + 8) + number(at + 12))).collect()
}

/// Offsets of the batch heads in a log file.
fn heads(sim: &Sim, path: &Path) -> Vec<usize> {
    let bytes = sim.fs.read(path).unwrap();
    let blocks = (0..bytes.len()).step_by(4096);
    blocks.filter(|at| bytes[*at..].starts_with(b"FWB\x02")).collect()
}

/// The frame of the record at `lsn`.
pub(crate) fn frame_of(sim: &Sim, path: &Path, lsn: Lsn) -> (usize, usize) {
    let bytes = sim.fs.read(path).unwrap();
    let is_it = |(at, _): &(usize, usize)| bytes[at + 16..at + 24] == lsn.get().to_le_bytes();
    frames(sim, path).into_iter().find(is_it).unwrap()
}

#[test]
fn a_bit_flipped_anywhere_in_a_segment_is_named_and_all_else_is_served() {
    let mut sim = store(30);
    act(&sim, |client| async move {
        client.load("a", 300, Off, None).await;
        client.flush("a").await;
        client.load("b", 5, Off, None).await;
    });
    let id = sim.engine().target("d", "a").unwrap().id();
    sim.end_life(Death::ProcessEnd);
    let segment = files(&sim, "/store/data").remove(0);
    let len = sim.fs.read(&segment).unwrap().len();
    let ends = (0..8).chain(len - 12..len);
    let (mut named, mut unread) = (Vec::new(), Vec::new());
    for offset in (8..len - 12).step_by(len / 40).chain(ends) {
        sim.fs.flip(&segment, offset, 3);
        assert_eq!(findings(&mut sim, &segment), 1, "byte {offset} of {len}");
        sim.open();
        let read =
            rows::read(&sim.engine().snapshot(Freshness::Committed).table(id).unwrap().unwrap());
        match read.map_err(|error| error.to_string()) {
            Err(error) => {
                assert!(error.contains(name(&segment)), "byte {offset} of {len}: {error}");
                named.push(offset);
            }
            // Indexes are read by who looks up in them, and by the check.
            Ok(_) => unread.push(offset),
        }
        act(&sim, |client| async move {
            client.load("b", 1, Off, None).await;
            client.load("a", 1, Off, None).await;
        });
        sim.check();
        sim.end_life(Death::ProcessEnd);
        sim.fs.flip(&segment, offset, 3);
    }
    // The indexes stand together, behind the rows.
    let indexes = *unread.iter().min().unwrap()..=*unread.iter().max().unwrap();
    assert!(
        named.len() >= 20 && !named.iter().any(|at| indexes.contains(at)),
        "{named:?} {unread:?}"
    );
    sim.open();
    sim.flush_and_check_leaks();
}

#[test]
fn a_bit_flipped_anywhere_in_a_record_is_named_and_the_start_refused() {
    let mut sim = store(31);
    act(&sim, |client| async move {
        for _ in 0..4 {
            client.load("a", 3, Off, None).await;
        }
    });
    sim.end_life(Death::PowerCut);
    let log = files(&sim, "/store/wal").remove(0);
    let (begin, bytes) = frame_of(&sim, &log, Lsn(2));
    for offset in begin..begin + bytes {
        sim.fs.flip(&log, offset, u8::try_from(offset % 8).unwrap());
        refused(&mut sim, &log);
        sim.fs.flip(&log, offset, u8::try_from(offset % 8).unwrap());
    }
    sim.open();
}

#[test]
fn a_bit_flipped_behind_the_durable_end_of_the_log_is_a_torn_tail() {
    let mut sim = store(32);
    act(&sim, |client| async move {
        client.load("a", 3, Off, None).await;
        // Before metadata records that the log was durable up to there.
        client.sleep(Duration::from_millis(10)).await;
    });
    sim.end_life(Death::ProcessEnd);
    let log = files(&sim, "/store/wal").remove(0);
    let (begin, bytes) = *frames(&sim, &log).last().unwrap();
    // The last batch names the record before it as durable, and none names its own.
    sim.fs.flip(&log, begin + bytes / 2, 0);
    sim.open();
    sim.replay_again();
}

#[test]
fn a_bit_flipped_in_the_head_of_a_batch_is_told_and_costs_nothing() {
    let mut sim = store(37);
    act(&sim, |client| async move {
        for _ in 0..4 {
            client.load("a", 3, Async, None).await;
            client.load("b", 2, Off, None).await;
        }
        client.sleep(Duration::from_millis(50)).await;
    });
    sim.end_life(Death::PowerCut);
    let log = files(&sim, "/store/wal").remove(0);
    let heads = heads(&sim, &log);
    for head in &heads[..heads.len() - 1] {
        for byte in [0, 4, 8, 16, 24, 32, 40, 44, 48, 56] {
            sim.fs.flip(&log, head + byte, 2);
            assert_eq!(findings(&mut sim, Path::new("log")), 1, "byte {byte} at {head}");
            sim.fs.flip(&log, head + byte, 2);
        }
        sim.fs.flip(&log, head + 33, 1);
        sim.open();
        act(&sim, |client| async move { client.load("a", 1, Off, None).await });
        sim.end_life(Death::PowerCut);
        sim.fs.flip(&log, head + 33, 1);
    }
    sim.open();
    act(&sim, |client| async move { fill_log(&client, "b").await });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_rotten_block_of_the_term_harms_nobody_and_two_are_named() {
    let mut sim = store(38);
    let terms = Path::new("/store/raft.state");
    let load = |sim: &Sim| {
        act(sim, |client| async move {
            client.load("a", 2, Async, None).await;
            client.load("b", 1, Off, None).await;
        });
    };
    for block in [0, 4096] {
        load(&sim);
        sim.end_life(Death::PowerCut);
        sim.fs.flip(terms, block + 9, 1);
        assert_eq!(findings(&mut sim, terms), 1);
        sim.open();
    }
    load(&sim);
    sim.end_life(Death::PowerCut);
    sim.fs.flip(terms, 9, 1);
    sim.fs.flip(terms, 4096 + 16, 1);
    refused(&mut sim, terms);
    assert!(matches!(repair(&mut sim)[..], [Loss::TermFile { .. }]));
    sim.open();
    load(&sim);
    sim.crash(Death::PowerCut);
    sim.replay_again();
    // The file of an earlier start is put back.
    let old = sim.fs.read(terms).unwrap();
    for _ in 0..2 {
        sim.crash(Death::PowerCut);
        load(&sim);
    }
    sim.crash(Death::ProcessEnd);
    sim.end_life(Death::PowerCut);
    for (offset, byte) in old.iter().enumerate() {
        let now = sim.fs.read(terms).unwrap()[offset];
        let bits = (0..8).filter(|bit| (byte ^ now) >> bit & 1 == 1);
        bits.for_each(|bit| sim.fs.flip(terms, offset, bit));
    }
    refused(&mut sim, terms);
    assert!(matches!(repair(&mut sim)[..], [Loss::TermFile { .. }]));
    sim.open();
    load(&sim);
    sim.crash(Death::PowerCut);
    sim.replay_again();
    // Without the file at all, and after a repair.
    sim.end_life(Death::PowerCut);
    sim.fs.remove_file(terms).unwrap();
    refused(&mut sim, terms);
    assert!(matches!(repair(&mut sim)[..], [Loss::TermFile { .. }]));
    sim.open();
    load(&sim);
    sim.crash(Death::PowerCut);
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn of_an_accepted_hole_nothing_else_is_lost() {
    let mut sim = store(33);
    act(&sim, |client| async move {
        for _ in 0..5 {
            client.load("a", 3, Async, None).await;
            client.load("b", 2, Async, None).await;
        }
    });
    sim.end_life(Death::PowerCut);
    let log = files(&sim, "/store/wal").remove(0);
    let (begin, bytes) = frame_of(&sim, &log, Lsn(8));
    sim.fs.flip(&log, begin + bytes - 1, 0);
    refused(&mut sim, &log);
    let losses = repair(&mut sim);
    let [Loss::Records { first, last, tables, .. }] = &losses[..] else { panic!("{losses:?}") };
    assert_eq!((*first, *last), (Lsn(8), Lsn(8)));
    assert_eq!(tables.len(), 1, "the table of the record is told: {tables:?}");
    sim.model.lock().accepted_loss(*first, *last);
    sim.open();
    sim.replay_again();
    act(&sim, |client| async move {
        client.load("a", 3, Async, None).await;
        fill_log(&client, "b").await;
    });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn rows_behind_a_truncate_that_was_given_up_tell_of_it() {
    let mut sim = store(34);
    act(&sim, |client| async move { client.load("a", 3, Off, None).await });
    // No checkpoint comes between the TRUNCATE and the crash.
    act(&sim, |client| async move {
        client.truncate(&["a"]).await;
        client.load("a", 4, Off, None).await;
    });
    let truncate = sim.model.lock().truncated_at().unwrap();
    sim.end_life(Death::ProcessEnd);
    let log = files(&sim, "/store/wal").remove(0);
    let (begin, bytes) = frame_of(&sim, &log, truncate);
    sim.fs.flip(&log, begin + bytes - 1, 0);
    assert_eq!(repair(&mut sim).len(), 1);
    sim.open();
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn a_damaged_side_file_is_named_and_given_up_only_when_told() {
    let mut sim = store(35);
    act(&sim, |client| async move {
        client.load("a", 2, Off, None).await;
        fill_log(&client, "b").await;
    });
    sim.end_life(Death::PowerCut);
    let side = files(&sim, "/store/side").remove(0);
    let len = sim.fs.read(&side).unwrap().len();
    for offset in (0..len).step_by(1 + len / 50) {
        sim.fs.flip(&side, offset, 5);
        refused(&mut sim, &side);
        sim.fs.flip(&side, offset, 5);
    }
    sim.open();
    sim.end_life(Death::PowerCut);
    sim.fs.flip(&side, len / 2, 5);
    assert!(matches!(repair(&mut sim)[..], [Loss::SideFile { .. }]));
    sim.try_open().unwrap().unwrap();
    let id = sim.engine().target("d", "a").unwrap().id();
    let table = sim.engine().snapshot(Freshness::Committed).table(id).unwrap().unwrap();
    assert_eq!(rows::read(&table).unwrap(), [], "the rows of the side file are given up");
}

#[test]
fn a_log_file_that_is_gone_is_named_and_given_up_only_when_told() {
    let mut sim = store(36);
    act(&sim, |client| async move {
        client.load("a", 3, Off, None).await;
        client.flush("a").await;
        // The checkpoint contains the flush, whose record is lost with the file.
        client.sleep(Duration::from_secs(2)).await;
        client.load("a", 3, Off, None).await;
    });
    sim.end_life(Death::PowerCut);
    let log = files(&sim, "/store/wal").remove(0);
    sim.fs.remove_file(&log).unwrap();
    refused(&mut sim, &log);
    assert!(matches!(repair(&mut sim)[..], [Loss::File { .. }, ..]));
    sim.try_open().unwrap().unwrap();
    let id = sim.engine().target("d", "a").unwrap().id();
    let table = sim.engine().snapshot(Freshness::Committed).table(id).unwrap().unwrap();
    assert_eq!(rows::read(&table).unwrap().len(), 3, "what is in files stays");
}
