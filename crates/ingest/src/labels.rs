//! CLEAN LABEL: one record, at which labels of finished loads are forgotten.

use freshet_base::{DbId, Error, Result};
use freshet_meta::CleanedLabels;

use crate::engine::Engine;
use crate::record::{self, Kind, SMALL_RECORD_BYTES};

/// Forgets a label of a finished load, or all of them; durable on return. Whoever sends such a load
/// again loads it twice.
///
/// # Errors
/// `OutOfRoom` while the log is full.
pub async fn clean_labels(engine: &Engine, db: DbId, label: Option<String>) -> Result<()> {
    engine.begun().await?;
    // The labels of loads that are told to be committed are forgotten, too.
    engine.prepared.settled().await;
    // A load that ends after this stays known, so that none is missing among those that are kept.
    let below = engine.log_stats().next_lsn;
    let kept = engine.prepared.unsettled();
    let cleaned = CleanedLabels { db, label, below, kept };
    let payload = record::labels_payload(&cleaned);
    let room = engine.admission.room_soon(SMALL_RECORD_BYTES + payload.len()).await?;
    let kind = Kind::Labels as u8;
    let (lsn, ()) = engine.store.wal.append(kind, &payload[..], room, |_, stamp| {
        record::write_database_stamp(stamp, db);
        engine.meta().labels().clean(&cleaned);
        Ok::<_, Error>(())
    })?;
    engine.horizon().wait(lsn).await;
    Ok(())
}
