//! What a system table is: its columns, and where its rows come from.

use super::wanted::Wanted;
use super::{Cell, ServerTable, SystemTables};
use crate::result::SYSTEM;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Int,
    Time,
}

/// The rows of a table for the databases and tables that are wanted.
pub type OfPlaces = fn(&SystemTables, &Wanted) -> Vec<Vec<Cell>>;

/// The source of a table's rows.
#[derive(Clone, Copy)]
pub enum Rows {
    /// The table is always empty.
    None,
    /// Constant rows.
    Fixed(fn() -> Vec<Vec<Cell>>),
    /// Derived from the catalog.
    Catalog(fn(&SystemTables) -> Vec<Vec<Cell>>),
    /// The same, of a table whose columns TABLE_SCHEMA and TABLE_NAME name what a row is of: the
    /// rows of the databases and tables that are wanted.
    Places(OfPlaces),
    /// Derived from the catalog, of a table whose rows follow from the names of its columns.
    Named(fn(&SystemTables, &[&str]) -> Vec<Vec<Cell>>),
    /// Provided by the server.
    Server(ServerTable),
}

pub struct SystemTable {
    pub database: &'static str,
    pub name: &'static str,
    pub columns: &'static [(&'static str, Kind)],
    pub rows: Rows,
}

impl SystemTable {
    /// Its name as MySQL shows it: upper case in `information_schema`.
    pub fn shown_name(&self) -> String {
        match self.database {
            SYSTEM => self.name.to_uppercase(),
            _ => self.name.to_owned(),
        }
    }
}

/// A list of columns with their types: plain names are text, `#` integers, `@` times.
macro_rules! column_list {
    ($($(#$int:ident)? $($text:ident)? $(@$time:ident)?),* $(,)?) => {
        &[$($((stringify!($int), Kind::Int))? $((stringify!($text), Kind::Text))?
            $((stringify!($time), Kind::Time))?),*]
    };
}

macro_rules! table {
    ($database:literal, $name:literal, $rows:expr, $($columns:tt)*) => {
        SystemTable {
            database: $database,
            name: $name,
            columns: column_list!($($columns)*),
            rows: $rows,
        }
    };
    ($name:literal, $rows:expr, $($columns:tt)*) => {
        table!("information_schema", $name, $rows, $($columns)*)
    };
}

pub(super) use {column_list, table};
