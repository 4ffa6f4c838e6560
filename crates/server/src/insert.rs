//! The fast path of INSERT with literals or parameters: from the bytes of a packet to a record in
//! the log, without a syntax tree, a planner, or a thread switch.
//!
//! Head of the statement -> cached [`Target`] -> rows in the session's buffer -> [`load`]. Anything
//! the scanner does not handle goes to the planner, which calls [`load`] with its rows.

mod cache;
mod grouping;
mod left_out;
mod noted;
mod partial;
mod shape;
mod sign;
mod through;
mod upsert;

use std::sync::Arc;

use freshet_base::{ErrorCode, Result, TableId, bail};
use freshet_ingest::decode::values::{NoRows, RowScan, Scanned, parse_head};
use freshet_ingest::decode::{Encoded, InsertPlan, PartialColumns, Warnings};
use freshet_ingest::{
    Destination, Engine, KeyRules, LoadTarget, Loaded, OnExisting, UsedIds, WaitLimit,
};
use freshet_meta::Privilege;
use freshet_query::through::Through;
use freshet_schema::{
    GroupCommitMode, KeyModel, OnBad, Rules, SEQUENCE_COLUMN, Table, TableSchema,
};
use freshet_storage::delta::Freshness;

use cache::CachedHead;
pub use cache::InsertCache;
pub use grouping::{Grouping, claimed, note_alone};
pub use left_out::warn;
pub use noted::{note_failed, note_if_failed, note_labelled};
use shape::InsertShape;
pub use sign::{names_sign, sign_among};
use upsert::Updating;

use crate::as_of::AsOf;
use crate::digests::Rows;
use crate::reply::bounded;
use crate::session::{Hinted, LastInsert, Session};
use crate::settings::{Settings, StatementDeadline};
use crate::shared::Shared;
use crate::transaction::Inserted;

/// The resolved target of an INSERT: table, columns, and how values are converted.
pub struct Target {
    as_of: AsOf,
    pub into: LoadTarget,
    /// The view that the statement names in place of the table.
    pub through: Option<Arc<Through>>,
    /// Which value belongs to which column.
    pub plan: InsertPlan,
    /// How values are converted.
    pub rules: Rules,
    /// Whether its loads may share commit groups.
    pub groups: bool,
    /// The fraction of a statement's rows that may be filtered out; `None`: any bad row fails it.
    pub filter_ratio: Option<f64>,
    /// What happens to rows whose key exists.
    pub on_existing: OnExisting,
    /// Of a partial update: which columns the rows have.
    pub partial: Option<PartialColumns>,
    /// Whether its table takes the place of another one behind the load, which is told then.
    pub is_beside: bool,
    /// What stored rows got from the last statement that gave them something.
    updating: Option<Arc<Updating>>,
}

impl Target {
    /// A target that was resolved in the state `as_of`.
    ///
    /// # Errors
    /// When a column without default gets no value.
    pub fn new<N: AsRef<str>>(
        shared: &Shared,
        settings: &Settings,
        as_of: AsOf,
        into: LoadTarget,
        columns: Option<&[N]>,
        on_existing: OnExisting,
    ) -> Result<Self> {
        into.check_takes_loads()?;
        let table = into.table();
        check_existing(table, on_existing)?;
        let mut rules = *settings.rules(table.form);
        if on_existing == OnExisting::Skip && rules.strict() {
            rules.on_bad = OnBad::Clamp;
        }
        let filter_ratio = settings.filter_ratio(table.form);
        let (schema, now) = (into.schema(), shared.engine.clock().wall_micros());
        let losses = settings.losses(table.form);
        let completion = shared.completion(&into, losses)?;
        let defaults = shared.defaults(schema, losses, rules.zone)?;
        let sign = sign_among(table, columns);
        let columns = columns.map(|columns| sign::without(columns, sign));
        let columns = columns.as_deref();
        let (plan, partial) = if is_partial(settings, table, columns) {
            let plan = InsertPlan::partial(schema, columns, now, &rules)?;
            let (plan, columns) = plan.completing(completion, table).of_partial_rows()?;
            (plan, Some(columns))
        } else {
            check_sequence(table, columns)?;
            let plan = InsertPlan::new(schema, columns, now, &rules)?;
            (plan.completing(completion, table), None)
        };
        let plan = plan.computing(defaults).filtering(filter_ratio.is_some());
        let plan = plan.generating(into.counter(), settings.id_rules);
        let mut plan = plan.dividing(table, on_existing == OnExisting::Skip);
        if let Some(sign) = sign {
            plan = plan.with_sign(sign);
        }
        let groups = table.properties.is_light();
        Ok(Self {
            as_of,
            plan,
            rules,
            groups,
            filter_ratio,
            on_existing,
            partial,
            is_beside: false,
            updating: None,
            into,
            through: None,
        })
    }

    /// Takes rows of these partitions only.
    ///
    /// # Errors
    /// 1735 and 1747 for partitions that there are none.
    pub fn only(&mut self, partitions: &[String]) -> Result<()> {
        self.plan.only(self.into.table(), partitions)
    }

    /// Whether the catalog and the session's settings are unchanged since it was resolved.
    pub fn is_current(&self, session: &Session) -> bool {
        self.as_of.is_now(session) && !self.plan.is_of_statement()
    }

    /// Sets what differs from statement to statement: the current time for defaults that depend on
    /// it, and an id that the session has set.
    pub fn begin_statement(&mut self, session: &Session) {
        if self.plan.depends_on_now() {
            self.plan.set_now(session.now_micros(), &self.rules);
        }
        self.plan.force_id(session.forced_id);
    }
}

/// Whether an INSERT of these columns keeps the others of rows that are stored.
pub fn is_partial<N: AsRef<str>>(
    settings: &Settings,
    table: &Table,
    columns: Option<&[N]>,
) -> bool {
    settings.partial_update
        && table.key_model == KeyModel::Unique
        && columns.is_some_and(|columns| lacks_any(table.schema(), columns))
}

/// Whether rows with these columns lack one that users see.
fn lacks_any<N: AsRef<str>>(schema: &TableSchema, columns: &[N]) -> bool {
    let is_given = |name: &str| columns.iter().any(|one| one.as_ref().eq_ignore_ascii_case(name));
    schema.shown().iter().any(|column| column.generated.is_none() && !is_given(&column.name))
}

/// Refuses rows that do not say where they stand among those of their key, where a hidden column
/// says so.
///
/// # Errors
/// In the words of Doris.
pub fn check_sequence<N: AsRef<str>>(table: &Table, columns: Option<&[N]>) -> Result<()> {
    let is_sequence = |name: &N| name.as_ref().eq_ignore_ascii_case(SEQUENCE_COLUMN);
    let is_given = columns.is_some_and(|columns| columns.iter().any(is_sequence));
    if table.schema().hidden_sequence().is_some() && !is_given {
        bail!(
            WrongArguments,
            "Table {} has sequence column, need to specify the sequence column: INSERT names \
             {SEQUENCE_COLUMN} among its columns, a load has it in header \
             function_column.sequence_col",
            table.name
        );
    }
    Ok(())
}

/// Checks that it is known which rows have the key of another.
///
/// # Errors
/// `NotSupported` where it is not.
pub fn check_existing(table: &Table, on_existing: OnExisting) -> Result<()> {
    let statement = match on_existing {
        OnExisting::Refuse | OnExisting::Overwrite => return Ok(()),
        OnExisting::Skip => "INSERT IGNORE",
        OnExisting::Replace => "REPLACE",
    };
    let name = &table.name;
    if on_existing == OnExisting::Skip && table.key_model == KeyModel::Unique {
        bail!(
            NotSupported,
            "{statement} is not supported for table '{name}' with a UNIQUE KEY, where the last row \
             of a key counts: leave IGNORE out"
        );
    }
    if let Some(key) = table.unenforced_key() {
        bail!(
            NotSupported,
            "{statement} is not supported for table '{name}', whose key '{}' is not enforced: use \
             INSERT",
            key.name
        );
    }
    Ok(())
}

/// Resolves `INSERT INTO [database.]table [(columns)]` for this session.
///
/// # Errors
/// Unknown names, missing privileges, columns without a value.
pub fn resolve<N: AsRef<str>>(
    session: &Session,
    database: Option<&str>,
    table: &str,
    columns: Option<&[N]>,
    on_existing: OnExisting,
) -> Result<Target> {
    let as_of = AsOf::now(session);
    let database = session.database_of(database)?;
    session.authorize_columns(Privilege::Insert, database, table)?;
    if on_existing == OnExisting::Replace || names_sign(columns) {
        session.authorize_use(Privilege::Delete, database, table)?;
    }
    if let Some(target) = through::target(session, (database, table), columns, on_existing)? {
        return Ok(target);
    }
    let into = session.target(database, table)?;
    session.check_replaces(into.table(), on_existing)?;
    let place = (database, table);
    match columns {
        Some(named) => {
            session.check_columns(Privilege::Insert, place, named.iter().map(AsRef::as_ref))?;
        }
        None => {
            session.check_columns(Privilege::Insert, place, into.schema().shown_names())?;
        }
    }
    Target::new(&session.shared, &session.settings, as_of, into, columns, on_existing)
}

/// The result of an INSERT.
#[derive(Debug)]
pub struct Done {
    /// Rows inserted.
    pub rows: u64,
    /// The length in bytes of the statement in the text.
    pub consumed: usize,
    pub shape: InsertShape,
    /// Of the rows in its text, which may not all be inserted.
    pub form: Rows,
}

impl Done {
    /// Of a prepared one, whose text is its shape.
    pub fn of(rows: u64, consumed: usize) -> Self {
        Self { rows, consumed, shape: InsertShape::Unknown, form: Rows::One }
    }
}

/// Runs the INSERT of literals at the beginning of `sql` and sets the session's `info`. `None` when
/// it is any other statement, or when another statement follows and the client may not send several
/// (`multi`); the planner handles these.
///
/// # Errors
/// Names, privileges, values, memory: the statement had no effect then.
pub async fn text(
    session: &mut Session,
    cache: &mut InsertCache,
    sql: &[u8],
    multi: bool,
) -> Result<Option<Done>> {
    if let Some(CachedHead { text, target, hint }) = cache.find(session, sql) {
        let hint = hint.as_deref();
        let values = Values { sql, at: text.len(), multi, label: None, hint };
        return values.insert(session, target).await;
    }
    match Hinted::of(sql) {
        Some(hint) if hint.changes_session() => {
            session.begin_hint(&hint);
            let done = first(session, cache, sql, multi, Some(hint)).await;
            session.end_statement();
            done
        }
        hint => first(session, cache, sql, multi, hint).await,
    }
}

/// As [`text`], for a head that is not cached.
async fn first(
    session: &mut Session,
    cache: &mut InsertCache,
    sql: &[u8],
    multi: bool,
    hint: Option<Hinted>,
) -> Result<Option<Done>> {
    let Some(head) = parse_head(sql, session.settings.dialect) else { return Ok(None) };
    let (database, columns) = (head.database.as_deref(), head.columns.as_deref());
    let mut target = resolve(session, database, &head.table, columns, head.on_existing)?;
    let (at, label) = (head.values_at, head.label.as_deref());
    let values = Values { sql, at, multi, label, hint: hint.as_ref() };
    let done = values.insert(session, &mut target).await;
    match (label, &done) {
        (None, _) => cache.put(&sql[..at], target, hint),
        (Some(label), Err(error)) => note_failed(session, (database, &head.table), label, error),
        (Some(_), Ok(_)) => {}
    }
    done
}

/// The text of an INSERT, whose rows begin `at` an offset.
struct Values<'a> {
    sql: &'a [u8],
    at: usize,
    multi: bool,
    label: Option<&'a str>,
    hint: Option<&'a Hinted>,
}

impl Values<'_> {
    async fn insert(self, session: &mut Session, target: &mut Target) -> Result<Option<Done>> {
        let text = &self.sql[self.at..];
        session.diagnostics.clear();
        target.begin_statement(session);
        let scanned = match self.scan(session, target).await {
            Ok((scanned, Some(updating))) => {
                target.updating = Some(Arc::clone(&updating));
                let done = upsert::insert_or_update(session, target, &self, (scanned, updating));
                return done.await.map(Some);
            }
            Ok((scanned, None))
                if self.multi || text[scanned.consumed..].trim_ascii().is_empty() =>
            {
                scanned
            }
            Ok(_) | Err(NoRows::NotLiteral) => return Ok(None),
            Err(NoRows::Bad(error)) => return Err(error),
        };
        session.count_update()?;
        let consumed = self.at + scanned.consumed;
        let form = Rows::of(scanned.encoded.rows, consumed);
        let shape =
            if scanned.is_plain { InsertShape::Head(self.at) } else { InsertShape::Unknown };
        encoded(session, target, scanned.encoded)?;
        if let Some(hint) = self.hint {
            session.tell_hint(hint);
        }
        let grouping = match self.label {
            None => Grouping::Shared,
            Some(label) => Grouping::labelled(session, target, label).await?,
        };
        let rows = load(session, target, grouping).await?;
        Ok(Some(Done { rows, consumed, shape, form }))
    }

    /// Reads the rows into the session's buffer, and what stored rows get that have their keys.
    async fn scan(
        &self,
        session: &mut Session,
        target: &Target,
    ) -> std::result::Result<(Scanned, Option<Arc<Updating>>), NoRows> {
        let mut buffer = std::mem::take(&mut session.buffer);
        let scanned = self.scan_into(session, target, buffer.begin()).await;
        session.buffer = buffer;
        scanned
    }

    /// As [`Self::scan`]; many rows in pieces, between which the thread serves other connections.
    async fn scan_into(
        &self,
        session: &Session,
        target: &Target,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(Scanned, Option<Arc<Updating>>), NoRows> {
        let policy = session.settings.batch;
        let policy = self.hint.map_or(policy, |hint| hint.batch(policy));
        let (text, dialect) = (&self.sql[self.at..], session.settings.dialect);
        let (plan, rules) = (&target.plan, &target.rules);
        let mut scan = RowScan::new(text, plan, rules, dialect, out).before_tail();
        match policy.piece(self.sql.len()) {
            None => _ = scan.rows(usize::MAX)?,
            Some(piece) => {
                let metrics = session.shared.metrics();
                while !scan.rows(piece)? {
                    metrics.insert_pieces.inc();
                    tokio::task::yield_now().await;
                }
                metrics.insert_pieces.inc();
            }
        }
        // Before ids are taken: the planner would take others.
        let updating = match scan.tail() {
            None => None,
            Some(at) => Some(Updating::of(session, target, self, at).ok_or(NoRows::NotLiteral)?),
        };
        Ok((scan.finish()?, updating))
    }
}

/// Called when the rows of VALUES are in the session's buffer: converts what was adjusted in them
/// to warnings, see [`warn`]. NULL in a NOT NULL column fails a statement of a single row in every
/// mode, as in MySQL, which adjusts it only in multi-row statements and beside IGNORE.
///
/// # Errors
/// 1048 for that, and those of [`warn`].
pub fn encoded(session: &mut Session, target: &Target, done: Encoded) -> Result<()> {
    let Encoded { rows, warnings, ids, deletes, .. } = done;
    const NOT_NULL: u16 = ErrorCode::NotNull.errno();
    let null = warnings.first.iter().find(|(errno, _)| *errno == NOT_NULL);
    let is_alone = rows == 1 && warnings.filtered == 0 && target.on_existing != OnExisting::Skip;
    if let (true, Some((_, message))) = (is_alone, null) {
        bail!(NotNull, "{message}");
    }
    session.buffer.count(rows)?;
    session.buffer.use_ids(ids);
    session.buffer.mark(&deletes);
    session.filtered = warnings.filtered;
    if warnings.count == 0 {
        session.left_out = None;
        return Ok(());
    }
    warn(session, target, rows as u64, warnings)
}

/// Adds warnings to those of the session.
pub fn told(session: &mut Session, warnings: Warnings) {
    let kept = warnings.first.len() as u64;
    for (errno, message) in warnings.first {
        session.diagnostics.push("Warning", errno, message);
    }
    session.diagnostics.count += warnings.count.saturating_sub(kept);
}

/// Loads the rows in the session's buffer into the open transaction or the log. On return the load
/// cannot fail any more, and the reply may be sent once the log is durable up to `session.acked`.
///
/// # Errors
/// No memory or log room in time, or the table was dropped; nothing was loaded then.
pub async fn load(session: &mut Session, target: &Target, grouping: Grouping) -> Result<u64> {
    let (engine, settings) = (Arc::clone(&session.shared.engine), &session.settings);
    let own = session.transactions.writable(&engine, settings)?.cloned();
    let rows = u64::from(session.buffer.rows());
    if rows == 0 {
        return Ok(nothing(session));
    }
    if let Some(columns) = &target.partial {
        return partial::update(session, target, columns, grouping).await;
    }
    let again = grouping.again();
    let why_alone = grouping.why_alone(own.is_some(), target);
    let shares = own.is_none() && why_alone.is_none() && !matches!(grouping, Grouping::OfNewTable);
    let destination = grouping.destination(own.as_ref(), settings, target)?;
    note_alone(session, target, why_alone);
    let mut loaded = commit(session, &engine, target, destination).await;
    while let (Err(error), Some(again)) = (&loaded, &again) {
        // A TRUNCATE came between the ids of the rows and the rows.
        if error.code() != ErrorCode::Deadlock || !target.plan.renew_ids(&mut session.buffer)? {
            break;
        }
        let destination = again.again().expect("it is tried again");
        let destination = destination.destination(own.as_ref(), &session.settings, target)?;
        loaded = commit(session, &engine, target, destination).await;
    }
    let (ids, loaded) = loaded?;
    if shares && loaded.txn.is_some() && loaded.mode == GroupCommitMode::Off {
        note_alone(session, target, Some("it is larger than wal_load_bytes_max"));
    }
    Ok(report(session, target, loaded, (rows, ids)).await)
}

/// Commits the rows in the session's buffer; returns their ids, too.
async fn commit(
    session: &mut Session,
    engine: &Engine,
    target: &Target,
    destination: Destination<'_>,
) -> Result<(Option<UsedIds>, Loaded)> {
    let settings = &session.settings;
    let patience = WaitLimit::For(settings.insert_timeout.time());
    let ids = session.buffer.ids();
    let load = engine.load(&target.into, destination, patience);
    let load = load.with_keys(key_rules(session, target.on_existing));
    let loaded = if target.into.table().key_model == KeyModel::Primary {
        // It may wait for keys that others hold.
        session.statement_deadline = StatementDeadline::of_insert(settings, &**engine.clock());
        let mut buffer = std::mem::take(&mut session.buffer);
        let loaded = bounded(session, load.commit(&mut buffer)).await;
        session.buffer = buffer;
        loaded?
    } else {
        load.commit(&mut session.buffer).await?
    };
    Ok((ids, loaded))
}

/// How a statement of the session treats rows whose key exists.
pub fn key_rules(session: &Session, on_existing: OnExisting) -> KeyRules {
    let lock_wait = session.settings.lock_wait;
    KeyRules { on_existing, lock_wait, connection: session.process.id }
}

/// The result of a statement without rows.
pub fn nothing(session: &mut Session) -> u64 {
    session.note_left_out(None);
    session.info.clear();
    session.row_count = 0;
    0
}

/// Records the result of a load for its reply and for SHOW LAST INSERT.
pub async fn report(
    session: &mut Session,
    target: &Target,
    mut loaded: Loaded,
    (rows, ids): (u64, Option<UsedIds>),
) -> u64 {
    let keys = std::mem::take(&mut loaded.keys);
    let told = keys.messages.len() as u64;
    for message in keys.messages {
        session.diagnostics.push("Warning", ErrorCode::DuplicateKey.errno(), message);
    }
    session.diagnostics.count += keys.skipped - told;
    let rows = rows - keys.skipped;
    let affected = rows + keys.replaced;
    let is_labelled = loaded.given.is_some() && loaded.txn.is_some();
    if !target.is_beside && (is_labelled || session.left_out.is_some()) {
        note_labelled(session, target.into.table(), &loaded, rows);
    }
    if affected > 0 && !target.into.table().hides_ids() && target.tells_ids() {
        session.note_ids(ids);
    }
    let is_published = session.settings.freshness == Freshness::Published;
    if loaded.mode == GroupCommitMode::Sync && is_published {
        loaded.lsn = session.shared.engine.end_of_group(&target.into, &loaded).await;
    }
    session.acked = session.acked.max(loaded.lsn);
    session.row_count = i64::try_from(affected).unwrap_or(i64::MAX);
    tell(session, loaded, (target.into.id(), rows));
    affected
}

/// Says in the reply what became of rows of a table, and in SHOW LAST INSERT.
pub fn tell(session: &mut Session, loaded: Loaded, (table, rows): (TableId, u64)) {
    let has_nothing = loaded.txn.is_none() && loaded.given.is_none();
    match has_nothing && session.transactions.open().is_none() {
        // Nothing was written, so that there is no label.
        true => session.info.clear(),
        false => session.info.describe(&loaded, session.process.id),
    }
    let filtered = session.filtered;
    let transaction = session.transactions.number();
    let inserted = Inserted { rows, filtered };
    session.note_insert(LastInsert { loaded, transaction, table, inserted });
}
