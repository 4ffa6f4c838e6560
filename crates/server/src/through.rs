//! Statements that write through views (RFC 0058): through which, and with whose rights.

use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};
use freshet_ingest::LoadTarget;
use freshet_meta::{
    Actor, Object, Privilege, View, authorize, authorize_columns, column_denied, is_restricted,
};
use freshet_query::change::{Assignments, Change, ChangeKind, reads_stored};
use freshet_query::through::{Through, several_tables};
use freshet_query::updatable::Fixed;
use freshet_query::views::invalid;
use freshet_schema::{KeyModel, Table};

use crate::session::Session;

/// What a statement does with a view.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    Insert,
    Load,
    Update,
    Delete,
}

/// The view of this name, if it is one, and what is behind it for a statement that names these
/// columns to be written.
///
/// # Errors
/// 1288, 1356, 1393, 1394, 1395, 1471 where nothing can be written through it.
pub fn of(
    session: &Session,
    (database, name): (&str, &str),
    writing: Writing,
    columns: &[&str],
) -> Result<Option<Arc<Through>>> {
    if !is_view(session, (database, name)) {
        return Ok(None);
    }
    let catalog = session.shared.engine.catalog();
    let Some(view) = catalog.view(database, name) else { return Ok(None) };
    match Through::of(&catalog, database, view, columns) {
        Ok(through) => Ok(Some(Arc::new(through))),
        Err(Fixed::Joined) => Err(unsaid((database, view), writing, columns)),
        Err(Fixed::Missing) => Err(invalid(database, name)),
        Err(Fixed::Several) => Err(several_tables(database, name)),
        Err(Fixed::Computed) => Err(computed(name, writing)),
    }
}

/// The error where columns do not say which of the tables that a view joins is meant.
fn unsaid((database, view): (&str, &View), writing: Writing, columns: &[&str]) -> Error {
    let name = &view.name;
    match (writing, columns.first()) {
        (Writing::Delete, _) => {
            err!(JoinViewDelete, "Can not delete from join view '{database}.{name}'")
        }
        (_, None) => err!(
            JoinViewColumns,
            "Can not insert into join view '{database}.{name}' without fields list"
        ),
        (_, Some(column)) if view.columns.iter().any(|c| c.name.eq_ignore_ascii_case(column)) => {
            err!(NonUpdatableColumn, "Column '{column}' is not updatable")
        }
        (_, Some(column)) => err!(UnknownColumn, "Unknown column '{column}' in 'field list'"),
    }
}

fn computed(name: &str, writing: Writing) -> Error {
    let word = match writing {
        Writing::Insert => {
            return err!(
                NonInsertableTable,
                "The target table {name} of the INSERT is not insertable-into"
            );
        }
        Writing::Load => "LOAD",
        Writing::Update => "UPDATE",
        Writing::Delete => "DELETE",
    };
    err!(NonUpdatableTable, "The target table {name} of the {word} is not updatable")
}

/// The same change, through a view if its target is one.
///
/// # Errors
/// Those of [`of`]; `NotSupported` where rows of the table cannot be changed so.
pub fn changed(session: &Session, change: &Change) -> Result<Option<Change>> {
    let (writing, columns) = match &change.kind {
        ChangeKind::Update { set } => {
            let columns = set.iter().map(|(column, _)| column.as_str());
            (Writing::Update, columns.collect::<Vec<_>>())
        }
        ChangeKind::Delete => (Writing::Delete, Vec::new()),
        ChangeKind::Lock { .. } => return Ok(None),
    };
    let database = session.database_of(change.target.database.as_deref())?;
    let place = (database, change.target.table.as_str());
    if !is_view(session, place) {
        return Ok(None);
    }
    // What the user may do comes before what the view is.
    check_user(session, change, place)?;
    let Some(through) = of(session, place, writing, &columns)? else { return Ok(None) };
    if change.names_partitions() {
        bail!(PartitionClause, "PARTITION () clause on non partitioned table");
    }
    if through.is_joined && (change.is_ordered() || change.is_limited()) {
        let clause = if change.is_ordered() { "ORDER BY" } else { "LIMIT" };
        bail!(WrongUsage, "Incorrect usage of UPDATE and {clause}");
    }
    Ok(Some(change.through(through)))
}

fn is_view(session: &Session, (database, name): (&str, &str)) -> bool {
    let catalog = session.shared.engine.catalog();
    session.temporary.find(database, name).is_none() && catalog.view(database, name).is_some()
}

/// The rights of the user on the name that the statement has.
fn check_user(session: &Session, change: &Change, place: (&str, &str)) -> Result<()> {
    match &change.kind {
        ChangeKind::Update { set } => {
            let columns = set.iter().map(|(column, _)| column.as_str());
            session.check_columns(Privilege::Update, place, columns)
        }
        _ => session.authorize_use(Privilege::Delete, place.0, place.1),
    }
}

/// The table behind the view of a change, if whose rights count may change it.
///
/// # Errors
/// 1348, 1356; `NotSupported` where its rows are none of its own.
pub fn resolve(session: &Session, change: &Change, through: &Through) -> Result<LoadTarget> {
    let into = table(session, through)?;
    let name = &into.table().name;
    if into.table().key_model == KeyModel::Aggregate {
        bail!(
            NotSupported,
            "UPDATE and DELETE through a view are not supported for table '{name}', which has an \
             AGGREGATE KEY"
        );
    }
    match &change.kind {
        ChangeKind::Update { set } => {
            let columns = set.iter().map(|(column, _)| through.assigned(column));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            check(session, through, Privilege::Update, &columns)?;
        }
        _ => check(session, through, Privilege::Delete, &[])?,
    }
    into.entered()
}

/// The table behind a view.
///
/// # Errors
/// 1356 if it is not there any more.
pub fn table(session: &Session, through: &Through) -> Result<LoadTarget> {
    let target = session.shared.engine.target(&through.database, &through.table);
    target.map_err(|error| through.hidden(error))
}

/// Who writes the table behind a view.
pub fn actor<'a>(session: &'a Session, through: &'a Through) -> Actor<'a> {
    through.reader().map_or_else(|| session.client.actor(), Actor::from)
}

/// Whether row policies hide rows of a table from who writes it.
pub fn hides_rows(session: &Session, through: Option<&Through>, table: &Table) -> bool {
    match through {
        None => session.hides_rows_of(table),
        Some(through) => {
            let catalog = session.shared.engine.catalog();
            let now = catalog.table_by_id(table.id).map_or(table, |now| now);
            is_restricted(&catalog, actor(session, through), now)
        }
    }
}

/// Checks that those whose rights count have a privilege on what is behind a view, and on these
/// columns of its table.
///
/// # Errors
/// 1356.
pub fn check(
    session: &Session,
    through: &Through,
    privilege: Privilege,
    columns: &[&str],
) -> Result<()> {
    let catalog = session.shared.engine.catalog();
    let checked = through.uses().try_for_each(|(reader, database, name)| {
        let actor = reader.map_or_else(|| session.client.actor(), Actor::from);
        if (database, name) != (through.database.as_str(), through.table.as_str()) {
            return authorize(&catalog, actor, privilege, Object::Table(database, name));
        }
        let rights = authorize_columns(&catalog, actor, privilege, (database, name))?;
        match columns.iter().find(|column| !rights.has(column)) {
            None => Ok(()),
            Some(column) => Err(column_denied(actor.account, privilege, column, name)),
        }
    });
    checked.map_err(|error| through.hidden(error))
}

/// Checks that ON DUPLICATE KEY UPDATE may set these columns of a view, and read what it reads.
///
/// # Errors
/// 1054, 1142, 1348, 1356; `NotSupported` where row policies hide rows.
pub fn check_updates(
    session: &Session,
    through: &Through,
    (place, table): ((&str, &str), &Table),
    set: &Assignments,
) -> Result<()> {
    let columns = set.iter().map(|(column, _)| through.assigned(column));
    check(session, through, Privilege::Update, &columns.collect::<Result<Vec<_>>>()?)?;
    if set.iter().filter_map(|(_, value)| value.as_ref()).any(reads_stored) {
        session.authorize(Privilege::Select, Object::Table(place.0, place.1))?;
        let columns = through.names().filter_map(|name| through.below(name));
        check(session, through, Privilege::Select, &columns.collect::<Vec<_>>())?;
    }
    if hides_rows(session, Some(through), table) {
        bail!(
            NotSupported,
            "ON DUPLICATE KEY UPDATE through view '{}' is not supported: row policies hide rows of \
             its table from those whose rights count",
            place.1
        );
    }
    Ok(())
}
