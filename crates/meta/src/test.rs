//! What the tests of this crate share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{Lsn, RowsetId, SchemaVersion, SegmentId, TabletId};
use freshet_schema::{ColumnType, TableForm};

use crate::{
    BucketsSpec, ColumnSpec, DefaultSpec, DistributionSpec, MemStore, Meta, MetaConfig, RowsetMeta,
    SegmentMeta, TableSpec,
};

/// Time that stands until a test moves it.
#[derive(Default)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap();
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.wall_micros().unsigned_abs())
    }

    fn wall_micros(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, _duration: Duration) -> futures::future::BoxFuture<'static, ()> {
        unreachable!("metadata never sleeps")
    }
}

pub(crate) fn meta() -> Meta {
    let clock = Arc::new(TestClock::default());
    Meta::open(Arc::new(MemStore::new()), clock, MetaConfig::default()).unwrap()
}

pub(crate) fn column(name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        name: name.to_owned(),
        ty,
        nullable: true,
        default: DefaultSpec::Unset,
        comment: String::new(),
    }
}

pub(crate) const INT: ColumnType = ColumnType::Int { unsigned: false };

/// `(id int, name varchar(50), score int)`, hashed by id into one bucket.
pub(crate) fn spec(name: &str) -> TableSpec {
    TableSpec {
        name: name.to_owned(),
        form: TableForm::Olap,
        columns: vec![
            column("id", INT),
            column("name", ColumnType::VarChar { len: 50 }),
            column("score", INT),
        ],
        key: None,
        declared_keys: Vec::new(),
        distribution: Some(DistributionSpec::Hash(vec!["id".to_owned()])),
        buckets: BucketsSpec::Count(1),
        properties: Vec::new(),
        comment: String::new(),
        engine: Some("OLAP".to_owned()),
    }
}

pub(crate) fn rowset(id: u64, tablet: TabletId, first: u64, last: u64) -> RowsetMeta {
    let segment = SegmentMeta {
        id: SegmentId(0),
        file: format!("{id}_0.parquet"),
        rows: 10,
        bytes: 1000,
        data_bytes: 900,
        footer_checksum: 7,
    };
    RowsetMeta {
        id: RowsetId(id),
        tablet,
        lsn_first: Lsn(first),
        lsn_last: Lsn(last),
        schema_version: SchemaVersion(1),
        segments: vec![segment],
        rows: 10,
        keys: None,
    }
}
