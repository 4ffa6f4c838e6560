//! Partitions that are dropped into the recycle bin, and come back (RFC 0046).

use std::task::Poll;

use freshet_base::{Lsn, Result, err};
use freshet_ingest::{bin_partitions, recover_partition};
use futures::future::BoxFuture;

use crate::loads::{Client, Outcome};
use crate::model::Event;
use crate::rows;

impl Client {
    /// Drops a partition of [`rows::PARTITIONS`] into the recycle bin.
    pub fn rest<'a>(&'a self, table: &'a str, at: usize) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_rest(table, at))
    }

    async fn try_rest(&self, table: &str, at: usize) -> Result<Outcome> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let (id, (name, from, to)) = (target.id(), rows::PARTITIONS[at]);
        let partition = target.table().partitions.iter().find(|one| one.is_named(name));
        let partition = partition.map(|one| one.id);
        let state = engine.table_state(id).ok_or_else(|| err!(NoSuchTable, "it was dropped"))?;
        let mut lost = state.delta.lost();
        let mut statement = Box::pin(bin_partitions(engine, id, vec![name.to_owned()], false));
        let mut barrier = None;
        // A flush comes before the record.
        let binned = std::future::poll_fn(|context| {
            let polled = statement.as_mut().poll(context);
            if state.delta.lost() > lost {
                lost = state.delta.lost();
                let partition = partition.expect("what is dropped was there");
                self.appended(lost, Event::Rest(id, partition, from..to));
                barrier = Some(lost);
            }
            match polled {
                Poll::Ready(done) => Poll::Ready(done),
                Poll::Pending => Poll::Pending,
            }
        });
        binned.await?;
        Ok(self.acknowledged(barrier.expect("a change of partitions is a record")))
    }

    /// Brings back the partition of [`rows::PARTITIONS`] that was dropped last.
    pub fn recover<'a>(&'a self, table: &'a str, at: usize) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_recover(table, at))
    }

    async fn try_recover(&self, table: &str, at: usize) -> Result<Outcome> {
        let id = self.engine.target("d", table)?.id();
        let (name, from, to) = rows::PARTITIONS[at];
        let resting = self.engine.resting_partitions();
        let resting = resting.iter().map(|one| &one.resting).filter(|one| one.table == id);
        let last = resting.map(|one| &one.partition).filter(|one| one.is_named(name));
        let Some(last) = last.map(|one| one.id).max() else { return Ok(Outcome::Refused) };
        let event = || Event::Recover(id, last, from..to);
        let named = (name.to_owned(), Some(last));
        let (done, lsn) =
            self.watched(recover_partition(&self.engine, id, named, None), event).await;
        done?;
        self.model.lock().counts.recovered += 1;
        let lsn: Lsn = lsn.expect("a change of partitions is a record");
        Ok(self.acknowledged(lsn))
    }
}
