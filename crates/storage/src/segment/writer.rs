//! Writes sorted rows to a Parquet file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use freshet_base::io::{FileRef, Fs, Mode};
use freshet_base::{ColumnId, Lsn, SegmentId, TableId, TabletId};
use freshet_meta::{KeyRange, SegmentMeta};
use freshet_schema::key::{KeyWords, Keys};
use freshet_schema::{RowCells, TableSchema, encode};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::checksum::{Blocks, Summer, crc32c};
use super::key_part::{IndexWriter, KeyPartWriter, indexes_alone};
use super::{FORMAT_VERSION, bounds, dictionary, keys};
use crate::error::{Error, Result};

/// Rows per page: few enough that a point read decodes little.
const PAGE_ROWS: usize = 4096;
/// Rows per row group, the unit by which scans are divided.
const ROW_GROUP_ROWS: usize = 128 << 10;
/// A row group also ends at this size, which limits the writer's memory.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// Longer bounds of text are truncated.
const STATISTICS_BYTES: usize = 64;
/// A segment ends when its indexes hold this much in memory.
const INDEX_BYTES_MAX: u64 = 128 << 20;
/// The file is written in pieces of this size.
const WRITE_BYTES: usize = 1 << 20;

/// How much time is spent on compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// Written by a flush, soon to be compacted: LZ4.
    Fresh,
    /// Written by a compaction whose result is large: zstd.
    Cold,
}

/// The properties of a segment to write.
pub struct SegmentSpec<'a> {
    pub schema: &'a Arc<TableSchema>,
    pub table: TableId,
    pub tablet: TabletId,
    /// The first and last LSN of its rowset.
    pub lsns: (Lsn, Lsn),
    pub tier: Tier,
    /// Whether its rows can be looked up by their sort key.
    pub has_keys: bool,
    /// Whether encoded rows are stored beside these keys, for who reads one of them.
    pub stores_rows: bool,
    /// The columns of each index, by which its rows can be found as well.
    pub indexes: &'a [Vec<ColumnId>],
}

pub struct SegmentWriter {
    path: PathBuf,
    /// The columns of its rows.
    table_schema: Arc<TableSchema>,
    /// The same with column ids.
    schema: SchemaRef,
    writer: ArrowWriter<Sink>,
    rows: u64,
    /// The bounds of the sort keys of these rows.
    keys: Option<KeyRange>,
    /// The keys to be looked up.
    key_part: Option<KeyPartWriter>,
    stores_rows: bool,
    indexes: Vec<IndexWriter>,
}

impl SegmentWriter {
    /// Creates the file `path`, which must not exist. `sample` represents the rows to come.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(
        fs: &dyn Fs,
        path: &Path,
        spec: &SegmentSpec<'_>,
        sample: &RecordBatch,
    ) -> Result<Self> {
        let file =
            fs.open(path, Mode::CreateNew).map_err(|error| Error::io("create", path, error))?;
        let schema = with_column_ids(spec.schema);
        let properties = properties(spec, sample)?;
        let sink = Sink::new(file);
        let writer = ArrowWriter::try_new(sink, Arc::clone(&schema), Some(properties))
            .map_err(|error| failed(path, error))?;
        let (path, table_schema) = (path.to_path_buf(), Arc::clone(spec.schema));
        let key_part = spec.has_keys.then(KeyPartWriter::default);
        let (rows, keys, stores_rows) = (0, None, spec.stores_rows);
        let is_there = |id: &ColumnId| spec.schema.position_of(*id).is_some();
        // Rows from before a column of an index was added are not in that index.
        let indexes = spec.indexes.iter().filter(|columns| columns.iter().all(is_there));
        let indexes = indexes.cloned().map(IndexWriter::new).collect();
        Ok(Self { path, table_schema, schema, writer, rows, keys, key_part, stores_rows, indexes })
    }

    /// Appends rows, in the order of the sort key.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// When the rows have other columns than the segment, or come before earlier ones.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = self.table_schema.arrow();
        assert_eq!(batch.schema_ref(), columns, "a segment has one version of a schema");
        if let Some(keys) = key_range(batch, &self.table_schema) {
            let is_next = self.keys.is_none_or(|before| before.max <= keys.min);
            assert!(is_next, "rows come in the order of the sort key");
            self.keys = Some(self.keys.map_or(keys, |before| before.union(keys)));
        }
        self.push_keys(batch)?;
        self.indexes.iter_mut().for_each(|index| index.push(batch, &self.table_schema));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        self.writer.write(&batch).map_err(|error| failed(&self.path, error))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Adds the keys of rows, and stores rows in front of the row group that has them as columns.
    fn push_keys(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(part) = &mut self.key_part else { return Ok(()) };
        let keys = Keys::of_batch(batch, &self.table_schema);
        if !self.stores_rows {
            (0..keys.len()).for_each(|row| part.push(keys.key(row)));
            return Ok(());
        }
        let mut encoded = Vec::new();
        encode(batch, &self.table_schema, &mut encoded);
        let cells = RowCells::new(&self.table_schema);
        for (at, row) in (0..keys.len()).zip(cells.rows(&encoded)) {
            part.push_row(keys.key(at), row);
        }
        let stored = part.take_stored(self.writer.bytes_written() as u64);
        let written = self.writer.write_all(&stored);
        written.map_err(|error| Error::io("write", &self.path, error))
    }

    /// Approximate length of the file if it ended now.
    pub fn bytes(&self) -> u64 {
        let keys = self.key_part.as_ref().map_or(0, KeyPartWriter::bytes);
        let keys = keys + self.index_bytes();
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64 + keys
    }

    /// Whether the segment has to end, so that what its indexes hold in memory stays bounded.
    pub fn is_full(&self) -> bool {
        self.index_bytes() >= INDEX_BYTES_MAX
    }

    fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(IndexWriter::memory_bytes).sum()
    }

    /// The number of rows written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file and syncs it; its name becomes durable when the directory is synced.
    ///
    /// # Errors
    /// [`Error::Io`]: the file is unusable then and must not be synced again.
    pub fn finish(self, id: SegmentId) -> Result<SegmentMeta> {
        self.end(id)?.sync()
    }

    /// Ends the file without syncing it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn end(mut self, id: SegmentId) -> Result<Unsynced> {
        assert!(self.rows > 0, "a segment has rows");
        if let Some(part) = self.key_part.as_mut().filter(|_| self.stores_rows) {
            let stored = part.end_stored(self.writer.bytes_written() as u64);
            let written = self.writer.write_all(&stored);
            written.map_err(|error| Error::io("write", &self.path, error))?;
        }
        let path = self.path.as_path();
        let cannot_write = |error| Error::io("write", path, error);
        let (mut file, _) =
            self.writer.into_serialized_writer().map_err(|error| failed(path, error))?;
        file.flush().map_err(cannot_write)?;
        let (data_bytes, blocks) = file.inner_mut().end_data();
        let key_part = match self.key_part {
            None if self.indexes.is_empty() => None,
            None => Some(indexes_alone(data_bytes, self.indexes)),
            Some(keys) => {
                assert_eq!(u64::from(keys.rows()), self.rows, "each row of a segment has a key");
                Some(keys.finish(data_bytes, self.indexes))
            }
        };
        if let Some((bytes, _)) = &key_part {
            file.write_all(bytes).map_err(cannot_write)?;
        }
        let key_part = key_part.map(|(_, meta)| meta);
        file.flush().map_err(cannot_write)?;
        file.inner_mut().begin_footer();
        file.append_key_value_metadata(KeyValue::new(keys::BLOCKS.to_owned(), blocks.encode()));
        let written = file.finish().map_err(|error| failed(path, error))?;
        assert_eq!(
            written.file_metadata().num_rows().cast_unsigned(),
            self.rows,
            "rows handed to the writer are rows in the file"
        );
        let sink = file.inner_mut();
        let footer_checksum = sink.end().map_err(cannot_write)?;
        assert_eq!(sink.came, sink.written, "all that was encoded is in the file");
        let (file, bytes) = (Arc::clone(&sink.file), sink.written);
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("segments have ASCII names").to_owned();
        let meta = SegmentMeta {
            id,
            file: name,
            rows: self.rows,
            bytes,
            data_bytes,
            key_part,
            footer_checksum,
            keys: self.keys.expect("a segment has rows"),
            removes: false,
        };
        assert!(meta.footer_start() < bytes, "a footer stands behind data and keys");
        Ok(Unsynced { file, path: self.path, meta })
    }
}

/// A written segment that is not yet durable.
pub struct Unsynced {
    file: FileRef,
    path: PathBuf,
    meta: SegmentMeta,
}

impl Unsynced {
    /// Makes its contents durable; its name becomes durable when the directory is synced.
    ///
    /// # Errors
    /// [`Error::Io`]: the file is unusable then and must not be synced again.
    pub fn sync(self) -> Result<SegmentMeta> {
        self.file.sync().map_err(|error| Error::io("sync", &self.path, error))?;
        Ok(self.meta)
    }
}

/// The bounds of sorted rows; `None` if there are none.
fn key_range(batch: &RecordBatch, schema: &TableSchema) -> Option<KeyRange> {
    let last = batch.num_rows().checked_sub(1)?;
    let word = |row| {
        let words = KeyWords::new(&batch.slice(row, 1), schema);
        words.row(0)[0]
    };
    Some(KeyRange { min: word(0), max: word(last) })
}

/// The Arrow schema with column ids, which Parquet stores as field ids.
fn with_column_ids(schema: &TableSchema) -> SchemaRef {
    let fields = schema.arrow().fields().iter().zip(&schema.columns).map(|(field, column)| {
        let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), column.id.to_string());
        field.as_ref().clone().with_metadata([id].into())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn properties(spec: &SegmentSpec<'_>, sample: &RecordBatch) -> Result<WriterProperties> {
    let compression = match spec.tier {
        Tier::Fresh => Compression::LZ4_RAW,
        Tier::Cold => Compression::ZSTD(ZstdLevel::try_new(1).expect("zstd has a first level")),
    };
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let (first, last) = spec.lsns;
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("freshet ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES))
        .set_column_index_truncate_length(Some(STATISTICS_BYTES))
        .set_key_value_metadata(Some(vec![
            pair(keys::FORMAT, FORMAT_VERSION.to_string()),
            pair(keys::TABLE, spec.table.to_string()),
            pair(keys::TABLET, spec.tablet.to_string()),
            pair(keys::LSNS, format!("{first}-{last}")),
            pair(keys::SCHEMA_VERSION, spec.schema.version.to_string()),
        ]));
    let dictionaries = dictionary::choose(sample)?;
    let columns = spec.schema.columns.iter().zip(sample.columns());
    for ((column, sampled), dictionary) in columns.zip(dictionaries) {
        let path = ColumnPath::new(vec![column.name.clone()]);
        let encoding = match dictionary::is_packed(&column.ty.arrow()) {
            true => Encoding::DELTA_BINARY_PACKED,
            false => Encoding::PLAIN,
        };
        builder = builder
            .set_column_dictionary_enabled(path.clone(), dictionary)
            .set_column_encoding(path.clone(), encoding);
        if !bounds::are_worth_it(sampled.as_ref()) {
            builder = builder.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    Ok(builder.build())
}

fn failed(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => Error::io("write", path, *error),
            Err(inner) => Error::Internal(format!("writing {}: {inner}", path.display())),
        },
        other => Error::Internal(format!("writing {}: {other}", path.display())),
    }
}

/// The destination of Parquet's output: a file written in large pieces, with checksums.
struct Sink {
    file: FileRef,
    buffer: Vec<u8>,
    /// Bytes received, in the file or in the buffer.
    came: u64,
    /// Bytes in the file.
    written: u64,
    region: Region,
}

/// Data has a checksum per block, the footer part a single one. Keys have their own in themselves.
enum Region {
    Data(Box<Summer>),
    Keys,
    Footer(Vec<u8>),
}

impl Sink {
    fn new(file: FileRef) -> Self {
        let buffer = Vec::with_capacity(WRITE_BYTES);
        Self { file, buffer, came: 0, written: 0, region: Region::Data(Box::new(Summer::new())) }
    }

    fn end_data(&mut self) -> (u64, Blocks) {
        let region = std::mem::replace(&mut self.region, Region::Keys);
        let Region::Data(mut summer) = region else { unreachable!("data ends once") };
        (self.came, summer.finish())
    }

    fn begin_footer(&mut self) {
        assert!(matches!(self.region, Region::Keys), "a footer follows the data");
        self.region = Region::Footer(Vec::new());
    }

    /// Writes the rest of the buffer and returns the checksum of the footer part.
    fn end(&mut self) -> io::Result<u32> {
        self.write_out()?;
        match &self.region {
            Region::Footer(bytes) => Ok(crc32c(bytes)),
            Region::Data(_) | Region::Keys => unreachable!("the footer has begun"),
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        // A later sync of many megabytes at once would delay the syncs of the log.
        self.file.write_back(self.written, self.buffer.len() as u64);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.region {
            Region::Data(summer) => summer.update(bytes),
            Region::Keys => {}
            Region::Footer(footer) => footer.extend_from_slice(bytes),
        }
        self.buffer.extend_from_slice(bytes);
        self.came += bytes.len() as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
