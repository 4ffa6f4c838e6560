//! The COMMIT of changes of stored rows in a table with a UNIQUE KEY, where loads pass by locks:
//! the rows that the changes follow from are compared with those of now, under the latch of the
//! table; and nothing at all comes between that and the record.

use freshet_base::{Result, bail};
use freshet_storage::resolver::{KeyedRows, Latch};

use crate::append::PartLoad;
use crate::key_rules::resolver;
use crate::keyed_own::RowsByKey;
use crate::overtaken::LookedUp;
use crate::target::LoadTarget;

/// What a transaction has read of a table, which it holds the latch of.
pub(crate) struct Unlocked {
    target: LoadTarget,
    latch: Option<Latch>,
    keys: KeyedRows,
    /// The rows of these keys.
    read: Vec<Box<[u8]>>,
}

impl Unlocked {
    /// Takes the latch.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub async fn latch(target: LoadTarget, read: RowsByKey) -> Result<Self> {
        let keys = KeyedRows::of_keys(read.keys().map(|key| &**key));
        let latch = Some(resolver(&target).latch().await?);
        Ok(Self { target, latch, keys, read: read.into_values().collect() })
    }

    /// Compares the rows with those at the end of the log, behind which `part` is to be appended.
    ///
    /// # Errors
    /// 1213 for rows that others have changed.
    pub async fn compare(&mut self, part: &mut PartLoad) -> Result<()> {
        let latch = match &mut self.latch {
            Some(latch) => latch,
            none => none.insert(resolver(&self.target).latch().await?),
        };
        part.looked_up = Some(LookedUp::last(latch.end()));
        let places = latch.find(&self.keys).await?;
        let there = places.iter().flatten().collect::<Vec<_>>();
        let is_same = there.len() == places.len() && {
            let rows = latch.read(&there, &part.schema).await?;
            rows.iter().zip(&self.read).all(|(row, read)| row.as_deref() == Some(&**read))
        };
        if !is_same {
            bail!(
                Deadlock,
                "others changed rows of table '{}' that the transaction has changed; try \
                 restarting transaction",
                self.target.table().name
            );
        }
        Ok(())
    }

    /// Lets go of the latch if others have written to the table since, who take none; whether they
    /// have.
    pub fn lets_go(&mut self) -> bool {
        let is_overtaken = |latch: &Latch| self.target.state.delta.last() > latch.end();
        let lets_go = self.latch.as_ref().is_some_and(is_overtaken);
        if lets_go {
            self.latch = None;
        }
        lets_go
    }
}
