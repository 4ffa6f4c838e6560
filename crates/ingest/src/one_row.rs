//! A statement of its own that changes or inserts the row with a key: it looks, computes and
//! appends while it holds the latch of the table, and so locks nothing and looks once (RFC 0013).

use freshet_base::{ErrorCode, Result};
use freshet_schema::{GroupCommitMode, KeyModel};
use freshet_storage::resolver::{KeyedRows, Latch, Place, Values};

use crate::admit::{Admitted, WaitLimit};
use crate::append::{Appended, Signed, SmallLoad};
use crate::buffer::LoadBuffer;
use crate::counter::UsedIds;
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
    /// It stays as it is, or there is none.
    Kept,
    Removed,
    /// It is another row of its key from now on.
    Written,
    /// [`crate::Change`] has to carry the statement out.
    Unfit,
}

/// What a statement has done to the row with a key.
pub struct ChangedRow {
    pub loaded: Loaded,
    /// Whether there was one.
    pub existed: bool,
    pub became: OneRow,
}

/// Changes the row with the key in `keys`. `decide` gets it as it is, says what becomes of it, and
/// appends the encoded row that it is from now on; it may be called again where others have changed
/// it before memory or log space was free. `ids` are those of the row if there is none: some may be
/// generated.
///
/// `None`, and nothing has changed, where [`crate::Change`] has to carry the statement out: others
/// hold the key or a TRUNCATE or DROP PARTITION came, the table has further unique keys or makes
/// partitions of its own, the row gets another key or does not fit a record.
///
/// # Errors
/// Those of `decide`; 1412 for a table whose columns change; 1213 for generated ids that were given
/// again; `OutOfRoom`; files that cannot be read. Nothing has changed then.
pub async fn change_row(
    engine: &Engine,
    target: &LoadTarget,
    (keys, ids): (&KeyedRows, Option<UsedIds>),
    patience: WaitLimit,
    mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<OneRow>,
) -> Result<Option<ChangedRow>> {
    let Some(_pass) = target.pass() else { return Err(target.state.changed()) };
    let table = target.table();
    assert_eq!(table.key_model, KeyModel::Primary, "the rows of others have no key to look for");
    assert_eq!(keys.len(), 1, "it is of one row");
    if table.makes_partitions() || table.unique_keys().next().is_some() {
        return Ok(None);
    }
    let (mut buffer, mut waited) = (LoadBuffer::default(), None::<Admitted>);
    loop {
        let Some(Found { latch, place, row }) = look(engine, target, keys).await? else {
            return Ok(None);
        };
        let became = decide(row.as_deref(), buffer.begin())?;
        let existed = row.is_some();
        match became {
            OneRow::Unfit => return Ok(None),
            OneRow::Kept => {
                let loaded = Loaded::looked_only(seen(&latch, &[place]));
                return Ok(Some(ChangedRow { loaded, existed, became }));
            }
            OneRow::Removed => {
                put_removals(target.schema(), std::iter::once(keys.key(0)), &mut buffer)?;
            }
            OneRow::Written => {
                buffer.count(1)?;
                buffer.use_ids(ids);
            }
        }
        let (bytes, rows) = (buffer.payload_bytes(), keys_of(target, &buffer));
        if !engine.appender.takes_record_of(bytes) || rows.key(0) != keys.key(0) {
            return Ok(None);
        }
        let kept = waited.take().filter(|admitted| admitted.is_for(bytes));
        match kept.or_else(|| engine.admission.try_admit(bytes)) {
            Some(admitted) => {
                let found = (latch, &rows, place);
                let loaded = append(engine, target, &mut buffer, admitted, found)?;
                return Ok(loaded.map(|loaded| ChangedRow { loaded, existed, became }));
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
    place: Option<Place>,
    /// The row with the key.
    row: Option<Vec<u8>>,
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
    let place = latch.find(keys).await?.swap_remove(0);
    let row = match &place {
        Some(place) => latch.read(&[place], target.schema()).await?.swap_remove(0),
        None => None,
    };
    // What a TRUNCATE has removed since is there no more, and the record would be refused.
    let is_gone = place.is_some() && row.is_none();
    Ok((!is_gone).then_some(Found { latch, place, row }))
}

/// Appends the row in `buffer`, or its removal, which takes the place of the one that was found.
fn append(
    engine: &Engine,
    target: &LoadTarget,
    buffer: &mut LoadBuffer,
    admitted: Admitted,
    (latch, rows, place): (Latch, &KeyedRows, Option<Place>),
) -> Result<Option<Loaded>> {
    let (state, removals, end) = (&target.state, buffer.removals(), latch.end());
    if let (0, Some(counter)) = (removals, target.counter()) {
        buffer.use_ids(counter.of_rows(target.schema(), buffer.row_bytes(), buffer.rows()));
        buffer.ids().map_or(Ok(()), |ids| counter.check(&ids))?;
    }
    let load = SmallLoad {
        table: state,
        schema_version: target.schema().version,
        mode: GroupCommitMode::Off,
        signed: Signed::Label(None),
        looked_up: Some(LookedUp { end, is_derived: place.is_some(), is_last: false }),
    };
    match engine.appender.append_rows(load, buffer, admitted) {
        Ok((Appended { lsn, txn }, cut)) => {
            latch.appended(lsn, (rows, &Values::default()), removals, &[place], cut);
            Ok(Some(Loaded::alone(lsn, txn, None)))
        }
        Err(error) if error.code() == ErrorCode::Deadlock && state.cut() > end => Ok(None),
        Err(error) => Err(error),
    }
}
