mod ranked;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use freshet_base::task::{InlinePool, Lane, Pool};
use freshet_base::{RowsetId, SchemaVersion, TxnId};
use freshet_meta::Catalog;
use freshet_schema::{ColumnsBuilder, KeyModel, RowWriter, Table, TableSchema, row};
use futures::FutureExt as _;
use futures::executor::block_on;
use imbl::HashMap;
use proptest::prelude::*;

use super::*;
use crate::compaction::{MergeJob, Merged, merge};
use crate::delta::{DeltaEntry, DeltaPart, Freshness, Payload};
use crate::flush::{Files, FlushInput, flush};
use crate::fold::Event;
use crate::point;
use crate::rowset::Rowset;
use crate::segment::{ScanRequest, Share};
use crate::snapshot::Snapshot;
use crate::testing::{TABLE, files, permit, schema};
use crate::view::{StoreView, TableView};
use crate::views::Views;

/// A keyed table of some buckets, driven as by an engine. The text of a row is its version.
struct Store {
    _dir: tempfile::TempDir,
    files: Files,
    table: Arc<Table>,
    schema: Arc<TableSchema>,
    views: Views,
    lsn: u64,
    horizon: Arc<AtomicU64>,
    versions: u64,
    ids: u64,
    /// The version of each key at each LSN.
    states: BTreeMap<u64, BTreeMap<i64, u64>>,
}

/// A flush that has written its files and is not shown yet.
struct Flushing {
    frozen: Lsn,
    rowsets: Vec<Arc<Rowset>>,
    rows: Vec<FlushedRows>,
}

/// A merge that has read its inputs and is not shown yet.
struct Merging {
    removed: Vec<Arc<Rowset>>,
    merged: Merged,
}

impl Store {
    fn new(key_model: KeyModel, buckets: u64, filters_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let schema = match key_model {
            KeyModel::Unique => ranked::schema(),
            _ => schema(1),
        };
        let table = crate::testing::table(std::slice::from_ref(&schema), buckets);
        let table = Arc::new(Table { key_model, ..table });
        let filters = Budget::new("memory of filters", filters_bytes);
        let memory = KeyMemory { filters, ..KeyMemory::unlimited() };
        let view = TableView::created(&table).with_resolver(&memory);
        let tables = HashMap::unit(TABLE, Arc::new(view));
        let memory = Budget::new("memory of snapshots", u64::MAX);
        let views = Views::new(StoreView { catalog: Arc::new(Catalog::default()), tables }, memory);
        let states = BTreeMap::from([(0, BTreeMap::new())]);
        let files = files(dir.path());
        let horizon = Arc::default();
        let (lsn, versions, ids) = (0, 0, 0);
        Self { _dir: dir, files, table, schema, views, lsn, horizon, versions, ids, states }
    }

    fn view(&self) -> Arc<TableView> {
        Arc::clone(&self.views.load().tables[&TABLE])
    }

    fn next_lsn(&mut self, state: BTreeMap<i64, u64>) {
        self.lsn += 1;
        self.states.insert(self.lsn, state);
        self.horizon.store(self.lsn, Ordering::SeqCst);
    }

    /// Encoded rows of these keys as the next record.
    fn rows(&mut self, keys: &[i64]) -> Vec<u8> {
        let mut state = self.states.last_key_value().unwrap().1.clone();
        let is_ranked = self.is_ranked();
        let rows = keys.iter().map(|&key| {
            self.versions += 1;
            let version = self.versions;
            let lives = |before: &u64| !is_ranked || ranked::replaces(version, *before);
            if state.get(&key).is_none_or(lives) {
                state.insert(key, version);
            }
            (key, version.to_string())
        });
        let rows = rows.collect::<Vec<_>>();
        let bytes = if is_ranked { ranked::encoded(&rows) } else { encoded(&rows) };
        self.next_lsn(state);
        bytes
    }

    /// Whether a row's rank decides whether it lives.
    fn is_ranked(&self) -> bool {
        self.table.key_model == KeyModel::Unique
    }

    fn load(&mut self, keys: &[i64]) {
        let bytes = self.rows(keys);
        self.push(&bytes, keys.len() as u32, 0);
    }

    /// Looks keys up under the latch, then writes some and removes others; a TRUNCATE may come
    /// between.
    fn change(&mut self, keys: &[i64], removed: &[i64], cuts: bool) {
        let keys = keys.iter().copied().collect::<BTreeSet<_>>();
        let removed = removed.iter().copied().collect::<BTreeSet<_>>();
        let keys = keys.difference(&removed).copied().collect::<Vec<_>>();
        let all = removed.iter().chain(&keys).copied().collect::<Vec<_>>();
        let before = self.states.last_key_value().unwrap().1.clone();
        let view = self.view();
        let mut latch = block_on(view.resolver.as_ref().unwrap().latch()).unwrap();
        assert_eq!(latch.end().get(), self.lsn, "all is resolved");
        let bytes = encoded(&all.iter().map(|&key| (key, String::new())).collect::<Vec<_>>());
        let rows = KeyedRows::of_encoded(&bytes, (all.len() as u32, 0), &self.table, &self.schema);
        let places = block_on(latch.find(&rows)).unwrap();
        let found = places.iter().flatten().collect::<Vec<_>>();
        let read = block_on(latch.read(&found, &self.schema)).unwrap();
        let expected = all.iter().filter_map(|key| before.get(key).map(|version| (*key, *version)));
        let expected = expected.map(|(key, version)| Some(encoded(&[(key, version.to_string())])));
        assert_eq!(read, expected.collect::<Vec<_>>(), "what is found is what is there");
        let cut = if cuts {
            self.truncate();
            Lsn(self.lsn)
        } else {
            Lsn::ZERO
        };
        let mut bytes =
            encoded(&removed.iter().map(|&key| (key, String::new())).collect::<Vec<_>>());
        bytes.extend(self.rows(&keys));
        let state = self.states.last_entry().unwrap().into_mut();
        state.retain(|key, _| !removed.contains(key));
        let removals = removed.len() as u32;
        self.push(&bytes, all.len() as u32, removals);
        let values = Values::default();
        latch.appended(Lsn(self.lsn), (&rows, &values), removals, &places, cut);
    }

    fn push(&self, bytes: &[u8], rows: u32, removals: u32) {
        let entry = DeltaEntry {
            lsn: Lsn(self.lsn),
            txn: TxnId(0),
            ends_group: true,
            schema_version: SchemaVersion(1),
            rows,
            removals,
            payload: Payload::Copied(bytes),
        };
        self.view().delta.push_rows(entry, permit(1));
    }

    fn columns(&self, bytes: &[u8], rows: usize) -> RecordBatch {
        ColumnsBuilder::batch_of(&self.schema, bytes, rows)
    }

    fn write(&mut self, batches: Vec<RecordBatch>, lsns: (Lsn, Lsn)) -> Vec<crate::flush::Written> {
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        let input = FlushInput { lane: Lane::Background, table, schema, batches, lsns, turn: 0 };
        let ids = &mut self.ids;
        let next_id = || {
            *ids += 1;
            RowsetId(*ids)
        };
        block_on(flush(&self.files, input, 4000, next_id)).unwrap()
    }

    /// A large load; its files are written in two parts.
    fn large_load(&mut self, keys: &[i64]) {
        let bytes = self.rows(keys);
        let batch = self.columns(&bytes, keys.len());
        let lsn = Lsn(self.lsn);
        let half = keys.len() / 2;
        let parts = [batch.slice(0, half), batch.slice(half, keys.len() - half)];
        let mut by_tablet = BTreeMap::<_, freshet_meta::RowsetMeta>::new();
        for part in parts {
            for written in self.write(vec![part], (lsn, lsn)) {
                let meta = written.rowset;
                let Some(joined) = by_tablet.get_mut(&meta.tablet) else {
                    by_tablet.insert(meta.tablet, meta);
                    continue;
                };
                joined.rows += meta.rows;
                for mut segment in meta.segments {
                    segment.id = freshet_base::SegmentId(joined.segments.len() as u32);
                    joined.segments.push(segment);
                }
            }
        }
        let rowsets = by_tablet.into_values().map(|mut meta| {
            (meta.lsn_first, meta.lsn_last) = (lsn, lsn);
            let rowset = self.files.rowset(TABLE, meta, &self.schema);
            Arc::new(rowset.with_new_marks())
        });
        self.view().delta.push_rowsets(lsn, rowsets.collect());
    }

    fn resolve(&self, lsn: u64) {
        block_on(self.view().resolver.as_ref().unwrap().resolve_to(Lsn(lsn))).unwrap();
    }

    fn flush(&mut self) -> Option<Flushing> {
        let view = self.view();
        let frozen = view.delta.freeze();
        if frozen <= view.flushed {
            return None;
        }
        self.resolve(frozen.get());
        let read = view.read_up_to(frozen);
        let (mut rowsets, mut rows) = (Vec::new(), Vec::new());
        for part in read.parts {
            match part {
                DeltaPart::Rows(part) => {
                    let (mut batches, numbers) = (Vec::new(), part.numbers());
                    part.batches(&self.schema, &mut batches).unwrap();
                    if part.rows() == 0 {
                        continue;
                    }
                    let written = self.write(batches, part.lsns);
                    rows.push(FlushedRows::new(numbers, &written));
                    rowsets.extend(written.into_iter().map(|written| {
                        Arc::new(self.files.rowset(TABLE, written.rowset, &self.schema))
                    }));
                }
                DeltaPart::Rowsets(_, loaded) => rowsets.extend(loaded),
            }
        }
        Some(Flushing { frozen, rowsets, rows })
    }

    /// Begins a swap; meanwhile a record comes, and its snapshot is opened in the view before.
    fn swap(&mut self, keys: &[i64]) -> (Swap, Snapshot) {
        let view = self.view();
        let resolver = view.resolver.as_ref().unwrap();
        let horizon = Arc::clone(&self.horizon);
        let horizon = move || Lsn(horizon.load(Ordering::SeqCst));
        let swap = block_on(resolver.begin_swap(horizon)).unwrap();
        self.load(keys);
        // Who has to know what the swap keeps back would wait for it.
        self.points_from(self.lsn - 1).now_or_never();
        (swap, self.pin(self.lsn, Freshness::Committed))
    }

    fn show_flush(&mut self, flushing: Flushing, keys: &[i64]) -> Snapshot {
        let Flushing { frozen, rowsets, rows } = flushing;
        let (swap, before) = self.swap(keys);
        let swap = Some(Box::new(FlushSwap { swap, rows }));
        let (version, schema) = (self.view().version, Arc::clone(&self.schema));
        let publish = Event::Publish { version, schema, rowsets, swap };
        self.views.settle(frozen, vec![(TABLE, publish)], Arc::default);
        before
    }

    /// Merges the files of one tablet, as its view has them now.
    fn merge(&mut self, tablet: usize) -> Option<Merging> {
        let view = self.view();
        let tablet = &view.tablets[tablet % view.tablets.len()];
        if tablet.rowsets.len() < 2 {
            return None;
        }
        self.ids += 1;
        let job = MergeJob {
            table: TABLE,
            tablet: tablet.id,
            schema: Arc::clone(&self.schema),
            rowsets: tablet.rowsets.clone(),
            id: RowsetId(self.ids),
            segment_bytes_max: 5000,
            cold_bytes_min: u64::MAX,
            is_keyed: true,
            stores_rows: !self.is_ranked(),
            indexes: Vec::new(),
            aging: None,
        };
        let merged = merge(&self.files, &job, &mut || ControlFlow::Continue(()));
        Some(Merging { removed: job.rowsets, merged: merged.unwrap().unwrap() })
    }

    fn show_merge(&mut self, merging: Merging, keys: &[i64]) -> Snapshot {
        let Merging { removed, merged: Merged { rowset, rows, .. } } = merging;
        let (swap, before) = self.swap(keys);
        let swap = Some(Box::new(MergeSwap { swap, rows }));
        let tablet = rowset.tablet;
        let added = Arc::new(self.files.rowset(TABLE, rowset, &self.schema));
        let event = Event::Replace { tablet, removed, added, swap };
        self.views.settle(self.view().flushed, vec![(TABLE, event)], Arc::default);
        before
    }

    fn truncate(&mut self) {
        self.next_lsn(BTreeMap::new());
        self.view().delta.push_truncate(Lsn(self.lsn));
    }

    fn pin(&self, horizon: u64, freshness: Freshness) -> Snapshot {
        self.views.pin(freshness, || Lsn(horizon))
    }

    /// What a read by key sees from `horizon` on is what the log says.
    fn check_points(&self, horizon: u64) {
        block_on(self.points_from(horizon));
    }

    async fn points_from(&self, horizon: u64) {
        if self.is_ranked() {
            return;
        }
        let keys = (0..25).map(|key| encoded(&[(key, String::new())])).collect::<Vec<_>>();
        let codec = freshet_schema::key::KeyCodec::of_sort_key(&self.schema);
        let keys = keys.iter().map(|row| codec.of_rows(row)).collect::<Vec<_>>();
        let keys = keys.iter().map(|key| key.key(0)).collect::<Vec<_>>();
        let store = (&self.views, &InlinePool as &dyn Pool);
        let read = point::read(store, TABLE, &self.schema, &keys, Lsn(horizon));
        let Some(read) = read.await.unwrap() else { return };
        assert!(read.at.get() >= horizon && read.at.get() <= self.lsn);
        let rows = read.rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
        let state = self.states.range(..=read.at.get()).next_back().unwrap().1;
        let expected = state.iter().map(|(key, version)| encoded(&[(*key, version.to_string())]));
        assert_eq!(rows, expected.collect::<Vec<_>>(), "at {} from {horizon} on", read.at);
    }

    /// What a snapshot sees is what the log says.
    fn check(&self, snapshot: &Snapshot) {
        let table = snapshot.table(TABLE).unwrap().unwrap();
        block_on(table.resolved()).unwrap();
        let request = ScanRequest::all(&table.schema);
        let mut batches = table.delta_batches().unwrap();
        for rowset in table.rowsets() {
            for slice in rowset.slices(table.horizon) {
                let scan = slice.segment.scan(&request, Share::WHOLE, &slice.dead).unwrap();
                batches.extend(scan.map(Result::unwrap));
            }
        }
        let mut seen = BTreeMap::new();
        for batch in &batches {
            let keys = batch.column(0).as_primitive::<Int64Type>().values();
            for (key, version) in keys.iter().zip(batch.column(1).as_string_view()) {
                let version = version.unwrap().parse::<u64>().unwrap();
                assert_eq!(
                    seen.insert(*key, version),
                    None,
                    "key {key} twice at {}",
                    table.horizon
                );
            }
        }
        assert_eq!(table.rows(), seen.len() as u64, "the count is exact");
        assert_eq!(&seen, self.states.range(..=table.horizon.get()).next_back().unwrap().1);
    }
}

fn encoded(with: &[(i64, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rows = RowWriter::new(2, &mut bytes);
    for (key, text) in with {
        rows.begin_row();
        rows.put_encoded(&key.to_le_bytes());
        let mut cell = Vec::new();
        row::put_bytes(&mut cell, text.as_bytes());
        rows.put_encoded(&cell);
        rows.end_row();
    }
    bytes
}

#[derive(Clone, Debug)]
enum Act {
    Load(Vec<i64>),
    /// Keys that are written, and keys that are removed.
    Change(Vec<i64>, Vec<i64>),
    /// The same, with a TRUNCATE behind the look-up.
    CutChange(Vec<i64>, Vec<i64>),
    LargeLoad(Vec<i64>),
    /// A snapshot of so many records before the end.
    Pin(u64),
    Check(usize),
    /// Reads by key from so many records before the end on.
    Points(u64),
    Resolve,
    Flush,
    /// A record with these keys comes meanwhile.
    ShowFlush(Vec<i64>),
    Merge(usize),
    ShowMerge(Vec<i64>),
    Truncate,
}

fn act() -> impl Strategy<Value = Act> {
    let keys = || prop::collection::vec(0i64..25, 1..20);
    prop_oneof![
        8 => keys().prop_map(Act::Load),
        8 => (keys(), keys()).prop_map(|(keys, removed)| Act::Change(keys, removed)),
        1 => (keys(), keys()).prop_map(|(keys, removed)| Act::CutChange(keys, removed)),
        2 => prop::collection::vec(0i64..25, 2..40).prop_map(Act::LargeLoad),
        5 => (0u64..6).prop_map(Act::Pin),
        3 => (0usize..10).prop_map(Act::Check),
        6 => (0u64..6).prop_map(Act::Points),
        2 => Just(Act::Resolve),
        4 => Just(Act::Flush),
        4 => keys().prop_map(Act::ShowFlush),
        3 => (0usize..3).prop_map(Act::Merge),
        3 => keys().prop_map(Act::ShowMerge),
        1 => Just(Act::Truncate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_snapshot_sees_the_last_version_of_each_key(
        buckets in 1u64..4,
        filters_bytes in prop_oneof![Just(0), Just(u64::MAX)],
        acts in prop::collection::vec(act(), 1..60),
    ) {
        run(KeyModel::Primary, buckets, filters_bytes, acts);
    }

    #[test]
    fn each_snapshot_sees_the_row_of_the_greatest_rank(
        buckets in 1u64..4,
        acts in prop::collection::vec(act(), 1..60),
    ) {
        run(KeyModel::Unique, buckets, u64::MAX, acts);
    }
}

/// What removes a row of a file needs no memory for its key: the mark says it.
#[test]
fn of_many_removals_those_of_rows_in_memory_have_their_key_there() {
    let mut store = Store::new(KeyModel::Primary, 1, u64::MAX);
    store.load(&[1, 2]);
    let flushing = store.flush().unwrap();
    let _before = store.show_flush(flushing, &[3]);
    store.change(&[], &[1, 3, 4], false);
    let codec = freshet_schema::key::KeyCodec::of_sort_key(&store.schema);
    let rows = encoded(&[1, 2, 3, 4].map(|key| (key, String::new())));
    let keys = codec.of_rows(&rows);
    let keys = (0..keys.len()).map(|at| keys.key(at)).collect::<Vec<_>>();
    let versions = store.view().resolver.as_ref().unwrap().versions(&keys);
    let is_removal = versions.iter().map(|version| version.map(|version| version.is_removal));
    assert_eq!(is_removal.collect::<Vec<_>>(), [None, None, Some(true), None]);
    (0..=store.lsn).for_each(|horizon| store.check_points(horizon));
}

fn run(key_model: KeyModel, buckets: u64, filters_bytes: u64, acts: Vec<Act>) {
    let mut store = Store::new(key_model, buckets, filters_bytes);
    let mut pins = Vec::<Snapshot>::new();
    let (mut flushing, mut merging) = (None::<Flushing>, None::<Merging>);
    // A TRUNCATE that is not in metadata yet.
    let mut is_cut = false;
    for act in acts {
        match act {
            Act::Load(keys) => store.load(&keys),
            // Who writes rows that are ranked does not look.
            Act::Change(keys, _) | Act::CutChange(keys, _) if store.is_ranked() => {
                store.load(&keys);
            }
            Act::Change(keys, removed) => store.change(&keys, &removed, false),
            Act::CutChange(keys, removed) if !is_cut => {
                store.change(&keys, &removed, true);
                is_cut = true;
            }
            Act::CutChange(..) => {}
            Act::LargeLoad(keys) if !is_cut => store.large_load(&keys),
            Act::LargeLoad(_) => {}
            Act::Pin(back) => {
                let oldest = pins.last().map_or(0, |pin| pin.horizon.get());
                let horizon = store.lsn.saturating_sub(back).max(oldest);
                pins.push(store.pin(horizon.max(store.view().flushed.get()), Freshness::Committed));
            }
            Act::Check(at) => pins.get(at).into_iter().for_each(|pin| store.check(pin)),
            Act::Points(back) => store.check_points(store.lsn.saturating_sub(back)),
            Act::Resolve => store.resolve(store.lsn),
            Act::Flush if flushing.is_none() && !is_cut => flushing = store.flush(),
            Act::ShowFlush(keys) => {
                pins.extend(flushing.take().map(|flushing| store.show_flush(flushing, &keys)));
            }
            Act::Merge(tablet) if merging.is_none() && !is_cut => merging = store.merge(tablet),
            // Between flushes (K28).
            Act::ShowMerge(keys) if flushing.is_none() => {
                pins.extend(merging.take().map(|merging| store.show_merge(merging, &keys)));
            }
            Act::Truncate if !is_cut => {
                store.truncate();
                is_cut = true;
            }
            Act::Flush | Act::Merge(_) | Act::ShowMerge(_) | Act::Truncate => {}
        }
    }
    pins.push(store.pin(store.lsn, Freshness::Committed));
    pins.push(store.pin(store.lsn, Freshness::Published));
    store.resolve(store.lsn);
    store.check_points(store.lsn);
    pins.iter().rev().for_each(|pin| store.check(pin));
}
