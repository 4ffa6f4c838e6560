//! Loads whose rows stand in the pieces in which they were decoded: log and delta share these, and
//! nothing puts them together.

use bytes::Bytes;
use freshet_base::Result;
use freshet_storage::delta;
use freshet_wal as wal;

use super::{Appended, Appender, SHARED_BYTES_MIN, SmallLoad};
use crate::admit::Admitted;
use crate::counter::UsedIds;
use crate::record::PART_HEAD_BYTES;

/// Encoded rows in their order; each piece has whole ones.
pub struct RowPieces {
    pub pieces: Vec<Bytes>,
    pub rows: u32,
    /// The ids in the rows, of an AUTO_INCREMENT column.
    pub ids: Option<UsedIds>,
}

impl RowPieces {
    /// Size of the payload of their record, without a label.
    pub fn payload_bytes(&self) -> usize {
        PART_HEAD_BYTES + self.pieces.iter().map(Bytes::len).sum::<usize>()
    }
}

impl Appender {
    /// As [`Self::append_rows`], of rows in pieces.
    ///
    /// # Errors
    /// Those of [`Self::append_rows`].
    pub fn append_pieces(
        &self,
        mut load: SmallLoad<'_>,
        of: RowPieces,
        admitted: Admitted,
    ) -> Result<Appended> {
        self.check_flushable(load.table)?;
        let _entered = self.enter_ids(load.table, of.ids)?;
        let end = of.payload_bytes();
        let is_paid = admitted.permit.bytes() >= end as u64;
        assert!(is_paid, "rows that enter the delta hold their memory");
        let RowPieces { pieces, rows, .. } = of;
        let slices = pieces.iter().map(|piece| &piece[..]);
        let layout = load.table.check_slices(load.schema_version, slices, 0)?;
        let mut head = vec![0; PART_HEAD_BYTES];
        load.part_head(rows, 0, end - PART_HEAD_BYTES).write(&mut head);
        let mut payload = vec![Bytes::from(head)];
        payload.extend_from_slice(&pieces);
        let mut label = Vec::new();
        load.write_label(&mut label);
        if !label.is_empty() {
            payload.push(label.into());
        }
        let rows = (rows, 0, layout);
        let whole = (end < SHARED_BYTES_MIN).then(|| payload.concat());
        let (payload, encoded) = match &whole {
            Some(whole) => {
                let rows = delta::Payload::Copied(&whole[PART_HEAD_BYTES..end]);
                (wal::Payload::Slice(whole), rows)
            }
            None => (wal::Payload::Pieces(payload), delta::Payload::Pieces(pieces)),
        };
        self.append_load(load, rows, payload, encoded, admitted).map(|(appended, _)| appended)
    }
}
