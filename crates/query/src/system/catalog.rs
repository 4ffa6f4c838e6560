//! Rows of system tables that are derived from the catalog.

use std::sync::Arc;

use freshet_meta::{Database, RESERVED_DATABASES, View};
use freshet_schema::types::{CHAR_LEN_MAX, TEXT_BYTES_MAX, VARCHAR_LEN_MAX};
use freshet_schema::value::default_text;
use freshet_schema::{
    Column, ColumnType, DeclaredKey, DeclaredKeyKind, KeyModel, LengthUnit, Sequence,
    SequenceChange, Table, TableForm,
};

use super::wanted::Wanted;
use super::{Cell, SEQUENCE_OF_IDS, SystemTables};
use crate::updatable;

/// The value of TABLE_CATALOG.
pub const CATALOG: &str = "def";
/// Maximum length of a character.
const CHARACTER_BYTES: u64 = 4;

/// The wanted databases that the user may see.
fn databases<'a>(
    system: &'a SystemTables,
    wanted: &'a Wanted,
) -> impl Iterator<Item = &'a Arc<Database>> {
    let all = system.snapshot.catalog.databases();
    all.filter(|database| wanted.has_database(&database.name))
        .filter(|database| system.source.may_see(&database.name))
}

/// The wanted tables that the user may see, with their databases.
pub fn stored<'a>(
    system: &'a SystemTables,
    wanted: &'a Wanted,
) -> impl Iterator<Item = (&'a Arc<Database>, &'a Arc<Table>)> {
    databases(system, wanted)
        .flat_map(|database| wanted.tables_of(database).map(move |table| (database, table)))
        .filter(|(database, table)| system.source.may_see_table(&database.name, &table.name))
}

/// The wanted views that the user may see, with their databases.
pub fn visible_views<'a>(
    system: &'a SystemTables,
    wanted: &'a Wanted,
) -> impl Iterator<Item = (&'a Arc<Database>, &'a Arc<View>)> {
    let catalog = &system.snapshot.catalog;
    let with_database = |view: &'a Arc<View>| {
        let database = catalog.database_by_id(view.db)?;
        // Not in the recycle bin.
        database.dropped_micros.is_none().then_some((database, view))
    };
    catalog
        .views()
        .filter(|view| wanted.has_table(&view.name))
        .filter_map(with_database)
        .filter(|(database, _)| wanted.has_database(&database.name))
        .filter(|(database, view)| system.source.may_see_table(&database.name, &view.name))
}

pub fn views(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let catalog = &system.snapshot.catalog;
    let is_updatable =
        |database: &str, view: &Arc<View>| updatable::is_updatable(catalog, database, view);
    let row = |(database, view): (&Arc<Database>, &Arc<View>)| {
        let shown = system.source.may_show_view(&database.name, &view.name);
        vec![
            CATALOG.into(),
            database.name.as_str().into(),
            view.name.as_str().into(),
            (if shown { view.query.as_str() } else { "" }).into(),
            view.check_option.name().into(),
            (if is_updatable(&database.name, view) { "YES" } else { "NO" }).into(),
            format!("{}@{}", view.definer.name, view.definer.host).into(),
            (if view.invoker { "INVOKER" } else { "DEFINER" }).into(),
            "utf8mb4".into(),
            "utf8mb4_bin".into(),
        ]
    };
    visible_views(system, wanted).map(row).collect()
}

/// The sequences that the user may see, with the values that come next; that of a TIME sequence
/// depends on when it is taken.
pub fn sequences(system: &SystemTables) -> Vec<Vec<Cell>> {
    let all = databases(system, &Wanted::ALL)
        .flat_map(|home| home.sequences.values().map(move |it| (home, it)));
    let visible = all.filter(|(home, it)| system.source.may_see_table(&home.name, &it.name));
    let row = |(home, table): (&Arc<Database>, &Arc<Table>)| {
        let sequence = table.sequence?;
        let next = system.source.next_id(table.id).filter(|_| sequence.block().is_none());
        Some(vec![
            home.name.as_str().into(),
            table.name.as_str().into(),
            next.map(|next| sequence.upcoming(next)).into(),
            sequence.increment.into(),
            sequence.start.into(),
            sequence.max.into(),
            (if sequence.cycle { "Y" } else { "N" }).into(),
            sequence.kind.name().into(),
            Cell::Time(table.created_micros),
        ])
    };
    visible.filter_map(row).chain(sequences_of_ids(system)).collect()
}

/// The ids of the tables that the user may see, as sequences.
fn sequences_of_ids(system: &SystemTables) -> impl Iterator<Item = Vec<Cell>> {
    let kind = Sequence::new(&SequenceChange::default()).expect("a sequence has defaults");
    stored(system, &Wanted::ALL).filter_map(move |(home, table)| {
        table.schema().shown_auto_increment()?;
        let next = system.source.next_id(table.id)?;
        Some(vec![
            home.name.as_str().into(),
            format!("{SEQUENCE_OF_IDS}{}", table.name).into(),
            next.into(),
            kind.increment.into(),
            kind.start.into(),
            kind.max.into(),
            "N".into(),
            kind.kind.name().into(),
            Cell::Time(table.created_micros),
        ])
    })
}

pub fn schemata(system: &SystemTables) -> Vec<Vec<Cell>> {
    let names = RESERVED_DATABASES
        .into_iter()
        .chain(databases(system, &Wanted::ALL).map(|database| database.name.as_str()));
    names
        .map(|name| {
            vec![
                CATALOG.into(),
                name.into(),
                "utf8mb4".into(),
                system.source.collation_of(name).name().into(),
                Cell::Null,
                "NO".into(),
            ]
        })
        .collect()
}

/// The number of rows of a table, their average and total size in bytes; NULL if the snapshot is
/// too old, and where policies hide rows.
fn size(system: &SystemTables, table: &Table) -> [Cell; 3] {
    if system.source.hides_rows_of(table) {
        return [const { Cell::Null }; 3];
    }
    let Ok(read) = system.snapshot.table(table.id) else { return [const { Cell::Null }; 3] };
    let (rows, bytes) = read.map_or((0, 0), |read| (read.rows(), read.bytes()));
    [rows.into(), bytes.checked_div(rows).unwrap_or(0).into(), bytes.into()]
}

pub fn tables(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, wanted) {
        let [count, average, bytes] = size(system, table);
        rows.push(vec![
            CATALOG.into(),
            database.name.as_str().into(),
            table.name.as_str().into(),
            "BASE TABLE".into(),
            (if table.form == TableForm::Olap { "Olap" } else { "InnoDB" }).into(),
            10_i64.into(),
            "Dynamic".into(),
            count,
            average,
            bytes,
            0_i64.into(),
            0_i64.into(),
            0_i64.into(),
            system.source.next_id(table.id).into(),
            Cell::Time(table.created_micros),
            Cell::Null,
            Cell::Null,
            table.collation.name().into(),
            Cell::Null,
            "".into(),
            table.comment.as_str().into(),
        ]);
    }
    for (database, view) in visible_views(system, wanted) {
        let mut row = vec![Cell::Null; 21];
        row[0] = CATALOG.into();
        row[1] = database.name.as_str().into();
        row[2] = view.name.as_str().into();
        row[3] = "VIEW".into();
        row[14] = Cell::Time(view.created_micros);
        row[20] = "VIEW".into();
        rows.push(row);
    }
    rows
}

/// Maximum length in characters and in bytes.
fn lengths(column: &Column) -> (Option<u64>, Option<u64>) {
    let (len, binary) = match column.ty {
        ColumnType::Char { len }
        | ColumnType::VarChar { len }
        | ColumnType::Enum { len }
        | ColumnType::Set { len } => (len, false),
        ColumnType::Binary { len } | ColumnType::VarBinary { len } => (len, true),
        ColumnType::Text | ColumnType::Blob => {
            let len = column.lob_size.bytes_max().unwrap_or(TEXT_BYTES_MAX);
            return (Some(len.into()), Some(len.into()));
        }
        _ => return (None, None),
    };
    let bytes = match column.length_unit {
        LengthUnit::Characters if !binary => u64::from(len) * CHARACTER_BYTES,
        _ => u64::from(len),
    };
    debug_assert!(len <= TEXT_BYTES_MAX.max(VARCHAR_LEN_MAX).max(CHAR_LEN_MAX));
    (Some(len.into()), Some(bytes))
}

/// Precision and scale.
fn digits(ty: ColumnType) -> (Option<u64>, Option<u64>) {
    let unsigned = ty.is_unsigned();
    let whole = |digits: u64| (Some(digits), Some(0));
    match ty {
        ColumnType::Boolean | ColumnType::TinyInt { .. } => whole(3),
        ColumnType::SmallInt { .. } => whole(5),
        ColumnType::MediumInt { .. } => whole(7),
        ColumnType::Int { .. } => whole(10),
        ColumnType::BigInt { .. } => whole(if unsigned { 20 } else { 19 }),
        ColumnType::Bit { len } => (Some(len.into()), None),
        ColumnType::LargeInt => whole(39),
        ColumnType::Float => (Some(12), None),
        ColumnType::Double => (Some(22), None),
        ColumnType::Decimal { precision, scale } => (Some(precision.into()), Some(scale.into())),
        _ => (None, None),
    }
}

/// The value of COLUMN_KEY: `PRI`, `UNI`, `MUL` or nothing.
fn column_key(table: &Table, column: &Column, at: usize) -> &'static str {
    if let Some(word) = table.key_word(column.id) {
        word
    } else if at >= table.key_columns {
        ""
    } else {
        match table.key_model {
            KeyModel::Duplicate => "DUP",
            KeyModel::Aggregate => "AGG",
            KeyModel::Unique | KeyModel::Primary => "UNI",
        }
    }
}

pub fn columns(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, wanted) {
        let rights = system.source.column_rights(&database.name, &table.name);
        let Some(rights) = rights else { continue };
        for (at, column) in table.schema().shown().iter().enumerate() {
            if !rights.has(&column.name) {
                continue;
            }
            let key = column_key(table, column, at);
            rows.push(column_row([&database.name, &table.name], column, at, key));
        }
    }
    for (database, view) in visible_views(system, wanted) {
        for (at, column) in view.columns.iter().enumerate() {
            rows.push(column_row([&database.name, &view.name], column, at, ""));
        }
    }
    rows
}

fn column_row(
    [database, table]: [&str; 2],
    column: &Column,
    at: usize,
    key: &'static str,
) -> Vec<Cell> {
    let (characters, bytes) = lengths(column);
    let (precision, scale) = digits(column.ty);
    let fsp = match column.ty {
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } | ColumnType::Time { fsp } => {
            Some(u64::from(fsp))
        }
        _ => None,
    };
    let text = column.ty.has_collation();
    let collation = column.collation.name();
    vec![
        Cell::fixed(CATALOG),
        database.into(),
        table.into(),
        column.name.as_str().into(),
        (at as u64 + 1).into(),
        default_text(column).map_or(Cell::Null, Into::into),
        Cell::fixed(if column.nullable { "YES" } else { "NO" }),
        column.data_type_name().into(),
        characters.into(),
        bytes.into(),
        precision.into(),
        scale.into(),
        fsp.into(),
        text.then_some("utf8mb4").map_or(Cell::Null, Cell::fixed),
        text.then_some(collation).map_or(Cell::Null, Cell::fixed),
        column.type_text().into(),
        Cell::fixed(key),
        column.extra_text().into(),
        Cell::fixed("select,insert,update,references"),
        column.comment.as_str().into(),
        column.generated.as_ref().map_or("", |how| how.text.as_str()).into(),
        Cell::Null,
    ]
}

/// A column of a key.
pub struct KeyPart {
    pub place: u64,
    pub column: String,
    nullable: bool,
    /// How many of its first characters count; `None` for all.
    pub first: Option<u32>,
    /// `D` for DESC.
    order: &'static str,
}

pub fn key_parts(table: &Table, key: &DeclaredKey) -> Vec<KeyPart> {
    let columns = &table.schema().columns;
    let positions = key.columns.iter().filter_map(|id| {
        let column = &columns[table.schema().position_of(*id)?];
        Some((column, key.first_shown(*id, column)))
    });
    let parts = positions.zip(1_u64..).map(|((of, first), place)| {
        let (column, nullable, order) = (of.name.clone(), of.nullable, key.order_shown(of));
        KeyPart { place, column, nullable, first, order }
    });
    parts.collect()
}

/// Whether the number of rows is that of the different values up to this place of a key, counted
/// from 1: of all others it is not known.
pub fn tells_of_rows(table: &Table, key: &DeclaredKey, place: usize) -> bool {
    table.enforces(key) && place == key.columns.len()
}

pub fn statistics(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, wanted) {
        if table.declared_keys.is_empty() {
            continue;
        }
        let [count, ..] = size(system, table);
        for key in &table.declared_keys {
            for KeyPart { place, column, nullable, first, order } in key_parts(table, key) {
                rows.push(vec![
                    CATALOG.into(),
                    database.name.as_str().into(),
                    table.name.as_str().into(),
                    i64::from(!key.kind.is_unique()).into(),
                    database.name.as_str().into(),
                    key.name.as_str().into(),
                    place.into(),
                    column.into(),
                    order.into(),
                    match tells_of_rows(table, key, place as usize) {
                        true => count.clone(),
                        false => Cell::Null,
                    },
                    first.map_or(Cell::Null, |first| u64::from(first).into()),
                    Cell::Null,
                    (if nullable { "YES" } else { "" }).into(),
                    key.index_type().into(),
                    key.part_comment().into(),
                    (&*table.key_comment(key)).into(),
                    (if key.kind == DeclaredKeyKind::InvisibleIndex { "NO" } else { "YES" }).into(),
                    Cell::Null,
                ]);
            }
        }
    }
    rows
}
