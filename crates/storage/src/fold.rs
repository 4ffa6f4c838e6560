//! What a record does to a table: one function for all who have the log.
//!
//! A record says one [`Event`] of each table that it names. Applying an event has two halves.
//! [`TableLog::enter`] takes it at its place in the log: it counts versions, keeps track of the
//! open group, and adds to the delta what readers shall see. `TableView::settle` takes it when
//! metadata has it as well: it puts files, columns and tablets into the view. Neither half does
//! I/O, waits, fails, or asks a clock or a setting, so everybody who applies the same events to
//! the same table gets the same state: who appends them, and who replays them.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::budget::Permit;
use freshet_base::{
    Incarnation, Lsn, PartitionId, SchemaVersion, TableId, TabletId, TxnId, Version,
};
use freshet_schema::TableSchema;

use crate::delta::{Chunk, Delta, DeltaEntry, Payload};
use crate::rowset::Rowset;

mod settle;

/// What one record says of one table.
pub enum Event<'a> {
    /// A load.
    Load(Load<'a>),
    /// The open group ends.
    GroupEnd {
        /// Its transaction.
        txn: TxnId,
        /// The version it gives the table.
        version: Version,
    },
    /// The process that wrote the log ends, and with it the group that it left open. No record
    /// says so: it stands behind the last one of the run.
    RunEnd,
    /// TRUNCATE, ALTER or DROP.
    Barrier {
        /// What it does.
        barrier: Barrier,
        /// The open group that it ends.
        ended: Option<TxnId>,
        /// The table's version behind that.
        version: Version,
    },
    /// A flush: the rows of records up to here are in these files.
    Publish {
        /// The table's version here.
        version: Version,
        /// Its columns here.
        schema: Arc<TableSchema>,
        /// The files.
        rowsets: Vec<Arc<Rowset>>,
    },
    /// A merge: one rowset of a tablet takes the place of some that stand side by side.
    Replace {
        /// The tablet.
        tablet: TabletId,
        /// What was merged.
        removed: Vec<Arc<Rowset>>,
        /// What it was merged into.
        added: Arc<Rowset>,
    },
    /// The table has another name or other properties.
    Define,
}

/// One table's part of a load.
pub struct Load<'a> {
    /// The partition's incarnation at this place of the log.
    pub incarnation: Incarnation,
    /// The transaction it is reported under.
    pub txn: TxnId,
    /// The version it gives the table when it ends its group.
    pub ends_with: Option<Version>,
    /// What it brings.
    pub body: Body<'a>,
}

/// What a load brings.
pub enum Body<'a> {
    /// Encoded rows.
    Rows {
        /// What they are encoded under.
        schema_version: SchemaVersion,
        /// How many.
        rows: u32,
        /// The rows.
        payload: Payload<'a>,
        /// Their memory.
        permit: Permit,
    },
    /// Rowsets, whose files are synced.
    Rowsets(Vec<Arc<Rowset>>),
    /// Rows that [`TableLog::takes`] does not ask for: the load is only counted.
    Settled,
}

/// What stands between the records of a table that come before it and those that come behind.
#[derive(Clone, Debug)]
pub enum Barrier {
    /// Everything before it is gone.
    Truncate {
        /// The incarnation of the partitions from here on.
        incarnation: Incarnation,
    },
    /// The table has these columns from here on.
    Alter(Arc<TableSchema>),
    /// The table is gone.
    Drop {
        /// Whether its database is gone with it: metadata then follows for all its tables at once.
        with_database: bool,
    },
}

/// A barrier that has entered, and that metadata does not reflect yet.
#[derive(Clone, Debug)]
pub struct Unsettled {
    /// Where it stands.
    pub lsn: Lsn,
    /// The table's version there.
    pub version: Version,
    /// What it does.
    pub barrier: Barrier,
}

/// Where metadata and files have a table: everything behind that is still to enter.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// Its one partition.
    pub partition: PartitionId,
    /// The incarnation of its partition.
    pub incarnation: Incarnation,
    /// The newest schema version.
    pub schema_version: SchemaVersion,
    /// Groups and large loads that have ended up to `counted`.
    pub version: Version,
    /// The rows of records up to here are in files.
    pub filed: Lsn,
    /// Versions of records up to here are counted.
    pub counted: Lsn,
}

/// What the log has made of one table so far. It changes only by [`TableLog::enter`], in the
/// order of the log.
pub struct TableLog {
    delta: Arc<Delta>,
    partition: PartitionId,
    incarnation: Incarnation,
    schema_version: SchemaVersion,
    version: Version,
    open: Option<TxnId>,
    dropped: bool,
    /// The last record that entered.
    applied: Lsn,
    filed: Lsn,
    counted: Lsn,
    unsettled: VecDeque<Unsettled>,
}

impl TableLog {
    /// A table that stands at `base`; what enters is added to `delta`, which is empty.
    ///
    /// # Panics
    /// When versions are counted less far than files reach.
    pub fn new(delta: Arc<Delta>, base: Base) -> Self {
        let Base { partition, incarnation, schema_version, version, filed, counted } = base;
        assert!(counted >= filed, "versions are counted as far as files reach");
        assert_eq!(delta.last(), Lsn::ZERO, "nothing has entered yet");
        Self {
            delta,
            partition,
            incarnation,
            schema_version,
            version,
            open: None,
            dropped: false,
            applied: Lsn::ZERO,
            filed,
            counted,
            unsettled: VecDeque::new(),
        }
    }

    /// Applies what the record at `at` says of the table. Returns the chunk of the delta that
    /// became full, if one did: to be turned into columns outside the lock.
    ///
    /// # Panics
    /// When the event cannot stand there: events come in the order of the log, versions rise, and
    /// nothing comes behind a DROP.
    pub fn enter(&mut self, at: Lsn, event: Event<'_>) -> Option<Arc<Chunk>> {
        let table = self.delta.table();
        // The one that no record says: it is of all tables, at the last record of any.
        let is_record = !matches!(event, Event::RunEnd);
        assert!(!(self.dropped && is_record), "record {at} of table {table} is behind its DROP");
        let is_next = if is_record { self.applied < at } else { self.applied <= at };
        assert!(is_next, "record {at} of table {table} comes behind {}", self.applied);
        self.applied = at;
        match event {
            Event::Load(load) => return self.enter_load(at, load),
            Event::GroupEnd { txn, version } => self.end_group(at, txn, version),
            Event::RunEnd => self.end_run(at),
            Event::Barrier { barrier, ended, version } => {
                match ended {
                    Some(txn) => self.end_group(at, txn, version),
                    None => assert!(at <= self.counted || version == self.version, "none ended"),
                }
                self.enter_barrier(at, barrier);
            }
            // Whoever appends next goes on from the log, not from files and names.
            Event::Publish { .. } | Event::Replace { .. } | Event::Define => {}
        }
        None
    }

    /// Whether the rows of a load at `at` are still to be kept: they are neither in files, nor
    /// of an incarnation that is gone.
    pub fn takes(&self, at: Lsn, incarnation: Incarnation) -> bool {
        at > self.filed && incarnation >= self.incarnation
    }

    fn enter_load(&mut self, at: Lsn, load: Load<'_>) -> Option<Arc<Chunk>> {
        let Load { incarnation, txn, ends_with, body } = load;
        let takes = self.takes(at, incarnation);
        if takes && incarnation > self.incarnation {
            // Somebody has accepted the loss of a TRUNCATE. Rows behind it tell of it by their
            // incarnation: it counts, or they would be lost as well.
            self.truncate(Lsn(at.get() - 1), incarnation);
        }
        self.end_lost_group(at, txn, ends_with);
        let fills_group = ends_with.is_some() && self.open == Some(txn);
        let full = match body {
            Body::Settled => {
                assert!(!takes, "the rows of {at} are not in files and not gone");
                None
            }
            Body::Rows { schema_version, rows, payload, permit } => {
                assert!(takes, "the rows of {at} are in files, or gone");
                // A group that its load filled ends with the note that follows it.
                let ends_group = ends_with.is_some() && !fills_group;
                let entry = DeltaEntry { lsn: at, txn, ends_group, schema_version, rows, payload };
                self.delta.push_rows(entry, permit)
            }
            Body::Rowsets(rowsets) => {
                assert!(takes, "the rowsets of {at} are flushed, or gone");
                let stand_here = rowsets.iter().all(|rowset| rowset.lsns() == (at, at));
                assert!(stand_here, "the rowsets of a large load have the LSN of its record");
                self.delta.push_rowsets(at, rowsets);
                None
            }
        };
        match ends_with {
            Some(version) if fills_group => self.end_group(at, txn, version),
            Some(version) => self.count(at, version),
            // Also where versions are counted further: the group may end behind that.
            None => self.open = Some(txn),
        }
        full
    }

    /// Somebody may have accepted the loss of a group's end. What comes behind it tells of it: a
    /// load opens another group, or has a version behind one that nobody was told of.
    fn end_lost_group(&mut self, at: Lsn, txn: TxnId, ends_with: Option<Version>) {
        let Some(open) = self.open.filter(|open| *open != txn) else { return };
        let skips = |version| at > self.counted && version > self.version.next();
        if ends_with.is_none_or(skips) {
            self.end_group(at, open, self.version.next());
        }
    }

    fn end_group(&mut self, at: Lsn, txn: TxnId, version: Version) {
        self.open = None;
        if at > self.filed {
            self.delta.end_group(txn, at);
        }
        self.count(at, version);
    }

    fn end_run(&mut self, at: Lsn) {
        let Some(txn) = self.open.take() else { return };
        // A flush ends the open group first, so files reach to here only where this end is known.
        if at <= self.filed {
            return;
        }
        self.delta.end_run(txn, at);
        // Also where versions are counted just up to here: the log may have been recycled to its
        // last record, while a record that ended the group behind it was lost.
        if at >= self.counted {
            self.version = self.version.next();
        }
    }

    fn enter_barrier(&mut self, at: Lsn, barrier: Barrier) {
        match barrier {
            Barrier::Truncate { incarnation } if at > self.filed => self.truncate(at, incarnation),
            Barrier::Alter(schema) if schema.version > self.schema_version => {
                self.schema_version = schema.version;
                self.delta.push_schema(at, Arc::clone(&schema));
                self.await_metadata(at, Barrier::Alter(schema));
            }
            // Metadata had them before the start.
            Barrier::Truncate { .. } | Barrier::Alter(_) => {}
            Barrier::Drop { with_database } => {
                self.dropped = true;
                self.delta.push_drop(at);
                self.await_metadata(at, Barrier::Drop { with_database });
            }
        }
    }

    fn truncate(&mut self, at: Lsn, incarnation: Incarnation) {
        assert!(incarnation > self.incarnation, "a TRUNCATE raises the incarnation");
        self.incarnation = incarnation;
        self.delta.push_cut(at);
        self.await_metadata(at, Barrier::Truncate { incarnation });
    }

    fn await_metadata(&mut self, lsn: Lsn, barrier: Barrier) {
        self.unsettled.push_back(Unsettled { lsn, version: self.version, barrier });
    }

    fn count(&mut self, at: Lsn, version: Version) {
        if at > self.counted {
            assert!(version > self.version, "versions of a table rise in the order of the log");
            self.version = version;
        }
    }

    /// Metadata reflects the oldest barrier, which stands at `lsn`.
    ///
    /// # Panics
    /// When the oldest one stands elsewhere.
    pub fn settled(&mut self, lsn: Lsn) {
        let oldest = self.unsettled.pop_front().map(|unsettled| unsettled.lsn);
        assert_eq!(oldest, Some(lsn), "barriers are settled in the order of the log");
    }

    /// Barriers that metadata does not reflect yet, oldest first.
    pub fn unsettled(&self) -> impl DoubleEndedIterator<Item = &Unsettled> {
        self.unsettled.iter()
    }

    /// The last barrier that metadata is to be told of for this table alone; zero when there is
    /// none.
    pub fn last_barrier(&self) -> Lsn {
        let is_own =
            |one: &&Unsettled| !matches!(one.barrier, Barrier::Drop { with_database: true });
        self.unsettled.iter().rfind(is_own).map_or(Lsn::ZERO, |unsettled| unsettled.lsn)
    }

    /// The table.
    pub fn table(&self) -> TableId {
        self.delta.table()
    }

    /// Where the DROP of this table alone stands.
    pub fn own_drop(&self) -> Option<Lsn> {
        let last = self.unsettled.back()?;
        matches!(last.barrier, Barrier::Drop { with_database: false }).then_some(last.lsn)
    }

    /// Its one partition.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Raised by TRUNCATE.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The schema version at the end of the log.
    pub fn schema_version(&self) -> SchemaVersion {
        self.schema_version
    }

    /// The columns of a schema version that rows may name.
    pub fn schema(&self, version: SchemaVersion) -> Option<Arc<TableSchema>> {
        self.delta.schema(version)
    }

    /// Groups and large loads that have ended.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The transaction of the group that is open.
    pub fn open(&self) -> Option<TxnId> {
        self.open
    }

    /// Whether it is dropped: nothing is appended any more.
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// The last record that names the table.
    pub fn applied(&self) -> Lsn {
        self.applied
    }
}

#[cfg(test)]
mod tests;
