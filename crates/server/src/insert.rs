//! INSERT of literals and of parameters: from the bytes of a packet to a place in the log,
//! without a tree, a planner, or a thread switch.
//!
//! Head of the statement -> cached [`Target`] -> rows into the session's buffer -> [`load`]. What
//! the scanner does not know goes to the planner and comes back here with rows.

use freshet_base::{ErrorCode, Result, bail};
use freshet_ingest::decode::values::{NoRows, Scanned, parse_head, scan_rows};
use freshet_ingest::decode::{InsertPlan, Warnings};
use freshet_ingest::{Destination, Engine, LoadTarget, Loaded, OwnRows, WaitLimit};
use freshet_meta::{Claim, LabelKind, Object, Privilege};
use freshet_schema::{GroupCommitMode, Rules};
use freshet_storage::delta::Freshness;

use crate::session::{LastInsert, Session};
use crate::settings::Settings;

/// Where rows of one statement shape go.
pub struct Target {
    generation: u64,
    settings: u64,
    /// The table.
    pub into: LoadTarget,
    /// Which value is for which column.
    pub plan: InsertPlan,
    /// How values are read.
    pub rules: Rules,
    /// Whether its loads may share groups.
    pub groups: bool,
    /// Which part of a statement's rows may be left out; `None` where every bad row fails it.
    pub filter_ratio: Option<f64>,
}

impl Target {
    /// A target under the catalog of `generation`, for a session with these settings.
    ///
    /// # Errors
    /// Columns without a value.
    pub fn new<N: AsRef<str>>(
        engine: &Engine,
        settings: &Settings,
        generation: u64,
        into: LoadTarget,
        columns: Option<&[N]>,
    ) -> Result<Self> {
        let table = into.table();
        let rules = *settings.rules(table.form);
        let filter_ratio = settings.filter_ratio(table.form);
        let plan = InsertPlan::new(into.schema(), columns, engine.clock().wall_micros(), &rules)?;
        let plan = plan.filtering(filter_ratio.is_some());
        let heavy = |(name, value): &(String, String)| {
            name == "light_schema_change" && value.eq_ignore_ascii_case("false")
        };
        let groups = !table.properties.others.iter().any(heavy);
        let settings = settings.version;
        Ok(Self { generation, settings, plan, rules, groups, filter_ratio, into })
    }

    /// Whether names, grants and settings are still those of when it was resolved.
    pub fn is_current(&self, engine: &Engine, settings: &Settings) -> bool {
        self.generation == engine.catalog_generation() && self.settings == settings.version
    }

    /// Reads the clock for defaults that depend on it.
    pub fn begin_statement(&mut self, engine: &Engine) {
        if self.plan.depends_on_now() {
            self.plan.set_now(engine.clock().wall_micros(), &self.rules);
        }
    }
}

/// The target of `INSERT INTO [database.]table [(columns)]` for this session.
///
/// # Errors
/// Unknown names, missing privileges, columns without a value.
pub fn resolve<N: AsRef<str>>(
    session: &Session,
    database: Option<&str>,
    table: &str,
    columns: Option<&[N]>,
) -> Result<Target> {
    let engine = &session.shared.engine;
    // Read first: what changes from here on makes the target stale, not wrong.
    let generation = engine.catalog_generation();
    let database = session.database_of(database)?;
    session.authorize(Privilege::Insert, Object::Table(database, table))?;
    let into = engine.target(database, table)?;
    Target::new(engine, &session.settings, generation, into, columns)
}

/// Beginnings of statements that a connection remembers.
const HEADS_MAX: usize = 8;
/// Longest beginning that is remembered.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Where the INSERTs go that a connection sends as text, the one that came last first.
#[derive(Default)]
pub struct InsertCache {
    heads: Vec<CachedHead>,
}

struct CachedHead {
    /// From INSERT to VALUES.
    text: Box<[u8]>,
    target: Box<Target>,
}

impl InsertCache {
    /// The target of a statement whose beginning is known, and where that ends.
    fn find(&mut self, session: &Session, sql: &[u8]) -> Option<(&mut Target, usize)> {
        let at = self.heads.iter().position(|head| {
            let rest = sql.strip_prefix(&*head.text);
            rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
        })?;
        self.heads[..=at].rotate_right(1);
        if !self.heads[0].target.is_current(&session.shared.engine, &session.settings) {
            self.heads.remove(0);
            return None;
        }
        let CachedHead { text, target } = &mut self.heads[0];
        Some((target, text.len()))
    }

    fn put(&mut self, head: &[u8], target: Target) {
        if head.len() <= HEAD_BYTES_MAX {
            self.heads.truncate(HEADS_MAX - 1);
            self.heads.insert(0, CachedHead { text: head.into(), target: Box::new(target) });
        }
    }
}

/// What an INSERT did.
#[derive(Debug)]
pub struct Done {
    /// Rows loaded.
    pub rows: u64,
    /// Bytes of the text that the statement took.
    pub consumed: usize,
}

/// Runs an INSERT of literals that `sql` begins with, the session's `info` telling what became
/// of it. `None` when it is anything else, which is the planner's; another statement behind it
/// is, unless the client may send several (`multi`).
///
/// # Errors
/// Names, privileges, values, room: the statement did nothing then.
pub async fn text(
    session: &mut Session,
    cache: &mut InsertCache,
    sql: &[u8],
    multi: bool,
) -> Result<Option<Done>> {
    if let Some((target, head_bytes)) = cache.find(session, sql) {
        return values(session, target, sql, head_bytes, multi, None).await;
    }
    let Some(head) = parse_head(sql, session.settings.dialect) else { return Ok(None) };
    let (database, columns) = (head.database.as_deref(), head.columns.as_deref());
    let mut target = resolve(session, database, &head.table, columns)?;
    let label = head.label.as_deref();
    let done = values(session, &mut target, sql, head.values_at, multi, label).await;
    if label.is_none() {
        cache.put(&sql[..head.values_at], target);
    }
    done
}

/// Runs an INSERT whose rows stand behind `values_at`.
async fn values(
    session: &mut Session,
    target: &mut Target,
    sql: &[u8],
    values_at: usize,
    multi: bool,
    label: Option<&str>,
) -> Result<Option<Done>> {
    let text = &sql[values_at..];
    session.diagnostics.clear();
    target.begin_statement(&session.shared.engine);
    let (dialect, out) = (session.settings.dialect, session.buffer.begin());
    let Scanned { rows, consumed, warnings } =
        match scan_rows(text, &target.plan, &target.rules, dialect, out) {
            Ok(scanned) if multi || text[scanned.consumed..].trim_ascii().is_empty() => scanned,
            Ok(_) | Err(NoRows::NotLiteral) => return Ok(None),
            Err(NoRows::Bad(error)) => return Err(error),
        };
    encoded(session, target, rows, warnings)?;
    let grouping = match label {
        None => Grouping::Shared,
        Some(label) => Grouping::labelled(session, target, label).await?,
    };
    let rows = load(session, target, grouping).await?;
    Ok(Some(Done { rows, consumed: values_at + consumed }))
}

/// The rows of VALUES stand in the session's buffer: what was changed in them becomes warnings,
/// as of [`warn`]. The only row of a statement must not have NULL for a column that takes none,
/// whatever the mode: MySQL lets only rows among others pass.
///
/// # Errors
/// 1048 for that, and as [`warn`].
pub fn encoded(
    session: &mut Session,
    target: &Target,
    rows: usize,
    warnings: Warnings,
) -> Result<()> {
    const NOT_NULL: u16 = ErrorCode::NotNull.errno();
    let null = warnings.first.iter().find(|(errno, _)| *errno == NOT_NULL);
    if let (1, 0, Some((_, message))) = (rows, warnings.filtered, null) {
        bail!(NotNull, "{message}");
    }
    session.buffer.count(rows)?;
    session.filtered = warnings.filtered;
    if warnings.count == 0 {
        return Ok(());
    }
    warn(session, target, rows as u64, warnings)
}

/// What a lax mode changed and left out becomes warnings, once all rows of a statement are seen:
/// `rows` of them were taken.
///
/// # Errors
/// 1105 when more were left out than the session allows; the statement does nothing then.
pub fn warn(session: &mut Session, target: &Target, rows: u64, warnings: Warnings) -> Result<()> {
    let (filtered, total) = (warnings.filtered, rows + warnings.filtered);
    if filtered > 0 {
        session.shared.metrics().rows_rejected.inc_by(filtered);
    }
    if let Some(ratio) = target.filter_ratio
        && filtered as f64 > ratio * total as f64
    {
        let first = warnings.first.first().map_or("", |(_, message)| message.as_str());
        bail!(
            TooManyFiltered,
            "Insert has too many filtered data {filtered}/{total} insert_max_filter_ratio is \
             {ratio:.6}. first: {first}"
        );
    }
    let kept = warnings.first.len() as u64;
    for (errno, message) in warnings.first {
        session.diagnostics.push("Warning", errno, message);
    }
    session.diagnostics.count += warnings.count.saturating_sub(kept);
    session.filtered = filtered;
    Ok(())
}

/// Which loads an INSERT shares its group with.
pub enum Grouping {
    /// Those of the session's group commit mode.
    Shared,
    /// None, whatever the mode: what the mode leaves out.
    Alone,
    /// None, under a label that the client gave.
    Labelled(Claim),
    /// None, and no transaction takes it: the first rows of a table that is made.
    First,
}

impl Grouping {
    /// That of an INSERT under a label of a client, which is claimed.
    ///
    /// # Errors
    /// A label that is none, or is used.
    pub async fn labelled(session: &Session, target: &Target, label: &str) -> Result<Self> {
        let engine = &session.shared.engine;
        let claimed = engine.claim_label(target.into.db(), label, LabelKind::Statement).await?;
        Ok(Self::Labelled(claimed.or_refuse()?))
    }

    /// Where the rows go, in a transaction or without one.
    ///
    /// # Errors
    /// A label in a transaction that has another one.
    pub fn destination<'a>(
        self,
        transaction: Option<&'a OwnRows>,
        settings: &Settings,
        target: &Target,
    ) -> Result<Destination<'a>> {
        Ok(match (self, transaction) {
            (Self::Labelled(claim), Some(own)) if claim.label() != own.label() => {
                bail!(InTransaction, "Transaction insert expect label {}", own.label())
            }
            (_, Some(own)) => Destination::Transaction(own),
            (Self::Shared, None) if target.groups => Destination::Group(settings.group_commit),
            (Self::Labelled(claim), None) => Destination::Label(claim),
            (_, None) => Destination::Group(GroupCommitMode::Off),
        })
    }
}

/// Loads the rows of the session's buffer: into the open transaction, or into the log. On
/// return nothing can fail any more, and the reply may be sent once `session.acked` is durable.
///
/// # Errors
/// No room in time, a table dropped meanwhile; nothing happened then.
pub async fn load(session: &mut Session, target: &Target, grouping: Grouping) -> Result<u64> {
    let (engine, settings) = (&session.shared.engine, &session.settings);
    let own = session.transactions.writable(engine, settings)?;
    let rows = u64::from(session.buffer.rows());
    if rows == 0 {
        return Ok(nothing(session));
    }
    let destination = grouping.destination(own, settings, target)?;
    let patience = WaitLimit::For(settings.insert_timeout.time());
    let load = engine.load(&target.into, destination, patience);
    let loaded = load.commit(&mut session.buffer).await?;
    Ok(report(session, target, loaded, rows).await)
}

/// A statement without rows loads nothing.
pub fn nothing(session: &mut Session) -> u64 {
    session.info.clear();
    session.row_count = 0;
    0
}

/// Notes what became of a load, for its reply and for those who ask later.
pub async fn report(session: &mut Session, target: &Target, mut loaded: Loaded, rows: u64) -> u64 {
    let is_published = session.settings.freshness == Freshness::Published;
    if loaded.mode == GroupCommitMode::Sync && is_published {
        loaded.lsn = session.shared.engine.end_of_group(&target.into, &loaded).await;
    }
    session.acked = session.acked.max(loaded.lsn);
    session.info.describe(&loaded, session.process.id);
    session.row_count = i64::try_from(rows).unwrap_or(i64::MAX);
    if loaded.txn.is_some() {
        let (table, filtered) = (target.into.id(), session.filtered);
        session.last_insert = Some(LastInsert { loaded, table, rows, filtered });
    }
    rows
}
