//! The decoder of a body, in its format.

use std::sync::Arc;

use freshet_base::Result;
use freshet_ingest::decode::csv::CsvDecoder;
use freshet_ingest::decode::json::JsonDecoder;
use freshet_ingest::decode::{PartialColumns, SourcePlan};
use freshet_schema::Rules;

use super::headers::LoadFormat;
use super::mapped::Mapped;
use super::piece::{BodySummary, Deletes};

/// What all parts of a body have in common.
#[derive(Clone)]
pub(super) struct Source {
    pub format: LoadFormat,
    pub plan: Arc<SourcePlan>,
    pub rules: Rules,
    /// What is computed of the decoded rows.
    pub mapped: Option<Arc<Mapped>>,
    /// Which of the rows delete.
    pub deletes: Deletes,
    /// Of a partial update: which columns its rows have.
    pub partial: Option<Arc<PartialColumns>>,
}

/// Decodes the parts of a body in their order.
pub(super) enum Decoder {
    Csv(Box<CsvDecoder>),
    Json(Box<JsonDecoder>),
}

impl Decoder {
    pub(super) fn new(source: &Source, is_first: bool) -> Self {
        let (plan, rules) = (&source.plan, &source.rules);
        match &source.format {
            LoadFormat::Csv(format) => {
                let decoder = CsvDecoder::new(format.clone(), plan, rules);
                Self::Csv(Box::new(if is_first { decoder } else { decoder.of_later_part() }))
            }
            LoadFormat::Json(format) => {
                Self::Json(Box::new(JsonDecoder::new(format.clone(), plan, rules)))
            }
            LoadFormat::Columnar(_) => unreachable!("a body of columns has a reader of its own"),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Csv(decoder) => decoder.feed(bytes, out),
            Self::Json(decoder) => decoder.feed(bytes, out),
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Csv(decoder) => decoder.finish(out),
            Self::Json(decoder) => decoder.finish(out),
        }
    }

    /// Bytes of an incomplete line or document.
    pub(super) fn waiting_bytes(&self) -> usize {
        match self {
            Self::Csv(decoder) => decoder.waiting_bytes(),
            Self::Json(decoder) => decoder.waiting_bytes(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Csv(decoder) => decoder.rows(),
            Self::Json(decoder) => decoder.rows(),
        }
    }

    /// For each row of a flexible partial update, which columns it has.
    pub(super) fn take_given(&mut self) -> Vec<bool> {
        match self {
            Self::Csv(_) => Vec::new(),
            Self::Json(decoder) => decoder.take_given(),
        }
    }

    pub(super) fn into_summary(self) -> BodySummary {
        let ids = match &self {
            Self::Csv(decoder) => decoder.ids(),
            Self::Json(decoder) => decoder.ids(),
        };
        let (rows, (rejects, _)) = match self {
            Self::Csv(decoder) => (decoder.lines(), decoder.into_rejects()),
            Self::Json(decoder) => (decoder.objects(), decoder.into_rejects()),
        };
        BodySummary { rows, rejects, unselected: 0, ids }
    }
}
