//! INSERT of literals and of parameters: from the bytes of a packet to a place in the log,
//! without a tree, a planner, or a thread switch.
//!
//! The road: head of the statement -> cached [`Target`] -> rows into the session's buffer ->
//! [`load`]. What the scanner does not know goes to the planner and comes back here with rows.

use std::fmt::Write;
use std::sync::Arc;

use freshet_base::clock::Deadline;
use freshet_base::{ErrorCode, Result, TxnId, bail};
use freshet_ingest::append::Load;
use freshet_ingest::decode::values::{Head, NoRows, Scanned, parse_head, scan_rows};
use freshet_ingest::decode::{InsertPlan, Warnings};
use freshet_ingest::{Appended, Bulk, LabelClaim, TableState, names};
use freshet_meta::{ClaimOutcome, LabelKind, Object, Privilege};
use freshet_schema::{GroupCommitMode, Rules, Table};
use freshet_storage::delta::Freshness;

use crate::session::{LastInsert, Session};
use crate::transaction;

/// Statement heads that a session remembers.
const HEADS_MAX: usize = 8;
/// Longest head that is remembered.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Where rows of one statement shape go, looked up once.
pub struct Target {
    generation: u64,
    settings: u64,
    /// The table inside the engine.
    pub state: Arc<TableState>,
    /// Its definition.
    pub table: Arc<Table>,
    /// `database.table`.
    pub name: String,
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
    /// The target of `INSERT INTO [database.]table [(columns)]` for this session.
    ///
    /// # Errors
    /// Unknown names, missing privileges, columns without a value.
    pub fn resolve<N: AsRef<str>>(
        session: &Session,
        database: Option<&str>,
        table: &str,
        columns: Option<&[N]>,
    ) -> Result<Self> {
        let engine = &session.shared.engine;
        // Read first: what changes from here on makes the target stale, not wrong.
        let generation = engine.catalog_generation();
        let database = session.database_of(database)?;
        session.authorize(Privilege::Insert, Object::Table(database, table))?;
        let (state, table) = engine.resolve(database, table)?;
        Self::of(session, generation, database, (state, table), columns)
    }

    /// The target of a table that is at hand.
    ///
    /// # Errors
    /// Columns without a value.
    pub fn of<N: AsRef<str>>(
        session: &Session,
        generation: u64,
        database: &str,
        (state, table): (Arc<TableState>, Arc<Table>),
        columns: Option<&[N]>,
    ) -> Result<Self> {
        let rules = *session.settings.rules(table.form);
        let filter_ratio = session.settings.filter_ratio(table.form);
        let now = session.shared.engine.clock().wall_micros();
        let plan = InsertPlan::new(table.schema(), columns, now, &rules)?;
        let plan = plan.filtering(filter_ratio.is_some());
        let others = &table.properties.others;
        let heavy = |(name, value): &(String, String)| {
            name == "light_schema_change" && value.eq_ignore_ascii_case("false")
        };
        let groups = !others.iter().any(heavy);
        let name = format!("{database}.{}", table.name);
        let settings = session.settings.version;
        Ok(Self { generation, settings, state, name, plan, rules, groups, filter_ratio, table })
    }

    /// Whether names, grants and settings are still those of when it was resolved.
    pub fn is_current(&self, session: &Session) -> bool {
        self.generation == session.shared.engine.catalog_generation()
            && self.settings == session.settings.version
    }

    /// Reads the clock for defaults that depend on it.
    pub fn begin_statement(&mut self, now_micros: i64) {
        if self.plan.depends_on_now() {
            self.plan.set_now(now_micros, &self.rules);
        }
    }
}

/// Targets by the heads of statements, the one used last first.
#[derive(Default)]
pub struct InsertCache {
    heads: Vec<CachedHead>,
}

struct CachedHead {
    /// From INSERT to VALUES.
    head: Box<[u8]>,
    target: Box<Target>,
}

impl InsertCache {
    /// Takes the target of the statement out; it is put back after use.
    fn take(&mut self, sql: &[u8]) -> Option<(Box<[u8]>, Box<Target>)> {
        let at = self.heads.iter().position(|cached| {
            let rest = sql.strip_prefix(&*cached.head);
            rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
        })?;
        let cached = self.heads.remove(at);
        Some((cached.head, cached.target))
    }

    fn put(&mut self, head: Box<[u8]>, target: Box<Target>) {
        self.heads.truncate(HEADS_MAX - 1);
        self.heads.insert(0, CachedHead { head, target });
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
pub async fn text(session: &mut Session, sql: &[u8], multi: bool) -> Result<Option<Done>> {
    let (head, mut target) = match session.inserts.take(sql) {
        Some(cached) if cached.1.is_current(session) => cached,
        _ => {
            let Some(parsed) = parse_head(sql, session.settings.dialect) else { return Ok(None) };
            if parsed.label.is_some() {
                return labelled(session, sql, &parsed, multi).await;
            }
            let target = Target::resolve(
                session,
                parsed.database.as_deref(),
                &parsed.table,
                parsed.columns.as_deref(),
            )?;
            (sql[..parsed.values_at].into(), Box::new(target))
        }
    };
    let encoded = encode(session, &mut target, &sql[head.len()..], multi);
    let done = match encoded {
        Ok(Some(scanned)) => {
            let consumed = head.len() + scanned.consumed;
            let rows = scanned.rows;
            match settle(session, &target, rows as u64, scanned.warnings) {
                Ok(()) => load(session, &target, rows, Reply::Grouped)
                    .await
                    .map(|rows| Some(Done { rows, consumed })),
                Err(error) => Err(error),
            }
        }
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if head.len() <= HEAD_BYTES_MAX {
        session.inserts.put(head, target);
    }
    done
}

/// The same with a label that the client gave.
async fn labelled(
    session: &mut Session,
    sql: &[u8],
    head: &Head<'_>,
    multi: bool,
) -> Result<Option<Done>> {
    let database = head.database.as_deref();
    let mut target =
        Box::new(Target::resolve(session, database, &head.table, head.columns.as_deref())?);
    let Some(scanned) = encode(session, &mut target, &sql[head.values_at..], multi)? else {
        return Ok(None);
    };
    settle(session, &target, scanned.rows as u64, scanned.warnings)?;
    let label = head.label.as_deref().unwrap_or_default();
    let claim = claim(session, &target, label).await?;
    let consumed = head.values_at + scanned.consumed;
    let rows = load(session, &target, scanned.rows, Reply::Labelled(claim)).await?;
    Ok(Some(Done { rows, consumed }))
}

/// Encodes the rows behind VALUES into the session's buffer.
fn encode(
    session: &mut Session,
    target: &mut Target,
    text: &[u8],
    multi: bool,
) -> Result<Option<Scanned>> {
    session.diagnostics.clear();
    target.begin_statement(session.shared.engine.clock().wall_micros());
    let dialect = session.settings.dialect;
    let out = session.buffer.begin();
    match scan_rows(text, &target.plan, &target.rules, dialect, out) {
        Ok(scanned) if multi || text[scanned.consumed..].trim_ascii().is_empty() => {
            Ok(Some(scanned))
        }
        Ok(_) | Err(NoRows::NotLiteral) => Ok(None),
        Err(NoRows::Bad(error)) => Err(error),
    }
}

/// The same as [`settle_query`] for VALUES, where the only row of a statement must not have NULL
/// for a column that takes none, whatever the mode: MySQL lets only rows among others pass.
///
/// # Errors
/// 1048 for that, and as [`settle_query`].
pub fn settle(session: &mut Session, target: &Target, rows: u64, warnings: Warnings) -> Result<()> {
    const NOT_NULL: u16 = ErrorCode::NotNull.errno();
    let null = warnings.first.iter().find(|(errno, _)| *errno == NOT_NULL);
    if let (1, 0, Some((_, message))) = (rows, warnings.filtered, null) {
        bail!(NotNull, "{message}");
    }
    settle_query(session, target, rows, warnings)
}

/// What a lax mode changed and left out becomes warnings, once all rows of a statement are seen:
/// `rows` of them were taken.
///
/// # Errors
/// 1105 when more were left out than the session allows; the statement does nothing then.
pub fn settle_query(
    session: &mut Session,
    target: &Target,
    rows: u64,
    warnings: Warnings,
) -> Result<()> {
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

/// Claims a label that a client gave.
///
/// # Errors
/// A label that is none, or is used: the refusal waits until what it tells of is durable.
pub async fn claim(session: &Session, target: &Target, label: &str) -> Result<LabelClaim> {
    let engine = &session.shared.engine;
    let db = target.table.db;
    match engine.meta().labels().claim(db, label, LabelKind::Statement, None)? {
        ClaimOutcome::New(claim) => Ok(LabelClaim { db, kind: LabelKind::Statement, claim }),
        ClaimOutcome::Used(used) => {
            if let Some(lsn) = used.lsn {
                engine.horizon().wait(lsn).await;
            }
            Err(used.into())
        }
    }
}

/// Under which name a load is reported.
pub enum Reply {
    /// As the session's group commit mode says.
    Grouped,
    /// As a load of its own, whatever the mode: what the mode leaves out.
    Alone,
    /// As a load of its own, under a label that the client gave.
    Labelled(LabelClaim),
    /// As a load of its own that no transaction takes: the first rows of a table that is made.
    First,
}

impl Reply {
    /// Whether the rows go to the session's transaction.
    pub fn joins_transaction(&self, session: &Session) -> bool {
        session.is_transactional() && !matches!(self, Self::First)
    }
}

/// Loads the `rows` of the session's buffer: into the open transaction, or into the log. On
/// return nothing can fail any more, and the reply may be sent once `session.acked` is durable.
///
/// # Errors
/// No room in time, a table dropped meanwhile; nothing happened then.
pub async fn load(
    session: &mut Session,
    target: &Target,
    rows: usize,
    reply: Reply,
) -> Result<u64> {
    let Ok(count) = u32::try_from(rows) else {
        bail!(OutOfRoom, "a statement may have at most {} rows", u32::MAX)
    };
    if !matches!(reply, Reply::First) {
        transaction::check_writable(session)?;
    }
    if count == 0 {
        session.info.clear();
        session.row_count = 0;
        return Ok(0);
    }
    if reply.joins_transaction(session) {
        return transaction::add(session, target, count, reply).await;
    }
    let (mode, label) = match reply {
        Reply::Grouped if target.groups => (session.settings.group_commit, None),
        Reply::Grouped | Reply::Alone | Reply::First => (GroupCommitMode::Off, None),
        Reply::Labelled(claim) => (GroupCommitMode::Off, Some(claim)),
    };
    let given = label.as_ref().map(|label| label.claim.label().to_owned());
    let (appended, mode) = append(session, target, count, mode, label).await?;
    session.acked = session.acked.max(appended.lsn);
    if mode == GroupCommitMode::Sync && session.settings.freshness == Freshness::Published {
        let ended = target.state.log.lock().wait_end(appended.txn);
        // A sender that is gone went with its table; the rows are durable all the same.
        session.acked = ended.await.map_or(session.acked, |lsn| session.acked.max(lsn));
    }
    tell(session, appended.txn, mode, given.as_deref());
    remember(session, target, appended.txn, mode, given, count.into());
    Ok(u64::from(count))
}

async fn append(
    session: &mut Session,
    target: &Target,
    rows: u32,
    mode: GroupCommitMode,
    label: Option<LabelClaim>,
) -> Result<(Appended, GroupCommitMode)> {
    let engine = &session.shared.engine;
    let bytes = session.buffer.payload_bytes();
    if !engine.takes_record_of(bytes) {
        let appended = append_large(session, target, rows, label).await?;
        return Ok((appended, GroupCommitMode::Off));
    }
    let admitted = match engine.admission().try_admit(bytes) {
        Some(admitted) => admitted,
        None => {
            let patience =
                engine.config().load_patience.min(session.settings.insert_timeout.time());
            engine.admission().admit(bytes, patience).await?
        }
    };
    let schema_version = target.plan.schema().version;
    let load = Load { table: &target.state, schema_version, rows, mode, label };
    let appended = engine.append_rows(load, &mut session.buffer, admitted)?;
    Ok((appended, mode))
}

/// A load that is larger than a record may be goes to files first.
async fn append_large(
    session: &mut Session,
    target: &Target,
    rows: u32,
    label: Option<LabelClaim>,
) -> Result<Appended> {
    let engine = &session.shared.engine;
    let deadline = Deadline::after(&**engine.clock(), engine.config().load_patience);
    let bytes = session.buffer.rows().to_vec();
    session.buffer.begin();
    let permit = engine.admission().memory_until(bytes.len() as u64, deadline).await?;
    let mut bulk = engine.bulk(&target.state, target.plan.schema())?;
    bulk.push(engine, bytes, rows, permit).await?;
    append_files(session, bulk, label).await
}

/// Commits a load whose rows are in files already.
///
/// # Errors
/// As [`load`].
pub async fn load_files(
    session: &mut Session,
    bulk: Bulk,
    reply: Reply,
    rows: u64,
    target: &Target,
) -> Result<u64> {
    let label = match reply {
        Reply::Labelled(claim) => Some(claim),
        Reply::Grouped | Reply::Alone | Reply::First => None,
    };
    let given = label.as_ref().map(|label| label.claim.label().to_owned());
    let appended = append_files(session, bulk, label).await?;
    session.acked = session.acked.max(appended.lsn);
    tell(session, appended.txn, GroupCommitMode::Off, given.as_deref());
    remember(session, target, appended.txn, GroupCommitMode::Off, given, rows);
    Ok(rows)
}

async fn append_files(
    session: &Session,
    bulk: Bulk,
    label: Option<LabelClaim>,
) -> Result<Appended> {
    let engine = &session.shared.engine;
    let deadline = Deadline::after(&**engine.clock(), engine.config().load_patience);
    let began_in = bulk.began_in();
    let parts = vec![bulk.finish(engine).await?];
    let room = engine.room_for(&parts, deadline).await?;
    engine.append_parts(parts, &[began_in], label, room)
}

/// Writes what the OK packet says of a load.
fn tell(session: &mut Session, txn: TxnId, mode: GroupCommitMode, label: Option<&str>) {
    if let Some(label) = label {
        let text = format!("{{'label':'{label}', 'status':'VISIBLE', 'txnId':'{txn}'}}");
        return session.info.set(text);
    }
    let connection = session.process.id;
    session.info.say_of(txn, mode, |text| {
        let written = match mode {
            GroupCommitMode::Off => {
                let label = names::load_label(txn);
                write!(text, "{{'label':'{label}', 'status':'VISIBLE', 'txnId':'{txn}'}}")
            }
            GroupCommitMode::Async => {
                let label = names::group_label(txn);
                write!(text, "{{'label':'{label}', 'status':'PREPARE', 'txnId':'{txn}'}}")
            }
            GroupCommitMode::Sync => {
                let (label, query) = (names::group_label(txn), names::query_id(txn, connection));
                write!(
                    text,
                    "{{'label':'{label}', 'status':'PREPARE', 'txnId':'{txn}', \
                     'query_id':'{query}'}}"
                )
            }
        };
        written.expect("writing to a string cannot fail");
    });
}

/// Keeps what SHOW LAST INSERT tells; the text of it is made when it is asked for.
fn remember(
    session: &mut Session,
    target: &Target,
    txn: TxnId,
    mode: GroupCommitMode,
    label: Option<String>,
    rows: u64,
) {
    session.row_count = i64::try_from(rows).unwrap_or(i64::MAX);
    let filtered = session.filtered;
    let table = target.table.id;
    session.last_insert = Some(LastInsert { txn, mode, label, table, rows, filtered });
}
