//! Unique keys that come and go beside writers (RFC 0026).

use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Lsn, Result, TableId};
use freshet_ingest::{Destination, LoadBuffer, OnExisting, alter_keys};
use freshet_meta::{DeclaredKeySpec, KeyChange};
use freshet_schema::DeclaredKeyKind;
use freshet_storage::delta::Freshness;
use freshet_storage::resolver::KeyedRows;
use futures::future::BoxFuture;

use crate::changes::rules;
use crate::loads::{Client, Outcome};
use crate::rows::{self, Row};

/// The column of the key, which it is named for.
const COLUMN: &str = "amount";

/// A key that no other row has.
const FRESH: i64 = 1 << 40;

impl Client {
    /// Drops the unique key of a table, or adds it: no two rows have a value, so it must be taken.
    pub fn toggle_unique<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let outcome = self.try_toggle(table).await;
            if let Err(error) = &outcome {
                assert_ne!(error.code(), ErrorCode::DuplicateKey, "amounts are unique: {error}");
            }
            self.outcome(outcome)
        })
    }

    async fn try_toggle(&self, table: &str) -> Result<Outcome> {
        let target = self.engine.target("d", table)?;
        let id = target.id();
        let change = match target.table().unique_keys().next() {
            Some(key) => KeyChange::Drop { name: key.name.clone() },
            None => KeyChange::Add(Box::new(DeclaredKeySpec {
                kind: DeclaredKeyKind::Unique,
                name: Some(COLUMN.to_owned()),
                columns: vec![COLUMN.to_owned()],
                first: Vec::new(),
                descending: Vec::new(),
                is_btree: false,
                comment: String::new(),
                global: None,
            })),
        };
        alter_keys(&self.engine, id, &[change]).await?;
        Ok(Outcome::Acknowledged(Lsn::ZERO))
    }

    /// Locks a row of a table and inserts another one with its value in a transaction, which is
    /// refused if the key is enforced; the transaction is rolled back.
    pub fn take_value<'a>(&'a self, table: &'a str, from: u64) -> BoxFuture<'a, Outcome> {
        self.ended(self.try_take(table, from))
    }

    async fn try_take(&self, table: &str, from: u64) -> Result<Outcome> {
        let engine = &self.engine;
        let target = engine.target("d", table)?;
        let schema = Arc::clone(target.schema());
        let is_enforced = target.table().unique_keys().next().is_some();
        let snapshot = engine.snapshot(Freshness::Committed);
        self.resolved(&snapshot).await;
        let too_old = |_| Error::new(ErrorCode::SnapshotTooOld, "it was closed");
        let read = snapshot.table(target.id()).map_err(too_old)?;
        let Some(read) = read.filter(|read| read.schema.version == schema.version) else {
            return Ok(Outcome::Refused);
        };
        read.resolved().await?;
        let seen = self.model.lock().read(&read)?;
        drop((read, snapshot));
        let Some(row) = seen.get(from as usize % seen.len().max(1)) else {
            return Ok(Outcome::Acknowledged(Lsn::ZERO));
        };
        let transaction = engine.begin_transaction(None);
        let own = transaction.own_rows();
        let patience = self.patience();
        let mut change =
            engine.change(&target, Some(own.clone()), rules(OnExisting::Replace), patience);
        let encoded = rows::encode_row(row, &schema);
        let keys = KeyedRows::of_encoded(&encoded, (1, 0), target.table(), &schema);
        let incarnation = self.incarnation(target.id());
        let current = change.lock(&keys).await?.remove(0);
        let current = current.map(|row| rows::decode(&row, &schema));
        if current.is_none_or(|current| current.amount != row.amount) {
            return Ok(Outcome::Acknowledged(Lsn::ZERO));
        }
        let other = Row { id: FRESH + row.amount, ..row.clone() };
        let mut buffer = LoadBuffer::default();
        buffer.begin().extend_from_slice(&rows::encode_row(&other, &schema));
        buffer.count(1)?;
        let destination = Destination::Transaction(own);
        let load = engine.load(&target, destination, patience).with_keys(rules(OnExisting::Refuse));
        match load.commit(&mut buffer).await {
            Err(error) if error.code() == ErrorCode::DuplicateKey => {
                assert!(is_enforced, "nobody else adds the key: {error}");
                Ok(Outcome::Acknowledged(Lsn::ZERO))
            }
            Err(error) => Err(error),
            Ok(_) => {
                // A TRUNCATE waits for nobody.
                let is_there = self.incarnation(target.id()) == incarnation;
                assert!(!is_enforced || !is_there, "amount {} is taken twice", row.amount);
                Ok(Outcome::Acknowledged(Lsn::ZERO))
            }
        }
    }

    fn incarnation(&self, table: TableId) -> Option<freshet_base::Incarnation> {
        self.engine.table_state(table).map(|state| state.incarnation())
    }
}
