//! Client operations, each of which informs the model in the same step in which it takes effect.

use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{Error, ErrorCode, Lsn, Result, TableId};
use freshet_ingest::{Destination, Engine, LoadBuffer, LoadTarget, Loaded, PreparedEnd, WaitLimit};
use freshet_meta::{
    BucketsSpec, Claim, ClaimOutcome, DistributionSpec, LabelKind, PartitionChange, PartitionSpec,
    Renaming, Replacing, SchemaChange,
};
use freshet_schema::{GroupCommitMode, KeyModel};
use freshet_storage::snapshot::Snapshot;
use freshet_testkit::SimFs;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::executor::Executor;
use crate::model::{Event, Model, Part, Staged, Unknown};
use crate::rows::{self, RowKind};

/// The context of an actor.
#[derive(Clone)]
pub struct Client {
    pub engine: Arc<Engine>,
    /// The clock and scheduler.
    pub executor: Executor,
    pub fs: SimFs,
    /// The expected contents of the log.
    pub model: Arc<Mutex<Model>>,
    /// Whether the disk may fail at any time, so that I/O errors are expected.
    pub disk_fails: bool,
}

/// The outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is durable and readable.
    Acknowledged(Lsn),
    /// Its label was used before.
    LabelUsed,
    /// It failed with an expected error, and without effect.
    Refused,
}

impl Client {
    /// Waits until it is known what is dead in a snapshot, if the disk lets it.
    pub fn resolved<'a>(&'a self, snapshot: &'a Snapshot) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for state in self.engine.table_states() {
                if let Ok(Some(table)) = snapshot.table(state.id) {
                    // Who compares the table finds that it is not resolved.
                    let _ = table.resolved().await;
                }
            }
        })
    }

    /// Lets time pass.
    pub async fn sleep(&self, time: Duration) {
        self.executor.sleep(time).await;
    }

    /// Loads `count` rows through the log.
    pub fn load<'a>(
        &'a self,
        table: &'a str,
        count: i64,
        mode: GroupCommitMode,
        label: Option<String>,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let known = label.clone();
            if let Some(label) = known.clone() {
                let unknown = Unknown { label, table: table.to_owned(), rows: count };
                self.model.lock().unknown.push(unknown);
            }
            let outcome = self.try_load(table, count, mode, label).await;
            if let Some(label) = known {
                self.model.lock().unknown.retain(|unknown| unknown.label != label);
            }
            self.outcome(outcome)
        })
    }

    async fn try_load(
        &self,
        table: &str,
        count: i64,
        mode: GroupCommitMode,
        label: Option<String>,
    ) -> Result<Outcome> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let destination = match &label {
            None => Destination::Group(mode),
            Some(label) => match self.claim(&target, label).await? {
                Some(claim) => Destination::Label(claim, mode),
                None => return Ok(Outcome::LabelUsed),
            },
        };
        let ids = self.model.lock().take_ids(count);
        let mut buffer = encoded(&target, &ids);
        let loaded = engine.load(&target, destination, self.patience()).commit(&mut buffer).await?;
        self.loaded(vec![part_of(&target, ids, &loaded)], &loaded, label);
        Ok(self.acknowledge(loaded.lsn).await)
    }

    /// Loads `pieces` pieces of `count` rows each through files.
    pub fn load_large<'a>(
        &'a self,
        table: &'a str,
        count: i64,
        pieces: i64,
    ) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_load_large(table, count, pieces, |_| Box::pin(async {})))
    }

    /// Like [`Self::load_large`]; `beside` runs before each piece and before the record.
    pub async fn load_large_beside<'a>(
        &self,
        table: &str,
        count: i64,
        pieces: i64,
        beside: impl Fn(i64) -> BoxFuture<'a, ()> + Send,
    ) -> Outcome {
        let outcome = self.try_load_large(table, count, pieces, beside).await;
        self.outcome(outcome)
    }

    async fn try_load_large<'a>(
        &self,
        table: &str,
        count: i64,
        pieces: i64,
        beside: impl Fn(i64) -> BoxFuture<'a, ()> + Send,
    ) -> Result<Outcome> {
        let target = self.engine.target("d", table)?;
        let destination = Destination::Group(GroupCommitMode::Async);
        let mut load = self.engine.load(&target, destination, self.patience());
        load.to_files().await?;
        let ids = self.model.lock().take_ids(count * pieces);
        for piece in 0..pieces {
            beside(piece).await;
            let first = ids.start + piece * count;
            load.reserve_for(&mut encoded(&target, &(first..first + count))).await?;
        }
        beside(pieces).await;
        load.to_files().await?;
        beside(pieces + 1).await;
        let loaded = load.commit(&mut LoadBuffer::default()).await?;
        self.loaded(vec![part_of(&target, ids, &loaded)], &loaded, None);
        Ok(self.acknowledge(loaded.lsn).await)
    }

    /// Prepares a load of `count` rows, to be committed later.
    pub fn prepare<'a>(&'a self, table: &'a str, count: i64) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_prepare(table, count))
    }

    async fn try_prepare(&self, table: &str, count: i64) -> Result<Outcome> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let ids = self.model.lock().take_ids(count);
        let destination = Destination::Group(GroupCommitMode::Off);
        let load = engine.load(&target, destination, self.patience());
        let mut buffer = encoded(&target, &ids);
        let keep = (None, Duration::from_secs(3600));
        let Some(state) = engine.table_state(target.id()) else { return Ok(Outcome::Refused) };
        let incarnation = state.incarnation();
        let (txn, label) = engine.prepare(load, &mut buffer, keep).await?;
        let kind = kind_of(&target);
        let (table, schema) = (target.id(), Arc::clone(target.schema()));
        let part = Part { table, ids, kind, schema, txn, grouped: false };
        // A TRUNCATE beside it may have made it void.
        let same = engine.table_state(table).is_some_and(|now| now.incarnation() == incarnation);
        if same {
            let db = target.db();
            let staged = Staged { label, db, part, incarnation, may_be_aborted: false };
            self.model.lock().staged.push(staged);
        }
        Ok(Outcome::Acknowledged(Lsn::ZERO))
    }

    /// Commits or aborts a prepared load.
    pub fn end(&self, staged: Staged, end: PreparedEnd) -> BoxFuture<'_, Outcome> {
        self.ended(self.try_end(staged, end))
    }

    async fn try_end(&self, staged: Staged, end: PreparedEnd) -> Result<Outcome> {
        let (label, txn) = (staged.label, staged.part.txn);
        let event = || Event::Load(vec![staged.part.clone()], Some(label.clone()));
        let of_label = |load: &Staged| load.label == label;
        let table = self.engine.catalog().table_by_id(staged.part.table).cloned();
        // A commit aborts it where a unique key came meanwhile.
        let gets_keys = table.is_some_and(|table| table.key_model == KeyModel::Primary);
        if end == PreparedEnd::Abort || gets_keys {
            let mut model = self.model.lock();
            let found = model.staged.iter_mut().find(|load| of_label(load));
            found.into_iter().for_each(|load| load.may_be_aborted = true);
        }
        let (ended, lsn) = self.watched(self.engine.end_prepared(txn, end), event).await;
        if let Some(lsn) = lsn {
            assert_eq!(end, PreparedEnd::Commit, "an abort is no record");
            assert!(ended.is_ok(), "what is in the log is committed: {ended:?}");
            self.model.lock().staged.retain(|load| !of_label(load));
            return Ok(self.acknowledged(lsn));
        }
        match ended {
            Ok(()) => {
                assert_eq!(end, PreparedEnd::Abort, "a commit is a record");
                self.model.lock().staged.retain(|load| !of_label(load));
                Ok(Outcome::Acknowledged(Lsn::ZERO))
            }
            // Another client ended it, or its table was truncated or dropped, or has another key.
            Err(error)
                if [ErrorCode::WrongArguments, ErrorCode::LabelUsed].contains(&error.code()) =>
            {
                Ok(Outcome::Refused)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves `count` amounts from one account to the other, in one transaction.
    pub fn transfer(&self, count: i64) -> BoxFuture<'_, Outcome> {
        self.ended(self.try_transfer(count))
    }

    async fn try_transfer(&self, count: i64) -> Result<Outcome> {
        let engine = &self.engine;
        let ids = self.model.lock().take_ids(count);
        let transaction = engine.begin_transaction(None);
        let mut parts = Vec::new();
        for (table, kind) in [("bank_a", RowKind::Plain), ("bank_b", RowKind::Debit)] {
            let target = engine.target("d", table)?;
            let mut buffer = encoded_as(&target, &ids, kind);
            let destination = Destination::Transaction(transaction.own_rows());
            let load = engine.load(&target, destination, self.patience());
            let loaded = load.commit(&mut buffer).await?;
            parts.push(Part { kind, ..part_of(&target, ids.clone(), &loaded) });
        }
        let loaded = engine.commit(transaction, self.patience()).await?.expect("it has rows");
        let txn = loaded.txn.expect("it is in the log");
        self.loaded(parts.into_iter().map(|part| Part { txn, ..part }).collect(), &loaded, None);
        Ok(self.acknowledge(loaded.lsn).await)
    }

    /// Truncates tables by name with a single record.
    pub fn truncate<'a>(&'a self, names: &'a [&'a str]) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_truncate(names))
    }

    async fn try_truncate(&self, names: &[&str]) -> Result<Outcome> {
        let engine = &self.engine;
        let ids = names.iter().map(|name| Ok(engine.target("d", name)?.id()));
        let ids = ids.collect::<Result<Vec<TableId>>>()?;
        let event = || Event::Truncate(ids.clone());
        let (truncated, lsn) = self.watched(engine.ddl().truncate(&ids), event).await;
        truncated?;
        Ok(self.acknowledged(lsn.expect("a TRUNCATE is a record")))
    }

    pub fn alter<'a>(&'a self, table: &'a str, change: SchemaChange) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_alter(table, change))
    }

    async fn try_alter(&self, table: &str, change: SchemaChange) -> Result<Outcome> {
        let engine = &self.engine;
        let id = engine.target("d", table)?.id();
        let changes = vec![change];
        let event = || {
            let altered = engine.meta().catalog().altered(id, &changes);
            Event::Alter(id, altered.expect("the barrier was just appended, and has not settled"))
        };
        let altering = engine.ddl().alter_columns(id, changes.clone());
        let (altered, lsn) = self.watched(altering, event).await;
        altered?;
        Ok(self.acknowledged(lsn.expect("an ALTER is a record")))
    }

    /// Drops and adds, or truncates, a partition of [`rows::PARTITIONS`].
    pub fn cut<'a>(&'a self, table: &'a str, at: usize, empties: bool) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_cut(table, at, empties))
    }

    async fn try_cut(&self, table: &str, at: usize, empties: bool) -> Result<Outcome> {
        let id = self.engine.target("d", table)?.id();
        let (name, from, to) = rows::PARTITIONS[at];
        let event = || Event::Cut(id, std::iter::once(from..to).collect());
        let names = vec![name.to_owned()];
        let change = match empties {
            true => PartitionChange::Truncate(Some(names)),
            false => PartitionChange::Drop { names, if_exists: false, force: true },
        };
        let (cut, lsn) = self.watched(self.engine.ddl().change_partitions(id, change), event).await;
        cut?;
        Ok(self.acknowledged(lsn.expect("a change of partitions is a record")))
    }

    /// Moves the rows of some partitions of [`rows::PARTITIONS`] to new ones of the same values.
    pub fn reorganize<'a>(
        &'a self,
        table: &'a str,
        some: std::ops::Range<usize>,
    ) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_reorganize(table, some))
    }

    async fn try_reorganize(&self, table: &str, some: std::ops::Range<usize>) -> Result<Outcome> {
        let id = self.engine.target("d", table)?.id();
        let from = some.clone().map(|at| rows::PARTITIONS[at].0.to_owned()).collect();
        let into = some.map(rows::partition_spec).collect();
        let change = PartitionChange::Reorganize { from, into };
        let event = || Event::Cut(id, Vec::new());
        let moved = freshet_ingest::reorganize(&self.engine, id, change);
        let (moved, lsn) = self.watched(moved, event).await;
        moved?;
        Ok(self.acknowledged(lsn.expect("a change of partitions is a record")))
    }

    /// Puts an empty temporary partition in the place of one of [`rows::PARTITIONS`].
    pub fn replace<'a>(&'a self, table: &'a str, at: usize) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_replace(table, at))
    }

    async fn try_replace(&self, table: &str, at: usize) -> Result<Outcome> {
        let id = self.engine.target("d", table)?.id();
        let (name, from, to) = rows::PARTITIONS[at];
        let spec = PartitionSpec { name: format!("t{name}"), ..rows::partition_spec(at) };
        let by = vec![spec.name.clone()];
        let ddl = self.engine.ddl();
        ddl.drop_temporary_partitions(id, by.clone(), true).await?;
        ddl.add_temporary_partitions(id, PartitionChange::Add(vec![spec])).await?;
        let from_names = vec![name.to_owned()];
        let replacing = Replacing { from: from_names, by, is_strict: true, keeps_names: false };
        let event = || Event::Cut(id, std::iter::once(from..to).collect());
        let replaced = freshet_ingest::replace_partitions(&self.engine, id, replacing);
        let (replaced, lsn) = self.watched(replaced, event).await;
        replaced?;
        Ok(self.acknowledged(lsn.expect("a change of partitions is a record")))
    }

    /// Adds a partition of [`rows::PARTITIONS`].
    pub fn add_partition<'a>(&'a self, table: &'a str, at: usize) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_add_partition(table, at))
    }

    async fn try_add_partition(&self, table: &str, at: usize) -> Result<Outcome> {
        let id = self.engine.target("d", table)?.id();
        let change = PartitionChange::AddDistributed {
            spec: rows::partition_spec(at),
            distribution: DistributionSpec::Hash(vec!["id".to_owned()]),
            buckets: BucketsSpec::Count(1 + at as u64 % 3),
        };
        let event = || Event::Cut(id, Vec::new());
        let (added, lsn) =
            self.watched(self.engine.ddl().change_partitions(id, change), event).await;
        added?;
        Ok(self.acknowledged(lsn.expect("a change of partitions is a record")))
    }

    pub fn drop_table<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_drop(table))
    }

    async fn try_drop(&self, table: &str) -> Result<Outcome> {
        let engine = &self.engine;
        let id = engine.target("d", table)?.id();
        let event = || Event::Drop(vec![id]);
        let (dropped, lsn) = self.watched(engine.ddl().drop_table("d", table, false), event).await;
        dropped?;
        Ok(self.acknowledged(lsn.expect("a DROP is a record")))
    }

    /// Drops the database with all its tables.
    pub fn drop_database(&self) -> BoxFuture<'_, Outcome> {
        self.ended(self.try_drop_database())
    }

    async fn try_drop_database(&self) -> Result<Outcome> {
        let catalog = self.engine.catalog();
        let tables = catalog.require_database("d")?.tables.values().map(|table| table.id);
        let tables = tables.collect::<Vec<_>>();
        let event = || Event::Drop(tables.clone());
        let (dropped, lsn) = self.watched(self.engine.ddl().drop_database("d", false), event).await;
        dropped?;
        Ok(self.acknowledged(lsn.expect("a DROP is a record")))
    }

    pub fn set<'a>(
        &'a self,
        table: &'a str,
        property: &'a str,
        value: u64,
    ) -> BoxFuture<'a, Outcome> {
        self.ended(async move {
            let id = self.engine.target("d", table)?.id();
            let pairs = vec![(property.to_owned(), value.to_string())];
            self.engine.ddl().set_properties(id, pairs).await?;
            Ok(Outcome::Acknowledged(Lsn::ZERO))
        })
    }

    pub fn rename<'a>(&'a self, table: &'a str, name: &'a str) -> BoxFuture<'a, Outcome> {
        self.ended(async move {
            self.engine.rename_tables(&[Renaming::within("d", table, name)]).await?;
            Ok(Outcome::Acknowledged(Lsn::ZERO))
        })
    }

    /// Creates a table with these properties, which limit its commit groups.
    pub fn create(&self, table: &str, properties: &[(&str, u64)]) -> BoxFuture<'_, Outcome> {
        let spec = rows::table_spec(table, properties);
        self.ended(async move {
            self.engine.ddl().create_table("d", spec, true).await?;
            Ok(Outcome::Acknowledged(Lsn::ZERO))
        })
    }

    /// Flushes a table to files.
    pub fn flush<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Outcome> {
        self.ended(async move {
            let target = self.engine.target("d", table)?;
            self.engine.flush_table(target.id()).await?;
            Ok(Outcome::Acknowledged(Lsn::ZERO))
        })
    }

    /// Lets rows that delete be forgotten, as far as merges have named them.
    pub fn forget(&self) -> BoxFuture<'_, Outcome> {
        self.ended(self.try_forget())
    }

    async fn try_forget(&self) -> Result<Outcome> {
        let Some(forgot) = self.engine.forget_some().await? else {
            return Ok(Outcome::Acknowledged(Lsn::ZERO));
        };
        let table = self.engine.catalog().require(forgot.table)?.clone();
        let keys = forgot.keys.iter().map(|key| rows::key_number(key, table.schema()));
        let event = Event::Forget(forgot.table, keys.collect(), forgot.to);
        self.appended(forgot.lsn, event);
        self.model.lock().counts.forgotten += forgot.keys.len() as u64;
        Ok(self.acknowledge(forgot.lsn).await)
    }

    /// Claims a label as a client does: the answer that it is used waits until the record of its
    /// load is durable.
    async fn claim(&self, target: &LoadTarget, label: &str) -> Result<Option<Claim>> {
        match self.engine.claim_label(target.db(), label, LabelKind::Streaming).await? {
            ClaimOutcome::New(claim) => {
                let stands = self.model.lock().label(label);
                assert_eq!(stands, None, "label {label} is given away a second time");
                Ok(Some(claim))
            }
            ClaimOutcome::Used(used) => {
                if let Some(lsn) = used.lsn {
                    assert!(self.engine.horizon().get() >= lsn, "told of what is not durable");
                    let stands = self.model.lock().label(label);
                    assert_eq!(stands, Some(lsn), "label {label} names no load");
                }
                Ok(None)
            }
        }
    }

    pub(crate) fn patience(&self) -> WaitLimit {
        WaitLimit::For(self.engine.config().load_patience)
    }

    /// Informs the model of a load, in the same step in which it was appended to the log.
    pub fn loaded(&self, parts: Vec<Part>, loaded: &Loaded, label: Option<String>) {
        self.appended(loaded.lsn, Event::Load(parts, label));
    }

    pub(crate) fn appended(&self, lsn: Lsn, event: Event) {
        self.model.lock().appended(&self.engine, lsn, event);
    }

    pub(crate) async fn acknowledge(&self, lsn: Lsn) -> Outcome {
        self.engine.horizon().wait(lsn).await;
        self.acknowledged(lsn)
    }

    pub(crate) fn acknowledged(&self, lsn: Lsn) -> Outcome {
        assert!(self.engine.horizon().get() >= lsn, "{lsn} is acknowledged above the horizon");
        self.model.lock().acknowledged(lsn);
        Outcome::Acknowledged(lsn)
    }

    /// Runs a statement that appends one barrier, and informs the model in the same step.
    pub(crate) async fn watched<T>(
        &self,
        statement: impl Future<Output = T>,
        event: impl Fn() -> Event,
    ) -> (T, Option<Lsn>) {
        let mut statement = Box::pin(statement);
        let mut barrier = None;
        let next = || self.engine.log_stats().next_lsn;
        let result = std::future::poll_fn(|context| {
            let before = next();
            let polled = statement.as_mut().poll(context);
            if next() > before {
                assert_eq!(next(), before.next(), "a statement is one record");
                self.appended(before, event());
                barrier = Some(before);
            }
            match polled {
                Poll::Ready(value) => Poll::Ready(value),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        (result, barrier)
    }

    /// The outcome of an operation, once it has ended. A future behind a pointer is compiled here;
    /// any other one, with all of the engine that it awaits, in every program of tests.
    pub(crate) fn ended<'a>(
        &'a self,
        operation: impl Future<Output = Result<Outcome>> + Send + 'a,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.outcome(operation.await) })
    }

    pub(crate) fn outcome(&self, result: Result<Outcome>) -> Outcome {
        match result {
            Ok(outcome) => outcome,
            Err(error) => {
                assert!(self.is_clear(&error), "not an error for this moment: {error:?}");
                self.model.lock().counts.refused += 1;
                Outcome::Refused
            }
        }
    }

    /// Whether a client may get this error here.
    fn is_clear(&self, error: &Error) -> bool {
        use ErrorCode::{
            Deadlock, DiskFull, DuplicateKey, Io, LastPartition, LockWaitTimeout, NoPartition,
            NoSuchPartition, NoSuchTable, OutOfRoom, PartitionExists, RangeNotIncreasing,
            ShuttingDown, SnapshotTooOld, TableChanged, UnknownPartition,
        };
        let ordinary = [OutOfRoom, DiskFull, NoSuchTable, SnapshotTooOld];
        let of_copies = [TableChanged, ShuttingDown];
        let of_keys = [Deadlock, DuplicateKey, LockWaitTimeout];
        let of_partitions = [
            NoPartition,
            NoSuchPartition,
            UnknownPartition,
            PartitionExists,
            LastPartition,
            RangeNotIncreasing,
        ];
        of_partitions.contains(&error.code())
            || ordinary.contains(&error.code())
            || of_keys.contains(&error.code())
            || of_copies.contains(&error.code())
            || error.code() == ErrorCode::TableDropMissing
            // An ALTER beside temporary partitions, which a crash may have left.
            || error.message().contains("there are temp partitions")
            || (error.code() == Io && self.disk_fails)
            || self.fs.has_crashed()
    }
}

/// The kind of the rows of an ordinary load.
fn kind_of(target: &LoadTarget) -> RowKind {
    match target.table().key_model {
        KeyModel::Unique | KeyModel::Primary => RowKind::Version,
        KeyModel::Duplicate | KeyModel::Aggregate => RowKind::Plain,
    }
}

/// Rows of a table as sent by a client.
pub fn encoded(target: &LoadTarget, ids: &Range<i64>) -> LoadBuffer {
    encoded_as(target, ids, kind_of(target))
}

pub(crate) fn encoded_as(target: &LoadTarget, ids: &Range<i64>, kind: RowKind) -> LoadBuffer {
    let mut buffer = LoadBuffer::default();
    rows::encode(ids.clone(), kind, target.schema(), buffer.begin());
    buffer.count((ids.end - ids.start) as usize).expect("loads are small");
    buffer
}

/// A load as the model records it.
pub fn part_of(target: &LoadTarget, ids: Range<i64>, loaded: &Loaded) -> Part {
    Part {
        table: target.id(),
        ids,
        kind: kind_of(target),
        schema: Arc::clone(target.schema()),
        txn: loaded.txn.unwrap_or_default(),
        grouped: loaded.mode != GroupCommitMode::Off,
    }
}
