//! What an ALTER TABLE adds before it has looked at the rows that are there.

use std::sync::Arc;

use freshet_base::{Result, TableId};
use freshet_meta::SchemaChange;

use super::super::shield;
use crate::session::Session;
use crate::shared::Shared;

/// A constraint that rows may violate, or a column that they lack. It is taken back also where the
/// client hangs up, and the statement ends anywhere.
pub struct Unverified {
    shared: Arc<Shared>,
    id: TableId,
    undo: Option<SchemaChange>,
}

impl Unverified {
    pub fn new(session: &Session, id: TableId, undo: SchemaChange) -> Self {
        Self { shared: Arc::clone(&session.shared), id, undo: Some(undo) }
    }

    pub fn keep(mut self) {
        self.undo = None;
    }

    /// # Errors
    /// Those of ALTER TABLE.
    pub async fn take_back(mut self, session: &Session) -> Result<()> {
        let Some(undone) = self.undone() else { return Ok(()) };
        shield(session, undone).await
    }

    fn undone(&mut self) -> Option<impl Future<Output = Result<()>> + Send + 'static> {
        let (engine, id, undo) = (Arc::clone(&self.shared.engine), self.id, self.undo.take()?);
        Some(async move { engine.ddl().alter_columns(id, vec![undo]).await })
    }
}

impl Drop for Unverified {
    fn drop(&mut self) {
        let Some(undone) = self.undone() else { return };
        self.shared.statements.spawn(async move {
            if let Err(error) = undone.await {
                tracing::warn!(%error, "what an ALTER TABLE has added stays; DROP it");
            }
        });
    }
}
