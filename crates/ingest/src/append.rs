//! The critical section of a load: an admitted load gets its position in the log and the delta. So
//! does the end of a group.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_base::clock::Deadline;
use freshet_base::task::{Lane, Pool};
use freshet_base::{Error, Incarnation, Lsn, Result, Retry, SchemaVersion};
use freshet_base::{TxnId, Version, bail, err};
use freshet_meta::{Claim, LABEL_CHARS_MAX, RowsetMeta};
use freshet_schema::{GroupCommitMode, TableSchema};
use freshet_storage::Rowset;
use freshet_storage::delta::{self, Chunk};
use freshet_storage::flush::Files;
use freshet_storage::fold::{self, Body, Event};
use freshet_wal as wal;

use self::parts::{check_parts, encode_parts};
use crate::admit::{Admission, Admitted};
use crate::buffer::LoadBuffer;
use crate::counter::{EnteredIds, UsedIds};
use crate::group::{GroupCommit, JoinSize, JoinTime, Joined, OpenGroup};
use crate::history::History;
use crate::metadata::Settler;
use crate::overtaken::{LookedUp, check_columns, check_cut, check_generated};
use crate::overtaken::{check_incarnation, check_last};
use crate::partitions::Layout;
use crate::record::{self, EndStamp, GroupEndReason, Kind, PART_HEAD_BYTES};
use crate::record::{PartHead, PartStamp, SMALL_RECORD_BYTES};
use crate::state::TableState;
use crate::store::Store;
use crate::target::Loaded;

mod parts;
pub(crate) mod pieces;

pub use self::parts::{PartBody, PartLoad};

/// Payloads of at least this size are shared by log and delta instead of copied under the lock.
pub(crate) const SHARED_BYTES_MIN: usize = 64 << 10;

/// The retry delay of a load that found no log space for the end of its group.
const NO_END_ROOM_PAUSE: Duration = Duration::from_millis(400);

/// A table whose flush keeps failing may hold the memory for writes divided by this.
const UNFLUSHABLE_PARTS: u64 = 8;

/// Space reserved for a label with its database, with a margin.
const LABEL_BYTES_MAX: usize = 256;

/// Space for the stamp and label in a record besides its parts.
const RECORD_SPARE_BYTES: usize = 8 << 10;

/// Appends the records of loads and of the ends of groups.
pub(crate) struct Appender {
    pub store: Arc<Store>,
    pub admission: Arc<Admission>,
    pub history: Arc<History>,
    pub settler: Arc<Settler>,
}

/// Result of an appended load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The position of its record. The load is acknowledged and visible once the horizon reaches
    /// it.
    pub lsn: Lsn,
    /// The transaction id reported to the client.
    pub txn: TxnId,
}

/// A small load: rows of one table, encoded in a [`LoadBuffer`].
pub struct SmallLoad<'a> {
    pub table: &'a Arc<TableState>,
    /// The schema version that the rows are encoded with.
    pub schema_version: SchemaVersion,
    /// Whether and with which loads it shares a group.
    pub mode: GroupCommitMode,
    pub signed: Signed<'a>,
    /// In tables with a primary key.
    pub looked_up: Option<LookedUp>,
}

/// What the record of a small load says of it.
pub enum Signed<'a> {
    /// The label of the client, if there is one.
    Label(Option<Claim>),
    Prepared(PreparedLoad<'a>),
}

/// What is known of a load before its record.
pub struct PreparedLoad<'a> {
    pub signature: &'a mut Signature,
    /// The incarnation of the table for which its rows were written.
    pub incarnation: Incarnation,
}

impl PreparedLoad<'_> {
    /// The same, for one attempt.
    pub(crate) fn again(&mut self) -> PreparedLoad<'_> {
        PreparedLoad { signature: &mut *self.signature, incarnation: self.incarnation }
    }
}

impl Signed<'_> {
    /// The same, for one attempt, which uses up the label of a client.
    pub(crate) fn again(&mut self) -> Signed<'_> {
        match self {
            Self::Label(label) => Signed::Label(label.take()),
            Self::Prepared(prepared) => Signed::Prepared(prepared.again()),
        }
    }

    fn label(&mut self) -> &mut Option<Claim> {
        match self {
            Self::Label(label) => label,
            Self::Prepared(prepared) => &mut prepared.signature.label,
        }
    }

    fn prepared(&self) -> Option<&PreparedLoad<'_>> {
        match self {
            Self::Label(_) => None,
            Self::Prepared(prepared) => Some(prepared),
        }
    }
}

impl SmallLoad<'_> {
    /// The same, for one attempt, which uses up the label of a client.
    pub(crate) fn attempt(&mut self, looked_up: LookedUp) -> SmallLoad<'_> {
        SmallLoad {
            table: self.table,
            schema_version: self.schema_version,
            mode: self.mode,
            signed: self.signed.again(),
            looked_up: Some(looked_up),
        }
    }

    /// Appends the label of the client to its rows, if there is one.
    fn write_label(&mut self, payload: &mut Vec<u8>) {
        // A group of its own has the number that the client knows.
        let known = match self.mode {
            GroupCommitMode::Off => None,
            _ => self.known_txn(),
        };
        if let Some(claim) = self.signed.label() {
            write_label(claim, known, payload);
        }
    }

    /// What its record says in front of so many bytes of rows, of which the first remove their key.
    fn part_head(&self, rows: u32, removals: u32, bytes: usize) -> PartHead {
        let len = u32::try_from(bytes).expect("a record is far below 4 GiB");
        let (table, schema_version) = (self.table.id, self.schema_version);
        PartHead { table, rowsets: false, schema_version, rows, removals, len }
    }

    /// The transaction that the client knows already.
    fn known_txn(&self) -> Option<TxnId> {
        self.signed.prepared().and_then(|prepared| prepared.signature.txn)
    }

    /// The label of the client, as replies have it.
    pub(crate) fn given(&self) -> Option<Arc<str>> {
        let label = match &self.signed {
            Signed::Label(label) => label,
            Signed::Prepared(prepared) => &prepared.signature.label,
        };
        label.as_ref().map(|label| label.label().into())
    }
}

/// What the record of a load of several parts, or of another statement, says of it as a whole.
#[derive(Default)]
pub struct Signature {
    /// The label given by the client. It is taken by the append, and stays where that fails.
    pub label: Option<Claim>,
    /// The transaction that the client knows already; `None`: the next one.
    pub txn: Option<TxnId>,
}

impl Signature {
    /// The payload of a record that is no load, with the label in front, if there is one.
    pub(crate) fn signed(&mut self, payload: Vec<u8>) -> Vec<u8> {
        let Some((claim, txn)) = self.label.as_mut().zip(self.txn) else { return payload };
        record::labelled(&record::SignedLabel { label: label_of(claim), txn }, &payload)
    }

    /// What its client is told once the record is durable, if it has given a label.
    pub(crate) fn signed_as(&self) -> Option<Loaded> {
        let (label, txn) = self.label.as_ref().zip(self.txn)?;
        Some(Loaded::alone(Lsn::ZERO, txn, Some(label.label().into())))
    }

    /// The record has its place in the log: the label is used up.
    pub(crate) fn appended(&mut self, lsn: Lsn, log_micros: i64) {
        if let Some((label, txn)) = self.label.take().zip(self.txn) {
            label.appended(txn, lsn, log_micros);
        }
    }
}

impl From<Option<Claim>> for Signature {
    fn from(label: Option<Claim>) -> Self {
        Self { label, txn: None }
    }
}

impl Appender {
    /// Whether rows of this many bytes are stored in the log itself; larger loads write files,
    /// which a small record refers to.
    pub fn takes_record_of(&self, bytes: usize) -> bool {
        bytes as u64 <= self.store.config.wal_load_bytes_max.bytes()
            && self.store.wal.takes_record_of(bytes + RECORD_SPARE_BYTES)
    }

    /// Checks that a statement which changes so many rows fits a record.
    pub fn check_changes_of(&self, bytes: usize, rows: usize) -> Result<()> {
        if self.takes_record_of(bytes) {
            return Ok(());
        }
        bail!(
            OutOfRoom,
            "the statement changes {rows} rows, more than one record of the log takes ({}); \
             change fewer at once, with LIMIT or a narrower WHERE",
            self.store.config.wal_load_bytes_max
        );
    }

    /// Appends the rows of `buffer` as a load of one table; afterwards the buffer can be reused.
    /// Also returns the last TRUNCATE of the table before the record.
    ///
    /// # Errors
    /// `NoSuchTable` when the table was dropped meanwhile; `OutOfRoom` when its flush keeps
    /// failing, or when no group can be opened now. On error nothing was appended.
    pub fn append_rows(
        &self,
        mut load: SmallLoad<'_>,
        buffer: &mut LoadBuffer,
        admitted: Admitted,
    ) -> Result<(Appended, Lsn)> {
        self.check_flushable(load.table)?;
        let _entered = self.enter_ids(load.table, buffer.ids())?;
        let (rows, removals) = (buffer.rows(), buffer.removals());
        let rows_end = buffer.payload.len();
        assert!(rows_end >= PART_HEAD_BYTES, "rows follow the head of their part");
        let is_paid = admitted.permit.bytes() >= rows_end as u64;
        assert!(is_paid, "rows that enter the delta hold their memory");
        let rows_bytes = &buffer.payload[PART_HEAD_BYTES..rows_end];
        let layout = load.table.check_rows(load.schema_version, rows_bytes, removals)?;
        let head = load.part_head(rows, removals, rows_bytes.len());
        head.write(&mut buffer.payload[..PART_HEAD_BYTES]);
        load.write_label(&mut buffer.payload);
        if buffer.payload.len() < SHARED_BYTES_MIN {
            let payload = &buffer.payload[..];
            let bytes = delta::Payload::Copied(&payload[PART_HEAD_BYTES..rows_end]);
            let rows = (rows, removals, layout);
            self.append_load(load, rows, wal::Payload::Slice(payload), bytes, admitted)
        } else {
            let payload = buffer.take_payload();
            let bytes = delta::Payload::Shared(payload.slice(PART_HEAD_BYTES..rows_end));
            let rows = (rows, removals, layout);
            self.append_load(load, rows, wal::Payload::Shared(payload), bytes, admitted)
        }
    }

    fn append_load(
        &self,
        mut load: SmallLoad<'_>,
        (rows, removals, layout): (u32, u32, Option<Arc<Layout>>),
        payload: wal::Payload<'_>,
        encoded: delta::Payload<'_>,
        admitted: Admitted,
    ) -> Result<(Appended, Lsn)> {
        let Admitted { permit, room } = admitted;
        let bytes = encoded.bytes();
        let known = load.known_txn();
        let txn = known.map_or_else(|| self.store.meta().ids().txn(), Ok)?;
        let size = JoinSize { rows: u64::from(rows), bytes: bytes as u64 };
        let kind = Kind::Load as u8;
        let (lsn, outcome) =
            self.store.wal.append_timed(kind, payload, room, |lsn, time, stamp| {
                assert!(
                    lsn > self.store.horizon().get(),
                    "a record is appended before it is durable"
                );
                let mut group = load.table.lock();
                check_cut(load.table, load.looked_up)?;
                let version = load.schema_version;
                check_columns(load.table, load.looked_up, (version, group.log().schema_version()))?;
                check_last(load.table, load.looked_up)?;
                let prepared = load.signed.prepared();
                check_generated(load.table, group.log(), version, prepared.is_some())?;
                if let Some(prepared) = prepared {
                    check_incarnation(load.table, group.log(), prepared.incarnation)?;
                }
                let schema = || group.log().schema(load.schema_version);
                let slices = encoded.slices();
                load.table.check_slices_again(layout.as_ref(), schema, slices, removals)?;
                let joined = self.join(&mut group, load.table, load.mode, txn, size)?;
                stamp.extend_from_slice(&1u16.to_le_bytes());
                let (schema_version, payload) = (load.schema_version, encoded);
                let body = Body::Rows { schema_version, rows, removals, payload, permit };
                let full = enter_part(&mut group, lsn, &joined, body, stamp);
                if let Some(label) = load.signed.label().take() {
                    label.appended(known.unwrap_or(joined.txn), lsn, time);
                }
                Ok::<_, Error>((joined, full, load.table.delta.truncated()))
            })?;
        let (joined, full, cut) = outcome;
        let txn = joined.txn;
        self.after_join(load.table, (joined, lsn), size);
        if let Some(chunk) = full {
            convert_later(self.store.pool(), chunk);
        }
        Ok((Appended { lsn, txn }, cut))
    }

    /// Appends one record with several parts: a transaction or a large load. Also returns the last
    /// TRUNCATE of each part's table before the record.
    ///
    /// # Errors
    /// `NoSuchTable` when a table was dropped meanwhile; `SnapshotTooOld` when a table was
    /// truncated after rows of the load had been written to files. On error nothing was appended.
    pub fn append_parts(
        &self,
        mut parts: Vec<PartLoad>,
        signature: &mut Signature,
        admitted_room: wal::Room,
    ) -> Result<(Appended, Vec<Lsn>)> {
        self.append_parts_of(&mut parts, signature, admitted_room)
    }

    /// As [`Self::append_parts`]; on error the parts are still there.
    ///
    /// # Errors
    /// Those of [`Self::append_parts`].
    pub fn append_parts_of(
        &self,
        parts: &mut Vec<PartLoad>,
        signature: &mut Signature,
        admitted_room: wal::Room,
    ) -> Result<(Appended, Vec<Lsn>)> {
        assert!(!parts.is_empty(), "a load is of some table");
        assert!(parts.len() <= record::TABLES_MAX, "a record is of few tables");
        for part in &*parts {
            self.check_flushable(&part.table)?;
        }
        // In one order, so that nobody waits in a circle.
        let ids = parts.iter().map(|part| (Arc::clone(&part.table), part.ids));
        let mut ids = ids.collect::<Vec<_>>();
        ids.sort_unstable_by_key(|(table, _)| table.id);
        let entered = ids.iter().map(|(table, ids)| self.enter_ids(table, *ids));
        let _entered = entered.collect::<Result<Vec<_>>>()?;
        let layouts = parts.iter().map(PartLoad::check).collect::<Result<Vec<_>>>()?;
        let mut payload = encode_parts(parts);
        if let Some(label) = &mut signature.label {
            write_label(label, None, &mut payload);
        }
        let has_room = admitted_room.charge_bytes() >= payload.len() as u64;
        assert!(has_room, "a record was let in with the room that it takes");
        let is_large = parts.iter().any(|part| matches!(part.body, PartBody::Rowsets { .. }));
        let txn = match signature.txn {
            Some(txn) => txn,
            None => self.store.meta().ids().txn()?,
        };
        let payload = wal::Payload::Shared(Bytes::from(payload));
        let (lsn, (joined, cuts)) = self.store.wal.append_timed(
            Kind::Load as u8,
            payload,
            admitted_room,
            |lsn, time, stamp| {
                check_parts(parts, &layouts)?;
                assert!(
                    lsn > self.store.horizon().get(),
                    "a record is appended before it is durable"
                );
                let count = u16::try_from(parts.len()).expect("a record has few tables");
                stamp.extend_from_slice(&count.to_le_bytes());
                let mut joined = Vec::with_capacity(parts.len());
                let mut cuts = Vec::with_capacity(parts.len());
                for part in std::mem::take(parts) {
                    let (table, size) = (Arc::clone(&part.table), part.size());
                    let cut = table.delta.truncated();
                    joined.push((table, self.enter_part_load(part, txn, lsn, stamp), size));
                    cuts.push(cut);
                }
                if let Some(label) = signature.label.take() {
                    label.appended(txn, lsn, time);
                }
                Ok::<_, Error>((joined, cuts))
            },
        )?;
        for (table, joined, size) in joined {
            self.after_join(&table, (joined, lsn), size);
        }
        if is_large {
            self.store.keeper.wake();
        }
        Ok((Appended { lsn, txn }, cuts))
    }

    /// Lets ids into the log that are in rows of a load, as long as the answer is held.
    pub fn enter_ids<'t>(
        &self,
        table: &'t TableState,
        ids: Option<UsedIds>,
    ) -> Result<Option<EnteredIds<'t>>> {
        let Some((counter, ids)) = table.counter.as_ref().zip(ids) else { return Ok(None) };
        counter.enter(&ids, &|table, end| self.settler.count(table, end)).map(Some)
    }

    /// Reserves log space for a record of these parts.
    ///
    /// # Errors
    /// `OutOfRoom` when there is none until `deadline`.
    pub async fn room_for(&self, parts: &[PartLoad], deadline: Deadline) -> Result<wal::Room> {
        let bytes = parts.iter().map(PartLoad::record_bytes).sum::<usize>() + LABEL_BYTES_MAX;
        self.admission.room_until(bytes, deadline).await
    }

    fn enter_part_load(&self, part: PartLoad, txn: TxnId, lsn: Lsn, stamp: &mut Vec<u8>) -> Joined {
        let PartLoad { table, schema, began_in, rows, removals, body, .. } = part;
        let mut group = table.lock();
        let joined = group.alone(txn, || self.store.clock().wall_micros());
        // Held until the delta refers to the files, so that the sweep does not delete them.
        let (body, _in_flight) = match body {
            PartBody::Rowsets { metas, in_flight } => {
                let stands = began_in == group.log().incarnation();
                assert!(stands, "files of a load are of the incarnation in which it began");
                let rowsets = loaded_rowsets(&self.store.files, &table, &schema, metas, lsn);
                (Body::Rowsets(rowsets), Some(in_flight))
            }
            PartBody::Rows { bytes, permit } => {
                let payload = delta::Payload::Shared(bytes);
                let schema_version = schema.version;
                (Body::Rows { schema_version, rows, removals, payload, permit }, None)
            }
        };
        if let Some(chunk) = enter_part(&mut group, lsn, &joined, body, stamp) {
            convert_later(self.store.pool(), chunk);
        }
        joined
    }

    /// Assigns a load to a group; called under the append lock with the table's state locked.
    fn join(
        &self,
        group: &mut GroupCommit,
        table: &TableState,
        mode: GroupCommitMode,
        txn: TxnId,
        size: JoinSize,
    ) -> Result<Joined> {
        if group.is_gone() {
            return Err(table.gone());
        }
        match mode {
            GroupCommitMode::Off => Ok(group.alone(txn, || self.store.clock().wall_micros())),
            GroupCommitMode::Sync | GroupCommitMode::Async => {
                let clock = self.store.clock();
                let time = || JoinTime { now: clock.now(), wall_micros: clock.wall_micros() };
                let end_room = || self.room_of_end().map(Some);
                group.join(txn, size, table.group_limits(), end_room, time)
            }
        }
    }

    /// Rejects loads of a table whose flush keeps failing once it holds its share, before its rows
    /// use up the memory of all tables. Its existing rows remain readable and in the log.
    pub fn check_flushable(&self, table: &TableState) -> Result<()> {
        let held_bytes_max = self.admission.memory().limit_bytes() / UNFLUSHABLE_PARTS;
        let holds_little = || table.delta.stats().bytes <= held_bytes_max;
        table.check_flushes().or_else(|error| if holds_little() { Ok(()) } else { Err(error) })
    }

    /// Reserves log space for the record that ends the group a load opens.
    fn room_of_end(&self) -> Result<wal::Room> {
        self.store.wal.try_reserve_privileged(SMALL_RECORD_BYTES).ok_or_else(|| {
            err!(OutOfRoom, "the log has no room for the end of another group; retry in a moment")
                .with_retry(Retry::After(NO_END_ROOM_PAUSE))
        })
    }

    fn after_join(&self, table: &TableState, (joined, lsn): (Joined, Lsn), size: JoinSize) {
        let metrics = self.store.metrics();
        metrics.loads.inc();
        metrics.rows.inc_by(size.rows);
        metrics.load_bytes.inc_by(size.bytes);
        if let Some(due) = joined.due {
            self.store.keeper.group_opened(table.id, due);
        }
        if let Some(ended) = joined.ended {
            self.history.push(ended, lsn);
        }
    }

    /// Ends the open group with a record if `wanted` accepts it. Returns the LSN up to which the
    /// delta is frozen, and the version.
    ///
    /// # Errors
    /// `OutOfRoom` when another task has just taken the space that was reserved for it.
    pub fn end_group(
        &self,
        table: &TableState,
        reason: GroupEndReason,
        wanted: impl Fn(&OpenGroup) -> bool,
    ) -> Result<Option<(Lsn, Version)>> {
        let Some(own_room) = table.lock().take_end_room(&wanted) else { return Ok(None) };
        // Another task may just have taken the space to end the group; one of the two will end it.
        let room = own_room.or_else(|| self.store.wal.try_reserve_privileged(SMALL_RECORD_BYTES));
        let room = room.ok_or_else(|| err!(OutOfRoom, "the log has no room left, retry"))?;
        let ended = self.store.wal.append(Kind::GroupEnd as u8, &[][..], room, |lsn, stamp| {
            let mut group = table.lock();
            if !group.open().is_some_and(&wanted) {
                return Err(None::<Infallible>);
            }
            let now = self.store.clock().wall_micros();
            let ended = group.end_open(reason, now).expect("it is open, as just seen");
            let (txn, version) = (ended.txn, ended.version);
            let end = EndStamp { table: table.id, txn, version, reason: reason as u8 };
            record::write_end_stamp(stamp, &end);
            group.enter(lsn, Event::GroupEnd { txn, version });
            assert_eq!(group.log().open(), None, "no group is open behind its end");
            let frozen = table.delta.freeze();
            assert_eq!(frozen, lsn, "a flush takes all up to the end of the group");
            Ok((ended, frozen))
        });
        match ended {
            Ok((_, (ended, frozen))) => {
                let version = ended.version;
                self.history.push(ended, frozen);
                Ok(Some((frozen, version)))
            }
            Err(_) => Ok(None),
        }
    }
}

/// Writes the stamp of one table's part and applies it to the table. Both happen under one lock, so
/// that deltas are in log order.
fn enter_part(
    group: &mut GroupCommit,
    lsn: Lsn,
    joined: &Joined,
    body: Body<'_>,
    stamp: &mut Vec<u8>,
) -> Option<Arc<Chunk>> {
    let (log, txn, ends_with) = (group.log(), joined.txn, joined.ends_with);
    let (table, partition, incarnation) = (log.table(), log.partition(), log.incarnation());
    let ended = joined.ended_other();
    let part = PartStamp { table, partition, incarnation, txn, ends_with, ended };
    record::write_part_stamp(stamp, &part);
    let full =
        group.enter(lsn, Event::Load(fold::Load { incarnation, txn, ends_with, ended, body }));
    assert_eq!(group.log().applied(), lsn, "a record takes effect where it is appended");
    full
}

/// The rowsets of a large load whose record is at `lsn`.
pub(crate) fn loaded_rowsets(
    files: &Files,
    table: &TableState,
    schema: &Arc<TableSchema>,
    metas: Vec<RowsetMeta>,
    lsn: Lsn,
) -> Vec<Arc<Rowset>> {
    let open = |mut meta: RowsetMeta| {
        (meta.lsn_first, meta.lsn_last) = (lsn, lsn);
        let rowset = files.rowset(table.id, meta, schema);
        Arc::new(rowset.with_new_marks())
    };
    metas.into_iter().map(open).collect()
}

/// Converts a full chunk to columns in the background, before a query needs it.
pub(crate) fn convert_later(pool: &dyn Pool, chunk: Arc<Chunk>) {
    pool.execute(Lane::Background, Box::new(move || chunk.convert()));
}

/// Appends the label of a load to its rows, with the transaction that its client knows if the
/// record has another one.
fn write_label(claim: &mut Claim, known: Option<TxnId>, payload: &mut Vec<u8>) {
    record::write_label(payload, &record::Label { known, ..label_of(claim) });
}

/// A label as a record has it, with the time of now.
fn label_of(claim: &mut Claim) -> record::Label<'_> {
    assert!(claim.label().len() <= LABEL_CHARS_MAX, "admission counts on the length of a label");
    let wall_micros = claim.dated();
    let (db, kind, text) = (claim.db(), claim.kind(), claim.label());
    record::Label { db, kind, wall_micros, known: None, text }
}
