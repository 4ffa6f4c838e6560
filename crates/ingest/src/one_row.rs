//! A statement of its own that changes the row with a key: it looks, computes and appends while it
//! holds the latch of the table, and so locks nothing and looks once (RFC 0013).

use freshet_base::{ErrorCode, Lsn, Result};
use freshet_schema::{GroupCommitMode, KeyModel};
use freshet_storage::resolver::{KeyedRows, Latch, Place, Values};

use crate::admit::{Admitted, WaitLimit};
use crate::append::{Appended, Signed, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::key_rules::resolver;
use crate::keyed::seen;
use crate::locks::PRIMARY;
use crate::overtaken::{LookedUp, check_current};
use crate::removals::put_removals;
use crate::target::{LoadTarget, Loaded};
use crate::uniques::keys_of;

/// What becomes of the row with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OneRow {
    /// It stays as it is.
    Kept,
    Removed,
    /// Another row of its key takes its place.
    Replaced,
    /// [`crate::Change`] has to carry the statement out.
    Unfit,
}

/// Changes the row with a key, and returns what has become of it if there is one. `decide` says
/// what is to, and appends the encoded row that takes its place; it may be called again where
/// others have changed the row before memory or log space was free.
///
/// `None`, and nothing has changed, where [`crate::Change`] has to carry the statement out: others
/// hold the key or a TRUNCATE or DROP PARTITION came, the table has further unique keys or makes
/// partitions of its own, or the row does not fit a record.
///
/// # Errors
/// Those of `decide`; 1412 for a table whose columns change; `OutOfRoom`; files that cannot be read.
/// Nothing has changed then.
pub async fn change_row(
    engine: &Engine,
    target: &LoadTarget,
    key: &[u8],
    patience: WaitLimit,
    mut decide: impl FnMut(&[u8], &mut Vec<u8>) -> Result<OneRow>,
) -> Result<Option<(Loaded, Option<OneRow>)>> {
    let Some(_pass) = target.pass() else { return Err(target.state.changed()) };
    let table = target.table();
    assert_eq!(table.key_model, KeyModel::Primary, "the rows of others have no key to look for");
    if table.makes_partitions() || table.unique_keys().next().is_some() {
        return Ok(None);
    }
    let keys = KeyedRows::of_keys(std::iter::once(key));
    let (mut buffer, mut waited) = (LoadBuffer::default(), None::<Admitted>);
    loop {
        let Some(Found { latch, row }) = look(engine, target, &keys).await? else {
            return Ok(None);
        };
        let Some((place, old)) = row else {
            return Ok(Some((Loaded::looked_only(Lsn::ZERO), None)));
        };
        let becomes = decide(&old, buffer.begin())?;
        match becomes {
            OneRow::Unfit => return Ok(None),
            OneRow::Kept => {
                let seen = seen(&latch, std::slice::from_ref(&Some(place)));
                return Ok(Some((Loaded::looked_only(seen), Some(becomes))));
            }
            OneRow::Removed => {
                put_removals(target.schema(), std::iter::once(key), &mut buffer)?;
            }
            OneRow::Replaced => buffer.count(1)?,
        }
        let bytes = buffer.payload_bytes();
        if !engine.appender.takes_record_of(bytes) {
            return Ok(None);
        }
        let kept = waited.take().filter(|admitted| admitted.is_for(bytes));
        match kept.or_else(|| engine.admission.try_admit(bytes)) {
            Some(admitted) => {
                let appended = append(engine, target, &mut buffer, admitted, (latch, place))?;
                return Ok(appended.map(|loaded| (loaded, Some(becomes))));
            }
            None => {
                // Nobody waits for memory or log space with the latch in hand (keys.md K5).
                drop(latch);
                waited = Some(engine.admission.admit(bytes, None, patience).await?);
            }
        }
    }
}

/// The latch, and what was found under it.
struct Found {
    latch: Latch,
    /// The row with the key, and where it is.
    row: Option<(Place, Vec<u8>)>,
}

/// Takes the latch and finds the row; `None` where that is not to be changed under it.
async fn look(engine: &Engine, target: &LoadTarget, keys: &KeyedRows) -> Result<Option<Found>> {
    let mut latch = resolver(target).latch().await?;
    check_current(&target.state, target.schema().version)?;
    // The table may have got a unique key since.
    let has_others = !latch.has_unique_keys_of(target.table());
    if has_others || engine.locks().others_hold((target.id(), PRIMARY), keys, None) {
        return Ok(None);
    }
    let Some(place) = latch.find(keys).await?.swap_remove(0) else {
        return Ok(Some(Found { latch, row: None }));
    };
    let old = latch.read(&[&place], target.schema()).await?.swap_remove(0);
    Ok(Some(Found { row: old.map(|old| (place, old)), latch }))
}

/// Appends the row in `buffer`, or its removal, which takes the place of the one at `place`.
fn append(
    engine: &Engine,
    target: &LoadTarget,
    buffer: &mut LoadBuffer,
    admitted: Admitted,
    (latch, place): (Latch, Place),
) -> Result<Option<Loaded>> {
    let (rows, removals) = (keys_of(target, buffer), buffer.removals());
    let state = &target.state;
    let end = latch.end();
    let load = SmallLoad {
        table: state,
        schema_version: target.schema().version,
        mode: GroupCommitMode::Off,
        signed: Signed::Label(None),
        looked_up: Some(LookedUp { end, is_derived: true, is_last: false }),
    };
    if let (0, Some(counter)) = (removals, target.counter()) {
        buffer.use_ids(counter.of_rows(target.schema(), buffer.row_bytes(), buffer.rows()));
    }
    match engine.appender.append_rows(load, buffer, admitted) {
        Ok((Appended { lsn, txn }, cut)) => {
            latch.appended(lsn, (&rows, &Values::default()), removals, &[Some(place)], cut);
            Ok(Some(Loaded::alone(lsn, txn, None)))
        }
        Err(error) if error.code() == ErrorCode::Deadlock && state.cut() > end => Ok(None),
        Err(error) => Err(error),
    }
}
