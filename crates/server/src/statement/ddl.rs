//! CREATE, DROP, TRUNCATE, ALTER and FLUSH.

mod checked;
mod databases;
mod partitions;
mod policies;
mod replace;
pub mod rewrite;
mod selected;
mod truncate;
mod unverified;
pub mod written;

use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Result, TableId, bail, err};
use freshet_ingest::alter_keys as alter_keys_of;
use freshet_meta::{DefaultSpec, KeyChange, Object, Privilege, Renaming, SchemaChange, TableSpec};
use freshet_query::parser::{AlterAction, Clauses, CreateTable, Statement, TableName};
use freshet_schema::value::instant_literal;
use freshet_schema::{DefaultValue, Table};

use self::written::{collated, made_global, spec_like};
use super::{bin, sequence, shield};
use crate::reply::Reply;
use crate::session::Session;

/// Whether a DDL statement commits the open transaction: CREATE and DROP TEMPORARY TABLE leave it
/// open, but for DROP of a table that it has written to.
///
/// # Errors
/// In a labelled transaction, and in one that is refused; 1235 in one that reads a snapshot, which
/// does not have the new table.
pub fn commits(session: &Session, statement: &Statement) -> Result<bool> {
    let transactions = &session.transactions;
    let Some(open) = transactions.open() else { return Ok(true) };
    match statement {
        Statement::CreateTable(create) if create.temporary => {
            transactions.check_unlabelled()?;
            if open.snapshot().is_some() {
                bail!(
                    NotSupported,
                    "CREATE TEMPORARY TABLE in a transaction that reads one snapshot (REPEATABLE \
                     READ) and has read it is not supported: the snapshot lacks the table; create \
                     it before BEGIN, or use READ COMMITTED"
                );
            }
            Ok(false)
        }
        Statement::DropTable { tables, temporary: true, .. } => {
            transactions.check_unlabelled()?;
            for table in tables {
                let database = session.database_of(table.database.as_deref())?;
                let id = session.temporary.find(database, &table.table);
                if id.is_some_and(|id| open.own_rows().has_entered(id)) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(true),
    }
}

/// Runs a DDL statement.
///
/// # Errors
/// Missing privileges, existing or missing objects, invalid definitions.
pub async fn define(session: &mut Session, statement: &Statement) -> Result<Reply> {
    match statement {
        Statement::CreateDatabase { name, if_not_exists, options } => {
            databases::create(session, name, *if_not_exists, *options).await
        }
        Statement::AlterDatabase(name, collation) => {
            databases::alter(session, name.as_deref(), *collation).await
        }
        Statement::DropDatabase { name, if_exists, force } => {
            databases::drop(session, name, *if_exists, *force).await
        }
        Statement::CreateTable(create) => create_table(session, create).await,
        Statement::DropTable { tables, if_exists, temporary, force } => {
            drop_tables(session, tables, (*if_exists, *temporary, *force)).await
        }
        Statement::Bin(statement) => bin::run(session, statement).await,
        Statement::Policy(statement) => policies::run(session, statement).await,
        Statement::Truncate { tables, if_exists } => {
            truncate::run(session, tables, *if_exists).await
        }
        Statement::AlterTable(table, AlterAction::Rename(name)) => {
            // The new name is in the database of the table, and not in the current one.
            let database = name.database.clone().or_else(|| table.database.clone());
            let name = TableName { database, table: name.table.clone() };
            let home = session.database_of(table.database.as_deref())?;
            match session.temporary.find(home, &table.table) {
                Some(id) => rename_temporary(session, id, table, &name).await,
                None => rename(session, &[(table.clone(), name)]).await,
            }
        }
        Statement::AlterTable(table, AlterAction::Replace { by, swap }) => {
            let database = by.database.clone().or_else(|| table.database.clone());
            let by = TableName { database, table: by.table.clone() };
            replace::replace(session, table, &by, *swap).await
        }
        Statement::AlterTable(table, action) => alter(session, table, action).await,
        Statement::RenameTables(pairs) => rename(session, pairs).await,
        Statement::CancelAlter(table) => {
            let id = table_id(session, table, Privilege::Alter)?;
            if session.shared.alter_jobs.cancel(id) {
                return Ok(Reply::done());
            }
            bail!(
                Unknown,
                "Table[{}] is not under SCHEMA_CHANGE: no change of columns copies its rows now",
                table.table
            )
        }
        Statement::Sequence(statement) => sequence::define(session, statement).await,
        Statement::FlushTables(tables) => flush(session, tables).await,
        _ => bail!(NotSupported, "This statement is not supported here"),
    }
}

pub fn warn(session: &mut Session, warnings: Vec<String>) {
    for warning in warnings {
        session.diagnostics.push("Warning", 1105, warning);
    }
}

fn table_id(session: &Session, table: &TableName, privilege: Privilege) -> Result<TableId> {
    let database = session.database_of(table.database.as_deref())?;
    session.authorize_use(privilege, database, &table.table)?;
    Ok(session.definition(database, &table.table)?.id)
}

async fn create_table(session: &mut Session, create: &CreateTable) -> Result<Reply> {
    let database = session.database_of(create.database.as_deref())?.to_owned();
    let name = create.spec.name.clone();
    session.authorize(Privilege::Create, Object::Table(&database, &name))?;
    let mut spec = match &create.like {
        Some(like) => spec_like(session, like, (&database, &name))?,
        None => collated(session, create.spec.clone(), &database),
    };
    spec.name = name.clone();
    spec.say_in(session.settings.zone());
    let notes = made_global(session, &mut spec, &database);
    if create.query.is_none() {
        checked::of_table(session, &spec)?;
    }
    if create.temporary {
        return create_temporary(session, database, spec, create).await;
    }
    if let Some(select) = &create.query {
        session.authorize(Privilege::Insert, Object::Table(&database, &name))?;
        return selected::create_as(session, database, spec, create, select).await;
    }
    let existed = create_from(session, database, spec, create.if_not_exists).await?;
    if existed {
        session.diagnostics.push("Note", 1050, format!("Table '{name}' already exists"));
    } else {
        notes.into_iter().for_each(|note| session.diagnostics.push("Note", 1503, note));
    }
    Ok(Reply::done())
}

async fn create_from(
    session: &mut Session,
    database: String,
    spec: TableSpec,
    if_not_exists: bool,
) -> Result<bool> {
    let engine = Arc::clone(&session.shared.engine);
    let created = async move { engine.ddl().create_table(&database, spec, if_not_exists).await };
    let created = shield(session, created).await?;
    if !created.existed {
        warn(session, created.warnings);
    }
    Ok(created.existed)
}

/// CREATE TEMPORARY TABLE: a table of this session, which stands in front of another of its name.
async fn create_temporary(
    session: &mut Session,
    database: String,
    mut spec: TableSpec,
    create: &CreateTable,
) -> Result<Reply> {
    if session.temporary.find(&database, &spec.name).is_some() {
        let exists = format!("Table '{}' already exists", spec.name);
        if !create.if_not_exists {
            bail!(TableExists, "{exists}");
        }
        session.diagnostics.push("Note", 1050, exists);
        return Ok(Reply::done());
    }
    session.temporary.check_room()?;
    let rows = match &create.query {
        Some(select) => Some(selected::selected(session, &mut spec, select).await?),
        None => None,
    };
    let (engine, home) = (Arc::clone(&session.shared.engine), database.clone());
    let made = async move { engine.ddl().create_temporary(&home, spec).await };
    let (table, warnings) = shield(session, made).await?;
    warn(session, warnings);
    let reply = match rows {
        Some(rows) => selected::fill(session, &table, rows, selected::on_existing(create)).await?,
        None => Reply::done(),
    };
    session.keep_temporary(database, table);
    Ok(reply)
}

async fn drop_tables(
    session: &mut Session,
    tables: &[TableName],
    (if_exists, temporary, force): (bool, bool, bool),
) -> Result<Reply> {
    for table in tables {
        let database = session.database_of(table.database.as_deref())?;
        if session.temporary.find(database, &table.table).is_some() {
            continue;
        }
        if temporary && !if_exists {
            bail!(TableDropMissing, "Unknown table '{database}.{}'", table.table);
        }
        if temporary {
            continue;
        }
        session.authorize(Privilege::Drop, Object::Table(database, &table.table))?;
        if !if_exists {
            session.shared.engine.catalog().table_to_drop(database, &table.table, false)?;
        }
    }
    for table in tables {
        let database = session.database_of(table.database.as_deref())?.to_owned();
        let (engine, name) = (Arc::clone(&session.shared.engine), table.table.clone());
        if session.drop_temporary(&database, &name) {
            continue;
        }
        let shown = format!("{database}.{name}");
        if temporary {
            session.diagnostics.push("Note", 1051, format!("Unknown table '{shown}'"));
            continue;
        }
        let dropped = async move {
            match force {
                true => engine.ddl().drop_table(&database, &name, if_exists).await,
                false => engine.ddl().bin_table(&database, &name, if_exists).await,
            }
        };
        if !shield(session, dropped).await? {
            session.diagnostics.push("Note", 1051, format!("Unknown table '{shown}'"));
        }
    }
    Ok(Reply::done())
}

async fn alter(session: &mut Session, table: &TableName, action: &AlterAction) -> Result<Reply> {
    let privilege = match action {
        AlterAction::Index { .. } | AlterAction::BuildIndex { .. } => Privilege::Index,
        _ => Privilege::Alter,
    };
    let id = table_id(session, table, privilege)?;
    let engine = Arc::clone(&session.shared.engine);
    if checked::looks_at_rows(action) {
        let catalog = engine.catalog();
        session.check_sees_all(catalog.require(id)?, Privilege::Alter, checked::ALL_ROWS)?;
    }
    match action {
        AlterAction::Clauses(clauses) => {
            let found = checked::constraints(engine.catalog().require(id)?, clauses)?;
            let clauses = found.as_ref().unwrap_or(clauses);
            let affected = alter_clauses(session, (table, id), clauses).await?;
            return Ok(Reply::Done { affected });
        }
        AlterAction::Set(pairs) => {
            let pairs = pairs.clone();
            let set = async move { engine.ddl().set_properties(id, pairs).await };
            let warnings = shield(session, set).await?;
            warn(session, warnings);
        }
        AlterAction::Index { key, if_needed } => {
            let clauses = Clauses { keys: vec![key.clone()], ..Clauses::default() };
            let done = match needless(engine.catalog().require(id)?, key) {
                Some(error) if *if_needed => Err(error),
                _ => alter_clauses(session, (table, id), &clauses).await.map(drop),
            };
            match done {
                // Another session may have done it after the look.
                Err(error) if *if_needed && NEEDLESS.contains(&error.code()) => {
                    session.diagnostics.push("Note", error.code().errno(), error.to_string());
                }
                done => done?,
            }
        }
        AlterAction::BuildIndex { index, partitions } => {
            check_built(engine.catalog().require(id)?, index.as_deref(), partitions)?;
        }
        AlterAction::Distribution { by, buckets } => {
            let (by, buckets) = (by.clone(), *buckets);
            shield(session, async move { engine.ddl().set_distribution(id, by, buckets).await })
                .await?;
        }
        AlterAction::DisableKeys => session.disabled_keys.disable(id),
        AlterAction::EnableKeys => enable_keys(session, table, id).await?,
        AlterAction::Rename(_) | AlterAction::Replace { .. } => {
            unreachable!("tables are renamed as by RENAME TABLE")
        }
        of_partitions => return partitions::alter(session, (table, id), of_partitions).await,
    }
    Ok(Reply::done())
}

/// What an index is refused with that is there, or is not.
const NEEDLESS: [ErrorCode; 2] = [ErrorCode::DuplicateKeyName, ErrorCode::CannotDropColumn];

/// Why there is nothing to do for CREATE INDEX IF NOT EXISTS and DROP INDEX IF EXISTS: the error
/// that it is without these words.
fn needless(table: &Table, key: &KeyChange) -> Option<Error> {
    let is_there =
        |name: &str| table.declared_keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    match key {
        KeyChange::Add(key) => {
            let name = key.name.as_deref().filter(|name| is_there(name))?;
            Some(err!(DuplicateKeyName, "Duplicate key name '{name}'"))
        }
        KeyChange::Drop { name } if !is_there(name) => {
            Some(err!(CannotDropColumn, "Can't DROP '{name}'; check that column/key exists"))
        }
        _ => None,
    }
}

/// BUILD INDEX: what it names is there. Rows are in an index as soon as it is.
fn check_built(table: &Table, index: Option<&str>, partitions: &[String]) -> Result<()> {
    let is_there =
        |name: &&str| table.declared_keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    if let Some(name) = index.filter(|name| !is_there(name)) {
        bail!(NoSuchKey, "Key '{name}' doesn't exist in table '{}'", table.name);
    }
    let is_one = |name: &String| table.shown_partitions().any(|(_, one)| one.is_named(name));
    match partitions.iter().find(|name| !is_one(name)) {
        Some(name) => {
            bail!(UnknownPartition, "Unknown partition '{name}' in table '{}'", table.name)
        }
        None => Ok(()),
    }
}

/// Columns and keys first: what they may refuse has changed nothing then. Returns how many rows a
/// division copied.
async fn alter_clauses(
    session: &mut Session,
    (table, mut id): (&TableName, TableId),
    clauses: &Clauses,
) -> Result<u64> {
    let mut affected = 0;
    check_sorted(session, id, clauses)?;
    if let Some(heavy) = rewrite::of_clauses(session, id, clauses) {
        let copied = rewrite::run(session, table, id, heavy).await?;
        affected = if clauses.division.is_some() { copied } else { 0 };
        // Another table has the name.
        let database = session.database_of(table.database.as_deref())?;
        id = session.definition(database, &table.table)?.id;
    } else if !clauses.keys.is_empty() {
        alter_keys(session, id, &clauses.keys, &clauses.columns).await?;
    } else if !clauses.columns.is_empty() {
        alter_columns(session, (table, id), &clauses.columns).await?;
    }
    if let Some(comment) = clauses.comment.clone() {
        let engine = Arc::clone(&session.shared.engine);
        shield(session, async move { engine.ddl().set_comment(id, comment).await }).await?;
    }
    if let Some(collation) = clauses.collation {
        let engine = Arc::clone(&session.shared.engine);
        shield(session, async move { engine.ddl().set_collation(id, collation).await }).await?;
    }
    let engine = Arc::clone(&session.shared.engine);
    if let Some(next) = clauses.counter.filter(|_| engine.next_id(id).is_some()) {
        shield(session, async move { engine.ddl().move_counter(id, next).await }).await?;
    }
    if !clauses.sorted.is_empty() {
        let note = "ORDER BY ignored: rows have no order that lasts";
        session.diagnostics.push("Note", 1105, note.to_owned());
    }
    Ok(affected)
}

/// Checks that the columns of ORDER BY are those of the table, or come with the statement.
fn check_sorted(session: &Session, id: TableId, clauses: &Clauses) -> Result<()> {
    let catalog = session.shared.engine.catalog();
    let schema = catalog.require(id)?.schema();
    for name in &clauses.sorted {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        let is_new = |change: &SchemaChange| match change {
            SchemaChange::AddColumn { column, .. }
            | SchemaChange::AddKeyColumn { column, .. }
            | SchemaChange::ModifyColumn { column, .. } => is_it(&column.name),
            SchemaChange::RenameColumn { to, .. } => is_it(to),
            _ => false,
        };
        let is_there = schema.shown().iter().any(|column| is_it(&column.name));
        if !is_there && !clauses.columns.iter().any(is_new) {
            bail!(UnknownColumn, "Unknown column '{name}' in 'order clause'");
        }
    }
    Ok(())
}

async fn alter_columns(
    session: &mut Session,
    (table, id): (&TableName, TableId),
    changes: &[SchemaChange],
) -> Result<()> {
    let changes = changes.iter().map(|change| dated(session, id, change));
    let changes = changes.collect::<Result<Vec<_>>>()?;
    checked::of_changes(session, id, &changes)?;
    let before = checked::known(session, id)?;
    let engine = Arc::clone(&session.shared.engine);
    let began_micros = engine.clock().wall_micros();
    let done = async move { engine.ddl().alter_columns(id, changes).await };
    let done = shield(session, done).await;
    replace::note_alter(session, table, id, began_micros, &done);
    done?;
    checked::verify(session, table, id, &before).await
}

/// ENABLE KEYS: unique keys that were not enforced are from there on. Behind DISABLE KEYS it is of
/// a dump, which says it for indexes that are not unique.
async fn enable_keys(session: &mut Session, table: &TableName, id: TableId) -> Result<()> {
    if session.disabled_keys.enable(id) {
        return Ok(());
    }
    let clauses = Clauses { keys: vec![KeyChange::Enforce], ..Clauses::default() };
    alter_clauses(session, (table, id), &clauses).await.map(drop)
}

/// Changes keys in one record. With columns, which have a record of their own, all of it is checked
/// first; a crash between the records may leave a part undone, and then nothing was answered.
async fn alter_keys(
    session: &mut Session,
    id: TableId,
    keys: &[KeyChange],
    columns: &[SchemaChange],
) -> Result<()> {
    let columns = columns.iter().map(|change| dated(session, id, change));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let engine = Arc::clone(&session.shared.engine);
    let (first, last): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(KeyChange::is_first);
    if !columns.is_empty() {
        engine.catalog().check_alteration(id, keys, &columns)?;
    }
    let altered = async move {
        if columns.is_empty() {
            return alter_keys_of(&engine, id, &[first, last].concat()).await;
        }
        let mut warnings = alter_keys_of(&engine, id, &first).await?;
        engine.ddl().alter_columns(id, columns).await?;
        let done = alter_keys_of(&engine, id, &last).await;
        warnings.extend(done.map_err(|error| {
            let said = format!("{} (the columns of the statement are changed)", error.message());
            Error::new(error.code(), said)
        })?);
        Ok(warnings)
    };
    let warnings = shield(session, altered).await?;
    warn(session, warnings);
    Ok(())
}

/// RENAME TABLE, and ALTER TABLE .. RENAME as one pair of it.
async fn rename(session: &Session, pairs: &[(TableName, TableName)]) -> Result<Reply> {
    let pairs = pairs.iter().map(|(from, to)| authorized_renaming(session, from, to));
    let (pairs, engine) = (pairs.collect::<Result<Vec<_>>>()?, Arc::clone(&session.shared.engine));
    shield(session, async move { engine.rename_tables(&pairs).await }).await?;
    Ok(Reply::done())
}

/// ALTER TABLE .. RENAME of a temporary table, which may get the name of a stored one.
async fn rename_temporary(
    session: &mut Session,
    id: TableId,
    from: &TableName,
    to: &TableName,
) -> Result<Reply> {
    let home = session.database_of(from.database.as_deref())?;
    if session.database_of(to.database.as_deref())? != home {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'RENAME of a temporary table to another \
             database'; create it there by CREATE TEMPORARY TABLE .. SELECT"
        );
    }
    match session.temporary.find(home, &to.table) {
        Some(other) if other == id => return Ok(Reply::done()),
        Some(_) => bail!(TableExists, "Table '{}' already exists", to.table),
        None => {}
    }
    let (engine, name) = (Arc::clone(&session.shared.engine), to.table.clone());
    shield(session, async move { engine.ddl().rename_unlisted(id, &name).await }).await?;
    session.rename_temporary(id, to.table.clone());
    Ok(Reply::done())
}

/// Checks the privileges for a rename: those to drop the old name and to create the new one. With
/// ALTER alone a user could give a table a name under which they may SELECT.
fn authorized_renaming(session: &Session, from: &TableName, to: &TableName) -> Result<Renaming> {
    let database = session.database_of(from.database.as_deref())?;
    let new_database = session.database_of(to.database.as_deref())?;
    if session.temporary.find(database, &from.table).is_some() {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'RENAME TABLE of a temporary table'; use \
             ALTER TABLE .. RENAME"
        );
    }
    session.authorize(Privilege::Alter, Object::Table(database, &from.table))?;
    session.authorize(Privilege::Drop, Object::Table(database, &from.table))?;
    session.authorize(Privilege::Create, Object::Table(new_database, &to.table))?;
    session.authorize(Privilege::Insert, Object::Table(new_database, &to.table))?;
    Ok(Renaming {
        database: database.to_owned(),
        from: from.table.clone(),
        to_database: new_database.to_owned(),
        to: to.table.clone(),
    })
}

/// Says what existing rows show of a new column whose default is computed: one constant value, as
/// in MySQL, that of this moment.
///
/// # Errors
/// Those of an expression; `NotSupported` for one that has another value for each row.
fn dated(session: &Session, id: TableId, change: &SchemaChange) -> Result<SchemaChange> {
    let mut change = change.clone();
    if let SchemaChange::AddColumn { column, .. } | SchemaChange::AddKeyColumn { column, .. } =
        &mut change
        && let DefaultSpec::Value(default) = &column.default
        && default.is_computed()
    {
        let engine = &session.shared.engine;
        let before = match default {
            DefaultValue::Expression(text) => {
                let catalog = engine.catalog();
                let table = catalog.require(id)?;
                let made = column.column(table.form, table.collation)?;
                session.shared.value_before(&made, text, session.settings.rules(table.form))?
            }
            _ => {
                let now = engine.clock().wall_micros();
                Some(instant_literal(column.ty, now, session.settings.zone()))
            }
        };
        column.default = DefaultSpec::Computed { default: default.clone(), before };
    }
    Ok(change)
}

/// FLUSH TABLES: writes the rows of tables in memory to files.
async fn flush(session: &mut Session, tables: &[TableName]) -> Result<Reply> {
    session.authorize(Privilege::Reload, Object::Server)?;
    let engine = Arc::clone(&session.shared.engine);
    let ids = match tables {
        [] => engine.table_states().iter().map(|state| state.id).collect(),
        named => {
            let id = |table: &TableName| {
                let database = session.database_of(table.database.as_deref())?;
                session.target(database, &table.table).map(|target| target.id())
            };
            named.iter().map(id).collect::<Result<Vec<_>>>()?
        }
    };
    for id in ids {
        let engine = Arc::clone(&session.shared.engine);
        shield(session, async move { engine.flush_table(id).await }).await?;
    }
    Ok(Reply::done())
}
