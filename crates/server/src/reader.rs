//! The state that a statement reads: snapshot, session, variables.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::{Lsn, Result, TableId, bail};
use freshet_ingest::{LoadTarget, OwnRows};
use freshet_meta::{
    Account, Actor, Catalog, ColumnRights, Object, Privilege, View, authorize, authorize_columns,
    column_denied,
};
use freshet_query::change::Change;
use freshet_query::engine::StatementContext;
use freshet_query::limits::Limits;
use freshet_query::session::{self as planning, Scope, Value, Variables};
use freshet_query::snapshot::{SnapshotTables, is_given, without_partitions};
use freshet_query::syntax::Select;
use freshet_query::system::SystemTables;
use freshet_query::tables::{Table, Tables};
use freshet_query::through::{Through, is_written_through};
use freshet_schema::{Collation, KeyModel, ROW_ID, Zone};
use freshet_storage::delta::Freshness;
use freshet_storage::hidden::HiddenKeys;
use freshet_storage::snapshot::TableSnapshot;

use crate::given::GivenRows;
use crate::latest::Latest;
use crate::session::{Client, Counts, Session, TemporaryName};
use crate::show::system::ServerView;
use crate::variables::{self, Globals, Values};

/// What one statement reads: variables, one snapshot, and the uncommitted rows of its session.
pub struct Reader {
    own: Option<OwnRows>,
    /// The tables that the statement locks, as they are now.
    latest: Option<Arc<Latest>>,
    /// Rows that stand in place of a table.
    given: Option<GivenRows>,
    /// Database and name of the view that the statement writes through, and so may read as far as
    /// that takes. No name in its text says that.
    written: Option<(String, String)>,
    /// A table of which the statement reads no column, so that it needs no right to read it.
    unread: Option<TableId>,
    /// Whether the statement reads the rows that row policies hide from its user, too.
    is_whole: bool,
    /// Whether it sees hidden columns.
    shows_hidden: bool,
    /// The condition of a row policy that the statement tries out.
    trying: Option<String>,
    /// Database and name of the view that the statement defines.
    defining: Option<(String, String)>,
    variables: SessionVariables,
    client: Client,
    catalog: Arc<Catalog>,
    /// With the snapshot, of all tables.
    system: SystemTables,
    temporary: Arc<Vec<TemporaryName>>,
    database: Option<Arc<str>>,
    user: String,
    current_user: String,
    current_role: String,
    connection_id: u64,
    row_count: i64,
    last_insert_id: u64,
    found_rows: u64,
    now_micros: i64,
    clock_micros: i64,
    zone_name: String,
    mode: planning::SqlMode,
    limits: Limits,
}

/// The database and the name of the view that a statement names.
fn outermost(through: &Through) -> (String, String) {
    let (database, view) = &through.views[0];
    (database.clone(), view.name.clone())
}

impl Reader {
    /// Captures the current state for a statement of the session.
    ///
    /// # Errors
    /// When a transaction has to be opened and that fails.
    pub async fn new(session: &mut Session) -> Result<Arc<Self>> {
        Ok(Arc::new(Self::entered(session).await?))
    }

    /// As [`Self::new`]; a query without tables neither waits for the log nor opens a transaction.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn of(session: &mut Session, reads_tables: bool) -> Result<Arc<Self>> {
        if reads_tables {
            return Self::new(session).await;
        }
        session.transactions.check_alive()?;
        Ok(Arc::new(Self::captured(session)))
    }

    /// As [`Self::of`], for this query in the workload group of the session.
    ///
    /// # Errors
    /// As [`Self::new`], and those of [`Session::enter_group`].
    pub async fn entering(session: &mut Session, query: &Select) -> Result<Arc<Self>> {
        session.enter_for(query).await?;
        Self::of(session, query.reads_tables()).await
    }

    /// The LSN up to which it reads all that is in the log; zero where it leaves out groups that
    /// are open.
    pub fn as_of(&self) -> Lsn {
        match self.system.snapshot.freshness {
            Freshness::Committed => self.system.snapshot.horizon,
            Freshness::Published => Lsn::ZERO,
        }
    }

    /// As [`Self::new`], with rows in place of those of a table.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn over(session: &mut Session, given: GivenRows) -> Result<Arc<Self>> {
        let written = given.view.as_deref().map(outermost);
        Ok(Arc::new(Self { written, given: Some(given), ..Self::entered(session).await? }))
    }

    /// As [`Self::new`], of the rows as they are now, whatever snapshot the transaction reads.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn latest(session: &mut Session) -> Result<Arc<Self>> {
        let mut reader = Self::entered(session).await?;
        reader.system.snapshot = session.shared.engine.snapshot(Freshness::Committed);
        Ok(Arc::new(reader))
    }

    /// As [`Self::new`], to find rows of the table behind a view that the statement writes through.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn through(session: &mut Session, view: &Through) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { written: Some(outermost(view)), ..Self::entered(session).await? }))
    }

    /// As [`Self::new`], to find rows of a table of which no column is read.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn finding(session: &mut Session, table: TableId) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { unread: Some(table), ..Self::entered(session).await? }))
    }

    /// As [`Self::new`], to look at rows of a table by its constraints: these mean the same in each
    /// session, and need no right to read.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn checking(session: &mut Session, table: TableId) -> Result<Arc<Self>> {
        let mut reader = Self::entered(session).await?;
        let globals = &session.shared.globals;
        reader.variables = SessionVariables::of_globals(globals, reader.now_micros);
        (reader.system.zone, reader.zone_name) = (Zone::UTC, "UTC".to_owned());
        reader.mode = planning::SqlMode::default();
        reader.unread = Some(table);
        reader.is_whole = true;
        Ok(Arc::new(reader))
    }

    /// As [`Self::new`], to try out the condition of a row policy.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn trying(session: &mut Session, at: TableId, condition: &str) -> Result<Arc<Self>> {
        let (unread, trying) = (Some(at), Some(condition.to_owned()));
        Ok(Arc::new(Self { unread, trying, ..Self::entered(session).await? }))
    }

    /// As [`Self::new`], for the query of a view that the statement defines. What is no date beside
    /// a date is refused where the view is read.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn defining(session: &mut Session, database: &str, view: &str) -> Result<Arc<Self>> {
        let entered = Self::entered(session).await?;
        let beside_dates = planning::BesideDates::Texts;
        Ok(Arc::new(Self {
            defining: Some((database.to_owned(), view.to_owned())),
            shows_hidden: false,
            mode: planning::SqlMode { beside_dates, ..entered.mode },
            ..entered
        }))
    }

    async fn entered(session: &mut Session) -> Result<Self> {
        session.before_read().await?;
        Ok(Self::captured(session))
    }

    fn captured(session: &Session) -> Self {
        let shared = &session.shared;
        let engine = &shared.engine;
        let pinned = session.transactions.open().and_then(|open| open.snapshot().cloned());
        let snapshot = pinned.unwrap_or_else(|| engine.snapshot(session.settings.freshness));
        let account = &session.client.account;
        let variables = SessionVariables {
            values: session.variables.clone(),
            globals: shared.globals.load(),
            users: Arc::clone(&session.user_variables),
            user_collations: Arc::clone(&session.user_collations),
            conditions: session.diagnostics.before,
            last_insert_id: session.last_insert_id,
            forced_id: session.forced_id.unwrap_or(0),
            now_micros: session.now_micros(),
        };
        let zone_name = match variables.system(Scope::Session, "time_zone") {
            Some(Value::Text(name)) => name,
            _ => "SYSTEM".to_owned(),
        };
        let system = SystemTables {
            snapshot,
            source: Arc::new(ServerView::new(session)),
            zone: session.settings.zone(),
            version: shared.settings.version.clone(),
        };
        Self {
            given: None,
            written: None,
            unread: None,
            is_whole: false,
            shows_hidden: session.settings.hidden_columns,
            trying: None,
            defining: None,
            own: session.transactions.open().map(|open| open.own_rows().clone()),
            latest: session.transactions.open().and_then(|open| open.latest().cloned()),
            client: session.client.clone(),
            catalog: engine.catalog(),
            system,
            temporary: Arc::clone(session.temporary.names()),
            database: session.database.clone(),
            user: session.user_at_host(),
            current_user: format!("{}@{}", account.name, account.host),
            current_role: session.current_role(),
            connection_id: u64::from(session.process.id),
            row_count: session.row_count,
            last_insert_id: session.last_insert_id,
            found_rows: session.found_rows,
            now_micros: variables.now_micros,
            clock_micros: shared.engine.clock().wall_micros(),
            zone_name,
            mode: session.settings.mode,
            limits: limits(&variables.globals),
            variables,
        }
    }

    /// The number of committed rows of a table.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub async fn live_rows(&self, table: TableId) -> Result<u64> {
        let Some(table) = self.system.snapshot.table(table)? else { return Ok(0) };
        table.resolved().await?;
        Ok(table.rows())
    }

    /// Whether the table of a target has its columns in the snapshot.
    ///
    /// # Errors
    /// When the snapshot cannot be read.
    pub fn has_columns_of(&self, target: &LoadTarget) -> Result<bool> {
        let table = self.system.snapshot.table(target.id())?;
        Ok(table.is_none_or(|table| table.schema.version == target.schema().version))
    }

    /// Whether another table than the target of a change has its name in the snapshot: one of the
    /// two was renamed since the target was resolved.
    pub fn names_other(&self, change: &Change, target: &LoadTarget) -> bool {
        let through = change.view.as_deref();
        let database = match through {
            Some(through) => Some(through.database.as_str()),
            None => change.target.database.as_deref().or(self.database.as_deref()),
        };
        let Some(database) = database else { return false };
        let name = through.map_or(change.target.table.as_str(), |through| through.table.as_str());
        let is_it = |one: &&TemporaryName| one.database == database && one.name == name;
        let own = self.temporary.iter().filter(|_| through.is_none()).find(is_it);
        let stored = || self.system.snapshot.catalog.table(database, name).map(|table| table.id);
        let named = own.map(|own| own.table).or_else(stored);
        named.is_some_and(|id| id != target.named())
    }

    /// Whether the statement reads rows that it has brought in place of this table, or nothing of
    /// it.
    fn is_own(&self, database: &str, name: &str) -> bool {
        let given = self.given.as_ref().filter(|given| given.is_own).map(|given| given.table);
        given.or(self.unread).is_some_and(|id| {
            let table = self.system.snapshot.catalog.table(database, name);
            table.is_some_and(|table| table.id == id)
        })
    }

    /// Whether the rows of a view stand here, in place of this table, which is that behind it.
    fn is_of_view(&self, name: &str, table: Option<TableId>) -> bool {
        let given = self.given.as_ref().filter(|given| given.of_view && is_given(name));
        given.is_some_and(|given| Some(given.table) == table)
    }

    /// Whether the statement writes through the view of this name.
    fn is_written(&self, database: &str, view: &str) -> bool {
        self.written.as_ref().is_some_and(|(home, name)| home == database && name == view)
    }

    /// Whether the snapshot has these views as they are.
    pub fn has_views(&self, through: &Through) -> bool {
        through.views.iter().all(|(database, view)| {
            self.system
                .snapshot
                .catalog
                .view(database, &view.name)
                .is_some_and(|known| known == view)
        })
    }

    fn overlaid(&self, table: TableSnapshot, is_given: bool) -> Result<TableSnapshot> {
        let id: TableId = table.table.id;
        let given = self.given.as_ref().filter(|given| given.table == id);
        if let Some(given) = given.filter(|given| is_given || !given.is_marked) {
            return Ok(table.only(Arc::clone(&given.schema), given.rows.clone()));
        }
        let Some(own) = &self.own else { return Ok(table) };
        own.check_in_memory(id)?;
        let latest = self.latest.as_deref();
        let table = latest.map_or(Ok(None), |latest| latest.table(id))?.unwrap_or(table);
        let rows = own.overlay(id, &table.schema);
        // By a sequence column stored rows may stay before its own, which only changes look at.
        let is_upserted = table.table.key_model == KeyModel::Unique
            && (table.schema.sequence.is_none() || own.has_changes_of(id));
        if table.table.key_model == KeyModel::Primary || is_upserted {
            let skipped = latest.map(|latest| latest.skipped(id)).unwrap_or_default();
            let hidden = own.hidden(id).into_iter().chain(skipped.iter().cloned());
            let hidden = HiddenKeys::new(hidden, &table.schema);
            return Ok(table.with_overlay(rows).hiding(hidden));
        }
        if rows.is_some() && table.is_keyed() {
            bail!(
                NotSupported,
                "table '{}' has a sequence column, and this transaction has written to it: it can \
                 be read again behind COMMIT or ROLLBACK",
                table.table.name
            );
        }
        let hidden = own.hidden_rows(id, &table.schema)?;
        let hidden = HiddenKeys::of_rows(&hidden, &table.schema);
        Ok(table.with_overlay(rows).hiding(hidden))
    }
}

impl StatementContext for Reader {
    fn session(&self) -> planning::Session<'_> {
        planning::Session {
            database: self.database.as_deref(),
            user: &self.user,
            current_user: &self.current_user,
            current_role: &self.current_role,
            version: &self.system.version,
            connection_id: self.connection_id,
            last_insert_id: self.last_insert_id,
            row_count: self.row_count,
            found_rows: self.found_rows,
            now_micros: self.now_micros,
            clock_micros: self.clock_micros,
            zone: self.system.zone,
            zone_name: &self.zone_name,
            mode: self.mode,
            limits: self.limits,
            variables: &self.variables,
        }
    }
}

impl Tables for Reader {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        self.table_for(self.client.actor(), database, name)
    }

    fn view(
        &self,
        reader: Option<&Account>,
        database: &str,
        name: &str,
    ) -> Result<Option<Arc<View>>> {
        // Who writes through a view need not read it, and was asked whether it does.
        let alone = if is_written_through(name) { without_partitions(name) } else { name };
        let is_target = alone != name && self.is_written(database, alone);
        if alone != name && !is_target {
            bail!(Internal, "'{database}.{alone}' is no view that the statement writes through");
        }
        let Some(view) = self.system.snapshot.catalog.view(database, alone) else {
            return Ok(None);
        };
        if !is_target {
            let reader = reader.map_or_else(|| self.client.actor(), Actor::from);
            authorize(&self.catalog, reader, Privilege::Select, Object::Table(database, name))?;
        }
        if self.defining.as_ref().is_some_and(|(db, view)| db == database && view == name) {
            bail!(ViewRecursion, "`{database}`.`{name}` contains view recursion");
        }
        Ok(Some(Arc::clone(view)))
    }

    fn own_table(&self, database: &str, name: &str) -> Result<Option<Table>> {
        let alone = without_partitions(name);
        let named = |one: &&TemporaryName| one.database == database && one.name == alone;
        let Some(own) = self.temporary.iter().find(named) else { return Ok(None) };
        if self.is_of_view(name, Some(own.table)) {
            return Ok(None);
        }
        if self.defining.is_some() {
            bail!(ViewOfTemporary, "View's SELECT refers to a temporary table '{name}'");
        }
        self.with_tables(|tables| tables.stored(database, name, own.table)).map(Some)
    }

    fn table_of(&self, reader: &Account, database: &str, name: &str) -> Result<Table> {
        self.table_for(reader.into(), database, name)
    }
}

impl Reader {
    /// A table for somebody who may read it.
    fn table_for(&self, reader: Actor<'_>, database: &str, name: &str) -> Result<Table> {
        let alone = without_partitions(name);
        let id = self.system.snapshot.catalog.table(database, alone).map(|table| table.id);
        if self.is_of_view(name, id) {
            return self.with_tables(|tables| tables.table(database, name));
        }
        let rights = match self.is_own(database, alone) {
            true => ColumnRights::All,
            false => {
                let place = (database, alone);
                authorize_columns(&self.catalog, reader, Privilege::Select, place)?
            }
        };
        let table = self.with_tables(|tables| tables.table(database, name))?;
        let table = table.filtered(self.row_filter(reader, database, alone));
        if rights == ColumnRights::All {
            return Ok(table);
        }
        let denied = |column: &str| {
            // A statement that changes rows reads all their columns: the table has to be granted.
            if column == freshet_query::change::ROW {
                let table = Object::Table(database, alone);
                return authorize(&self.catalog, reader, Privilege::Select, table).err();
            }
            // It names a row, and says nothing of it.
            if column.eq_ignore_ascii_case(ROW_ID) {
                return None;
            }
            let denied = || column_denied(reader.account, Privilege::Select, column, alone);
            (!rights.has(column)).then(denied)
        };
        table.guarded(denied)
    }

    /// The condition of the rows that row policies show to `reader`. They are those of now, also
    /// where the statement reads an older snapshot.
    fn row_filter(&self, reader: Actor<'_>, database: &str, name: &str) -> Option<String> {
        if self.trying.is_some() {
            return self.trying.clone();
        }
        let known =
            self.system.snapshot.catalog.table(database, name).filter(|_| !self.is_whole)?;
        let now = self.catalog.table_by_id(known.id).unwrap_or(known);
        freshet_meta::row_filter(&self.catalog, reader, now)
    }

    fn with_tables<T>(&self, read: impl FnOnce(&SnapshotTables<'_>) -> T) -> T {
        let overlay = |table, is_given| self.overlaid(table, is_given);
        let (snapshot, zone, shows_hidden) =
            (&self.system.snapshot, self.system.zone, self.shows_hidden);
        let (overlay, system) = (&overlay, &self.system);
        read(&SnapshotTables { snapshot, zone, overlay, shows_hidden, system })
    }
}

/// The values of variables when the statement began.
pub struct SessionVariables {
    values: Values,
    globals: Values,
    users: Arc<HashMap<String, Value>>,
    user_collations: Arc<HashMap<String, Collation>>,
    conditions: Counts,
    last_insert_id: u64,
    /// `insert_id`, or 0.
    forced_id: u64,
    now_micros: i64,
}

impl SessionVariables {
    /// Those that a session starts with.
    pub fn of_globals(globals: &Globals, now_micros: i64) -> Self {
        let mut values = globals.load();
        // A CHECK means the same at any time.
        let week = variables::find("default_week_format").expect("a variable of the registry");
        if *week.of(&values) != Value::Int(0) {
            week.put(&mut values, Value::Int(0));
        }
        Self {
            globals: values.clone(),
            values,
            users: Arc::default(),
            user_collations: Arc::default(),
            conditions: Counts::default(),
            last_insert_id: 0,
            forced_id: 0,
            now_micros,
        }
    }

    /// The global values.
    pub fn globals(&self) -> &Values {
        &self.globals
    }

    /// When the statement began, in microseconds since 1970 UTC.
    pub fn now_micros(&self) -> i64 {
        self.now_micros
    }
}

impl Variables for SessionVariables {
    fn system(&self, scope: Scope, name: &str) -> Option<Value> {
        let count = |count: u64| Some(i64::try_from(count).map_or(Value::UInt(count), Value::Int));
        match name.to_ascii_lowercase().as_str() {
            "warning_count" => return count(self.conditions.warnings),
            "error_count" => return count(self.conditions.errors),
            "last_insert_id" | "identity" => return count(self.last_insert_id),
            "insert_id" => return count(self.forced_id),
            "timestamp" => return Some(Value::Double(self.now_micros as f64 / 1e6)),
            _ => {}
        }
        let id = variables::find(name)?;
        let values = match (scope, id.variable().reach) {
            (Scope::Global, variables::Reach::Session) => return None,
            (Scope::Global, _) | (_, variables::Reach::Global) => &self.globals,
            _ => &self.values,
        };
        Some(id.of(values).clone())
    }

    fn user(&self, name: &str) -> Value {
        self.users.get(&name.to_lowercase()).cloned().unwrap_or(Value::Null)
    }

    fn user_collation(&self, name: &str) -> Option<Collation> {
        self.user_collations.get(name).copied()
    }
}

fn number(globals: &Values, name: &str) -> usize {
    let id = variables::find(name).expect("a variable of the registry");
    match id.of(globals) {
        Value::Int(number) => usize::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

/// The maximum number of tokens of a statement.
pub fn tokens_max(globals: &Values) -> usize {
    number(globals, "max_statement_tokens")
}

/// The size limits of statements, as SET GLOBAL last set them.
pub fn limits(globals: &Values) -> Limits {
    let number = |name| number(globals, name);
    Limits {
        terms: number("max_statement_terms"),
        tables: number("max_statement_tables"),
        joined: number("max_join_tables"),
        columns: number("max_select_columns"),
        depth: number("max_expression_depth"),
        arguments: number("max_function_arguments"),
    }
}
