//! Savepoints: what a transaction had written at one moment, to which it can go back. Keys that it
//! has locked since then stay locked, and ids that it was given stay used, as in MySQL.

use freshet_base::{Result, TableId};

use super::OwnRows;
use crate::admit::{HeldMemory, WaitLimit};
use crate::engine::Engine;
use crate::keyed_own::KeyedTable;
use crate::own_part::TableRows;
use crate::unkeyed_own::UnkeyedTable;

/// What a transaction had written.
pub struct Savepoint {
    /// The number of rows of each table without a primary key: later ones are behind them.
    rows: Vec<(TableId, u32)>,
    /// Copies of the changes of tables with keys, and of what was read there.
    keyed: Vec<KeyedTable>,
    /// And of those without a unique key.
    unkeyed: Vec<UnkeyedTable>,
    /// The memory of the copies.
    _held: HeldMemory,
}

impl OwnRows {
    /// Remembers what was written so far.
    ///
    /// # Errors
    /// `OutOfRoom`.
    pub async fn save(&self, engine: &Engine, patience: WaitLimit) -> Result<Savepoint> {
        let bytes = self.0.keyed.lock().iter().map(KeyedTable::bytes).sum::<usize>()
            + self.0.unkeyed.lock().iter().map(UnkeyedTable::bytes).sum::<usize>();
        let held = engine.admission.hold(bytes as u64, patience.soon(&engine.admission)).await?;
        let count = |part: &TableRows| {
            (part.table.id, u32::try_from(part.rows()).expect("rows are counted in 32 bits"))
        };
        let rows = self.0.parts.lock().iter().map(count).collect();
        let keyed = self.0.keyed.lock().iter().map(KeyedTable::copy).collect();
        let unkeyed = self.0.unkeyed.lock().iter().map(UnkeyedTable::copy).collect();
        Ok(Savepoint { rows, keyed, unkeyed, _held: held })
    }

    /// Takes back what was written since.
    pub fn restore(&self, savepoint: &Savepoint) {
        self.0.parts.lock().retain_mut(|part| {
            let saved = savepoint.rows.iter().find(|(table, _)| *table == part.table.id);
            saved.inspect(|(_, rows)| part.cut(*rows)).is_some()
        });
        let mut keyed = self.0.keyed.lock();
        for mut table in std::mem::take(&mut *keyed) {
            match savepoint.keyed.iter().find(|saved| saved.id() == table.id()) {
                Some(saved) => {
                    table.go_back(saved);
                    keyed.push(table);
                }
                None => {
                    let read = table.only_read().map(|read| (read.id(), read));
                    self.0.read.lock().extend(read);
                }
            }
        }
        drop(keyed);
        self.0.unkeyed.lock().retain_mut(|table| {
            let saved = savepoint.unkeyed.iter().find(|saved| saved.id() == table.id());
            saved.inspect(|saved| table.go_back(saved)).is_some()
        });
    }
}
