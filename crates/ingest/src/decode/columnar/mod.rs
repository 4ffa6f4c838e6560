//! Decodes columnar bodies of stream loads into rows: Parquet and ORC files, and Arrow streams.
//!
//! Columns are found by their names. What such a body says of itself is not believed: sizes are
//! checked before memory is taken for them (`pages`), and a step makes a bounded part of the rows
//! at a time, whatever a few bytes of the body stand for. A body that makes its reader fail in any
//! other way, even by a panic, ends its own load alone, so steps run on threads of queries.

mod batch;
mod cells;
mod file;
mod ipc;
mod orc;
mod pages;
mod parquet;
mod plain;
mod thrift;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use freshet_base::{Result, bail, err};
use freshet_schema::{ColumnType, DECIMAL_PRECISION_MAX, Rules};

use super::SourcePlan;
use crate::counter::UsedIds;
use crate::rejects::Rejects;
use batch::BatchEncoder;

pub use file::FileBytes;
pub use ipc::{ArrowReader, stream_schema};
pub use orc::{FOOTER_MEMORY_BYTES as ORC_FOOTER_BYTES, OrcFile, OrcReader};
pub use parquet::{ParquetFile, ParquetReader};

/// The flat columns of a body.
#[derive(Clone, Debug)]
pub struct BodySchema {
    schema: SchemaRef,
}

impl BodySchema {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { schema }
    }

    /// The names of its columns, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// The index of the column of a name; letters may differ in case where that names one alone.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn position(&self, name: &str) -> Result<usize> {
        match self.find(name)? {
            Some(at) => Ok(at),
            None => {
                let names = self.names().take(20).collect::<Vec<_>>().join(", ");
                bail!(UnknownColumn, "Unknown column '{name}' in the body, which has: {names}")
            }
        }
    }

    /// As [`Self::position`]; `None` when there is none.
    ///
    /// # Errors
    /// When there are several.
    pub fn find(&self, name: &str) -> Result<Option<usize>> {
        if let Some(at) = self.names().position(|known| known == name) {
            return Ok(Some(at));
        }
        let lower = name.to_lowercase();
        let mut alike = self.names().enumerate().filter(|(_, known)| known.to_lowercase() == lower);
        match (alike.next(), alike.next()) {
            (Some((_, one)), Some((_, other))) => bail!(
                WrongArguments,
                "column '{name}' may be '{one}' or '{other}' of the body; name one of them"
            ),
            (found, _) => Ok(found.map(|(at, _)| at)),
        }
    }

    /// The type of a column, as expressions see it.
    pub fn column_type(&self, at: usize) -> ColumnType {
        type_of(self.schema.field(at).data_type())
    }
}

fn type_of(ty: &DataType) -> ColumnType {
    match ty {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            ColumnType::BigInt { unsigned: false }
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            ColumnType::BigInt { unsigned: true }
        }
        DataType::Float16 | DataType::Float32 => ColumnType::Float,
        DataType::Float64 => ColumnType::Double,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 && *precision <= DECIMAL_PRECISION_MAX =>
        {
            ColumnType::Decimal { precision: *precision, scale: scale.unsigned_abs() }
        }
        DataType::Date32 => ColumnType::Date,
        DataType::Date64 | DataType::Timestamp(..) => ColumnType::DateTime { fsp: 6 },
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => ColumnType::Blob,
        DataType::Dictionary(_, values) => type_of(values),
        _ => ColumnType::Text,
    }
}

/// What a reader can do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Make rows.
    Rows,
    /// Open more of the body, which takes this many bytes of memory until it is through.
    Open { bytes: u64 },
    /// Nothing: all rows are made.
    End,
}

/// A file whose columns are known.
#[derive(Clone)]
pub enum ColumnarFile {
    Parquet(ParquetFile),
    Orc(OrcFile),
}

impl ColumnarFile {
    /// Its columns.
    pub fn schema(&self) -> &BodySchema {
        match self {
            Self::Parquet(file) => file.schema(),
            Self::Orc(file) => file.schema(),
        }
    }
}

/// Reads the rows of a body in steps.
pub enum ColumnarReader {
    Parquet(Box<ParquetReader>),
    Orc(Box<OrcReader>),
    Arrow(Box<ArrowReader>),
}

impl ColumnarReader {
    /// A reader of the columns that `source` names, which takes about `memory_bytes` where it can.
    ///
    /// # Errors
    /// When the file lacks one of them, or has it in a form that cannot be loaded.
    pub fn of_file(
        file: &ColumnarFile,
        source: &Arc<SourcePlan>,
        rules: &Rules,
        memory_bytes: u64,
    ) -> Result<Self> {
        contained(|| match file {
            ColumnarFile::Parquet(file) => {
                let reader = ParquetReader::new(file, source, rules, memory_bytes)?;
                Ok(Self::Parquet(Box::new(reader)))
            }
            ColumnarFile::Orc(file) => {
                let reader = OrcReader::new(file, source, rules, memory_bytes)?;
                Ok(Self::Orc(Box::new(reader)))
            }
        })
    }

    /// A reader of the columns that `source` names, which is fed.
    pub fn of_stream(source: &Arc<SourcePlan>, rules: &Rules) -> Self {
        Self::Arrow(Box::new(ArrowReader::new(source, rules)))
    }

    /// Adds a part of a stream, once its reader is at its end.
    ///
    /// # Panics
    /// For a file.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Parquet(_) | Self::Orc(_) => panic!("a file is read as a whole"),
            Self::Arrow(reader) => reader.feed(bytes),
        }
    }

    /// The memory of what was fed and is not through.
    pub fn waiting_bytes(&self) -> usize {
        match self {
            Self::Parquet(_) | Self::Orc(_) => 0,
            Self::Arrow(reader) => reader.waiting_bytes(),
        }
    }

    /// Says that nothing more is fed.
    ///
    /// # Errors
    /// When a stream does not end there.
    pub fn end(&mut self) -> Result<()> {
        contained(|| match self {
            Self::Parquet(_) | Self::Orc(_) => Ok(()),
            Self::Arrow(reader) => reader.end(),
        })
    }

    /// What comes next. A stream is at its end where it has to be fed.
    ///
    /// # Errors
    /// When the body is damaged, or needs too much memory at once.
    pub fn next_rows(&mut self) -> Result<Next> {
        contained(|| match self {
            Self::Parquet(reader) => reader.next(),
            Self::Orc(reader) => reader.next(),
            Self::Arrow(reader) => reader.next(),
        })
    }

    /// Appends some rows to `out`.
    ///
    /// # Errors
    /// When the body is damaged.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<()> {
        contained(|| match self {
            Self::Parquet(reader) => reader.step(out),
            Self::Orc(reader) => reader.step(out),
            Self::Arrow(reader) => reader.step(out),
        })
    }

    fn encoder(&self) -> &BatchEncoder {
        match self {
            Self::Parquet(reader) => reader.encoder(),
            Self::Orc(reader) => reader.encoder(),
            Self::Arrow(reader) => reader.encoder(),
        }
    }

    /// Number of rows appended.
    pub fn rows(&self) -> usize {
        self.encoder().rows()
    }

    /// Number of rows seen, and the rejected ones; the ids in the others.
    pub fn into_rejects(self) -> (u64, Rejects, Option<UsedIds>) {
        match self {
            Self::Parquet(reader) => reader.into_encoder().into_rejects(),
            Self::Orc(reader) => reader.into_encoder().into_rejects(),
            Self::Arrow(reader) => reader.into_encoder().into_rejects(),
        }
    }
}

/// Runs a reader of bytes from outside, which may panic where they are damaged.
fn contained<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read,
        Err(_) => Err(err!(WrongArguments, "the body is damaged: its reader gave up")),
    }
}

/// The columns of a batch at these positions.
fn project(batch: &RecordBatch, positions: &[usize]) -> Result<RecordBatch> {
    batch.project(positions).map_err(|error| err!(WrongArguments, "the body is damaged: {error}"))
}
