//! Bodies of columns: a Parquet or ORC file, which is received as a whole, or an Arrow stream.
//! Their rows are made in steps, on the threads of queries: a panic of a reader there ends its load
//! alone.

use freshet_base::budget::Permit;
use freshet_base::{Result, bail};
use freshet_ingest::UsedIds;
use freshet_ingest::decode::columnar::{
    BodySchema, ColumnarFile, ColumnarReader, FileBytes, Next, ORC_FOOTER_BYTES, OrcFile,
    ParquetFile, stream_schema,
};

use super::body::Body;
use super::decode::Bounds;
use super::decoder::Source;
use super::headers::{ColumnarFormat, LoadFormat};
use super::piece::{BodySummary, Decoded, shrink};
use super::sink::{Memory, Sink};
use super::spool;
use crate::http::Http;

/// The start of an Arrow stream, in which its schema is looked for.
const SCHEMA_BYTES_MAX: usize = 4 << 20;
/// How much of a stream is passed on at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The memory of the rows of a step, while they are made.
const STEP_MEMORY_BYTES: u64 = 4 << 20;

/// The part of the memory for writes that a load aims at, at most.
const MEMORY_PARTS: u64 = 8;

/// A body whose columns are known.
pub(super) struct ColumnarBody {
    kind: Kind,
    schema: BodySchema,
    /// For what is in memory of it.
    _memory: Permit,
}

enum Kind {
    File(ColumnarFile),
    Stream,
}

impl ColumnarBody {
    /// Reads as much of a body as tells its columns; `None` for a body of lines or documents.
    ///
    /// # Errors
    /// When the body cannot be read, or is not in its format.
    pub(super) async fn open(
        http: &Http,
        body: &mut Body<'_>,
        format: &LoadFormat,
        bounds: Bounds,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Self>> {
        let LoadFormat::Columnar(format) = format else { return Ok(None) };
        let mut memory = sink.memory();
        let (kind, schema) = match format {
            ColumnarFormat::Parquet => {
                let bytes = spool::receive(http, body, bounds, &mut memory, sink).await?;
                // Its footer, as it is and as it is read.
                let footer_bytes = ParquetFile::footer_bytes(&bytes)?;
                memory.cover(memory_of(&bytes) + 4 * footer_bytes).await?;
                let opened = http.query.start(async move { ParquetFile::open(bytes) }).await?;
                let schema = opened.schema().clone();
                (Kind::File(ColumnarFile::Parquet(opened)), schema)
            }
            ColumnarFormat::Orc => {
                let bytes = spool::receive(http, body, bounds, &mut memory, sink).await?;
                memory.cover(memory_of(&bytes) + ORC_FOOTER_BYTES).await?;
                let opened = http.query.start(async move { OrcFile::open(bytes) }).await?;
                let schema = opened.schema().clone();
                (Kind::File(ColumnarFile::Orc(opened)), schema)
            }
            ColumnarFormat::Arrow => {
                let find = |start: &[u8], _| stream_schema(start).transpose();
                let bounds = (bounds.limit, bounds.deadline);
                match body.peek(bounds, SCHEMA_BYTES_MAX, find).await?.transpose()? {
                    Some(schema) => (Kind::Stream, schema),
                    None => bail!(WrongArguments, "the body is no Arrow stream: it has no schema"),
                }
            }
        };
        Ok(Some(Self { kind, schema, _memory: memory.take() }))
    }

    pub(super) fn schema(&self) -> &BodySchema {
        &self.schema
    }
}

fn memory_of(bytes: &FileBytes) -> usize {
    match bytes {
        FileBytes::Memory(bytes) => bytes.len(),
        FileBytes::Disk { .. } => 0,
    }
}

/// Makes the rows of a body, some at a time and in their order.
pub(super) struct Steps<'a, 'b> {
    http: &'a Http,
    body: &'a mut Body<'b>,
    source: &'a Source,
    bounds: Bounds,
    reader: ColumnarReader,
    /// Whether the reader is fed.
    is_stream: bool,
    _columns: ColumnarBody,
    /// What opening a part of the body takes until it is through.
    opened_bytes: u64,
    /// The size of all rows so far.
    bytes: u64,
    /// The size of the rows of the last step.
    step_bytes: usize,
    /// What became of rows that are computed of those of the reader.
    computed: BodySummary,
}

impl<'a, 'b> Steps<'a, 'b> {
    /// # Errors
    /// When the body lacks a column, or has it in a form that cannot be loaded.
    pub(super) fn new(
        http: &'a Http,
        body: &'a mut Body<'b>,
        source: &'a Source,
        (columns, bounds): (ColumnarBody, Bounds),
    ) -> Result<Self> {
        let (plan, rules) = (&source.plan, &source.rules);
        let share = http.engine.memory().limit_bytes() / MEMORY_PARTS;
        let (reader, is_stream) = match &columns.kind {
            Kind::File(file) => (ColumnarReader::of_file(file, plan, rules, share)?, false),
            Kind::Stream => (ColumnarReader::of_stream(plan, rules), true),
        };
        let (opened_bytes, bytes, step_bytes) = (0, 0, 0);
        let computed = BodySummary::default();
        let _columns = columns;
        Ok(Self {
            http,
            body,
            source,
            bounds,
            reader,
            is_stream,
            _columns,
            opened_bytes,
            bytes,
            step_bytes,
            computed,
        })
    }

    /// Decodes a whole body into `sink`.
    ///
    /// # Errors
    /// Those of [`Self::next`]; when files cannot be written.
    pub(super) async fn load(mut self, sink: &mut Sink<'_>) -> Result<BodySummary> {
        let mut memory = sink.memory();
        // The last rows are kept: a load of one step is no large one.
        let (mut last, mut is_pushed) = (None::<Decoded>, false);
        while let Some(step) = self.next(&mut memory).await? {
            if let Some(step) = last.replace(step) {
                if !is_pushed {
                    sink.let_flushes_catch_up(self.bounds.size).await;
                }
                sink.push(step).await?;
                is_pushed = true;
            }
        }
        match last {
            // Such rows share no buffer with others, so they are not copied to one.
            Some(step) if is_pushed => sink.push(step).await?,
            Some(step) => sink.push_last(step).await?,
            None => {}
        }
        Ok(self.finish())
    }

    /// The next rows; `None` behind the last ones.
    ///
    /// # Errors
    /// When the body is damaged, or memory is full.
    async fn next(&mut self, memory: &mut Memory<'_>) -> Result<Option<Decoded>> {
        loop {
            if self.bounds.deadline.left(&**self.http.clock()).is_zero() {
                bail!(QueryTimeout, "the load took longer than its timeout allows");
            }
            memory.cover((self.opened_bytes + STEP_MEMORY_BYTES) as usize).await?;
            let rows_before = self.reader.rows();
            let (next, rows) = self.step().await?;
            if next == Next::End {
                match self.feed(memory).await? {
                    true => continue,
                    false => return Ok(None),
                }
            }
            if let Next::Open { bytes } = next {
                self.opened_bytes = bytes;
            }
            let count = self.reader.rows() - rows_before;
            if count == 0 {
                continue;
            }
            self.bytes += rows.len() as u64;
            self.step_bytes = rows.len();
            self.bounds.limit.check(self.bytes)?;
            let permit = memory.split(rows.len());
            let summary = BodySummary::default();
            let step =
                Decoded { rows, count, summary, permit, deletes: Vec::new(), given: Vec::new() };
            let mut step = match &self.source.mapped {
                Some(mapped) => mapped.start(step).await?,
                None => step,
            };
            self.computed.append(std::mem::take(&mut step.summary));
            if step.count > 0 {
                return Ok(Some(step));
            }
        }
    }

    /// Lets the reader do what comes next.
    async fn step(&mut self) -> Result<(Next, Vec<u8>)> {
        let (plan, rules) = (&self.source.plan, &self.source.rules);
        let empty = ColumnarReader::of_stream(plan, rules);
        let mut reader = std::mem::replace(&mut self.reader, empty);
        // Steps are alike: rows that grow in place are not copied again and again.
        let room = self.step_bytes + self.step_bytes / 8;
        let step = self.http.query.start(async move {
            let mut rows = Vec::with_capacity(room);
            let next = reader.next_rows()?;
            if next == Next::Rows {
                reader.step(&mut rows)?;
            }
            shrink(&mut rows);
            Ok((reader, next, rows))
        });
        let (reader, next, rows) = step.await?;
        self.reader = reader;
        Ok((next, rows))
    }

    /// Passes the next part of a stream on; `false` at its end.
    async fn feed(&mut self, memory: &mut Memory<'_>) -> Result<bool> {
        let mut piece = Vec::new();
        while self.is_stream && piece.len() < PIECE_BYTES {
            let Some(part) = self.body.next(self.bounds.limit, self.bounds.deadline).await? else {
                break;
            };
            piece.extend_from_slice(&part);
            // The batch, and the values of its columns as they are stored.
            self.opened_bytes = 3 * (self.reader.waiting_bytes() + piece.len()) as u64;
            memory.cover(self.opened_bytes as usize).await?;
        }
        match piece.is_empty() {
            true => self.reader.end()?,
            false => self.reader.feed(&piece),
        }
        Ok(!piece.is_empty())
    }

    /// What became of all rows.
    fn finish(self) -> BodySummary {
        let Self { reader, computed, .. } = self;
        let (rows, mut rejects, ids) = reader.into_rejects();
        rejects.append(computed.rejects, 0);
        let ids = UsedIds::join(ids, computed.ids);
        BodySummary { rows, rejects, unselected: computed.unselected, ids }
    }
}
