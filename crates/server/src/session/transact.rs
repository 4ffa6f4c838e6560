//! What BEGIN, COMMIT and ROLLBACK do to a session, and what stands before reads and writes.

use freshet_base::Result;
use freshet_ingest::WaitLimit;
use freshet_meta::LabelKind;

use super::Session;
use crate::transaction::{Begin, Control};

impl Session {
    /// Does what a statement says that only opens or ends a transaction.
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

    /// BEGIN: commits the transaction that is open and opens another one.
    ///
    /// # Errors
    /// Those of the commit; a label that is none or is used.
    pub async fn begin(&mut self, begin: &Begin) -> Result<()> {
        self.commit().await?;
        self.info.clear();
        let engine = &self.shared.engine;
        let claim = match &begin.label {
            Some(label) => {
                let database = self.database_of(None)?;
                let db = engine.catalog().require_database(database)?.id;
                Some(engine.claim_label(db, label, LabelKind::Statement).await?.or_refuse()?)
            }
            None => None,
        };
        if let Some(text) = &begin.label {
            self.info.set(format!("{{'label':'{text}', 'status':'PREPARE', 'txnId':''}}"));
        }
        self.transactions.begin(engine, &self.settings, claim, begin.read_only)
    }

    /// COMMIT, also the one that DDL and BEGIN imply. Without a transaction it does nothing.
    ///
    /// # Errors
    /// No room in the log in time, a table dropped meanwhile, 1205 where it was rolled back
    /// already: the transaction is gone then and nothing of it happened.
    pub async fn commit(&mut self) -> Result<()> {
        self.info.clear();
        let Some(transaction) = self.transactions.take()? else { return Ok(()) };
        let engine = &self.shared.engine;
        let patience = WaitLimit::For(engine.config().load_patience);
        if let Some(loaded) = engine.commit(transaction, patience).await? {
            self.acked = self.acked.max(loaded.lsn);
            self.info.describe(&loaded, self.process.id);
        }
        Ok(())
    }

    /// Waits until the log is durable up to everything that the session's replies tell of: what
    /// is read from then on holds it.
    pub async fn wait_durable(&self) {
        self.shared.engine.horizon().wait(self.acked).await;
    }

    /// To be called before a statement reads: what the session was told is in what it reads.
    ///
    /// # Errors
    /// When no ids can be had; 1205 while a transaction that was rolled back is not ended.
    pub async fn before_read(&mut self) -> Result<()> {
        self.transactions.check_alive()?;
        self.wait_durable().await;
        self.transactions.before_read(&self.shared.engine, &self.settings)
    }
}
