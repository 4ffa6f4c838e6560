use freshet_base::{Incarnation, Lsn, PartitionId, SchemaVersion, TxnId, Version};
use proptest::prelude::*;

use super::*;
use crate::delta::{Bounds, DeltaPart, DeltaRead, Freshness};
use crate::testing::{TABLE, encode, keys, permit, schema};

/// A step of appending.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A load in a commit group of its own.
    Alone,
    /// A load that joins the open group, or opens one.
    Join,
    /// Like `Join`, and it fills the group.
    Fill,
    End,
    Large,
    Truncate,
    Alter,
    /// A process ends, and the next one begins its term.
    Term,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Alone),
        4 => Just(Step::Join),
        1 => Just(Step::Fill),
        2 => Just(Step::End),
        1 => Just(Step::Large),
        1 => Just(Step::Truncate),
        1 => Just(Step::Alter),
        1 => Just(Step::Term),
    ]
}

/// A record as decoded from the log.
#[derive(Clone, Debug)]
enum Said {
    Load { incarnation: Incarnation, txn: TxnId, ends: Option<Version>, columns: u32, large: bool },
    GroupEnd { txn: TxnId, version: Version },
    Term { ended: Option<(TxnId, Version)> },
    Barrier { barrier: Barrier, ended: Option<TxnId>, version: Version },
}

impl Said {
    /// Enters the record; a load has one row whose key is the LSN.
    fn enter(&self, log: &mut TableLog, at: Lsn) {
        let event = match self.clone() {
            Self::Load { incarnation, txn, ends, columns, large } => {
                let bytes = encode(&schema(columns), &[at.get() as i64]);
                let body = match (log.takes(at, incarnation), large) {
                    (false, _) => Body::Settled,
                    (true, true) => Body::Rowsets(Vec::new()),
                    (true, false) => Body::Rows {
                        schema_version: SchemaVersion(columns),
                        rows: 1,
                        removals: 0,
                        payload: Payload::Copied(&bytes),
                        permit: permit(bytes.len() as u64),
                    },
                };
                let load = Load { incarnation, txn, ends_with: ends, ended: None, body };
                return drop(log.enter(at, Event::Load(load)));
            }
            Self::GroupEnd { txn, version } => Event::GroupEnd { txn, version },
            Self::Term { ended } => Event::Term { ended },
            Self::Barrier { barrier, ended, version } => Event::Barrier { barrier, ended, version },
        };
        log.enter(at, event);
    }
}

/// A simple model of a table, and its records.
#[derive(Clone, Default)]
struct Model {
    records: Vec<(Lsn, Said)>,
    last: u64,
    version: u64,
    incarnation: u32,
    columns: u32,
    open: Option<TxnId>,
    /// The position of the last TRUNCATE.
    truncated: u64,
    /// Loads: LSN, group, and whether their rows are in files.
    loads: Vec<(u64, TxnId, bool)>,
    ended: Vec<TxnId>,
}

impl Model {
    fn new() -> Self {
        Self { version: 1, incarnation: 1, columns: 1, ..Self::default() }
    }

    fn say(&mut self, said: Said) {
        self.records.push((Lsn(self.last), said));
    }

    fn load(&mut self, txn: TxnId, ends: bool, large: bool) {
        self.last += 1;
        if ends {
            self.end(txn);
        } else {
            self.open = Some(txn);
        }
        self.loads.push((self.last, txn, large));
        let (incarnation, columns) = (Incarnation(self.incarnation), self.columns);
        let ends = ends.then_some(Version(self.version));
        self.say(Said::Load { incarnation, txn, ends, columns, large });
    }

    fn end(&mut self, txn: TxnId) {
        self.version += 1;
        self.ended.push(txn);
        self.open = self.open.filter(|open| *open != txn);
    }

    fn step(&mut self, step: Step) {
        let txn = TxnId(self.last + 1);
        let open = self.open;
        match step {
            Step::Alone => self.load(txn, true, false),
            Step::Large => self.load(txn, true, true),
            Step::Join => self.load(open.unwrap_or(txn), false, false),
            Step::Fill => self.load(open.unwrap_or(txn), true, false),
            Step::End | Step::Term => {
                let Some(txn) = open else { return };
                self.end(txn);
                self.last += 1;
                let version = Version(self.version);
                self.say(match step {
                    Step::End => Said::GroupEnd { txn, version },
                    _ => Said::Term { ended: Some((txn, version)) },
                });
            }
            Step::Truncate | Step::Alter => {
                self.last += 1;
                open.into_iter().for_each(|txn| self.end(txn));
                let barrier = match step {
                    Step::Truncate => {
                        self.incarnation += 1;
                        self.truncated = self.last;
                        Barrier::Truncate { incarnation: Incarnation(self.incarnation) }
                    }
                    _ => {
                        self.columns += 1;
                        Barrier::Alter(schema(self.columns))
                    }
                };
                let version = Version(self.version);
                self.say(Said::Barrier { barrier, ended: open, version });
            }
        }
    }

    /// The keys of the rows above `flushed` that readers see.
    fn keys(&self, flushed: u64, published: bool) -> Vec<i64> {
        let seen = |(at, txn, large): &&(u64, TxnId, bool)| {
            !large && *at > flushed.max(self.truncated) && (!published || self.ended.contains(txn))
        };
        self.loads.iter().filter(seen).map(|(at, ..)| *at as i64).collect()
    }

    /// A log that starts with this model's version count, with rows up to `flushed` in files and
    /// columns as of `altered`.
    fn base(&self, flushed: &Self, altered: &Self) -> TableLog {
        let base = Base {
            partition: PartitionId(1),
            incarnation: Incarnation(flushed.incarnation),
            schema_version: SchemaVersion(altered.columns),
            version: Version(self.version),
            flushed: Lsn(flushed.last),
            counted: Lsn(self.last),
        };
        let schemas = (1..=altered.columns).map(schema).collect::<Vec<_>>();
        TableLog::new(Arc::new(Delta::new(TABLE, &schemas)), base)
    }

    fn check(&self, log: &TableLog, flushed: u64) {
        assert_eq!(log.version(), Version(self.version));
        assert_eq!(log.schema_version(), SchemaVersion(self.columns));
        assert_eq!(log.incarnation(), Incarnation(self.incarnation));
        assert_eq!(log.open(), self.open);
        for (freshness, published) in [(Freshness::Committed, false), (Freshness::Published, true)]
        {
            let bounds = Bounds { flushed: Lsn(flushed), horizon: Lsn(self.last), freshness };
            let head = log.delta.head();
            let read = DeltaRead::new(&log.delta.chunks(&head), bounds);
            let mut batches = Vec::new();
            for part in read.parts {
                if let DeltaPart::Rows(rows) = part {
                    rows.batches(&schema(1), &mut batches).unwrap();
                }
            }
            assert_eq!(keys(&batches), self.keys(flushed, published), "{freshness:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After every record the state while appending is that of the model, and a replay of the same
    /// records results in the same state, wherever metadata and files begin.
    #[test]
    fn a_replay_from_anywhere_comes_to_the_state_of_who_appended(
        steps in prop::collection::vec(step(), 1..40),
        from in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let mut model = Model::new();
        let mut log = model.base(&model, &model);
        let mut stages = vec![model.clone()];
        for step in steps {
            let said = model.records.len();
            model.step(step);
            for (at, record) in &model.records[said..] {
                record.enter(&mut log, *at);
            }
            model.check(&log, 0);
            stages.push(model.clone());
        }
        let mut from = from.iter().map(|index| index.index(stages.len())).collect::<Vec<_>>();
        from.sort_unstable();
        let [flushed, counted, altered] = [0, 1, 2].map(|at| &stages[..=from[at]]);
        // A flush ends the open group first.
        let flushed = flushed.iter().rfind(|stage| stage.open.is_none());
        let flushed = flushed.expect("it begins with none");
        let altered = altered.last().expect("not empty");
        let counted = counted.last().expect("not empty");
        let mut replayed = counted.base(flushed, altered);
        for (at, record) in &model.records {
            record.enter(&mut replayed, *at);
        }
        model.check(&replayed, flushed.last);
    }
}

fn log_of(steps: &[Step]) -> (Model, TableLog) {
    let mut model = Model::new();
    let mut log = model.base(&model, &model);
    steps.iter().for_each(|step| model.step(*step));
    model.records.iter().for_each(|(at, record)| record.enter(&mut log, *at));
    (model, log)
}

#[test]
fn records_behind_the_end_of_a_group_that_was_lost_tell_of_it() {
    let barrier_first = [Step::Alter, Step::Alone];
    for behind in [[Step::Large, Step::Alone], [Step::Join, Step::End], barrier_first] {
        let (mut model, mut log) = log_of(&[Step::Join]);
        // This record is lost, and the loss accepted.
        model.step(Step::End);
        for step in behind {
            model.step(step);
            let (at, record) = model.records.last().unwrap();
            record.enter(&mut log, *at);
            model.check(&log, 0);
        }
    }
}

#[test]
fn a_term_ends_a_group_whose_end_was_lost() {
    let (mut model, mut log) = log_of(&[Step::Join]);
    // This record is lost, and the loss accepted. The next term knew of it, and names no group.
    model.step(Step::End);
    model.last += 1;
    Said::Term { ended: None }.enter(&mut log, Lsn(model.last));
    model.check(&log, 0);
}

#[test]
fn a_term_ends_its_group_behind_one_whose_end_was_lost() {
    let (mut model, mut log) = log_of(&[Step::Join]);
    // Both records are lost, and the loss accepted.
    model.step(Step::End);
    model.step(Step::Join);
    let lost = model.loads.pop().unwrap();
    model.step(Step::Term);
    let (at, record) = model.records.last().unwrap();
    record.enter(&mut log, *at);
    assert_eq!((log.version(), log.open()), (Version(3), None));
    model.check(&log, 0);
    assert_eq!(lost.0, 3);
}

#[test]
fn a_group_in_files_whose_end_was_lost_is_not_ended_again() {
    let (mut model, _) = log_of(&[Step::Join, Step::End]);
    let mut log = model.base(&model, &model);
    // The flush has covered the end, whose record is lost.
    model.records[0].1.enter(&mut log, Lsn(1));
    assert_eq!(log.open(), None);
    model.step(Step::Alone);
    let (at, record) = model.records.last().unwrap();
    record.enter(&mut log, *at);
    assert_eq!(log.version(), Version(3));
}

#[test]
fn a_group_that_was_put_aside_open_ends_with_the_next_term() {
    let (mut model, _) = log_of(&[Step::Alone, Step::Join]);
    // A turn has put the open group aside, and the power was cut before its end was durable.
    let mut log = model.base(&Model::new(), &model);
    model.records.iter().for_each(|(at, record)| record.enter(&mut log, *at));
    assert_eq!((log.version(), log.open()), (Version(2), Some(TxnId(2))));
    model.step(Step::Term);
    let (at, term) = model.records.last().unwrap();
    term.enter(&mut log, *at);
    assert_eq!((log.version(), log.open()), (Version(3), None));
    // Where a flush has covered that end, its version is counted.
    let mut log = model.base(&model, &model);
    model.records.iter().for_each(|(at, record)| record.enter(&mut log, *at));
    assert_eq!((log.version(), log.open()), (Version(3), None));
}

#[test]
fn rows_behind_a_truncate_that_was_lost_tell_of_it() {
    let (mut model, mut log) = log_of(&[Step::Alone]);
    model.step(Step::Truncate);
    // This record is lost, and the loss accepted.
    model.step(Step::Alone);
    let (at, load) = model.records.last().unwrap();
    load.enter(&mut log, *at);
    assert_eq!(log.incarnation(), Incarnation(2));
    let (at_truncate, incarnation) = (Lsn(2), Incarnation(2));
    let lost = LostTruncate { at: at_truncate, version: Version(2), incarnation };
    assert_eq!(log.lost_truncate(), Some(lost));
    let bounds = Bounds { flushed: Lsn(0), horizon: *at, freshness: Freshness::Committed };
    let read = DeltaRead::new(&log.delta.chunks(&log.delta.head()), bounds);
    assert_eq!((read.truncated, read.parts.len()), (Some(Lsn(2)), 1));
}

#[test]
#[should_panic(expected = "behind its DROP")]
fn nothing_comes_behind_a_drop() {
    let (model, mut log) = log_of(&[Step::Alone]);
    let (barrier, version) = (Barrier::Drop, Version(2));
    Said::Barrier { barrier, ended: None, version }.enter(&mut log, Lsn(2));
    model.records[0].1.enter(&mut log, Lsn(3));
}

#[test]
#[should_panic(expected = "comes behind")]
fn records_come_in_the_order_of_the_log() {
    let (model, mut log) = log_of(&[Step::Alone]);
    let (at, load) = &model.records[0];
    load.enter(&mut log, *at);
}

#[test]
#[should_panic(expected = "versions of a table rise")]
fn a_version_that_was_given_is_not_given_again() {
    let (_, mut log) = log_of(&[Step::Alone]);
    Said::GroupEnd { txn: TxnId(7), version: Version(2) }.enter(&mut log, Lsn(2));
}
