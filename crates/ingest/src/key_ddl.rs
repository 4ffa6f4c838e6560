//! ALTER TABLE and CREATE INDEX for keys: one record, behind which a table has other keys.
//!
//! A unique key that a table gets is looked for in the rows that are there, while others write
//! (keys.md K32, RFC 0026): new files have its index from the beginning of the statement on, the
//! others are written anew and compared. Then the latch is taken, what has come meanwhile is looked
//! up, and the record is appended. Until that has settled nobody else looks or writes, so whoever
//! takes the latch next finds the keys in the catalog by which he has to look.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::task::{self, Lane};
use freshet_base::{ErrorCode, Result, TableId, bail};
use freshet_meta::{Definition, ForeignChange, KeyChange, MetaEvent};
use freshet_schema::{DeclaredKey, Table};
use freshet_storage::Rowset;
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::resolver::{AddedValues, IndexedFiles, Latch, NewUnique};
use freshet_wal::Room;

use crate::engine::Engine;
use crate::state::TableState;
use crate::target::LoadTarget;
use crate::uniques::duplicate_entry;

/// After so many rounds files are compared with the latch in hand, so that there is an end.
const ROUNDS_MAX: usize = 8;
/// How long it waits for files of loads and merges that began before it.
const UNINDEXED_PAUSE: Duration = Duration::from_millis(20);

/// Adds, drops, renames or enforces keys. Returns warnings.
///
/// # Errors
/// 1062 for rows that share a value of a unique key; those of metadata, of files and of the log.
/// Nothing has changed then.
pub async fn alter_keys(
    engine: &Engine,
    id: TableId,
    changes: &[KeyChange],
) -> Result<Vec<String>> {
    engine.begun().await?;
    let ddl = engine.ddl();
    let state = ddl.states_of(&[id])?.remove(0);
    let _one = ddl.lock_definition(&state).await?;
    let catalog = engine.meta().catalog();
    let before = catalog.require(id)?;
    let ((declared_keys, foreign_keys), warnings) = catalog.keys_with(id, changes)?;
    if (&declared_keys, &foreign_keys) == (&before.declared_keys, &before.foreign_keys) {
        return Ok(warnings);
    }
    let foreign = ForeignChange::between(&before.foreign_keys, &foreign_keys);
    let change = Definition::Keys(declared_keys.clone(), foreign);
    let after = Table { declared_keys, ..Table::clone(before) };
    if after.indexed() == before.indexed() {
        let room = ddl.room_of_definition().await?;
        define(engine, &state, change, room).await?;
        return Ok(warnings);
    }
    let adding = Adding::begin(engine, &state, before, (after, change));
    adding.enforce().await?;
    Ok(warnings)
}

async fn define(
    engine: &Engine,
    state: &Arc<TableState>,
    change: Definition,
    room: Room,
) -> Result<()> {
    let event = MetaEvent::Define { table: state.id, change };
    engine.settler.define_tables(std::slice::from_ref(state), event, room).await
}

/// A statement after which other unique keys are enforced.
struct Adding<'a> {
    engine: &'a Engine,
    state: &'a Arc<TableState>,
    after: Table,
    /// What its record says.
    change: Definition,
    /// Those that were not enforced before.
    added: Vec<(DeclaredKey, NewUnique)>,
}

/// Of each added key, the files that have no two rows of one value.
type Compared = Vec<Option<IndexedFiles>>;

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        self.state.set_added_indexes(Vec::new());
    }
}

impl<'a> Adding<'a> {
    fn begin(
        engine: &'a Engine,
        state: &'a Arc<TableState>,
        before: &Table,
        (after, change): (Table, Definition),
    ) -> Self {
        let schema = after.schema();
        let new = |key: &DeclaredKey| {
            let unique = NewUnique { columns: key.columns.clone(), schema: Arc::clone(schema) };
            (key.clone(), unique)
        };
        let added = after.unique_keys_beyond(before).into_iter().map(new).collect::<Vec<_>>();
        let columns = added.iter().map(|(key, _)| key.columns.clone());
        state.set_added_indexes(columns.collect());
        Self { engine, state, after, change, added }
    }

    async fn enforce(&self) -> Result<()> {
        let mut compared: Compared = vec![None; self.added.len()];
        let mut rounds = 0;
        loop {
            self.index_files().await?;
            // Nobody waits for log room with the latch in hand (K5).
            let room = self.engine.ddl().room_of_definition().await?;
            let resolver = self.state.resolver.as_ref().expect("a table has a resolver");
            let mut latch = resolver.latch().await?;
            let Some(files) = self.files(&mut latch).await? else {
                drop((latch, room));
                self.check_running()?;
                self.engine.clock().sleep(UNINDEXED_PAUSE).await;
                continue;
            };
            let are_compared = files.iter().zip(&compared).all(|(files, compared)| {
                compared.as_ref().is_some_and(|compared| compared.are(files))
            });
            if !are_compared && rounds < ROUNDS_MAX {
                drop((latch, room));
                self.compare(&files).await?;
                compared = files.into_iter().map(Some).collect();
                rounds += 1;
                continue;
            }
            if !are_compared {
                self.compare(&files).await?;
            }
            let added = self.values_in_memory(&mut latch).await;
            if added.is_err() {
                // What it tells of cannot be lost any more (K4).
                let end = latch.end();
                drop((latch, room));
                self.engine.horizon().wait(end).await;
                return added.map(drop);
            }
            return self.define(latch, added?, room).await;
        }
    }

    /// Writes the rows in memory to files, and files anew that lack an index.
    async fn index_files(&self) -> Result<()> {
        if self.added.is_empty() {
            return Ok(());
        }
        // Behind a flush that began before it, whose files lack the indexes.
        self.engine.flush_for(self.state.id, FlushReason::Alter).await?;
        let view = self.engine.store.tables.view(self.state.id);
        if let Some(view) = view {
            let has = |(key, _): &(DeclaredKey, _)| {
                view.schema.has_same(self.after.schema(), &key.columns)
            };
            assert!(self.added.iter().all(has), "a flush has the newest columns");
        }
        loop {
            let added = self.added.iter().map(|(_, unique)| unique.clone()).collect::<Vec<_>>();
            let lacks = move |rowset: &Rowset| {
                for (unique, segment) in
                    added.iter().flat_map(|one| rowset.segments().iter().map(move |s| (one, s)))
                {
                    if !unique.is_in(segment)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            };
            let compactor = &self.engine.upkeep.compactor;
            if !compactor.index_next(self.state, lacks).await? {
                return Ok(());
            }
            self.check_running()?;
        }
    }

    fn check_running(&self) -> Result<()> {
        if self.engine.store.keeper.is_stopping() {
            bail!(Unknown, "the server stops: no key was changed");
        }
        if self.state.is_dropped() {
            bail!(NoSuchTable, "Table '{}' doesn't exist", self.state.name());
        }
        Ok(())
    }

    /// The files of the table, for each added key; `None` if one of them lacks an index.
    async fn files(&self, latch: &mut Latch) -> Result<Option<Vec<IndexedFiles>>> {
        let mut files = Vec::with_capacity(self.added.len());
        for (_, unique) in &self.added {
            let Some(indexed) = latch.indexed_files(unique).await? else { return Ok(None) };
            files.push(indexed);
        }
        Ok(Some(files))
    }

    /// Checks that no two rows in files share a value.
    async fn compare(&self, files: &[IndexedFiles]) -> Result<()> {
        for ((key, unique), files) in self.added.iter().zip(files) {
            let (own, store) = (files.clone(), Arc::clone(&self.engine.store));
            let compared = unique.clone();
            let compare = move || {
                let mut pace = || match store.keeper.is_stopping() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
                own.first_duplicate(&compared, &mut pace)
            };
            let pool = self.engine.store.pool();
            let duplicate = task::run_in(pool, Lane::OwnThread, compare).await?;
            self.check_running()?;
            if let Some(value) = duplicate {
                let row = files.row_with(unique, &value).await?;
                return self.duplicate(key, &value, row.as_deref());
            }
        }
        Ok(())
    }

    /// The values of rows in memory, none of which another row has.
    async fn values_in_memory(&self, latch: &mut Latch) -> Result<Vec<AddedValues>> {
        let mut values = Vec::with_capacity(self.added.len());
        for (key, unique) in &self.added {
            match latch.check_memory(unique).await? {
                Ok(added) => values.push(added),
                Err(taken) => self.duplicate(key, &taken.value, taken.row.as_deref())?,
            }
        }
        Ok(values)
    }

    fn duplicate(&self, key: &DeclaredKey, value: &[u8], row: Option<&[u8]>) -> Result<()> {
        let table = Arc::new(self.after.clone());
        let number = table.unique_keys().position(|one| one.name == key.name);
        let number = number.expect("an added key is one of the table") + 1;
        let target = LoadTarget::new(Arc::clone(self.state), Arc::clone(&table));
        Err(duplicate_entry(&target, number, value, row))
    }

    /// Appends the record, and goes on with its keys once it has settled.
    async fn define(&self, mut latch: Latch, added: Vec<AddedValues>, room: Room) -> Result<()> {
        let defined = define(self.engine, self.state, self.change.clone(), room).await;
        // Also where that failed, its record may be in the log.
        self.engine.settler.events_settled(self.state).await;
        match self.engine.meta().catalog().require(self.state.id) {
            Ok(now) => latch.set_unique_keys(now, added),
            Err(error) if error.code() == ErrorCode::NoSuchTable => {}
            Err(error) => return Err(error),
        }
        defined
    }
}
