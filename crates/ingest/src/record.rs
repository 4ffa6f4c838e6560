//! The binary format of log records.
//!
//! A record has a *stamp*, written under the append lock from state derived from the log itself,
//! and a *payload*, encoded beforehand. Numbers are little-endian.
//!
//! ```text
//! load      stamp    u16 parts, then per part: table u64, partition u64, incarnation u32,
//!                    txn u64, version u64 (0: the part does not end its group), txn u64 (of
//!                    the open group of others that it ended before; 0: none)
//!           payload  per part: table u64, body u8, schema version u32, rows u32, removals u32 (of
//!                    these rows, the first ones, only the key counts: it is removed), len u32,
//!                    len bytes (encoded rows, or rowsets encoded by `meta::disk`);
//!                    then, if the client gave a label: db u64, kind u8,
//!                    committed i64 (microseconds since 1970), of kind 3 the transaction that
//!                    the client knows u64, the label's bytes
//! group end stamp    table u64, txn u64, version u64, reason u8
//! barrier   stamp    u16 tables, then per table: table u64, incarnation u32 (new),
//!                    schema version u32 (current from here on), txn u64 (of the group it ended;
//!                    0: none was open), version u64 (of the table from here on)
//!           payload  u8 1 (truncate), then per table: tablets u32, ids u64;
//!                    u8 2 (alter), then the schema, encoded by `meta::disk`; u8 3 (drop);
//!                    u8 4 (empty: a truncate that lets generated ids go on), as u8 1; u8 5
//!                    (divide; 6 with files), then the partitions, encoded by `meta::disk`; u8 7:
//!                    those of each table; u8 9, a signed label, then one of these
//! database  stamp    db u64: the dropped database, with all its tables
//! drop      payload  empty
//! metadata  stamp    table u64 (0: ids are reserved)
//!           payload  what a flush or merge did, a definition, or the ends of ids: u8 0 and the
//!                    event, encoded by `meta::disk`, or u8 1, its CRC-32C u32 and the name of the
//!                    file that holds it; u8 9, a signed label, then one of these
//! term      stamp    empty; payload  groups that it ends, ids, label limits, by `meta::disk`
//! labels    stamp    db u64: labels of it are forgotten (CLEAN LABEL)
//!           payload  below u64 (those of records before this LSN), u32 transactions, u64 each
//!                    (whose labels stay), then the label's bytes (none: all labels)
//! removal   not written yet; its number is reserved so that older servers reject it
//!
//! A signed label (of INSERT OVERWRITE): txn u64, bytes u8, then a label as behind a load.
//! ```

use std::sync::Arc;

use freshet_base::{
    DbId, Incarnation, PartitionId, Result, SchemaVersion, TableId, TabletId, TxnId, Version, err,
};
use freshet_meta::{
    CleanedLabels, Definition, MetaEvent, Repartition, RowsetMeta, TermRecord, Truncate, disk,
};
use freshet_schema::TableSchema;

use self::reader::Reader;

mod label;
mod reader;

pub(crate) use self::label::LABEL_HEAD_BYTES;
pub use self::label::{Label, SignedLabel, labelled, write_label};

/// Maximum number of tables in a record, which keeps its stamp far below the size limit of stamps.
pub const TABLES_MAX: usize = 16_384;
/// Log space for a record that ends a group, or a barrier of a few tables.
pub(crate) const SMALL_RECORD_BYTES: usize = 256;
/// Bytes before the rows of a part in a load's payload.
pub const PART_HEAD_BYTES: usize = 25;

/// Bytes of the table in the stamp of a part or barrier, and after it.
const TABLE_BYTES: usize = 8;
const PART_REST_BYTES: usize = 36;
const BARRIER_REST_BYTES: usize = 24;

/// The kinds of records, with their numbers in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Rows, or rowsets of a large load, of one or more tables.
    Load = 1,
    GroupEnd = 2,
    /// TRUNCATE, ALTER, DROP, or a change of partitions.
    Barrier = 3,
    /// Removed rows.
    Removal = 4,
    /// DROP DATABASE.
    DatabaseDrop = 5,
    /// The result of a flush or merge, a definition, or a reservation of ids.
    Metadata = 6,
    /// The first record of a term.
    Term = 7,
    /// CLEAN LABEL.
    Labels = 8,
}

impl Kind {
    /// The kind with a stored number.
    ///
    /// # Errors
    /// When the number is from a newer server.
    pub fn from_stored(number: u8) -> Result<Self> {
        use Kind::{Barrier, DatabaseDrop, GroupEnd, Labels, Load, Metadata, Removal, Term};
        [Load, GroupEnd, Barrier, Removal, DatabaseDrop, Metadata, Term, Labels]
            .into_iter()
            .find(|kind| *kind as u8 == number)
            .ok_or_else(|| err!(Corruption, "log record of unknown kind {number}"))
    }
}

/// Whether records of this kind change metadata.
pub(crate) fn settles(kind: u8) -> bool {
    let kinds = [Kind::Barrier, Kind::DatabaseDrop, Kind::Metadata, Kind::Term];
    kinds.iter().any(|settles| *settles as u8 == kind)
}

/// The part of a load's stamp for one table, assigned under the append lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartStamp {
    pub table: TableId,
    pub partition: PartitionId,
    /// The partition's incarnation at this position of the log.
    pub incarnation: Incarnation,
    /// The transaction id reported to the client.
    pub txn: TxnId,
    /// The version of the table, if the part ends its group.
    pub ends_with: Option<Version>,
    /// The open group that the record ended before its own, with the version before (keys.md K21).
    pub ended: Option<TxnId>,
}

/// The rows of a part of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    Rows(&'a [u8]),
    /// Metadata of rowsets in synced files, encoded.
    Rowsets(&'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    pub table: TableId,
    /// The schema version that the rows are encoded with.
    pub schema_version: SchemaVersion,
    /// Number of rows.
    pub rows: u32,
    /// How many of them, the first ones, only remove their key (keys.md K24).
    pub removals: u32,
    pub body: Body<'a>,
}

#[derive(PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// Rows of one or more tables.
    Load {
        /// The parts with their stamps, in payload order.
        parts: Vec<(PartStamp, Part<'a>)>,
        /// The label given by the client.
        label: Option<Label<'a>>,
    },
    GroupEnd(EndStamp),
    Barrier {
        body: BarrierBody,
        tables: Vec<BarrierStamp>,
        /// The label that is used up.
        label: Option<SignedLabel<'a>>,
    },
    /// A database was dropped with all its tables.
    DatabaseDrop(DbId),
    /// The files or the definition of a table have changed.
    Metadata {
        body: MetadataBody<'a>,
        /// The label that is used up.
        label: Option<SignedLabel<'a>>,
    },
    Term(TermRecord),
    /// Labels are forgotten.
    Labels(CleanedLabels),
}

/// Where the encoded event of a metadata record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataBody<'a> {
    Inline(&'a [u8]),
    /// In a separate file because it is large.
    File {
        /// The CRC-32C of the file.
        checksum: u32,
        /// The file's name.
        name: &'a str,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum GroupEndReason {
    /// Its age reached `group_commit_interval_ms`.
    Interval = 1,
    /// Its size reached `group_commit_data_bytes`.
    Bytes = 2,
    /// A barrier follows.
    Barrier = 3,
    /// Its rows are being flushed.
    Flush = 4,
    /// The server is shutting down.
    Shutdown = 5,
    /// A load of a keyed table that is a group of its own follows.
    Load = 6,
}

impl GroupEndReason {
    /// The name in metrics and `information_schema.group_commits`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Bytes => "bytes",
            Self::Barrier => "barrier",
            Self::Flush => "flush",
            Self::Shutdown => "shutdown",
            Self::Load => "load",
        }
    }
}

/// The stamp of the end of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndStamp {
    pub table: TableId,
    pub txn: TxnId,
    /// The version it gives the table.
    pub version: Version,
    /// Why it ended, as a number because readers only display it.
    pub reason: u8,
}

/// What a barrier does, as known before it is appended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BarrierBody {
    /// All earlier rows are removed, and generated ids begin again. The new tablets of each table,
    /// in stamp order.
    Truncate(Vec<Vec<TabletId>>),
    /// A DELETE of all rows: like a TRUNCATE, but generated ids go on.
    Empty(Vec<Vec<TabletId>>),
    /// The table has this schema from here on.
    Alter(Arc<TableSchema>),
    /// The tables have other partitions from here on: those of each, in stamp order.
    Divide(Vec<Repartition>),
    /// The tables are dropped.
    Drop,
}

/// The part of a barrier's stamp for one table, assigned under the append lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierStamp {
    pub table: TableId,
    /// The incarnation of its partitions from here on.
    pub incarnation: Incarnation,
    /// The schema version that is current from here on.
    pub schema_version: SchemaVersion,
    /// The open group that the barrier ended.
    pub ended: Option<TxnId>,
    /// The version of the table from here on.
    pub version: Version,
}

impl BarrierBody {
    /// The payload of the record.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Truncate(tables) | Self::Empty(tables) => {
                let mut payload = vec![if matches!(self, Self::Empty(_)) { 4 } else { 1 }];
                for tablets in tables {
                    let count = u32::try_from(tablets.len()).expect("a table has few tablets");
                    payload.extend_from_slice(&count.to_le_bytes());
                    payload.extend(tablets.iter().flat_map(|tablet| tablet.get().to_le_bytes()));
                }
                payload
            }
            Self::Alter(schema) => [&[2], &disk::encode(&**schema)[..]].concat(),
            // What does not know of files, or of the recycle bin, must not read it.
            Self::Divide(changes) => match changes.as_slice() {
                some if some.iter().any(Repartition::is_of_bin) => {
                    [&[8], &disk::encode(changes)[..]].concat()
                }
                [one] => {
                    let kind = if one.files.is_empty() { 5 } else { 6 };
                    [&[kind], &disk::encode(one)[..]].concat()
                }
                _ => [&[7], &disk::encode(changes)[..]].concat(),
            },
            Self::Drop => vec![3],
        }
    }

    /// The effect of the record on metadata.
    pub fn event(self, tables: &[BarrierStamp]) -> MetaEvent {
        let keeps_counter = matches!(self, Self::Empty(_));
        match self {
            Self::Truncate(tablets) | Self::Empty(tablets) => {
                assert_eq!(tables.len(), tablets.len(), "a TRUNCATE has tablets for each table");
                let tables = tables.iter().zip(tablets).map(|(stamp, tablets)| Truncate {
                    table: stamp.table,
                    version: stamp.version,
                    incarnation: stamp.incarnation,
                    tablets,
                    keeps_counter,
                });
                MetaEvent::Truncate(tables.collect())
            }
            Self::Alter(schema) => {
                assert_eq!(tables.len(), 1, "an ALTER is of one table");
                let table = tables[0].table;
                MetaEvent::Define { table, change: Definition::Schema(schema) }
            }
            Self::Divide(changes) => {
                assert_eq!(tables.len(), changes.len(), "each table has partitions of its own");
                let tables = tables.iter().zip(changes);
                MetaEvent::Divide(tables.map(|(to, of)| of.event(to.table)).collect())
            }
            Self::Drop => MetaEvent::Drop(tables.iter().map(|stamp| stamp.table).collect()),
        }
    }
}

/// The head of a part, which is followed by `len` bytes of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartHead {
    pub table: TableId,
    /// Whether the bytes are metadata of rowsets.
    pub rowsets: bool,
    pub schema_version: SchemaVersion,
    pub rows: u32,
    /// How many of the rows, the first ones, only remove their key.
    pub removals: u32,
    pub len: u32,
}

impl PartHead {
    /// Writes it into the space that was left for it.
    pub fn write(&self, head: &mut [u8]) {
        assert_eq!(head.len(), PART_HEAD_BYTES, "the head of a part has one length");
        assert!(self.removals <= self.rows, "keys that a record removes are among its rows");
        head[0..8].copy_from_slice(&self.table.get().to_le_bytes());
        head[8] = u8::from(self.rowsets);
        head[9..13].copy_from_slice(&self.schema_version.get().to_le_bytes());
        head[13..17].copy_from_slice(&self.rows.to_le_bytes());
        head[17..21].copy_from_slice(&self.removals.to_le_bytes());
        head[21..25].copy_from_slice(&self.len.to_le_bytes());
    }
}

pub fn write_part_stamp(stamp: &mut Vec<u8>, part: &PartStamp) {
    assert!(part.txn > TxnId(0), "ids of transactions begin at 1");
    assert!(part.ends_with != Some(Version(0)), "version 0 says that a group goes on");
    let start = stamp.len();
    stamp.extend_from_slice(&part.table.get().to_le_bytes());
    stamp.extend_from_slice(&part.partition.get().to_le_bytes());
    stamp.extend_from_slice(&part.incarnation.get().to_le_bytes());
    stamp.extend_from_slice(&part.txn.get().to_le_bytes());
    stamp.extend_from_slice(&part.ends_with.map_or(0, Version::get).to_le_bytes());
    stamp.extend_from_slice(&part.ended.map_or(0, TxnId::get).to_le_bytes());
    let is_whole = stamp.len() - start == TABLE_BYTES + PART_REST_BYTES;
    assert!(is_whole, "the stamp of a part has one length");
}

pub fn write_end_stamp(stamp: &mut Vec<u8>, end: &EndStamp) {
    assert!(end.version > Version(0), "versions begin at 1");
    stamp.extend_from_slice(&end.table.get().to_le_bytes());
    stamp.extend_from_slice(&end.txn.get().to_le_bytes());
    stamp.extend_from_slice(&end.version.get().to_le_bytes());
    stamp.push(end.reason);
}

/// Writes the part of a barrier's stamp for one table.
pub fn write_barrier_stamp(stamp: &mut Vec<u8>, barrier: &BarrierStamp) {
    assert!(barrier.ended != Some(TxnId(0)), "transaction 0 says that no group was open");
    let start = stamp.len();
    let txn = barrier.ended.unwrap_or_default();
    stamp.extend_from_slice(&barrier.table.get().to_le_bytes());
    stamp.extend_from_slice(&barrier.incarnation.get().to_le_bytes());
    stamp.extend_from_slice(&barrier.schema_version.get().to_le_bytes());
    stamp.extend_from_slice(&txn.get().to_le_bytes());
    stamp.extend_from_slice(&barrier.version.get().to_le_bytes());
    let is_whole = stamp.len() - start == TABLE_BYTES + BARRIER_REST_BYTES;
    assert!(is_whole, "the stamp of a barrier has one length for each table");
}

/// Encodes the payload of a metadata record.
pub fn metadata_payload(body: MetadataBody<'_>) -> Vec<u8> {
    match body {
        MetadataBody::Inline(event) => [&[0], event].concat(),
        MetadataBody::File { checksum, name } => {
            [&[1], &checksum.to_le_bytes()[..], name.as_bytes()].concat()
        }
    }
}

/// Writes the table of a metadata record, or one of its tables.
pub fn write_metadata_stamp(stamp: &mut Vec<u8>, table: TableId) {
    stamp.extend_from_slice(&table.get().to_le_bytes());
}

pub fn write_database_stamp(stamp: &mut Vec<u8>, db: DbId) {
    stamp.extend_from_slice(&db.get().to_le_bytes());
}

/// Encodes the payload of a record that forgets labels; its stamp is that of a database.
pub fn labels_payload(cleaned: &CleanedLabels) -> Vec<u8> {
    let mut payload = cleaned.below.get().to_le_bytes().to_vec();
    let count = u32::try_from(cleaned.kept.len()).expect("few loads are prepared");
    payload.extend_from_slice(&count.to_le_bytes());
    payload.extend(cleaned.kept.iter().flat_map(|txn| txn.get().to_le_bytes()));
    payload.extend_from_slice(cleaned.label.as_deref().unwrap_or_default().as_bytes());
    payload
}

/// The tables in a stamp, as far as it is readable; for records with an unreadable payload.
pub fn stamped_tables(kind: u8, stamp: &[u8]) -> Vec<TableId> {
    let mut stamp = Reader(stamp);
    let mut tables = Vec::new();
    let rest = match Kind::from_stored(kind) {
        Ok(Kind::GroupEnd) => return stamp.u64().ok().map(TableId).into_iter().collect(),
        Ok(Kind::Metadata) => {
            let ids = std::iter::from_fn(|| stamp.u64().ok());
            // A reservation of ids is of no table.
            return ids.filter(|id| *id > 0).map(TableId).collect();
        }
        Ok(Kind::Load) => PART_REST_BYTES,
        Ok(Kind::Barrier) => BARRIER_REST_BYTES,
        // These contain no rows that could be lost.
        Ok(Kind::Removal | Kind::DatabaseDrop | Kind::Term | Kind::Labels) | Err(_) => {
            return tables;
        }
    };
    for _ in 0..stamp.u16().unwrap_or(0) {
        let Ok(table) = stamp.u64() else { break };
        tables.push(TableId(table));
        if stamp.take(rest).is_err() {
            break;
        }
    }
    tables
}

/// Decodes a record with valid checksums.
///
/// # Errors
/// `Corruption` for bytes that no server of this version writes.
pub fn decode<'a>(kind: u8, stamp: &'a [u8], payload: &'a [u8]) -> Result<Record<'a>> {
    let mut stamp = Reader(stamp);
    match Kind::from_stored(kind)? {
        Kind::Load => decode_load(stamp, Reader(payload)),
        Kind::GroupEnd => Ok(Record::GroupEnd(EndStamp {
            table: TableId(stamp.u64()?),
            txn: TxnId(stamp.u64()?),
            version: Version(stamp.u64()?),
            reason: stamp.u8()?,
        })),
        Kind::Barrier => decode_barrier(stamp, payload),
        Kind::DatabaseDrop => Ok(Record::DatabaseDrop(DbId(stamp.u64()?))),
        Kind::Metadata => {
            let (label, mut payload) = label::split(payload)?;
            Ok(Record::Metadata { body: payload.metadata()?, label })
        }
        Kind::Term => disk::decode(payload)
            .map(Record::Term)
            .map_err(|error| err!(Corruption, "the record of a term is unreadable: {error}")),
        Kind::Labels => Reader(payload).labels(DbId(stamp.u64()?)).map(Record::Labels),
        Kind::Removal => {
            Err(err!(Corruption, "a record that removes rows was written by a newer server"))
        }
    }
}

fn decode_load<'a>(mut stamp: Reader<'a>, mut payload: Reader<'a>) -> Result<Record<'a>> {
    let count = stamp.u16()?;
    let mut parts = Vec::with_capacity(usize::from(count.min(64)));
    for _ in 0..count {
        let part_stamp = PartStamp {
            table: TableId(stamp.u64()?),
            partition: PartitionId(stamp.u64()?),
            incarnation: Incarnation(stamp.u32()?),
            txn: TxnId(stamp.u64()?),
            ends_with: stamp.version()?,
            ended: Some(TxnId(stamp.u64()?)).filter(|txn| *txn > TxnId(0)),
        };
        let part = payload.part()?;
        if part.table != part_stamp.table {
            return Err(err!(Corruption, "stamp and payload of a load name different tables"));
        }
        parts.push((part_stamp, part));
    }
    let label = if payload.0.is_empty() { None } else { Some(payload.label()?) };
    Ok(Record::Load { parts, label })
}

fn decode_barrier<'a>(mut stamp: Reader<'a>, payload: &'a [u8]) -> Result<Record<'a>> {
    let (label, mut payload) = label::split(payload)?;
    let count = stamp.u16()?;
    let mut tables = Vec::with_capacity(usize::from(count.min(64)));
    for _ in 0..count {
        let (table, incarnation) = (TableId(stamp.u64()?), Incarnation(stamp.u32()?));
        let schema_version = SchemaVersion(stamp.u32()?);
        let (txn, version) = (TxnId(stamp.u64()?), Version(stamp.u64()?));
        let ended = (txn.get() > 0).then_some(txn);
        tables.push(BarrierStamp { table, incarnation, schema_version, ended, version });
    }
    let body = match payload.u8()? {
        kind @ (1 | 4) => {
            let tablets = (0..count).map(|_| payload.tablets()).collect::<Result<_>>()?;
            if kind == 1 { BarrierBody::Truncate(tablets) } else { BarrierBody::Empty(tablets) }
        }
        2 if count == 1 => {
            let schema = disk::decode(payload.0).map_err(|error| {
                err!(Corruption, "the schema of an ALTER is unreadable: {error}")
            })?;
            BarrierBody::Alter(Arc::new(schema))
        }
        kind @ 5..=8 if count == 1 || kind >= 7 => {
            let changes = match kind {
                7 | 8 => disk::decode::<Vec<Repartition>>(payload.0),
                _ => disk::decode(payload.0).map(|one| vec![one]),
            };
            let changes = changes.map_err(|error| {
                err!(Corruption, "partitions of a table are unreadable: {error}")
            })?;
            if changes.len() != tables.len() {
                return Err(err!(Corruption, "partitions in the log are of other tables"));
            }
            BarrierBody::Divide(changes)
        }
        3 => BarrierBody::Drop,
        other => return Err(err!(Corruption, "barrier {other} in the log is unknown")),
    };
    Ok(Record::Barrier { body, tables, label })
}

/// Decodes a [`Body::Rowsets`].
///
/// # Errors
/// `Corruption` for bytes that no server of this version writes.
pub fn decode_rowsets(bytes: &[u8]) -> Result<Vec<RowsetMeta>> {
    disk::decode(bytes).map_err(|error| {
        err!(Corruption, "files of a load cannot be read: {error}; start the version that wrote it")
    })
}

/// The parts of records that are types of theirs.
impl<'a> Reader<'a> {
    fn metadata(&mut self) -> Result<MetadataBody<'a>> {
        match self.u8()? {
            0 => Ok(MetadataBody::Inline(self.0)),
            1 => {
                let checksum = self.u32()?;
                let name = std::str::from_utf8(self.0)
                    .map_err(|_| err!(Corruption, "the name of a file in the log is no text"))?;
                Ok(MetadataBody::File { checksum, name })
            }
            other => Err(err!(Corruption, "metadata record {other} in the log is unknown")),
        }
    }

    fn part(&mut self) -> Result<Part<'a>> {
        let table = TableId(self.u64()?);
        let rowsets = self.u8()?;
        let schema_version = SchemaVersion(self.u32()?);
        let (rows, removals) = (self.u32()?, self.u32()?);
        if removals > rows {
            return Err(err!(Corruption, "a record removes {removals} keys with {rows} rows"));
        }
        let len = self.u32()?;
        let bytes = self.take(len as usize)?;
        let body = match rowsets {
            0 => Body::Rows(bytes),
            1 => Body::Rowsets(bytes),
            other => return Err(err!(Corruption, "body {other} in the log is unknown")),
        };
        Ok(Part { table, schema_version, rows, removals, body })
    }
}

#[cfg(test)]
mod tests;
