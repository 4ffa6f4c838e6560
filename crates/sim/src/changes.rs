//! Statements that change rows of tables with primary keys. What they have seen must be what the
//! log says before their record: nobody else has written meanwhile (keys.md K1).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Lsn, Result, TxnId};
use freshet_ingest::{
    ChangedRow, Destination, KeyRules, LoadBuffer, LoadTarget, Loaded, OnExisting, OneRow, OwnRows,
    Written, change_row,
};
use freshet_schema::{GroupCommitMode, KeyModel};
use freshet_storage::resolver::KeyedRows;
use futures::future::BoxFuture;

use crate::loads::{Client, Outcome, encoded, part_of};
use crate::model::Part;
use crate::rows::{self, Row, RowKind};

/// How long statements wait for keys.
const LOCK_WAIT: Duration = Duration::from_secs(3);

const LOCKED: &str = "nobody writes rows that are locked";

/// What a statement has seen and done.
struct Changed {
    target: LoadTarget,
    seen: Vec<(i64, Option<Row>)>,
    parts: Vec<Part>,
    lsn: Lsn,
}

impl Client {
    /// Inserts rows whose keys must be new.
    pub fn insert_new<'a>(&'a self, table: &'a str, count: i64) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_insert_new(table, count))
    }

    async fn try_insert_new(&self, table: &str, count: i64) -> Result<Outcome> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let ids = self.model.lock().take_ids(count);
        let mut buffer = encoded(&target, &ids);
        let destination = Destination::Group(GroupCommitMode::Async);
        let load = engine.load(&target, destination, self.patience());
        let loaded = load.with_keys(rules(OnExisting::Refuse)).commit(&mut buffer).await?;
        let seen = ids.clone().map(|id| (rows::key_of(id), None)).collect();
        let parts = vec![part_of(&target, ids, &loaded)];
        self.changed(vec![Changed { target, seen, parts, lsn: loaded.lsn }], loaded.lsn);
        Ok(self.acknowledge(loaded.lsn).await)
    }

    /// Replaces the rows that some keys have, and removes those with an odd key.
    pub fn change<'a>(&'a self, table: &'a str, count: i64) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_change(table, count))
    }

    async fn try_change(&self, table: &str, count: i64) -> Result<Outcome> {
        let ids = self.model.lock().take_ids(count);
        let step = self.step(table, ids, None, |key, row| {
            row.map(|_| if key % 2 == 0 { RowKind::Version } else { RowKind::Removal })
        });
        let Some(changed) = step.await? else {
            self.model.lock().counts.refused += 1;
            return Ok(Outcome::Refused);
        };
        let lsn = changed.lsn;
        if !changed.parts.is_empty() {
            self.changed(vec![changed], lsn);
        }
        Ok(self.acknowledge(lsn).await)
    }

    /// Inserts or replaces the row of a key, or removes it if the key is odd, and locks nothing.
    pub fn change_one<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_change_one(table))
    }

    async fn try_change_one(&self, table: &str) -> Result<Outcome> {
        let target = self.engine.target("d", table)?;
        let schema = Arc::clone(target.schema());
        let ids = self.model.lock().take_ids(1);
        let (new, key) = (encoded(&target, &ids), rows::key_of(ids.start));
        let keys = KeyedRows::of_encoded(new.row_bytes(), (1, 0), target.table(), &schema);
        let (mut seen, mut kind) = (Vec::new(), RowKind::Version);
        let decide = |old: Option<&[u8]>, out: &mut Vec<u8>| {
            seen = vec![(key, old.map(|old| rows::decode(old, &schema)))];
            kind = if key % 2 == 0 { RowKind::Version } else { RowKind::Removal };
            Ok(match (old, kind) {
                (None, RowKind::Removal) => OneRow::Kept,
                (Some(_), RowKind::Removal) => OneRow::Removed,
                _ => {
                    out.extend_from_slice(new.row_bytes());
                    OneRow::Written
                }
            })
        };
        let place = (&keys, new.ids());
        let changing = change_row(&self.engine, &target, place, self.patience(), decide);
        let Some(ChangedRow { loaded: Loaded { lsn, .. }, became, .. }) = changing.await? else {
            self.model.lock().counts.refused += 1;
            return Ok(Outcome::Refused);
        };
        if became != OneRow::Kept {
            let (table, txn) = (target.id(), TxnId::default());
            let parts = vec![Part { table, ids, kind, schema, txn, grouped: false }];
            self.changed(vec![Changed { target, seen, parts, lsn }], lsn);
        }
        Ok(self.acknowledge(lsn).await)
    }

    /// Moves the rows of some keys from one table to the other, in one transaction.
    pub fn move_rows<'a>(&'a self, tables: [&'a str; 2], count: i64) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_move(tables, count))
    }

    async fn try_move(&self, tables: [&str; 2], count: i64) -> Result<Outcome> {
        let engine = &self.engine;
        let ids = self.model.lock().take_ids(count);
        let transaction = engine.begin_transaction(None);
        let own = transaction.own_rows();
        let gone = |_, row: Option<&Row>| row.map(|_| RowKind::Removal);
        let from = self.step(tables[0], ids.clone(), Some(own), gone).await?.expect(LOCKED);
        let moved = from.seen.iter().filter(|(_, row)| row.is_some()).map(|(key, _)| *key);
        let moved = moved.collect::<BTreeSet<_>>();
        let come = |key, _: Option<&Row>| moved.contains(&key).then_some(RowKind::Version);
        let to = self.step(tables[1], ids, Some(own), come).await?.expect(LOCKED);
        match engine.commit(transaction, self.patience()).await? {
            None => Ok(Outcome::Acknowledged(Lsn::ZERO)),
            Some(loaded) => {
                let steps = [from, to].into_iter().filter(|step| !step.parts.is_empty());
                self.changed(steps.collect(), loaded.lsn);
                Ok(self.acknowledge(loaded.lsn).await)
            }
        }
    }

    /// Locks the keys of these rows and writes what `decide` says for the row of each; `None` if
    /// nobody locks keys there and others have written them.
    async fn step(
        &self,
        table: &str,
        ids: Range<i64>,
        own: Option<&OwnRows>,
        decide: impl Fn(i64, Option<&Row>) -> Option<RowKind>,
    ) -> Result<Option<Changed>> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let schema = Arc::clone(target.schema());
        // The last row of a key counts.
        let by_key = ids.map(|id| (rows::key_of(id), id)).collect::<BTreeMap<_, _>>();
        let patience = self.patience();
        let mut change = engine.change(&target, own.cloned(), rules(OnExisting::Replace), patience);
        let buffers = by_key.values().map(|&id| encoded(&target, &(id..id + 1)));
        let all = buffers.flat_map(|buffer| buffer.row_bytes().to_vec()).collect::<Vec<_>>();
        let count = by_key.len() as u32;
        let keys = KeyedRows::of_encoded(&all, (count, 0), target.table(), &schema);
        let current = change.lock(&keys).await?;
        let current = current.iter().map(|row| row.as_ref().map(|row| rows::decode(row, &schema)));
        let mut seen = by_key.keys().copied().zip(current).collect::<Vec<_>>();
        let (mut old, mut new, mut parts) = (BTreeSet::new(), LoadBuffer::default(), Vec::new());
        new.begin();
        for (at, (key, row)) in seen.iter().enumerate() {
            let id = by_key[key];
            let Some(kind) = decide(*key, row.as_ref()) else { continue };
            if row.is_some() {
                old.insert(keys.key(at as u32).to_vec());
            }
            if kind == RowKind::Version {
                new.resume().extend_from_slice(encoded(&target, &(id..id + 1)).row_bytes());
                new.count(1)?;
            }
            let schema = Arc::clone(&schema);
            let (table, txn) = (target.id(), TxnId::default());
            parts.push(Part { table, ids: id..id + 1, kind, schema, txn, grouped: false });
        }
        // A TRUNCATE waits for nobody, and only those fail that computed from what it removed.
        // Where nobody locks keys, others may bring a row that was not there.
        let locks = target.table().key_model == KeyModel::Primary;
        seen.retain(|(key, row)| {
            row.is_none() && locks || parts.iter().any(|part| part.ids.start == by_key[key])
        });
        match change.write(&old, &new).await? {
            Written::Done(Loaded { lsn, .. }) => Ok(Some(Changed { target, seen, parts, lsn })),
            Written::Overtaken => Ok(None),
        }
    }

    /// Informs the model of a record, in the same step in which it was appended to the log.
    fn changed(&self, steps: Vec<Changed>, lsn: Lsn) {
        let model = self.model.lock();
        for step in &steps {
            model.check_seen(step.target.id(), step.target.schema(), &step.seen, lsn);
        }
        drop(model);
        let parts = steps.into_iter().flat_map(|step| step.parts).collect();
        self.appended(lsn, crate::model::Event::Load(parts, None));
    }
}

pub(crate) fn rules(on_existing: OnExisting) -> KeyRules {
    KeyRules { on_existing, lock_wait: LOCK_WAIT, connection: 0 }
}
