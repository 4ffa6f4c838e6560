//! The oracle: what the log holds, record by record, and what readers must therefore see.
//!
//! Every append tells the model its LSN in the very step that made it, every acknowledgement
//! the step that gave it. What a snapshot shows is then no matter of opinion: it is the fold of
//! all records up to its horizon. A crash cuts the model off where recovery says the log ended,
//! which must not be below anything acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use freshet_base::{Lsn, SchemaVersion, TableId, TxnId, Version};
use freshet_ingest::Engine;
use freshet_schema::TableSchema;
use freshet_storage::delta::Freshness;
use freshet_storage::snapshot::{Snapshot, TableSnapshot};

use crate::rows::{self, FileRows, Row};

/// The rows of one record in one table.
#[derive(Clone, Debug)]
pub struct Part {
    /// The table.
    pub table: TableId,
    /// The ids of the rows, given to no other rows ever.
    pub ids: Range<i64>,
    /// Whether the amounts are taken instead of given.
    pub negative: bool,
    /// What the rows were written in.
    pub schema: Arc<TableSchema>,
    /// What it is reported under: loads of a group share it.
    pub txn: TxnId,
    /// Whether other loads may share its group.
    pub grouped: bool,
}

/// One record of the log.
#[derive(Clone, Debug)]
pub enum Event {
    /// Rows of one table or more, and the client's label.
    Load(Vec<Part>, Option<String>),
    /// Tables that are empty from here on.
    Truncate(Vec<TableId>),
    /// A table whose columns are these from here on.
    Alter(TableId, Arc<TableSchema>),
    /// Tables that are gone.
    Drop(Vec<TableId>),
}

/// A labelled load whose outcome the client does not know.
#[derive(Clone, Debug)]
pub struct Unknown {
    /// The label.
    pub label: String,
    /// The table's name.
    pub table: String,
    /// How many rows.
    pub rows: i64,
}

/// What was done, for the figures of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Rows in them.
    pub rows: u64,
    /// Snapshots compared with the log.
    pub snapshots: u64,
    /// Of these, snapshots that had been closed.
    pub too_old: u64,
    /// Tables compared with what a replay makes of them.
    pub replays: u64,
    /// Loads refused with a clear error.
    pub refused: u64,
    /// Power cuts, process ends and orderly stops survived.
    pub restarts: u64,
    /// Records lost in crashes; none of them was acknowledged.
    pub lost: u64,
}

/// What the log holds.
#[derive(Default)]
pub struct Model {
    events: BTreeMap<Lsn, Event>,
    /// Records of runs that have ended: their groups have, too.
    earlier_runs_to: Lsn,
    acknowledged_to: Lsn,
    next_id: i64,
    /// Versions of tables where records stand: they never fall.
    versions: BTreeMap<(TableId, Lsn), Version>,
    /// Rows of files that this life has read.
    file_rows: FileRows,
    /// Labelled loads to be sent again.
    pub unknown: Vec<Unknown>,
    /// What was done.
    pub counts: Counts,
}

impl Model {
    /// Ids for `count` rows.
    pub fn take_ids(&mut self, count: i64) -> Range<i64> {
        let first = self.next_id;
        self.next_id += count;
        first..self.next_id
    }

    /// A record was appended at `lsn`.
    ///
    /// # Panics
    /// When another stands there.
    pub fn appended(&mut self, engine: &Engine, lsn: Lsn, event: Event) {
        for table in event.tables() {
            if let Some(state) = engine.table_state(table) {
                let version = state.version();
                self.saw_version(table, lsn, version);
            }
        }
        let before = self.events.insert(lsn, event);
        assert!(before.is_none(), "two records at {lsn}: {before:?}");
    }

    fn saw_version(&mut self, table: TableId, lsn: Lsn, version: Version) {
        let upto = self.versions.range((table, Lsn::ZERO)..=(table, lsn));
        if let Some((before, seen)) = upto.last() {
            assert!(version >= *seen, "version of {table} fell from {seen} at {before:?}");
            let records = lsn.get() - before.1.get();
            let most = seen.get() + records + 1;
            assert!(version.get() <= most, "{table} jumped to version {version} from {seen}");
        }
        self.versions.insert((table, lsn), version);
    }

    /// The record at `lsn` was acknowledged to its client.
    pub fn acknowledged(&mut self, lsn: Lsn) {
        self.acknowledged_to = self.acknowledged_to.max(lsn);
        self.counts.acknowledged += 1;
        if let Some(Event::Load(parts, _)) = self.events.get(&lsn) {
            let rows = parts.iter().map(|part| part.ids.end - part.ids.start).sum::<i64>();
            self.counts.rows += rows.unsigned_abs();
        }
    }

    /// Where the label's load stands, if there is one.
    pub fn label(&self, label: &str) -> Option<Lsn> {
        let is_it = |event: &Event| matches!(event, Event::Load(_, Some(own)) if own == label);
        self.events.iter().find(|(_, event)| is_it(event)).map(|(lsn, _)| *lsn)
    }

    /// The store was opened again, and its log ends at `log_end`.
    ///
    /// # Panics
    /// When something acknowledged is behind that, or a version fell.
    pub fn reopened(&mut self, engine: &Engine, log_end: Lsn) {
        let acknowledged = self.acknowledged_to;
        assert!(log_end >= acknowledged, "{acknowledged} was acknowledged, {log_end} is the end");
        let lost = self.events.split_off(&log_end.next());
        self.counts.lost += lost.len() as u64;
        self.counts.restarts += 1;
        self.versions.retain(|(_, lsn), _| *lsn <= log_end);
        self.earlier_runs_to = log_end;
        self.file_rows.clear();
        for state in engine.table_states() {
            let version = state.version();
            self.saw_version(state.id, log_end, version);
        }
    }

    /// Somebody accepted the loss of these records; readers are not to see them again.
    pub fn accepted_loss(&mut self, first: Lsn, last: Lsn) {
        let kept = self.events.split_off(&last.next());
        self.counts.lost += self.events.split_off(&first).len() as u64;
        self.events.extend(kept);
    }

    /// Where the last TRUNCATE stands.
    pub fn truncated_at(&self) -> Option<Lsn> {
        let is_it = |event: &Event| matches!(event, Event::Truncate(_));
        self.events.iter().rfind(|(_, event)| is_it(event)).map(|(lsn, _)| *lsn)
    }

    /// Compares a snapshot of all tables with the log up to its horizon; reads all its files.
    ///
    /// # Panics
    /// Where they differ.
    pub fn check(&mut self, snapshot: &Snapshot) {
        self.file_rows.clear();
        self.check_again(snapshot);
    }

    /// The same, but files that were read since the last such check are taken as they were then.
    ///
    /// # Panics
    /// Where they differ.
    pub fn check_again(&mut self, snapshot: &Snapshot) {
        self.counts.snapshots += 1;
        let expected = Expected::at(&self.events, snapshot.horizon);
        let mut amounts = BTreeMap::new();
        for (table, expected) in &expected.tables {
            let Ok(read) = snapshot.table(*table) else {
                self.counts.too_old += 1;
                return;
            };
            if expected.dropped {
                assert!(read.is_none(), "table {table} is dropped at {}", snapshot.horizon);
                continue;
            }
            let read = read.unwrap_or_else(|| panic!("table {table} is gone"));
            if let Some(amount) = self.check_table(&read, expected, snapshot) {
                amounts.insert(*table, amount);
            }
        }
        check_bank(snapshot, &amounts);
    }

    /// The sum of its amounts, where it can be read.
    fn check_table(
        &mut self,
        read: &TableSnapshot,
        expected: &ExpectedTable,
        snapshot: &Snapshot,
    ) -> Option<i64> {
        let (table, horizon) = (read.table.id, snapshot.horizon);
        if let Some(schema) = &expected.schema {
            assert_eq!(read.schema.version, schema.version, "columns of {table} at {horizon}");
        }
        let rows = match rows::read_with(read, &mut self.file_rows) {
            Ok(rows) => rows,
            // The disk may fail; a file that a snapshot may still read is there all the same.
            Err(error) => {
                assert!(!is_missing(&error), "table {table} at {horizon}: {error}");
                return None;
            }
        };
        let wanted = match snapshot.freshness {
            Freshness::Committed => expected.rows(&read.schema, |_| true),
            Freshness::Published => {
                let seen = rows.iter().map(|row| row.id).collect::<BTreeSet<_>>();
                self.check_groups(expected, &seen);
                expected.rows(&read.schema, |part| seen.contains(&part.ids.start))
            }
        };
        if rows != wanted {
            panic!("table {table} at {horizon}: {}", difference(&rows, &wanted));
        }
        Some(rows.iter().map(|row| row.amount).sum())
    }

    /// What `published` readers see are whole groups: all their loads or none.
    fn check_groups(&self, expected: &ExpectedTable, seen: &BTreeSet<i64>) {
        let mut shown = BTreeMap::new();
        for (lsn, part) in &expected.parts {
            let is_seen = seen.contains(&part.ids.start);
            if !part.grouped || *lsn <= self.earlier_runs_to {
                assert!(is_seen, "the group of {lsn} has ended, and is not published");
            } else {
                let first = *shown.entry(part.txn).or_insert(is_seen);
                assert_eq!(first, is_seen, "the group {} is published in part", part.txn);
            }
        }
    }
}

impl Event {
    fn tables(&self) -> Vec<TableId> {
        match self {
            Self::Load(parts, _) => parts.iter().map(|part| part.table).collect(),
            Self::Truncate(tables) | Self::Drop(tables) => tables.clone(),
            Self::Alter(table, _) => vec![*table],
        }
    }
}

/// All tables at one horizon.
struct Expected {
    tables: BTreeMap<TableId, ExpectedTable>,
}

#[derive(Default)]
struct ExpectedTable {
    parts: Vec<(Lsn, Part)>,
    schema: Option<Arc<TableSchema>>,
    dropped: bool,
}

impl Expected {
    fn at(events: &BTreeMap<Lsn, Event>, horizon: Lsn) -> Self {
        let mut tables = BTreeMap::<TableId, ExpectedTable>::new();
        for (lsn, event) in events.range(..=horizon) {
            match event {
                Event::Load(parts, _) => {
                    for part in parts {
                        let table = tables.entry(part.table).or_default();
                        assert!(!table.dropped, "{lsn} is behind the drop of its table");
                        table.parts.push((*lsn, part.clone()));
                    }
                }
                Event::Truncate(ids) => {
                    for id in ids {
                        tables.entry(*id).or_default().parts.clear();
                    }
                }
                Event::Alter(id, schema) => {
                    tables.entry(*id).or_default().schema = Some(Arc::clone(schema));
                }
                Event::Drop(ids) => {
                    ids.iter().for_each(|id| tables.entry(*id).or_default().dropped = true);
                }
            }
        }
        Self { tables }
    }
}

impl ExpectedTable {
    fn rows(&self, schema: &TableSchema, shown: impl Fn(&Part) -> bool) -> Vec<Row> {
        let parts = self.parts.iter().filter(|(_, part)| shown(part));
        let mut rows = Vec::new();
        for (_, part) in parts {
            rows::expect(part.ids.clone(), part.negative, &part.schema, schema, &mut rows);
        }
        rows.sort();
        rows
    }
}

/// What is taken from one table is given to the other. A table that no record names is empty.
fn check_bank(snapshot: &Snapshot, amounts: &BTreeMap<TableId, i64>) {
    let catalog = &snapshot.catalog;
    let of = |name| {
        let table = catalog.require_table("d", name).ok()?;
        amounts.get(&table.id).copied()
    };
    if let (Some(a), Some(b)) = (of("bank_a"), of("bank_b")) {
        assert_eq!(a + b, 0, "a transfer is torn at {}", snapshot.horizon);
    }
}

fn is_missing(error: &freshet_storage::Error) -> bool {
    let missing = std::io::ErrorKind::NotFound;
    matches!(error, freshet_storage::Error::Io { source, .. } if source.kind() == missing)
}

fn difference(read: &[Row], wanted: &[Row]) -> String {
    let (have, want) = (ids(read), ids(wanted));
    let missing = want.difference(&have).take(5).collect::<Vec<_>>();
    let extra = have.difference(&want).take(5).collect::<Vec<_>>();
    let other = read.iter().zip(wanted).find(|(a, b)| a != b);
    format!(
        "{} rows instead of {}; missing {missing:?}, extra {extra:?}, first other {other:?}",
        read.len(),
        wanted.len()
    )
}

fn ids(rows: &[Row]) -> BTreeSet<i64> {
    rows.iter().map(|row| row.id).collect()
}

/// The version that recovery gives every table that is not dropped, by id.
pub fn versions(engine: &Engine) -> BTreeMap<TableId, (Version, SchemaVersion)> {
    let of = |state: &Arc<freshet_ingest::TableState>| {
        (state.id, (state.version(), state.schema_version()))
    };
    engine.table_states().iter().filter(|state| !state.is_dropped()).map(of).collect()
}
