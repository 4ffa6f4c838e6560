//! SHOW ALTER TABLE COLUMN.

use freshet_base::Result;
use freshet_meta::{may_see_table, require_visible};

use super::listing::{Listing, instant, some};
use crate::session::Session;

/// Changes of columns since the start of the server, of tables that the user may see. Each is a
/// record of the log, and done when its statement is answered.
///
/// # Errors
/// 1046, 1044 and 1049.
pub fn jobs(session: &Session, database: Option<&str>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "JobId",
        "TableName",
        "CreateTime",
        "FinishTime",
        "IndexName",
        "IndexId",
        "OriginIndexId",
        "SchemaVersion",
        "TransactionId",
        "State",
        "Msg",
        "Progress",
        "Timeout",
    ]);
    let catalog = session.shared.engine.catalog();
    let actor = session.client.actor();
    let database = session.database_of(database)?;
    require_visible(&catalog, actor, database)?;
    for job in session.shared.alter_jobs.list() {
        if job.database != database || !may_see_table(&catalog, actor, database, &job.table) {
            continue;
        }
        listing.push([
            some(job.id),
            some(&job.table),
            some(instant(job.began_micros)),
            some(instant(job.ended_micros)),
            some(&job.table),
            some(job.table_id),
            some(job.table_id),
            some(job.schema_version.map_or(String::new(), |version| version.to_string())),
            some(job.id),
            some(if job.refused.is_none() { "FINISHED" } else { "CANCELLED" }),
            some(job.refused.as_deref().unwrap_or_default()),
            some("N/A"),
            some(2_592_000),
        ]);
    }
    Ok(listing)
}
