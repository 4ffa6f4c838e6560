//! CREATE, DROP, TRUNCATE, ALTER and FLUSH.

mod checked;
mod databases;
mod partitions;
mod policies;
mod replace;
pub mod rewrite;
mod truncate;
mod unverified;
mod written;

use std::sync::Arc;

use freshet_base::{Error, Result, TableId, bail};
use freshet_ingest::{CreateOutcome, OnExisting, UnpublishedTable, alter_keys as alter_keys_of};
use freshet_meta::{
    ColumnSpec, DefaultSpec, KeyChange, Object, Privilege, Renaming, SchemaChange, TableSpec,
};
use freshet_query::parser::{AlterAction, Clauses, CreateTable, Statement, TableName};
use freshet_query::result::ResultColumn;
use freshet_query::syntax::Select;
use freshet_schema::value::instant_literal;
use freshet_schema::{CHAR_LEN_MAX, Collation, ColumnType, DefaultValue, TableForm};

use self::written::{collated, made_global, spec_like};
use super::insert::Selected;
use super::{bin, insert, sequence, shield};
use crate::insert::{Grouping, Target};
use crate::reply::Reply;
use crate::session::Session;

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
            rename(session, &[(table.clone(), name)]).await
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
        return create_as(session, database, spec, create, select).await;
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
    warn(session, created.warnings);
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
        Some(select) => Some(selected(session, &mut spec, select).await?),
        None => None,
    };
    let (engine, home) = (Arc::clone(&session.shared.engine), database.clone());
    let made = async move { engine.ddl().create_temporary(&home, spec).await };
    let (table, warnings) = shield(session, made).await?;
    warn(session, warnings);
    let reply = match rows {
        Some(rows) => fill(session, &table, rows).await?,
        None => Reply::done(),
    };
    session.keep_temporary(database, table);
    Ok(reply)
}

/// CREATE TABLE .. AS SELECT: the columns follow from the query, and its rows are one load outside
/// of any transaction. The table becomes visible when its rows are durable.
async fn create_as(
    session: &mut Session,
    database: String,
    mut spec: TableSpec,
    create: &CreateTable,
    select: &Select,
) -> Result<Reply> {
    let rows = selected(session, &mut spec, select).await?;
    let engine = Arc::clone(&session.shared.engine);
    let (name, if_not_exists) = (spec.name.clone(), create.if_not_exists);
    let home = database.clone();
    let begun = async move { engine.ddl().create_unlisted(&home, spec, if_not_exists).await };
    let table = match shield(session, begun).await? {
        CreateOutcome::Begun(table, warnings) => {
            warn(session, warnings);
            table
        }
        CreateOutcome::Exists => {
            session.diagnostics.push("Note", 1050, format!("Table '{name}' already exists"));
            return Ok(Reply::done());
        }
    };
    let loaded = fill(session, &table, rows).await?;
    let lsn = session.acked;
    shield(session, async move { table.list(lsn).await }).await?;
    Ok(loaded)
}

/// The rows of AS SELECT, whose columns become those of a table without any.
async fn selected(
    session: &mut Session,
    spec: &mut TableSpec,
    select: &Select,
) -> Result<Selected> {
    session.transactions.writable(&session.shared.engine, &session.settings)?;
    let losses = session.settings.losses(spec.form);
    let rows = Selected::run(session, select, Vec::new(), losses).await?;
    // A transaction opened by planning has a snapshot without the new table.
    session.transactions.roll_back();
    if spec.columns.is_empty() || spec.form == TableForm::MySql {
        let own = std::mem::take(&mut spec.columns);
        spec.columns = with_own(own, rows.columns.iter().map(column_spec).collect());
        if spec.form == TableForm::Olap {
            // Tables in the syntax of Doris compare by bytes, whatever their rows come from.
            spec.columns.iter_mut().for_each(|column| column.collation = None);
        }
    }
    Ok(rows)
}

/// The columns of a table, its own and those of AS SELECT: those that are not selected first, and
/// of those that are, its own.
fn with_own(mut own: Vec<ColumnSpec>, selected: Vec<ColumnSpec>) -> Vec<ColumnSpec> {
    let selected = selected.into_iter().map(|column| {
        let is_it = |other: &ColumnSpec| other.name.eq_ignore_ascii_case(&column.name);
        let at = own.iter().position(is_it);
        at.map_or(column, |at| own.remove(at))
    });
    let selected = selected.collect::<Vec<_>>();
    own.into_iter().chain(selected).collect()
}

/// Loads the rows of AS SELECT.
async fn fill(session: &mut Session, table: &UnpublishedTable, rows: Selected) -> Result<Reply> {
    let (shared, into) = (&session.shared, table.target().clone());
    let generation = shared.engine.catalog_generation();
    let on_existing = OnExisting::Refuse;
    let settings = &session.settings;
    // In the syntax of Doris the columns stand in the order of the query.
    let names = match into.table().form {
        TableForm::MySql => Some(rows.columns.iter().map(|column| column.name.clone())),
        TableForm::Olap => None,
    };
    let names = names.map(Iterator::collect::<Vec<_>>);
    let names = names.as_deref();
    let target = Target::new(shared, settings, generation, into, names, on_existing)?;
    insert::from_rows(session, target, Grouping::OfNewTable, rows).await
}

/// The column of a table or view that has the values of a result column.
pub fn column_spec(column: &ResultColumn) -> ColumnSpec {
    use freshet_query::origin::flags;
    use freshet_query::result::ResultType;
    let unsigned = column.flags & flags::UNSIGNED != 0;
    if let Some(ty) = &column.nested {
        let nullable = column.flags & flags::NOT_NULL == 0;
        return ColumnSpec { nullable, ..super::nested::spec(&column.name, ty) };
    }
    let characters = (column.length / 4).clamp(1, 65_533);
    let fsp = column.decimals.min(6);
    let ty = match column.ty {
        ResultType::Tiny if column.length == 1 => ColumnType::Boolean,
        ResultType::Tiny => ColumnType::TinyInt { unsigned },
        ResultType::Short => ColumnType::SmallInt { unsigned },
        ResultType::Int24 => ColumnType::MediumInt { unsigned },
        ResultType::Long => ColumnType::Int { unsigned },
        ResultType::LongLong => ColumnType::BigInt { unsigned },
        ResultType::Float => ColumnType::Float,
        ResultType::Double => ColumnType::Double,
        ResultType::Decimal => {
            let marks = if column.decimals > 0 { 2 } else { 1 };
            let precision = column.length.saturating_sub(marks).clamp(1, 38);
            ColumnType::Decimal { precision: precision as u8, scale: column.decimals }
        }
        ResultType::Date => ColumnType::Date,
        ResultType::DateTime => ColumnType::DateTime { fsp },
        ResultType::Timestamp => ColumnType::Timestamp { fsp },
        ResultType::Time => ColumnType::Time { fsp },
        ResultType::Year => ColumnType::Year,
        ResultType::Bit => ColumnType::Bit { len: column.length.clamp(1, 64) as u8 },
        ResultType::Json => ColumnType::Json,
        ResultType::Blob if column.binary => ColumnType::Blob,
        ResultType::VarString if column.binary => {
            ColumnType::VarBinary { len: column.length.clamp(1, 65_533) }
        }
        ResultType::String if column.binary => {
            ColumnType::Binary { len: column.length.min(CHAR_LEN_MAX) }
        }
        ResultType::VarString if !column.org_name.is_empty() => {
            ColumnType::VarChar { len: characters }
        }
        // As in MySQL's protocol, they come without their list.
        ResultType::String if column.flags & (flags::ENUM | flags::SET) != 0 => {
            ColumnType::VarChar { len: characters }
        }
        ResultType::String => ColumnType::Char { len: characters.min(255) },
        ResultType::Blob | ResultType::VarString | ResultType::Null => ColumnType::Text,
    };
    let nullable = column.flags & flags::NOT_NULL == 0;
    let collation = column.derived.filter(|_| ty.is_text() && !ty.is_document());
    let collation = collation.map(|derived| match derived.collation {
        Collation::Binary => Collation::Utf8mb4Bin,
        collation => collation,
    });
    ColumnSpec { nullable, collation, ..ColumnSpec::new(&column.name, ty) }
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
        AlterAction::Index(_) => Privilege::Index,
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
            let affected = alter_clauses(session, (table, id), clauses).await?;
            return Ok(Reply::Done { affected });
        }
        AlterAction::Set(pairs) => {
            let pairs = pairs.clone();
            let set = async move { engine.ddl().set_properties(id, pairs).await };
            let warnings = shield(session, set).await?;
            warn(session, warnings);
        }
        AlterAction::Index(key) => {
            let clauses = Clauses { keys: vec![key.clone()], ..Clauses::default() };
            alter_clauses(session, (table, id), &clauses).await?;
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

/// Columns and keys first: what they may refuse has changed nothing then. Returns how many rows a
/// division copied.
async fn alter_clauses(
    session: &mut Session,
    (table, mut id): (&TableName, TableId),
    clauses: &Clauses,
) -> Result<u64> {
    let mut affected = 0;
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
    Ok(affected)
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

/// Checks the privileges for a rename: those to drop the old name and to create the new one. With
/// ALTER alone a user could give a table a name under which they may SELECT.
fn authorized_renaming(session: &Session, from: &TableName, to: &TableName) -> Result<Renaming> {
    let database = session.database_of(from.database.as_deref())?;
    let new_database = session.database_of(to.database.as_deref())?;
    if session.temporary.find(database, &from.table).is_some() {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'RENAME of a temporary table'"
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
