//! The nodes of a delta: arenas that are written, and the chunks that they become.

use std::sync::Arc;

use freshet_base::budget::{Budget, Permit};
use freshet_base::{Lsn, TxnId};
use freshet_schema::TableSchema;

use super::columns::Columns;
use super::encoded::{EncodedRows, Entry};
use super::marks::{ChunkMarks, DeltaMarks};
use crate::division::Division;
use crate::rowset::Rowset;
use crate::sync::{AtomicBool, Mutex, OnceLock, Ordering};

/// A link of the delta. It keeps all later nodes alive.
#[derive(Default)]
pub struct Node {
    /// Set once, when the node is sealed, after `next`.
    pub(super) chunk: OnceLock<Arc<Chunk>>,
    pub(super) next: OnceLock<Arc<Node>>,
}

impl Node {
    /// The node behind it, which is sealed.
    pub(crate) fn next(&self) -> &Arc<Self> {
        self.next.get().expect("a sealed node has a successor")
    }

    /// The contents, if sealed.
    pub fn chunk(&self) -> Option<&Arc<Chunk>> {
        self.chunk.get()
    }
}

/// Drops a list iteratively: recursion would need a stack as deep as the list is long.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(node) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.next.take());
        }
    }
}

/// An event of a table other than rows.
#[derive(Clone)]
pub(super) enum Event {
    /// A large load, whose rows are already in files.
    Rowsets(Vec<Arc<Rowset>>),
    Truncate,
    /// A change of partitions.
    Divide(Arc<Division>),
    /// ALTER.
    Schema(Arc<TableSchema>),
    Drop,
    /// The end of a commit group.
    GroupEnd(TxnId),
}

/// The contents of the open node.
#[derive(Default)]
pub(super) struct Arena {
    pub entries: Vec<Entry>,
    pub events: Vec<(Lsn, Event)>,
    pub schemas: Vec<Arc<TableSchema>>,
    pub encoded: EncodedRows,
    pub shared_bytes: usize,
    pub permit: Option<Permit>,
    /// The number of its first row.
    pub first_row: u64,
    pub marks: Arc<ChunkMarks>,
}

impl Arena {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.events.is_empty()
    }

    pub fn rows(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.rows_end)
    }

    /// The number of the row behind its last one.
    pub fn end_row(&self) -> u64 {
        self.first_row + u64::from(self.rows())
    }

    pub fn bytes(&self) -> usize {
        self.encoded.arena.len() + self.shared_bytes
    }

    /// The LSN of the first entry or event.
    pub fn first(&self) -> Option<Lsn> {
        first_lsn(&self.entries, &self.events)
    }

    /// An empty arena with the capacity that this one needed.
    pub fn successor(&self) -> Self {
        let arena = Vec::with_capacity(self.encoded.arena.len());
        let encoded = EncodedRows { arena, shared: Vec::new() };
        let (entries, first_row) = (Vec::with_capacity(self.entries.len()), self.end_row());
        Self { entries, encoded, first_row, ..Self::default() }
    }

    /// A chunk with a copy of the contents; the arena remains open and keeps the permit.
    pub fn copy(&self) -> Chunk {
        Chunk {
            entries: self.entries.clone(),
            events: self.events.clone(),
            schemas: self.schemas.clone(),
            encoded: Mutex::new(Some(self.encoded.clone())),
            permit: Mutex::new(None),
            retired: AtomicBool::new(false),
            columns: OnceLock::new(),
            encoded_bytes: self.bytes(),
            first_row: self.first_row,
            marks: Arc::clone(&self.marks),
        }
    }

    /// The sealed chunk.
    pub fn seal(self) -> Chunk {
        let encoded_bytes = self.bytes();
        Chunk {
            entries: self.entries,
            events: self.events,
            schemas: self.schemas,
            encoded: Mutex::new(Some(self.encoded)),
            permit: Mutex::new(self.permit),
            retired: AtomicBool::new(false),
            columns: OnceLock::new(),
            encoded_bytes,
            first_row: self.first_row,
            marks: self.marks,
        }
    }
}

/// A sealed part of a delta: its entries and events are immutable, its rows are converted to
/// columns once.
pub struct Chunk {
    pub(super) entries: Vec<Entry>,
    pub(super) events: Vec<(Lsn, Event)>,
    pub(super) schemas: Vec<Arc<TableSchema>>,
    /// The rows until they are columns.
    pub(super) encoded: Mutex<Option<EncodedRows>>,
    permit: Mutex<Option<Permit>>,
    /// Whether its rows are in files, so that only snapshots need it.
    retired: AtomicBool,
    columns: OnceLock<Columns>,
    encoded_bytes: usize,
    /// The number of its first row.
    pub(super) first_row: u64,
    pub(super) marks: Arc<ChunkMarks>,
}

impl Chunk {
    /// Converts the rows to columns unless that has been done; blocks while another thread does it.
    pub fn convert(&self) {
        self.columns();
    }

    pub(super) fn columns(&self) -> &Columns {
        self.columns.get_or_init(|| {
            let rows = self.encoded.lock().take().expect("row bytes stay until they are columns");
            let columns = Columns::new(&self.entries, &self.schemas, &rows);
            drop(rows);
            if let Some(permit) = self.permit.lock().as_mut() {
                permit.resize_over(columns.bytes() as u64);
            }
            columns
        })
    }

    /// Called when the rows are in files: moves the remaining memory to the budget `kept`.
    pub(super) fn retire(&self, kept: &Budget) {
        let mut permit = self.permit.lock();
        *permit = permit.take().map(|held| kept.acquire_over(held.bytes()));
        let before = self.retired.swap(true, Ordering::AcqRel);
        assert!(!before, "the rows of a chunk go to files once");
    }

    /// Makes its rows known.
    pub(crate) fn make_known(&self, to: &mut DeltaMarks) {
        to.know(self.first_row..self.first_row + self.rows(), &self.marks);
    }

    /// Makes the rows dead that a change of partitions at `lsn` has lost, unless that was done.
    /// Rows are columns behind this.
    pub(super) fn divide(&self, lsn: Lsn, division: &Division) {
        let end = self.entries.partition_point(|entry| entry.lsn < lsn);
        let Some(lost) = division.lost().filter(|_| end > 0 && !self.marks.is_cut(lsn)) else {
            return;
        };
        let (mut batches, mut at, mut rows) = (Vec::new(), 0, Vec::new());
        let before = 0..self.rows_before(end) as usize;
        let selected = self.columns().select(std::slice::from_ref(&before), &mut batches);
        selected.expect("rows in memory are those of their columns");
        for (schema, batch) in &batches {
            let routed = lost.router().of_batch(batch, schema);
            let gone = routed.iter().zip(at..).filter(|(to, _)| to.is_some());
            rows.extend(gone.map(|(_, row)| row));
            at += batch.num_rows();
        }
        assert_eq!(at, before.end, "each row is routed");
        self.marks.cut(&rows, lsn);
    }

    /// Memory that is only kept for snapshots.
    pub(crate) fn kept_bytes(&self) -> u64 {
        match self.retired.load(Ordering::Acquire) {
            true => self.permit.lock().as_ref().map_or(0, Permit::bytes),
            false => 0,
        }
    }

    /// The number of rows, visible or not.
    pub fn rows(&self) -> u64 {
        self.entries.last().map_or(0, |entry| u64::from(entry.rows_end))
    }

    /// The size of the rows as encoded.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes as u64
    }

    /// The number of loads whose rows are already in files.
    pub fn large_loads(&self) -> u64 {
        let is_large = |(_, event): &&(Lsn, Event)| matches!(event, Event::Rowsets(_));
        self.events.iter().filter(is_large).count() as u64
    }

    /// The number of rows before the entry at this index.
    pub(super) fn rows_before(&self, index: usize) -> u32 {
        index.checked_sub(1).map_or(0, |before| self.entries[before].rows_end)
    }

    pub(super) fn first(&self) -> Option<Lsn> {
        first_lsn(&self.entries, &self.events)
    }

    pub(crate) fn last(&self) -> Option<Lsn> {
        let entry = self.entries.last().map(|entry| entry.lsn);
        let event = self.events.last().map(|(lsn, _)| *lsn);
        entry.max(event)
    }
}

fn first_lsn(entries: &[Entry], events: &[(Lsn, Event)]) -> Option<Lsn> {
    let entry = entries.first().map(|entry| entry.lsn);
    let event = events.first().map(|(lsn, _)| *lsn);
    entry.into_iter().chain(event).min()
}
