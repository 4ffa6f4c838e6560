//! Queries of joined tables, and of one that they read in subqueries, too: the rows of all tables
//! are found as they are now, and locked, and looked for again until all that are found are held.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use freshet_base::{Lsn, Result, TableId, bail};
use freshet_ingest::{self as ingest, Engine, OwnRows};
use freshet_query::Parameter;
use freshet_query::change::LockWait;
use freshet_query::syntax::Select;
use freshet_schema::KeyModel;
use freshet_storage::delta::Freshness;
use freshet_storage::resolver::KeyedRows;

use super::TRIES_MAX;
use super::tables::{LockedTable, found};
use crate::latest::Latest;
use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::statement::query;

/// A table and what is locked of it.
struct Held<'a> {
    table: &'a LockedTable,
    locking: ingest::Change<'a>,
    keys: HashSet<Box<[u8]>>,
}

/// Runs the query. Tables that it does not lock it reads as any SELECT of the transaction does.
///
/// # Errors
/// Those of planning; 1205, 1213 and 3572 for keys that others hold.
pub async fn select(
    session: &mut Session,
    query: (&Select, &[String]),
    mut tables: Vec<LockedTable>,
    parameters: Vec<Parameter>,
    own: OwnRows,
) -> Result<Reply> {
    let engine = Arc::clone(&session.shared.engine);
    // Whoever locks the same tables does so in the same order.
    tables.sort_by_key(|table| table.target.id());
    let order = ordered(&mut tables);
    let done = async {
        hold(session, (&engine, own), &tables, &parameters).await?;
        let (select, items) = query;
        let (select, part) = (select.then_by(&order), query::portion(session, select));
        let origin = Reader::new(session).await?;
        query::select_from(session, (&select, items), origin, parameters, part).await
    };
    let done = done.await;
    session.transactions.read_latest(None);
    done
}

/// Lets the rows come in one order, if only the first ones are wanted: each table is asked for its
/// own of them. Returns the columns that say the order where the query leaves it open. All rows are
/// wanted where a key has no columns to say it by.
fn ordered(tables: &mut [LockedTable]) -> Vec<(String, String)> {
    if !tables[0].change.is_limited() {
        return Vec::new();
    }
    let mut order = Vec::new();
    let mut is_known = true;
    for table in tables.iter() {
        let schema = table.target.schema();
        for column in schema.sort_key.iter().map(|&at| &schema.columns[at]) {
            is_known &= schema.shown().iter().any(|shown| shown.name == column.name);
            order.push((table.change.name.clone(), column.name.clone()));
        }
        is_known &= table.target.table().key_model.is_keyed();
    }
    for table in tables {
        table.change = match is_known {
            true => table.change.then_by(&order),
            false => table.change.without_limit(),
        };
    }
    if is_known { order } else { Vec::new() }
}

/// Locks all rows that the query reads of these tables.
async fn hold(
    session: &mut Session,
    (engine, own): (&Engine, OwnRows),
    tables: &[LockedTable],
    parameters: &[Parameter],
) -> Result<()> {
    let mut held = Vec::with_capacity(tables.len());
    let mut end = session.acked;
    for table in tables {
        let mut locking = table.locking(session, engine, own.clone());
        match table.target.table().key_model {
            KeyModel::Duplicate => {
                let locked = bounded(session, locking.lock_table()).await;
                locked.map_err(|error| table.error(error))?;
                end = end.max(locking.seen());
            }
            _ => bounded(session, locking.begin()).await?,
        }
        held.push(Held { table, locking, keys: HashSet::new() });
    }
    for _ in 0..TRIES_MAX {
        look_at(session, engine, &held, end).await?;
        let mut has_all = true;
        for one in held.iter_mut().filter(|one| one.table.target.table().key_model.is_keyed()) {
            let (has_these, seen) = one.hold(session, parameters).await?;
            has_all &= has_these;
            end = end.max(seen);
        }
        // The reply tells of what was found, and of what was not.
        session.acked = session.acked.max(end);
        if has_all {
            return Ok(());
        }
    }
    bail!(
        Deadlock,
        "others wrote rows of the joined tables {TRIES_MAX} times while they were locked; try \
         restarting transaction"
    )
}

/// Lets the transaction read the tables up to this LSN at least, without the rows that are skipped.
async fn look_at(
    session: &mut Session,
    engine: &Engine,
    held: &[Held<'_>],
    end: Lsn,
) -> Result<()> {
    let horizon = async {
        engine.horizon().wait(end).await;
        Ok(())
    };
    bounded(session, horizon).await?;
    let mut skipped = HashMap::<TableId, Vec<Box<[u8]>>>::new();
    for one in held {
        let of_table = skipped.entry(one.table.target.id()).or_default();
        if one.table.wait == LockWait::Skip {
            of_table.extend(one.locking.taken_keys());
        }
    }
    let latest = Latest::new(engine.snapshot(Freshness::Committed), skipped);
    session.transactions.read_latest(Some(latest));
    Ok(())
}

impl Held<'_> {
    /// Locks the rows that the query reads now, and returns whether all of them were held already,
    /// and up to where the log has to be read to see what the others are.
    async fn hold(
        &mut self,
        session: &mut Session,
        parameters: &[Parameter],
    ) -> Result<(bool, Lsn)> {
        let found = found(session, &self.table.change, &self.table.target, parameters).await?;
        let firsts = found.groups().map(|group| found.key(group[0]));
        let mut fresh = firsts.filter(|key| !self.keys.contains(*key)).collect::<Vec<_>>();
        if fresh.is_empty() {
            return Ok((true, Lsn::ZERO));
        }
        // Whoever locks some of them does so in the same order.
        fresh.sort_unstable();
        let mut fresh = KeyedRows::of_keys(fresh.into_iter());
        if self.table.wait == LockWait::Skip {
            fresh = self.locking.lock_free(&fresh, u64::MAX)?;
        }
        let seen = bounded(session, self.locking.hold(&fresh)).await;
        let seen = seen.map_err(|error| self.table.error(error))?;
        self.keys.extend((0..fresh.len()).map(|at| Box::from(fresh.key(at))));
        Ok((false, seen))
    }
}
