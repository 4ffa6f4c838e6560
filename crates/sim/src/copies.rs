//! Tables whose rows are copied to others while they are loaded (RFC 0039). Each copy is a table of
//! its own, so what they have is told by their names.

use freshet_base::clock::{Clock, Deadline};
use freshet_base::{Lsn, Result};
use freshet_ingest::decode::Completion;
use freshet_ingest::{Destination, LoadTarget, Progress, Rewriting, enter, rewrite};
use freshet_meta::{BucketsSpec, NewForm};
use freshet_schema::{GroupCommitMode, Rules, Table};
use futures::future::BoxFuture;

use crate::loads::{Client, Outcome, encoded};
use crate::rows;

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
    pub fn load_copied<'a>(
        &'a self,
        name: &'a str,
        count: i64,
        mode: GroupCommitMode,
    ) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_load_copied(name, count, mode))
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
    pub fn copy(&self, name: &'static str, buckets: u64) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let now_micros = self.executor.wall_micros();
            let copied = async {
                let id = self.engine.target("d", name)?.id();
                let how = OtherBuckets { name, buckets, now_micros };
                rewrite(&self.engine, id, &how, &Progress::default()).await
            };
            let copied = copied.await;
            self.model.lock().counts.copies += u64::from(copied.is_ok());
            self.outcome(copied.map(|_| Outcome::Acknowledged(Lsn::ZERO)))
        })
    }
}
