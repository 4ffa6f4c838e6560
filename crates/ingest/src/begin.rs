//! The start of a term in the background, while reads are served already.

use std::sync::Arc;

use freshet_base::{Error, Result, TableId};
use freshet_schema::Table;

use crate::ddl::Ddl;
use crate::recycle::Recycler;
use crate::term::{NO_ROOM_PAUSE, Term};

/// Every so many failures one is logged: about one a minute.
const FAILURES_SILENT: u64 = 120;

/// Begins the term as soon as the log has room for its record, and then drops the tables that
/// earlier terms left without a name.
pub(crate) fn begin(term: &Arc<Term>, recycler: Arc<Recycler>, ddl: Arc<Ddl>) {
    let (term, appends) = (Arc::clone(term), term.appends());
    let store = Arc::clone(&term.store);
    // None is of this term, since a CREATE waits for its record.
    let catalog = term.store.meta().catalog();
    let is_left = |table: &&Arc<Table>| catalog.is_left_over(table);
    let left = catalog.tables().filter(is_left).map(|table| table.id);
    let left = left.collect::<Vec<TableId>>();
    let begin = async move {
        let _appends = appends;
        let mut failures = 0_u64;
        while !term.store.keeper.is_stopping() {
            match try_begin(&term, &recycler).await {
                Ok(()) => {
                    left.iter().for_each(|table| ddl.drop_unlisted_later(*table));
                    break;
                }
                Err(error) => {
                    if failures.is_multiple_of(FAILURES_SILENT) {
                        tracing::warn!(%error, "loads and DDL wait: the term cannot begin");
                    }
                    failures += 1;
                    term.store.clock().sleep(NO_ROOM_PAUSE).await;
                }
            }
        }
    };
    store.pool().spawn("begin", Box::pin(begin));
}

async fn try_begin(term: &Term, recycler: &Arc<Recycler>) -> Result<()> {
    let failpoints = term.store.failpoints();
    failpoints.pass("term-record").map_err(|e| Error::io("begin the term", e))?;
    // Even if that fails: a DROP can free disk and log, and needs the record before it.
    if let Err(error) = recycler.free_before_term().await {
        tracing::warn!(%error, "a start cannot free the log");
    }
    term.begin().await
}
