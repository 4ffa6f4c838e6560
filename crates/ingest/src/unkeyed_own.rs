//! What a transaction changes of stored rows in tables without a unique key (RFC 0022). Nobody
//! locks such rows: COMMIT fails where others have removed them meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{Error, Lsn, Result, TableId, err};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, history};
use freshet_storage::resolver::EqualRows;

use crate::admit::HeldMemory;
use crate::append::PartLoad;
use crate::buffer::LoadBuffer;
use crate::target::LoadTarget;
use crate::unkeyed::{Copies, RowChange};

/// Memory of a row besides its bytes.
const ROW_BYTES: usize = 96;

/// Encoded rows, and how many of each.
type Counted = BTreeMap<Vec<u8>, u64>;

/// The changes of one table.
pub(crate) struct UnkeyedTable {
    target: LoadTarget,
    /// Stored rows that COMMIT removes.
    gone: Vec<Vec<u8>>,
    /// Rows of which the transaction sees no stored one any more, and how many it sees instead:
    /// those that it has not removed.
    hidden: Counted,
    /// Rows of its own that it has removed again.
    taken_back: Counted,
    /// The end of the log when a stored row was first looked at.
    looked_from: Option<Lsn>,
    bytes: usize,
    held: Option<HeldMemory>,
}

/// How many rows of one kind a transaction sees.
pub(crate) struct Seen {
    own: u64,
    /// `None`: it has not looked at stored ones yet.
    pub stored: Option<u64>,
}

/// What a statement changes, once it is known that it may.
pub(crate) struct UnkeyedStep {
    gone: Vec<Vec<u8>>,
    hidden: Vec<(Vec<u8>, u64)>,
    taken_back: Vec<(Vec<u8>, u64)>,
    pub new: LoadBuffer,
    /// The rows that it is of.
    pub rows: u64,
    /// The memory of what it removes.
    pub bytes: usize,
}

impl UnkeyedStep {
    /// The changes of rows with these numbers among `equal`; `None` if some are not there any more.
    ///
    /// # Errors
    /// `OutOfRoom` for more rows than a load may have.
    pub fn new(
        changes: &[RowChange],
        (equal, ids): (&EqualRows, &[u32]),
        seen: &[Seen],
        copies: Copies,
    ) -> Result<Option<Self>> {
        let mut wanted = vec![0; seen.len()];
        for &id in ids {
            let seen = &seen[id as usize];
            match copies {
                Copies::One => wanted[id as usize] += 1,
                Copies::All => wanted[id as usize] = seen.own + seen.stored.unwrap_or(0),
            }
            if wanted[id as usize] == 0 {
                return Ok(None);
            }
        }
        let (gone, hidden, taken_back) = (Vec::new(), Vec::new(), Vec::new());
        let (new, rows) = (LoadBuffer::default(), wanted.iter().sum());
        let mut step = Self { gone, hidden, taken_back, new, rows, bytes: 0 };
        for ((&wanted, seen), id) in wanted.iter().zip(seen).zip(0..) {
            let row = equal.row(id);
            let own = wanted.min(seen.own);
            let of_stored = wanted - own;
            let Some(left) = seen.stored.unwrap_or(0).checked_sub(of_stored) else {
                return Ok(None);
            };
            if own > 0 {
                step.taken_back.push((row.to_vec(), own));
            }
            if of_stored > 0 {
                step.hidden.push((row.to_vec(), left));
                step.gone.extend((0..of_stored).map(|_| row.to_vec()));
            }
            step.bytes += (row.len() + ROW_BYTES) * (of_stored as usize + 2);
        }
        step.new.begin();
        for (change, &id) in changes.iter().zip(ids) {
            let times = if copies == Copies::One { 1 } else { wanted[id as usize] };
            for new in (0..times).filter_map(|_| change.new.as_deref()) {
                step.new.resume().extend_from_slice(new);
                step.new.count(1)?;
            }
        }
        Ok(Some(step))
    }
}

impl UnkeyedTable {
    pub fn new(target: &LoadTarget) -> Self {
        Self {
            target: target.clone(),
            gone: Vec::new(),
            hidden: BTreeMap::new(),
            taken_back: BTreeMap::new(),
            looked_from: None,
            bytes: 0,
            held: None,
        }
    }

    pub fn id(&self) -> TableId {
        self.target.id()
    }

    /// The number of stored rows that it removes.
    pub fn rows(&self) -> u64 {
        self.gone.len() as u64
    }

    /// Upper bound of the bytes of what it removes in a record.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks that the table has the columns that it had.
    ///
    /// # Errors
    /// 1213 behind an ALTER: rows are named by the values of all columns.
    pub fn check_columns(&self, schema: &TableSchema) -> Result<()> {
        if self.target.schema().version == schema.version {
            return Ok(());
        }
        Err(altered(&self.target))
    }

    /// How many of each of these rows it sees; `own` are the rows that it has written.
    pub fn seen(&self, equal: &EqualRows, own: &[u8]) -> Vec<Seen> {
        let mut counts = BTreeMap::<&[u8], u64>::new();
        for row in self.kept(own) {
            *counts.entry(row).or_default() += 1;
        }
        let seen = |id| {
            let row = equal.row(id);
            Seen {
                own: counts.get(row).copied().unwrap_or(0),
                stored: self.hidden.get(row).copied(),
            }
        };
        (0..equal.len() as u32).map(seen).collect()
    }

    /// What it has written, without what it has removed again.
    fn kept<'a>(&self, own: &'a [u8]) -> Vec<&'a [u8]> {
        let cells = RowCells::new(self.target.schema());
        let taken_back = self.taken_back.iter().map(|(row, count)| (row.as_slice(), *count));
        let (mut kept, mut taken_back) = (Vec::new(), taken_back.collect::<BTreeMap<_, _>>());
        for row in cells.rows(own) {
            match taken_back.get_mut(row) {
                Some(left) if *left > 0 => *left -= 1,
                _ => kept.push(row),
            }
        }
        kept
    }

    /// The rows that it sees besides stored ones that are not hidden, with the columns of `schema`.
    pub fn overlay(&self, own: &[u8], schema: &TableSchema) -> Option<RecordBatch> {
        let mut rows = self.kept(own);
        for (row, left) in &self.hidden {
            rows.extend((0..*left).map(|_| row.as_slice()));
        }
        if rows.is_empty() {
            return None;
        }
        let mut columns = ColumnsBuilder::new(self.target.schema(), rows.len());
        rows.iter().for_each(|row| columns.append(row, 1));
        Some(history::adapt(&columns.finish(), self.target.schema(), schema))
    }

    /// Rows of which it sees no stored one.
    pub fn hidden(&self) -> Vec<Vec<u8>> {
        self.hidden.keys().cloned().collect()
    }

    /// Adds what a statement changes, with its memory; `end` is that of the log when it looked at
    /// stored rows.
    pub fn apply(&mut self, step: UnkeyedStep, end: Lsn, held: HeldMemory) {
        if !step.gone.is_empty() {
            self.looked_from.get_or_insert(end);
        }
        self.gone.extend(step.gone);
        self.hidden.extend(step.hidden);
        for (row, count) in step.taken_back {
            *self.taken_back.entry(row).or_default() += count;
        }
        self.bytes += step.bytes;
        match &mut self.held {
            Some(before) => before.merge(held),
            none => *none = Some(held),
        }
    }

    /// A copy of the changes, whose memory is the caller's to count.
    pub fn copy(&self) -> Self {
        Self {
            target: self.target.clone(),
            gone: self.gone.clone(),
            hidden: self.hidden.clone(),
            taken_back: self.taken_back.clone(),
            looked_from: self.looked_from,
            bytes: self.bytes,
            held: None,
        }
    }

    /// Goes back to earlier changes. What was looked at since was looked at.
    pub fn go_back(&mut self, saved: &Self) {
        let (held, looked_from) = (self.held.take(), self.looked_from);
        *self = Self { held, looked_from, ..saved.copy() };
        let bytes = self.bytes as u64;
        self.held.iter_mut().for_each(|held| held.shrink_to(bytes));
    }

    /// The part of the record of the COMMIT, and the rows that it removes with how many of each;
    /// `own` are the rows that the transaction has written, with their memory. `None` if there is
    /// nothing to write.
    ///
    /// # Errors
    /// Those of [`Self::check_columns`].
    pub fn into_part(self, own: Option<OwnPart>) -> Result<Option<UnkeyedPart>> {
        let schema = Arc::clone(self.target.schema());
        if own.as_ref().is_some_and(|own| own.schema.version != schema.version) {
            return Err(altered(&self.target));
        }
        let written = own.as_ref().map_or(&[][..], |own| &own.bytes);
        let kept = self.kept(written);
        let mut buffer = LoadBuffer::default();
        buffer.begin();
        self.gone.iter().for_each(|row| buffer.resume().extend_from_slice(row));
        buffer.count(self.gone.len())?;
        buffer.removes_so_far();
        kept.iter().for_each(|row| buffer.resume().extend_from_slice(row));
        buffer.count(kept.len())?;
        if buffer.rows() == 0 {
            return Ok(None);
        }
        let mut equal = EqualRows::new(&schema);
        let mut counts = Vec::new();
        for row in &self.gone {
            let id = equal.add(row) as usize;
            counts.resize(counts.len().max(id + 1), 0);
            counts[id] += 1;
        }
        let of_own = own.map(|own| own.held);
        let held = self.held.into_iter().chain(of_own).reduce(|mut all, more| {
            all.merge(more);
            all
        });
        let held = held.ok_or_else(|| err!(Internal, "changes have their memory"))?;
        let state = &self.target.state;
        let part = PartLoad::of_changes(state, &schema, buffer, held, self.looked_from);
        Ok(Some(UnkeyedPart { part, target: self.target, equal, counts }))
    }
}

/// What a transaction has written to a table.
pub(crate) struct OwnPart {
    pub schema: Arc<TableSchema>,
    pub bytes: Vec<u8>,
    pub held: HeldMemory,
}

/// The part of a COMMIT that removes rows.
pub(crate) struct UnkeyedPart {
    pub part: PartLoad,
    pub target: LoadTarget,
    pub equal: EqualRows,
    /// How many of each it removes.
    pub counts: Vec<usize>,
}

fn altered(target: &LoadTarget) -> Error {
    err!(
        Deadlock,
        "columns of table '{}' changed while a transaction changed its rows; try restarting \
         transaction",
        target.table().name
    )
}
