//! RECOVER of tables, databases and partitions, and their DROP in the recycle bin.

use std::sync::Arc;

use freshet_base::{DbId, PartitionId, Result, TableId, bail};
use freshet_ingest::recover_partition;
use freshet_meta::{Object, Privilege};
use freshet_query::parser::BinStatement;
use freshet_schema::Table;

use super::shield;
use crate::reply::Reply;
use crate::session::Session;

/// Runs such a statement.
///
/// # Errors
/// Missing privileges, unknown names, a name that is taken.
pub async fn run(session: &Session, statement: &BinStatement) -> Result<Reply> {
    let engine = Arc::clone(&session.shared.engine);
    match statement {
        BinStatement::Recover { table, id, new_name } => {
            let database = session.database_of(table.database.as_deref())?.to_owned();
            let shown = new_name.as_ref().unwrap_or(&table.table);
            // Who recovers it could as well have dropped it, and gets it under another name.
            session.authorize(Privilege::Drop, Object::Table(&database, &table.table))?;
            session.authorize(Privilege::Create, Object::Table(&database, shown))?;
            let (name, id, new_name) = (table.table.clone(), id.map(TableId), new_name.clone());
            let recovered = async move {
                engine.ddl().recover_table((&database, &name), id, new_name.as_deref()).await
            };
            shield(session, recovered).await?;
        }
        BinStatement::RecoverDatabase { name, id, new_name } => {
            let shown = new_name.as_ref().unwrap_or(name);
            session.authorize(Privilege::Drop, Object::Database(name))?;
            session.authorize(Privilege::Create, Object::Database(shown))?;
            let (name, id, new_name) = (name.clone(), id.map(DbId), new_name.clone());
            let recovered =
                async move { engine.ddl().recover_database(&name, id, new_name.as_deref()).await };
            shield(session, recovered).await?;
        }
        BinStatement::RecoverPartition { name, id, new_name, table } => {
            let database = session.database_of(table.database.as_deref())?.to_owned();
            for privilege in [Privilege::Drop, Privilege::Create] {
                session.authorize(privilege, Object::Table(&database, &table.table))?;
            }
            let of = session.definition(&database, &table.table)?.id;
            let partition = (name.clone(), id.map(PartitionId));
            let new_name = new_name.clone();
            session.wait_durable().await;
            let recovered =
                async move { recover_partition(&engine, of, partition, new_name).await };
            shield(session, recovered).await?;
        }
        BinStatement::DropPartition { id } => drop_partition(session, PartitionId(*id)).await?,
        BinStatement::DropDatabase { id } => drop_database(session, DbId(*id)).await?,
        BinStatement::Drop { id } => {
            let id = TableId(*id);
            let catalog = engine.catalog();
            let unknown = || format!("Unknown table {id} in the recycle bin");
            let Some(table) = catalog.bin().find(|table| table.id == id) else {
                bail!(TableDropMissing, "{}", unknown());
            };
            let database = catalog.database_name(table).to_owned();
            // Names of tables that the user must not see are not told.
            if session.authorize(Privilege::Drop, Object::Table(&database, &table.name)).is_err() {
                bail!(TableDropMissing, "{}", unknown());
            }
            if !shield(session, async move { engine.ddl().drop_from_bin(id).await }).await? {
                bail!(TableDropMissing, "{}", unknown());
            }
        }
    }
    Ok(Reply::done())
}

async fn drop_partition(session: &Session, id: PartitionId) -> Result<()> {
    let engine = Arc::clone(&session.shared.engine);
    let catalog = engine.catalog();
    // Names of tables that the user must not see are not told.
    let is_allowed = |table: &Table| {
        let database = catalog.database_name(table);
        session.authorize(Privilege::Drop, Object::Table(database, &table.name)).is_ok()
    };
    let resting = engine.resting_partitions();
    let found = resting.iter().find(|one| one.resting.partition.id == id);
    let table = found.and_then(|one| catalog.table_by_id(one.resting.table));
    if let Some(table) = table.filter(|table| is_allowed(table)) {
        let table = table.id;
        let forgotten = async move { engine.ddl().forget_partitions(table, vec![id]).await };
        if shield(session, forgotten).await? {
            return Ok(());
        }
    }
    bail!(NoSuchPartition, "Unknown partition {id} in the recycle bin")
}

async fn drop_database(session: &Session, id: DbId) -> Result<()> {
    let engine = Arc::clone(&session.shared.engine);
    let catalog = engine.catalog();
    let is_allowed =
        |name: &str| session.authorize(Privilege::Drop, Object::Database(name)).is_ok();
    // Names of databases that the user must not see are not told.
    let known = catalog.dropped_databases().find(|one| one.id == id);
    let is_known = known.is_some_and(|one| is_allowed(&one.name));
    if is_known
        && shield(session, async move { engine.ddl().drop_database_from_bin(id).await }).await?
    {
        return Ok(());
    }
    bail!(DatabaseDropMissing, "Unknown database {id} in the recycle bin")
}
