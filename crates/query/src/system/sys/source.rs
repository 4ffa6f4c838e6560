//! The system tables of which those of `sys` are made.

use super::super::shape::{Kind, Rows, SystemTable};
use super::super::{Cell, ServerTable, SystemTables, innodb, performance};
use crate::functions::amounts::pico_time_shown;

/// How a view has times.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As `1.50 ms`.
    Shown,
    /// In picoseconds.
    Raw,
}

impl Form {
    pub fn time(self, picos: Cell) -> Cell {
        match (self, picos) {
            (Self::Shown, Cell::Int(picos)) => pico_time_shown(picos as f64).into(),
            (_, other) => other,
        }
    }
}

/// The rows of another system table, whose cells are found by the names of its columns.
pub struct Source {
    columns: &'static [(&'static str, Kind)],
    pub rows: Vec<Vec<Cell>>,
}

impl Source {
    /// Without rows where the user may see none.
    pub fn of(system: &SystemTables, which: ServerTable) -> Self {
        let is_it = |table: &&SystemTable| matches!(table.rows, Rows::Server(of) if of == which);
        let table =
            performance::all().chain(innodb::TABLES).find(is_it).expect("each of them is a table");
        let rows = system.source.rows(which).unwrap_or_default();
        Self { columns: table.columns, rows }
    }

    pub fn cell(&self, row: &[Cell], column: &str) -> Cell {
        let at = self.columns.iter().position(|(name, _)| *name == column);
        row[at.expect("it has such a column")].clone()
    }
}
