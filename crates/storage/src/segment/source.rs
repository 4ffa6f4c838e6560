//! Bytes of a segment that were checked before anybody looks at them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use freshet_base::io::{FileRef, FsRef, Mode};
use freshet_meta::SegmentMeta;
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use super::checksum::{BLOCK_BYTES, Blocks, crc32c};
use super::{FORMAT_VERSION, keys};
use crate::error::{Error, Result};

/// No footer part is longer: it takes some bytes for each page of each column.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

/// What a segment's footer part says.
#[derive(Debug)]
pub(super) struct Footer {
    pub parquet: Arc<ParquetMetaData>,
    blocks: Blocks,
}

impl Footer {
    /// Reads and checks the footer part of `file`.
    pub fn read(file: &FileRef, path: &Path, meta: &SegmentMeta) -> Result<Self> {
        let len = file.len_bytes().map_err(|error| Error::io("measure", path, error))?;
        if len != meta.bytes {
            let what = format!("it is {len} bytes long and was written with {}", meta.bytes);
            return Err(Error::corruption(path, len.min(meta.bytes), what));
        }
        let footer_bytes = meta.bytes.saturating_sub(meta.data_bytes);
        if footer_bytes > FOOTER_BYTES_MAX {
            let what = format!("a footer of {footer_bytes} bytes is longer than any");
            return Err(Error::corruption(path, meta.data_bytes, what));
        }
        let mut bytes = vec![0; footer_bytes as usize];
        file.read_exact_at(&mut bytes, meta.data_bytes)
            .map_err(|error| Error::io("read the footer of", path, error))?;
        if crc32c(&bytes) != meta.footer_checksum {
            let what = "the checksum of the footer differs";
            return Err(Error::corruption(path, meta.data_bytes, what));
        }
        Self::parse(bytes.into(), meta.data_bytes)
            .map_err(|what| Error::corruption(path, meta.data_bytes, what))
    }

    fn parse(bytes: Bytes, data_bytes: u64) -> Result<Self, String> {
        let part = Part { start: data_bytes, bytes };
        let parquet = parse_parquet(&part).map_err(|error| error.to_string())?;
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
            .and_then(|text| Blocks::decode(text, data_bytes))
            .ok_or("the footer has no checksums of the data")?;
        Ok(Self { parquet: Arc::new(parquet), blocks })
    }

    /// Reads `range`, widened to whole blocks and checked; returns where the bytes begin.
    pub fn read_data(
        &self,
        file: &FileRef,
        path: &Path,
        range: Range<u64>,
        data_bytes: u64,
    ) -> Result<(u64, Bytes)> {
        let block = BLOCK_BYTES as u64;
        let start = range.start / block * block;
        let end = (range.end.div_ceil(block) * block).min(data_bytes);
        if range.end > end || start >= end {
            let what = format!("the footer names bytes {range:?} of {data_bytes}");
            return Err(Error::corruption(path, data_bytes, what));
        }
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start).map_err(|error| Error::io("read", path, error))?;
        match self.blocks.first_bad((start / block) as usize, &bytes) {
            None => Ok((start, bytes.into())),
            Some(bad) => {
                let what = format!("the checksum of block {bad} differs");
                Err(Error::corruption(path, bad as u64 * block, what))
            }
        }
    }
}

/// Reads Parquet's metadata and page indexes. The checksum of the footer part stands before this:
/// the Parquet crate reads what a segment's writer wrote, never other bytes.
fn parse_parquet(part: &Part) -> Result<ParquetMetaData, ParquetError> {
    let required = PageIndexPolicy::Required;
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(required);
    reader.try_parse(part)?;
    reader.finish()
}

/// The end of a file, as if the rest were there.
struct Part {
    start: u64,
    bytes: Bytes,
}

impl Length for Part {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Part {
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

/// The data of a segment for one scan: reads ahead within each column, checks what it reads.
pub(super) struct Source {
    pub file: FileRef,
    pub path: PathBuf,
    pub footer: Arc<Footer>,
    pub data_bytes: u64,
    /// The column chunks that are read, in file order.
    pub chunks: Vec<Chunk>,
    /// At least so many bytes are read at once, as far as the column chunk goes.
    pub read_ahead_bytes: u64,
    /// The last bytes read, by column.
    pub windows: Mutex<Vec<(u64, Bytes)>>,
    /// Parquet hands errors on as text; the first one is kept here as it was.
    pub failure: Arc<Mutex<Option<Error>>>,
}

/// A column chunk.
pub(super) struct Chunk {
    pub bytes: Range<u64>,
    /// Which window it uses.
    pub window: usize,
}

impl Source {
    fn chunk(&self, at: u64) -> Result<&Chunk> {
        let next = self.chunks.partition_point(|chunk| chunk.bytes.start <= at);
        let chunk = next.checked_sub(1).map(|index| &self.chunks[index]);
        chunk
            .filter(|chunk| at < chunk.bytes.end)
            .ok_or_else(|| Error::corruption(&self.path, at, "a page lies outside its column"))
    }

    fn read(&self, start: u64, length: usize) -> Result<Bytes> {
        let chunk = self.chunk(start)?;
        let end = start + length as u64;
        if let Some(bytes) = slice(&self.windows.lock()[chunk.window], start, end) {
            return Ok(bytes);
        }
        let ahead = (start + self.read_ahead_bytes).min(chunk.bytes.end).max(end);
        let window =
            self.footer.read_data(&self.file, &self.path, start..ahead, self.data_bytes)?;
        let bytes = slice(&window, start, end).expect("what was read covers what was asked for");
        self.windows.lock()[chunk.window] = window;
        Ok(bytes)
    }

    fn fail(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.failure.lock().get_or_insert(error);
        ParquetError::General(text)
    }
}

fn slice((at, bytes): &(u64, Bytes), start: u64, end: u64) -> Option<Bytes> {
    let from = start.checked_sub(*at)?;
    let to = end.checked_sub(*at)?;
    (to <= bytes.len() as u64).then(|| bytes.slice(from as usize..to as usize))
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.data_bytes
    }
}

impl ChunkReader for Source {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let end = self.chunk(start).map_err(|error| self.fail(error))?.bytes.end;
        Ok(self.get_bytes(start, (end - start) as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.read(start, length).map_err(|error| self.fail(error))
    }
}

/// Opens a file that is to be read.
pub(super) fn open(fs: &FsRef, path: &Path) -> Result<FileRef> {
    fs.open(path, Mode::Read).map_err(|error| Error::io("open", path, error))
}
