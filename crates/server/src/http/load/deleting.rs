//! Loads of which rows delete: `merge_type: DELETE` and `MERGE`. Removals stand in one record of
//! the log before its rows, so such a load is read as a whole and has the limit of a record.

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::task;
use freshet_base::{Error, Result, bail, err};
use freshet_ingest::{Engine, LoadTarget, with_removals};

use super::body::Body;
use super::columnar::{ColumnarBody, Steps};
use super::decode::{Bounds, decode_piece};
use super::decoder::Source;
use super::piece::{BodySummary, Decoded, Deletes};
use super::sink::{Memory, Sink};
use crate::http::Http;

/// A text may be so many times as long as its rows.
const TEXT_FACTOR: u64 = 4;

/// Decodes a whole body into `sink`.
///
/// # Errors
/// As those of other loads; `OutOfRoom` for rows that are too large for a record.
pub(super) async fn decode_deleting(
    http: &Http,
    target: &LoadTarget,
    body: &mut Body<'_>,
    source: &Source,
    (columns, bounds): (Option<ColumnarBody>, Bounds),
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    let engine = &http.engine;
    let decoded = gather(http, body, source, (columns, bounds), sink).await?;
    let Decoded { rows, count, summary, permit, deletes, .. } = decoded;
    let deletes = marks(source.deletes, deletes, count)?;
    let target = target.clone();
    let ordered = task::run(&**engine.pool(), move || with_removals(&target, &rows, &deletes));
    let mut buffer = ordered.await?;
    buffer.use_ids(summary.ids);
    if !engine.takes_record_of(buffer.payload_bytes()) {
        return Err(too_large(engine, buffer.payload_bytes() as u64));
    }
    sink.last(buffer, permit);
    Ok(summary)
}

/// Which of the rows delete.
///
/// # Errors
/// Never, where a load that marks them has done so.
pub(super) fn marks(deletes: Deletes, marked: Vec<bool>, count: usize) -> Result<Vec<bool>> {
    let all = match deletes {
        Deletes::Marked => marked,
        Deletes::All | Deletes::None => vec![deletes == Deletes::All; count],
    };
    if all.len() != count {
        bail!(Internal, "{count} rows of a load have {} marks of deletion", all.len());
    }
    Ok(all)
}

/// All rows of a body, which are those of a record.
///
/// # Errors
/// As those of other loads; `OutOfRoom` for rows that are too large for a record.
pub(super) async fn gather(
    http: &Http,
    body: &mut Body<'_>,
    source: &Source,
    (columns, bounds): (Option<ColumnarBody>, Bounds),
    sink: &Sink<'_>,
) -> Result<Decoded> {
    let mut memory = sink.memory();
    match columns {
        Some(columns) => {
            let steps = Steps::new(http, body, source, (columns, bounds))?;
            gather_columns(&http.engine, steps, &mut memory).await
        }
        None => gather_text(&http.engine, body, source, bounds, &mut memory).await,
    }
}

fn too_large(engine: &Engine, bytes: u64) -> Error {
    let limit = engine.config().wal_load_bytes_max;
    err!(
        OutOfRoom,
        "a load that deletes, or updates some columns, takes at most {limit} of rows at once \
         (wal_load_bytes_max), this one has {bytes} bytes or more; send it in parts"
    )
}

/// All rows of a body of lines or documents.
async fn gather_text(
    engine: &Engine,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    memory: &mut Memory<'_>,
) -> Result<Decoded> {
    let limit = engine.config().wal_load_bytes_max.bytes().saturating_mul(TEXT_FACTOR);
    let (mut parts, mut bytes) = (Vec::<Bytes>::new(), 0);
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        bytes += part.len();
        if bytes as u64 > limit {
            return Err(too_large(engine, bytes as u64));
        }
        // The text, its fields, and what is computed of them.
        memory.cover(3 * bytes).await?;
        parts.push(part);
    }
    let (own, permit) = (source.clone(), memory.take());
    let decode = move || decode_piece(&own, true, parts.concat(), permit);
    let decoded = task::run(&**engine.pool(), decode).await?;
    match &source.mapped {
        Some(mapped) => mapped.start(decoded).await,
        None => Ok(decoded),
    }
}

/// All rows of a body of columns.
async fn gather_columns(
    engine: &Engine,
    mut steps: Steps<'_, '_>,
    memory: &mut Memory<'_>,
) -> Result<Decoded> {
    let (mut rows, mut count, mut deletes) = (Vec::new(), 0, Vec::new());
    let mut permit = None::<Permit>;
    while let Some(step) = steps.next(memory).await? {
        rows.extend_from_slice(&step.rows);
        count += step.count;
        deletes.extend(step.deletes);
        match &mut permit {
            Some(permit) => permit.merge(step.permit),
            None => permit = Some(step.permit),
        }
        if !engine.takes_record_of(rows.len()) {
            return Err(too_large(engine, rows.len() as u64));
        }
    }
    let permit = permit.unwrap_or_else(|| memory.take());
    let (summary, given) = (steps.finish(), Vec::new());
    Ok(Decoded { rows, count, summary, permit, deletes, given })
}
