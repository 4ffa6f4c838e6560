//! Generated ids in encoded rows: a place is left for each, and filled once the rows are counted.

use std::sync::Arc;

use freshet_base::Result;
use freshet_schema::row::{RowCells, RowWriter};
use freshet_schema::{ROW_ID, TableSchema};

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
    /// Whether each row ends with a number that only names it.
    names_rows: bool,
}

impl IdPlan {
    pub fn new(schema: &TableSchema, counter: &Arc<Counter>, rules: IdRules) -> Option<Self> {
        let at = schema.auto_increment()?;
        let column = &schema.columns[at];
        let (last, bytes) = column.ty.generated_ids()?;
        let signed = !column.ty.is_unsigned();
        // What a session says is of ids that it sees.
        let rules = if schema.row_id() == Some(at) { IdRules::default() } else { rules };
        let (counter, name) = (Arc::clone(counter), column.name.clone());
        let (names_rows, forced) = (schema.row_id_beside().is_some(), None);
        Some(Self { counter, rules, forced, column: at, name, last, bytes, signed, names_rows })
    }

    /// Takes other ids for encoded rows, all of whose ids were generated. `None` where these are
    /// still good, or some were not generated: a negative one, too, of which `used` says nothing.
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
            let place = at + cells.offset(row, self.column);
            if explicit_id(&bytes[place..place + self.bytes], self.signed).is_none() {
                return Ok(None);
            }
            slots.push(IdSlot { at: place, floor: 0 });
            at += cells.row_bytes(row);
        }
        let wanted = self.wanted(&slots, None, 0);
        let put = |at: usize, id: u64| {
            bytes[at..at + self.bytes].copy_from_slice(&id.to_le_bytes()[..self.bytes]);
        };
        let renewed = self.counter.take(&wanted, &self.name, put)?;
        if !self.names_rows {
            return Ok(Some(renewed));
        }
        let numbers = self.row_numbers(&cells, bytes, &slots);
        numbers.same.iter().for_each(|&(from, to)| {
            let id = row_number(&bytes[from..from + self.bytes]);
            bytes[to..to + ROW_ID_BYTES].copy_from_slice(&id);
        });
        let put = |at: usize, id: u64| {
            bytes[at..at + ROW_ID_BYTES].copy_from_slice(&id.to_le_bytes());
        };
        Ok(UsedIds::join(Some(renewed), self.take_own(&numbers.own, put)?))
    }

    /// Where the numbers of rows come from that only name them; `slots` are those of their ids.
    fn row_numbers(&self, cells: &RowCells, rows: &[u8], slots: &[IdSlot]) -> RowNumbers {
        let (mut slots, mut at) = (slots.iter().peekable(), 0);
        let mut numbers = RowNumbers::default();
        while at < rows.len() {
            at += cells.row_bytes(&rows[at..]);
            // The column stands behind all others.
            let place = at - ROW_ID_BYTES;
            match slots.next_if(|slot| slot.at < at) {
                // One that the session has set may be that of another row.
                Some(slot) if self.forced.is_none() => numbers.same.push((slot.at, place)),
                _ => numbers.own.push(IdSlot { at: place, floor: 0 }),
            }
        }
        numbers
    }

    fn take_own(&self, own: &[IdSlot], put: impl FnMut(usize, u64)) -> Result<Option<UsedIds>> {
        if own.is_empty() {
            return Ok(None);
        }
        let (steps, explicit_max, explicit) = (Steps::default(), 0, None);
        let wanted =
            Wanted { slots: own, explicit_max, explicit, steps, last: u64::MAX - 1, forced: None };
        let taken = self.counter.take(&wanted, ROW_ID, put)?;
        Ok(Some(taken.only_name()))
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

/// The bytes of the number of a row.
const ROW_ID_BYTES: usize = size_of::<u64>();

/// The numbers of rows that only name them.
#[derive(Default)]
struct RowNumbers {
    /// Those that are the id of the row: from where to where.
    same: Vec<(usize, usize)>,
    /// Those of rows that gave their id themselves.
    own: Vec<IdSlot>,
}

/// The cell of a number that is the id of a row.
fn row_number(id: &[u8]) -> [u8; ROW_ID_BYTES] {
    let mut cell = [0; ROW_ID_BYTES];
    cell[..id.len()].copy_from_slice(id);
    cell
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

    /// Takes ids and writes them to their places in the rows from `begin` on.
    ///
    /// # Errors
    /// 1467 when the column cannot hold as many.
    pub fn fill(
        &self,
        plan: &IdPlan,
        (schema, begin): (&TableSchema, usize),
        writer: &mut RowWriter<'_>,
    ) -> Result<Option<UsedIds>> {
        let seen = if self.slots.is_empty() && self.explicit.is_none() {
            None
        } else {
            let wanted = plan.wanted(&self.slots, self.explicit, self.explicit_max);
            let put = |at: usize, id: u64| writer.patch(at, &id.to_le_bytes()[..plan.bytes]);
            Some(plan.counter.take(&wanted, &plan.name, put)?)
        };
        if !plan.names_rows {
            return Ok(seen);
        }
        let inside = |slot: &IdSlot| IdSlot { at: slot.at - begin, ..*slot };
        let slots = self.slots.iter().map(inside).collect::<Vec<_>>();
        let cells = RowCells::new(schema);
        let numbers = plan.row_numbers(&cells, writer.bytes_from(begin), &slots);
        for &(from, to) in &numbers.same {
            let id = row_number(&writer.bytes_from(begin + from)[..plan.bytes]);
            writer.patch(begin + to, &id);
        }
        let put = |at: usize, id: u64| writer.patch(begin + at, &id.to_le_bytes());
        Ok(UsedIds::join(seen, plan.take_own(&numbers.own, put)?))
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::{ColumnId, SchemaVersion, TableId};
    use freshet_schema::{Column, ColumnType, row_id_column};

    use super::*;

    fn schema() -> TableSchema {
        let big = ColumnType::BigInt { unsigned: false };
        let id = Column {
            auto_increment: Some(1),
            nullable: false,
            ..Column::new(ColumnId(1), "id", big)
        };
        let columns = vec![id, row_id_column(ColumnId(2))];
        TableSchema::new(SchemaVersion(1), columns, vec![1]).hiding_row_id()
    }

    fn cells(schema: &TableSchema, rows: &[u8]) -> Vec<(i64, i64)> {
        let (cells, mut found, mut rest) = (RowCells::new(schema), Vec::new(), rows);
        while !rest.is_empty() {
            let cell = |at| cells.cell(rest, at).expect("it is no NULL");
            let number = |at| i64::from_le_bytes(cell(at).try_into().expect("eight bytes"));
            found.push((number(0), number(1)));
            rest = &rest[cells.row_bytes(rest)..];
        }
        found
    }

    /// Encodes rows with these ids, and takes those that are missing.
    fn filled(plan: &IdPlan, schema: &TableSchema, ids: &[Option<i64>]) -> (Vec<u8>, UsedIds) {
        let (mut rows, mut taken) = (Vec::new(), RowIds::new());
        let mut writer = RowWriter::new(2, &mut rows);
        for id in ids {
            writer.begin_row();
            let start = writer.offset();
            writer.put_encoded(&id.unwrap_or_default().to_le_bytes());
            taken.row = match id {
                None => RowId::Place(start),
                Some(id) => plan.explicit(&id.to_le_bytes()),
            };
            writer.put_encoded(&[0; ROW_ID_BYTES]);
            writer.end_row();
            taken.end_row();
        }
        let used = taken.fill(plan, (schema, 0), &mut writer).unwrap();
        (rows, used.expect("rows have numbers"))
    }

    #[test]
    fn a_row_is_named_by_its_id_or_by_a_number_of_its_own() {
        let (schema, counter) = (schema(), Arc::new(Counter::new(TableId(1), 1)));
        let plan = IdPlan::new(&schema, &counter, IdRules::default()).unwrap();
        let (rows, _) = filled(&plan, &schema, &[None, Some(-5), None, Some(1)]);
        assert_eq!(cells(&schema, &rows), [(1, 1), (-5, 3), (2, 2), (1, 4)]);
    }

    #[test]
    fn ids_that_were_given_stay_behind_a_truncate() {
        let (schema, counter) = (schema(), Arc::new(Counter::new(TableId(1), 1)));
        let plan = IdPlan::new(&schema, &counter, IdRules::default()).unwrap();
        let (mut given, of_given) = filled(&plan, &schema, &[Some(-5), Some(-7)]);
        let (mut some, of_some) = filled(&plan, &schema, &[Some(-5), None]);
        let (mut all, of_all) = filled(&plan, &schema, &[None, None]);
        assert_eq!(plan.renew(&schema, &of_all, &mut all).unwrap(), None, "they are good");
        Counter::stop([&*counter].into_iter()).iter().for_each(|stopped| stopped.restart());
        for (used, rows) in [(of_given, &mut given), (of_some, &mut some)] {
            let before = rows.clone();
            assert_eq!(plan.renew(&schema, &used, rows).unwrap(), None);
            assert_eq!(*rows, before);
        }
        assert!(plan.renew(&schema, &of_all, &mut all).unwrap().is_some());
        let [first, second] = cells(&schema, &all)[..] else { panic!("two rows") };
        assert!(first.0 == first.1 && second.0 == first.0 + 1 && second.1 == second.0);
    }
}
