//! Sequences: their definitions, and the values that statements take of them.

pub mod columns;

use std::collections::BTreeMap;
use std::sync::Arc;

use freshet_base::{Result, TableId, bail, err};
use freshet_meta::{Object, Privilege};
use freshet_query::actions::{self, Action, Counted, SequenceCall};
use freshet_query::parser::{SequenceStatement, TableName};
use freshet_query::result::{ResultColumn, text_batch};
use freshet_query::syntax::Scalar;
use freshet_query::system::SEQUENCE_OF_IDS;
use freshet_schema::{Sequence, SequenceChange, SequenceKind, Table};

use super::shield;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// The most values that `WHERE COUNT = n` takes.
const VALUES_MAX: u64 = 100_000;

/// CREATE, ALTER, DROP and RENAME SEQUENCE, and CONVERT ALL SEQUENCES.
///
/// # Errors
/// Missing privileges, existing or missing sequences, options that do not go together.
pub async fn define(session: &mut Session, statement: &SequenceStatement) -> Result<Reply> {
    match statement {
        SequenceStatement::Create { name, options, if_not_exists } => {
            create(session, name, options, *if_not_exists).await?;
        }
        SequenceStatement::Alter { name, change } => {
            let (engine, change) = (Arc::clone(&session.shared.engine), *change);
            let id = id_of(session, name, Privilege::Alter)?;
            if engine.catalog().require(id)?.sequence.is_none() {
                let next = of_ids(name, &change)?;
                shield(session, async move { engine.ddl().move_counter(id, next).await }).await?;
                return Ok(Reply::done());
            }
            shield(session, async move { engine.ddl().alter_sequence(id, change).await }).await?;
        }
        SequenceStatement::Drop { names, if_exists } => drop(session, names, *if_exists).await?,
        SequenceStatement::Rename { from, to } => rename(session, from, to).await?,
        SequenceStatement::Convert { from, to, database } => {
            convert(session, (*from, *to), database.as_deref()).await?;
        }
    }
    Ok(Reply::done())
}

async fn create(
    session: &mut Session,
    name: &TableName,
    options: &SequenceChange,
    if_not_exists: bool,
) -> Result<()> {
    let database = session.database_of(name.database.as_deref())?.to_owned();
    session.authorize(Privilege::Create, Object::Table(&database, &name.table))?;
    let (engine, own) = (Arc::clone(&session.shared.engine), name.table.clone());
    let sequence = Sequence::new(options)?;
    let created =
        async move { engine.ddl().create_sequence(&database, &own, sequence, if_not_exists).await };
    if shield(session, created).await?.existed {
        let note = format!("Sequence '{}' already exists", name.table);
        session.diagnostics.push("Note", 1050, note);
    }
    Ok(())
}

async fn drop(session: &mut Session, names: &[TableName], if_exists: bool) -> Result<()> {
    for name in names {
        let database = session.database_of(name.database.as_deref())?;
        session.authorize(Privilege::Drop, Object::Table(database, &name.table))?;
        if !if_exists {
            session.shared.engine.catalog().require_sequence(database, &name.table)?;
        }
    }
    for name in names {
        let database = session.database_of(name.database.as_deref())?.to_owned();
        let (engine, own) = (Arc::clone(&session.shared.engine), name.table.clone());
        let note = format!("Unknown SEQUENCE: '{database}.{own}'");
        let dropped = async move { engine.ddl().drop_sequence(&database, &own, if_exists).await };
        if !shield(session, dropped).await? {
            session.diagnostics.push("Note", 4091, note);
        }
    }
    Ok(())
}

async fn rename(session: &Session, from: &TableName, to: &TableName) -> Result<()> {
    let database = session.database_of(from.database.as_deref())?.to_owned();
    let new_database = session.database_of(to.database.as_deref())?;
    for privilege in [Privilege::Alter, Privilege::Drop] {
        session.authorize(privilege, Object::Table(&database, &from.table))?;
    }
    for privilege in [Privilege::Create, Privilege::Insert] {
        session.authorize(privilege, Object::Table(new_database, &to.table))?;
    }
    if new_database != database {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'RENAME to another database'"
        );
    }
    let engine = Arc::clone(&session.shared.engine);
    let (from, to) = (from.table.clone(), to.table.clone());
    shield(session, async move { engine.ddl().rename_sequence(&database, &from, &to).await }).await
}

/// Makes all sequences of one kind in a database those of another one, which go on where they are.
async fn convert(
    session: &Session,
    (from, to): (SequenceKind, SequenceKind),
    database: Option<&str>,
) -> Result<()> {
    let (engine, database) = (Arc::clone(&session.shared.engine), session.database_of(database)?);
    let catalog = engine.catalog();
    let all = catalog.require_database(database)?.sequences.values();
    let is_from = |one: &&Arc<Table>| one.sequence.is_some_and(|sequence| sequence.kind == from);
    let those = all.filter(is_from).cloned().collect::<Vec<_>>();
    let change = SequenceChange { kind: Some(to), ..SequenceChange::default() };
    for one in &those {
        session.authorize(Privilege::Alter, Object::Table(database, &one.name))?;
        // None is changed if one cannot be.
        let next = engine.next_id(one.id).unwrap_or(1);
        one.sequence.expect("it is a sequence").altered(&change, next)?;
    }
    shield(session, async move {
        for one in those {
            engine.ddl().alter_sequence(one.id, change).await?;
        }
        Ok(())
    })
    .await
}

/// The sequence of a name, or the table whose ids it stands for: `AUTO_SEQ_t` of PolarDB-X.
fn id_of(session: &Session, name: &TableName, privilege: Privilege) -> Result<TableId> {
    let database = session.database_of(name.database.as_deref())?;
    let catalog = session.shared.engine.catalog();
    let is_own = catalog.sequence(database, &name.table).is_some();
    if let Some(table) = counted_by(&name.table).filter(|_| !is_own)
        && let Some(table) = catalog.table(database, table)
        && table.schema().shown_auto_increment().is_some()
        // Who may not use it is not told that it is there.
        && session.authorize(privilege, Object::Table(database, &table.name)).is_ok()
    {
        return Ok(table.id);
    }
    session.authorize(privilege, Object::Table(database, &name.table))?;
    Ok(catalog.require_sequence(database, &name.table)?.id)
}

/// The table in the name of the sequence of its ids.
fn counted_by(sequence: &str) -> Option<&str> {
    let (prefix, table) = sequence.split_at_checked(SEQUENCE_OF_IDS.len())?;
    prefix.eq_ignore_ascii_case(SEQUENCE_OF_IDS).then_some(table)
}

/// What ALTER makes the next id of a table.
fn of_ids(name: &TableName, change: &SequenceChange) -> Result<u64> {
    let only = SequenceChange { start: change.start, ..SequenceChange::default() };
    match change.start.filter(|_| only == *change) {
        Some(next) => Ok(next),
        None => bail!(
            NotSupported,
            "Sequence '{}' has the ids of a table: ALTER SEQUENCE takes START WITH alone",
            name.table
        ),
    }
}

/// Takes the next values of a sequence, which follow each other. They may be told once the log is
/// durable up to `session.acked`.
async fn take(session: &mut Session, id: TableId, count: u32) -> Result<Vec<u64>> {
    let engine = Arc::clone(&session.shared.engine);
    let (values, lsn) = bounded(session, engine.ddl().next_values(id, count)).await?;
    session.acked = session.acked.max(lsn);
    Ok(values)
}

/// The sequence of a call: NEXTVAL changes it, CURRVAL only reads.
fn id_of_call(session: &Session, call: &SequenceCall) -> Result<TableId> {
    let privilege = match call.action {
        Action::CurrentValue => Privilege::Select,
        _ => Privilege::Insert,
    };
    id_of(session, &call.sequence, privilege)
}

/// The value of one call.
///
/// # Errors
/// Unknown sequences, missing privileges, 4084 at the end of a sequence.
pub async fn value(session: &mut Session, call: &SequenceCall) -> Result<u64> {
    let id = id_of_call(session, call)?;
    if call.action == Action::CurrentValue {
        return current(session, id, call);
    }
    let value = take(session, id, 1).await?[0];
    session.currents.note(id, value);
    Ok(value)
}

/// CURRVAL.
fn current(session: &Session, id: TableId, call: &SequenceCall) -> Result<u64> {
    session.currents.of(id).ok_or_else(|| {
        err!(
            Unknown,
            "Sequence '{}' has no current value in this session: take one with NEXTVAL first",
            call.sequence.table
        )
    })
}

/// `SELECT s.NEXTVAL FROM DUAL WHERE COUNT = n`: n rows.
///
/// # Errors
/// 1210 for a count of 0 or above the limit, and those of [`value`].
pub async fn several(session: &mut Session, counted: &Counted, items: &[String]) -> Result<Reply> {
    let count = counted.count;
    let Some(wanted) = u32::try_from(count).ok().filter(|_| (1..=VALUES_MAX).contains(&count))
    else {
        bail!(WrongArguments, "COUNT is from 1 to {VALUES_MAX}, and not {count}");
    };
    let id = id_of(session, &counted.sequence, Privilege::Insert)?;
    let values = take(session, id, wanted).await?;
    session.currents.note(id, *values.last().expect("there is one at least"));
    let heading = counted.alias.as_deref().or(items.first().map(String::as_str));
    let heading = heading.unwrap_or("NEXTVAL");
    let rows = values.iter().map(|value| vec![Some(value.to_string())]).collect::<Vec<_>>();
    let column = ResultColumn::integer(heading);
    let batch =
        crate::show::with_types(text_batch(&[heading], &rows), std::slice::from_ref(&column));
    Ok(Reply::Table(vec![column], batch))
}

/// Puts values in place of the calls in the rows of an INSERT; `None` if there are none. The values
/// of one sequence follow each other in the order of the text.
///
/// # Errors
/// Those of [`value`].
pub async fn filled(
    session: &mut Session,
    rows: &[Vec<Option<Scalar>>],
) -> Result<Option<Vec<Vec<Option<Scalar>>>>> {
    let exprs = || rows.iter().flatten().flatten();
    let calls = exprs().flat_map(actions::sequence_calls).collect::<Vec<_>>();
    if calls.is_empty() {
        return Ok(None);
    }
    let ids = calls.iter().map(|call| id_of_call(session, call)).collect::<Result<Vec<_>>>()?;
    let mut wanted = BTreeMap::<TableId, u32>::new();
    for (call, id) in calls.iter().zip(&ids) {
        if call.action == Action::NextValue {
            *wanted.entry(*id).or_default() += 1;
        }
    }
    let mut taken = BTreeMap::new();
    for (id, count) in wanted {
        taken.insert(id, take(session, id, count).await?.into_iter());
    }
    let mut values = Vec::with_capacity(calls.len());
    for (call, id) in calls.iter().zip(ids) {
        if call.action == Action::CurrentValue {
            values.push(current(session, id, call)?);
            continue;
        }
        let value = taken.get_mut(&id).and_then(Iterator::next).expect("as many were taken");
        session.currents.note(id, value);
        values.push(value);
    }
    let mut values = values.into_iter();
    let mut fill = |value: &Option<Scalar>| {
        value.clone().map(|expr| actions::with_sequence_values(expr, &mut values))
    };
    Ok(Some(rows.iter().map(|row| row.iter().map(&mut fill).collect()).collect()))
}
