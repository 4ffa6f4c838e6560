//! Random tables with rows.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::class::{Class, TYPES, Type};
use crate::expression::Column;

/// Number of tables per round.
pub const TABLES: usize = 3;
const COLUMNS: std::ops::Range<usize> = 3..9;
const ROWS: std::ops::Range<usize> = 0..14;

/// A table `t0`, `t1`, ... with an `id` counting from 1 and columns `c0`, `c1`, ...
#[derive(Debug)]
pub struct Table {
    pub name: String,
    columns: Vec<&'static Type>,
    /// Rows of literals without the id.
    rows: Vec<Vec<&'static str>>,
}

impl Table {
    /// A random table with rows.
    pub fn random(random: &mut StdRng, name: String) -> Self {
        let columns: Vec<_> = (0..random.random_range(COLUMNS))
            .map(|_| TYPES.choose(random).expect("there are types"))
            .collect();
        let cell = |random: &mut StdRng, column: &&'static Type| match random.random_ratio(1, 6) {
            true => "NULL",
            false => column.values.choose(random).expect("every type has values"),
        };
        let rows = (0..random.random_range(ROWS))
            .map(|_| columns.iter().map(|column| cell(random, column)).collect())
            .collect();
        Self { name, columns, rows }
    }

    /// The table for INSERTs, with a column of every type.
    pub fn of_inserts(name: String) -> Self {
        Self { name, columns: TYPES.iter().collect(), rows: Vec::new() }
    }

    /// The CREATE TABLE statement.
    pub fn create(&self) -> String {
        let columns = self.columns.iter().enumerate();
        let columns: String = columns.map(|(at, ty)| format!(", c{at} {}", ty.sql)).collect();
        format!("CREATE TABLE {} (id INT NOT NULL{columns})", self.name)
    }

    /// Two INSERT statements that fill it, so that a flush between them leaves rows both in files
    /// and in memory.
    pub fn fill(&self) -> Vec<String> {
        let row = |(at, row): (usize, &Vec<&str>)| format!("({}, {})", at + 1, row.join(", "));
        let rows: Vec<_> = self.rows.iter().enumerate().map(row).collect();
        let halves = rows.chunks(rows.len().div_ceil(2).max(1));
        halves.map(|rows| format!("INSERT INTO {} VALUES {}", self.name, rows.join(", "))).collect()
    }

    /// Its columns for expressions, if the table has this alias.
    pub fn columns(&self, alias: &str) -> Vec<Column> {
        let ids = (1..=self.rows.len()).map(|id| id.to_string()).collect();
        let id = Column { class: Class::Int, name: format!("{alias}.id"), constants: ids };
        let others = self.columns.iter().enumerate().map(|(at, ty)| {
            let mut constants: Vec<_> =
                self.rows.iter().map(|row| ty.constant_of(row[at])).collect();
            constants.sort();
            constants.dedup();
            Column { class: ty.class, name: format!("{alias}.c{at}"), constants: constants.into() }
        });
        std::iter::once(id).chain(others).collect()
    }

    /// The name and type of a random column.
    pub fn column(&self, random: &mut StdRng) -> (String, &'static Type) {
        let at = random.random_range(0..self.columns.len());
        (format!("c{at}"), self.columns[at])
    }
}

impl Type {
    /// An expression with this value of the type that needs no table.
    fn constant_of(&self, value: &str) -> String {
        if value == "NULL" { value.to_owned() } else { self.constant.replace('@', value) }
    }
}
