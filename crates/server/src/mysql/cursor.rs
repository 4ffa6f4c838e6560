//! Cursors: rows of a result that the client fetches in steps.

use std::collections::VecDeque;

use freshet_base::Result;
use freshet_query::RecordBatch;
use freshet_query::result::ResultColumn;
use freshet_wire::{PacketWriter, StatusFlags};

use crate::accounts::SessionMemory;
use crate::mysql::results::{self, Encoding};

/// The rows of a cursor that were not fetched yet.
pub struct CursorRows {
    columns: Vec<ResultColumn>,
    batches: VecDeque<RecordBatch>,
    row: usize,
    memory: SessionMemory,
}

impl CursorRows {
    /// A cursor over all rows of a result, with the memory they take.
    pub fn new(
        columns: Vec<ResultColumn>,
        batches: VecDeque<RecordBatch>,
        memory: SessionMemory,
    ) -> Self {
        Self { columns, batches, row: 0, memory }
    }

    /// # Errors
    /// A column type that cannot be sent.
    pub fn fetch(
        &mut self,
        count: u32,
        status: StatusFlags,
        writer: &mut PacketWriter,
    ) -> Result<()> {
        let mut left = count as usize;
        while left > 0 {
            let Some(batch) = self.batches.front() else { break };
            let taken = left.min(batch.num_rows() - self.row);
            let slice = batch.slice(self.row, taken);
            results::rows(writer, &slice, &self.columns, Encoding::Binary)?;
            left -= taken;
            self.row += taken;
            if self.row == batch.num_rows() {
                let left = self.memory.bytes().saturating_sub(batch.get_array_memory_size() as u64);
                self.memory.resize(left).expect("less than before is there");
                self.batches.pop_front();
                self.row = 0;
            }
        }
        let last = self.batches.is_empty();
        let status = status | StatusFlags::CURSOR_EXISTS;
        writer.result_end(status.set(StatusFlags::LAST_ROW_SENT, last), 0);
        Ok(())
    }
}
