//! Loads of which rows delete: `merge_type: DELETE` and `MERGE`. Removals stand in one record of
//! the log before its rows, so such a load is read as a whole and has the limit of a record.

use bytes::Bytes;
use freshet_base::task;
use freshet_base::{Result, bail, err};
use freshet_ingest::{Engine, LoadTarget, with_removals};

use super::body::Body;
use super::decode::{Bounds, decode_piece};
use super::decoder::Source;
use super::piece::{BodySummary, Decoded, Deletes};
use super::sink::Sink;

/// A text may be so many times as long as its rows.
const TEXT_FACTOR: u64 = 4;

/// Decodes a whole body into `sink`.
///
/// # Errors
/// As those of other loads; `OutOfRoom` for rows that are too large for a record.
pub(super) async fn decode_deleting(
    engine: &Engine,
    target: &LoadTarget,
    body: &mut Body<'_>,
    source: &Source,
    bounds: Bounds,
    sink: &mut Sink<'_>,
) -> Result<BodySummary> {
    let limit = engine.config().wal_load_bytes_max;
    let too_large = |bytes: u64| {
        err!(
            OutOfRoom,
            "a load that deletes takes at most {limit} of rows at once (wal_load_bytes_max), this \
             one has {bytes} bytes or more; send it in parts"
        )
    };
    let (mut parts, mut bytes, mut memory) = (Vec::<Bytes>::new(), 0, sink.memory());
    while let Some(part) = body.next(bounds.limit, bounds.deadline).await? {
        bytes += part.len();
        if bytes as u64 > limit.bytes().saturating_mul(TEXT_FACTOR) {
            return Err(too_large(bytes as u64));
        }
        // The text, its fields, and what is computed of them.
        memory.cover(3 * bytes).await?;
        parts.push(part);
    }
    let (own, permit) = (source.clone(), memory.take());
    let decode = move || decode_piece(&own, true, parts.concat(), permit);
    let decoded = task::run(&**engine.pool(), decode).await?;
    let decoded = match &source.mapped {
        Some(mapped) => mapped.start(decoded).await?,
        None => decoded,
    };
    let Decoded { rows, count, summary, permit, deletes } = decoded;
    let deletes = match source.deletes {
        Deletes::Marked => deletes,
        Deletes::All | Deletes::None => vec![source.deletes == Deletes::All; count],
    };
    if deletes.len() != count {
        bail!(Internal, "{count} rows of a load have {} marks of deletion", deletes.len());
    }
    let target = target.clone();
    let ordered = task::run(&**engine.pool(), move || with_removals(&target, &rows, &deletes));
    let mut buffer = ordered.await?;
    buffer.use_ids(summary.ids);
    if !engine.takes_record_of(buffer.payload_bytes()) {
        return Err(too_large(buffer.payload_bytes() as u64));
    }
    sink.last(buffer, permit);
    Ok(summary)
}
