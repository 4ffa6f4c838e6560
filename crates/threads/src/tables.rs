//! Scenarios of a table that is written, read and flushed at once. The key of a row is its LSN, and
//! a rowset stands for the LSNs that it covers: a snapshot must show exactly the records up to its
//! horizon, each once.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use freshet_base::budget::Budget;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::{
    ColumnId, Lsn, RowsetId, SchemaVersion, SegmentId, TableId, TabletId, TxnId, Version,
};
use freshet_meta::{Catalog, KeyRange, RowsetMeta, SegmentMeta};
use freshet_schema::{Column, ColumnType, RowWriter, Table, TableSchema};
use freshet_storage::Rowset;
use freshet_storage::segment::SegmentAccess;
use shuttle::thread;

use crate::delta::{Delta, DeltaEntry, Freshness, Payload};
use crate::fold::Event;
use crate::snapshot::{Snapshot, TableSnapshot};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::view::{StoreView, TableView};
use crate::views::Views;

const TABLE: TableId = TableId(7);
const TABLET: TabletId = TabletId(8);
const RECORDS: u64 = 6;
/// Memory charged for a record in the delta.
const RECORD_BYTES: u64 = 100;

/// `k BIGINT`, sorted by `k`.
static SCHEMA: LazyLock<Arc<TableSchema>> = LazyLock::new(|| {
    let column = Column::new(ColumnId(1), "k", ColumnType::BigInt { unsigned: false });
    Arc::new(TableSchema::new(SchemaVersion(1), vec![column], vec![0]))
});

fn table() -> Table {
    Table::plain(TABLE, SCHEMA.as_ref().clone(), vec![TABLET])
}

/// A rowset that covers the records after `from` up to `to`; its file does not exist.
fn rowset(from: Lsn, to: Lsn) -> Arc<Rowset> {
    let rows = to.get() - from.get();
    let segment = SegmentMeta {
        id: SegmentId(0),
        file: "none".to_owned(),
        rows,
        bytes: 0,
        data_bytes: 0,
        key_part: None,
        footer_checksum: 0,
        keys: KeyRange { min: 0, max: 9 },
        removes: false,
    };
    let meta = RowsetMeta {
        id: RowsetId(to.get()),
        tablet: TABLET,
        lsn_first: from.next(),
        lsn_last: to,
        schema_version: SchemaVersion(1),
        segments: vec![segment],
        rows,
    };
    let fs: FsRef = Arc::new(RealFs);
    let segments = SegmentAccess::of_files(&fs);
    Arc::new(Rowset::new(&segments, Path::new("/"), meta, &SCHEMA))
}

/// A store of one table whose records are durable as soon as they are appended.
struct Store {
    views: Views,
    delta: Arc<Delta>,
    horizon: AtomicU64,
    writes: Budget,
}

impl Store {
    fn new(snapshot_bytes: u64) -> Arc<Self> {
        let table = Arc::new(table());
        let view = TableView::created(&table);
        let delta = Arc::clone(&view.delta);
        let tables = imbl::HashMap::unit(TABLE, Arc::new(view));
        let store = StoreView { catalog: Arc::new(Catalog::default()), tables };
        let store = Arc::new(Self {
            views: Views::new(store, Budget::new("snapshots", snapshot_bytes)),
            delta,
            horizon: AtomicU64::new(0),
            writes: Budget::new("writes", u64::MAX),
        });
        (1..=RECORDS / 2).for_each(|lsn| store.append(lsn));
        store
    }

    fn append(&self, lsn: u64) {
        let mut bytes = Vec::new();
        let mut rows = RowWriter::new(1, &mut bytes);
        rows.begin_row();
        rows.put_encoded(&lsn.to_le_bytes());
        rows.end_row();
        let entry = DeltaEntry {
            lsn: Lsn(lsn),
            txn: TxnId(lsn),
            ends_group: true,
            schema_version: SchemaVersion(1),
            rows: 1,
            removals: 0,
            payload: Payload::Copied(&bytes),
        };
        drop(self.delta.push_rows(entry, self.writes.acquire_over(RECORD_BYTES)));
        self.horizon.store(lsn, Ordering::SeqCst);
    }

    /// Appends the records that [`Store::new`] did not.
    fn append_rest(&self) {
        (RECORDS / 2 + 1..=RECORDS).for_each(|lsn| self.append(lsn));
    }

    /// Publishes the durable part of the delta as a rowset. Calls must not overlap.
    fn flush(&self) {
        let frozen = self.delta.freeze();
        while self.horizon.load(Ordering::SeqCst) < frozen.get() {
            thread::yield_now();
        }
        let from = self.views.load().tables[&TABLE].flushed;
        if from >= frozen {
            return;
        }
        let (schema, rowsets) = (Arc::clone(&SCHEMA), vec![rowset(from, frozen)]);
        let publish = Event::Publish { version: Version(1), schema, rowsets, swap: None };
        self.views.settle(frozen, vec![(TABLE, publish)], Arc::default);
    }

    fn snapshot(&self) -> Snapshot {
        self.views.pin(Freshness::Committed, || {
            let horizon = Lsn(self.horizon.load(Ordering::SeqCst));
            // The scheduler does not see the swap of a view; this is where it may happen.
            thread::yield_now();
            horizon
        })
    }

    /// A snapshot shows exactly the records up to its horizon, each once.
    fn check(snapshot: &Snapshot) {
        let table = snapshot.table(TABLE).expect("it fits").expect("it is there");
        assert_eq!(table.horizon, snapshot.horizon, "files reach above the horizon");
        check(&table);
    }

    /// After a flush with no snapshot open, no memory is held.
    fn check_end(&self) {
        self.flush();
        assert_eq!(self.views.pins().count(), 0, "a snapshot is open");
        assert_eq!(self.writes.used_bytes(), 0, "memory of writes did not come back");
        assert_eq!(self.views.pins().memory().used_bytes(), 0, "memory of snapshots did not");
        assert_eq!(self.delta.stats().rows, 0);
        Self::check(&self.snapshot());
    }
}

/// The table's records are exactly those up to the horizon, each once.
fn check(table: &TableSnapshot) {
    let covers = |rowset: &Arc<Rowset>| {
        let meta = rowset.meta();
        meta.lsn_first.get()..=meta.lsn_last.get()
    };
    let mut seen = table.rowsets().flat_map(covers).collect::<Vec<_>>();
    for batch in table.delta_batches().expect("rows are rows") {
        let keys = batch.column(0).as_primitive::<Int64Type>().values();
        seen.extend(keys.iter().map(|key| key.cast_unsigned()));
    }
    assert_eq!(seen, (1..=table.horizon.get()).collect::<Vec<_>>(), "at {}", table.horizon);
}

/// Readers copy, seal and convert the chunks that a writer fills, while another thread freezes
/// them.
pub fn chunks() {
    let store = Store::new(u64::MAX);
    let read: fn(&Store) = |store| (0..2).for_each(|_| Store::check(&store.snapshot()));
    let freeze: fn(&Store) = |store| assert!(store.delta.freeze() <= store.delta.last());
    let convert: fn(&Store) = |store| {
        let chunks = store.delta.chunks(&store.delta.head());
        chunks.iter().for_each(|chunk| chunk.convert());
    };
    run(&store, [Store::append_rest, freeze, read, convert]);
}

/// Snapshots are opened, read twice and dropped while flushes move the rows out of the delta.
pub fn pins() {
    let store = Store::new(u64::MAX);
    let read: fn(&Store) = |store| {
        for _ in 0..2 {
            let snapshot = store.snapshot();
            Store::check(&snapshot);
            let table = snapshot.table(TABLE).expect("it fits").expect("it is there");
            // From the delta, or from what the flush left for the snapshot.
            Store::check(&snapshot);
            drop(snapshot);
            check(&table);
        }
    };
    run(&store, [Store::append_rest, read, read, flush_some]);
}

/// One snapshot is opened while one thread writes and flushes: with few threads, more of their
/// interleavings are tried.
pub fn pinning() {
    let store = Store::new(u64::MAX);
    let writer = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            store.append_rest();
            store.flush();
        })
    };
    Store::check(&store.snapshot());
    writer.join().expect("it ends");
    store.check_end();
}

/// An open snapshot does not keep the delta alive once a flush has ended.
pub fn detaching() {
    let store = Store::new(u64::MAX);
    let opened = Arc::new(Mutex::new(Vec::new()));
    let open = || {
        let (store, opened) = (Arc::clone(&store), Arc::clone(&opened));
        thread::spawn(move || {
            for _ in 0..2 {
                let snapshot = store.snapshot();
                opened.lock().push(snapshot);
            }
        })
    };
    let flush = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            let head = store.delta.head();
            store.flush();
            assert_eq!(Arc::strong_count(&head), 1, "a snapshot still looks at the delta");
        })
    };
    for thread in [open(), open(), flush] {
        thread.join().expect("it ends");
    }
    opened.lock().drain(..).for_each(|snapshot| Store::check(&snapshot));
    store.append_rest();
    store.check_end();
}

/// As `pins`, with no memory for snapshots: a closed snapshot returns an error, never partial rows.
pub fn closing() {
    let store = Store::new(0);
    let read: fn(&Store) = |store| {
        for _ in 0..2 {
            let snapshot = store.snapshot();
            let tables = (0..4).map_while(|_| snapshot.table(TABLE).ok());
            tables.for_each(|table| check(&table.expect("it is there")));
        }
    };
    run(&store, [Store::append_rest, read, read, flush_some]);
}

fn flush_some(store: &Store) {
    (0..3).for_each(|_| store.flush());
}

fn run(store: &Arc<Store>, actors: [fn(&Store); 4]) {
    let threads = actors.map(|act| {
        let store = Arc::clone(store);
        thread::spawn(move || act(&store))
    });
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    store.check_end();
}
