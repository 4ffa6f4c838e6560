//! Parquet files: read row group by row group, each after its pages were looked at.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use freshet_base::{Error, Result, bail, err};
use freshet_schema::Rules;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;

use super::batch::BatchEncoder;
use super::file::FileBytes;
use super::pages::{ColumnPages, VALUE_BYTES, check_column, check_footer};
use super::{BodySchema, Next};
use crate::decode::SourcePlan;

const MAGIC: &[u8; 4] = b"PAR1";
/// The magic number of a file whose footer is encrypted.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// The length of the footer and the magic number.
const TAIL_BYTES: u64 = 8;
/// The longest footer.
const FOOTER_BYTES_MAX: usize = 16 << 20;
/// Rows of a batch.
const BATCH_ROWS_MAX: u64 = 4096;
/// The memory of a batch with its pages: what is aimed at, and the most for one row.
const BATCH_BYTES: u64 = 64 << 20;
const PAGES_BYTES_MAX: u64 = 512 << 20;
/// A file whose footer was read.
#[derive(Clone)]
pub struct ParquetFile {
    bytes: FileBytes,
    metadata: ArrowReaderMetadata,
    schema: BodySchema,
}

impl ParquetFile {
    /// The length of the footer of a file, as its end says it.
    ///
    /// # Errors
    /// `WrongArguments` for what is no Parquet file, or not all of one.
    pub fn footer_bytes(file: &FileBytes) -> Result<usize> {
        let no_file = || err!(WrongArguments, "the body is no Parquet file");
        let body = file.len_bytes().checked_sub(TAIL_BYTES);
        let body = body.filter(|body| *body >= MAGIC.len() as u64).ok_or_else(no_file)?;
        let (head, tail) = (file.part(0, MAGIC.len())?, file.part(body, TAIL_BYTES as usize)?);
        let (bytes, magic) = tail.split_first_chunk::<4>().expect("the tail has eight bytes");
        if magic == MAGIC_ENCRYPTED {
            bail!(NotSupported, "the Parquet file is encrypted, which is not supported");
        }
        if head[..] != MAGIC[..] {
            return Err(no_file());
        }
        if magic != MAGIC {
            bail!(
                WrongArguments,
                "the Parquet file has no end: it was not written or sent as a whole"
            );
        }
        let bytes = u32::from_le_bytes(*bytes) as usize;
        if bytes > FOOTER_BYTES_MAX {
            bail!(
                WrongArguments,
                "the footer of the Parquet file has {bytes} bytes, more than {FOOTER_BYTES_MAX}"
            );
        }
        Ok(bytes)
    }

    /// Reads the footer of a file.
    ///
    /// # Errors
    /// `WrongArguments` for what is no Parquet file, or is damaged.
    pub fn open(bytes: FileBytes) -> Result<Self> {
        super::contained(|| Self::read(bytes))
    }

    fn read(bytes: FileBytes) -> Result<Self> {
        let footer = footer_of(&bytes)?;
        check_footer(&footer)?;
        let metadata =
            ParquetMetaDataReader::decode_metadata(&footer).map_err(|error| damaged(&error))?;
        let metadata = Arc::new(metadata);
        // What writers say of types of Arrow is not needed, and one thing less to be believed.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let plain = ArrowReaderMetadata::try_new(Arc::clone(&metadata), options.clone());
        let plain = plain.map_err(|error| damaged(&error))?;
        let fields = plain.schema().fields().iter().map(|field| as_view(field));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let viewed = ArrowReaderMetadata::try_new(metadata, options.with_schema(schema));
        let metadata = viewed.map_err(|error| damaged(&error))?;
        let schema = BodySchema::new(Arc::clone(metadata.schema()));
        Ok(Self { bytes, metadata, schema })
    }

    /// Its columns.
    pub fn schema(&self) -> &BodySchema {
        &self.schema
    }
}

/// A field that refers to the bytes of its texts instead of copying them.
fn as_view(field: &Field) -> Field {
    let inside = |field: &Arc<Field>| Arc::new(as_view(field));
    let ty = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(item) => DataType::List(inside(item)),
        DataType::Map(entries, is_sorted) => DataType::Map(inside(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inside).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(ty)
}

/// The footer of a file.
fn footer_of(file: &FileBytes) -> Result<Bytes> {
    let bytes = ParquetFile::footer_bytes(file)?;
    let body = file.len_bytes() - TAIL_BYTES;
    match body.checked_sub(bytes as u64) {
        Some(at) if at >= MAGIC.len() as u64 => file.part(at, bytes),
        _ => bail!(WrongArguments, "the Parquet file is shorter than its footer says"),
    }
}

/// A row group whose pages were looked at.
struct Group {
    index: usize,
    batch_rows: u64,
}

pub struct ParquetReader {
    file: ParquetFile,
    /// The columns that are loaded, by their index, without repetition.
    mask: ProjectionMask,
    /// Where the columns that are loaded stand in a batch.
    positions: Vec<usize>,
    /// The leaves of these columns.
    leaves: Vec<usize>,
    /// The memory of a batch that is aimed at.
    batch_bytes: u64,
    encoder: BatchEncoder,
    next_group: usize,
    /// Looked at, and not opened yet.
    checked: Option<Group>,
    open: Option<ParquetRecordBatchReader>,
    /// Rows seen at the end of the open row group, as its head says.
    group_end: u64,
}

impl ParquetReader {
    pub(super) fn new(
        file: &ParquetFile,
        source: &Arc<SourcePlan>,
        rules: &Rules,
        memory_bytes: u64,
    ) -> Result<Self> {
        let columns = BatchEncoder::positions(source, &file.schema)?;
        let parquet_schema = file.metadata.parquet_schema();
        let mut sorted = columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let place = |at| sorted.binary_search(at).expect("all columns were sorted");
        let positions = columns.iter().map(place).collect();
        let count = parquet_schema.num_columns();
        let is_loaded =
            |leaf: &usize| sorted.binary_search(&parquet_schema.get_column_root_idx(*leaf)).is_ok();
        let leaves = (0..count).filter(is_loaded).collect();
        Ok(Self {
            mask: ProjectionMask::roots(parquet_schema, sorted),
            file: file.clone(),
            positions,
            leaves,
            batch_bytes: BATCH_BYTES.min(memory_bytes),
            encoder: BatchEncoder::new(source, rules),
            next_group: 0,
            checked: None,
            open: None,
            group_end: 0,
        })
    }

    pub(super) fn next(&mut self) -> Result<Next> {
        if !self.encoder.is_idle() || self.open.is_some() || self.checked.is_some() {
            return Ok(Next::Rows);
        }
        let metadata = self.file.metadata.metadata();
        let Some(group) = metadata.row_groups().get(self.next_group) else { return Ok(Next::End) };
        let (index, mut all) = (self.next_group, Vec::with_capacity(self.leaves.len()));
        self.next_group += 1;
        for &leaf in &self.leaves {
            let chunk = group.columns().get(leaf);
            let chunk = chunk.ok_or_else(|| {
                err!(WrongArguments, "the Parquet file is damaged: row group {index} lacks columns")
            })?;
            all.push(check_column(&self.file.bytes, chunk)?);
        }
        self.group_end = self.encoder.seen() + u64::try_from(group.num_rows()).unwrap_or(0);
        let (batch_rows, bytes) = batch_of(&all, self.batch_bytes)?;
        self.checked = Some(Group { index, batch_rows });
        Ok(Next::Open { bytes })
    }

    pub(super) fn step(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if let Some(group) = self.checked.take() {
            let (bytes, metadata) = (self.file.bytes.clone(), self.file.metadata.clone());
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
            let reader = builder
                .with_row_groups(vec![group.index])
                .with_projection(self.mask.clone())
                .with_batch_size(group.batch_rows as usize)
                .build();
            self.open = Some(reader.map_err(|error| damaged(&error))?);
        }
        let until = self.encoder.step_end();
        while !self.encoder.is_at(until, out) {
            if self.encoder.is_idle() {
                let Some(reader) = &mut self.open else { break };
                match reader.next() {
                    Some(Ok(batch)) => self.begin(&batch)?,
                    Some(Err(error)) => {
                        bail!(WrongArguments, "the Parquet file is damaged: {error}")
                    }
                    None if self.encoder.seen() != self.group_end => {
                        bail!(
                            WrongArguments,
                            "the Parquet file is damaged: row group {} has not as many rows as it \
                             says",
                            self.next_group - 1
                        )
                    }
                    None => self.open = None,
                }
            }
            self.encoder.encode(out, until)?;
        }
        Ok(())
    }

    fn begin(&mut self, batch: &RecordBatch) -> Result<()> {
        match batch.num_rows() {
            0 => Ok(()),
            _ => self.encoder.begin(batch, &self.positions),
        }
    }

    pub(super) fn encoder(&self) -> &BatchEncoder {
        &self.encoder
    }

    pub(super) fn into_encoder(self) -> BatchEncoder {
        self.encoder
    }
}

/// The rows of a batch over columns with these pages, and the memory that it takes.
fn batch_of(columns: &[ColumnPages], aim: u64) -> Result<(u64, u64)> {
    let pages = |rows: u64| {
        let pages = columns.iter().map(|column| column.bytes(rows));
        let values = rows * VALUE_BYTES * columns.len() as u64;
        pages.fold(values, u64::saturating_add)
    };
    // What rows have of columns with lists is not known, so all of it may be in one batch.
    let listed = columns.iter().map(|column| column.listed_bytes).fold(0, u64::saturating_add);
    let (aim, bytes) = (aim.saturating_add(listed), |rows| pages(rows).saturating_add(listed));
    let sizes = std::iter::successors(Some(BATCH_ROWS_MAX), |rows| (*rows > 1).then_some(rows / 4));
    match sizes.map(|rows| (rows, bytes(rows))).find(|(_, bytes)| *bytes <= aim) {
        Some(found) => Ok(found),
        None if bytes(1) <= PAGES_BYTES_MAX => Ok((1, bytes(1))),
        None => bail!(
            OutOfRoom,
            "the pages of a row group of the Parquet file take {} bytes at once, more than \
             {PAGES_BYTES_MAX}; write it with smaller pages and row groups, or load fewer of its \
             columns",
            bytes(1)
        ),
    }
}

fn damaged(error: &ParquetError) -> Error {
    err!(WrongArguments, "the Parquet file is damaged or has something unknown: {error}")
}
