//! Assembles the chain of batches: each names the previous batch's term, and continues its LSN and
//! index. A batch that does not follow the chain is not part of the log.

use std::cmp::Reverse;

use freshet_base::{LogPosition, Lsn};

use super::index::{BatchRun, Index, durable_known};
use super::salvage::{self, Salvage};
use super::{FileState, LiveRecords, ScanInput};
use crate::damage::{Corruption, Hole, Place, ScanError};
use crate::file::{LogFile, next_block};
use crate::head::Head;
use crate::reader::{Extent, FileReader, Form};
use crate::term::Terms;

/// The log: consecutive extents up to its end.
pub(super) struct Log {
    pub extents: Vec<Extent>,
    pub end: LogPosition,
    pub durable: Lsn,
    /// The highest LSN whose durability is recorded by something that remains when the batches
    /// after the end are removed.
    pub durable_recorded: Lsn,
    pub time_micros: Option<i64>,
    pub without_head: Vec<Hole>,
    /// The last batch, if nothing records that it was durable: file, begin and end.
    pub unsure: Option<(usize, usize, usize)>,
    /// The used length of each file.
    used: Vec<usize>,
}

impl Log {
    /// The end of the log, or of the part that was found.
    pub fn place(&self, files: &[LogFile]) -> Option<Place> {
        let last = self.extents.last()?;
        Some(Place { file: files[last.file].clone(), offset: last.end as u64 })
    }

    pub fn file_states(&self, files: &[LogFile]) -> Vec<FileState> {
        let state = |(at, file): (usize, &LogFile)| {
            let mut of_file = self.extents.iter().filter(|extent| extent.file == at);
            let live = of_file.next().map(|extent| {
                let last = of_file.next_back().unwrap_or(extent);
                let used_bytes = self.used[at] as u64;
                assert!(used_bytes >= last.end as u64, "what is used holds all that was read");
                LiveRecords { first: extent.first, last: last.last, used_bytes }
            });
            FileState { file: file.clone(), live, leaving: false }
        };
        files.iter().enumerate().map(state).collect()
    }

    fn push(&mut self, extent: Extent) {
        assert!(extent.first > self.end.lsn, "extents follow each other");
        self.used[extent.file] = self.used[extent.file].max(next_block(extent.end as u64) as usize);
        self.end = extent.last;
        self.extents.push(extent);
    }

    fn push_run(&mut self, run: &BatchRun) {
        let BatchRun { file, offset, end, first, last, last_offset, ends_idle } = *run;
        let (first, last_position) = (first.first, last.position());
        self.push(Extent { file, offset, end, first, last: last_position, form: Form::Batches });
        self.time_micros = self.time_micros.max(Some(last.time_micros));
        // A batch of only idle records needs no later one to record its durability.
        self.durable_recorded =
            self.durable_recorded.max(if ends_idle { last.last() } else { last.durable });
        self.unsure = (last.last() > self.durable).then_some((file, last_offset, end));
    }
}

/// Orders the batches, up to the first missing record.
pub(super) fn assemble(
    input: &ScanInput<'_>,
    index: &Index,
    terms: &Terms,
    reader: &mut FileReader,
) -> Result<Log, ScanError> {
    let mut log = Log {
        extents: Vec::new(),
        end: input.recycled,
        durable: index.durable(input),
        durable_recorded: durable_known(input),
        time_micros: None,
        without_head: Vec::new(),
        unsure: None,
        used: vec![0; input.files.len()],
    };
    let mut sorted = index.runs.clone();
    sorted.sort_by_key(|run| {
        // Prefers the log itself to copies of it in user data.
        let (first, last) = (run.first, run.last);
        (first.first, Reverse(first.term), Reverse(last.last()), run.file, run.offset)
    });
    for run in &sorted {
        let next = run.first;
        if next.first <= log.end.lsn {
            continue;
        }
        if next.first == log.end.lsn.next() {
            // A batch that does not follow the last one is not part of this log.
            if !next.follows(log.end) {
                continue;
            }
        } else if next.term < log.end.term || next.index <= log.end.index {
            continue;
        } else if log.end.lsn < log.durable {
            let hole = Hole { first: log.end.lsn.next(), last: before(next.first) };
            pass(hole, Some(&next), &mut log, (input, index, terms, reader))?;
        } else {
            break;
        }
        log.push_run(run);
    }
    if log.end.lsn < log.durable {
        log.durable = index.durable_behind(log.end.lsn, log.durable);
        let hole = Hole { first: log.end.lsn.next(), last: log.durable };
        pass(hole, None, &mut log, (input, index, terms, reader))?;
    }
    for damaged in index.damaged.iter().filter(|damaged| damaged.found.head.first <= log.end.lsn) {
        log.time_micros = log.time_micros.max(Some(damaged.found.head.time_micros));
        // Its head defines its length, so nothing may be written inside.
        let end = damaged.found.end().min(input.files[damaged.file].bytes as usize);
        log.used[damaged.file] = log.used[damaged.file].max(end);
    }
    Ok(log)
}

/// Passes `hole`, which is followed by `next` if there is such a batch. Its records must be
/// readable without the head of their batch or next to damaged ones, or their loss accepted by an
/// operator. After the hole the chain continues with the previous batch as named by `next`.
fn pass(
    hole: Hole,
    next: Option<&Head>,
    log: &mut Log,
    (input, index, terms, reader): (&ScanInput<'_>, &Index, &Terms, &mut FileReader),
) -> Result<(), ScanError> {
    let Salvage { extents, damaged } = match unaccepted(hole, input.accepted_holes) {
        Some(_) => salvage::search(hole, next, (input, index, terms, reader))?,
        None => Salvage::default(),
    };
    let corrupt = |log: &Log, hole: Hole| {
        let inside = damaged.iter().filter(|record| hole.contains(record.lsn));
        let damaged: Vec<_> = inside.cloned().collect();
        let of_first = damaged.iter().find(|record| record.lsn == hole.first);
        let place = of_first.map(|record| record.place.clone());
        let place = place.or_else(|| log.place(input.files));
        ScanError::Corruption(Corruption { place, hole, damaged })
    };
    for extent in extents {
        let missing = Hole { first: log.end.lsn.next(), last: before(extent.first) };
        unaccepted(missing, input.accepted_holes).map_or(Ok(()), |hole| Err(corrupt(log, hole)))?;
        if !index.damaged.iter().any(|damaged| damaged.takes(&extent)) {
            log.without_head.push(Hole { first: extent.first, last: extent.last.lsn });
        }
        log.push(extent);
    }
    let missing = Hole { first: log.end.lsn.next(), last: hole.last };
    unaccepted(missing, input.accepted_holes).map_or(Ok(()), |hole| Err(corrupt(log, hole)))?;
    log.end.lsn = hole.last;
    if let Some(next) = next {
        (log.end.index, log.end.term) = (next.previous_index(), next.previous);
    }
    Ok(())
}

/// The first part of `missing` that is not accepted. A pure function.
fn unaccepted(missing: Hole, accepted: &[Hole]) -> Option<Hole> {
    let mut first = missing.first;
    while first <= missing.last {
        match accepted.iter().find(|hole| hole.contains(first)) {
            Some(hole) => first = hole.last.next(),
            None => return Some(Hole { first, last: missing.last }),
        }
    }
    None
}

fn before(lsn: Lsn) -> Lsn {
    Lsn(lsn.get() - 1)
}
