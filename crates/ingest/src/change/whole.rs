//! The lock of a whole table, for SELECT .. FOR UPDATE of rows that have no key.

use freshet_base::Result;
use freshet_storage::resolver::KeyedRows;

use super::Change;
use crate::overtaken::last_of;

/// What stands in place of the number of a key: the table itself.
const WHOLE: usize = usize::MAX;

impl Change<'_> {
    /// Locks a table whose rows have no keys until the end of the transaction, waiting for others
    /// that have locked it so. What was written until then is seen, and should be read.
    ///
    /// Who writes there without this lock does not wait: the COMMIT of who removes a row that was
    /// removed meanwhile is refused (1213), as always.
    ///
    /// # Errors
    /// 1205 and 1213.
    pub async fn lock_table(&mut self) -> Result<()> {
        self.check_pass()?;
        let whole = KeyedRows::of_keys(std::iter::once(&[][..]));
        let (clock, deadline) = (self.engine.store.clock(), self.rules.deadline(self.engine));
        let owner = self.owner();
        owner.lock((self.target.id(), WHOLE), &whole, clock, deadline).await?;
        self.seen = self.seen.max(last_of(&self.target.state));
        Ok(())
    }
}
