//! UPDATE and DELETE in tables without a unique key: rows are removed by their values (RFC 0022).

use freshet_base::{ErrorCode, Result};
use freshet_schema::GroupCommitMode;
use freshet_storage::resolver::{Equal, EqualRows};

use crate::admit::WaitLimit;
use crate::append::{Appended, Signed, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::key_rules::resolver;
use crate::overtaken::LookedUp;
use crate::target::{LoadTarget, Loaded};

/// Room in a record beside its rows.
const SPARE_BYTES: usize = 256;

/// A stored row, encoded with the columns of its table, and what it becomes; `None` if it is
/// removed. In a table with an AGGREGATE KEY only the key of the row counts.
pub struct RowChange {
    pub old: Vec<u8>,
    pub new: Option<Vec<u8>>,
}

/// Which of several stored rows with the same values a change is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    /// One of them.
    One,
    /// All of them.
    All,
}

/// What became of a change.
pub enum Affected {
    /// So many rows were changed.
    Rows(u64, Loaded),
    /// Others changed one of the rows meanwhile: it may look again.
    Overtaken,
}

/// The record of a change, and the rows that it removes.
struct Encoded {
    buffer: LoadBuffer,
    removed: Vec<Equal>,
    rows: u64,
}

/// Changes rows of a table without a unique key. Nobody else removes rows of the table from the
/// look at them until the record is in the log; loads go on.
///
/// # Errors
/// Those of admission and appending, and files that cannot be read. Nothing was changed then.
pub(crate) async fn change_rows(
    engine: &Engine,
    target: &LoadTarget,
    changes: &[RowChange],
    copies: Copies,
    patience: WaitLimit,
) -> Result<Affected> {
    let Some(_pass) = target.pass() else { return Err(target.state.changed()) };
    let mut equal = EqualRows::new(target.schema());
    let ids = equal.add_all(changes.iter().map(|change| change.old.as_slice())).await;
    let row_bytes =
        |change: &RowChange| change.old.len() + change.new.as_ref().map_or(0, |new| new.len());
    let mut bytes = SPARE_BYTES + changes.iter().map(row_bytes).sum::<usize>();
    if target.table().makes_partitions() {
        let new = changes.iter().filter_map(|change| change.new.as_deref());
        let new = new.collect::<Vec<_>>().concat();
        engine.ddl.make_partitions(target, &new, 0).await?;
    }
    loop {
        engine.appender.check_changes_of(bytes, changes.len())?;
        // Before the latch: what frees memory needs it.
        let admitted = engine.admission.admit(bytes, None, patience).await?;
        let mut latch = resolver(target).latch().await?;
        let end = latch.end();
        let found = latch.find_equal(&equal).await?;
        let Some(encoded) = encode(target, changes, &ids, (found, copies))? else {
            drop(latch);
            engine.horizon().wait(end).await;
            return Ok(Affected::Overtaken);
        };
        let Encoded { mut buffer, removed, rows } = encoded;
        if rows == 0 {
            return Ok(Affected::Rows(0, Loaded::looked_only(end)));
        }
        if buffer.payload_bytes() > bytes {
            bytes = buffer.payload_bytes();
            continue;
        }
        let load = SmallLoad {
            table: &target.state,
            schema_version: target.schema().version,
            mode: GroupCommitMode::Off,
            signed: Signed::Label(None),
            looked_up: Some(LookedUp { end, is_derived: true, is_last: false }),
        };
        return match engine.appender.append_rows(load, &mut buffer, admitted) {
            Ok((Appended { lsn, txn }, _)) => {
                latch.removed(lsn, &removed);
                Ok(Affected::Rows(rows, Loaded::alone(lsn, txn, None)))
            }
            Err(error) if error.code() == ErrorCode::Deadlock => Ok(Affected::Overtaken),
            Err(error) => Err(error),
        };
    }
}

/// The record of changes of rows with these numbers, for the stored rows that were found; `None` if
/// some are not there any more.
fn encode(
    target: &LoadTarget,
    changes: &[RowChange],
    ids: &[u32],
    (mut found, copies): (Vec<Vec<Equal>>, Copies),
) -> Result<Option<Encoded>> {
    let is_combined = target.schema().is_combined();
    let (mut buffer, mut removed, mut rows) = (LoadBuffer::default(), Vec::new(), 0);
    let mut fresh = Vec::new();
    buffer.begin();
    for (change, id) in changes.iter().zip(ids) {
        let left = &mut found[*id as usize];
        let times = match copies {
            Copies::All if is_combined => usize::from(!left.is_empty()),
            _ if left.is_empty() => return Ok(None),
            Copies::All => left.len(),
            Copies::One => 1,
        };
        let kept = if is_combined { 0 } else { left.len() - times };
        removed.extend(left.drain(kept..));
        for _ in 0..times {
            buffer.resume().extend_from_slice(&change.old);
            fresh.extend(change.new.as_deref());
        }
        rows += times as u64;
    }
    buffer.count(rows as usize)?;
    buffer.removes_so_far();
    let new_rows = fresh.concat();
    let ids = target
        .counter()
        .and_then(|counter| counter.of_rows(target.schema(), &new_rows, fresh.len() as u32));
    buffer.resume().extend_from_slice(&new_rows);
    buffer.count(fresh.len())?;
    buffer.use_ids(ids);
    Ok(Some(Encoded { buffer, removed, rows }))
}
