//! Tables whose rows are copied to others while they are loaded (RFC 0039). Each copy is a table of
//! its own, so what they have is told by their names.

use std::collections::BTreeMap;
use std::ops::Range;

use freshet_base::clock::{Clock, Deadline};
use freshet_base::{Lsn, Result};
use freshet_ingest::decode::Completion;
use freshet_ingest::{Destination, LoadTarget, Progress, Rewriting, enter, rewrite};
use freshet_meta::{BucketsSpec, NewForm};
use freshet_schema::{GroupCommitMode, Rules, Table};
use freshet_storage::delta::Freshness;
use freshet_storage::snapshot::Snapshot;
use futures::FutureExt;

use crate::loads::{Client, Outcome, encoded};
use crate::model::is_missing;
use crate::rows::{self, RowKind};

/// One without a unique key, and a keyed one.
pub const COPIED: [&str; 2] = ["th", "kh"];

/// The loads of these tables, in the order of the log.
#[derive(Default)]
pub struct CopiedTables(BTreeMap<Lsn, (String, Range<i64>)>);

impl CopiedTables {
    fn loaded(&mut self, lsn: Lsn, table: &str, ids: Range<i64>) {
        let before = self.0.insert(lsn, (table.to_owned(), ids));
        assert!(before.is_none(), "two records at {lsn}");
    }

    /// Forgets what was lost with the end of the log.
    pub fn reopened(&mut self, log_end: Lsn) {
        self.0.split_off(&log_end.next());
    }

    /// Checks that each table has the rows of all its loads up to the horizon, each once, whichever
    /// copy has its name; returns how many tables were compared.
    ///
    /// # Panics
    /// When one has others.
    pub fn check(&self, snapshot: &Snapshot) -> u64 {
        let mut compared = 0;
        for name in COPIED.iter().filter(|_| snapshot.freshness == Freshness::Committed) {
            let Some(table) = snapshot.catalog.table("d", name) else { continue };
            // It may be too old to read.
            let Ok(read) = snapshot.table(table.id) else { continue };
            let read = read.unwrap_or_else(|| panic!("table {name} is gone"));
            if !matches!(read.resolved().now_or_never(), Some(Ok(()))) {
                continue;
            }
            let horizon = snapshot.horizon;
            match rows::read(&read) {
                Ok(rows) => {
                    assert!(rows == self.rows(name, horizon, &read.table), "{name} at {horizon}")
                }
                Err(error) => {
                    assert!(!is_missing(&error), "table {name} at {horizon}: {error}");
                    continue;
                }
            }
            compared += 1;
        }
        compared
    }

    fn rows(&self, name: &str, horizon: Lsn, table: &Table) -> Vec<rows::Row> {
        let (schema, kind) = (table.schema(), kind_of(name));
        let (mut all, mut last) = (Vec::new(), BTreeMap::new());
        let of_it = self.0.range(..=horizon).filter(|(_, (table, _))| table == name);
        for (_, (_, ids)) in of_it {
            match kind {
                RowKind::Version => {
                    let mut versions = Vec::new();
                    rows::expect((ids.clone(), kind), schema, schema, &mut versions);
                    rows::replace(&mut last, versions, schema);
                }
                _ => rows::expect((ids.clone(), kind), schema, schema, &mut all),
            }
        }
        all.extend(last.into_values());
        all.sort();
        all
    }
}

fn kind_of(name: &str) -> RowKind {
    if name.starts_with('k') { RowKind::Version } else { RowKind::Plain }
}

/// A copy with the same columns, in other tablets.
struct OtherBuckets {
    name: &'static str,
    buckets: u64,
    now_micros: i64,
}

impl Rewriting for OtherBuckets {
    fn form(&self, table: &Table) -> Result<NewForm> {
        let mut spec = rows::table_spec(self.name, &[]);
        spec.buckets = BucketsSpec::Count(self.buckets);
        Ok(NewForm::same(table, spec))
    }

    fn completion(&self, _: &LoadTarget) -> Result<Completion> {
        Ok(Completion::default())
    }

    fn rules(&self) -> (Rules, i64) {
        (Rules::default(), self.now_micros)
    }
}

impl Client {
    /// Loads `count` rows into a table that may be copied meanwhile.
    pub async fn load_copied(&self, name: &str, count: i64, mode: GroupCommitMode) -> Outcome {
        let outcome = self.try_load_copied(name, count, mode).await;
        self.outcome(outcome)
    }

    async fn try_load_copied(
        &self,
        name: &str,
        count: i64,
        mode: GroupCommitMode,
    ) -> Result<Outcome> {
        let engine = &self.engine;
        let deadline = Deadline::after(&self.executor, engine.config().load_patience);
        let target = enter(engine, "d", name, deadline).await?;
        let ids = self.model.lock().take_ids(count);
        let mut buffer = encoded(&target, &ids);
        let load = engine.load(&target, Destination::Group(mode), self.patience());
        let loaded = load.commit(&mut buffer).await?;
        self.model.lock().copied.loaded(loaded.lsn, name, ids);
        drop(target);
        Ok(self.acknowledge(loaded.lsn).await)
    }

    /// Copies a table to one with so many buckets, which gets its name.
    pub async fn copy(&self, name: &'static str, buckets: u64) -> Outcome {
        let now_micros = self.executor.wall_micros();
        let copied = async {
            let id = self.engine.target("d", name)?.id();
            let how = OtherBuckets { name, buckets, now_micros };
            rewrite(&self.engine, id, &how, &Progress::default()).await
        };
        let copied = copied.await;
        self.model.lock().counts.copies += u64::from(copied.is_ok());
        self.outcome(copied.map(|_| Outcome::Acknowledged(Lsn::ZERO)))
    }
}
