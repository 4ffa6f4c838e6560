//! UPDATE and DELETE of several tables: the rows of all of them are found, locked and computed
//! before any is changed, and a transaction changes them at once.

use std::sync::Arc;

use freshet_base::{ErrorCode, Lsn, Result, bail};
use freshet_ingest::{Affected, Engine, LoadTarget, OwnRows, WaitLimit, Written};
use freshet_meta::Privilege;
use freshet_query::Parameter;
use freshet_query::change::{Change, ChangeKind};
use freshet_query::changes::Changes;
use freshet_query::parser::TableName;
use freshet_schema::KeyModel;

use super::change::{self, Keyed, Looked, resolve, was_altered};
use super::changed::{Tries, affected, check_safe};
use super::unkeyed::{FoundRows, LookedRows, Unkeyed};
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::through;

/// A table and what changes in it.
type Part<'a> = (&'a Change, &'a LoadTarget);

/// A statement and the transaction that it runs in.
#[derive(Clone, Copy)]
struct Inside<'a> {
    engine: &'a Engine,
    parts: &'a [Part<'a>],
    parameters: &'a [Parameter],
    own: &'a OwnRows,
}

/// What a statement did in all tables.
#[derive(Default)]
struct Done {
    matched: u64,
    changed: u64,
    lsn: Lsn,
}

/// Runs an UPDATE or DELETE of joined tables.
///
/// # Errors
/// As the change of one table; none of them is changed then.
pub async fn change(
    session: &mut Session,
    changes: &Changes,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    if let Some(database) = &changes.in_database
        && session.database.as_deref() != Some(database)
    {
        bail!(UnknownTable, "Unknown table of database '{database}': name it in FROM, too");
    }
    let mut tries = Tries::begin(session);
    loop {
        let each = changes.each(|table, column| has_column(session, table, column))?;
        if let [one] = &each[..] {
            return change::change(session, one, parameters).await;
        }
        let each = through_views(session, each)?;
        let targets = each.iter().map(|change| resolve(session, change));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let parts = each.iter().zip(&targets).collect::<Vec<_>>();
        check(session, &parts)?;
        match once(session, &parts, &parameters).await {
            Ok(Some(Done { matched, changed, lsn })) => {
                let matched = matched.max(changed);
                let affected = affected(session, &each[0].kind, lsn, matched, changed);
                return Ok(Reply::Done { affected });
            }
            Ok(None) => {}
            Err(error)
                if !parts.iter().any(|(change, target)| {
                    was_altered(session, change.view.as_deref(), target)
                }) =>
            {
                return Err(error);
            }
            // It is planned again, with the columns that the tables have now.
            Err(_) => {}
        }
        let unkeyed = targets.iter().find(|target| !target.table().key_model.is_keyed());
        tries.again(session, unkeyed.unwrap_or(&targets[0])).await?;
    }
}

/// The same changes, through views where their targets are such.
fn through_views(session: &Session, each: Vec<Change>) -> Result<Vec<Change>> {
    let through = |change: Change| -> Result<Change> {
        Ok(through::changed(session, &change)?.unwrap_or(change))
    };
    let mut each = each.into_iter().map(through).collect::<Result<Vec<_>>>()?;
    let views = each.iter().map(|change| change.view.clone()).collect::<Vec<_>>();
    for (at, change) in each.iter_mut().enumerate() {
        let others = views.iter().enumerate().filter(|(other, _)| *other != at);
        others.filter_map(|(_, view)| view.as_ref()).for_each(|view| change.changes_beside(view));
    }
    Ok(each)
}

/// Whether a table or view that the session may read has a column.
fn has_column(session: &Session, table: &TableName, column: &str) -> Result<bool> {
    let database = session.database_of(table.database.as_deref())?;
    session.authorize_columns(Privilege::Select, database, &table.table)?;
    let catalog = session.shared.engine.catalog();
    let is_own = session.temporary.find(database, &table.table).is_some();
    if let Some(view) = catalog.view(database, &table.table).filter(|_| !is_own) {
        return Ok(view.columns.iter().any(|known| known.name.eq_ignore_ascii_case(column)));
    }
    let target = session.target(database, &table.table);
    Ok(target.is_ok_and(|target| target.schema().position(column).is_some()))
}

/// What a transaction over several tables cannot change, and what the session does not want.
fn check(session: &Session, parts: &[Part<'_>]) -> Result<()> {
    for (at, (change, target)) in parts.iter().enumerate() {
        check_safe(session, change, target)?;
        let name = &target.table().name;
        if target.table().key_model == KeyModel::Aggregate {
            bail!(
                NotSupported,
                "UPDATE and DELETE of several tables at once are not supported for table '{name}', \
                 which has an AGGREGATE KEY: change it in a statement of its own"
            );
        }
        let is_twice = parts[..at].iter().any(|(_, before)| before.id() == target.id());
        if is_twice && change.kind != ChangeKind::Delete {
            bail!(
                NotSupported,
                "UPDATE of table '{name}' under two names at once is not supported: set the \
                 columns of one name in a statement, and those of the other in another one"
            );
        }
    }
    Ok(())
}

/// Runs it in the open transaction, or as one of its own; `None` if others wrote rows meanwhile
/// that nobody locks.
async fn once(
    session: &mut Session,
    parts: &[Part<'_>],
    parameters: &[Parameter],
) -> Result<Option<Done>> {
    let engine = Arc::clone(&session.shared.engine);
    let own = session.transactions.writable(&engine, &session.settings)?.cloned();
    match own {
        Some(own) => {
            within(session, Inside { engine: &engine, parts, parameters, own: &own }).await
        }
        None => alone(session, &engine, parts, parameters).await,
    }
}

/// Runs it as a transaction of its own.
async fn alone(
    session: &mut Session,
    engine: &Engine,
    parts: &[Part<'_>],
    parameters: &[Parameter],
) -> Result<Option<Done>> {
    session.transactions.begin(engine, &session.settings, None, false)?;
    let open = session.transactions.open().expect("it was just opened");
    let own = open.own_rows().clone();
    let done = look_and_write(session, Inside { engine, parts, parameters, own: &own }).await;
    if !matches!(done, Ok(Some(_))) {
        session.transactions.roll_back();
        return done;
    }
    match session.commit().await {
        Ok(()) => done,
        // Others have changed rows that nobody locks, or a TRUNCATE or DROP PARTITION has removed
        // some.
        Err(error) if error.code() == ErrorCode::Deadlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs it in an open transaction, which stays as it was if the statement fails.
async fn within(session: &mut Session, inside: Inside<'_>) -> Result<Option<Done>> {
    let patience = WaitLimit::For(session.settings.insert_timeout.time());
    let saved = bounded(session, inside.own.save(inside.engine, patience)).await?;
    let done = look_and_write(session, inside).await;
    if !matches!(done, Ok(Some(_))) {
        inside.own.restore(&saved);
    }
    done
}

/// A table and its rows, as they were found.
enum Found<'a> {
    Keyed(Box<(Keyed<'a>, change::Found<'a>)>),
    Unkeyed(Box<Unkeyed<'a>>, FoundRows),
}

/// A table, and what becomes of its rows.
enum Decided<'a> {
    Keyed(Looked<'a>),
    Unkeyed(Unkeyed<'a>, LookedRows),
}

/// Changes all tables in the transaction; `None` if others wrote rows meanwhile that nobody locks.
async fn look_and_write(session: &mut Session, inside: Inside<'_>) -> Result<Option<Done>> {
    session.wait_durable().await;
    let pinned = session.transactions.pin(inside.engine, &session.settings);
    let decided = look(session, inside).await;
    if pinned {
        session.transactions.unpin();
    }
    match decided? {
        Some(decided) => write(session, decided).await,
        None => Ok(None),
    }
}

/// Finds the rows of all tables in one snapshot and locks them, and then computes what becomes of
/// them, in another one: what others have changed before the locks counts.
async fn look<'a>(session: &mut Session, inside: Inside<'a>) -> Result<Option<Vec<Decided<'a>>>> {
    let Inside { engine, parts, parameters, own } = inside;
    let mut end = session.acked;
    let mut found = Vec::with_capacity(parts.len());
    for &(change, target) in parts {
        let into = (target, Some(own.clone()));
        found.push(match target.table().key_model.is_keyed() {
            true => {
                let keyed = Keyed::new(session, engine, change, into)?;
                let rows = keyed.find(session, parameters, false).await?;
                let Some(rows) = rows else { return Ok(None) };
                end = end.max(rows.looked_to());
                Found::Keyed(Box::new((keyed, rows)))
            }
            false => {
                let unkeyed = Unkeyed::new(session, change, into)?;
                let rows = unkeyed.find(session, parameters).await?;
                let Some(rows) = rows else { return Ok(None) };
                Found::Unkeyed(Box::new(unkeyed), rows)
            }
        });
    }
    let horizon = async {
        engine.horizon().wait(end).await;
        Ok(())
    };
    bounded(session, horizon).await?;
    session.transactions.pin(engine, &session.settings);
    let mut decided = Vec::<Decided<'a>>::with_capacity(parts.len());
    for (found, (_, target)) in found.into_iter().zip(parts) {
        let mut one = match found {
            Found::Keyed(found) => {
                let (keyed, rows) = *found;
                Decided::Keyed(keyed.decide(session, rows, parameters).await?)
            }
            Found::Unkeyed(unkeyed, rows) => {
                let rows = unkeyed.decide(session, rows, parameters).await?;
                Decided::Unkeyed(*unkeyed, rows)
            }
        };
        // A DELETE may name a table twice.
        for (before, (_, other)) in decided.iter().zip(parts) {
            if other.id() == target.id() {
                one.forget(before);
            }
        }
        decided.push(one);
    }
    Ok(Some(decided))
}

impl Decided<'_> {
    /// Leaves out the rows of the same table that were removed before.
    fn forget(&mut self, before: &Self) {
        match (self, before) {
            (Self::Keyed(one), Self::Keyed(before)) => one.forget(before),
            (Self::Unkeyed(_, one), Self::Unkeyed(_, before)) => one.forget(before),
            _ => unreachable!("a table has a key or none"),
        }
    }
}

async fn write(session: &mut Session, decided: Vec<Decided<'_>>) -> Result<Option<Done>> {
    let mut done = Done::default();
    for one in decided {
        let (matched, changed, loaded) = match one {
            Decided::Keyed(looked) => {
                let (matched, changed) = (looked.matched, looked.changed());
                match looked.write(session).await? {
                    Written::Done(loaded) => (matched, changed, loaded),
                    Written::Overtaken => return Ok(None),
                }
            }
            Decided::Unkeyed(unkeyed, looked) => match unkeyed.write(session, &looked).await? {
                Affected::Rows(rows, loaded) => (looked.matched.max(rows), rows, loaded),
                Affected::Overtaken => return Ok(None),
            },
        };
        done.matched += matched;
        done.changed += changed;
        done.lsn = done.lsn.max(loaded.lsn);
    }
    Ok(Some(done))
}
