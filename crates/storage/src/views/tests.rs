use arrow::array::RecordBatch;
use freshet_base::budget::Budget;
use freshet_base::task::Lane;
use freshet_base::{ColumnId, Incarnation, PartitionId, RowsetId, SchemaVersion, TabletId, TxnId};
use freshet_schema::key::KeyCodec;
use freshet_schema::{Partition, PartitionBy, PartitionMethod, PartitionValues, Table};
use futures::executor::block_on;
use imbl::HashMap;

use super::*;
use crate::delta::{Delta, DeltaEntry, Payload};
use crate::division::Division;
use crate::flush::{Files, FlushInput, Written, flush};
use crate::rowset::known_ranges;
use crate::segment::ScanRequest;
use crate::snapshot::TableSnapshot;
use crate::testing::{TABLE, batch, encode, files, keys, schema, table};

/// The memory of a record until its rows are converted to columns.
const PERMIT_BYTES: u64 = 100;
/// Memory for a few records' rows that only snapshots need.
const KEPT_BYTES_MAX: u64 = 256 << 10;

/// A store of one table, driven as by an engine.
struct Store {
    _dir: tempfile::TempDir,
    files: Files,
    delta: Arc<Delta>,
    views: Views,
    writes: Budget,
}

impl Store {
    fn new() -> Self {
        Self::of(table(&[schema(1), schema(2)], 1))
    }

    fn of(table: Table) -> Self {
        let (dir, table) = (tempfile::tempdir().unwrap(), Arc::new(table));
        let view = TableView { schema: schema(1), ..TableView::created(&table) };
        let delta = Arc::clone(&view.delta);
        let tables = HashMap::unit(TABLE, Arc::new(view));
        let memory = Budget::new("memory of snapshots", KEPT_BYTES_MAX);
        let views = Views::new(StoreView { catalog: Arc::new(Catalog::default()), tables }, memory);
        let files = files(dir.path());
        let writes = Budget::new("memory for writes", u64::MAX);
        Self { _dir: dir, files, delta, views, writes }
    }

    fn push(&self, lsn: u64, txn: u64, keys: &[i64]) {
        let bytes = encode(&schema(1), keys);
        let entry = DeltaEntry {
            lsn: Lsn(lsn),
            txn: TxnId(txn),
            ends_group: txn == 0,
            schema_version: SchemaVersion(1),
            rows: keys.len() as u32,
            removals: 0,
            payload: Payload::Copied(&bytes),
        };
        self.delta.push_rows(entry, self.writes.acquire_over(PERMIT_BYTES));
    }

    fn pin(&self, horizon: u64) -> Snapshot {
        self.views.pin(Freshness::Committed, || Lsn(horizon))
    }

    fn keys(&self, snapshot: &Snapshot) -> Vec<i64> {
        self.keys_of(&snapshot.table(TABLE).unwrap().unwrap())
    }

    fn keys_of(&self, table: &TableSnapshot) -> Vec<i64> {
        let files = table.rowsets().flat_map(|rowset| {
            rowset.scan(ScanRequest::all(&table.schema)).map(Result::unwrap).collect::<Vec<_>>()
        });
        let batches = files.chain(table.delta_batches().unwrap()).collect::<Vec<_>>();
        assert!(batches.iter().all(|batch| batch.schema() == *table.schema.arrow()));
        let keys = keys(&batches);
        assert_eq!(keys.len() as u64, table.rows(), "the count is exact");
        keys
    }

    /// Writes rows to files of a table.
    fn write(&self, to: Table, batches: Vec<RecordBatch>, lsns: (Lsn, Lsn)) -> Vec<Arc<Rowset>> {
        let (lane, table, schema) = (Lane::Background, Arc::new(to), schema(1));
        let input = FlushInput { lane, table, schema: Arc::clone(&schema), batches, lsns, turn: 0 };
        let written = block_on(flush(&self.files, input, 1 << 30, || RowsetId(lsns.1.get())));
        let open = |written: Written| {
            let rowset = self.files.rowset(TABLE, written.rowset, &schema);
            Arc::new(rowset)
        };
        written.unwrap().into_iter().map(open).collect()
    }

    /// Flushes everything: files are added and rows removed in one step.
    fn flush(&self) {
        let frozen = self.delta.freeze();
        let before = self.pin(frozen.get());
        let view = Arc::clone(&self.views.load().tables[&TABLE]);
        let rows = before.table(TABLE).unwrap().unwrap();
        let (batches, lsns) = (rows.delta_batches().unwrap(), (view.flushed.next(), frozen));
        let rowsets = self.write(table(&[schema(1)], 1), batches, lsns);
        let publish =
            Event::Publish { version: view.version, schema: schema(1), rowsets, swap: None };
        self.views.settle(frozen, vec![(TABLE, publish)], Arc::default);
    }
}

#[test]
fn each_record_is_seen_in_one_place_before_and_after_a_flush() {
    let store = Store::new();
    store.push(1, 0, &[1, 2]);
    store.push(2, 0, &[3]);
    let before = store.pin(1);
    store.flush();
    store.push(3, 0, &[4]);
    store.push(4, 0, &[5]);
    assert_eq!(store.keys(&before), [1, 2], "a pin stays where it was pinned");
    assert_eq!(store.keys(&store.pin(3)), [1, 2, 3, 4]);
    let table = store.pin(3).table(TABLE).unwrap().unwrap();
    assert_eq!((table.file_rows(), table.delta_rows()), (3, 1));
    store.flush();
    assert_eq!(store.keys(&store.pin(4)), [1, 2, 3, 4, 5]);
    assert_eq!(store.delta.stats().rows, 0);
}

#[test]
fn a_truncate_hides_files_and_rows_below_it_at_its_lsn_and_not_before() {
    let store = Store::new();
    store.push(1, 0, &[1]);
    store.flush();
    store.push(2, 0, &[2]);
    store.delta.push_truncate(Lsn(3));
    store.push(4, 0, &[4]);
    assert_eq!(store.keys(&store.pin(2)), [1, 2]);
    assert!(store.keys(&store.pin(3)).is_empty());
    assert_eq!(store.keys(&store.pin(4)), [4]);
}

/// A partition of the keys from `lower`, 0 or 10, on.
fn partition(id: u64, name: &str, tablet: u64, lower: i64) -> Partition {
    let mut ten = Vec::new();
    KeyCodec::new(&schema(1), &[0]).put(&encode(&schema(1), &[10]), &mut ten);
    let values = match lower {
        0 => PartitionValues::Range { lower: None, upper: vec![ten] },
        _ => PartitionValues::Range { lower: Some(vec![ten]), upper: Vec::new() },
    };
    Partition {
        id: PartitionId(id),
        name: name.to_owned(),
        incarnation: Incarnation(1),
        tablets: vec![TabletId(tablet)],
        values: Some(values),
    }
}

#[test]
fn partitions_are_those_at_the_horizon_before_their_change_has_settled() {
    let by = PartitionBy {
        method: PartitionMethod::Range,
        columns: vec![ColumnId(1)],
        function: None,
        computed: None,
        has_columns_word: false,
        auto: None,
    };
    let (low, high) = (partition(1, "low", 100, 0), partition(2, "high", 101, 10));
    let plain = table(&[schema(1)], 1);
    let partitions = vec![high.clone(), low];
    let divided = Table { partition_by: Some(by.clone()), partitions, ..plain };
    let store = Store::of(divided.clone());
    store.push(1, 0, &[1, 11]);
    let new = partition(3, "high", 102, 10);
    let to = Table { partitions: vec![new.clone()], ..divided };
    let files = store.write(to, vec![batch(&schema(1), &[12, 13])], (Lsn(2), Lsn(2)));
    let division = Division::new(&by, &schema(1), &[high], Some(vec![new]));
    store.delta.push_division(Lsn(2), Arc::new(division), files);
    store.push(3, 0, &[2, 14]);
    for (horizon, low, high) in
        [(1, vec![1], vec![11]), (2, vec![1], vec![12, 13]), (3, vec![1, 2], vec![12, 13, 14])]
    {
        let read = store.pin(horizon).table(TABLE).unwrap().unwrap();
        let of = |name| {
            let at = read.table.partition_at(name).unwrap();
            (store.keys_of(&read.clone().within(&[at])), read.table.partitions[at].id)
        };
        let ((low_keys, low_id), (high_keys, high_id)) = (of("low"), of("high"));
        assert_eq!((&low_keys, &high_keys), (&low, &high), "at {horizon}");
        let counts = read.by_partition().unwrap();
        let count = |id| counts[&id].0 as usize;
        assert_eq!((count(low_id), count(high_id)), (low.len(), high.len()), "at {horizon}");
    }
}

#[test]
fn an_alter_and_a_drop_count_from_their_lsn_on() {
    let store = Store::new();
    store.push(1, 0, &[1]);
    store.flush();
    store.delta.push_schema(Lsn(2), schema(2));
    store.push(3, 0, &[3]);
    store.delta.push_drop(Lsn(4));
    assert_eq!(store.pin(1).table(TABLE).unwrap().unwrap().schema.version, SchemaVersion(1));
    assert_eq!(store.pin(3).table(TABLE).unwrap().unwrap().schema.version, SchemaVersion(2));
    assert_eq!(store.keys(&store.pin(3)), [1, 3], "rows of both versions have the new columns");
    assert!(store.pin(4).table(TABLE).unwrap().is_none());
    assert!(store.pin(3).table(freshet_base::TableId(1)).unwrap().is_none());
}

#[test]
fn published_readers_wait_for_the_end_of_a_group() {
    let store = Store::new();
    store.push(1, 5, &[1]);
    store.push(2, 0, &[2]);
    store.delta.end_group(TxnId(5), Lsn(3));
    let published = |lsn| store.keys(&store.views.pin(Freshness::Published, || Lsn(lsn)));
    assert_eq!(published(2), [2]);
    assert_eq!(published(3), [1, 2]);
}

#[test]
fn a_session_sees_its_own_rows_besides() {
    let store = Store::new();
    store.push(1, 0, &[1]);
    let table =
        store.pin(1).table(TABLE).unwrap().unwrap().with_overlay([batch(&schema(1), &[7, 8])]);
    assert_eq!(table.rows(), 3);
    assert_eq!(keys(&table.delta_batches().unwrap()), [1, 7, 8]);
}

#[test]
fn bounds_are_known_when_all_footers_are_in_memory() {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    let store = Store::new();
    store.push(1, 0, &[5, 9]);
    store.flush();
    store.push(2, 0, &[-3]);
    store.flush();
    let table = store.pin(9).table(TABLE).unwrap().unwrap();
    let segments = || table.rowsets().flat_map(|rowset| rowset.segments());
    let range = || known_ranges(segments(), &[ColumnId(1)]).remove(0);
    assert!(range().is_none());
    for segment in segments() {
        block_on(segment.read_footer()).unwrap();
    }
    let range = range().unwrap();
    assert_eq!(range.min.as_primitive::<Int64Type>().value(0), -3);
    assert_eq!(range.max.as_primitive::<Int64Type>().value(0), 9);
}

#[test]
fn an_open_snapshot_keeps_what_it_sees_as_its_own_and_nothing_newer() {
    let store = Store::new();
    store.push(1, 0, &[1]);
    let early = store.pin(1);
    store.flush();
    let kept = store.views.pins().memory();
    assert_eq!(store.writes.used_bytes(), 0, "writes do not wait for a reader");
    let one = kept.used_bytes();
    assert!(one > 0);
    for lsn in 2..10 {
        store.push(lsn, 0, &[lsn as i64]);
        store.flush();
    }
    assert_eq!(store.writes.used_bytes(), 0);
    assert_eq!(kept.used_bytes(), one, "what came later is not kept");
    assert_eq!(store.keys(&early), [1]);
    assert_eq!(store.views.pins().count(), 1);
    let table = early.table(TABLE).unwrap();
    drop(early);
    assert_eq!(kept.used_bytes(), one, "a scan goes on");
    drop(table);
    assert_eq!((kept.used_bytes(), store.views.pins().count()), (0, 0));
}

#[test]
fn over_the_limit_the_oldest_snapshot_that_keeps_something_is_closed() {
    let store = Store::new();
    let empty = store.pin(0);
    let mut open = Vec::new();
    let kept = store.views.pins().memory();
    let mut lsn = 0;
    while store.views.pins().closed() == 0 {
        lsn += 1;
        store.push(lsn, 0, &[lsn as i64; 1024]);
        open.push((lsn, store.pin(lsn)));
        store.flush();
        assert!(kept.used_bytes() <= KEPT_BYTES_MAX, "each keeps little: closing one is enough");
    }
    assert!(open.len() > 2, "{} snapshots", open.len());
    let (_, oldest) = open.remove(0);
    let error = freshet_base::Error::from(oldest.table(TABLE).err().unwrap());
    assert_eq!(error.code(), freshet_base::ErrorCode::SnapshotTooOld);
    assert!(error.message().contains("snapshot_memory"), "{error}");
    for (lsn, snapshot) in &open {
        assert_eq!(store.keys(snapshot).len() as u64, 1024 * *lsn, "the others go on");
    }
    assert!(store.keys(&empty).is_empty(), "one that keeps nothing is in nobody's way");
}

#[test]
fn a_table_that_a_scan_still_holds_is_not_closed_twice() {
    let store = Store::new();
    let mut scans = Vec::new();
    let used = || store.views.pins().memory().used_bytes();
    for lsn in 1.. {
        if used() > 2 * KEPT_BYTES_MAX {
            break;
        }
        // Enough rows for a reader to seal the node; it would copy fewer.
        store.push(lsn, 0, &[lsn as i64; 1024]);
        let snapshot = store.pin(lsn);
        scans.push(snapshot.table(TABLE).unwrap().unwrap());
        store.flush();
    }
    // All snapshots remain in use: closed ones count, and only as many are closed as exceed the
    // limit.
    let closed = scans.iter().filter(|scan| scan.check_open().is_err()).count();
    assert_eq!(closed as u64, store.views.pins().closed());
    let (over, each) = (used() - KEPT_BYTES_MAX, used() / scans.len() as u64);
    assert_eq!(closed as u64, over.div_ceil(each), "{} open", scans.len());
    assert!(scans[..closed].iter().all(|scan| scan.check_open().is_err()), "the oldest first");
}
