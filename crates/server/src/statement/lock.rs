//! SELECT .. FOR UPDATE and FOR SHARE (keys.md K6): the keys of the rows are locked until the end
//! of the transaction, and the query reads what these rows are now.

mod joined;
mod tables;

use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{ErrorCode, Result};
use freshet_ingest::{self as ingest, LoadTarget, OwnRows};
use freshet_query::Parameter;
use freshet_query::change::{Change, LockWait, Locking};
use freshet_query::syntax::Select;
use freshet_schema::{ColumnsBuilder, KeyModel, TableSchema};
use freshet_storage::resolver::KeyedRows;

use self::tables::LockedTable;
use super::query;
use crate::accounts::SessionMemory;
use crate::given::GivenRows;
use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// Rows that are locked and read before others are.
const ROWS_AT_ONCE: usize = 1024;
/// How often rows are looked for again that others have locked meanwhile.
const TRIES_MAX: u32 = 10;

/// Runs the query. Outside of a transaction it is one of its own: it waits for who holds the rows,
/// and holds none when it ends. What cannot be locked is read there as by any SELECT, and FOR SHARE
/// of it in a transaction, too: who only reads can do no harm by it, but sees its snapshot.
///
/// # Errors
/// Those of planning; 1205, 1213 and 3572 for keys that others hold; 3568 and 3569 for names behind
/// OF; for FOR UPDATE 1792 in a read-only transaction, and in any `NotSupported` for a UNION and
/// tables with an AGGREGATE KEY.
pub async fn select(
    session: &mut Session,
    query: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let engine = Arc::clone(&session.shared.engine);
    let own = match query.is_shared() {
        true => {
            session.transactions.check_alive()?;
            session.transactions.own_rows(&engine, &session.settings)?.cloned()
        }
        false => session.transactions.writable(&engine, &session.settings)?.cloned(),
    };
    let locking = match Locking::of(query) {
        Err(error)
            if error.code() == ErrorCode::NotSupported && (own.is_none() || query.is_shared()) =>
        {
            return query::select(session, query, items, parameters).await;
        }
        locking => locking?,
    };
    // Not while it holds the rows.
    session.enter_for(query).await?;
    let tables = tables::of(session, locking.tables, own.is_some())?;
    if tables.is_empty() {
        return query::select(session, query, items, parameters).await;
    }
    let locking = (tables, locking.is_single);
    if let Some(own) = own {
        return within(session, (query, items), locking, parameters, own).await;
    }
    session.transactions.begin(&engine, &session.settings, None, false)?;
    let own = session.transactions.open().expect("it was just opened").own_rows().clone();
    let done = within(session, (query, items), locking, parameters, own).await;
    session.transactions.roll_back();
    done
}

/// Runs the query in a transaction, which holds the rows until its end.
async fn within(
    session: &mut Session,
    query: (&Select, &[String]),
    (tables, is_single): (Vec<LockedTable>, bool),
    parameters: Vec<Parameter>,
    own: OwnRows,
) -> Result<Reply> {
    match &tables[..] {
        [table] if is_single && table.knows_limit() => {
            alone(session, query, table, parameters, own).await
        }
        _ => joined::select(session, query, tables, parameters, own).await,
    }
}

/// Runs a query of one table.
async fn alone(
    session: &mut Session,
    (query, items): (&Select, &[String]),
    table: &LockedTable,
    parameters: Vec<Parameter>,
    own: OwnRows,
) -> Result<Reply> {
    let engine = Arc::clone(&session.shared.engine);
    let LockedTable { change: lock, target, wait, .. } = table;
    let mut locking = table.locking(session, &engine, own);
    if target.table().key_model == KeyModel::Duplicate {
        // Rows without keys: the table is locked, and read when it is.
        bounded(session, locking.lock_table()).await.map_err(|error| table.error(error))?;
        session.acked = session.acked.max(locking.seen());
        let (origin, part) = (Reader::latest(session).await?, query::portion(session, query));
        return query::select_from(session, (query, items), origin, parameters, part).await;
    }
    bounded(session, locking.begin()).await?;
    let keys = match wait {
        LockWait::Skip => free(session, lock, target, &mut locking, &parameters).await?,
        _ => tables::found(session, lock, target, &parameters).await?,
    };
    let rows = locked(session, &mut locking, (&keys, target.schema())).await;
    let rows = rows.map_err(|error| table.error(error))?;
    session.acked = session.acked.max(locking.seen());
    let given = GivenRows::of(target.id(), Arc::clone(target.schema()), rows);
    let (origin, part) = (Reader::over(session, given).await?, query::portion(session, query));
    query::select_from(session, (query, items), origin, parameters, part).await
}

/// Locks rows and returns what they are now. Their memory is counted as they come.
async fn locked(
    session: &mut Session,
    locking: &mut ingest::Change<'_>,
    (keys, schema): (&KeyedRows, &Arc<TableSchema>),
) -> Result<RecordBatch> {
    let (mut memory, mut bytes) = (SessionMemory::new(&session.usage), 0);
    let firsts = keys.groups().map(|group| group[0]).collect::<Vec<_>>();
    let mut rows = ColumnsBuilder::new(schema, firsts.len().min(ROWS_AT_ONCE));
    for some in firsts.chunks(ROWS_AT_ONCE) {
        let some = KeyedRows::of_keys(some.iter().map(|at| keys.key(*at)));
        let current = bounded(session, locking.lock(&some)).await?;
        bounded(session, locking.keep_read()).await?;
        bytes += current.iter().flatten().map(|row| row.len() as u64).sum::<u64>();
        memory.resize(bytes)?;
        current.iter().flatten().for_each(|row| rows.append(row, 1));
    }
    Ok(rows.finish())
}

/// Locks the first rows that nobody else holds, as many as LIMIT says, and returns their keys.
async fn free(
    session: &mut Session,
    lock: &Change,
    target: &LoadTarget,
    locking: &mut ingest::Change<'_>,
    parameters: &[Parameter],
) -> Result<KeyedRows> {
    let Some(limit) = lock.limit()? else {
        let keys = tables::found(session, lock, target, parameters).await?;
        return locking.lock_free(&keys, u64::MAX);
    };
    let mut tries = 0;
    loop {
        // No more rows than these are held now.
        let most = limit.saturating_add(session.shared.engine.locked_keys() as u64);
        let keys = tables::found(session, &lock.with_limit(most), target, parameters).await?;
        let free = locking.lock_free(&keys, limit)?;
        tries += 1;
        if u64::from(free.len()) >= limit || u64::from(keys.len()) < most || tries == TRIES_MAX {
            return Ok(free);
        }
    }
}
