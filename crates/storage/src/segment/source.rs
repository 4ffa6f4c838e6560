//! The footer of a segment, and verified reads of its data.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use freshet_meta::SegmentMeta;
use freshet_schema::{Column, TableSchema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use super::checksum::{BLOCK_BYTES, Blocks, crc32c};
use super::{FORMAT_VERSION, keys};
use crate::error::{Error, Result};

/// Maximum length of a footer part, which has some bytes for each page of each column.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

/// A parsed footer.
pub(super) struct Open {
    pub footer: Footer,
    pub arrow: ArrowReaderMetadata,
    /// The position in the file of each column of the schema it was written in.
    pub places: Vec<usize>,
}

impl Open {
    /// Parses the footer part of a segment written in `schema`.
    ///
    /// # Errors
    /// [`Error::Corruption`].
    pub fn read(
        bytes: Bytes,
        path: &Path,
        meta: &SegmentMeta,
        schema: &TableSchema,
    ) -> Result<Self> {
        let footer = Footer::read(bytes, path, meta)?;
        let damaged = |what: String| Error::corruption(path, meta.footer_start(), what);
        let parquet = Arc::clone(&footer.parquet);
        let arrow = ArrowReaderMetadata::try_new(parquet, ArrowReaderOptions::new())
            .map_err(|error| damaged(error.to_string()))?;
        let places = places(&arrow, schema).map_err(damaged)?;
        Ok(Self { footer, arrow, places })
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.footer.memory_bytes() + (self.places.len() * size_of::<usize>()) as u64
    }

    pub fn parquet(&self) -> &ParquetMetaData {
        &self.footer.parquet
    }
}

/// The position in the file of each column of the schema.
fn places(arrow: &ArrowReaderMetadata, schema: &TableSchema) -> Result<Vec<usize>, String> {
    let descriptor = arrow.parquet_schema();
    let mut by_id = HashMap::new();
    for (place, column) in descriptor.root_schema().get_fields().iter().enumerate() {
        let info = column.get_basic_info();
        if info.has_id() {
            by_id.insert(info.id(), place);
        }
    }
    let find = |column: &Column| {
        let id = column.id.get().cast_signed();
        let place = by_id.get(&id).copied();
        let place = place.ok_or_else(|| format!("column `{}` is not in it", column.name))?;
        let found = arrow.schema().field(place).data_type();
        let expected = column.ty.arrow();
        match *found == expected {
            true => Ok(place),
            false => Err(format!("column `{}` is {found}, not {expected}", column.name)),
        }
    };
    schema.columns.iter().map(find).collect()
}

/// The byte range of a segment's footer part.
pub(super) fn footer_range(path: &Path, meta: &SegmentMeta) -> Result<Range<u64>> {
    let footer_bytes = meta.bytes.saturating_sub(meta.footer_start());
    if footer_bytes > FOOTER_BYTES_MAX {
        let what = format!("a footer of {footer_bytes} bytes is longer than any");
        return Err(Error::corruption(path, meta.footer_start(), what));
    }
    Ok(meta.footer_start()..meta.bytes)
}

/// The contents of a segment's footer part.
#[derive(Debug)]
pub(super) struct Footer {
    pub parquet: Arc<ParquetMetaData>,
    blocks: Blocks,
}

impl Footer {
    /// Verifies and parses a footer part.
    pub fn read(bytes: Bytes, path: &Path, meta: &SegmentMeta) -> Result<Self> {
        let damaged = |what: String| Error::corruption(path, meta.footer_start(), what);
        if crc32c(&bytes) != meta.footer_checksum {
            return Err(damaged("the checksum of the footer differs".to_owned()));
        }
        let footer = Self::parse(bytes, meta).map_err(damaged)?;
        let rows = footer.parquet.file_metadata().num_rows().cast_unsigned();
        match rows == meta.rows {
            true => Ok(footer),
            false => Err(damaged(format!("it holds {rows} rows, metadata says {}", meta.rows))),
        }
    }

    fn parse(bytes: Bytes, meta: &SegmentMeta) -> Result<Self, String> {
        let end = FileEnd { start: meta.footer_start(), bytes };
        let parquet = parse_parquet(&end).map_err(|error| error.to_string())?;
        let pairs = parquet.file_metadata().key_value_metadata();
        let value = |key: &str| {
            let pair = pairs?.iter().find(|pair| pair.key == key)?;
            pair.value.as_deref()
        };
        let format = value(keys::FORMAT).and_then(|text| text.parse::<u32>().ok());
        match format {
            Some(FORMAT_VERSION) => {}
            Some(newer) => return Err(format!("format {newer} is newer than this server")),
            None => return Err("it is not a segment".to_owned()),
        }
        let blocks = value(keys::BLOCKS)
            .and_then(|text| Blocks::decode(text, meta.data_bytes))
            .ok_or("the footer has no checksums of the data")?;
        Ok(Self { parquet: Arc::new(parquet), blocks })
    }

    /// Verifies whole blocks that begin at `start`.
    pub fn check(&self, path: &Path, start: u64, bytes: &[u8]) -> Result<()> {
        match self.blocks.first_bad((start / BLOCK_BYTES as u64) as usize, bytes) {
            None => Ok(()),
            Some(bad) => {
                let what = format!("the checksum of block {bad} differs");
                Err(Error::corruption(path, (bad * BLOCK_BYTES) as u64, what))
            }
        }
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.parquet.memory_size() + self.blocks.memory_bytes()) as u64
    }
}

/// A gap of at most one block between two ranges is read with them.
const GAP_BYTES_MAX: u64 = BLOCK_BYTES as u64;

/// The reads that cover all `ranges` of a segment with `data_bytes` of data: whole blocks, adjacent
/// ones combined, ascending. `None` if a range is outside.
pub(super) fn reads(ranges: &[Range<u64>], data_bytes: u64) -> Option<Vec<Range<u64>>> {
    let block = BLOCK_BYTES as u64;
    let widened = |range: &Range<u64>| {
        let end = (range.end.div_ceil(block) * block).min(data_bytes);
        (range.start < range.end && range.end <= end).then(|| range.start / block * block..end)
    };
    let mut widened = ranges.iter().map(widened).collect::<Option<Vec<_>>>()?;
    widened.sort_unstable_by_key(|range| range.start);
    let mut reads: Vec<Range<u64>> = Vec::new();
    for range in widened {
        match reads.last_mut() {
            Some(last) if range.start <= last.end + GAP_BYTES_MAX => {
                last.end = last.end.max(range.end);
            }
            _ => reads.push(range),
        }
    }
    Some(reads)
}

/// Parses Parquet's metadata and page indexes. The footer part's checksum is verified first, so the
/// Parquet crate only sees bytes that a segment writer wrote.
fn parse_parquet(end: &FileEnd) -> Result<ParquetMetaData, ParquetError> {
    let required = PageIndexPolicy::Required;
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(required);
    reader.try_parse(end)?;
    reader.finish()
}

/// The end of a file, addressed by offsets in the whole file.
struct FileEnd {
    start: u64,
    bytes: Bytes,
}

impl Length for FileEnd {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for FileEnd {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let length = self.len().saturating_sub(start);
        Ok(self.get_bytes(start, length as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let from = start.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let inside = from.and_then(|from| Some(from..from.checked_add(length)?));
        match inside.filter(|inside| inside.end <= self.bytes.len()) {
            Some(inside) => Ok(self.bytes.slice(inside)),
            None => Err(ParquetError::EOF(format!("bytes {start} and on are not in the footer"))),
        }
    }
}
