//! Shared helpers for the tests of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{Lsn, RowsetId, SchemaVersion, SegmentId, TabletId};
use freshet_schema::{ColumnType, TableForm};

use crate::{
    BucketsSpec, ColumnSpec, DistributionSpec, MemStore, Meta, MetaConfig, Publish, PublishOutcome,
    Replacement, RowsetMeta, SegmentMeta, TableSpec,
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
    let clock = Arc::new(TestClock::default());
    Meta::open(Arc::new(MemStore::new()), clock, MetaConfig::default()).unwrap()
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

impl Meta {
    pub(crate) fn publish(&self, publish: &Publish) -> PublishOutcome {
        self.edit(|fold| fold.publish(publish))
    }

    pub(crate) fn replace(&self, replacement: &Replacement) -> bool {
        self.edit(|fold| fold.replace(replacement))
    }
}
