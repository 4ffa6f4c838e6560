//! Large loads of tables with a primary key: their rows are in files before they are looked up
//! (keys.md K12).

use std::sync::Arc;

use freshet_base::clock::Deadline;
use freshet_base::{Result, bail};
use freshet_storage::Rowset;
use freshet_storage::resolver::{KeyedRows, Met};

use crate::append::{Appended, PartBody, PartLoad, Signature};
use crate::engine::Engine;
use crate::keyed::{KeyRules, OnExisting, duplicate_entry, resolver};
use crate::locks::LockOwner;
use crate::target::LoadTarget;

/// A large load of a table with a primary key.
pub(crate) struct KeyedFiles<'a> {
    pub engine: &'a Engine,
    pub target: &'a LoadTarget,
    pub rules: KeyRules,
}

impl KeyedFiles<'_> {
    /// Appends the record of a load whose rows are in files.
    ///
    /// # Errors
    /// 1062 for a key that exists or comes twice, where it must not; those of
    /// [`crate::append::Appender::append_parts`]. Nothing was appended then.
    pub async fn append(
        &self,
        parts: Vec<PartLoad>,
        signature: &mut Signature,
        deadline: Deadline,
    ) -> Result<Appended> {
        if self.rules.on_existing == OnExisting::Skip {
            bail!(
                NotSupported,
                "INSERT IGNORE takes rows of {} at once (wal_load_bytes_max); send them in parts",
                self.engine.config().wal_load_bytes_max
            );
        }
        let (engine, table) = (self.engine, self.target.id());
        let rowsets = self.rowsets(&parts);
        let waiting = LockOwner::new(engine.locks());
        loop {
            let room = engine.appender.room_for(&parts, deadline).await?;
            let mut latch = resolver(self.target).latch().await?;
            let refuses = self.rules.on_existing == OnExisting::Refuse;
            let is_held =
                |rows: &KeyedRows| engine.locks().others_hold(table, rows, Some(&waiting));
            let looks = refuses || engine.locked_keys() > 0;
            let met = if looks { latch.meets(&rowsets, refuses, is_held).await? } else { None };
            match met {
                None => {
                    // Whoever takes the latch next, or reads, makes its marks: nothing may fail
                    // behind the append.
                    let (appended, _) = engine.appender.append_parts(parts, signature, room)?;
                    return Ok(appended);
                }
                Some(Met::Existing(key, seen)) => {
                    drop((latch, room));
                    engine.horizon().wait(seen).await;
                    return Err(duplicate_entry(self.target, &key));
                }
                Some(Met::Held(rows)) => {
                    drop((latch, room));
                    let until = self.rules.deadline(engine);
                    waiting.lock(table, &rows, engine.store.clock(), until).await?;
                }
            }
        }
    }

    fn rowsets(&self, parts: &[PartLoad]) -> Vec<Arc<Rowset>> {
        let files = &self.engine.store.files;
        let open = |part: &PartLoad| match &part.body {
            PartBody::Rowsets { metas, .. } => metas
                .iter()
                .map(|meta| {
                    let rowset = files.rowset(self.target.id(), meta.clone(), &part.schema);
                    Arc::new(rowset.with_new_marks())
                })
                .collect::<Vec<_>>(),
            PartBody::Rows { .. } => Vec::new(),
        };
        parts.iter().flat_map(open).collect()
    }
}
