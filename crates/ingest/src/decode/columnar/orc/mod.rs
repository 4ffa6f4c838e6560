//! ORC files: read stripe by stripe, of which streams are unpacked block by block while their rows
//! are made. Written against the specification of ORC v1 (orc.apache.org/specification/ORCv1).

mod columns;
mod footer;
mod message;
mod runs;
mod stream;

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use freshet_base::{Error, Result, bail, err};
use freshet_schema::Rules;
use freshet_schema::nested::NESTING_MAX;

use super::batch::BatchEncoder;
use super::file::FileBytes;
use super::{BodySchema, Next};
use crate::decode::SourcePlan;
use footer::{Column, Footer, StripeFooter};

pub use footer::FOOTER_MEMORY_BYTES;

/// Rows of a batch.
const BATCH_ROWS: usize = 1024;
/// The texts and nested values of a batch, and those of one row.
const BATCH_BYTES: u64 = 32 << 20;
const ROW_BYTES_MAX: u64 = 64 << 20;
/// The most that a stripe may take at once.
const STRIPE_BYTES_MAX: u64 = 512 << 20;

/// A file whose footer was read.
#[derive(Clone)]
pub struct OrcFile {
    bytes: FileBytes,
    footer: Arc<Footer>,
    schema: BodySchema,
}

impl OrcFile {
    /// Reads the footer of a file, which takes up to [`FOOTER_MEMORY_BYTES`].
    ///
    /// # Errors
    /// `WrongArguments` for what is no ORC file, or is damaged.
    pub fn open(bytes: FileBytes) -> Result<Self> {
        super::contained(|| {
            let footer = Footer::read(&bytes)?;
            let schema = BodySchema::new(Arc::new(footer.schema()));
            Ok(Self { bytes, footer: Arc::new(footer), schema })
        })
    }

    /// Its columns.
    pub fn schema(&self) -> &BodySchema {
        &self.schema
    }
}

/// A stripe that is being read.
struct Open {
    columns: Vec<columns::Reader>,
    rows_left: u64,
}

pub struct OrcReader {
    file: OrcFile,
    /// The columns that are loaded, in the order of their values; one may be there twice.
    columns: Vec<Column>,
    /// Where these stand in a batch.
    positions: Vec<usize>,
    /// The texts or nested values of a column in a batch of several rows.
    text_bytes: u64,
    encoder: BatchEncoder,
    next_stripe: usize,
    /// Looked at, and not opened yet.
    checked: Option<(StripeFooter, u64)>,
    open: Option<Open>,
}

impl OrcReader {
    pub(super) fn new(
        file: &OrcFile,
        source: &Arc<SourcePlan>,
        rules: &Rules,
        memory_bytes: u64,
    ) -> Result<Self> {
        let positions = BatchEncoder::positions(source, &file.schema)?;
        let columns = positions.iter().map(|at| file.footer.columns[*at].clone());
        let columns = columns.collect::<Vec<_>>();
        let unreadable = columns.iter().find_map(|column| Some((column, column.unreadable()?)));
        if let Some((column, part)) = unreadable {
            return Err(not_read(column, part));
        }
        Ok(Self {
            file: file.clone(),
            positions: (0..columns.len()).collect(),
            text_bytes: BATCH_BYTES.min(memory_bytes / 2) / columns.len().max(1) as u64,
            columns,
            encoder: BatchEncoder::new(source, rules),
            next_stripe: 0,
            checked: None,
            open: None,
        })
    }

    pub(super) fn next(&mut self) -> Result<Next> {
        if self.checked.is_some() || self.open.is_some() || !self.encoder.is_idle() {
            return Ok(Next::Rows);
        }
        let Some(stripe) = self.file.footer.stripes.get(self.next_stripe) else {
            return Ok(Next::End);
        };
        self.next_stripe += 1;
        let packed = self.file.footer.packed;
        let footer = StripeFooter::read(&self.file.bytes, packed, stripe)?;
        let rows = (BATCH_ROWS as u64).min(stripe.rows);
        let columns = self.columns.iter();
        let columns = columns.map(|column| columns::memory_bytes(column, &footer, packed, rows));
        // Once as they are read, once in a batch.
        let texts = 2 * self.text_bytes * self.columns.len() as u64;
        let bytes = columns.fold(texts, u64::saturating_add);
        if bytes > STRIPE_BYTES_MAX {
            bail!(
                OutOfRoom,
                "a stripe of the ORC file takes {bytes} bytes at once, more than \
                 {STRIPE_BYTES_MAX}; write it with smaller dictionaries or blocks, or load fewer \
                 of its columns"
            );
        }
        self.checked = Some((footer, stripe.rows));
        Ok(Next::Open { bytes })
    }

    pub(super) fn step(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if let Some((footer, rows_left)) = self.checked.take() {
            let (bytes, packed) = (&self.file.bytes, self.file.footer.packed);
            let columns = self.columns.iter();
            let columns =
                columns.map(|column| columns::Reader::new(column, &footer, bytes, packed));
            self.open = Some(Open { columns: columns.collect::<Result<_>>()?, rows_left });
        }
        let until = self.encoder.step_end();
        while !self.encoder.is_at(until, out) {
            if self.encoder.is_idle() {
                let Some(batch) = self.batch()? else { break };
                self.encoder.begin(&batch, &self.positions)?;
            }
            self.encoder.encode(out, until)?;
        }
        Ok(())
    }

    /// The next rows of the open stripe.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(open) = self.open.as_mut().filter(|open| open.rows_left > 0) else {
            self.open = None;
            return Ok(None);
        };
        let mut rows = BATCH_ROWS.min(usize::try_from(open.rows_left).unwrap_or(BATCH_ROWS));
        for column in &mut open.columns {
            rows = column.fitting(rows, self.text_bytes)?;
        }
        let bytes = open.columns.iter().map(columns::Reader::next_bytes);
        let bytes = bytes.fold(0, u64::saturating_add);
        if bytes > ROW_BYTES_MAX {
            bail!(
                WrongArguments,
                "a row of the ORC file takes {bytes} bytes, limit {ROW_BYTES_MAX}"
            );
        }
        let arrays = open.columns.iter_mut().map(|column| column.read(rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        open.rows_left -= rows as u64;
        let fields = self.columns.iter().zip(&arrays);
        let fields =
            fields.map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        batch.map(Some).map_err(|error| err!(WrongArguments, "the ORC file is damaged: {error}"))
    }

    pub(super) fn encoder(&self) -> &BatchEncoder {
        &self.encoder
    }

    pub(super) fn into_encoder(self) -> BatchEncoder {
        self.encoder
    }
}

fn not_read(column: &Column, part: &Column) -> Error {
    err!(
        NotSupported,
        "column '{}' of the body has '{}', a union or a type more than {NESTING_MAX} deep, which \
         cannot be loaded: leave the column out, or write it as text",
        column.name,
        part.name
    )
}

fn damaged(why: &str) -> Error {
    err!(WrongArguments, "the ORC file is damaged: {why}")
}
