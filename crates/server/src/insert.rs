//! INSERT of literals and of parameters: from the bytes of a packet to a place in the log,
//! without a tree, a planner, or a thread switch.
//!
//! Head of the statement -> cached [`Target`] -> rows into the session's buffer -> [`load`]. What
//! the scanner does not know goes to the planner and comes back here with rows.

use freshet_base::{ErrorCode, Result, bail};
use freshet_ingest::decode::Warnings;
use freshet_ingest::decode::values::{Head, NoRows, Scanned, parse_head, scan_rows};
use freshet_ingest::{Destination, LabelClaim, Loaded, OwnRows, WaitLimit};
use freshet_meta::{LabelKind, Object, Privilege};
use freshet_schema::GroupCommitMode;
use freshet_storage::delta::Freshness;

use crate::session::{LastInsert, Session};
use crate::settings::Settings;
use crate::target::Target;
use crate::transaction::OpenTransaction;

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
    Target::new(engine, &session.settings, generation, database, into, columns)
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
        Some(cached) if cached.1.is_current(&session.shared.engine, &session.settings) => cached,
        _ => {
            let Some(parsed) = parse_head(sql, session.settings.dialect) else { return Ok(None) };
            if parsed.label.is_some() {
                return labelled(session, sql, &parsed, multi).await;
            }
            (sql[..parsed.values_at].into(), Box::new(resolve_head(session, &parsed)?))
        }
    };
    let done = match encode(session, &mut target, &sql[head.len()..], multi) {
        Ok(Some(consumed)) => {
            let rows = load(session, &target, Grouping::Shared).await;
            rows.map(|rows| Some(Done { rows, consumed: head.len() + consumed }))
        }
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    session.inserts.put(head, target);
    done
}

fn resolve_head(session: &Session, head: &Head<'_>) -> Result<Target> {
    resolve(session, head.database.as_deref(), &head.table, head.columns.as_deref())
}

/// The same with a label that the client gave.
async fn labelled(
    session: &mut Session,
    sql: &[u8],
    head: &Head<'_>,
    multi: bool,
) -> Result<Option<Done>> {
    let mut target = Box::new(resolve_head(session, head)?);
    let Some(consumed) = encode(session, &mut target, &sql[head.values_at..], multi)? else {
        return Ok(None);
    };
    let label = head.label.as_deref().unwrap_or_default();
    let grouping = Grouping::labelled(session, &target, label).await?;
    let rows = load(session, &target, grouping).await?;
    Ok(Some(Done { rows, consumed: head.values_at + consumed }))
}

/// Encodes the rows behind VALUES into the session's buffer; how many bytes of the text they are.
fn encode(
    session: &mut Session,
    target: &mut Target,
    text: &[u8],
    multi: bool,
) -> Result<Option<usize>> {
    session.diagnostics.clear();
    target.begin_statement(session.shared.engine.clock().wall_micros());
    let dialect = session.settings.dialect;
    let out = session.buffer.begin();
    match scan_rows(text, &target.plan, &target.rules, dialect, out) {
        Ok(scanned) if multi || text[scanned.consumed..].trim_ascii().is_empty() => {
            let Scanned { rows, consumed, warnings } = scanned;
            encoded(session, target, rows, warnings)?;
            Ok(Some(consumed))
        }
        Ok(_) | Err(NoRows::NotLiteral) => Ok(None),
        Err(NoRows::Bad(error)) => Err(error),
    }
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
    Labelled(LabelClaim),
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

    /// Whether the rows belong to what a session has open, and follow its rules.
    pub fn is_of_session(&self) -> bool {
        !matches!(self, Self::First)
    }

    /// Where the rows go.
    ///
    /// # Errors
    /// A label in a transaction that has another one.
    pub fn destination<'a>(
        self,
        transaction: Option<&'a OwnRows>,
        settings: &Settings,
        target: &Target,
    ) -> Result<Destination<'a>> {
        if let (true, Some(own)) = (self.is_of_session(), transaction) {
            return match &self {
                Self::Labelled(claim) if claim.text() != own.label() => {
                    bail!(InTransaction, "Transaction insert expect label {}", own.label())
                }
                _ => Ok(Destination::Transaction(own)),
            };
        }
        Ok(match self {
            Self::Shared if target.groups => Destination::Group(settings.group_commit),
            Self::Shared | Self::Alone | Self::First => Destination::Group(GroupCommitMode::Off),
            Self::Labelled(claim) => Destination::Label(claim),
        })
    }
}

/// Loads the rows of the session's buffer: into the open transaction, or into the log. On
/// return nothing can fail any more, and the reply may be sent once `session.acked` is durable.
///
/// # Errors
/// No room in time, a table dropped meanwhile; nothing happened then.
pub async fn load(session: &mut Session, target: &Target, grouping: Grouping) -> Result<u64> {
    session.check_writable()?;
    let rows = u64::from(session.buffer.rows());
    if rows == 0 {
        return Ok(nothing(session));
    }
    let (engine, settings) = (&session.shared.engine, &session.settings);
    let own = session.transactions.open().map(OpenTransaction::own_rows);
    let destination = grouping.destination(own, settings, target)?;
    let patience = WaitLimit::For(settings.insert_timeout.time());
    let load = engine.load(&target.into, destination, patience);
    let loaded = load.commit(&mut session.buffer).await?;
    Ok(tell(session, target, loaded, rows).await)
}

/// A statement without rows loads nothing.
pub fn nothing(session: &mut Session) -> u64 {
    session.info.clear();
    session.row_count = 0;
    0
}

/// Notes what became of a load, for its reply and for those who ask later.
pub async fn tell(session: &mut Session, target: &Target, mut loaded: Loaded, rows: u64) -> u64 {
    let is_published = session.settings.freshness == Freshness::Published;
    if loaded.mode == GroupCommitMode::Sync && is_published {
        loaded.lsn = session.shared.engine.end_of_group(&target.into, &loaded).await;
    }
    session.tell(&loaded);
    session.row_count = i64::try_from(rows).unwrap_or(i64::MAX);
    if loaded.txn.is_some() {
        let (table, filtered) = (target.into.id(), session.filtered);
        session.last_insert = Some(LastInsert { loaded, table, rows, filtered });
    }
    rows
}
