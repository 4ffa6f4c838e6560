//! Looks keys up in a segment.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use freshet_base::ColumnId;
use freshet_base::budget::{Budget, Permit};
use freshet_base::task::PoolRef;
use freshet_meta::KeyPartMeta;

use super::block::Block;
use super::directory::Directory;
use super::{filter, index};
use crate::error::{Error, Result};
use crate::segment::checksum::crc32c;
use crate::segment::footers::WaitMode;
use crate::segment::store::{KeptFile, SegmentAccess};

/// Those in front of a stored row.
const CHECKSUM_BYTES: usize = 4;
/// The most that one read of stored rows takes.
const SPAN_BYTES: u64 = 256 << 10;
/// What is read between two stored rows, rather than to read once more.
const GAP_BYTES: u64 = 4 << 10;
/// Blocks or pages that are read at once.
pub(super) const READS_MAX: usize = 64;

/// A key that rows of the segment have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its index among the keys that were asked for.
    pub at: usize,
    /// The rows, which may be dead.
    pub rows: Range<u32>,
    /// Where the last of them is stored.
    pub stored: Option<StoredRow>,
}

/// Where in the file of a segment an encoded row is, behind its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredRow {
    start: u64,
    bytes: u32,
}

/// A value that rows of the segment have, in the part of an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundValue {
    /// Its index among the values that were asked for.
    pub at: usize,
    /// The rows, ascending, which may be dead.
    pub rows: Vec<u32>,
}

/// The keys of a segment. What is not in memory is read when it is needed, and checked.
pub struct KeyPart {
    access: Arc<SegmentAccess>,
    path: PathBuf,
    meta: KeyPartMeta,
    pub(super) directory: Directory,
    /// The pages of the filter; `None` to read each when it is needed.
    pub(super) filter: Option<Bytes>,
    /// The memory of the filter.
    permit: Option<Permit>,
    file: Option<KeptFile>,
    /// Its number in the cache of blocks, which has it from the time on that it is kept.
    number: Option<u64>,
}

impl KeyPart {
    /// Reads the directory of a segment's keys.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn open(
        access: &Arc<SegmentAccess>,
        path: &Path,
        meta: KeyPartMeta,
        wait_mode: WaitMode,
    ) -> Result<Self> {
        let (access, path) = (Arc::clone(access), path.to_path_buf());
        let (directory, file) = (Directory::default(), None);
        let mut part =
            Self { access, path, meta, directory, filter: None, permit: None, file, number: None };
        let start = meta.bytes.checked_sub(meta.directory_bytes.into());
        let start =
            start.ok_or_else(|| part.damaged(0, "the directory is longer than the keys"))?;
        let bytes = part.read_range(start..meta.bytes, wait_mode).await?;
        if crc32c(&bytes) != meta.directory_checksum {
            return Err(part.damaged(start, "the checksum of the directory of keys differs"));
        }
        let directory = Directory::decode(&bytes, meta.bytes);
        part.directory = directory.map_err(|what| part.damaged(start, what))?;
        Ok(part)
    }

    /// Keeps the file open, if it may, and blocks that look-ups read.
    pub fn keep_open(&mut self) {
        self.file = self.access.keep_open(&self.path);
        self.number = Some(self.access.footers.number());
    }

    /// Reads the filter into memory, unless none is left.
    ///
    /// # Errors
    /// Those of [`Self::load_filter`].
    pub async fn load_filter_within(&mut self, memory: &Budget, wait_mode: WaitMode) -> Result<()> {
        self.permit = memory.try_acquire(self.filter_bytes());
        match self.permit {
            Some(_) => self.load_filter(wait_mode).await,
            None => Ok(()),
        }
    }

    /// Reads the filter into memory.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn load_filter(&mut self, wait_mode: WaitMode) -> Result<()> {
        let end = self.page(self.directory.filter_pages as usize).start;
        let range = self.directory.filter_start..end;
        let bytes = self.read_range(range, wait_mode).await?;
        for (at, page) in bytes.chunks(filter::PAGE_BYTES).enumerate() {
            self.check_page(at, page)?;
        }
        self.filter = Some(bytes);
        Ok(())
    }

    /// The memory that its filter takes when it is loaded.
    pub fn filter_bytes(&self) -> u64 {
        u64::from(self.directory.filter_pages) * filter::PAGE_BYTES as u64
    }

    /// The number of rows.
    pub fn rows(&self) -> u32 {
        self.directory.rows()
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.directory.memory_bytes() + self.filter.as_ref().map_or(0, Bytes::len) as u64
    }

    /// The keys that rows of the segment have, in the order of `keys`, which are sorted.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn look_up(&self, keys: &[&[u8]], wait_mode: WaitMode) -> Result<Vec<Found>> {
        if let ([key], Some(_)) = (keys, &self.filter) {
            return Ok(self.look_up_one(key, wait_mode).await?.into_iter().collect());
        }
        assert!(keys.is_sorted(), "keys are looked up in their order");
        let candidates = self.candidates(keys, wait_mode).await?;
        let blocks = self.by_block(&candidates, keys);
        let mut found = Vec::new();
        for blocks in blocks.chunks(READS_MAX) {
            let read = self.checked_blocks(blocks.iter().map(|(at, _)| *at), wait_mode).await?;
            for (&(number, candidates), bytes) in blocks.iter().zip(&read) {
                let block = Block::checked(bytes, self.directory.stores_rows());
                let mut search = block.search();
                found.extend(candidates.iter().filter_map(|&at| {
                    let in_block = search.find(keys[at])?;
                    Some(self.found(at, (number, &block), in_block))
                }));
            }
        }
        Ok(found)
    }

    /// As [`Self::look_up`], of one key, for which most look-ups are.
    async fn look_up_one(&self, key: &[u8], wait_mode: WaitMode) -> Result<Option<Found>> {
        if !self.may_have_key(key) {
            return Ok(None);
        }
        let number = self.directory.block_of(key);
        let bytes = match self.kept_block(number) {
            Some(bytes) => bytes,
            None => self.checked_blocks(std::iter::once(number), wait_mode).await?.swap_remove(0),
        };
        let block = Block::checked(&bytes, self.directory.stores_rows());
        let in_block = block.search().find(key);
        Ok(in_block.map(|in_block| self.found(0, (number, &block), in_block)))
    }

    /// The key with this number, which these rows of a block have.
    fn found(
        &self,
        at: usize,
        (number, block): (usize, &Block<'_>),
        in_block: Range<u32>,
    ) -> Found {
        let stored = block.stored(in_block.end - 1);
        let stored = stored.and_then(|stored| self.stored(number, stored));
        let first = self.directory.rows_of(number).start;
        Found { at, rows: first + in_block.start..first + in_block.end, stored }
    }

    /// The bytes of a block if they are kept in memory.
    fn kept_block(&self, block: usize) -> Option<Bytes> {
        self.access.blocks.get(self.number?, block)
    }

    /// Opens the part of the index of these columns; `None` if the segment has none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn index(&self, columns: &[ColumnId], wait_mode: WaitMode) -> Result<Option<Self>> {
        let found = self.directory.indexes.iter().find(|(of, _)| of == columns);
        let Some((_, part)) = found else { return Ok(None) };
        let index = self.open_index(*part, wait_mode).await?;
        if index.rows() != self.rows() {
            let what = format!("an index has {} rows, not {}", index.rows(), self.rows());
            return Err(self.damaged(part.start, what));
        }
        Ok(Some(index))
    }

    async fn open_index(&self, part: KeyPartMeta, wait_mode: WaitMode) -> Result<Self> {
        let start = self.meta.start.checked_add(part.start);
        let start = start.ok_or_else(|| self.damaged(0, "an index is beyond every file"))?;
        let meta = KeyPartMeta { start, ..part };
        Self::open(&self.access, &self.path, meta, wait_mode).await
    }

    /// The values that rows of the segment have, in the order of `values`, which are sorted; of the
    /// part of an index.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn look_up_values(
        &self,
        values: &[&[u8]],
        wait_mode: WaitMode,
    ) -> Result<Vec<FoundValue>> {
        assert!(values.is_sorted(), "values are looked up in their order");
        // Numbers of rows stand behind values, so the least entry is above its value.
        let (min, max) = (self.directory.min.as_slice(), self.directory.max.as_slice());
        let from = values.partition_point(|value| *value < min && !min.starts_with(value));
        let to = values.partition_point(|value| *value <= max);
        let candidates = self.may_have(from..to.max(from), values, wait_mode).await?;
        let blocks = self.by_block(&candidates, values);
        let mut found = Vec::new();
        for blocks in blocks.chunks(READS_MAX) {
            let places = blocks.iter().map(|(number, _)| self.directory.block(*number)).collect();
            let read = self.read(places, wait_mode).await?;
            for (&(number, candidates), bytes) in blocks.iter().zip(&read) {
                for &at in candidates {
                    let mut rows = Vec::new();
                    let (mut number, mut bytes) = (number, bytes.clone());
                    while self.rows_of_value(number, &bytes, values[at], &mut rows)?
                        && number + 1 < self.directory.blocks()
                    {
                        number += 1;
                        bytes = self.read_range(self.directory.block(number), wait_mode).await?;
                    }
                    if !rows.is_empty() {
                        found.push(FoundValue { at, rows });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Adds the rows that have a value in a block, and says whether the next one may have more.
    fn rows_of_value(
        &self,
        number: usize,
        bytes: &[u8],
        value: &[u8],
        rows: &mut Vec<u32>,
    ) -> Result<bool> {
        let place = self.directory.block(number).start;
        let count = self.directory.rows_of(number);
        let block = Block::open(bytes, count.end - count.start, false)
            .map_err(|what| self.damaged(place, what))?;
        let (entries, goes_on) = block.with_beginning(value);
        for entry in entries {
            let row = index::split(&entry).filter(|(value, _)| value.is_empty());
            let row = row.filter(|(_, row)| *row < self.rows());
            let (_, row) = row.ok_or_else(|| self.damaged(place, "an entry is of no row"))?;
            rows.push(row);
        }
        Ok(goes_on)
    }

    /// The values of a block of an index, each with a row that has it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn block_values(
        &self,
        at: usize,
        wait_mode: WaitMode,
    ) -> Result<Vec<(Vec<u8>, u32)>> {
        let place = self.directory.block(at).start;
        let value = |(entry, _): (Vec<u8>, Range<u32>)| {
            let found = index::split(&entry).filter(|(_, row)| *row < self.rows());
            let (value, row) = found.ok_or_else(|| self.damaged(place, "an entry is of no row"))?;
            Ok((value.to_vec(), row))
        };
        self.block_keys(at, wait_mode).await?.into_iter().map(value).collect()
    }

    /// The columns of the indexes of the segment.
    pub fn indexes(&self) -> impl Iterator<Item = &[ColumnId]> {
        self.directory.indexes.iter().map(|(columns, _)| columns.as_slice())
    }

    /// Numbers of keys by the block that has these if the segment does, with its number.
    fn by_block<'c>(&self, candidates: &'c [usize], keys: &[&[u8]]) -> Vec<(usize, &'c [usize])> {
        let (mut of_blocks, mut rest) = (Vec::new(), candidates);
        while let Some(first) = rest.first() {
            let block = self.directory.block_of(keys[*first]);
            // They are in the order of keys, so those of the block follow.
            let end = self.directory.end_of(block);
            let is_here = |candidate: &&usize| end.is_none_or(|end| keys[**candidate] < end);
            let others = rest[1..].iter().take_while(is_here).count();
            let (here, behind) = rest.split_at(1 + others);
            of_blocks.push((block, here));
            rest = behind;
        }
        of_blocks
    }

    /// Reads all of the part, blocking, and verifies every byte.
    ///
    /// # Errors
    /// The first damage found; [`Error::Io`].
    pub async fn verify(&self) -> Result<()> {
        for at in 0..self.directory.blocks() {
            self.block_keys(at, WaitMode::Blocking).await?;
        }
        let padding = self.directory.blocks_end()..self.directory.filter_start;
        let zeros = self.read_range(padding.clone(), WaitMode::Blocking).await?;
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(self.damaged(padding.start, "what stands before the filter is not zero"));
        }
        for at in 0..self.directory.filter_pages as usize {
            let page = self.read_range(self.page(at), WaitMode::Blocking).await?;
            self.check_page(at, &page)?;
        }
        for (_, part) in &self.directory.indexes {
            let index = self.open_index(*part, WaitMode::Blocking).await?;
            Box::pin(index.verify()).await?;
        }
        Ok(())
    }

    /// The pool with the threads for reads; `None` without any.
    pub fn pool(&self) -> Option<PoolRef> {
        self.access.pool()
    }

    /// Whether there are keys, and not indexes alone.
    pub fn has_keys(&self) -> bool {
        self.directory.rows_alone.is_none()
    }

    /// The number of blocks of keys.
    pub fn blocks(&self) -> usize {
        self.directory.blocks()
    }

    /// The keys of a block in their order, with the rows that have them.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn block_keys(
        &self,
        at: usize,
        wait_mode: WaitMode,
    ) -> Result<Vec<(Vec<u8>, Range<u32>)>> {
        let bytes = self.read_range(self.directory.block(at), wait_mode).await?;
        let rows = self.directory.rows_of(at);
        let block = self.open_block(at, &bytes)?;
        let in_segment =
            |(key, of): (Vec<u8>, Range<u32>)| (key, rows.start + of.start..rows.start + of.end);
        Ok(block.keys().map(in_segment).collect())
    }

    /// The encoded rows at places that a look-up has found. Those that are near each other are read
    /// at once.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn stored_rows(
        &self,
        places: &[StoredRow],
        wait_mode: WaitMode,
    ) -> Result<Vec<Bytes>> {
        if let [place] = places {
            let range = self.stored_range(*place)?;
            let read = self.read_file(Vec::from([range]), wait_mode).await;
            let read = read.map_err(|error| self.unread(place.start, error))?;
            return read.into_iter().map(|bytes| self.checked(*place, bytes)).collect();
        }
        let mut spans = Vec::<Range<u64>>::new();
        let mut span_of = Vec::with_capacity(places.len());
        for place in places {
            let range = self.stored_range(*place)?;
            match spans.last_mut() {
                Some(span)
                    if (span.end..=span.end + GAP_BYTES).contains(&range.start)
                        && range.end - span.start <= SPAN_BYTES =>
                {
                    span.end = range.end;
                }
                _ => spans.push(range.clone()),
            }
            span_of.push(spans.len() - 1);
        }
        let starts = spans.iter().map(|span| span.start).collect::<Vec<_>>();
        let at = starts.first().copied().unwrap_or_default();
        let read = self.read_file(spans, wait_mode).await;
        let read = read.map_err(|error| self.unread(at, error))?;
        let rows = places.iter().zip(span_of).map(|(place, span)| {
            let from = (place.start - starts[span]) as usize;
            self.checked(*place, read[span].slice(from..from + place.bytes as usize))
        });
        rows.collect()
    }

    /// Where a stored row is in the file.
    fn stored_range(&self, at: StoredRow) -> Result<Range<u64>> {
        let end = at.start.checked_add(at.bytes.into());
        let end = end.filter(|end| *end <= self.meta.start);
        let what = "a stored row is not in front of the keys";
        Ok(at.start..end.ok_or_else(|| Error::corruption(&self.path, at.start, what))?)
    }

    /// A stored row without its checksum.
    fn checked(&self, at: StoredRow, mut bytes: Bytes) -> Result<Bytes> {
        let damaged = |what: &str| Error::corruption(&self.path, at.start, what);
        if bytes.len() <= CHECKSUM_BYTES {
            return Err(damaged("a stored row is too short"));
        }
        let (checksum, row) = bytes.split_at(CHECKSUM_BYTES);
        if crc32c(row).to_le_bytes() != checksum {
            return Err(damaged("the checksum of a stored row differs"));
        }
        // Unlike to split them, this allocates nothing.
        bytes.advance(CHECKSUM_BYTES);
        Ok(bytes)
    }

    /// Whether rows are stored beside their keys.
    pub fn stores_rows(&self) -> bool {
        self.directory.stores_rows()
    }

    /// The bytes of blocks of keys, checked now or when they were read.
    async fn checked_blocks(
        &self,
        numbers: impl Iterator<Item = usize>,
        wait_mode: WaitMode,
    ) -> Result<Vec<Bytes>> {
        let mut blocks = numbers.map(|block| (block, self.kept_block(block))).collect::<Vec<_>>();
        let missing = || blocks.iter().filter(|(_, bytes)| bytes.is_none());
        let places = missing().map(|(block, _)| self.directory.block(*block)).collect::<Vec<_>>();
        if !places.is_empty() {
            let mut read = self.read(places, wait_mode).await?.into_iter();
            for (block, bytes) in blocks.iter_mut().filter(|(_, bytes)| bytes.is_none()) {
                let new = read.next().expect("each range is read");
                self.open_block(*block, &new)?;
                if let Some(number) = self.number {
                    self.access.blocks.keep(number, *block, new.clone());
                }
                *bytes = Some(new);
            }
        }
        let bytes = blocks.into_iter().map(|(_, bytes)| bytes.expect("what was missing is read"));
        Ok(bytes.collect())
    }

    pub(super) fn open_block<'a>(&self, at: usize, bytes: &'a [u8]) -> Result<Block<'a>> {
        let rows = self.directory.rows_of(at);
        Block::open(bytes, rows.end - rows.start, self.directory.stores_rows())
            .map_err(|what| self.damaged(self.directory.block(at).start, what))
    }

    /// Where a stored row of a block is; `None` beyond every file.
    fn stored(&self, block: usize, stored: Range<u32>) -> Option<StoredRow> {
        let start = self.directory.stored_starts.get(block)?;
        let start = start.checked_add(stored.start.into())?;
        Some(StoredRow { start, bytes: stored.end - stored.start })
    }

    /// How many keys the filter lets through.
    #[cfg(test)]
    pub(super) async fn candidates_of(&self, keys: &[&[u8]]) -> usize {
        self.candidates(keys, WaitMode::Blocking).await.map_or(0, |candidates| candidates.len())
    }

    /// Where a page of the filter is in the part.
    pub(super) fn page(&self, at: usize) -> Range<u64> {
        let bytes = filter::PAGE_BYTES as u64;
        let start = self.directory.filter_start + at as u64 * bytes;
        start..start + bytes
    }

    pub(super) fn check_page(&self, at: usize, page: &[u8]) -> Result<()> {
        match filter::is_whole(page) {
            true => Ok(()),
            false => {
                let what = "the checksum of a page of the filter differs";
                Err(self.damaged(self.page(at).start, what))
            }
        }
    }

    async fn read_range(&self, range: Range<u64>, wait_mode: WaitMode) -> Result<Bytes> {
        Ok(self.read(Vec::from([range]), wait_mode).await?.swap_remove(0))
    }

    /// Reads ranges of the part.
    pub(super) async fn read(
        &self,
        ranges: Vec<Range<u64>>,
        wait_mode: WaitMode,
    ) -> Result<Vec<Bytes>> {
        let at = ranges.first().map_or(0, |range| range.start);
        let in_file = |range: Range<u64>| {
            let start = self.meta.start.checked_add(range.start)?;
            Some(start..self.meta.start.checked_add(range.end)?)
        };
        let in_file = ranges.into_iter().map(in_file).collect::<Option<Vec<_>>>();
        let in_file = in_file.ok_or_else(|| self.damaged(at, "keys are beyond every file"))?;
        let read = self.read_file(in_file, wait_mode).await;
        read.map_err(|error| self.unread(self.meta.start.saturating_add(at), error))
    }

    /// Reads ranges of the file.
    async fn read_file(
        &self,
        ranges: Vec<Range<u64>>,
        wait_mode: WaitMode,
    ) -> std::io::Result<Vec<Bytes>> {
        let read = self.file.as_ref().and_then(|file| self.access.read_kept(file, &ranges));
        match read {
            Some(read) => Ok(read),
            None => self.access.read(wait_mode, &self.path, ranges).await,
        }
    }

    /// The error of a read at so many bytes from the start of the file.
    fn unread(&self, at: u64, error: std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Error::corruption(&self.path, at, "the file ends in its keys")
            }
            _ => Error::io("read", &self.path, error),
        }
    }

    /// Damage at so many bytes from the start of the part.
    pub(super) fn damaged(&self, at: u64, what: impl Into<String>) -> Error {
        Error::corruption(&self.path, self.meta.start.saturating_add(at), what)
    }
}
