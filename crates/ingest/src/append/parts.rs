//! Parts of a record: the rows of one table each, and what is looked at under the append lock
//! before they are appended.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::{Error, Incarnation, Lsn, Result, err};
use freshet_meta::{RowsetMeta, disk};
use freshet_schema::TableSchema;

use crate::admit::HeldMemory;
use crate::buffer::LoadBuffer;
use crate::counter::UsedIds;
use crate::group::JoinSize;
use crate::overtaken::{self, LookedUp, check_generated};
use crate::partitions::Layout;
use crate::record::{PART_HEAD_BYTES, PartHead};
use crate::state::TableState;
use crate::sweep::InFlight;

/// The rows of one table in a load.
pub enum PartBody {
    /// Encoded rows.
    Rows { bytes: Bytes, permit: Permit },
    /// Rowsets in synced files; they get the record's LSN.
    Rowsets {
        metas: Vec<RowsetMeta>,
        /// Prevents the sweep from deleting the files before the record refers to them.
        in_flight: InFlight,
    },
}

/// The part of one table in a load of several tables, or in a large load.
pub struct PartLoad {
    pub table: Arc<TableState>,
    /// The schema of the rows.
    pub schema: Arc<TableSchema>,
    /// The incarnation when the files were written, or when the transaction first wrote to the
    /// table.
    pub began_in: Incarnation,
    pub rows: u32,
    /// How many of the rows, the first ones, only remove their key.
    pub removals: u32,
    pub body: PartBody,
    /// In tables with a primary key, unless its rows are in files.
    pub looked_up: Option<LookedUp>,
    /// In the AUTO_INCREMENT column.
    pub ids: Option<UsedIds>,
}

impl PartLoad {
    /// What a transaction changes of stored rows in one table: what is in `buffer`, with its
    /// memory. `looked_from` is the end of the log when it first looked at such a row.
    pub(crate) fn of_changes(
        table: &Arc<TableState>,
        schema: &Arc<TableSchema>,
        mut buffer: LoadBuffer,
        held: HeldMemory,
        looked_from: Option<Lsn>,
    ) -> Self {
        let (rows, removals) = (buffer.rows(), buffer.removals());
        let mut permit = held.memory;
        permit.resize_over(permit.bytes().max(buffer.payload_bytes() as u64));
        let bytes = buffer.take_payload().slice(PART_HEAD_BYTES..);
        Self {
            table: Arc::clone(table),
            schema: Arc::clone(schema),
            began_in: table.incarnation(),
            rows,
            removals,
            body: PartBody::Rows { bytes, permit },
            looked_up: looked_from.map(|end| LookedUp { end, is_derived: true, is_last: false }),
            ids: None,
        }
    }

    /// Upper bound of its bytes in the record, stamp included.
    pub(crate) fn record_bytes(&self) -> usize {
        const STAMP_BYTES: usize = 64;
        let body = match &self.body {
            PartBody::Rows { bytes, .. } => bytes.len(),
            PartBody::Rowsets { metas, .. } => disk::encoded_len(metas),
        };
        PART_HEAD_BYTES + STAMP_BYTES + body
    }

    /// Checks its rows against partitions; those in files stand in theirs.
    pub(super) fn check(&self) -> Result<Option<Arc<Layout>>> {
        let PartBody::Rows { bytes, .. } = &self.body else { return Ok(None) };
        self.table.check_rows(self.schema.version, bytes, self.removals)
    }

    pub(super) fn size(&self) -> JoinSize {
        let bytes = match &self.body {
            PartBody::Rows { bytes, .. } => bytes.len() as u64,
            PartBody::Rowsets { metas, .. } => metas.iter().map(RowsetMeta::bytes).sum(),
        };
        JoinSize { rows: u64::from(self.rows), bytes }
    }
}

pub(super) fn encode_parts(parts: &[PartLoad]) -> Vec<u8> {
    let mut payload = Vec::new();
    for part in parts {
        let at = payload.len();
        payload.resize(at + PART_HEAD_BYTES, 0);
        let rowsets = match &part.body {
            PartBody::Rows { bytes, .. } => {
                payload.extend_from_slice(bytes);
                false
            }
            PartBody::Rowsets { metas, .. } => {
                let rows = metas.iter().map(|meta| meta.rows).sum::<u64>();
                assert_eq!(rows, u64::from(part.rows), "a record counts the rows of its files");
                payload.extend_from_slice(&disk::encode(metas));
                true
            }
        };
        let len = u32::try_from(payload.len() - at - PART_HEAD_BYTES)
            .expect("a record is far below 4 GiB");
        let head = &mut payload[at..at + PART_HEAD_BYTES];
        let (table, schema_version) = (part.table.id, part.schema.version);
        let PartLoad { rows, removals, .. } = *part;
        PartHead { table, rowsets, schema_version, rows, removals, len }.write(head);
    }
    payload
}

fn exchanged(table: &TableState) -> Error {
    err!(
        SnapshotTooOld,
        "the rows of table '{}' were exchanged for those of a partition while the load ran; \
         nothing was loaded, send it again",
        table.name()
    )
}

/// Checks all tables before modifying any: a record is appended entirely or not at all.
pub(super) fn check_parts(parts: &[PartLoad], layouts: &[Option<Arc<Layout>>]) -> Result<()> {
    for (part, layout) in parts.iter().zip(layouts) {
        let group = part.table.lock();
        let log = group.log();
        if group.is_gone() {
            return Err(part.table.gone());
        }
        let versions = (part.schema.version, log.schema_version());
        overtaken::check(&part.table, part.looked_up, versions)?;
        let is_in_files = matches!(part.body, PartBody::Rowsets { .. });
        check_generated(&part.table, log, part.schema.version, is_in_files)?;
        match (&part.body, part.table.layout()) {
            (PartBody::Rowsets { metas, .. }, Some(now)) => {
                now.check_files(&part.table.name(), metas)?
            }
            (PartBody::Rows { bytes, .. }, Some(_)) => {
                let schema = || Some(Arc::clone(&part.schema));
                let slices = std::iter::once(&bytes[..]);
                part.table.check_slices_again(layout.as_ref(), schema, slices, part.removals)?;
            }
            (PartBody::Rowsets { metas, .. }, None) if !part.table.has_tablets_of(metas) => {
                return Err(exchanged(&part.table));
            }
            (_, None) => {}
        }
        if is_in_files {
            overtaken::check_incarnation(&part.table, log, part.began_in)?;
        }
    }
    Ok(())
}
