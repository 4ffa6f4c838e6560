//! Large loads of tables with a primary key: their rows are in files before they are looked up
//! (keys.md K12).

use std::sync::Arc;

use freshet_base::clock::Deadline;
use freshet_base::{Error, Result, bail, err};
use freshet_storage::Rowset;
use freshet_storage::resolver::{KeyedRows, Latch, Met};

use crate::append::{Appended, PartBody, PartLoad, Signature};
use crate::engine::Engine;
use crate::key_rules::{KeyRules, OnExisting, resolver};
use crate::locks::{LockOwner, PRIMARY};
use crate::target::LoadTarget;
use crate::uniques::{duplicate_entry, key_of};

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
        let waiting = LockOwner::new(engine.locks(), self.rules.connection);
        loop {
            let room = engine.appender.room_for(&parts, deadline).await?;
            let mut latch = resolver(self.target).latch().await?;
            match self.meets(&mut latch, &rowsets, &waiting).await? {
                None => {
                    // Whoever takes the latch next, or reads, makes its marks: nothing may fail
                    // behind the append.
                    let (appended, _) = engine.appender.append_parts(parts, signature, room)?;
                    return Ok(appended);
                }
                Some((number, Met::Existing(value, seen))) => {
                    drop((latch, room));
                    engine.horizon().wait(seen).await;
                    let row = self.row_with(&rowsets, number, &value).await?;
                    return Err(self.duplicate(number, &value, row.as_deref()));
                }
                Some((_, Met::Unindexed)) => bail!(
                    SnapshotTooOld,
                    "unique keys or columns of table '{}' changed while the load ran; nothing was \
                     loaded, send it again",
                    self.target.table().name
                ),
                Some((number, Met::Held(rows))) => {
                    drop((latch, room));
                    let until = self.rules.deadline(engine);
                    waiting.lock((table, number), &rows, engine.store.clock(), until).await?;
                }
            }
        }
    }

    /// What the rows of the files meet first, on the key with which number.
    async fn meets(
        &self,
        latch: &mut Latch,
        rowsets: &[Arc<Rowset>],
        waiting: &LockOwner,
    ) -> Result<Option<(usize, Met)>> {
        let (locks, table) = (self.engine.locks(), self.target.id());
        let is_held =
            |number, rows: &KeyedRows| locks.others_hold((table, number), rows, Some(waiting));
        let refuses = self.rules.on_existing == OnExisting::Refuse;
        if refuses || self.engine.locked_keys() > 0 {
            let of_keys = |rows: &KeyedRows| is_held(PRIMARY, rows);
            if let Some(met) = latch.meets(rowsets, refuses, of_keys).await? {
                return Ok(Some((PRIMARY, met)));
            }
        }
        let of_values = |index: usize, rows: &KeyedRows| is_held(index + 1, rows);
        let met = latch.meets_values(rowsets, self.target.schema(), of_values).await?;
        Ok(met.map(|(index, met)| (index + 1, met)))
    }

    /// A row of the files that has this value in a key, encoded, where its text does not follow
    /// from the value.
    async fn row_with(
        &self,
        rowsets: &[Arc<Rowset>],
        number: usize,
        value: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let target = self.target.with_unique_keys_of_now(&self.engine.store.tables)?;
        let (table, schema) = (target.table(), target.schema());
        if !key_of(&target, number).0.has_weights() {
            return Ok(None);
        }
        let unique = number.checked_sub(1).and_then(|at| table.unique_keys().nth(at));
        let columns = unique.map(|key| key.columns.as_slice());
        let segments = rowsets.iter().flat_map(|rowset| rowset.segments());
        for segment in segments.filter(|segment| !segment.meta().removes) {
            let row = segment.row_with(columns, value, schema).await?;
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }

    /// Why a row cannot be loaded whose value in a unique key another row has.
    fn duplicate(&self, number: usize, value: &[u8], row: Option<&[u8]>) -> Error {
        let now = self.target.with_unique_keys_of_now(&self.engine.store.tables);
        let error = match now {
            Ok(target) => duplicate_entry(&target, number, value, row),
            Err(error) => return error,
        };
        match self.rules.on_existing {
            OnExisting::Replace if number != PRIMARY => err!(
                NotSupported,
                "{}: REPLACE removes rows by other keys than the primary key only if it has at \
                 most {} (wal_load_bytes_max); send it in parts",
                error.message(),
                self.engine.config().wal_load_bytes_max
            ),
            _ => error,
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
