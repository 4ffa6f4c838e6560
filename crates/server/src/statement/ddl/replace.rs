//! ALTER TABLE .. REPLACE WITH TABLE, and what is remembered of changes of columns.

use std::sync::Arc;

use freshet_base::{ErrorCode, Result, TableId, bail};
use freshet_meta::{Object, Privilege, Renaming};
use freshet_query::parser::TableName;

use super::{authorized_renaming, shield};
use crate::alter_jobs::{AlterJob, JobEnd};
use crate::reply::Reply;
use crate::session::Session;

/// Gives table `by` the name of `table`, at one position of the log, and `table` that of `by`;
/// without `swap` it is dropped then.
///
/// # Errors
/// Missing privileges, 1146; those of the log.
pub async fn replace(
    session: &Session,
    table: &TableName,
    by: &TableName,
    swap: bool,
) -> Result<Reply> {
    let there = authorized_renaming(session, table, by)?;
    let back = authorized_renaming(session, by, table)?;
    let database = there.database.clone();
    if there.from == there.to {
        bail!(Unknown, "Can not replace table '{}' with itself", there.from);
    }
    session.authorize(Privilege::Drop, Object::Table(&database, &there.from))?;
    let engine = Arc::clone(&session.shared.engine);
    let catalog = engine.catalog();
    let replaced = catalog.require_table(&database, &there.from)?;
    let replacing = catalog.require_table(&database, &there.to)?;
    if let Some(with) = [replaced, replacing].iter().find(|table| !table.policies.is_empty()) {
        bail!(
            NotSupported,
            "REPLACE WITH TABLE is not supported for table '{}', whose row policies would stay \
             with its rows: DROP them first, and CREATE them on the table that takes its place",
            with.name
        );
    }
    let id = replaced.id;
    let between = format!("replaced_table_{id}");
    let step = |from: &str, to: &str| Renaming::within(&database, from, to);
    let steps =
        [step(&there.from, &between), step(&back.from, &back.to), step(&between, &there.to)];
    shield(session, async move {
        engine.rename_tables(&steps).await?;
        if !swap {
            engine.ddl().drop_table(&database, &there.to, false).await?;
        }
        Ok(())
    })
    .await?;
    Ok(Reply::done())
}

/// Remembers a change of columns for SHOW ALTER TABLE COLUMN.
pub fn note_alter(
    session: &Session,
    table: &TableName,
    table_id: TableId,
    began_micros: i64,
    done: &Result<()>,
) {
    let engine = &session.shared.engine;
    let Ok(database) = session.database_of(table.database.as_deref()) else { return };
    if done.as_ref().is_err_and(|error| error.code() == ErrorCode::TableChanged) {
        // It is run again.
        return;
    }
    let schema = || Some(engine.catalog().table_by_id(table_id)?.schema().version);
    let ended = engine.clock().wall_micros();
    session.shared.alter_jobs.add(AlterJob {
        id: 0,
        database: database.to_owned(),
        table: table.table.clone(),
        table_id,
        schema_version: done.is_ok().then(schema).flatten(),
        began_micros,
        end: match done {
            Ok(()) => JobEnd::Done(ended),
            Err(error) => JobEnd::Refused(ended, error.message().to_owned()),
        },
    });
}
