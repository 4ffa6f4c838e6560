//! Tables of `information_schema` and other system databases, computed during planning.

mod accounts;
mod catalog;
mod columns;
mod constraints;
mod fixed;
mod innodb;
mod keywords;
mod nothing;
mod partitions;
mod performance;
mod roles;
mod shape;
mod sys;
mod usage;
mod wanted;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use freshet_base::{Result, TableId, err};
use freshet_meta::{Account, ColumnRights};
use freshet_schema::{Collation, ColumnType, Zone};
use freshet_storage::snapshot::Snapshot;

use crate::coercibility::Derived;
use crate::error::mapped;
use crate::numbers::Numbers;
use crate::origin::ColumnOrigin;
use crate::result::SYSTEM;
use crate::tables::{Table, Tables};
pub use catalog::tells_of_rows;
pub use fixed::{ENGINES, PLUGINS};
use wanted::{NamedPlaces, Wanted};

/// Begins the name of the sequence that stands for the ids of a table, as in PolarDB-X.
pub const SEQUENCE_OF_IDS: &str = "AUTO_SEQ_";

/// A value in a system table.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    Null,
    Text(Cow<'static, str>),
    Int(i64),
    /// An instant in microseconds since 1970 UTC.
    Time(i64),
}

impl Cell {
    /// A text that is the same in many rows, of which there may be as many as columns of all
    /// tables.
    pub fn fixed(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// System tables whose rows are provided by the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerTable {
    /// `processlist`: ID, USER, HOST, DB, COMMAND, TIME, STATE, INFO.
    Processlist,
    /// `processlist` of `performance_schema`: the same, and EXECUTION_ENGINE.
    PerformanceProcesslist,
    /// `group_commits`: LABEL, TABLE_SCHEMA, TABLE_NAME, TXN_ID, LOADS, ROWS, BYTES,
    /// OPENED, ENDED, REASON, VERSION, WAIT_MS, FLUSH_MS, PUBLISH_MS.
    GroupCommits,
    /// `flushes`: TABLE_SCHEMA, TABLE_NAME, REASON, STATE, BEGUN, ROWS, ROWSETS, SEGMENTS, BYTES,
    /// VERSION, LSN, TOOK_US, WAIT_US, WRITE_US, MARK_US, PUBLISH_US, MESSAGE.
    Flushes,
    /// `load_rejects`: LABEL, TXN_ID, TABLE_SCHEMA, TABLE_NAME, ENDED, STATUS, USER, CLIENT,
    /// ROW_NUMBER, COLUMN_NAME, REASON, LINE, ERROR_URL.
    LoadRejects,
    /// `wal`: NAME, VALUE.
    Wal,
    /// `workload_groups`: as SHOW WORKLOAD GROUPS, and MEMORY_BYTES, THREAD_MS.
    WorkloadGroups,
    /// `global_variables`: VARIABLE_NAME, VARIABLE_VALUE.
    GlobalVariables,
    /// `persisted_variables`: VARIABLE_NAME, VARIABLE_VALUE.
    PersistedVariables,
    /// `session_variables`: VARIABLE_NAME, VARIABLE_VALUE.
    SessionVariables,
    /// `global_status`: VARIABLE_NAME, VARIABLE_VALUE.
    GlobalStatus,
    /// `threads` of `performance_schema`: THREAD_ID, NAME, TYPE, PROCESSLIST_ID,
    /// PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, PROCESSLIST_COMMAND, PROCESSLIST_TIME,
    /// PROCESSLIST_STATE, PROCESSLIST_INFO, PARENT_THREAD_ID, ROLE, INSTRUMENTED, HISTORY,
    /// CONNECTION_TYPE, THREAD_OS_ID, RESOURCE_GROUP, EXECUTION_ENGINE, CONTROLLED_MEMORY,
    /// MAX_CONTROLLED_MEMORY, TOTAL_MEMORY, MAX_TOTAL_MEMORY, TELEMETRY_ACTIVE.
    Threads,
    /// `innodb_trx`: the 25 columns that it has in MySQL.
    Transactions,
    /// `session_connect_attrs`: PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE, ORDINAL_POSITION, of the
    /// connections that the user may see.
    ConnectAttributes,
    /// The same, of the connections of the user's own account.
    OwnConnectAttributes,
    /// `innodb_lock_waits` of `sys`: the 30 columns that it has in MySQL.
    LockWaits,
    /// `events_statements_summary_by_digest`: the 39 columns that it has in MySQL.
    StatementDigests,
}

/// Information provided by the server.
pub trait SystemSource: Send + Sync {
    /// The rows of a table, in the order of its columns.
    ///
    /// # Errors
    /// 1227 if the user may not see them.
    fn rows(&self, table: ServerTable) -> Result<Vec<Vec<Cell>>>;

    /// The account of the user.
    fn account(&self) -> &Account;

    /// The roles that are active in the session.
    fn roles(&self) -> &[Account];

    /// The next generated id of a table; `None` without an AUTO_INCREMENT column.
    fn next_id(&self, table: TableId) -> Option<u64>;

    /// Whether the user may see this account and its grants.
    fn may_see_account(&self, account: &Account) -> bool;

    fn may_see(&self, database: &str) -> bool;

    /// The collation of new tables of a database.
    fn collation_of(&self, database: &str) -> Collation;

    fn may_see_table(&self, database: &str, table: &str) -> bool;

    /// Whether row policies hide rows of a table from the user, who is not told how many there are.
    fn hides_rows_of(&self, table: &freshet_schema::Table) -> bool;

    /// The columns of a table that the user may see; `None` if there are none.
    fn column_rights(&self, database: &str, table: &str) -> Option<ColumnRights>;

    /// Whether the user may see what a view selects.
    fn may_show_view(&self, database: &str, view: &str) -> bool;
}

/// The system tables for a snapshot.
#[derive(Clone)]
pub struct SystemTables {
    pub snapshot: Snapshot,
    pub source: Arc<dyn SystemSource>,
    /// The time zone in which instants are displayed.
    pub zone: Zone,
    /// The version of the server.
    pub version: String,
}

/// The table names of a system database, in lower case.
pub fn names(database: &str) -> Vec<&'static str> {
    let wanted = database.to_lowercase();
    let tables = columns::all().filter(|table| table.database == wanted);
    tables.map(|table| table.name).collect()
}

impl Tables for SystemTables {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        let (database, name) = (database.to_lowercase(), name.to_lowercase());
        if let Some(numbers) = Numbers::of(&name).filter(|_| database == SYSTEM) {
            return Ok(numbers.table());
        }
        let found = columns::all().find(|t| t.database == database && t.name == name);
        let table = found.ok_or_else(|| match database == SYSTEM {
            true => err!(UnknownTable, "Unknown table '{}' in {database}", name.to_uppercase()),
            false => err!(NoSuchTable, "Table '{database}.{name}' doesn't exist"),
        })?;
        let rows = match table.rows {
            shape::Rows::None => Vec::new(),
            shape::Rows::Fixed(rows) => rows(),
            shape::Rows::Catalog(rows) => rows(self),
            shape::Rows::Places(rows) => return Ok(self.places(table, rows)),
            shape::Rows::Named(rows) => {
                rows(self, &table.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>())
            }
            shape::Rows::Server(which) => self.source.rows(which)?,
        };
        let batch = batch(table, &rows, self.zone);
        let provider = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(mapped)?;
        Ok(Table::new(Arc::new(provider)))
    }
}

impl SystemTables {
    /// A table whose rows are made when a query has said of which tables it wants them.
    fn places(&self, table: &'static shape::SystemTable, rows: shape::OfPlaces) -> Table {
        let system = self.clone();
        let batches = move |wanted: &Wanted| {
            let mut batches = vec![batch(table, &rows(&system, wanted), system.zone)];
            if wanted.has_system() {
                let own = OWN.iter().filter(|(of, _)| *of == table.name);
                batches.extend(own.map(|(_, batch)| batch.clone()));
            }
            batches
        };
        let schema = batch(table, &[], self.zone).schema();
        Table::new(Arc::new(NamedPlaces::new(schema, batches)))
    }
}

/// What `tables` and `columns` have of the system tables themselves: thousands of rows, made once.
static OWN: LazyLock<[(&str, RecordBatch); 2]> = LazyLock::new(|| {
    ["tables", "columns"].map(|name| {
        let table = columns::all().find(|table| table.database == SYSTEM && table.name == name);
        let rows = columns::own_rows(name);
        (name, batch(table.expect("a system table"), &rows, Zone::UTC))
    })
});

fn batch(table: &shape::SystemTable, rows: &[Vec<Cell>], zone: Zone) -> RecordBatch {
    assert!(
        rows.iter().all(|row| row.len() == table.columns.len()),
        "rows of {} have a cell for each column",
        table.name
    );
    let mut fields = Vec::new();
    let mut arrays = Vec::<ArrayRef>::new();
    for (at, (name, kind)) in table.columns.iter().enumerate() {
        let cells = rows.iter().map(|row| &row[at]);
        let (ty, array): (_, ArrayRef) = match kind {
            shape::Kind::Text => (
                ColumnType::VarChar { len: 512 },
                Arc::new(cells.map(text).collect::<StringViewArray>()),
            ),
            shape::Kind::Int => {
                let values = cells.map(|cell| match cell {
                    Cell::Int(value) => Some(*value),
                    _ => None,
                });
                (ColumnType::BigInt { unsigned: false }, Arc::new(values.collect::<Int64Array>()))
            }
            shape::Kind::Time => {
                let values = cells.map(|cell| match cell {
                    Cell::Time(micros) => Some(zone.to_local(*micros)),
                    _ => None,
                });
                let values = values.collect::<TimestampMicrosecondArray>();
                (ColumnType::DateTime { fsp: 0 }, Arc::new(values))
            }
        };
        let origin = ColumnOrigin {
            database: table.database.to_owned(),
            table: table.shown_name(),
            column: (*name).to_owned(),
            ty,
            flags: 0,
            labels: Vec::new(),
        };
        let mut metadata = HashMap::from([(ColumnOrigin::KEY.to_owned(), origin.encode())]);
        if *kind == shape::Kind::Text && table.database == SYSTEM && !is_by_bytes(name) {
            let derived = Derived::column(Collation::Utf8mb4GeneralCi);
            metadata.insert(Derived::KEY.to_owned(), derived.encode());
        }
        let field = Field::new(name.to_lowercase(), array.data_type().clone(), true);
        fields.push(field.with_metadata(metadata));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .expect("columns are built as their fields say")
}

/// Whether a column of `information_schema` has names in which the case of letters counts, as of
/// databases and tables; in its other texts it does not: drivers ask whether IS_NULLABLE is 'yes'.
fn is_by_bytes(column: &str) -> bool {
    const ENDS: [&str; 5] = ["CATALOG", "SCHEMA", "SCHEMA_NAME", "TABLE_NAME", "LABEL"];
    ENDS.iter().any(|end| column.ends_with(end))
}

fn text(cell: &Cell) -> Option<Cow<'_, str>> {
    match cell {
        Cell::Null => None,
        Cell::Text(text) => Some(Cow::Borrowed(text)),
        Cell::Int(value) => Some(value.to_string().into()),
        Cell::Time(micros) => {
            let mut out = String::new();
            crate::format::datetime(&mut out, *micros, 0);
            Some(out.into())
        }
    }
}
