//! What a Parquet file claims of its sizes, checked before a reader takes memory for it: the shape
//! of the footer, and the header of each page of a column.
//!
//! The reader takes memory for as many values, bytes, children and row groups as headers say, and
//! ends the process where that is not to be had. So each is held against the bytes that are there.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use freshet_base::{Result, bail, err};
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use super::file::FileBytes;
use super::thrift::{BINARY, I32, LIST, STRUCT, Thrift};

/// How much of a page is looked at for its header, first and at most.
const HEADER_BYTES: u64 = 1 << 10;
const HEADER_BYTES_MAX: u64 = 4 << 20;
/// Row groups of a file: their numbers have 16 bits.
const GROUPS_MAX: usize = 1 << 15;
/// How deep columns may be nested, also those that are not loaded.
const NESTING_MAX: usize = 32;
/// Codes of encodings, as page headers have them: PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED,
/// DELTA_BINARY_PACKED, RLE_DICTIONARY, BYTE_STREAM_SPLIT. The two of DELTA for texts say inside
/// of a page how many values it has, which the reader believes.
const ENCODINGS: [i64; 7] = [0, 2, 3, 4, 5, 8, 9];

/// Checks the claims of a footer.
///
/// # Errors
/// `WrongArguments` for what is no footer.
pub(super) fn check_footer(footer: &[u8]) -> Result<()> {
    let mut thrift = Thrift::new(footer);
    let checked = thrift.fields(|field, id, ty| match (id, ty) {
        // The schema.
        (2, LIST) => check_schema(field),
        (4, LIST) => {
            let (groups, ty) = (*field).list()?;
            (groups < GROUPS_MAX && ty == STRUCT).then_some(())?;
            field.skip(LIST)
        }
        _ => field.skip(ty),
    });
    checked.ok_or_else(|| err!(WrongArguments, "the Parquet file has a damaged footer"))
}

/// Checks that the elements of a schema are a tree that is not deep.
fn check_schema(thrift: &mut Thrift<'_>) -> Option<()> {
    let (elements, ty) = thrift.list()?;
    (elements > 0 && ty == STRUCT).then_some(())?;
    // How many children are still missing, of each group that the next element is in.
    let mut missing = vec![1u64];
    for _ in 0..elements {
        let mut children = 0;
        thrift.fields(|field, id, ty| match (id, ty) {
            (5, I32) => {
                children = u64::try_from(field.int()?).ok()?;
                Some(())
            }
            _ => field.skip(ty),
        })?;
        while missing.last() == Some(&0) {
            missing.pop();
        }
        *missing.last_mut()? -= 1;
        if children > 0 {
            (children <= elements as u64 && missing.len() < NESTING_MAX).then_some(())?;
            missing.push(children);
        }
    }
    missing.iter().all(|&missing| missing == 0).then_some(())
}

/// The header of a page.
#[derive(Clone, Copy, Default, Debug)]
struct PageHeader {
    kind: i64,
    unpacked: i64,
    packed: i64,
    values: i64,
    encoding: Option<i64>,
    /// Levels in front of the packed part, in pages of version 2.
    levels: i64,
    is_plain: bool,
    /// The bytes of the header itself.
    bytes: u64,
}

const DATA: i64 = 0;
const INDEX: i64 = 1;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;

impl PageHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut header = Self::default();
        let mut thrift = Thrift::new(bytes);
        thrift.fields(|field, id, ty| {
            match (id, ty) {
                (1, I32) => header.kind = field.int()?,
                (2, I32) => header.unpacked = field.int()?,
                (3, I32) => header.packed = field.int()?,
                (5 | 7 | 8, STRUCT) => header.read_kind(field, id == 8)?,
                _ => field.skip(ty)?,
            }
            Some(())
        })?;
        header.bytes = (bytes.len() - thrift.rest.len()) as u64;
        Some(header)
    }

    /// The header of a data page, a dictionary, or a data page of version 2.
    fn read_kind(&mut self, thrift: &mut Thrift<'_>, is_second: bool) -> Option<()> {
        thrift.fields(|field, id, ty| {
            match (id, ty, is_second) {
                (1, I32, _) => self.values = field.int()?,
                (2, I32, false) | (4, I32, true) => self.encoding = Some(field.int()?),
                (5 | 6, I32, true) => self.levels = self.levels.checked_add(field.int()?)?,
                (7, 2, true) => self.is_plain = true,
                (_, BINARY, _) => field.skip(BINARY)?,
                _ => field.skip(ty)?,
            }
            Some(())
        })
    }
}

/// What the pages of a column take.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ColumnPages {
    pub dictionary_bytes: u64,
    /// The largest data page, packed and unpacked together.
    pub page_bytes_max: u64,
    /// The fewest values of a data page, but for the last.
    pub page_values_min: u64,
    /// Of a column with lists: its values and pages all together, since a row may have any number.
    pub listed_bytes: u64,
}

/// The memory of a value in a batch.
pub(super) const VALUE_BYTES: u64 = 24;

impl ColumnPages {
    /// The memory for batches of so many rows, one at a time.
    pub fn bytes(&self, rows: u64) -> u64 {
        // A batch may begin in the middle of a page.
        let pages = rows.div_ceil(self.page_values_min.max(1)).saturating_add(1);
        let pages = pages.saturating_mul(self.page_bytes_max);
        self.dictionary_bytes.saturating_mul(2).saturating_add(pages)
    }
}

/// Looks at all pages of a column chunk.
///
/// # Errors
/// `WrongArguments` for claims that the bytes do not bear out, `NotSupported` for an encoding or
/// compression that is not read.
pub(super) fn check_column(file: &FileBytes, chunk: &ColumnChunkMetaData) -> Result<ColumnPages> {
    let name = chunk.column_descr().name();
    let damaged =
        |what: &str| err!(WrongArguments, "the Parquet file is damaged: column '{name}' {what}");
    let codec = chunk.compression();
    let is_known = matches!(
        codec,
        Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_)
            | Compression::LZ4_RAW
    );
    if !is_known {
        bail!(
            NotSupported,
            "column '{name}' of the Parquet file is compressed with {codec:?}; it can be none, \
             snappy, gzip, zstd or LZ4_RAW"
        );
    }
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
    let within = range.and_then(|(at, bytes)| Some((at, at.checked_add(bytes)?)));
    let Some((mut at, end)) = within.filter(|(_, end)| *end <= file.len_bytes()) else {
        return Err(damaged("is not within the file"));
    };
    let (mut pages, mut last_values) = (ColumnPages::default(), None);
    let has_lists = chunk.column_descr().max_rep_level() > 0;
    while at < end {
        let header = header_at(file, at, end).ok_or_else(|| damaged("has a bad page header"))?;
        at += header.bytes;
        let packed = u64::try_from(header.packed).ok().filter(|packed| *packed <= end - at);
        let unpacked = u64::try_from(header.unpacked).ok();
        let Some((packed, unpacked)) = packed.zip(unpacked) else {
            return Err(damaged("has a page of an impossible size"));
        };
        let values = u64::try_from(header.values).unwrap_or(u64::MAX);
        match header.kind {
            INDEX => {}
            // Each value of a dictionary has a byte or more.
            DICTIONARY if values > unpacked => {
                return Err(damaged("has a dictionary of more values than bytes"));
            }
            DICTIONARY => pages.dictionary_bytes = pages.dictionary_bytes.max(packed + unpacked),
            DATA | DATA_V2 if values <= i32::MAX as u64 => {
                pages.page_bytes_max = pages.page_bytes_max.max(packed + unpacked);
                if has_lists {
                    let bytes = values.saturating_mul(VALUE_BYTES) + packed + unpacked;
                    pages.listed_bytes = pages.listed_bytes.saturating_add(bytes);
                }
                if let Some(values) = last_values.replace(values.max(1)) {
                    let least = pages.page_values_min;
                    pages.page_values_min = if least == 0 { values } else { least.min(values) };
                }
            }
            _ => return Err(damaged("has a page of an unknown kind")),
        }
        check_encoding(name, &header)?;
        if matches!(codec, Compression::GZIP(_)) && !header.is_plain {
            check_gzip(file, (at, packed), &header).ok_or_else(|| {
                damaged("has a page that unpacks to something else than its header says")
            })?;
        }
        at += packed;
    }
    if pages.page_values_min == 0 {
        pages.page_values_min = last_values.unwrap_or(1);
    }
    Ok(pages)
}

fn check_encoding(name: &str, header: &PageHeader) -> Result<()> {
    match header.encoding {
        Some(encoding) if header.kind != INDEX && !ENCODINGS.contains(&encoding) => bail!(
            NotSupported,
            "column '{name}' of the Parquet file is in an encoding that is not read (number \
             {encoding}: 6 and 7 are the DELTA encodings of texts); write it with a dictionary or \
             PLAIN"
        ),
        _ => Ok(()),
    }
}

fn header_at(file: &FileBytes, at: u64, end: u64) -> Option<PageHeader> {
    let mut bytes = HEADER_BYTES;
    loop {
        let window = bytes.min(end - at);
        let start = file.get_bytes(at, usize::try_from(window).ok()?).ok()?;
        if let Some(header) = PageHeader::read(&start) {
            return Some(header);
        }
        if window < bytes || bytes >= HEADER_BYTES_MAX {
            return None;
        }
        bytes *= 8;
    }
}

/// Whether a page unpacks to what its header says and no more: the reader unpacks all of it.
fn check_gzip(file: &FileBytes, (at, packed): (u64, u64), header: &PageHeader) -> Option<()> {
    let levels = u64::try_from(header.levels).ok().filter(|levels| *levels <= packed)?;
    let expected = u64::try_from(header.unpacked).ok()?.checked_sub(levels)?;
    if expected == 0 {
        // It is not unpacked.
        return Some(());
    }
    let page: Bytes = file.get_bytes(at + levels, usize::try_from(packed - levels).ok()?).ok()?;
    let unpack = MultiGzDecoder::new(&page[..]).take(expected + 1);
    let unpacked = std::io::copy(&mut { unpack }, &mut std::io::sink()).ok()?;
    (unpacked == expected).then_some(())
}
