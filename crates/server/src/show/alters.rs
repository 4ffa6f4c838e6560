//! SHOW ALTER TABLE COLUMN.

use freshet_base::Result;
use freshet_ingest::Stage;
use freshet_meta::{may_see_table, require_visible};

use super::listing::{Listing, instant, some};
use crate::alter_jobs::JobEnd;
use crate::session::Session;

/// The state of a change in the words of Doris, when it ended, what is said of it, and how far it
/// is.
fn shown(end: &JobEnd) -> (&'static str, Option<i64>, String, String) {
    match end {
        JobEnd::Done(at) => ("FINISHED", Some(*at), String::new(), "N/A".to_owned()),
        JobEnd::Refused(at, why) => ("CANCELLED", Some(*at), why.clone(), "N/A".to_owned()),
        JobEnd::Runs(progress) => {
            let state = match progress.stage() {
                Stage::Pending => "PENDING",
                Stage::Running => "RUNNING",
                Stage::Waiting => "WAITING_TXN",
            };
            let (rows, of) = progress.rows();
            (state, None, String::new(), format!("{rows}/{of}"))
        }
    }
}

/// Changes of columns since the start of the server, of tables that the user may see. Most are a
/// record of the log, and done when their statement is answered; others copy rows.
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
        let (state, ended, message, progress) = shown(&job.end);
        listing.push([
            some(job.id),
            some(&job.table),
            some(instant(job.began_micros)),
            ended.map(instant),
            some(&job.table),
            some(job.table_id),
            some(job.table_id),
            some(job.schema_version.map_or(String::new(), |version| version.to_string())),
            some(job.id),
            some(state),
            some(message),
            some(progress),
            some(2_592_000),
        ]);
    }
    Ok(listing)
}
