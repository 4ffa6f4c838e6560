use std::collections::{BTreeMap, HashSet};

use freshet_base::budget::Budget;
use proptest::prelude::*;

use super::*;
use crate::testing::{self, TABLE, encode, keys, permit, schema};

fn push(delta: &Delta, lsn: u64, txn: u64, version: u32, with: &[i64]) -> Option<Arc<Chunk>> {
    let bytes = encode(&schema(version), with);
    let payload = match with.len() % 3 {
        0 => Payload::Copied(&bytes),
        1 => Payload::Shared(bytes.clone().into()),
        // Pieces of whole rows, one of which has none.
        _ => {
            let (some, others) = with.split_at(with.len() / 3);
            let piece = |keys: &[i64]| encode(&schema(version), keys).into();
            Payload::Pieces([some, &[], others].map(piece).to_vec())
        }
    };
    let entry = DeltaEntry {
        lsn: Lsn(lsn),
        txn: TxnId(txn),
        ends_group: txn == 0,
        schema_version: SchemaVersion(version),
        rows: with.len() as u32,
        removals: 0,
        payload,
    };
    delta.push_rows(entry, permit(bytes.len() as u64))
}

fn read(delta: &Delta, head: &Arc<Node>, flushed: u64, horizon: u64, how: Freshness) -> DeltaRead {
    let bounds = Bounds { flushed: Lsn(flushed), horizon: Lsn(horizon), freshness: how };
    DeltaRead::new(&delta.chunks(head), bounds)
}

fn seen(read: &DeltaRead) -> Vec<i64> {
    let to = read.schema.clone().unwrap_or_else(|| schema(1));
    let mut batches = Vec::new();
    let mut rows = 0;
    for part in &read.parts {
        if let DeltaPart::Rows(part) = part {
            part.batches(&to, &mut batches).unwrap();
            rows += part.rows();
        }
    }
    assert!(batches.iter().all(|batch| batch.schema() == *to.arrow()));
    let keys = keys(&batches);
    assert_eq!(keys.len() as u64, rows, "the exact row count is exact");
    keys
}

#[derive(Clone, Debug)]
enum Step {
    Rows { txn: u64, count: usize, version: u32 },
    EndGroup { txn: u64 },
    Rowsets,
    Truncate,
    Alter,
    Freeze,
    Flush,
    Mark { part: usize },
    Read { back: u64, published: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..4, 0usize..700, 1u32..3)
            .prop_map(|(txn, count, version)| Step::Rows { txn, count, version }),
        2 => (1u64..4).prop_map(|txn| Step::EndGroup { txn }),
        1 => Just(Step::Rowsets),
        1 => Just(Step::Truncate),
        1 => Just(Step::Alter),
        1 => Just(Step::Freeze),
        1 => Just(Step::Flush),
        4 => (0usize..1000).prop_map(|part| Step::Mark { part }),
        6 => (0u64..12, any::<bool>()).prop_map(|(back, published)| Step::Read { back, published }),
    ]
}

/// A simple model of a delta, by LSN.
#[derive(Default)]
struct Model {
    rows: Vec<(u64, u64, Vec<i64>)>,
    ends: Vec<(u64, u64)>,
    truncates: Vec<u64>,
    alters: Vec<u64>,
    rowsets: Vec<u64>,
    /// The keys of dead rows, and since when they are. The key of a row is its number.
    dead: BTreeMap<i64, u64>,
}

impl Model {
    fn seen(&self, flushed: u64, horizon: u64, published: bool) -> Vec<i64> {
        let inside = |lsn: u64| lsn > flushed && lsn <= horizon;
        let truncated =
            self.truncates.iter().copied().filter(|&lsn| inside(lsn)).max().unwrap_or(0);
        let ended = self.ends.iter().filter(|(lsn, _)| inside(*lsn)).map(|(_, txn)| *txn);
        let ended = ended.chain([0]).collect::<HashSet<_>>();
        self.rows
            .iter()
            .filter(|(lsn, txn, _)| {
                inside(*lsn) && *lsn > truncated && (!published || ended.contains(txn))
            })
            .flat_map(|(_, _, keys)| keys.iter().copied())
            .filter(|key| self.dead.get(key).is_none_or(|from| *from > horizon))
            .collect()
    }

    fn check_read(
        &self,
        delta: &Delta,
        head: &Arc<Node>,
        (flushed, horizon): (u64, u64),
        published: bool,
    ) -> Result<(), TestCaseError> {
        let how = if published { Freshness::Published } else { Freshness::Committed };
        let read = read(delta, head, flushed, horizon, how);
        prop_assert_eq!(seen(&read), self.seen(flushed, horizon, published));
        let inside = |lsn: &&u64| **lsn > flushed && **lsn <= horizon;
        let truncate = self.truncates.iter().rfind(inside);
        prop_assert_eq!(read.truncated, truncate.map(|lsn| Lsn(*lsn)));
        prop_assert_eq!(read.schema.is_some(), self.alters.iter().any(|lsn| inside(&lsn)));
        let files = read.parts.iter().filter_map(|part| match part {
            DeltaPart::Rowsets(lsn, _) => Some(lsn.get()),
            DeltaPart::Rows(_) => None,
        });
        let behind = |lsn: &&u64| inside(lsn) && **lsn > truncate.copied().unwrap_or(0);
        let expected = self.rowsets.iter().filter(behind).copied();
        prop_assert_eq!(files.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A delta behaves like a map by LSN, regardless of sealing, conversion, copies and flushes.
    #[test]
    fn a_delta_is_a_map_by_lsn(steps in prop::collection::vec(step(), 1..60)) {
        let delta = Delta::new(TABLE, &[schema(1), schema(2)]);
        let mut model = Model::default();
        let mut lsn = 0;
        let mut next_key = 0;
        let (mut head, mut flushed, mut flushed_rows) = (delta.head(), 0, 0);
        for step in steps {
            match step {
                Step::Rows { txn, count, version } => {
                    lsn += 1;
                    let keys = (next_key..next_key + count as i64).collect::<Vec<_>>();
                    next_key += count as i64;
                    if let Some(full) = push(&delta, lsn, txn, version, &keys) {
                        full.convert();
                    }
                    model.rows.push((lsn, txn, keys));
                }
                Step::EndGroup { txn } => {
                    lsn += 1;
                    delta.end_group(TxnId(txn), Lsn(lsn));
                    model.ends.push((lsn, txn));
                }
                Step::Rowsets => {
                    lsn += 1;
                    delta.push_rowsets(Lsn(lsn), Vec::new());
                    model.rowsets.push(lsn);
                }
                Step::Truncate => {
                    lsn += 1;
                    delta.push_truncate(Lsn(lsn));
                    model.truncates.push(lsn);
                }
                Step::Alter => {
                    lsn += 1;
                    delta.push_schema(Lsn(lsn), schema(2));
                    model.alters.push(lsn);
                }
                Step::Freeze => _ = delta.freeze(),
                Step::Flush => {
                    let frozen = delta.freeze();
                    head = delta.flushed(frozen, &Budget::new("memory of snapshots", 1 << 20));
                    (flushed, flushed_rows) = (frozen.get(), next_key);
                }
                Step::Mark { part } => {
                    let rows = flushed_rows..next_key;
                    let row = rows.clone().nth(part * rows.count() / 1000);
                    if let Some(row) = row.filter(|row| !model.dead.contains_key(row)) {
                        let (row, lsn) = (row.cast_unsigned(), Lsn(lsn));
                        mark(&delta, &head, DeltaMark { row, lsn });
                        model.dead.insert(row.cast_signed(), lsn.get());
                    }
                    prop_assert_eq!(delta.end_row(), next_key.cast_unsigned());
                }
                Step::Read { back, published } => {
                    let horizon = lsn.saturating_sub(back).max(flushed);
                    model.check_read(&delta, &head, (flushed, horizon), published)?;
                }
            }
            let stats = delta.stats();
            let above = model.rows.iter().filter(|(lsn, _, _)| *lsn > flushed);
            prop_assert_eq!(stats.rows, above.map(|(_, _, keys)| keys.len() as u64).sum::<u64>());
            prop_assert_eq!(stats.oldest.is_some(), lsn > flushed);
            let large = model.rowsets.iter().filter(|lsn| **lsn > flushed).count();
            prop_assert_eq!(stats.large_loads, large as u64);
        }
    }
}

fn mark(delta: &Delta, head: &Arc<Node>, mark: DeltaMark) {
    let mut marks = DeltaMarks::default();
    delta.chunks(head).iter().for_each(|chunk| chunk.make_known(&mut marks));
    marks.mark(mark);
}

#[test]
fn rows_stand_before_and_behind_the_files_of_a_large_load() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    push(&delta, 1, 0, 1, &[1]);
    delta.push_rowsets(Lsn(2), Vec::new());
    push(&delta, 3, 0, 1, &[3]);
    let read = read(&delta, &head, 0, 3, Freshness::Committed);
    let shape = read.parts.iter().map(|part| match part {
        DeltaPart::Rows(rows) => rows.lsns,
        DeltaPart::Rowsets(lsn, _) => (*lsn, *lsn),
    });
    assert_eq!(shape.collect::<Vec<_>>(), [1, 2, 3].map(|lsn| (Lsn(lsn), Lsn(lsn))));
}

#[test]
fn a_mark_follows_a_row_from_the_open_node_into_its_chunk() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    push(&delta, 1, 0, 1, &[1, 2, 3]);
    let before = read(&delta, &head, 0, 1, Freshness::Committed);
    push(&delta, 2, 0, 1, &[2]);
    mark(&delta, &head, DeltaMark { row: 1, lsn: Lsn(2) });
    assert_eq!(seen(&before), [1, 2, 3], "a reader sees marks up to its horizon");
    assert_eq!(seen(&read(&delta, &head, 0, 2, Freshness::Committed)), [1, 3, 2]);
    delta.freeze();
    assert_eq!(seen(&read(&delta, &head, 0, 1, Freshness::Committed)), [1, 2, 3]);
    assert_eq!(seen(&read(&delta, &head, 0, 2, Freshness::Committed)), [1, 3, 2]);
}

#[test]
fn rows_that_are_read_together_are_those_that_are_read_alone() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    push(&delta, 1, 0, 1, &[1, 2, 3, 4, 5]);
    push(&delta, 2, 0, 1, &[6, 7, 8, 9]);
    delta.freeze();
    push(&delta, 3, 0, 1, &[10, 11]);
    delta.freeze();
    push(&delta, 4, 0, 1, &[12, 13, 14]);
    push(&delta, 5, 0, 1, &[15, 16, 17, 18]);
    let converted = Arc::clone(delta.head().chunk().unwrap());
    for numbers in [vec![], vec![4], vec![0, 1, 2, 3, 8, 8, 9, 12, 17], (0..18).collect()] {
        let alone = |number: &u64| delta.encoded_row(*number, &schema(1));
        let alone = numbers.iter().map(alone).collect::<Vec<_>>();
        let expected = numbers.iter().map(|number| encode(&schema(1), &[*number as i64 + 1]));
        assert_eq!(alone, expected.map(Some).collect::<Vec<_>>());
        assert_eq!(delta.encoded_rows(&numbers, &schema(1)), alone);
        let adapted = |number: &u64| delta.encoded_row(*number, &schema(2));
        let adapted = numbers.iter().map(adapted).collect::<Vec<_>>();
        assert_eq!(delta.encoded_rows(&numbers, &schema(2)), adapted);
        // The first chunk is made of columns from the second time on.
        converted.convert();
    }
}

/// A large load divides the rows that a reader gets, not what it sees of their marks.
#[test]
fn marks_behind_a_large_load_are_seen_on_the_rows_before_it() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    push(&delta, 1, 0, 1, &[1, 2]);
    delta.push_rowsets(Lsn(2), Vec::new());
    push(&delta, 3, 0, 1, &[3]);
    mark(&delta, &head, DeltaMark { row: 1, lsn: Lsn(3) });
    assert_eq!(seen(&read(&delta, &head, 0, 2, Freshness::Committed)), [1, 2]);
    assert_eq!(seen(&read(&delta, &head, 0, 3, Freshness::Committed)), [1, 3]);
}

#[test]
#[should_panic(expected = "rows in files are marked there")]
fn rows_that_are_in_files_are_not_marked_in_memory() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    push(&delta, 1, 0, 1, &[1, 2]);
    delta.freeze();
    push(&delta, 2, 0, 1, &[3]);
    let mut marks = DeltaMarks::default();
    delta.chunks(&head).iter().for_each(|chunk| chunk.make_known(&mut marks));
    marks.forget_before(2);
    marks.mark(DeltaMark { row: 2, lsn: Lsn(2) });
    marks.mark(DeltaMark { row: 1, lsn: Lsn(2) });
}

#[test]
#[should_panic(expected = "marked before it is known")]
fn rows_that_have_not_come_are_not_marked() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    push(&delta, 1, 0, 1, &[1, 2]);
    mark(&delta, &head, DeltaMark { row: 2, lsn: Lsn(1) });
}

#[test]
fn rows_become_columns_once() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    push(&delta, 1, 0, 1, &[1, 2]);
    let first = delta.chunks(&head);
    let again = delta.chunks(&head);
    assert!(Arc::ptr_eq(&first[0], &again[0]), "a small tail is copied once while it stands");
    push(&delta, 2, 0, 1, &(0..2000).collect::<Vec<_>>());
    let sealed = delta.chunks(&head);
    assert!(head.chunk().is_some_and(|chunk| Arc::ptr_eq(chunk, &sealed[0])), "a large one sealed");
    push(&delta, 3, 0, 1, &[3]);
    assert!(Arc::ptr_eq(&delta.chunks(&head)[0], &sealed[0]));
}

#[test]
fn memory_is_that_of_the_columns_after_rolling_and_none_at_the_end() {
    let budget = Budget::new("delta", u64::MAX);
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    let bytes = encode(&schema(1), &(0..100).collect::<Vec<_>>());
    for lsn in 1..=20 {
        let entry = DeltaEntry {
            lsn: Lsn(lsn),
            txn: TxnId(lsn),
            ends_group: true,
            schema_version: SchemaVersion(1),
            rows: 100,
            removals: 0,
            payload: Payload::Copied(&bytes),
        };
        delta.push_rows(entry, budget.acquire_over(bytes.len() as u64));
    }
    assert_eq!(budget.used_bytes(), 20 * bytes.len() as u64);
    let chunk = delta.chunks(&head).remove(0);
    chunk.convert();
    assert!(budget.used_bytes() > 20 * bytes.len() as u64, "views and offsets take memory too");
    drop((delta, head, chunk));
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_long_list_is_dropped_without_a_deep_stack() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    for lsn in 1..=200_000 {
        delta.end_group(TxnId(lsn), Lsn(lsn));
        delta.freeze();
    }
    drop(delta);
    drop(head);
}

#[test]
fn readers_and_a_writer_at_the_same_time_see_prefixes() {
    let delta = Delta::new(TABLE, &[schema(1)]);
    let head = delta.head();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut before = 0;
                while before < 3000 {
                    let horizon = delta.last().get();
                    let keys = seen(&read(&delta, &head, 0, horizon, Freshness::Committed));
                    assert_eq!(keys, (1..=horizon as i64).collect::<Vec<_>>());
                    assert!(keys.len() >= before);
                    before = keys.len();
                }
            });
        }
        for lsn in 1..=3000 {
            push(&delta, lsn, 0, 1, &[lsn as i64]);
        }
    });
}

#[test]
#[should_panic(expected = "comes after")]
fn records_come_in_the_order_of_the_log() {
    let delta = Delta::new(TABLE, &[testing::schema(1)]);
    delta.push_truncate(Lsn(2));
    delta.push_truncate(Lsn(1));
}
