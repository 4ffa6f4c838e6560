//! Savepoints: what a transaction had written at one moment, to which it can go back. Keys that it
//! has locked since then stay locked, and ids that it was given stay used, as in MySQL.

use freshet_base::TableId;

use crate::admit::HeldMemory;
use crate::keyed_own::KeyedTable;
use crate::unkeyed_own::UnkeyedTable;

/// What a transaction had written.
pub struct Savepoint {
    /// The number of rows of each table without a primary key: later ones are behind them.
    pub(crate) rows: Vec<(TableId, u32)>,
    /// Copies of the changes of tables with a primary key.
    pub(crate) keyed: Vec<KeyedTable>,
    /// And of those without a unique key.
    pub(crate) unkeyed: Vec<UnkeyedTable>,
    /// The memory of the copies.
    pub(crate) _held: HeldMemory,
}
