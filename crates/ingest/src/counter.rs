//! Generated ids: AUTO_INCREMENT (keys.md K39).
//!
//! A statement takes a range once its rows are encoded, in memory. Before its record is appended,
//! whoever appends *enters*: if the ids are not below the end that the log has, a record with a
//! higher end goes ahead of the rows. So no sync is added, and what a crash loses of the ids was
//! never acknowledged. Since blocks are reserved at half, most statements append nothing besides.
//!
//! A TRUNCATE begins a new *epoch* of the ids while nobody is between entering and appending.

use freshet_base::{Error, Lsn, Result, TableId, err};
use freshet_schema::TableSchema;
use freshet_schema::row::RowCells;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Ids of the first block; the following are twice as large each, up to the maximum. A crash skips
/// what is left of a block, so a table of few rows has small ones.
const BLOCK_MIN: u64 = 1_000;
const BLOCK_MAX: u64 = 100_000;

/// The ids of one table.
#[derive(Debug)]
pub struct Counter {
    table: TableId,
    state: Mutex<State>,
    /// Shared from the check of ids to the append of their rows, alone while ids begin again.
    gate: RwLock<()>,
}

#[derive(Debug)]
struct State {
    /// The next id.
    next: u64,
    /// Ids below are reserved by a record in the log.
    end: u64,
    /// The position of that record.
    reserved: Lsn,
    /// How many ids that record has reserved.
    last_block: u64,
    /// How many the next one reserves.
    block: u64,
    /// Blocks get twice as large up to this.
    block_max: u64,
    /// Incremented when ids begin again.
    epoch: u64,
}

/// Appends the record that says which ids of a table may be given from here on.
pub(crate) type CountRecord<'a> = &'a dyn Fn(TableId, u64) -> Result<Lsn>;

/// `auto_increment_increment` and `auto_increment_offset`: ids are `offset + n * increment`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    increment: u64,
    offset: u64,
}

impl Steps {
    /// An offset above the increment is ignored, as in MySQL.
    pub fn new(increment: u64, offset: u64) -> Self {
        let increment = increment.max(1);
        Self { increment, offset: if (1..=increment).contains(&offset) { offset } else { 1 } }
    }

    /// The first id from `from` on; `None` beyond 64 bits.
    fn at_least(self, from: u64) -> Option<u64> {
        match from.checked_sub(self.offset) {
            Some(_) if self.increment == 1 => Some(from),
            Some(behind) => behind
                .div_ceil(self.increment)
                .checked_mul(self.increment)?
                .checked_add(self.offset),
            None => Some(self.offset),
        }
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self { increment: 1, offset: 1 }
    }
}

/// A place for a generated id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdSlot {
    /// The offset of its cell in the encoded rows.
    pub at: usize,
    /// The highest explicit id in front of it in its statement; the generated one is higher.
    pub floor: u64,
}

/// The ids in the rows of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedIds {
    /// The first generated one.
    pub generated: Option<u64>,
    /// The last one that a row gave itself.
    pub explicit: Option<u64>,
    /// The first one that only names its row, and that nobody sees.
    hidden: Option<u64>,
    /// The highest one.
    max: u64,
    epoch: u64,
}

impl UsedIds {
    /// Those of rows whose ids cannot have been given to others, up to this one.
    pub(crate) fn up_to(max: u64) -> Self {
        Self { generated: None, explicit: None, hidden: None, max, epoch: 0 }
    }

    /// The same, of rows that they only name.
    pub(crate) fn only_name(self) -> Self {
        Self { generated: None, explicit: None, hidden: self.generated, ..self }
    }

    /// The first one that a counter has given.
    fn first_given(&self) -> Option<u64> {
        self.generated.into_iter().chain(self.hidden).min()
    }

    /// The highest one.
    pub(crate) fn highest(&self) -> u64 {
        self.max
    }

    /// Those of two parts of a load.
    pub fn join(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (Some(a), Some(b)) = (first, second) else { return first.or(second) };
        Some(Self {
            generated: a.generated.into_iter().chain(b.generated).min(),
            explicit: b.explicit.or(a.explicit),
            hidden: a.hidden.into_iter().chain(b.hidden).min(),
            max: a.max.max(b.max),
            epoch: a.epoch.min(b.epoch),
        })
    }
}

/// What a statement takes ids for.
pub(crate) struct Wanted<'a> {
    pub slots: &'a [IdSlot],
    /// The highest and the last explicit id.
    pub explicit_max: u64,
    pub explicit: Option<u64>,
    pub steps: Steps,
    /// The highest id that the column can hold.
    pub last: u64,
    /// `insert_id`: the first generated id, instead of the next one.
    pub forced: Option<u64>,
}

impl Wanted<'_> {
    /// Calls `put` with the offset and id of each slot, from `from` on; returns the first and the
    /// last id, or `None` if the column cannot hold them.
    fn assign(&self, from: u64, mut put: impl FnMut(usize, u64)) -> Option<(u64, u64)> {
        let (mut first, mut next) = (None, from);
        for slot in self.slots {
            let id = self.steps.at_least(next.max(slot.floor.checked_add(1)?))?;
            if id > self.last {
                return None;
            }
            put(slot.at, id);
            first.get_or_insert(id);
            next = id.checked_add(1)?;
        }
        Some((first.unwrap_or(from), next - 1))
    }
}

impl Counter {
    /// Continues with `next`: no higher id was given.
    pub(crate) fn new(table: TableId, next: u64) -> Self {
        Self::in_blocks(table, next, BLOCK_MIN, BLOCK_MAX)
    }

    /// Continues with `next`, and reserves blocks of this size.
    pub(crate) fn in_blocks(table: TableId, next: u64, block: u64, block_max: u64) -> Self {
        let (end, reserved, last_block, epoch) = (next, Lsn::ZERO, 0, 0);
        let state = State { next, end, reserved, last_block, block, block_max, epoch };
        Self { table, state: Mutex::new(state), gate: RwLock::default() }
    }

    /// The next id.
    pub fn next(&self) -> u64 {
        self.state.lock().next
    }

    /// Takes ids for all slots, which follow each other unless explicit ones are between them, and
    /// calls `put` with the offset and id of each.
    ///
    /// # Errors
    /// 1467 when the column cannot hold as many.
    pub(crate) fn take(
        &self,
        wanted: &Wanted<'_>,
        column: &str,
        put: impl FnMut(usize, u64),
    ) -> Result<UsedIds> {
        let exhausted = |next: u64| {
            err!(
                NoMoreIds,
                "Failed to read auto-increment value from storage engine: column '{column}' holds \
                 ids up to {}, the next one is {next} and the statement needs {}",
                wanted.last,
                wanted.slots.len()
            )
        };
        let (from, epoch) = {
            let mut state = self.state.lock();
            let from = wanted.forced.unwrap_or(state.next);
            let Some((_, last)) = wanted.assign(from, |_, _| ()) else {
                return Err(exhausted(from));
            };
            if wanted.forced.is_none() && !wanted.slots.is_empty() {
                state.next = last + 1;
            }
            (from, state.epoch)
        };
        let Some((first, last)) = wanted.assign(from, put) else { return Err(exhausted(from)) };
        let generates = !wanted.slots.is_empty();
        let last = if generates { last } else { 0 };
        Ok(UsedIds {
            generated: generates.then_some(first),
            explicit: wanted.explicit,
            hidden: None,
            max: last.max(wanted.explicit_max),
            epoch,
        })
    }

    /// The ids in encoded rows, none of them generated just now; `None` where no id is positive.
    ///
    /// # Panics
    /// When there are fewer rows.
    pub fn of_rows(&self, schema: &TableSchema, mut bytes: &[u8], rows: u32) -> Option<UsedIds> {
        let (column, beside) = (schema.auto_increment()?, schema.row_id_beside());
        let cells = RowCells::new(schema);
        let id = |bytes: &[u8], column: usize| {
            let signed = !schema.columns[column].ty.is_unsigned();
            cells.cell(bytes, column).and_then(|cell| explicit_id(cell, signed))
        };
        let (mut explicit, mut max) = (None, None);
        for _ in 0..rows {
            explicit = explicit.max(id(bytes, column));
            max = max.max(explicit).max(beside.and_then(|at| id(bytes, at)));
            bytes = &bytes[cells.row_bytes(bytes)..];
        }
        let (epoch, generated, hidden) = (self.state.lock().epoch, None, None);
        max.map(|max| UsedIds { generated, explicit, hidden, max, epoch })
    }

    /// Whether ids have not begun again since these were taken.
    pub(crate) fn is_current(&self, used: &UsedIds) -> bool {
        self.state.lock().epoch == used.epoch
    }

    /// Checks that ids have not begun again since these were generated: a row that has one of them
    /// now would be another one's.
    ///
    /// # Errors
    /// 1213 when they have.
    pub(crate) fn check(&self, used: &UsedIds) -> Result<()> {
        match used.first_given() {
            Some(_) if !self.is_current(used) => Err(begun_again()),
            _ => Ok(()),
        }
    }

    /// Lets rows with these ids into the log, as long as the answer is held: the ids are reserved
    /// by a record that stands there already.
    ///
    /// # Errors
    /// `OutOfRoom` while the log is full; 1213 when ids have begun again since, and others may have
    /// been given the same.
    pub(crate) fn enter(&self, used: &UsedIds, count: CountRecord<'_>) -> Result<EnteredIds<'_>> {
        let gate = self.gate.read();
        let mut state = self.state.lock();
        if used.epoch != state.epoch && used.first_given().is_some_and(|first| first < state.next) {
            return Err(begun_again());
        }
        state.next = state.next.max(used.max.saturating_add(1));
        self.reserve(&mut state, count)?;
        let reserved = state.reserved;
        drop(state);
        Ok(EnteredIds { _gate: gate, reserved })
    }

    /// Moves on to `next`, if that is higher, and returns the position of the record that says so.
    ///
    /// # Errors
    /// `OutOfRoom` while the log is full.
    pub(crate) fn move_to(&self, next: u64, count: CountRecord<'_>) -> Result<Lsn> {
        let _gate = self.gate.read();
        let mut state = self.state.lock();
        state.next = state.next.max(next);
        self.reserve(&mut state, count)?;
        Ok(state.reserved)
    }

    /// Takes the next numbers from `floor` on, which follow each other: the first of them, and the
    /// position of the record that reserves them. `None` where the last one would be above `last`.
    ///
    /// # Errors
    /// `OutOfRoom` while the log is full; nothing is taken then.
    pub(crate) fn draw(
        &self,
        wanted: u32,
        floor: u64,
        last: u64,
        count: CountRecord<'_>,
    ) -> Result<Option<(u64, Lsn)>> {
        let _gate = self.gate.read();
        let mut state = self.state.lock();
        let (before, first) = (state.next, state.next.max(floor));
        let end = first.checked_add(u64::from(wanted));
        let Some(end) = end.filter(|end| *end <= last.saturating_add(1)) else { return Ok(None) };
        state.next = end;
        if let Err(error) = self.reserve(&mut state, count) {
            state.next = before;
            return Err(error);
        }
        Ok(Some((first, state.reserved)))
    }

    /// Reserves a block once less than half of the last one is left. The record is appended under
    /// the lock, so that the last record has the highest end.
    fn reserve(&self, state: &mut State, count: CountRecord<'_>) -> Result<()> {
        if state.next.saturating_add(state.last_block / 2) <= state.end {
            return Ok(());
        }
        let end = state.next.saturating_add(state.block);
        match count(self.table, end) {
            Ok(lsn) => {
                (state.end, state.reserved, state.last_block) = (end, lsn, state.block);
                state.block = (state.block * 2).min(state.block_max);
                Ok(())
            }
            // It is ahead of need.
            Err(_) if state.next <= state.end => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives back what is reserved, at a stop: the next start leaves out no ids.
    ///
    /// # Errors
    /// `OutOfRoom` while the log is full.
    pub(crate) fn park(&self, count: CountRecord<'_>) -> Result<()> {
        let mut state = self.state.lock();
        if state.next < state.end {
            count(self.table, state.next)?;
            state.end = state.next;
        }
        Ok(())
    }

    /// Keeps rows with ids of these tables out of the log until the answer is dropped.
    pub(crate) fn stop<'a>(counters: impl Iterator<Item = &'a Self>) -> Vec<StoppedCounter<'a>> {
        let mut counters = counters.collect::<Vec<_>>();
        // In one order, so that nobody waits in a circle.
        counters.sort_unstable_by_key(|counter| counter.table);
        // Temporary partitions count with their table.
        counters.dedup_by_key(|counter| counter.table);
        counters.into_iter().map(StoppedCounter::new).collect()
    }
}

fn begun_again() -> Error {
    err!(
        Deadlock,
        "Deadlock found when trying to get lock; try restarting transaction: the table was \
         truncated after ids had been generated for these rows"
    )
}

/// The id in an encoded cell; `None` where it is negative.
pub(crate) fn explicit_id(cell: &[u8], signed: bool) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes[..cell.len()].copy_from_slice(cell);
    let is_negative = signed && cell.last().is_some_and(|byte| byte >> 7 == 1);
    (!is_negative).then(|| u64::from_le_bytes(bytes))
}

/// Held from the check of ids to the append of their rows.
pub(crate) struct EnteredIds<'a> {
    _gate: RwLockReadGuard<'a, ()>,
    /// Ids are given for good once this is durable.
    pub reserved: Lsn,
}

/// A counter whose ids begin again.
pub(crate) struct StoppedCounter<'a> {
    counter: &'a Counter,
    _gate: RwLockWriteGuard<'a, ()>,
}

impl<'a> StoppedCounter<'a> {
    fn new(counter: &'a Counter) -> Self {
        Self { counter, _gate: counter.gate.write() }
    }

    /// Begins again with 1: the record of a TRUNCATE is in the log.
    pub fn restart(&self) {
        let mut state = self.counter.state.lock();
        (state.next, state.end, state.last_block, state.block) = (1, 1, 0, BLOCK_MIN);
        state.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(slots: &[IdSlot], last: u64) -> Wanted<'_> {
        let explicit_max = slots.last().map_or(0, |slot| slot.floor);
        let steps = Steps::default();
        Wanted { slots, explicit_max, explicit: None, steps, last, forced: None }
    }

    fn take(counter: &Counter, floors: &[u64], last: u64) -> Result<Vec<u64>> {
        let slots = floors.iter().enumerate();
        let slots = slots.map(|(at, &floor)| IdSlot { at, floor }).collect::<Vec<_>>();
        let mut ids = Vec::new();
        counter.take(&wanted(&slots, last), "id", |_, id| ids.push(id))?;
        Ok(ids)
    }

    #[test]
    fn a_statement_gets_ids_that_follow_each_other() {
        let counter = Counter::new(TableId(1), 1);
        assert_eq!(take(&counter, &[0, 0, 0], 100).unwrap(), [1, 2, 3]);
        assert_eq!(take(&counter, &[0], 100).unwrap(), [4]);
        // Behind an explicit 50.
        assert_eq!(take(&counter, &[0, 50, 50], 100).unwrap(), [5, 51, 52]);
        assert_eq!(counter.next(), 53);
    }

    #[test]
    fn a_block_is_reserved_at_half_of_the_one_before() {
        let counter = Counter::new(TableId(1), 1);
        let ends = Mutex::new(Vec::new());
        let count = |_, end| {
            ends.lock().push(end);
            Ok(Lsn(1))
        };
        for _ in 0..20_000 {
            counter.draw(1, 0, u64::MAX - 1, &count).unwrap();
        }
        // Each block is twice as large, and is reserved at half of the one before; not one a
        // statement while they are new.
        assert_eq!(*ends.lock(), [1_002, 2_503, 5_504, 11_505, 23_506, 47_507]);
    }

    #[test]
    fn a_column_that_is_full_is_refused_and_nothing_is_taken() {
        let counter = Counter::new(TableId(1), 126);
        assert_eq!(take(&counter, &[0, 0, 0], 127).unwrap_err().code().errno(), 1467);
        assert_eq!(take(&counter, &[0, 0], 127).unwrap(), [126, 127]);
        assert_eq!(take(&counter, &[0], 127).unwrap_err().code().errno(), 1467);
        let counter = Counter::new(TableId(1), u64::MAX - 1);
        assert_eq!(take(&counter, &[0], u64::MAX - 1).unwrap(), [u64::MAX - 1]);
        assert!(take(&counter, &[0], u64::MAX - 1).is_err());
    }

    #[test]
    fn steps_begin_at_their_offset() {
        let steps = Steps::new(10, 3);
        let ids = [0, 3, 4, 13, 14].map(|from| steps.at_least(from).unwrap());
        assert_eq!(ids, [3, 3, 13, 13, 23]);
        assert_eq!(Steps::new(2, 5), Steps::new(2, 1));
        assert_eq!(steps.at_least(u64::MAX), None);
    }
}
