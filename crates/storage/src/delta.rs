//! A table's records above its flushed LSN: an append-only list shared by all views.
//!
//! Records are pushed under the log's append lock, so a push only copies bytes into an arena. A
//! node is sealed when it is full, when a flush freezes it, or when a query needs it. A sealed node
//! is converted to columns once, by whoever needs them first, and every reader sees a prefix of it
//! by LSN.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::{Budget, Permit};
use freshet_base::{Lsn, SchemaVersion, TableId, TxnId};
use freshet_schema::TableSchema;

mod by_number;
mod columns;
mod encoded;
mod entries;
mod marks;
mod node;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use by_number::adapted;
use encoded::{Entry, Place};
pub use marks::DeltaMark;
pub(crate) use marks::DeltaMarks;
use node::{Arena, Event};
pub use node::{Chunk, Node};
pub use read::{Bounds, DeltaPart, DeltaRead, DeltaRows, Freshness};
pub(crate) use read::{EntryRows, Step, divide};

use crate::division::Division;
use crate::rowset::Rowset;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Size at which a node is sealed.
const NODE_BYTES: usize = 1 << 20;
/// Number of rows at which a node is sealed.
const NODE_ROWS: u32 = 64 << 10;
/// A query seals the open node if it has at least this many rows; otherwise it copies it.
const QUERY_SEAL_ROWS: u32 = 1024;
/// A query seals the open node if it has at least this size; otherwise it copies it.
const QUERY_SEAL_BYTES: usize = 64 << 10;

/// The rows of one record for one table.
pub(crate) struct DeltaEntry<'a> {
    /// The record's LSN.
    pub lsn: Lsn,
    /// The transaction of its commit group.
    pub txn: TxnId,
    /// Whether the record ends its own commit group.
    pub ends_group: bool,
    /// The schema version that the rows are encoded under.
    pub schema_version: SchemaVersion,
    pub rows: u32,
    /// How many of the rows, the first ones, only remove their key (keys.md K24).
    pub removals: u32,
    /// The encoded rows.
    pub payload: Payload<'a>,
}

/// Encoded rows to push into a delta.
pub enum Payload<'a> {
    /// To be copied: for small loads.
    Copied(&'a [u8]),
    /// To be shared: for loads of 64 KiB and more, whose copy would hold the lock too long.
    Shared(Bytes),
    /// To be shared, of rows that stand in several places; each has whole rows.
    Pieces(Vec<Bytes>),
}

impl Payload<'_> {
    /// The length of all rows.
    pub fn bytes(&self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }

    /// The rows, in their order; each slice has whole ones.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (one, pieces) = match self {
            Self::Copied(bytes) => (Some(*bytes), <&[Bytes]>::default()),
            Self::Shared(bytes) => (Some(&bytes[..]), <&[Bytes]>::default()),
            Self::Pieces(pieces) => (None, &pieces[..]),
        };
        one.into_iter().chain(pieces.iter().map(|piece: &Bytes| &piece[..]))
    }
}

/// The input of the flush policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeltaStats {
    /// Rows above the flushed LSN.
    pub rows: u64,
    /// Size of these rows as encoded.
    pub bytes: u64,
    /// The number of loads and events.
    pub entries: u64,
    /// The number of loads whose rows are already in files.
    pub large_loads: u64,
    /// The first LSN that is not in files.
    pub oldest: Option<Lsn>,
}

/// A table's records above its flushed LSN.
pub struct Delta {
    table: TableId,
    tail: Mutex<Tail>,
    stats: Stats,
    last: AtomicU64,
    /// The last TRUNCATE.
    truncated: AtomicU64,
    /// The last large load.
    loaded: AtomicU64,
    /// The last change of partitions.
    divided: AtomicU64,
    /// The last one that lost some.
    lost: AtomicU64,
    /// The last record that removes rows.
    removed: AtomicU64,
}

#[derive(Default)]
struct Stats {
    rows: AtomicU64,
    bytes: AtomicU64,
    entries: AtomicU64,
    large_loads: AtomicU64,
    oldest: AtomicU64,
}

struct Tail {
    /// The first node that is not completely in files.
    head: Arc<Node>,
    /// The open node; its contents are in `arena` until it is sealed.
    node: Arc<Node>,
    arena: Arena,
    /// The last copy of the arena made by a query.
    copy: Option<Arc<Chunk>>,
    /// All schemas that rows may refer to, oldest first.
    schemas: Vec<Arc<TableSchema>>,
}

impl Delta {
    /// An empty delta; rows may refer to these schemas, oldest first.
    pub fn new(table: TableId, schemas: &[Arc<TableSchema>]) -> Self {
        let node = Arc::new(Node::default());
        let arena = Arena::default();
        let tail =
            Tail { head: Arc::clone(&node), node, copy: None, schemas: schemas.to_vec(), arena };
        Self {
            table,
            tail: Mutex::new(tail),
            stats: Stats::default(),
            last: AtomicU64::new(0),
            truncated: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            divided: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            removed: AtomicU64::new(0),
        }
    }

    pub fn table(&self) -> TableId {
        self.table
    }

    /// The first node that is not completely in files: the head of a new view.
    pub fn head(&self) -> Arc<Node> {
        Arc::clone(&self.tail.lock().head)
    }

    /// The LSN of the newest record; zero if there was none.
    pub fn last(&self) -> Lsn {
        Lsn(self.last.load(Ordering::Acquire))
    }

    /// The LSN of the last TRUNCATE that entered; zero if there was none.
    pub fn truncated(&self) -> Lsn {
        Lsn(self.truncated.load(Ordering::Acquire))
    }

    /// The LSN of the last large load that entered; zero if there was none.
    pub(crate) fn loaded(&self) -> Lsn {
        Lsn(self.loaded.load(Ordering::Acquire))
    }

    /// The LSN of the last change of partitions that entered; zero if there was none.
    pub fn divided(&self) -> Lsn {
        Lsn(self.divided.load(Ordering::Acquire))
    }

    /// The LSN of the last one that lost a partition; zero if there was none.
    pub fn lost(&self) -> Lsn {
        Lsn(self.lost.load(Ordering::Acquire))
    }

    /// The LSN of the last record that removes rows; zero if there was none.
    pub fn removed(&self) -> Lsn {
        Lsn(self.removed.load(Ordering::Acquire))
    }

    /// The input of the flush policy.
    pub fn stats(&self) -> DeltaStats {
        let oldest = self.stats.oldest.load(Ordering::Relaxed);
        DeltaStats {
            rows: self.stats.rows.load(Ordering::Relaxed),
            bytes: self.stats.bytes.load(Ordering::Relaxed),
            entries: self.stats.entries.load(Ordering::Relaxed),
            large_loads: self.stats.large_loads.load(Ordering::Relaxed),
            oldest: (oldest > 0).then_some(Lsn(oldest)),
        }
    }

    /// The columns of a schema version that rows may refer to.
    pub(crate) fn schema(&self, version: SchemaVersion) -> Option<Arc<TableSchema>> {
        self.tail.lock().schema(version).cloned()
    }

    /// Adds the rows of a record; `permit` is their memory. Returns a chunk that became full, to be
    /// converted to columns on another thread before a query needs them.
    ///
    /// # Panics
    /// When the record is not newer than the last one, or refers to an unknown schema version.
    pub(crate) fn push_rows(&self, entry: DeltaEntry<'_>, permit: Permit) -> Option<Arc<Chunk>> {
        let mut tail = self.tail.lock();
        self.advance(entry.lsn);
        if entry.removals > 0 {
            self.removed.store(entry.lsn.get(), Ordering::Release);
        }
        let bytes = tail.push(&entry, permit);
        self.stats.rows.fetch_add(u64::from(entry.rows), Ordering::Relaxed);
        self.stats.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let full = tail.arena.bytes() >= NODE_BYTES || tail.arena.rows() >= NODE_ROWS;
        full.then(|| tail.seal())
    }

    /// Adds the synced files of a large load.
    pub(crate) fn push_rowsets(&self, lsn: Lsn, rowsets: Vec<Arc<Rowset>>) {
        self.stats.large_loads.fetch_add(1, Ordering::Relaxed);
        // Before anybody can find it: what resolves it takes the keys of older rows away.
        self.loaded.store(lsn.get(), Ordering::Release);
        self.push_event(lsn, Event::Rowsets(rowsets));
    }

    /// Adds a TRUNCATE: readers at or above `lsn` do not see older records.
    pub(crate) fn push_truncate(&self, lsn: Lsn) {
        // Before anybody can find it, as in `push_rowsets`.
        self.truncated.store(lsn.get(), Ordering::Release);
        self.push_event(lsn, Event::Truncate);
    }

    /// Adds a change of partitions: readers at or above `lsn` do not see older records of those
    /// that are gone, and see these files.
    pub(crate) fn push_division(
        &self,
        lsn: Lsn,
        division: Arc<Division>,
        rowsets: Vec<Arc<Rowset>>,
    ) {
        // Before anybody can find it, as in `push_rowsets`.
        if division.lost().is_some() {
            self.lost.store(lsn.get(), Ordering::Release);
        }
        self.divided.store(lsn.get(), Ordering::Release);
        self.push_event(lsn, Event::Divide(division));
        if !rowsets.is_empty() {
            self.push_rowsets(lsn, rowsets);
        }
    }

    /// Adds an ALTER: readers at or above `lsn` see these columns.
    pub(crate) fn push_schema(&self, lsn: Lsn, schema: Arc<TableSchema>) {
        self.tail.lock().know(&schema);
        self.push_event(lsn, Event::Schema(schema));
    }

    /// Adds a DROP: readers at or above `lsn` do not see the table.
    pub(crate) fn push_drop(&self, lsn: Lsn) {
        self.push_event(lsn, Event::Drop);
    }

    /// Adds the end of the commit group of `txn`.
    pub(crate) fn end_group(&self, txn: TxnId, lsn: Lsn) {
        self.push_event(lsn, Event::GroupEnd(txn));
    }

    /// How many rows it has got: the number of the next one.
    pub fn end_row(&self) -> u64 {
        self.tail.lock().arena.end_row()
    }

    /// The number of the first row that is not in files.
    pub(crate) fn first_row(&self) -> u64 {
        let tail = self.tail.lock();
        tail.head.chunk().map_or(tail.arena.first_row, |chunk| chunk.first_row)
    }

    /// Freezes what a flush takes: seals the open node, so that later records go to new nodes.
    /// Returns the last LSN in it, zero if there was none.
    pub fn freeze(&self) -> Lsn {
        let mut tail = self.tail.lock();
        if !tail.arena.is_empty() {
            tail.seal();
        }
        self.last()
    }

    /// Marks everything up to `lsn`, which was frozen, as being in files. Nodes pinned by
    /// snapshots remain, and their memory moves to the budget `kept`. Returns the head of a new
    /// view.
    pub(crate) fn flushed(&self, lsn: Lsn, kept: &Budget) -> Arc<Node> {
        let mut tail = self.tail.lock();
        while let Some(chunk) = tail.head.chunk()
            && chunk.last() <= Some(lsn)
        {
            let chunk = Arc::clone(chunk);
            chunk.retire(kept);
            give_back(&self.stats.rows, chunk.rows());
            give_back(&self.stats.bytes, chunk.encoded_bytes());
            give_back(&self.stats.entries, (chunk.entries.len() + chunk.events.len()) as u64);
            give_back(&self.stats.large_loads, chunk.large_loads());
            let next = Arc::clone(tail.head.next.get().expect("a sealed node has a successor"));
            tail.head = next;
        }
        let oldest = match tail.head.chunk() {
            Some(chunk) => chunk.first(),
            None => tail.arena.first(),
        };
        self.stats.oldest.store(oldest.map_or(0, Lsn::get), Ordering::Relaxed);
        Arc::clone(&tail.head)
    }

    /// All chunks from `head`; the open node is last and is sealed if large, otherwise copied.
    pub fn chunks(&self, head: &Arc<Node>) -> Vec<Arc<Chunk>> {
        let mut chunks = Vec::new();
        let mut node = head;
        loop {
            if let Some(chunk) = node.chunk() {
                chunks.push(Arc::clone(chunk));
                node = node.next.get().expect("a sealed node has a successor");
                continue;
            }
            let mut tail = self.tail.lock();
            // A node that was sealed meanwhile is read as such in the next iteration.
            if Arc::ptr_eq(&tail.node, node) {
                chunks.extend(tail.read());
                return chunks;
            }
        }
    }

    /// Makes all rows from `node` on known, so that they can be marked.
    pub(crate) fn make_known(&self, node: &Arc<Node>, to: &mut DeltaMarks) {
        let mut node = node;
        loop {
            if let Some(chunk) = node.chunk() {
                chunk.make_known(to);
                node = node.next();
                continue;
            }
            let tail = self.tail.lock();
            // A node that was sealed meanwhile is looked at as such in the next iteration.
            if Arc::ptr_eq(&tail.node, node) {
                let arena = &tail.arena;
                return to.know(arena.first_row..arena.end_row(), &arena.marks);
            }
        }
    }

    /// The files of all large loads from `head`, visible or not.
    pub fn rowsets(&self, head: &Arc<Node>) -> Vec<Arc<Rowset>> {
        let chunks = self.chunks(head);
        let events = chunks.iter().flat_map(|chunk| &chunk.events);
        let rowsets = events.filter_map(|(_, event)| match event {
            Event::Rowsets(rowsets) => Some(rowsets),
            _ => None,
        });
        rowsets.flatten().cloned().collect()
    }

    /// The files of large loads above `from` and up to `to`, in the order of the log.
    pub(crate) fn loads(&self, head: &Arc<Node>, from: Lsn, to: Lsn) -> Vec<Arc<Rowset>> {
        let mut loads = Vec::new();
        let mut take = |events: &[(Lsn, Event)]| {
            for (lsn, event) in events.iter().filter(|(lsn, _)| *lsn > from && *lsn <= to) {
                if let Event::Rowsets(rowsets) = event {
                    assert!(*lsn <= self.loaded(), "a large load is known before it enters");
                    loads.extend(rowsets.iter().cloned());
                }
            }
        };
        let mut node = head;
        loop {
            if let Some(chunk) = node.chunk() {
                take(&chunk.events);
                node = node.next();
                continue;
            }
            let tail = self.tail.lock();
            // A node that was sealed meanwhile is looked at as such in the next iteration.
            if Arc::ptr_eq(&tail.node, node) {
                take(&tail.arena.events);
                return loads;
            }
        }
    }

    /// The changes of partitions above `from`, from `head` on.
    pub(crate) fn divisions(&self, head: &Arc<Node>, from: Lsn) -> Vec<(Lsn, Arc<Division>)> {
        if self.divided() <= from {
            return Vec::new();
        }
        let chunks = self.chunks(head);
        let events = chunks.iter().flat_map(|chunk| &chunk.events).filter(|(at, _)| *at > from);
        let divisions = events.filter_map(|(at, event)| match event {
            Event::Divide(division) => Some((*at, Arc::clone(division))),
            _ => None,
        });
        divisions.collect()
    }

    fn push_event(&self, lsn: Lsn, event: Event) {
        let mut tail = self.tail.lock();
        self.advance(lsn);
        tail.arena.events.push((lsn, event));
    }

    /// Called under the tail's lock.
    fn advance(&self, lsn: Lsn) {
        let before = self.last.swap(lsn.get(), Ordering::Release);
        assert!(before <= lsn.get(), "record {lsn} of table {} comes after {before}", self.table);
        self.stats.entries.fetch_add(1, Ordering::Relaxed);
        if self.stats.oldest.load(Ordering::Relaxed) == 0 {
            self.stats.oldest.store(lsn.get(), Ordering::Relaxed);
        }
    }
}

/// Subtracts what a flushed chunk had added to a statistic.
fn give_back(stat: &AtomicU64, count: u64) {
    let before = stat.fetch_sub(count, Ordering::Relaxed);
    assert!(before >= count, "a chunk takes from a delta what it has brought");
}

impl Tail {
    fn know(&mut self, schema: &Arc<TableSchema>) {
        if self.schema(schema.version).is_none() {
            self.schemas.push(Arc::clone(schema));
        }
    }

    fn schema(&self, version: SchemaVersion) -> Option<&Arc<TableSchema>> {
        self.schemas.iter().rfind(|schema| schema.version == version)
    }

    /// The index of a schema in the arena.
    fn schema_index(&mut self, version: SchemaVersion) -> u16 {
        let in_arena = self.arena.schemas.iter().rposition(|schema| schema.version == version);
        let index = in_arena.unwrap_or_else(|| {
            let known = self.schema(version).expect("rows name a schema that was made known");
            let known = Arc::clone(known);
            self.arena.schemas.push(known);
            self.arena.schemas.len() - 1
        });
        u16::try_from(index).expect("a node holds rows of few schema versions")
    }

    fn push(&mut self, entry: &DeltaEntry<'_>, permit: Permit) -> usize {
        let schema = self.schema_index(entry.schema_version);
        let rows_end = self.arena.rows().checked_add(entry.rows).expect("a node has few rows");
        let encoded = &mut self.arena.encoded;
        let bytes = entry.payload.bytes();
        let shared = match &entry.payload {
            Payload::Copied(_) => None,
            Payload::Shared(bytes) => Some(std::slice::from_ref(bytes)),
            Payload::Pieces(pieces) => Some(&pieces[..]),
        };
        let place = match shared {
            None => {
                entry.payload.slices().for_each(|rows| encoded.arena.extend_from_slice(rows));
                let end = u32::try_from(encoded.arena.len()).expect("a node has few bytes");
                Place::Arena { end }
            }
            Some(pieces) => {
                encoded.shared.extend_from_slice(pieces);
                self.arena.shared_bytes += bytes;
                let end = u32::try_from(encoded.shared.len()).expect("a node has few pieces");
                Place::Shared { first: end - pieces.len() as u32, end }
            }
        };
        let DeltaEntry { lsn, txn, ends_group, removals, .. } = *entry;
        assert!(removals <= entry.rows, "keys that a record removes are among its rows");
        let is_next = self.arena.entries.last().is_none_or(|last| last.lsn < lsn);
        assert!(is_next, "a record brings a table its rows once");
        self.arena.entries.push(Entry { lsn, txn, rows_end, removals, schema, ends_group, place });
        match &mut self.arena.permit {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        bytes
    }

    /// Seals the open node and opens the next.
    fn seal(&mut self) -> Arc<Chunk> {
        assert!(!self.arena.is_empty(), "a chunk has rows or events");
        let successor = self.arena.successor();
        let chunk = Arc::new(std::mem::replace(&mut self.arena, successor).seal());
        let next = Arc::new(Node::default());
        // In this order, so that a reader that sees the chunk also finds the next node.
        assert!(self.node.next.set(Arc::clone(&next)).is_ok(), "a node has one successor");
        assert!(self.node.chunk.set(Arc::clone(&chunk)).is_ok(), "a node is sealed once");
        self.node = next;
        self.copy = None;
        chunk
    }

    /// A chunk with the contents of the open node.
    fn read(&mut self) -> Option<Arc<Chunk>> {
        if self.arena.is_empty() {
            return None;
        }
        if self.arena.rows() >= QUERY_SEAL_ROWS || self.arena.bytes() >= QUERY_SEAL_BYTES {
            return Some(self.seal());
        }
        let current = |copy: &&Arc<Chunk>| {
            copy.entries.len() == self.arena.entries.len()
                && copy.events.len() == self.arena.events.len()
        };
        if let Some(copy) = self.copy.as_ref().filter(current) {
            return Some(Arc::clone(copy));
        }
        let copy = Arc::new(self.arena.copy());
        self.copy = Some(Arc::clone(&copy));
        Some(copy)
    }
}
