//! ALTER TABLE of partitions, temporary ones among them.

use std::sync::Arc;

use freshet_base::{Result, TableId, bail};
use freshet_ingest::{bin_partitions, exchange_partition, reorganize, replace_partitions};
use freshet_meta::{Division, Object, PartitionChange, Privilege};
use freshet_query::parser::{AlterAction, Clauses, TableName};
use freshet_query::snapshot::temporary_names;

use super::super::{shield, tending};
use super::table_id;
use crate::reply::Reply;
use crate::session::Session;

/// Runs such an action.
///
/// # Errors
/// Missing privileges, those of metadata, of files and of the log.
pub async fn alter(
    session: &mut Session,
    (table, id): (&TableName, TableId),
    action: &AlterAction,
) -> Result<Reply> {
    let engine = Arc::clone(&session.shared.engine);
    let notes = match action {
        AlterAction::Tend { tending, names } => {
            let of = engine.catalog().require(id)?.clone();
            return tending::tend_partitions(session, *tending, (table, &of), names.as_deref())
                .await;
        }
        AlterAction::Partitions(change) => match of_hash(session, (table, id), change).await? {
            Some(done) => return Ok(done),
            None => {
                let change = change.clone().said_in(session.settings.zone());
                changed(session, (table, id), change).await?
            }
        },
        AlterAction::AddTemporary(added) => {
            refuse_temporary_table(session, table)?;
            let added = added.clone().said_in(session.settings.zone());
            let added = async move { engine.ddl().add_temporary_partitions(id, added).await };
            shield(session, added).await?
        }
        AlterAction::DropTemporary { names, if_exists } => {
            table_id(session, table, Privilege::Drop)?;
            let (names, if_exists) = (names.clone(), *if_exists);
            let dropped =
                async move { engine.ddl().drop_temporary_partitions(id, names, if_exists).await };
            shield(session, dropped).await?
        }
        AlterAction::ReplacePartitions(replacing) => {
            table_id(session, table, Privilege::Drop)?;
            session.wait_durable().await;
            let replacing = replacing.clone();
            let replaced = async move { replace_partitions(&engine, id, replacing).await };
            shield(session, replaced).await?;
            Vec::new()
        }
        AlterAction::Exchange { partition, with } => {
            let other = table_to_exchange(session, table, with)?;
            session.wait_durable().await;
            let from = (id, partition.clone());
            let exchanged = async move { exchange_partition(&engine, from, other).await };
            shield(session, exchanged).await?;
            Vec::new()
        }
        _ => unreachable!("it is an action on partitions"),
    };
    for note in notes {
        session.diagnostics.push("Note", 1507, note);
    }
    Ok(Reply::done())
}

/// Changes partitions by RANGE or LIST. Returns notes.
async fn changed(
    session: &mut Session,
    (table, id): (&TableName, TableId),
    change: PartitionChange,
) -> Result<Vec<String>> {
    let engine = Arc::clone(&session.shared.engine);
    if matches!(change, PartitionChange::Drop { .. } | PartitionChange::Truncate(_)) {
        table_id(session, table, Privilege::Drop)?;
    }
    let (id, change) = of_temporary(session, id, change)?;
    match change {
        PartitionChange::Reorganize { .. }
        | PartitionChange::SplitAt { .. }
        | PartitionChange::Merge { .. } => {
            session.wait_durable().await;
            let moved = async move { reorganize(&engine, id, change).await };
            shield(session, moved).await?;
            Ok(Vec::new())
        }
        PartitionChange::Drop { names, if_exists, force: false } => {
            let binned = async move { bin_partitions(&engine, id, names, if_exists).await };
            shield(session, binned).await
        }
        change => {
            let moves = matches!(change, PartitionChange::Move(_));
            let changed = async move { engine.ddl().change_partitions(id, change).await };
            let notes = shield(session, changed).await?;
            if moves {
                note_one_node(session);
            }
            Ok(notes)
        }
    }
}

/// The table whose partitions are truncated, where these are temporary ones.
///
/// # Errors
/// 1735 where there are none.
fn of_temporary(
    session: &Session,
    id: TableId,
    change: PartitionChange,
) -> Result<(TableId, PartitionChange)> {
    let PartitionChange::Truncate(Some(names)) = &change else { return Ok((id, change)) };
    let Some(names) = temporary_names(names) else { return Ok((id, change)) };
    let engine = &session.shared.engine;
    let target = engine.temporary_target(engine.catalog().require(id)?, names)?;
    Ok((target.id(), PartitionChange::Truncate(Some(names.to_vec()))))
}

/// MERGE and MOVE PARTITIONS of a table whose partitions are its tablets; `None` for others.
async fn of_hash(
    session: &mut Session,
    (table, id): (&TableName, TableId),
    change: &PartitionChange,
) -> Result<Option<Reply>> {
    let known = session.shared.engine.catalog().require(id)?.clone();
    if known.partition_by.is_some() || known.placement.is_none() {
        return Ok(None);
    }
    match change {
        PartitionChange::Merge { from, .. } => {
            let division = Some(Division::Merge(from.clone()));
            let clauses = Clauses { division, ..Clauses::default() };
            let affected = super::alter_clauses(session, (table, id), &clauses).await?;
            Ok(Some(Reply::Done { affected }))
        }
        PartitionChange::Move(_) => {
            note_one_node(session);
            Ok(Some(Reply::done()))
        }
        _ => Ok(None),
    }
}

fn note_one_node(session: &mut Session) {
    let note = "MOVE PARTITIONS has no effect: there is one node, which has all of them";
    session.diagnostics.push("Note", 1235, note.to_owned());
}

/// Temporary partitions would outlive a table that goes with its session.
fn refuse_temporary_table(session: &Session, table: &TableName) -> Result<()> {
    let database = session.database_of(table.database.as_deref())?;
    if session.temporary.find(database, &table.table).is_some() {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'TEMPORARY PARTITION' of a temporary table"
        );
    }
    Ok(())
}

/// The table whose rows a partition takes. Each of the two tables gets rows and loses some.
fn table_to_exchange(session: &Session, table: &TableName, with: &TableName) -> Result<TableId> {
    let needed = [Privilege::Alter, Privilege::Insert, Privilege::Create, Privilege::Drop];
    for one in [table, with] {
        let database = session.database_of(one.database.as_deref())?;
        if session.temporary.find(database, &one.table).is_some() {
            bail!(
                ExchangeTemporary,
                "Table to exchange with partition is temporary: '{}'",
                one.table
            );
        }
        for privilege in needed {
            session.authorize(privilege, Object::Table(database, &one.table))?;
        }
    }
    let id = table_id(session, with, Privilege::Alter)?;
    if id == table_id(session, table, Privilege::Alter)? {
        bail!(NotUniqueTable, "Not unique table/alias: '{}'", table.table);
    }
    Ok(id)
}
