//! Rows of a transaction go to files once memory holds `transaction_bytes_max` of them (RFC 0042).

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::{ByteSize, Result, TableId, bail};
use freshet_schema::KeyModel;

use super::{OwnRows, TableRows, bytes_of};
use crate::admit::WaitLimit;
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::own_part::{Piece, pieces};
use crate::spool;
use crate::target::LoadTarget;

impl OwnRows {
    /// Checks that all rows of a table that the transaction has written are in memory.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn check_in_memory(&self, table: TableId) -> Result<()> {
        let parts = self.0.parts.lock();
        let part = parts.iter().find(|part| part.table.id == table);
        match part.filter(|part| !part.pieces().is_empty()) {
            None => Ok(()),
            Some(part) => bail!(
                NotSupported,
                "this transaction has written more to table '{}' than memory holds \
                 (transaction_bytes_max), so its rows are in a file: the table can be read and \
                 changed again behind COMMIT or ROLLBACK",
                part.table.name()
            ),
        }
    }

    /// Makes room in memory for the rows of a statement, whose first ones these may be: rows of
    /// statements before go to files, and if that is not enough, the rows of `buffer` do. Returns
    /// whether they have; they count once [`Self::load`] is told so.
    ///
    /// # Errors
    /// When files cannot be written; `OutOfRoom` for what cannot go to files. No rows were added.
    pub(crate) async fn make_room_for(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        buffer: &mut LoadBuffer,
        (is_first, patience): (bool, WaitLimit),
    ) -> Result<bool> {
        if self.has_read(target.id()) {
            self.begin_changes(engine, target, patience).await?;
        }
        let more = buffer.row_bytes().len();
        self.make_room(engine, more).await?;
        if self.fits(engine, more) || !self.may_go_to_file(target, buffer) {
            self.check_room(engine, buffer)?;
            return Ok(false);
        }
        self.check_count(buffer)?;
        engine.ddl.make_partitions(target, buffer.row_bytes(), 0).await?;
        target.state.check_rows(target.schema().version, buffer.row_bytes(), 0)?;
        let nothing = engine.admission.hold(0, patience.soon(&engine.admission)).await?;
        super::part_of(&mut self.0.parts.lock(), target, nothing);
        self.move_to_file(engine, target.id()).await?;
        if is_first {
            self.with_part(target.id(), TableRows::forget_pending);
        }
        self.check_files(engine, buffer.row_bytes().len())?;
        let (rows, count) = buffer.take();
        let mut written = 0;
        for (bytes, rows) in pieces(target.schema(), &rows) {
            let place = |part: &mut TableRows| part.place(target.schema(), bytes, rows);
            let Some(piece) = self.with_part(target.id(), place) else { break };
            write(engine, &piece, bytes.to_vec()).await?;
            self.with_part(target.id(), |part| part.pend(piece));
            written += rows;
        }
        assert_eq!(written, count, "all rows of a statement go to the file");
        Ok(true)
    }

    /// Moves rows to files until as many as there may be are in memory, with `more` bytes; or as
    /// many as can be.
    async fn make_room(&self, engine: &Engine, more: usize) -> Result<()> {
        while !self.fits(engine, more) {
            let largest = {
                let (parts, unkeyed) = (self.0.parts.lock(), self.0.unkeyed.lock());
                // Changes of stored rows, and the rows beside them, are one record.
                let may_go = |part: &&TableRows| {
                    let id = part.table.id;
                    let is_keyed = self.has_changes_of(id) || self.has_read(id);
                    !unkeyed.iter().any(|of| of.id() == id) && !is_keyed
                };
                let largest = parts.iter().filter(may_go).max_by_key(|part| part.encoded().len());
                largest.filter(|part| !part.encoded().is_empty()).map(|part| part.table.id)
            };
            let Some(largest) = largest else { break };
            self.move_to_file(engine, largest).await?;
        }
        Ok(())
    }

    fn fits(&self, engine: &Engine, more: usize) -> bool {
        let bytes = bytes_of(&self.0.parts.lock()) + more;
        bytes as u64 <= engine.config().transaction_bytes_max.bytes()
    }

    fn may_go_to_file(&self, target: &LoadTarget, buffer: &LoadBuffer) -> bool {
        let is_plain = target.table().key_model != KeyModel::Primary && buffer.removals() == 0;
        let is_changed = self.has_changes_of(target.id());
        is_plain && !is_changed && !self.0.unkeyed.lock().iter().any(|of| of.id() == target.id())
    }

    /// Moves the rows of a table that are in memory to its file. Who is interrupted leaves some
    /// there.
    async fn move_to_file(&self, engine: &Engine, table: TableId) -> Result<()> {
        if self.with_part(table, |part: &mut TableRows| part.file()).flatten().is_none() {
            // Ids are given out once the term has begun.
            engine.begun().await?;
            let name = format!("rows-{:016x}", engine.meta().ids().txn()?.get());
            let file = spool::create(engine, &name).await?;
            self.with_part(table, |part| part.set_file(file));
        }
        loop {
            let first = self.with_part(table, |part: &mut TableRows| part.first_piece());
            let Some((bytes, rows)) = first.flatten() else { break };
            self.check_files(engine, bytes.len())?;
            let place = |part: &mut TableRows| {
                let schema = Arc::clone(&part.schema);
                part.place(&schema, &bytes, rows)
            };
            let Some(piece) = self.with_part(table, place) else { break };
            write(engine, &piece, bytes).await?;
            self.with_part(table, |part| part.moved(piece));
        }
        Ok(())
    }

    /// Checks that the files of the transaction may have so many bytes more.
    fn check_files(&self, engine: &Engine, more: usize) -> Result<()> {
        let limit = engine.config().transaction_file_bytes_max;
        let bytes = self.0.parts.lock().iter().map(TableRows::file_bytes).sum::<u64>();
        if bytes + more as u64 <= limit.bytes() {
            return Ok(());
        }
        bail!(
            OutOfRoom,
            "the transaction has {} of rows in files and would pass {limit} with {} more \
             (transaction_file_bytes_max); the statement has written nothing: COMMIT, and go on in \
             another transaction",
            ByteSize(bytes),
            ByteSize(more as u64)
        )
    }

    pub(super) fn with_part<R>(
        &self,
        table: TableId,
        with: impl FnOnce(&mut TableRows) -> R,
    ) -> Option<R> {
        let mut parts = self.0.parts.lock();
        parts.iter_mut().find(|part| part.table.id == table).map(with)
    }
}

async fn write(engine: &Engine, piece: &Piece, bytes: Vec<u8>) -> Result<()> {
    let (file, at) = piece.place();
    spool::write(engine, file, Bytes::from(bytes), at).await
}
