//! Arrow streams (the IPC format): batches of columns behind a schema, read as they arrive.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::ipc::reader::StreamDecoder;
use freshet_base::{Error, Result, bail, err};
use freshet_schema::Rules;

use super::batch::BatchEncoder;
use super::{BodySchema, Next, contained};
use crate::decode::SourcePlan;

/// The largest batch, with the dictionaries in front of it.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Where an Arrow stream begins: its schema, once that has arrived.
///
/// # Errors
/// When it is no Arrow stream.
pub fn stream_schema(start: &[u8]) -> Result<Option<BodySchema>> {
    contained(|| {
        let mut decoder = StreamDecoder::new();
        let mut bytes = Buffer::from(start);
        while decoder.schema().is_none() && !bytes.is_empty() {
            decoder.decode(&mut bytes).map_err(|error| damaged(&error))?;
        }
        Ok(decoder.schema().map(BodySchema::new))
    })
}

pub struct ArrowReader {
    decoder: StreamDecoder,
    source: Arc<SourcePlan>,
    /// The columns that are loaded, once the schema has arrived.
    positions: Option<Vec<usize>>,
    encoder: BatchEncoder,
    input: Buffer,
    /// What the decoder has of a batch that is incomplete.
    gathered: usize,
    /// The values of dictionaries, which it keeps.
    dictionary_bytes: usize,
}

impl ArrowReader {
    pub(super) fn new(source: &Arc<SourcePlan>, rules: &Rules) -> Self {
        Self {
            decoder: StreamDecoder::new(),
            source: Arc::clone(source),
            positions: None,
            encoder: BatchEncoder::new(source, rules),
            input: Buffer::default(),
            gathered: 0,
            dictionary_bytes: 0,
        }
    }

    /// Adds input, once all of what came before is through.
    pub fn feed(&mut self, bytes: &[u8]) {
        assert!(self.input.is_empty() && self.encoder.is_idle(), "input is taken in order");
        self.input = Buffer::from(bytes);
    }

    /// The memory that an incomplete batch and dictionaries take.
    pub fn waiting_bytes(&self) -> usize {
        self.gathered + self.dictionary_bytes
    }

    /// Says that there is no more input.
    ///
    /// # Errors
    /// When the stream does not end there.
    pub fn end(&mut self) -> Result<()> {
        self.decoder.finish().map_err(|error| damaged(&error))?;
        if self.positions.is_none() {
            bail!(WrongArguments, "the body is no Arrow stream: it has no schema");
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Next> {
        while self.encoder.is_idle() && !self.input.is_empty() {
            let before = self.input.len();
            let batch = self.decoder.decode(&mut self.input).map_err(|error| damaged(&error))?;
            self.gathered += before - self.input.len();
            if self.positions.is_none()
                && let Some(schema) = self.decoder.schema()
            {
                let body = BodySchema::new(schema);
                self.positions = Some(BatchEncoder::positions(&self.source, &body)?);
            }
            if self.waiting_bytes() > BATCH_BYTES_MAX {
                bail!(
                    WrongArguments,
                    "a batch of the Arrow stream has more than {BATCH_BYTES_MAX} bytes; write \
                     smaller batches"
                );
            }
            if let Some(batch) = batch {
                self.gathered = 0;
                self.dictionary_bytes = batch.columns().iter().map(dictionary_bytes).sum();
                let positions = self.positions.as_deref().expect("a schema stands before batches");
                if batch.num_rows() > 0 {
                    self.encoder.begin(&batch, positions)?;
                }
            }
        }
        Ok(if self.encoder.is_idle() { Next::End } else { Next::Rows })
    }

    pub(super) fn step(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let until = self.encoder.step_end();
        self.encoder.encode(out, until)
    }

    pub(super) fn encoder(&self) -> &BatchEncoder {
        &self.encoder
    }

    pub(super) fn into_encoder(self) -> BatchEncoder {
        self.encoder
    }
}

fn dictionary_bytes(array: &ArrayRef) -> usize {
    let values = array.as_any_dictionary_opt().map(|dictionary| dictionary.values());
    values.map_or(0, |values| values.get_array_memory_size())
}

fn damaged(error: &arrow::error::ArrowError) -> Error {
    let text = error.to_string();
    if text.contains("compression") {
        return err!(
            NotSupported,
            "the Arrow stream has compressed buffers, which are not supported: write it without, \
             and compress the body (compress_type: zstd or lz4)"
        );
    }
    err!(WrongArguments, "the body is not an Arrow stream: {text}")
}
