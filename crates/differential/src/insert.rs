//! INSERTs into a table with a column of every type: what is stored and what is rejected.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::class::{Class, Type};
use crate::expression::{Expr, Scope};
use crate::table::Table;

/// Values at the limits of types, in addition to the literals of all classes.
const EDGES: [&str; 31] = [
    "-129",
    "128",
    "256",
    "65536",
    "4294967296",
    "-1",
    "-0.4",
    "-0.6",
    "0.5",
    "1.5",
    "2.5",
    "9223372036854775808",
    "18446744073709551616",
    "1e20",
    "1e400",
    "1000000.005",
    "'x'",
    "'1x'",
    "' 1 '",
    "'2024-02-30'",
    "'2024-13-01'",
    "'0000-00-00'",
    "'1969-12-31 23:59:59'",
    "'2024-01-15T10:20:30'",
    "'2024-1-5'",
    "'24-01-15'",
    "20240115102030",
    "'2024-01-15 25:00:00'",
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
    "(1/0)",
    "(1/3)",
];

/// An INSERT of one value.
#[derive(Clone, Debug)]
pub struct Insert {
    table: String,
    column: String,
    ty: &'static Type,
    value: Expr,
    selected: bool,
}

impl Insert {
    /// A random INSERT into this table.
    pub fn random(random: &mut StdRng, table: &Table) -> Self {
        let (column, ty) = table.column(random);
        let value = match random.random_range(0..4) {
            0 => {
                let edge = *EDGES.choose(random).expect("there are edges");
                Expr::Literal(Class::Any, edge.to_owned())
            }
            1 => {
                let (class, text) = Class::random(random).literal(random);
                Expr::Literal(class, text)
            }
            2 => Scope::default().expr(random, ty.class, 2),
            _ => {
                let class = Class::random(random);
                Scope::default().expr(random, class, 2)
            }
        };
        let selected = random.random_ratio(1, 5);
        Self { table: table.name.clone(), column, ty, value, selected }
    }

    /// The statement that inserts a row with this id.
    pub fn sql(&self, id: u64) -> String {
        let Self { table, column, .. } = self;
        let value = self.value.sql();
        match self.selected {
            true => format!("INSERT INTO {table} (id, {column}) SELECT {id}, {value}"),
            false => format!("INSERT INTO {table} (id, {column}) VALUES ({id}, {value})"),
        }
    }

    /// The query that reads the stored value.
    pub fn stored(&self, id: u64) -> String {
        format!("SELECT {} FROM {} WHERE id = {id}", self.column, self.table)
    }

    /// The column type, and the value with classes in place of literals.
    pub fn shape(&self) -> String {
        let value = match &self.value {
            Expr::Literal(Class::Any, text) => text.clone(),
            value => value.shape(),
        };
        let select = if self.selected { "SELECT " } else { "" };
        format!("INSERT {select}{value} INTO {}", self.ty.sql)
    }

    /// A measure of complexity.
    pub fn cost(&self) -> usize {
        self.value.cost() + 4 * usize::from(self.selected)
    }

    /// INSERTs one step simpler.
    pub fn simpler(&self) -> Vec<Self> {
        let mut found = vec![Self { selected: false, ..self.clone() }];
        let values = self.value.simpler().into_iter();
        found.extend(values.map(|value| Self { value, ..self.clone() }));
        let cost = self.cost();
        found.retain(|insert| insert.cost() < cost);
        found.sort_by_key(Self::cost);
        found
    }
}
