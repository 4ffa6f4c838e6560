//! Sequences (keys.md, section 9): tables without rows, of which only the counter is used.

use std::sync::Arc;

use freshet_base::{Lsn, Result, TableId, bail, err};
use freshet_meta::{Created, Definition, MetaEvent};
use freshet_schema::{Sequence, SequenceChange, Table};

use crate::ddl::Ddl;
use crate::record::BarrierBody;

impl Ddl {
    /// Takes the next values of a sequence, or of the ids of a table, which follow each other. They
    /// are given for good once the log is durable up to the LSN that is returned with them; no
    /// reply may tell them before.
    ///
    /// # Errors
    /// 4091 if it was dropped, 4084 when it has not as many, `OutOfRoom` while the log is full.
    pub async fn next_values(&self, id: TableId, count: u32) -> Result<(Vec<u64>, Lsn)> {
        self.term.begun().await?;
        let dropped = || err!(UnknownSequence, "The sequence was dropped");
        let state = self.store.tables.state(id).ok_or_else(dropped)?;
        // An ALTER holds it until its definition counts. A number that was taken behind its back
        // could have a value by the old definition that the new one gives again.
        let _one = state.altering.lock().await;
        let catalog = self.store.meta().catalog();
        let table = catalog.table_by_id(id).ok_or_else(dropped)?;
        let counter = state.counter.as_ref().filter(|_| !table.hides_ids()).ok_or_else(dropped)?;
        let sequence = match table.sequence {
            Some(sequence) => sequence,
            None => Sequence::new(&SequenceChange::default())?,
        };
        let floor = sequence.floor(self.store.clock().wall_micros());
        let record = |table, end| self.settler.count(table, end);
        let drawn = counter.draw(count, floor, sequence.last_number(), &record)?;
        let Some((first, lsn)) = drawn else {
            bail!(SequenceRunOut, "Sequence '{}' has run out", state.name());
        };
        let numbers = first..first + u64::from(count);
        let value = |number| sequence.value(number).expect("it is not above the last one");
        Ok((numbers.map(value).collect(), lsn))
    }

    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn create_sequence(
        &self,
        database: &str,
        name: &str,
        sequence: Sequence,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let (store, database, name) =
            (Arc::clone(&self.store), database.to_owned(), name.to_owned());
        // Ids may have to be reserved.
        let make = move || store.meta().new_sequence(&database, &name, sequence, if_not_exists);
        let created = freshet_base::task::run(self.store.pool(), make).await?;
        if !created.existed {
            self.settler.create(Arc::clone(&created.object), room).await?;
        }
        Ok(created)
    }

    /// # Errors
    /// 4082 for options that do not go together, 4091 if it was dropped, and those of the log.
    pub async fn alter_sequence(&self, id: TableId, change: SequenceChange) -> Result<()> {
        let room = self.room_of_definition().await?;
        let state = self.states_of(&[id])?.remove(0);
        let _one = state.altering.lock().await;
        self.settler.events_settled(&state).await;
        let catalog = self.store.meta().catalog();
        let sequence = catalog.table_by_id(id).and_then(|table| table.sequence);
        let Some((sequence, counter)) = sequence.zip(state.counter.as_ref()) else {
            bail!(UnknownSequence, "The sequence was dropped");
        };
        let change = Definition::Sequence(sequence.altered(&change, counter.next())?);
        let event = MetaEvent::Define { table: id, change };
        self.settler.define_tables(std::slice::from_ref(&state), event, room).await
    }

    /// Drops a sequence. Returns whether it existed; an error if not, unless IF EXISTS was given.
    ///
    /// # Errors
    /// 4091, and those of the log.
    pub async fn drop_sequence(&self, database: &str, name: &str, if_exists: bool) -> Result<bool> {
        self.term.begun().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let table = match catalog.sequence(database, name) {
            None if if_exists => return Ok(false),
            _ => catalog.require_sequence(database, name)?,
        };
        self.barrier(BarrierBody::Drop, &self.states_of(&[table.id])?).await?;
        Ok(true)
    }

    /// Renames a sequence inside its database.
    ///
    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn rename_sequence(&self, database: &str, from: &str, to: &str) -> Result<()> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let id = catalog.require_sequence(database, from)?.id;
        if from == to {
            return Ok(());
        }
        catalog.check_sequence_name(database, to)?;
        let event = MetaEvent::Rename(vec![(id, to.to_owned())]);
        self.settler.define_tables(&self.states_of(&[id])?, event, room).await
    }
}
