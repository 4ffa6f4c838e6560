//! The model: the records of the log, and what readers must therefore see.
//!
//! The model learns the LSN of every append in the step that made it, and every acknowledgement in
//! the step that gave it. The expected contents of a snapshot are the fold of all records up to its
//! horizon. After a crash the model is truncated to the end of the log found by recovery, which
//! must not be below any acknowledged record.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use freshet_base::{DbId, ErrorCode, Incarnation, Lsn, SchemaVersion, TableId, Version};
use freshet_ingest::{Engine, PreparedId};
use freshet_schema::TableSchema;
use freshet_storage::delta::Freshness;
use freshet_storage::snapshot::{Snapshot, TableSnapshot};
use futures::FutureExt;

use crate::copied::CopiedTables;
pub use crate::events::{Event, Part};
use crate::expected::{Expected, ExpectedTable};
use crate::rows::{self, FileRows, Row, RowKind, is_missing};

/// A labelled load whose outcome is unknown to the client.
#[derive(Clone, Debug)]
pub struct Unknown {
    pub label: String,
    /// The name of the table.
    pub table: String,
    /// The number of rows.
    pub rows: i64,
}

/// A prepared load, which a client knows to be durable and which waits for its commit.
#[derive(Clone, Debug)]
pub struct Staged {
    pub label: String,
    /// The database of the label.
    pub db: DbId,
    pub part: Part,
    /// The incarnation of its table for which it was prepared.
    pub incarnation: Incarnation,
    /// Whether a client has begun to abort it.
    pub may_be_aborted: bool,
}

/// Statistics of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of acknowledged records.
    pub acknowledged: u64,
    /// Number of rows in acknowledged records.
    pub rows: u64,
    /// Number of snapshots compared with the model.
    pub snapshots: u64,
    /// Of these, snapshots that had become too old to read.
    pub too_old: u64,
    /// Number of keyed tables that could not be compared, since their keys could not be read.
    pub unresolved: u64,
    /// Number of tables read by key.
    pub points: u64,
    /// Number of those that a snapshot would have had to read.
    pub points_unfit: u64,
    /// Number of rows that delete and were forgotten.
    pub forgotten: u64,
    /// Number of partitions that came back from the recycle bin.
    pub recovered: u64,
    /// Number of times that a table was copied, and of comparisons of such tables.
    pub copies: u64,
    pub copied_tables: u64,
    /// Number of tables compared with a replay.
    pub replays: u64,
    /// Number of prepared loads that a restart has brought back.
    pub prepared: u64,
    /// Number of loads rejected with an error.
    pub refused: u64,
    /// Number of power failures, process ends and orderly stops survived.
    pub restarts: u64,
    /// Number of records lost in crashes; none of them was acknowledged.
    pub lost: u64,
}

/// The expected contents of the log.
#[derive(Default)]
pub struct Model {
    events: BTreeMap<Lsn, Event>,
    /// The first records of lives, which end the groups that earlier ones left open.
    terms: BTreeSet<Lsn>,
    acknowledged_to: Lsn,
    next_id: i64,
    /// Versions of tables at records, which must never decrease.
    versions: BTreeMap<(TableId, Lsn), Version>,
    /// Rows of files read in this life.
    file_rows: FileRows,
    /// Labelled loads to be resent.
    pub unknown: Vec<Unknown>,
    /// Loads that wait for their commit.
    pub staged: Vec<Staged>,
    /// Tables that are copied.
    pub copied: CopiedTables,
    pub counts: Counts,
}

impl Model {
    /// Reserves ids for `count` rows.
    pub fn take_ids(&mut self, count: i64) -> Range<i64> {
        let first = self.next_id;
        self.next_id += count;
        first..self.next_id
    }

    /// Notes a record appended at `lsn`.
    ///
    /// # Panics
    /// When there is another record at `lsn`.
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

    /// Checks that these keys had these rows before the record at `lsn`, as whoever appended it has
    /// seen.
    ///
    /// # Panics
    /// When they had others: somebody else has written meanwhile.
    pub fn check_seen(
        &self,
        table: TableId,
        schema: &TableSchema,
        seen: &[(i64, Option<Row>)],
        lsn: Lsn,
    ) {
        let mut open =
            seen.iter().map(|(key, row)| (*key, row.as_ref())).collect::<BTreeMap<_, _>>();
        for (at, event) in self.events.range(..lsn).rev() {
            let parts = match event {
                _ if open.is_empty() => break,
                Event::Truncate(tables) if tables.contains(&table) => break,
                Event::Cut(of, _) | Event::Rest(of, ..) if *of == table => {
                    let ranges = match event {
                        Event::Cut(_, ranges) => ranges.clone(),
                        Event::Rest(_, _, range) => vec![range.clone()],
                        _ => unreachable!("it is one of these"),
                    };
                    open.retain(|key, row| {
                        let is_cut = ranges.iter().any(|range| range.contains(key));
                        assert!(!is_cut || row.is_none(), "key {key} of {table} is cut by {at}");
                        !is_cut
                    });
                    continue;
                }
                // Who looks at rows that came back is not told what they were.
                Event::Recover(of, _, range) if *of == table => {
                    open.retain(|key, _| !range.contains(key));
                    continue;
                }
                Event::Load(parts, _) => parts.iter().filter(|part| part.table == table),
                _ => continue,
            };
            for part in parts.rev() {
                for id in part.ids.clone().rev() {
                    let key = rows::key_of(id);
                    let Some(row) = open.remove(&key) else { continue };
                    let mut was = Vec::new();
                    if part.kind == RowKind::Version {
                        rows::expect((id..id + 1, part.kind), &part.schema, schema, &mut was);
                    }
                    assert_eq!(row, was.first(), "key {key} of {table} before {lsn}, by {at}");
                }
            }
        }
        for (key, row) in open {
            assert_eq!(row, None, "key {key} of {table} before {lsn}");
        }
    }

    /// Checks that a table without a unique key had all of these rows, also those that are there
    /// more than once, before the record at `lsn`, which has removed them.
    ///
    /// # Panics
    /// When it had not.
    pub fn check_there(&self, table: TableId, schema: &TableSchema, removed: &[Row], lsn: Lsn) {
        let before = Expected::at(&self.events, Lsn(lsn.get() - 1));
        let mut rows = before.tables[&table].rows(schema, |_, _| true);
        for row in removed {
            let at = rows.binary_search(row);
            let at = at.unwrap_or_else(|_| panic!("{row:?} of {table} is removed twice by {lsn}"));
            rows.remove(at);
        }
    }

    /// Notes that the record at `lsn` was acknowledged to its client.
    pub fn acknowledged(&mut self, lsn: Lsn) {
        self.acknowledged_to = self.acknowledged_to.max(lsn);
        self.counts.acknowledged += 1;
        if let Some(Event::Load(parts, _)) = self.events.get(&lsn) {
            let rows = parts.iter().map(|part| part.ids.end - part.ids.start).sum::<i64>();
            self.counts.rows += rows.unsigned_abs();
        }
    }

    /// The LSN of the load with this label, if there is one.
    pub fn label(&self, label: &str) -> Option<Lsn> {
        let is_it = |event: &Event| matches!(event, Event::Load(_, Some(own)) if own == label);
        self.events.iter().find(|(_, event)| is_it(event)).map(|(lsn, _)| *lsn)
    }

    /// Whether a record is of this table.
    pub fn knows(&self, table: TableId) -> bool {
        self.events.values().any(|event| event.tables().contains(&table))
    }

    /// The LSN of the DROP of a table, if there is one.
    pub fn dropped_at(&self, table: TableId) -> Option<Lsn> {
        let drops = |event: &Event| matches!(event, Event::Drop(tables) if tables.contains(&table));
        self.events.iter().find(|(_, event)| drops(event)).map(|(lsn, _)| *lsn)
    }

    /// Notes that the store was reopened with a log that ends at `log_end`.
    ///
    /// # Panics
    /// When an acknowledged record is after that, or a version has decreased.
    pub fn reopened(&mut self, engine: &Engine, log_end: Lsn) {
        let acknowledged = self.acknowledged_to;
        assert!(log_end >= acknowledged, "{acknowledged} was acknowledged, {log_end} is the end");
        let lost = self.events.split_off(&log_end.next());
        self.counts.lost += lost.len() as u64;
        self.counts.restarts += 1;
        self.copied.reopened(log_end);
        self.versions.retain(|(_, lsn), _| *lsn <= log_end);
        self.terms.split_off(&log_end.next());
        // Where its first record will be, once it is durable.
        self.terms.insert(log_end.next());
        self.forget_files();
        for state in engine.table_states() {
            let version = state.version();
            self.saw_version(state.id, log_end, version);
        }
    }

    /// Checks that behind a start each prepared load is there, or has been committed once, and
    /// forgets those that have ended.
    ///
    /// # Panics
    /// When one is lost, or could be committed again.
    pub fn check_staged(&mut self, engine: &Engine) {
        let mut staged = std::mem::take(&mut self.staged);
        staged.retain(|load| {
            let found = engine.prepared(load.db, PreparedId::Txn(load.part.txn));
            if let Some(lsn) = self.label(&load.label) {
                let error = found.expect_err("a load is committed once");
                assert_eq!(error.code(), ErrorCode::LabelUsed, "{} of {lsn}", load.label);
                return false;
            }
            let state = engine.table_state(load.part.table);
            let stands = state.is_some_and(|state| state.incarnation() == load.incarnation);
            let is_there = found.is_ok();
            let table = engine.catalog().table_by_id(load.part.table).cloned();
            // Its partition may have gone, and with it the load when it was to be committed.
            let is_divided = table.is_some_and(|table| table.partition_by.is_some());
            let may_be_gone = load.may_be_aborted || !stands || is_divided;
            assert!(is_there || may_be_gone, "the prepared load {} is lost", load.label);
            self.counts.prepared += u64::from(is_there);
            is_there
        });
        self.staged = staged;
    }

    /// Notes that an operator has accepted the loss of these records; readers must not see them
    /// again.
    pub fn accepted_loss(&mut self, first: Lsn, last: Lsn) {
        let kept = self.events.split_off(&last.next());
        self.counts.lost += self.events.split_off(&first).len() as u64;
        self.events.extend(kept);
        self.terms.retain(|term| *term < first || *term > last);
    }

    /// The LSN of the last TRUNCATE.
    pub fn truncated_at(&self) -> Option<Lsn> {
        let is_it = |event: &Event| matches!(event, Event::Truncate(_));
        self.events.iter().rfind(|(_, event)| is_it(event)).map(|(lsn, _)| *lsn)
    }

    /// Lets the next comparison read all files.
    pub fn forget_files(&mut self) {
        self.file_rows = FileRows::default();
    }

    /// All visible rows of a table, sorted; reads no file of which this life has read these rows.
    ///
    /// # Errors
    /// When a file cannot be read, for example because the disk fails.
    pub fn read(&mut self, read: &TableSnapshot) -> Result<Vec<Row>, freshet_storage::Error> {
        rows::read_with(read, &mut self.file_rows)
    }

    /// Compares a snapshot of all tables with the model at its horizon; reads all its files.
    ///
    /// # Panics
    /// When they differ.
    pub fn check(&mut self, snapshot: &Snapshot) {
        let known = std::mem::take(&mut self.file_rows);
        self.check_again(snapshot);
        self.file_rows.keep(known);
    }

    /// Like [`Self::check`], but reads no file of which this life has read the same rows.
    ///
    /// # Panics
    /// When they differ.
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
        self.counts.copied_tables += self.copied.check(snapshot);
    }

    /// Compares all rows of a table that were read by key with the model at `at`.
    ///
    /// # Panics
    /// When they differ.
    pub fn check_points(&mut self, table: TableId, schema: &TableSchema, rows: Vec<Row>, at: Lsn) {
        let expected = Expected::at(&self.events, at);
        let Some(expected) = expected.tables.get(&table) else { return };
        // Who drops a table is told later, so this may have been before.
        if expected.dropped {
            return;
        }
        self.counts.points += 1;
        let wanted = expected.rows(schema, |_, _| true);
        if rows != wanted {
            panic!("table {table} by key at {at}: {}", difference(&rows, &wanted));
        }
    }

    /// Checks the error of a read.
    ///
    /// # Panics
    /// When a file is missing.
    pub fn check_failed(&self, table: TableId, error: &freshet_storage::Error) {
        assert!(!is_missing(error), "table {table}: {error}");
    }

    /// Compares a table; returns the sum of its amounts, or `None` if a read failed.
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
        // Who opened the snapshot has waited for that, if the disk let it.
        if !matches!(read.resolved().now_or_never(), Some(Ok(()))) {
            self.counts.unresolved += 1;
            return None;
        }
        let rows = match self.read(read) {
            Ok(rows) => rows,
            // Disk accesses may fail, but a file that a snapshot may read must exist.
            Err(error) => {
                assert!(!is_missing(&error), "table {table} at {horizon}: {error}");
                return None;
            }
        };
        let wanted = match snapshot.freshness {
            Freshness::Committed => expected.rows(&read.schema, |_, _| true),
            Freshness::Published if read.is_keyed() => {
                return self.check_prefix(&rows, expected, read);
            }
            Freshness::Published => {
                let seen = rows.iter().map(|row| row.id).collect::<BTreeSet<_>>();
                self.check_groups(expected, &seen, horizon);
                // A change of partitions ends the group before it.
                let is_whole = |lsn| expected.cuts.last().is_some_and(|(_, cut, _)| lsn < *cut);
                let shown = |lsn, part: &Part| {
                    let is_gone = part.kind == RowKind::Gone;
                    is_gone || is_whole(lsn) || part.ids.clone().any(|id| seen.contains(&id))
                };
                expected.rows(&read.schema, shown)
            }
        };
        if rows != wanted {
            panic!("table {table} at {horizon}: {}", difference(&rows, &wanted));
        }
        Some(rows.iter().map(|row| row.amount).sum())
    }

    /// Readers of a keyed table with `published` freshness must see a beginning of its log, up to
    /// the end of a group (keys.md K21).
    fn check_prefix(
        &self,
        rows: &[Row],
        expected: &ExpectedTable,
        read: &TableSnapshot,
    ) -> Option<i64> {
        let (parts, table) = (&expected.parts, read.table.id);
        let term = self.terms.range(..=read.horizon).next_back();
        let has_ended =
            |(lsn, part): &(Lsn, Part)| !part.grouped || term.is_some_and(|term| lsn < term);
        let least = parts.iter().rposition(has_ended).map_or(0, |last| last + 1);
        let is_whole = |end: &usize| match parts.get(*end) {
            Some((_, next)) if *end > 0 => !next.grouped || parts[*end - 1].1.txn != next.txn,
            _ => true,
        };
        let mut ends = (least..=parts.len()).filter(is_whole);
        let is_seen = ends.any(|end| {
            let (parts, mut cuts) = (parts[..end].to_vec(), expected.cuts.clone());
            cuts.retain(|(at, _, _)| *at <= end);
            let mut forgotten = expected.forgotten.clone();
            forgotten.retain(|(at, _, _)| *at <= end);
            let shown = ExpectedTable { parts, cuts, forgotten, ..Default::default() };
            shown.rows(&read.schema, |_, _| true) == rows
        });
        assert!(is_seen, "what is published of {table} is no beginning of its log from {least} on");
        Some(0)
    }

    /// Readers with `published` freshness must see complete groups: all of their loads or none.
    fn check_groups(&self, expected: &ExpectedTable, seen: &BTreeSet<i64>, horizon: Lsn) {
        let term = self.terms.range(..=horizon).next_back();
        let mut shown = BTreeMap::new();
        let gone = expected.parts.iter().filter(|(_, part)| part.kind == RowKind::Gone);
        let gone = gone.flat_map(|(_, part)| part.ids.clone()).collect::<BTreeSet<_>>();
        for (lsn, part) in &expected.parts {
            // Of what was removed nothing can be told.
            if part.kind == RowKind::Gone || part.ids.clone().all(|id| gone.contains(&id)) {
                continue;
            }
            if expected.cuts.last().is_some_and(|(_, cut, _)| lsn < cut) {
                continue;
            }
            let is_seen = part.ids.clone().any(|id| seen.contains(&id));
            if !part.grouped || term.is_some_and(|term| lsn < term) {
                assert!(is_seen, "the group of {lsn} has ended, and is not published");
            } else {
                let first = *shown.entry(part.txn).or_insert(is_seen);
                assert_eq!(first, is_seen, "the group {} is published in part", part.txn);
            }
        }
    }
}

/// Transfers between the two accounts must balance. A table without records is empty.
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

/// Versions and schema versions of all tables that are not dropped, by id. Those that an
/// interrupted copy has left go behind a start, at a time of their own.
pub fn versions(engine: &Engine) -> BTreeMap<TableId, (Version, SchemaVersion)> {
    let catalog = engine.catalog();
    let stays = |state: &&Arc<freshet_ingest::TableState>| {
        let table = catalog.table_by_id(state.id);
        !state.is_dropped() && table.is_none_or(|table| !catalog.is_left_over(table))
    };
    let of = |state: &Arc<freshet_ingest::TableState>| {
        (state.id, (state.version(), state.schema_version()))
    };
    engine.table_states().iter().filter(stays).map(of).collect()
}
