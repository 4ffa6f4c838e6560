//! Generated ids in encoded rows: a place is left for each, and filled once the rows are counted.

use std::sync::Arc;

use freshet_base::Result;
use freshet_schema::TableSchema;
use freshet_schema::row::{RowCells, RowWriter};

use crate::counter::{Counter, IdSlot, Steps, UsedIds, Wanted, explicit_id};

/// What a session says of generated ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdRules {
    pub steps: Steps,
    /// NO_AUTO_VALUE_ON_ZERO: 0 is a value like others.
    pub zero_is_value: bool,
}

/// Where the ids of a table come from.
#[derive(Clone, Debug)]
pub(super) struct IdPlan {
    counter: Arc<Counter>,
    rules: IdRules,
    /// The first one, instead of the counter's.
    pub forced: Option<u64>,
    /// The index of the column.
    pub column: usize,
    name: String,
    /// The highest id.
    last: u64,
    /// The bytes of a cell.
    bytes: usize,
    signed: bool,
}

impl IdPlan {
    pub fn new(schema: &TableSchema, counter: &Arc<Counter>, rules: IdRules) -> Option<Self> {
        let at = schema.auto_increment()?;
        let column = &schema.columns[at];
        let (last, bytes) = column.ty.generated_ids()?;
        let signed = !column.ty.is_unsigned();
        // What a session says is of ids that it sees.
        let rules = if schema.row_id().is_some() { IdRules::default() } else { rules };
        let (counter, name) = (Arc::clone(counter), column.name.clone());
        Some(Self { counter, rules, forced: None, column: at, name, last, bytes, signed })
    }

    /// Takes other ids for encoded rows, all of whose ids were generated. `None` where these are
    /// still good, or some were not generated.
    ///
    /// # Errors
    /// 1467 when the column cannot hold as many.
    pub fn renew(
        &self,
        schema: &TableSchema,
        used: &UsedIds,
        bytes: &mut [u8],
    ) -> Result<Option<UsedIds>> {
        if used.explicit.is_some() || self.counter.is_current(used) {
            return Ok(None);
        }
        let (cells, mut slots, mut at) = (RowCells::new(schema), Vec::new(), 0);
        while at < bytes.len() {
            let row = &bytes[at..];
            slots.push(IdSlot { at: at + cells.offset(row, self.column), floor: 0 });
            at += cells.row_bytes(row);
        }
        let wanted = self.wanted(&slots, None, 0);
        let put = |at: usize, id: u64| {
            bytes[at..at + self.bytes].copy_from_slice(&id.to_le_bytes()[..self.bytes]);
        };
        self.counter.take(&wanted, &self.name, put).map(Some)
    }

    fn wanted<'a>(
        &self,
        slots: &'a [IdSlot],
        explicit: Option<u64>,
        explicit_max: u64,
    ) -> Wanted<'a> {
        let (steps, last, forced) = (self.rules.steps, self.last, self.forced);
        Wanted { slots, explicit_max, explicit, steps, last, forced }
    }

    /// The cell that a generated id overwrites.
    pub fn place(&self) -> &'static [u8] {
        &[0; 8][..self.bytes]
    }

    /// What an encoded cell says.
    pub fn explicit(&self, cell: &[u8]) -> RowId {
        match explicit_id(&cell[..self.bytes], self.signed) {
            Some(0) if !self.rules.zero_is_value => RowId::Wanted,
            Some(id) => RowId::Explicit(id),
            // A negative one does not move the counter.
            None => RowId::None,
        }
    }
}

/// The id of the current row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowId {
    None,
    /// One is to be generated.
    Wanted,
    /// One is to be generated, for the cell at this offset.
    Place(usize),
    Explicit(u64),
}

/// The ids of the rows that an encoder has completed.
#[derive(Debug)]
pub(super) struct RowIds {
    slots: Vec<IdSlot>,
    explicit: Option<u64>,
    explicit_max: u64,
    /// That of the row that was begun.
    pub row: RowId,
}

impl RowIds {
    pub fn new() -> Self {
        Self { slots: Vec::new(), explicit: None, explicit_max: 0, row: RowId::None }
    }

    /// Counts the id of a row that is complete.
    pub fn end_row(&mut self) {
        match std::mem::replace(&mut self.row, RowId::None) {
            RowId::Place(at) => self.slots.push(IdSlot { at, floor: self.explicit_max }),
            RowId::Explicit(id) => {
                self.explicit = Some(id);
                self.explicit_max = self.explicit_max.max(id);
            }
            RowId::None | RowId::Wanted => {}
        }
    }

    /// Takes ids and writes them to their places.
    ///
    /// # Errors
    /// 1467 when the column cannot hold as many.
    pub fn fill(&self, plan: &IdPlan, writer: &mut RowWriter<'_>) -> Result<Option<UsedIds>> {
        if self.slots.is_empty() && self.explicit.is_none() {
            return Ok(None);
        }
        let wanted = plan.wanted(&self.slots, self.explicit, self.explicit_max);
        let put = |at: usize, id: u64| writer.patch(at, &id.to_le_bytes()[..plan.bytes]);
        plan.counter.take(&wanted, &plan.name, put).map(Some)
    }
}
