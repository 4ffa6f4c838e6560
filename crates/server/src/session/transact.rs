//! BEGIN, COMMIT and ROLLBACK, and the preparation of reads.

use freshet_base::Result;
use freshet_ingest::WaitLimit;
use freshet_meta::{Claim, LabelKind};

use super::{LastInsert, Session};
use crate::transaction::{Begin, Control, Inserted, Kept};

impl Session {
    /// Runs a plain BEGIN, COMMIT or ROLLBACK.
    ///
    /// # Errors
    /// Those of [`Self::begin`] and [`Self::commit`].
    pub async fn control(&mut self, control: Control) -> Result<()> {
        self.info.clear();
        match control {
            Control::Begin => self.begin(&Begin::default()).await,
            Control::Commit => self.commit().await,
            Control::Rollback => {
                self.transactions.roll_back();
                Ok(())
            }
        }
    }

    /// BEGIN: commits the open transaction and opens another one. In one with a label it does
    /// nothing, as in Doris: half of what the label stands for would be loaded, and the client
    /// could not load the rest under it.
    ///
    /// # Errors
    /// Those of the commit; an invalid or used label, or another one inside of a transaction with a
    /// label.
    pub async fn begin(&mut self, begin: &Begin) -> Result<()> {
        if self.transactions.is_labelled() {
            self.info.clear();
            return match begin.label {
                Some(_) => self.transactions.check_unlabelled(),
                None => Ok(()),
            };
        }
        self.transactions.forget_refused();
        self.transactions.locks_tables = false;
        self.commit().await?;
        self.info.clear();
        let claim = match &begin.label {
            Some(label) => {
                let claimed = self.claim(label).await;
                if claimed.is_err() {
                    self.transactions.refuse(label);
                }
                Some(claimed?)
            }
            None => None,
        };
        let engine = &self.shared.engine;
        if let Some(text) = &begin.label {
            self.info.set(format!("{{'label':'{text}', 'status':'PREPARE', 'txnId':''}}"));
        }
        self.transactions.begin(engine, &self.settings, claim, begin.read_only)
    }

    /// The label of a transaction, in the current database.
    async fn claim(&self, label: &str) -> Result<Claim> {
        let engine = &self.shared.engine;
        let database = self.database_of(None)?;
        let db = engine.catalog().require_database(database)?.id;
        engine.claim_label(db, label, LabelKind::Statement).await?.or_refuse()
    }

    /// Keeps the result of a load for SHOW LAST INSERT; of several of a transaction, their sums.
    pub fn note_insert(&mut self, mut insert: LastInsert) {
        let loaded = &insert.loaded;
        if loaded.txn.is_none() && loaded.given.is_none() {
            return;
        }
        let transaction = insert.transaction;
        if let Some(before) = self.last_insert.take_if(|last| last.waits_for(transaction)) {
            insert.inserted.rows += before.inserted.rows;
            insert.inserted.filtered += before.inserted.filtered;
        }
        self.last_insert = Some(insert);
    }

    /// COMMIT, also when implied by DDL or BEGIN. Without a transaction it does nothing.
    ///
    /// # Errors
    /// No log room in time, a dropped table, or 1205 after an idle timeout: the transaction is
    /// rolled back.
    pub async fn commit(&mut self) -> Result<()> {
        self.info.clear();
        let number = self.transactions.number();
        let Some(transaction) = self.transactions.take()? else { return Ok(()) };
        let engine = &self.shared.engine;
        let patience = WaitLimit::For(engine.config().load_patience);
        if let Some(loaded) = engine.commit(transaction, patience).await? {
            self.acked = self.acked.max(loaded.lsn);
            self.info.describe(&loaded, self.process.id);
            if let Some(last) = self.last_insert.take_if(|last| last.waits_for(number)) {
                self.last_insert = Some(LastInsert { loaded, ..last });
            }
        }
        Ok(())
    }

    /// SAVEPOINT. Without a transaction it has no effect, as in MySQL.
    ///
    /// # Errors
    /// 1205 after an idle timeout; 1041 without memory or with too many of them.
    pub async fn savepoint(&mut self, name: &str) -> Result<()> {
        self.transactions.check_unlabelled()?;
        self.transactions.check_alive()?;
        let engine = &self.shared.engine;
        let Some(own) = self.transactions.own_rows(engine, &self.settings)?.cloned() else {
            return Ok(());
        };
        let patience = WaitLimit::For(engine.config().load_patience);
        let rows = own.save(engine, patience).await?;
        let number = self.transactions.number();
        let last = self.last_insert.as_ref().filter(|last| last.waits_for(number));
        let inserted = last.map(|last| (last.table, last.inserted));
        self.transactions.set_savepoint(name, Kept { rows, inserted })
    }

    /// ROLLBACK TO SAVEPOINT. SHOW LAST INSERT tells what the transaction has inserted before it.
    ///
    /// # Errors
    /// 1305 for an unknown one; 1205 after an idle timeout.
    pub fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let inserted = self.transactions.roll_back_to(name)?;
        let number = self.transactions.number();
        if let Some(last) = self.last_insert.as_mut().filter(|last| last.waits_for(number)) {
            let (table, inserted) = inserted.unwrap_or((last.table, Inserted::default()));
            (last.table, last.inserted) = (table, inserted);
        }
        Ok(())
    }

    /// Waits until the log is durable up to everything that the session has acknowledged, so that
    /// later reads include it.
    pub async fn wait_durable(&self) {
        self.shared.engine.horizon().wait(self.acked).await;
    }

    /// Called before a statement reads: waits so that it sees what the session has acknowledged.
    ///
    /// # Errors
    /// When no ids can be allocated; 1205 after an idle timeout, until the client ends the
    /// transaction.
    pub async fn before_read(&mut self) -> Result<()> {
        self.transactions.check_alive()?;
        self.wait_durable().await;
        self.transactions.before_read(&self.shared.engine, &self.settings)
    }
}
