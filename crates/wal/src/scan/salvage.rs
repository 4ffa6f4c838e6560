//! Salvages records around damage below the durable end. Frames can be recognized without the head
//! of their batch and without adjacent frames, so only the damaged ones are lost.

use freshet_base::{BatchIndex, LogPosition, Lsn, Term};

use super::ScanInput;
use super::index::{DamagedBatch, Index};
use crate::checksum::Salt;
use crate::damage::{DamagedRecord, Hole, Place, ScanError};
use crate::file::LogFile;
use crate::head::Head;
use crate::reader::{Extent, FileReader, Form};
use crate::record::{BATCH_HEAD_BYTES, FRAME_ALIGN_BYTES, Parsed, parse};
use crate::term::Terms;

/// Maximum number of damaged records that are reported individually.
const DAMAGED_TOLD_MAX: usize = 1000;

/// The result of a search, in LSN order.
#[derive(Default)]
pub(super) struct Salvage {
    pub extents: Vec<Extent>,
    pub damaged: Vec<DamagedRecord>,
}

/// A region to search for frames of a batch.
#[derive(Clone, Copy)]
struct Region {
    file: usize,
    begin: usize,
    end: usize,
    lsns: Hole,
    index: BatchIndex,
    term: Term,
    time_micros: i64,
}

/// Searches for the readable records in `hole` that are not in accepted holes: in batches with a
/// valid head, and in those before a valid head, which names their term. The latter head is `next`,
/// which follows the hole, or that of any batch with damaged records.
pub(super) fn search(
    hole: Hole,
    next: Option<&Head>,
    (input, index, terms, reader): (&ScanInput<'_>, &Index, &Terms, &mut FileReader),
) -> Result<Salvage, ScanError> {
    let mut regions = damaged_regions(hole, index);
    let damaged = index.damaged.iter().map(|damaged| damaged.found.head);
    let mut heads = damaged.filter(|head| head.first > hole.first).collect::<Vec<_>>();
    heads.extend(next.copied());
    heads.sort_by_key(|head| head.first);
    let mut first = hole.first;
    for head in heads {
        let lsns = Hole { first, last: hole.last.min(Lsn(head.first.get() - 1)) };
        if lsns.first <= lsns.last {
            regions.extend(free_regions(index, input.files, (&head, lsns)));
        }
        first = first.max(head.last().next());
    }
    regions.sort_by_key(|region| (region.file, region.begin));
    let mut salvage = Salvage::default();
    let mut loaded = None;
    for region in regions {
        if loaded != Some(region.file) {
            reader.load(&input.files[region.file], false)?;
            loaded = Some(region.file);
        }
        let Some(salt) = terms.salt(region.term) else { continue };
        let file = &input.files[region.file];
        salvage.region(&region, input.accepted_holes, (reader.bytes(), file, &salt));
    }
    salvage.extents.sort_by_key(|extent| (extent.first, extent.file, extent.offset));
    let mut before = Lsn(hole.first.get() - 1);
    salvage.extents.retain(|extent| {
        let is_new = extent.first > before;
        before = before.max(extent.last.lsn);
        is_new
    });
    salvage.damaged.sort_by_key(|record| record.lsn);
    Ok(salvage)
}

/// The bodies of damaged batches with valid heads.
fn damaged_regions(hole: Hole, index: &Index) -> Vec<Region> {
    let inside = index.damaged.iter().filter(|damaged| {
        damaged.found.head.first <= hole.last && damaged.found.head.last() >= hole.first
    });
    let region = |damaged: &DamagedBatch| Region {
        file: damaged.file,
        begin: damaged.found.offset + BATCH_HEAD_BYTES,
        end: damaged.found.offset + damaged.found.head.batch_bytes(),
        lsns: hole,
        index: damaged.found.head.index,
        term: damaged.found.head.term,
        time_micros: damaged.found.head.time_micros,
    };
    inside.map(region).collect()
}

/// The parts of files that belong to no batch with a valid head, to be searched for the batch
/// before `next`. Its time is unknown; that of `next` is later, so no label expires too early.
fn free_regions(index: &Index, files: &[LogFile], (next, lsns): (&Head, Hole)) -> Vec<Region> {
    let (term, time_micros) = (next.previous, next.time_micros);
    let mut regions = Vec::new();
    for (file, log_file) in files.iter().enumerate() {
        let whole = index.runs.iter().filter(|run| run.file == file);
        let damaged = index.damaged.iter().filter(|damaged| damaged.file == file);
        let mut taken = whole.map(|run| (run.offset, run.end)).collect::<Vec<_>>();
        taken.extend(damaged.map(|damaged| (damaged.found.offset, damaged.found.end())));
        taken.sort_unstable();
        let mut begin = 0;
        for (offset, end) in taken.into_iter().chain([(log_file.bytes as usize, usize::MAX)]) {
            if begin < offset {
                let (end, index) = (offset, next.previous_index());
                regions.push(Region { file, begin, end, lsns, index, term, time_micros });
            }
            begin = begin.max(end);
        }
    }
    regions
}

impl Salvage {
    /// Searches a region for frames, whose LSNs ascend within a file.
    fn region(
        &mut self,
        region: &Region,
        accepted_holes: &[Hole],
        (bytes, log_file, salt): (&[u8], &LogFile, &Salt),
    ) {
        let bytes = &bytes[..region.end.min(bytes.len())];
        let (mut at, mut before) = (region.begin, Lsn(region.lsns.first.get() - 1));
        let mut open: Option<Extent> = None;
        while at < bytes.len() {
            let (header, stamp) = match parse(&bytes[at..], salt) {
                Parsed::Frame(frame) => (frame.header, None),
                Parsed::DamagedPayload { header, stamp } => (header, Some(stamp)),
                Parsed::Nothing => {
                    at += FRAME_ALIGN_BYTES;
                    continue;
                }
            };
            let (lsn, offset) = (header.lsn, at);
            at += header.frame_bytes();
            let is_wanted = region.lsns.contains(lsn) && !Hole::any(accepted_holes, lsn);
            if lsn <= before || !is_wanted {
                continue;
            }
            before = lsn;
            if let Some(stamp) = stamp {
                let place = Place { file: log_file.clone(), offset: offset as u64 };
                let (kind, stamp) = (header.kind, stamp.to_vec());
                if self.damaged.len() < DAMAGED_TOLD_MAX {
                    self.damaged.push(DamagedRecord { lsn, kind, stamp, place });
                }
                continue;
            }
            match &mut open {
                Some(extent) if extent.last.lsn.next() == lsn && extent.end == offset => {
                    (extent.last.lsn, extent.end) = (lsn, at);
                }
                _ => {
                    let Region { file, index, term, time_micros, .. } = *region;
                    let last = LogPosition { lsn, index, term };
                    let form = Form::Frames { time_micros };
                    let extent = Extent { file, offset, end: at, first: lsn, last, form };
                    self.extents.extend(open.replace(extent));
                }
            }
        }
        self.extents.extend(open);
    }
}
