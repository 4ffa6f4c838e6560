//! SHOW of catalog objects: databases, tables, columns, keys, partitions.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use freshet_base::{Result, err};
use freshet_meta::{
    Object, Privilege, RESERVED_DATABASES, View, is_reserved_database, may_see_database,
    may_see_table, require_visible, show_create_table,
};
use freshet_query::origin::ColumnOrigin;
use freshet_query::parser::TableName;
use freshet_query::result::ResultColumn;
use freshet_query::system::{self, SystemTables, tells_of_rows};
use freshet_query::tables::Tables;
use freshet_schema::Zone;
use freshet_schema::value::default_text;
use freshet_schema::{Aggregate, Collation, Column, ColumnType, DeclaredKeyKind, Table, TableForm};

use super::listing::{Listing, instant, some};
use super::rights::{listed, privileges_on};
use super::system::ServerView;
use crate::session::Session;

/// SHOW DATABASES.
pub fn databases(session: &Session) -> Result<Listing> {
    let catalog = session.shared.engine.catalog();
    let account = session.client.actor();
    let mut names = catalog.databases().map(|database| database.name.clone()).collect::<Vec<_>>();
    names.extend(RESERVED_DATABASES.iter().map(|name| (*name).to_owned()));
    names.sort();
    let mut listing = Listing::new(&["Database"]);
    for name in names.iter().filter(|name| may_see_database(&catalog, account, name)) {
        listing.add([name]);
    }
    Ok(listing)
}

/// The tables of a database that the user may see.
///
/// # Errors
/// 1044 and 1049.
pub fn visible(session: &Session, database: &str) -> Result<Vec<Arc<Table>>> {
    let catalog = session.shared.engine.catalog();
    require_visible(&catalog, session.client.actor(), database)?;
    if is_reserved_database(database) {
        return Ok(Vec::new());
    }
    let tables = catalog.require_database(database)?.tables.values().cloned();
    let account = session.client.actor();
    Ok(tables.filter(|table| may_see_table(&catalog, account, database, &table.name)).collect())
}

/// The views of a database that the user may see.
fn visible_views(session: &Session, database: &str) -> Vec<Arc<View>> {
    let catalog = session.shared.engine.catalog();
    let Some(home) = catalog.database(database) else { return Vec::new() };
    let account = session.client.actor();
    let views = catalog.views().filter(|view| view.db == home.id);
    views.filter(|view| may_see_table(&catalog, account, database, &view.name)).cloned().collect()
}

/// SHOW TABLES.
pub fn tables(session: &Session, full: bool, database: Option<&str>) -> Result<Listing> {
    let database = session.database_of(database)?;
    let heading = format!("Tables_in_{database}");
    let mut listing = match full {
        true => Listing::new(&[&heading, "Table_type"]),
        false => Listing::new(&[&heading]),
    };
    let named = |name: &str| match database.to_ascii_lowercase().as_str() {
        "information_schema" => (name.to_uppercase(), "SYSTEM VIEW"),
        "sys" => (name.to_owned(), "VIEW"),
        _ => (name.to_owned(), "BASE TABLE"),
    };
    let system = system::names(database).into_iter().map(named);
    let stored = visible(session, database)?;
    let stored = stored.iter().map(|table| (table.name.clone(), "BASE TABLE"));
    let views = visible_views(session, database);
    let views = views.iter().map(|view| (view.name.clone(), "VIEW"));
    let mut all = stored.chain(views).chain(system).collect::<Vec<_>>();
    all.sort();
    for (name, kind) in all {
        match full {
            true => listing.add([&name, kind]),
            false => listing.add([&name]),
        }
    }
    Ok(listing)
}

/// SHOW TABLE STATUS.
pub fn table_status(session: &Session, database: Option<&str>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "Name",
        "Engine",
        "#Version",
        "Row_format",
        "#Rows",
        "#Avg_row_length",
        "#Data_length",
        "#Max_data_length",
        "#Index_length",
        "#Data_free",
        "+Auto_increment",
        "@Create_time",
        "@Update_time",
        "@Check_time",
        "Collation",
        "#Checksum",
        "Create_options",
        "Comment",
    ]);
    let database = session.database_of(database)?;
    let snapshot = session.shared.engine.snapshot(session.settings.freshness);
    for table in visible(session, database)? {
        let Some(read) = snapshot.table(table.id)? else { continue };
        // Who does not see all rows is not told how many there are.
        let sizes = (!session.hides_rows_of(&table)).then(|| (read.rows(), read.bytes()));
        let average = sizes.map(|(rows, bytes)| bytes.checked_div(rows).unwrap_or(0));
        listing.push([
            some(&table.name),
            some(engine_of(&table)),
            some(10),
            some("Dynamic"),
            sizes.and_then(|(rows, _)| some(rows)),
            average.and_then(some),
            sizes.and_then(|(_, bytes)| some(bytes)),
            some(0),
            some(0),
            some(0),
            session.shared.engine.next_id(table.id).and_then(some),
            some(instant(table.created_micros)),
            None,
            None,
            some(shown_collation(table.collation)),
            None,
            some(""),
            some(&table.comment),
        ]);
    }
    for view in visible_views(session, database) {
        let mut row = [const { None }; 18];
        row[0] = some(&view.name);
        row[11] = some(instant(view.created_micros));
        row[17] = some("VIEW");
        listing.push(row);
    }
    Ok(listing)
}

fn engine_of(table: &Table) -> &'static str {
    match table.form {
        TableForm::Olap => "OLAP",
        TableForm::MySql => "InnoDB",
    }
}

/// The collation that is shown for views, system tables, and tables in the syntax of Doris.
const COLLATION: &str = "utf8mb4_bin";

fn shown_collation(collation: Collation) -> &'static str {
    if collation == Collation::Binary { COLLATION } else { collation.name() }
}

pub(super) fn stored(session: &Session, name: &TableName) -> Result<Arc<Table>> {
    let database = session.database_of(name.database.as_deref())?;
    session.authorize_use(Privilege::Select, database, &name.table)?;
    session.definition(database, &name.table)
}

/// The view of this name, if there is one and the user may read it.
fn view(session: &Session, name: &TableName) -> Result<Option<Arc<View>>> {
    let database = session.database_of(name.database.as_deref())?;
    let catalog = session.shared.engine.catalog();
    // A temporary table stands in front of it.
    let is_hidden = session.temporary.find(database, &name.table).is_some();
    let found = catalog.view(database, &name.table).filter(|_| !is_hidden);
    let Some(view) = found else { return Ok(None) };
    session.authorize(Privilege::Select, Object::Table(database, &name.table))?;
    Ok(Some(Arc::clone(view)))
}

fn view_columns(view: &View, full: bool, mut listing: Listing) -> Listing {
    for column in &view.columns {
        let name = some(&column.name);
        let (ty, null) =
            (some(column.type_text()), some(if column.nullable { "YES" } else { "NO" }));
        let (key, extra) = (some(""), some(""));
        let collation = column.ty.has_collation().then(|| COLLATION.to_owned());
        match full {
            false => listing.push([name, ty, null, key, None, extra]),
            true => listing.push([
                name,
                ty,
                collation,
                null,
                key,
                None,
                extra,
                some("select,references"),
                some(""),
            ]),
        }
    }
    listing
}

/// SHOW CREATE VIEW.
pub fn create_view_of(session: &Session, name: &TableName) -> Result<Listing> {
    if let Some(listing) = create_view(session, name)? {
        return Ok(listing);
    }
    let table = stored(session, name)?;
    let database = session.database_of(name.database.as_deref())?;
    Err(err!(WrongObject, "'{database}.{}' is not VIEW", table.name))
}

/// SHOW CREATE VIEW; `None` where there is none of that name.
fn create_view(session: &Session, name: &TableName) -> Result<Option<Listing>> {
    let Some(view) = view(session, name)? else { return Ok(None) };
    let database = session.database_of(name.database.as_deref())?;
    session.authorize(Privilege::ShowView, Object::Table(database, &name.table))?;
    let headings = ["View", "Create View", "character_set_client", "collation_connection"];
    let mut listing = Listing::new(&headings);
    listing.add([&*view.name, &view.show_create(), "utf8mb4", COLLATION]);
    Ok(Some(listing))
}

/// SHOW COLUMNS and DESCRIBE.
pub fn columns(session: &Session, name: &TableName, full: bool) -> Result<Listing> {
    let mut listing = match full {
        true => Listing::new(&[
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ]),
        false => Listing::new(&["Field", "Type", "Null", "Key", "Default", "Extra"]),
    };
    let database = session.database_of(name.database.as_deref())?;
    if is_reserved_database(database) {
        return system_columns(session, database, &name.table, full, listing);
    }
    if let Some(view) = view(session, name)? {
        return Ok(view_columns(&view, full, listing));
    }
    let table = listed(session, name)?;
    for (at, column) in session.shown_columns(&table).iter().enumerate() {
        let Some(privileges) = privileges_on(session, (database, &table), &column.name) else {
            continue;
        };
        let (ty, null) = (some(column.type_text()), some(yes_no(&table, column.nullable)));
        let (key, default) = (some(key_of(&table, at)), default_text(column));
        let extra = some(extra_of(&table, at, column));
        let name = some(&column.name);
        match full {
            false => listing.push([name, ty, null, key, default, extra]),
            true => listing.push([
                name,
                ty,
                column.ty.has_collation().then(|| shown_collation(column.collation).to_owned()),
                null,
                key,
                default,
                extra,
                some(&privileges),
                some(&column.comment),
            ]),
        }
    }
    Ok(listing)
}

fn system_columns(
    session: &Session,
    database: &str,
    table: &str,
    full: bool,
    mut listing: Listing,
) -> Result<Listing> {
    for field in system_schema(session, database, table)?.fields() {
        let ty = if field.data_type().is_integer() { "bigint" } else { "varchar(65533)" };
        let (name, ty) = (some(field.name().to_uppercase()), some(ty));
        let (null, key, extra) = (some("YES"), some(""), some(""));
        match full {
            false => listing.push([name, ty, null, key, None, extra]),
            true => listing.push([
                name,
                ty,
                some(COLLATION),
                null,
                key,
                None,
                extra,
                some("select"),
                some(""),
            ]),
        }
    }
    Ok(listing)
}

fn system_schema(session: &Session, database: &str, table: &str) -> Result<SchemaRef> {
    let snapshot = session.shared.engine.snapshot(session.settings.freshness);
    let source = Arc::new(ServerView::new(session));
    let (version, zone) = (session.shared.settings.version.clone(), Zone::UTC);
    let tables = SystemTables { snapshot, source, zone, version };
    Ok(tables.table(database, table)?.schema())
}

fn yes_no(table: &Table, nullable: bool) -> &'static str {
    match (table.form, nullable) {
        (TableForm::Olap, true) => "Yes",
        (TableForm::Olap, false) => "No",
        (TableForm::MySql, true) => "YES",
        (TableForm::MySql, false) => "NO",
    }
}

fn key_of(table: &Table, at: usize) -> &'static str {
    if table.form == TableForm::Olap {
        return if at < table.key_columns { "true" } else { "false" };
    }
    let id = table.schema().columns[at].id;
    table.key_word(id).unwrap_or("")
}

/// The `Extra` column, where Doris shows the aggregation.
fn extra_of(table: &Table, at: usize, column: &Column) -> String {
    match table.form {
        TableForm::MySql => column.extra_text(),
        _ if column.auto_increment.is_some()
            || column.on_update_now
            || column.generated.is_some() =>
        {
            column.extra_text()
        }
        TableForm::Olap if at < table.key_columns => String::new(),
        TableForm::Olap => column.aggregate.map_or("NONE", Aggregate::name).to_owned(),
    }
}

/// The columns of a table with their defaults, for COM_FIELD_LIST.
pub fn field_columns(
    session: &Session,
    name: &TableName,
) -> Result<Vec<(ResultColumn, Option<String>)>> {
    let database = session.database_of(name.database.as_deref())?;
    if is_reserved_database(database) {
        let schema = system_schema(session, database, &name.table)?;
        let column = |name: &String| (ResultColumn::text(name.to_uppercase()), None);
        return Ok(schema.fields().iter().map(|field| column(field.name())).collect());
    }
    let column = |column: &Column| {
        let mut shown = ResultColumn::text(&column.name);
        shown.org_name.clone_from(&column.name);
        shown.table.clone_from(&name.table);
        shown.org_table.clone_from(&name.table);
        shown.database = database.to_owned();
        (shown, default_text(column))
    };
    if let Some(view) = view(session, name)? {
        return Ok(view.columns.iter().map(column).collect());
    }
    Ok(session.shown_columns(&*stored(session, name)?).iter().map(column).collect())
}

/// SHOW INDEX.
pub fn index(session: &Session, name: &TableName) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "Table",
        "#Non_unique",
        "Key_name",
        "#Seq_in_index",
        "Column_name",
        "Collation",
        "#Cardinality",
        "#Sub_part",
        "Packed",
        "Null",
        "Index_type",
        "Comment",
        "Index_comment",
        "Visible",
        "Expression",
    ]);
    let database = session.database_of(name.database.as_deref())?;
    if is_reserved_database(database) {
        return Ok(listing);
    }
    if view(session, name)?.is_some() {
        return Ok(listing);
    }
    let table = stored(session, name)?;
    let schema = table.schema();
    let snapshot = session.shared.engine.snapshot(session.settings.freshness);
    // Who does not see all rows is not told how many there are.
    let read = snapshot.table(table.id)?;
    let count = || read.map_or(0, |read| read.rows());
    let rows = (!session.hides_rows_of(&table)).then(count);
    for key in &table.declared_keys {
        let unique = key.kind.is_unique();
        // As in PolarDB-X, which has a row for each column that a global index covers.
        let covered = table.covered_by(key);
        let parts = key.columns.iter().map(|id| (id, key.part_comment()));
        let parts = parts.chain(covered.iter().map(|id| (id, "COVERING")));
        for (sequence, (id, part)) in parts.enumerate() {
            let Some(at) = schema.position_of(*id) else { continue };
            let column = &schema.columns[at];
            listing.push([
                some(&table.name),
                some(u8::from(!unique)),
                some(&key.name),
                some(sequence + 1),
                some(&column.name),
                some(key.order_shown(column)),
                rows.filter(|_| tells_of_rows(&table, key, sequence + 1)).and_then(some),
                key.first_shown(*id, column).and_then(some),
                None,
                some(if column.nullable { "YES" } else { "" }),
                some(key.index_type()),
                some(part),
                some(table.key_comment(key)),
                some(if key.kind == DeclaredKeyKind::InvisibleIndex { "NO" } else { "YES" }),
                None,
            ]);
        }
    }
    Ok(listing)
}

/// SHOW CREATE TABLE.
pub fn create_table(session: &Session, name: &TableName) -> Result<Listing> {
    let database = session.database_of(name.database.as_deref())?;
    if is_reserved_database(database) {
        return create_system_table(session, database, &name.table);
    }
    if let Some(listing) = create_view(session, name)? {
        return Ok(listing);
    }
    let table = stored(session, name)?;
    let mut listing = Listing::new(&["Table", "Create Table"]);
    listing.add([&table.name, &show_create_table(&table, session.shared.engine.next_id(table.id))]);
    Ok(listing)
}

/// SHOW CREATE TABLE of a table of the server itself, which dumps and tools ask for.
///
/// # Errors
/// 1142 for who may not read it, 1109 and 1146.
fn create_system_table(session: &Session, database: &str, table: &str) -> Result<Listing> {
    session.authorize_columns(Privilege::Select, database, table)?;
    let schema = system_schema(session, database, table)?;
    let columns = schema.fields().iter().filter_map(|field| ColumnOrigin::decode(field));
    let (mut lines, mut name) = (Vec::new(), table.to_owned());
    for column in columns {
        let ty = match column.ty {
            ColumnType::BigInt { .. } => "bigint",
            ColumnType::DateTime { .. } => "datetime",
            _ => "text",
        };
        lines.push(format!("  `{}` {ty}", column.column));
        name = column.table;
    }
    let lines = lines.join(",\n");
    let create =
        format!("CREATE TABLE `{name}` (\n{lines}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
    let mut listing = Listing::new(&["Table", "Create Table"]);
    listing.add([&name, &create]);
    Ok(listing)
}

/// SHOW CREATE DATABASE.
pub fn create_database(session: &Session, name: &str) -> Result<Listing> {
    let catalog = session.shared.engine.catalog();
    require_visible(&catalog, session.client.actor(), name)?;
    let mode = match is_reserved_database(name) {
        true => None,
        false => catalog.require_database(name)?.mode,
    };
    let mut statement = format!(
        "CREATE DATABASE `{}` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE {} */",
        name.replace('`', "``"),
        session.collation_of(name).name()
    );
    if let Some(mode) = mode {
        statement += &format!(" /* MODE = '{}' */", mode.name());
    }
    let mut listing = Listing::new(&["Database", "Create Database"]);
    listing.add([name, &statement]);
    Ok(listing)
}

pub(super) fn distribution_of(table: &Table) -> String {
    if table.is_random() {
        return "RANDOM".to_owned();
    }
    let (schema, ids) = (table.schema(), table.distribution.columns());
    let name = |at: usize| schema.columns[at].name.clone();
    let names = ids.into_iter().filter_map(|id| schema.position_of(id).map(name));
    names.collect::<Vec<_>>().join(", ")
}
