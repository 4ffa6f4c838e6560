//! The rows of a transaction before COMMIT: buffered in the session, visible only to it, and
//! committed as one log record.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use freshet_base::clock::Deadline;
use freshet_base::{Error, ErrorCode, Lsn, Result, TableId, bail, err};
use freshet_meta::Claim;
use freshet_schema::TableSchema;
use freshet_schema::row::RowCells;
use freshet_storage::resolver::{Equal, EqualRows, KeyedRows, Latch, Place, Values};
use freshet_wal::Room;

use crate::admit::WaitLimit;
use crate::append::{Appended, PartBody, PartLoad, Signature};
use crate::behind::wait_for_keys;
use crate::counter::UsedIds;
use crate::engine::Engine;
use crate::key_rules::resolver;
use crate::keyed::seen;
use crate::keyed_own::{KeyedPart, KeyedTable, RowsByKey, Told};
use crate::large_load::LargeLoad;
use crate::locks::PRIMARY;
use crate::own_part::TableRows;
use crate::own_rows::{OwnRows, Taken, bytes_of};
use crate::record::PART_HEAD_BYTES;
use crate::target::{LoadTarget, Loaded};
use crate::uniques::{Holders, duplicate_entry};
use crate::unkeyed_own::{UnkeyedPart, UnkeyedTable};
use crate::unlocked::Unlocked;

/// An open transaction; dropping it rolls it back.
pub struct Transaction {
    own: OwnRows,
    claim: Option<Claim>,
}

impl Transaction {
    pub fn own_rows(&self) -> &OwnRows {
        &self.own
    }

    /// Whether the client gave a label.
    pub fn is_labelled(&self) -> bool {
        self.claim.is_some()
    }
}

impl Engine {
    /// Opens a transaction with the label given by the client, or without one.
    pub fn begin_transaction(&self, claim: Option<Claim>) -> Transaction {
        let given = claim.as_ref().map(|claim| Arc::from(claim.label()));
        Transaction { own: OwnRows::new(given), claim }
    }

    /// Commits a transaction as one record, atomically. An empty one appends nothing.
    ///
    /// # Errors
    /// `OutOfRoom` when there is no log space in time, `NoSuchTable` when a table was dropped,
    /// `SnapshotTooOld` when rows are in files and a table was truncated. In all cases the
    /// transaction is rolled back.
    pub async fn commit(
        &self,
        transaction: Transaction,
        patience: WaitLimit,
    ) -> Result<Option<Loaded>> {
        let Transaction { own, claim } = transaction;
        let Taken { mut rows, keyed, unkeyed, ids } = own.take();
        rows.retain(|part| part.rows() > 0);
        let mut changed = changed_parts(keyed, unkeyed, &mut rows)?;
        if rows.is_empty() && changed.is_empty() {
            return Ok(None);
        }
        // Latches are taken in one order.
        changed.sort_by_key(|(part, _)| part.table.id);
        let deadline = patience.soon(&self.admission);
        let inline = changed.iter().map(|(part, _)| part.record_bytes()).sum::<usize>();
        let of_rows = bytes_of(&rows) + rows.len() * PART_HEAD_BYTES;
        if !self.appender.takes_record_of(inline) {
            bail!(
                OutOfRoom,
                "the transaction changes stored rows of more than one record of the log takes \
                 ({}); COMMIT more often",
                self.config().wal_load_bytes_max
            );
        }
        let spills = !self.appender.takes_record_of(inline + of_rows);
        let mut parts = Vec::with_capacity(rows.len() + changed.len());
        for part in rows {
            parts.push(match spills || !part.pieces().is_empty() {
                true => self.spill(part, patience).await?,
                false => part.into_load(),
            });
        }
        let plain = parts.len();
        for part in &parts {
            wait_for_keys(self, &part.table, || deadline).await?;
        }
        let (of_changed, looked): (Vec<_>, Vec<_>) = changed.into_iter().unzip();
        parts.extend(of_changed);
        let room = self.appender.room_for(&parts, deadline).await?;
        let mut latches = Vec::with_capacity(looked.len());
        for looked in looked {
            match looked.latch(self, &ids).await? {
                Ok(latched) => latches.push(latched),
                Err(Refused { error, seen }) => {
                    // Others go on meanwhile.
                    drop((latches, room));
                    self.horizon().wait(seen).await;
                    return Err(error);
                }
            }
        }
        for part in &mut parts {
            part.ids = ids.get(&part.table.id).copied();
        }
        let (appended, cuts) =
            self.append(parts, (&mut claim.into(), room, deadline), &mut latches).await?;
        for (latched, cut) in latches.into_iter().zip(&cuts[plain..]) {
            latched.appended(appended.lsn, *cut);
        }
        let given = own.label().map(Arc::from);
        assert!(given.is_some(), "a transaction with rows has a label");
        Ok(Some(Loaded::alone(appended.lsn, appended.txn, given)))
    }

    /// Appends the record. Where nobody holds keys others may write until then, and it looks again;
    /// not beside other latches, which are taken in one order.
    async fn append(
        &self,
        mut parts: Vec<PartLoad>,
        (signature, mut room, deadline): (&mut Signature, Room, Deadline),
        latches: &mut [Latched],
    ) -> Result<(Appended, Vec<Lsn>)> {
        let plain = parts.len() - latches.len();
        loop {
            for (latched, part) in latches.iter_mut().zip(&mut parts[plain..]) {
                if let Latched::Unlocked(unlocked) = latched {
                    unlocked.compare(part).await?;
                }
            }
            let error = match self.appender.append_parts_of(&mut parts, signature, room) {
                Ok(appended) => return Ok(appended),
                Err(error) => error,
            };
            let has_time = !deadline.left(self.store.clock()).is_zero();
            let looks_again = match &mut *latches {
                [one] => has_time && one.lets_go(),
                _ => false,
            };
            if !looks_again {
                return Err(not_again(error));
            }
            room = self.appender.room_for(&parts, deadline).await?;
        }
    }

    /// Writes the rows of a part to synced files for its record to refer to.
    async fn spill(&self, part: TableRows, patience: WaitLimit) -> Result<PartLoad> {
        let mut large = LargeLoad::begin(&self.flusher, &part.table, &part.schema)?;
        for piece in part.pieces() {
            let (bytes, rows) = piece.read(self, &part.schema).await?;
            let deadline = patience.soon(&self.admission);
            let memory = self.take_memory(bytes.len() as u64, deadline).await?;
            large.push(bytes, rows, memory).await?;
        }
        let began_in = part.incarnation;
        let (bytes, rows, held) = part.into_rest();
        large.push(bytes, rows, held.memory).await?;
        // A TRUNCATE since the first row makes the COMMIT fail, not only one since the files were
        // written.
        Ok(PartLoad { began_in, ..large.finish().await? })
    }
}

/// A COMMIT is not begun again: its rows are gone.
fn not_again(error: Error) -> Error {
    match error.code() {
        ErrorCode::TableChanged => err!(Deadlock, "{error}; the transaction is rolled back"),
        _ => error,
    }
}

/// What a COMMIT looks up before its record, in a table of which it changes stored rows.
enum Looked {
    Keys(LookedKeys),
    Rows { target: LoadTarget, equal: EqualRows, counts: Vec<usize> },
    Unlocked { target: LoadTarget, read: RowsByKey },
}

/// The rows of a part, whose keys the transaction holds.
struct LookedKeys {
    target: LoadTarget,
    rows: KeyedRows,
    /// Those whose keys no stored row had when they were first changed.
    free: Vec<(usize, Told)>,
    /// Those of which others may have values, so that the transaction is to begin again.
    again: Vec<usize>,
    encoded: EncodedRows,
}

/// The rows of a part, of which the first `removals` only remove their key.
struct EncodedRows {
    bytes: Bytes,
    rows: u32,
    removals: u32,
    schema: Arc<TableSchema>,
}

impl EncodedRows {
    fn of(part: &PartLoad) -> Self {
        let PartBody::Rows { bytes, .. } = &part.body else {
            unreachable!("what a transaction changes of stored rows is in its record")
        };
        let (bytes, schema) = (bytes.clone(), Arc::clone(&part.schema));
        Self { bytes, rows: part.rows, removals: part.removals, schema }
    }

    fn values(&self, target: &LoadTarget) -> Values {
        let counts = (self.rows, self.removals);
        Values::of_encoded(&self.bytes, counts, target.table(), &self.schema)
    }
}

/// What it has found.
enum Latched {
    Keys {
        latch: Latch,
        rows: KeyedRows,
        values: Values,
        removals: u32,
        places: Vec<Option<Place>>,
    },
    Rows(Latch, Vec<Equal>),
    Unlocked(Unlocked),
}

/// The parts of tables of which stored rows are changed. What was written to such a table is in its
/// part, and not in `rows` any more.
fn changed_parts(
    keyed: Vec<KeyedTable>,
    unkeyed: Vec<UnkeyedTable>,
    rows: &mut Vec<TableRows>,
) -> Result<Vec<(PartLoad, Looked)>> {
    let mut changed = Vec::with_capacity(keyed.len() + unkeyed.len());
    for mut table in keyed {
        if table.is_unlocked() {
            let Some(read) = table.take_read() else { continue };
            // They are in its part.
            rows.retain(|part| part.table.id != table.id());
            let Some(KeyedPart { part, target, .. }) = table.into_part()? else { continue };
            changed.push((part, Looked::Unlocked { target, read }));
            continue;
        }
        let Some(keyed) = table.into_part()? else { continue };
        let KeyedPart { part, target, rows, free, again } = keyed;
        let encoded = EncodedRows::of(&part);
        changed.push((part, Looked::Keys(LookedKeys { target, rows, free, again, encoded })));
    }
    for table in unkeyed {
        let at = rows.iter().position(|part| part.table.id == table.id());
        let own = at.map(|at| rows.swap_remove(at));
        let own = own.map(TableRows::into_own);
        let Some(UnkeyedPart { part, target, equal, counts }) = table.into_part(own)? else {
            continue;
        };
        changed.push((part, Looked::Rows { target, equal, counts }));
    }
    Ok(changed)
}

impl Looked {
    /// Takes the latch of its table and looks, or refuses the transaction (1062).
    ///
    /// # Errors
    /// 1213 for rows that others have removed; files that cannot be read.
    async fn latch(
        self,
        engine: &Engine,
        ids: &BTreeMap<TableId, UsedIds>,
    ) -> Result<std::result::Result<Latched, Refused>> {
        match self {
            Self::Keys(keys) => {
                let ids = ids.get(&keys.target.id());
                keys.latch(engine, ids).await
            }
            Self::Rows { target, equal, counts } => {
                let mut latch = resolver(&target).latch().await?;
                let mut removed = Vec::new();
                for (mut found, count) in latch.find_equal(&equal).await?.into_iter().zip(counts) {
                    if found.len() < count {
                        bail!(
                            Deadlock,
                            "others changed rows of table '{}' that the transaction has changed; \
                             try restarting transaction",
                            target.table().name
                        );
                    }
                    removed.extend(found.drain(found.len() - count..));
                }
                Ok(Ok(Latched::Rows(latch, removed)))
            }
            Self::Unlocked { target, read } => {
                Unlocked::latch(target, read).await.map(|unlocked| Ok(Latched::Unlocked(unlocked)))
            }
        }
    }
}

/// Why a transaction is refused that rows of others stand against: told once these are durable up
/// to `seen`.
struct Refused {
    error: Error,
    seen: Lsn,
}

impl LookedKeys {
    /// Refuses it for a key or a value that another row has: with 1062, or with 1213 where its
    /// statements would have skipped, replaced or changed that row.
    ///
    /// # Errors
    /// 1213 where that may be an id that was given again; files that cannot be read.
    async fn latch(
        self,
        engine: &Engine,
        ids: Option<&UsedIds>,
    ) -> Result<std::result::Result<Latched, Refused>> {
        let Self { mut target, rows, free, again, encoded } = self;
        let (removals, mut values) = (encoded.removals, encoded.values(&target));
        let mut latch = resolver(&target).latch().await?;
        if !latch.has_unique_keys_of(target.table()) {
            target = target.with_unique_keys_of_now(&engine.store.tables)?;
            values = encoded.values(&target);
        }
        let places = latch.find(&rows).await?;
        let holders = Holders::find(&mut latch, &target, (&rows, &places[..]), &values).await?;
        // It has locked its keys and values: nobody else can have taken one, but of keys that came
        // or went meanwhile, and with partitions that took the place of others. A REPLACE replaces
        // a row that came so with its primary key.
        let taken = free.into_iter().find(|(at, _)| places[*at].is_some());
        let taken = taken.map(|(at, told)| ((at as u32, PRIMARY), told));
        let conflict = taken.or_else(|| {
            let conflict = holders.last_conflict(&rows, &values, |_| false)?;
            let is_again = again.contains(&(conflict.0 as usize));
            Some((conflict, if is_again { Told::Again } else { Told::Duplicate }))
        });
        if let Some(((at, number), told)) = conflict {
            target.counter().zip(ids).map_or(Ok(()), |(counter, ids)| counter.check(ids))?;
            let of = number.checked_sub(1).map_or(&rows, |index| &values.all()[index]);
            let row = RowCells::new(&encoded.schema).rows(&encoded.bytes).nth(at as usize);
            let duplicate = duplicate_entry(&target, number, of.key(at), row);
            let error = match told {
                Told::Duplicate => duplicate,
                Told::Again => err!(
                    Deadlock,
                    "{}: a row that came with a partition meanwhile has it; try restarting \
                     transaction",
                    duplicate.message()
                ),
            };
            let seen = seen(&latch, &places).max(holders.seen);
            return Ok(Err(Refused { error, seen }));
        }
        Ok(Ok(Latched::Keys { latch, rows, values, removals, places }))
    }
}

impl Latched {
    /// Lets go if others have written since it has looked, who take no latch.
    fn lets_go(&mut self) -> bool {
        match self {
            Self::Unlocked(unlocked) => unlocked.lets_go(),
            Self::Keys { .. } | Self::Rows(..) => false,
        }
    }

    /// Marks what the record at `lsn` has removed, behind the last TRUNCATE of its table at `cut`.
    fn appended(self, lsn: Lsn, cut: Lsn) {
        match self {
            Self::Keys { latch, rows, values, removals, places } => {
                latch.appended(lsn, (&rows, &values), removals, &places, cut);
            }
            Self::Rows(latch, removed) => latch.removed(lsn, &removed),
            // The resolver marks what it has replaced, as behind all loads of such a table.
            Self::Unlocked(_) => {}
        }
    }
}
