//! Shared helpers for the tests of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{
    DbId, Lsn, Result, RowsetId, SchemaVersion, SegmentId, TableId, TabletId, Version,
};
use freshet_schema::{ColumnType, Table, TableForm, TableSchema};

use crate::{
    BucketsSpec, ColumnSpec, Definition, DistributionSpec, KeyRange, MarkFileMeta, MemStore, Meta,
    MetaEvent, MetaStore, Publish, Renaming, Replacement, RowsetMeta, SchemaChange, SegmentMeta,
    TableSpec, TermRecord, Truncate,
};

/// A clock that only advances when a test says so.
#[derive(Default)]
pub(crate) struct TestClock {
    now_micros: AtomicI64,
    jumped_micros: AtomicI64,
}

impl TestClock {
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap();
        self.now_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Simulates a change of the system time.
    pub fn jump_wall(&self, hours: i64) {
        self.jumped_micros.fetch_add(hours * 3_600_000_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.now_micros.load(Ordering::Relaxed).unsigned_abs())
    }

    fn wall_micros(&self) -> i64 {
        self.now_micros.load(Ordering::Relaxed) + self.jumped_micros.load(Ordering::Relaxed)
    }

    fn sleep(&self, _duration: Duration) -> futures::future::BoxFuture<'static, ()> {
        unreachable!("metadata never sleeps")
    }
}

pub(crate) fn meta() -> Meta {
    begin(Arc::new(MemStore::new()))
}

/// Opens a store whose log has nothing to settle, as a start does.
pub(crate) fn begin(store: Arc<dyn MetaStore>) -> Meta {
    let meta = open(store);
    begin_term(&meta);
    meta
}

/// Settles the record of a term, and writes a checkpoint.
pub(crate) fn begin_term(meta: &Meta) {
    meta.begin();
    let term = TermRecord { ids: meta.ids().of_term(), ..TermRecord::default() };
    assert!(meta.settle_next(&MetaEvent::Term(term)));
    meta.checkpoint().unwrap();
}

/// Opens a store as a tool does.
pub(crate) fn open(store: Arc<dyn MetaStore>) -> Meta {
    Meta::open(store, Arc::<TestClock>::default()).unwrap()
}

pub(crate) const INT: ColumnType = ColumnType::Int { unsigned: false };

/// `(id int, name varchar(50), score int)`, hashed by id into one bucket.
pub(crate) fn spec(name: &str) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("id", INT),
        ColumnSpec::new("name", ColumnType::VarChar { len: 50 }),
        ColumnSpec::new("score", INT),
    ];
    TableSpec {
        distribution: Some(DistributionSpec::Hash(vec!["id".to_owned()])),
        buckets: BucketsSpec::Count(1),
        engine: Some("OLAP".to_owned()),
        ..TableSpec::new(name, TableForm::Olap, columns)
    }
}

pub(crate) fn rowset(id: u64, tablet: TabletId, first: u64, last: u64) -> RowsetMeta {
    let segment = SegmentMeta {
        id: SegmentId(0),
        file: format!("{id}_0.parquet"),
        rows: 10,
        bytes: 1000,
        data_bytes: 900,
        key_part: None,
        footer_checksum: 7,
        keys: KeyRange { min: 0, max: 9 },
        removes: false,
    };
    RowsetMeta {
        id: RowsetId(id),
        tablet,
        lsn_first: Lsn(first),
        lsn_last: Lsn(last),
        schema_version: SchemaVersion(1),
        segments: vec![segment],
        rows: 10,
    }
}

pub(crate) fn mark_file(number: u64, (from, to): (u64, u64)) -> MarkFileMeta {
    let (number, lsns) = (RowsetId(number), (Lsn(from), Lsn(to)));
    MarkFileMeta { number, lsns, bytes: 100, head_checksum: 5, marks: 3 }
}

/// Statements, each of which settles at once as the next record of the log.
impl Meta {
    pub(crate) fn settle_next(&self, event: &MetaEvent) -> bool {
        self.settle(self.settled().next(), event)
    }

    pub(crate) fn create_table(&self, db: &str, spec: &TableSpec) -> Result<Arc<Table>> {
        let created = self.new_table(db, spec, false)?;
        assert!(self.settle_next(&MetaEvent::Create(Arc::clone(&created.object))));
        Ok(created.object)
    }

    pub(crate) fn drop_table(&self, id: TableId) -> bool {
        self.settle_next(&MetaEvent::Drop(vec![id]))
    }

    pub(crate) fn drop_database(&self, id: DbId) -> bool {
        self.settle_next(&MetaEvent::DropDatabase(id))
    }

    pub(crate) fn rename_table(&self, id: TableId, name: &str) -> Result<()> {
        let catalog = self.catalog();
        let table = catalog.require(id)?;
        let database = catalog.database_name(table).to_string();
        let renamed = catalog.renamed(&[Renaming::within(&database, &table.name, name)])?;
        assert!(renamed.is_none_or(|event| self.settle_next(&event)));
        Ok(())
    }

    pub(crate) fn set_properties(&self, id: TableId, pairs: &[(String, String)]) -> Result<()> {
        let (properties, warnings) = self.catalog().properties_with(id, pairs)?;
        assert!(warnings.is_empty());
        self.define(id, Definition::Properties(properties));
        Ok(())
    }

    pub(crate) fn alter(&self, id: TableId, changes: &[SchemaChange]) -> Result<Arc<TableSchema>> {
        let schema = self.catalog().altered(id, changes)?;
        self.define(id, Definition::Schema(Arc::clone(&schema)));
        Ok(schema)
    }

    pub(crate) fn define(&self, table: TableId, change: Definition) {
        assert!(self.settle_next(&MetaEvent::Define { table, change }));
    }

    /// TRUNCATE at the next record, or at the one behind what is flushed.
    pub(crate) fn truncate(&self, table: &Table, version: Version) -> Truncate {
        let incarnation = table.partitions[0].incarnation.next();
        let tablets = self.new_tablets(table).unwrap();
        let truncate =
            Truncate { table: table.id, version, incarnation, tablets, keeps_counter: false };
        let at = self.settled().max(self.flushed(table.id).unwrap().lsn).next();
        assert!(self.settle(at, &MetaEvent::Truncate(vec![truncate.clone()])));
        truncate
    }

    pub(crate) fn publish(&self, publish: &Publish) -> bool {
        self.edit(|fold| fold.publish(publish))
    }

    pub(crate) fn replace(&self, replacement: &Replacement) -> bool {
        self.edit(|fold| fold.replace(replacement))
    }
}
