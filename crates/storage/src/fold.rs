//! The effect of log records on a table: one implementation for everyone who applies the log.
//!
//! A record yields one [`Event`] for each table that it names. An event is applied in two steps.
//! [`TableLog::enter`] applies it at its position in the log: it counts versions, tracks the open
//! commit group, and adds to the delta what readers should see. `TableView::settle` applies it once
//! its record is durable: it puts files, columns and tablets into the view. Neither step
//! does I/O, waits, fails, or reads a clock or a setting, so applying the same events to the same
//! table always results in the same state, whether they are appended or replayed.

use std::sync::Arc;

use freshet_base::budget::Permit;
use freshet_base::{
    Incarnation, Lsn, PartitionId, SchemaVersion, TableId, TabletId, TxnId, Version,
};
use freshet_schema::TableSchema;

use crate::delta::{Chunk, Delta, DeltaEntry, Payload};
use crate::division::Division;
use crate::resolver::{FlushSwap, MergeSwap};
use crate::rowset::Rowset;

mod settle;

pub(crate) use settle::Settled;

/// The effect of one record on one table.
pub enum Event<'a> {
    Load(Load<'a>),
    /// The open commit group ends.
    GroupEnd {
        /// The group's transaction.
        txn: TxnId,
        /// The table's new version.
        version: Version,
    },
    /// A term begins, and with that the commit group ends that an earlier one left open.
    Term {
        /// The group's transaction, and the table's new version. `None` if the record does not name
        /// the table although it has an open group: the record that ended it was given up.
        ended: Option<(TxnId, Version)>,
    },
    /// TRUNCATE, ALTER or DROP.
    Barrier {
        barrier: Barrier,
        /// The transaction of the open commit group, which it ends.
        ended: Option<TxnId>,
        /// The table's new version.
        version: Version,
    },
    /// A flush: the rows of records up to here are in these files.
    Publish {
        /// The table's version here.
        version: Version,
        /// The table's columns here.
        schema: Arc<TableSchema>,
        rowsets: Vec<Arc<Rowset>>,
        /// Of keyed tables.
        swap: Option<Box<FlushSwap>>,
    },
    /// A merge: one rowset of a tablet replaces adjacent ones.
    Replace {
        tablet: TabletId,
        /// The merged rowsets.
        removed: Vec<Arc<Rowset>>,
        /// The result.
        added: Arc<Rowset>,
        /// Of keyed tables.
        swap: Option<Box<MergeSwap>>,
    },
    /// The table's name or properties change.
    Define,
}

/// The part of a load that belongs to one table.
pub struct Load<'a> {
    /// The partition's incarnation at this position of the log.
    pub incarnation: Incarnation,
    /// The transaction under which it is reported.
    pub txn: TxnId,
    /// The table's new version, if it ends its commit group.
    pub ends_with: Option<Version>,
    /// The open group that it ends before its own, with the version before.
    pub ended: Option<TxnId>,
    pub body: Body<'a>,
}

/// The contents of a load.
pub enum Body<'a> {
    /// Encoded rows.
    Rows {
        /// The schema version that they are encoded under.
        schema_version: SchemaVersion,
        /// The number of rows.
        rows: u32,
        /// How many of them, the first ones, only remove their key.
        removals: u32,
        payload: Payload<'a>,
        /// Their memory.
        permit: Permit,
    },
    /// Rowsets with synced files.
    Rowsets(Vec<Arc<Rowset>>),
    /// Rows for which [`TableLog::takes`] is false: the load is only counted.
    Settled,
    /// Rows that cannot be read, since the record of the ALTER before them was given up: the load
    /// is only counted.
    Lost,
}

/// An event that separates a table's earlier records from later ones.
#[derive(Clone, Debug)]
pub enum Barrier {
    /// Removes everything before it.
    Truncate {
        /// The partitions' incarnation from here on.
        incarnation: Incarnation,
    },
    /// The table has these columns from here on.
    Alter(Arc<TableSchema>),
    /// The table has other partitions from here on.
    /// With the files whose rows come with it, in partitions that are new.
    Divide(Arc<Division>, Vec<Arc<Rowset>>),
    /// Removes the table.
    Drop,
}

/// A TRUNCATE whose record was given up with a hole in the log; a later record has revealed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostTruncate {
    /// The position before that record.
    pub at: Lsn,
    /// The table's version there.
    pub version: Version,
    /// The partition's incarnation from there on.
    pub incarnation: Incarnation,
}

/// The state of a table in metadata and files, after which records have to be entered.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// The first partition.
    pub partition: PartitionId,
    /// The partitions' incarnation.
    pub incarnation: Incarnation,
    /// The newest schema version.
    pub schema_version: SchemaVersion,
    /// The number of commit groups and large loads that have ended up to `counted`.
    pub version: Version,
    /// The rows of records up to here are in files.
    pub flushed: Lsn,
    /// Versions of records up to here are counted.
    pub counted: Lsn,
}

/// The state of one table as of the log's end. It changes only by [`TableLog::enter`], in log
/// order.
pub struct TableLog {
    delta: Arc<Delta>,
    partition: PartitionId,
    incarnation: Incarnation,
    schema_version: SchemaVersion,
    version: Version,
    open: Option<TxnId>,
    dropped: bool,
    /// The last entered record.
    applied: Lsn,
    flushed: Lsn,
    counted: Lsn,
    lost_truncate: Option<LostTruncate>,
}

impl TableLog {
    /// A table with the state `base`; events are added to `delta`, which must be empty.
    ///
    /// # Panics
    /// When versions are counted only to a position before `base.flushed`.
    pub fn new(delta: Arc<Delta>, base: Base) -> Self {
        let Base { partition, incarnation, schema_version, version, flushed, counted } = base;
        assert!(counted >= flushed, "versions are counted as far as files reach");
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
            flushed,
            counted,
            lost_truncate: None,
        }
    }

    /// Applies the event of the record at `at`. Returns a chunk of the delta that became full, to
    /// be converted to columns outside the lock.
    ///
    /// # Panics
    /// When the event is invalid there: events come in log order, versions ascend, and nothing
    /// follows a DROP.
    pub fn enter(&mut self, at: Lsn, event: Event<'_>) -> Option<Arc<Chunk>> {
        let table = self.delta.table();
        assert!(!self.dropped, "record {at} of table {table} is behind its DROP");
        let is_next = self.applied < at;
        assert!(is_next, "record {at} of table {table} comes behind {}", self.applied);
        self.applied = at;
        match event {
            Event::Load(load) => return self.enter_load(at, load),
            Event::GroupEnd { txn, version } => self.end_group(at, txn, version),
            Event::Term { ended } => self.begin_term(at, ended),
            Event::Barrier { barrier, ended, version } => {
                // A group that is open although the record ended none lost its end in a hole.
                match ended.or(self.open) {
                    Some(txn) => self.end_group(at, txn, version),
                    None if version == self.version => {}
                    None => self.count(at, version),
                }
                self.enter_barrier(at, barrier);
            }
            // They change only files and definitions, which later appends do not depend on.
            Event::Publish { .. } | Event::Replace { .. } | Event::Define => {}
        }
        None
    }

    /// Whether the rows of a load at `at` have to be kept: they are neither in files nor of an
    /// incarnation that was truncated.
    pub fn takes(&self, at: Lsn, incarnation: Incarnation) -> bool {
        at > self.flushed && incarnation >= self.incarnation
    }

    fn enter_load(&mut self, at: Lsn, load: Load<'_>) -> Option<Arc<Chunk>> {
        let Load { incarnation, txn, ends_with, ended, body } = load;
        let takes = self.takes(at, incarnation);
        if takes && incarnation > self.incarnation {
            // The record of a TRUNCATE was lost, and an operator accepted that. Later rows reveal
            // it by their incarnation; it takes effect here, otherwise they would be lost as well.
            let at = Lsn(at.get() - 1);
            self.truncate(at, incarnation);
            self.lost_truncate = Some(LostTruncate { at, version: self.version, incarnation });
        }
        if let (Some(other), Some(version)) = (ended, ends_with) {
            assert_ne!(other, txn, "a load ends the group of others before its own");
            if let Some(lost) = self.open.filter(|open| *open != other) {
                self.end_group(at, lost, self.version.next());
            }
            self.end_group(at, other, Version(version.get() - 1));
        }
        self.end_lost_group(at, txn, ends_with);
        let fills_group = ends_with.is_some() && self.open == Some(txn);
        let full = match body {
            Body::Settled => {
                assert!(!takes, "the rows of {at} are not in files and not gone");
                None
            }
            Body::Lost => None,
            Body::Rows { schema_version, rows, removals, payload, permit } => {
                assert!(takes, "the rows of {at} are in files, or gone");
                // If the load filled the open group, the group ends with the record that follows
                // it.
                let ends_group = ends_with.is_some() && !fills_group;
                let entry = DeltaEntry {
                    lsn: at,
                    txn,
                    ends_group,
                    schema_version,
                    rows,
                    removals,
                    payload,
                };
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
            // Even if versions are counted further: the group may end after that position.
            None if at > self.flushed => self.open = Some(txn),
            // A flush ends the open group first. The record that did so may have been given up; if
            // the group were open here, a later term would end it again, with one version too many.
            None => {}
        }
        full
    }

    /// An operator may have accepted the loss of a group's end. Later records reveal it: a load
    /// opens another group, or its version skips one that was never recorded.
    fn end_lost_group(&mut self, at: Lsn, txn: TxnId, ends_with: Option<Version>) {
        let Some(open) = self.open.filter(|open| *open != txn) else { return };
        let skips = |version| at > self.counted && version > self.version.next();
        if ends_with.is_none_or(skips) {
            self.end_group(at, open, self.version.next());
        }
    }

    fn end_group(&mut self, at: Lsn, txn: TxnId, version: Version) {
        self.open = None;
        if at > self.flushed {
            self.delta.end_group(txn, at);
        }
        self.count(at, version);
    }

    /// No group is open behind this, whatever is missing in the log.
    fn begin_term(&mut self, at: Lsn, ended: Option<(TxnId, Version)>) {
        let lost = self.open.filter(|open| ended.is_none_or(|(txn, _)| txn != *open));
        if let Some(open) = lost {
            self.end_group(at, open, self.version.next());
        }
        if let Some((txn, version)) = ended {
            self.end_group(at, txn, version);
        }
        assert_eq!(self.open, None, "no group outlives a term");
    }

    fn enter_barrier(&mut self, at: Lsn, barrier: Barrier) {
        match barrier {
            Barrier::Truncate { incarnation } if at > self.flushed => {
                self.truncate(at, incarnation)
            }
            Barrier::Alter(schema) if schema.version > self.schema_version => {
                self.schema_version = schema.version;
                self.delta.push_schema(at, schema);
            }
            Barrier::Divide(division, rowsets) if at > self.flushed => {
                self.delta.push_division(at, division, rowsets);
            }
            // They had settled before the start entered any record.
            Barrier::Truncate { .. } | Barrier::Alter(_) | Barrier::Divide(..) => {}
            Barrier::Drop => {
                self.dropped = true;
                self.delta.push_drop(at);
            }
        }
    }

    fn truncate(&mut self, at: Lsn, incarnation: Incarnation) {
        assert!(incarnation > self.incarnation, "a TRUNCATE raises the incarnation");
        self.incarnation = incarnation;
        self.delta.push_truncate(at);
    }

    fn count(&mut self, at: Lsn, version: Version) {
        if at > self.counted {
            assert!(version > self.version, "versions of a table rise in the order of the log");
            self.version = version;
        }
    }

    /// The last TRUNCATE that was given up and revealed by a later record; metadata lacks it.
    pub fn lost_truncate(&self) -> Option<LostTruncate> {
        self.lost_truncate
    }

    pub fn table(&self) -> TableId {
        self.delta.table()
    }

    /// Lets a flush end here: what comes next goes to other nodes of the delta. Returns the last
    /// LSN in it.
    pub fn freeze(&self) -> Lsn {
        self.delta.freeze()
    }

    /// The first partition when this began; a name for all of them.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The incarnation, raised by each TRUNCATE.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The schema version at the end of the log.
    pub fn schema_version(&self) -> SchemaVersion {
        self.schema_version
    }

    /// The columns of a schema version that rows may refer to.
    pub fn schema(&self, version: SchemaVersion) -> Option<Arc<TableSchema>> {
        self.delta.schema(version)
    }

    /// The number of commit groups and large loads that have ended.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The transaction of the open commit group.
    pub fn open(&self) -> Option<TxnId> {
        self.open
    }

    /// Whether it is dropped: nothing more is appended.
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
