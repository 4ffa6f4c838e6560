//! Commits rows in the pieces in which they came, where putting them together would cost more.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::Result;
use freshet_meta::Claim;
use freshet_schema::{GroupCommitMode, KeyModel};

use super::Load;
use crate::append::pieces::RowPieces;
use crate::append::{Appended, SHARED_BYTES_MIN, Signed, SmallLoad};
use crate::behind::wait_for_keys;
use crate::buffer::{LoadBuffer, too_many_rows};
use crate::counter::UsedIds;
use crate::target::{KeyOutcome, Loaded};

impl Load<'_> {
    /// Whether its rows are appended in their pieces: these are long, and nobody looks for the keys
    /// in them.
    pub(super) fn comes_in_pieces(&self) -> bool {
        let is_looked_up = self.target.table().key_model == KeyModel::Primary;
        let are_long = self.pieces_bytes >= self.pieces.len() * SHARED_BYTES_MIN;
        !self.pieces.is_empty() && are_long && !is_looked_up
    }

    /// All rows in the pieces in which they came, those in `last` behind the others, with their
    /// number; the load holds their memory.
    ///
    /// # Errors
    /// `OutOfRoom` for too many rows.
    pub(super) fn take_pieces(&mut self, last: &mut LoadBuffer) -> Result<(Vec<Bytes>, u32)> {
        assert_eq!(last.removals(), 0, "rows that remove come in one buffer");
        let (mut pieces, mut rows) = (Vec::with_capacity(self.pieces.len() + 1), 0u32);
        for (piece, count, memory) in std::mem::take(&mut self.pieces) {
            rows = rows.checked_add(count).ok_or_else(too_many_rows)?;
            pieces.push(piece);
            self.add_memory(memory);
        }
        if last.rows() > 0 {
            let (piece, count) = last.take();
            rows = rows.checked_add(count).ok_or_else(too_many_rows)?;
            pieces.push(piece);
        }
        Ok((pieces, rows))
    }

    /// Commits a load of one record with those in `last`.
    ///
    /// # Errors
    /// Those of [`Load::commit`].
    pub(super) async fn commit_pieces(
        mut self,
        last: &mut LoadBuffer,
        mode: GroupCommitMode,
        label: Option<Claim>,
    ) -> Result<Loaded> {
        let (engine, target, patience) = (self.engine, self.target, self.patience);
        let given = label.as_ref().map(|label| Arc::from(label.label()));
        let ids = UsedIds::join(self.ids, last.ids());
        let (pieces, rows) = self.take_pieces(last)?;
        for piece in &pieces {
            engine.ddl.make_partitions(target, piece, 0).await?;
        }
        let of = RowPieces { pieces, rows, ids };
        wait_for_keys(engine, &target.state, || patience.soon(&engine.admission)).await?;
        let admitted = engine.admission.admit(of.payload_bytes(), self.held, patience).await?;
        let (table, schema_version) = (&target.state, target.schema().version);
        let signed = Signed::Label(label);
        let load = SmallLoad { table, schema_version, mode, signed, looked_up: None };
        let Appended { lsn, txn } = engine.appender.append_pieces(load, of, admitted)?;
        Ok(Loaded { lsn, txn: Some(txn), mode, given, keys: KeyOutcome::default() })
    }
}
