//! Prepares the end of the log at startup, before anything is written there.

use std::cmp::Reverse;

use freshet_base::Lsn;
use freshet_base::io::Mode;

use super::ScanInput;
use super::index::Index;
use crate::BLOCK_BYTES;
use crate::buffer::AlignedBuffer;
use crate::damage::ScanError;
use crate::file::LogFile;
use crate::reader::{FileReader, Walk};
use crate::term::Terms;

/// A batch after the end of the log.
#[derive(Clone, Copy)]
pub(super) struct Remains {
    file: usize,
    offset: usize,
    first: Lsn,
}

/// The batches after `end` with a readable head, last first.
pub(super) fn remains(
    input: &ScanInput<'_>,
    index: &Index,
    end: Lsn,
    terms: &Terms,
    reader: &mut FileReader,
) -> Result<Vec<Remains>, ScanError> {
    let torn = index.damaged.iter().filter(|damaged| damaged.found.head.last() > end);
    let mut remains = torn
        .map(|damaged| Remains {
            file: damaged.file,
            offset: damaged.found.offset,
            first: damaged.found.head.first,
        })
        .collect::<Vec<_>>();
    for run in index.runs.iter().filter(|run| run.last.last() > end) {
        reader.load(&input.files[run.file], false)?;
        let bytes = &reader.bytes()[..run.end];
        let walk = Walk { bytes, at: run.offset, terms, recycled_to: end };
        remains.extend(walk.map(|found| Remains {
            file: run.file,
            offset: found.offset,
            first: found.head.first,
        }));
    }
    remains.sort_by_key(|batch| Reverse(batch.first));
    Ok(remains)
}

/// Removes batches from the log permanently by zeroing the block of each head. It starts with the
/// last batch, so that after a crash the remaining ones are still found from their beginning.
pub(super) fn cut_off(
    files: &[LogFile],
    remains: &[Remains],
    reader: &FileReader,
) -> Result<(), ScanError> {
    let mut zeros = AlignedBuffer::new(BLOCK_BYTES as usize);
    zeros.push_zeros(BLOCK_BYTES as usize);
    for batch in remains {
        let log_file = &files[batch.file];
        let failed = |source| ScanError::of_io(log_file, source);
        let file = reader.fs().open(&log_file.path, Mode::Direct).map_err(failed)?;
        file.write_all_at(zeros.bytes(), batch.offset as u64).map_err(failed)?;
        file.sync().map_err(failed)?;
    }
    Ok(())
}

/// Rewrites the last batch if nothing records that it was durable. An interrupted write may be
/// readable without being on the device; what is replayed and returned to clients must be durable.
pub(super) fn write_again(
    files: &[LogFile],
    unsure: Option<(usize, usize, usize)>,
    reader: &mut FileReader,
) -> Result<(), ScanError> {
    let Some((file, begin, end)) = unsure else { return Ok(()) };
    let log_file = &files[file];
    reader.load(log_file, false)?;
    let failed = |source| ScanError::of_io(log_file, source);
    let file = reader.fs().open(&log_file.path, Mode::Direct).map_err(failed)?;
    file.write_all_at(&reader.bytes()[begin..end], begin as u64).map_err(failed)?;
    file.sync().map_err(failed)
}
