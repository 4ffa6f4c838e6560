//! Statements that change and remove rows of tables without a unique key (RFC 0022).

use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Lsn, Result, TxnId};
use freshet_ingest::{Affected, Copies, Destination, LoadTarget, RowChange};
use freshet_storage::delta::Freshness;
use futures::future::BoxFuture;

use crate::loads::{Client, Outcome, encoded};
use crate::model::{Event, Part};
use crate::rows::{self, Row, RowKind};

impl Client {
    /// Finds `count` rows of a table from some place on; removes each third one, and makes others
    /// of the rest, two of which are alike.
    pub fn remove_rows<'a>(
        &'a self,
        table: &'a str,
        from: u64,
        count: usize,
    ) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_remove_rows(table, from, count))
    }

    async fn try_remove_rows(&self, table: &str, from: u64, count: usize) -> Result<Outcome> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let schema = Arc::clone(target.schema());
        let snapshot = engine.snapshot(Freshness::Committed);
        self.resolved(&snapshot).await;
        let read = snapshot.table(target.id()).map_err(too_old)?;
        let Some(read) = read.filter(|read| read.schema.version == schema.version) else {
            return Ok(Outcome::Refused);
        };
        read.resolved().await?;
        let mut seen = self.model.lock().read(&read)?;
        drop((read, snapshot));
        if seen.is_empty() {
            return Ok(Outcome::Acknowledged(Lsn::ZERO));
        }
        let first = from as usize % seen.len();
        seen.rotate_left(first);
        seen.truncate(count);
        let (changes, mut new) = self.drawn(&target, &seen);
        let patience = self.patience();
        let changed = match from % 3 {
            0 => self.in_transaction(&target, &changes, &mut new).await?,
            _ => engine.change_rows(&target, None, &changes, Copies::One, patience).await?,
        };
        match changed {
            Affected::Overtaken => Ok(Outcome::Refused),
            Affected::Rows(rows, loaded) => {
                assert_eq!(rows, seen.len() as u64, "each row that is found is changed");
                let part = |ids, kind| Part {
                    table: target.id(),
                    ids,
                    kind,
                    schema: Arc::clone(&schema),
                    txn: loaded.txn.unwrap_or(TxnId::default()),
                    grouped: false,
                };
                let gone = seen.iter().map(|row| part(row.id..row.id + 1, RowKind::Gone));
                let new = new.into_iter().map(|id| part(id..id + 1, RowKind::Plain));
                let parts = gone.chain(new).collect();
                self.model.lock().check_there(target.id(), &schema, &seen, loaded.lsn);
                self.appended(loaded.lsn, Event::Load(parts, None));
                Ok(self.acknowledge(loaded.lsn).await)
            }
        }
    }

    /// Changes rows by two statements of a transaction, which also writes rows of its own and
    /// removes one of them again.
    async fn in_transaction(
        &self,
        target: &LoadTarget,
        changes: &[RowChange],
        new: &mut Vec<i64>,
    ) -> Result<Affected> {
        let (engine, patience) = (&self.engine, self.patience());
        let transaction = engine.begin_transaction(None);
        let own = transaction.own_rows();
        let ids = self.model.lock().take_ids(3);
        let (first, second) = changes.split_at(changes.len() / 2);
        let before = engine.change_rows(target, Some(own), first, Copies::One, patience).await?;
        let Affected::Rows(before, _) = before else { return Ok(Affected::Overtaken) };
        let destination = Destination::Transaction(own);
        let load = engine.load(target, destination, patience);
        load.commit(&mut encoded(target, &ids)).await?;
        let old = encoded(target, &(ids.start..ids.start + 1)).row_bytes().to_vec();
        let again = [RowChange { old, new: None }];
        let again = engine.change_rows(target, Some(own), &again, Copies::One, patience).await?;
        assert!(matches!(again, Affected::Rows(1, _)), "it sees what it has written");
        let behind = engine.change_rows(target, Some(own), second, Copies::One, patience).await?;
        let Affected::Rows(behind, _) = behind else { return Ok(Affected::Overtaken) };
        new.extend([ids.start + 1, ids.start + 2]);
        let loaded = engine.commit(transaction, patience).await?.expect("it has rows");
        Ok(Affected::Rows(before + behind, loaded))
    }

    /// What becomes of rows, and the numbers of the new ones.
    fn drawn(&self, target: &LoadTarget, seen: &[Row]) -> (Vec<RowChange>, Vec<i64>) {
        let (mut changes, mut new, mut last) = (Vec::new(), Vec::new(), None);
        for (at, row) in seen.iter().enumerate() {
            let number = match (at % 3, last) {
                (0, _) => None,
                (2, Some(last)) => Some(last),
                _ => Some(self.model.lock().take_ids(1).start),
            };
            last = number.or(last);
            let becomes = number.map(|id| encoded(target, &(id..id + 1)).row_bytes().to_vec());
            new.extend(number);
            let old = rows::encode_row(row, target.schema());
            changes.push(RowChange { old, new: becomes });
        }
        (changes, new)
    }
}

fn too_old(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::SnapshotTooOld, error.to_string())
}
