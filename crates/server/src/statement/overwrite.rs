//! INSERT OVERWRITE (RFC 0049): the rows of the statement go to a table of the same form, which
//! then takes the place of the other one, or its rows those of some partitions.

use std::sync::Arc;

use freshet_base::{Result, TableId, bail, err};
use freshet_ingest::{Loaded, OnExisting, Progress, UnpublishedTable};
use freshet_ingest::{overwrite as put_in_place, overwrite_partitions};
use freshet_meta::{Claim, NewForm, Privilege};
use freshet_query::Parameter;
use freshet_query::parser::{Insert, InsertSource};
use freshet_query::snapshot::temporary_names;
use freshet_schema::Table;

use super::ddl::warn;
use super::ddl::written::spec_of;
use super::insert::Selected;
use super::{act, insert, shield};
use crate::as_of::AsOf;
use crate::insert::{Grouping, Target, claimed, note_if_failed, note_labelled, tell};
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// Runs an INSERT OVERWRITE.
///
/// # Errors
/// Names, privileges, values, planning, memory, and 1235 for what it cannot overwrite. The rows
/// that were there stay then.
pub async fn overwrite(
    session: &mut Session,
    insert: &Insert,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let done = run(session, insert, parameters).await;
    note_if_failed(session, insert, &done);
    done
}

async fn run(session: &mut Session, insert: &Insert, parameters: Vec<Parameter>) -> Result<Reply> {
    let engine = Arc::clone(&session.shared.engine);
    // What it resolves is let go at once: it would be waited for.
    let before = engine.catalog().require(checked(session, insert)?)?.clone();
    if session.transactions.writable(&engine, &session.settings)?.is_some() {
        bail!(
            NotSupported,
            "INSERT OVERWRITE of table '{}' is not supported in a transaction: COMMIT first, and \
             SET autocommit = 1",
            before.name
        );
    }
    let losses = session.settings.losses(before.form);
    let rows = match &insert.source {
        InsertSource::Query(select) => {
            let rows = Selected::run(session, select, parameters.clone(), losses).await?;
            // A transaction opened by planning has a snapshot without the new table.
            session.transactions.roll_back();
            Some(rows)
        }
        InsertSource::Values(_) => None,
    };
    let label = match &insert.label {
        Some(label) => Some(claimed(session, before.db, label).await?),
        None => None,
    };
    let filled = beside(session, &before, is_of_partitions(insert)).await?;
    let target = target_of(session, insert, &filled)?;
    let reply = match (&insert.source, rows) {
        (InsertSource::Values(rows), _) => {
            let filled = act::filled(session, rows, &parameters).await?;
            let rows = filled.as_ref().map_or(rows, |filled| &filled.rows);
            insert::values(session, insert, target, (rows, parameters)).await?
        }
        (InsertSource::Query(_), rows) => {
            let rows = rows.expect("the query was just run");
            insert::from_rows(session, target, Grouping::OfNewTable, rows).await?
        }
    };
    let table = Arc::clone(&before);
    let (is_whole, new) = (!is_of_partitions(insert), filled.target().id());
    let labelled = if is_whole {
        replace(session, before, (filled, label)).await?
    } else {
        let names = (!insert.finds_partitions).then(|| insert.partitions.clone());
        let filled = (filled, session.acked);
        let put = async move { overwrite_partitions(&engine, &before, filled, names, label).await };
        shield(session, put).await?
    };
    match labelled {
        Some(loaded) => {
            let rows = u64::try_from(session.row_count).unwrap_or(0);
            note_labelled(session, &table, &loaded, rows);
            // The record has the label, and not the rows, which are in this table now.
            tell(session, loaded, (if is_whole { new } else { table.id }, rows));
        }
        None => session.note_left_out(None),
    }
    Ok(reply)
}

/// Whether a statement overwrites some partitions.
fn is_of_partitions(insert: &Insert) -> bool {
    insert.finds_partitions || !insert.partitions.is_empty()
}

/// The table that is overwritten, if the user may, and it can be.
fn checked(session: &Session, insert: &Insert) -> Result<TableId> {
    let (database, name) = (insert.table.database.as_deref(), &insert.table.table);
    let target = insert::target(session, insert)?;
    if let Some(through) = &target.through {
        let (home, view) = &through.views[0];
        bail!(WrongObject, "'{home}.{}' is not BASE TABLE", view.name);
    }
    session.authorize_use(Privilege::Delete, session.database_of(database)?, name)?;
    let table = target.into.table();
    session.check_sees_all(table, Privilege::Delete, "INSERT OVERWRITE would remove them")?;
    if insert.finds_partitions && table.partition_by.is_none() {
        bail!(PartitionClause, "PARTITION () clause on non partitioned table");
    }
    let refused = if target.partial.is_some() {
        Some("of some columns: SET enable_unique_key_partial_update = 0")
    } else if table.unlisted {
        Some("of a temporary table or of temporary partitions: TRUNCATE it, and INSERT")
    } else if temporary_names(&insert.partitions).is_some() {
        Some("of temporary partitions: DROP and ADD TEMPORARY PARTITION, and INSERT")
    } else {
        None
    };
    if let Some(refused) = refused {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'INSERT OVERWRITE' {refused} (table \
             '{name}')"
        );
    }
    session.shared.engine.catalog().check_no_temporary(table)?;
    Ok(table.id)
}

/// A table of the same form, which nobody else knows. For partitions alone it takes its generated
/// ids from the table, whose other rows stay.
async fn beside(
    session: &mut Session,
    before: &Arc<Table>,
    is_of_partitions: bool,
) -> Result<UnpublishedTable> {
    let (engine, old) = (Arc::clone(&session.shared.engine), Arc::clone(before));
    let made = async move {
        let form = NewForm::same(&old, spec_of(&old)?);
        if is_of_partitions {
            return engine.ddl().create_beside(&old, &form).await;
        }
        let made = engine.ddl().create_copy(&old, &form).await?;
        // Ids that the table has given are not given again.
        if let Some(next) = engine.next_id(old.id) {
            engine.ddl().move_counter(made.0.target().id(), next).await?;
        }
        Ok(made)
    };
    let (filled, warnings) = shield(session, made).await?;
    warn(session, warnings);
    Ok(filled)
}

/// The same columns of the new table.
fn target_of(session: &Session, insert: &Insert, filled: &UnpublishedTable) -> Result<Target> {
    let (shared, into) = (&session.shared, filled.target().clone());
    let as_of = AsOf::now(session);
    let (settings, columns) = (&session.settings, insert.columns.as_deref());
    let on_existing = OnExisting::Refuse;
    let mut target = Target::new(shared, settings, as_of, into, columns, on_existing)?;
    target.is_beside = true;
    if !insert.partitions.is_empty() {
        target.only(&insert.partitions)?;
    }
    Ok(target)
}

/// Puts the new table in the place of the other one, until KILL or a time limit ends the statement.
async fn replace(
    session: &Session,
    before: Arc<Table>,
    filled: (UnpublishedTable, Option<Claim>),
) -> Result<Option<Loaded>> {
    let progress = Arc::new(Progress::default());
    let (engine, watched) = (Arc::clone(&session.shared.engine), Arc::clone(&progress));
    let put = async move { put_in_place(&engine, &before, filled, &progress).await };
    let mut running = session.shared.statements.spawn(put);
    let done = match bounded(session, async { Ok((&mut running).await) }).await {
        Ok(done) => done,
        Err(why) => {
            watched.cancel();
            match running.await {
                // It was done before it could be ended.
                Ok(Ok(done)) => return Ok(done),
                _ => return Err(why),
            }
        }
    };
    done.map_err(|error| err!(Unknown, "the statement ended by an internal error: {error}"))?
}
