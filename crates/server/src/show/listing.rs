//! The result of a SHOW statement: column names, and rows of text.

use freshet_query::result::ResultColumn;
use freshet_query::temporal;

pub type Row = Vec<Option<String>>;

/// A result with column names and rows.
pub struct Listing {
    pub columns: Vec<ResultColumn>,
    /// Each has a cell for each column.
    pub rows: Vec<Row>,
}

impl Listing {
    /// An empty result; in front of a name a `#` marks an integer column, a `+` one that is not
    /// negative, and an `@` one of times.
    pub fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| match name.split_at_checked(1) {
            Some(("#", name)) => ResultColumn::integer(name),
            Some(("+", name)) => ResultColumn::unsigned(name),
            Some(("@", name)) => ResultColumn::datetime(name),
            _ => ResultColumn::text(*name),
        };
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    pub fn push(&mut self, cells: impl IntoIterator<Item = Option<String>>) {
        let row = cells.into_iter().collect::<Row>();
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// Adds a row without NULLs.
    pub fn add<const N: usize>(&mut self, cells: [&str; N]) {
        self.push(cells.into_iter().map(|cell| Some(cell.to_owned())));
    }
}

pub fn some(text: impl ToString) -> Option<String> {
    Some(text.to_string())
}

/// An instant in microseconds since 1970-01-01 as UTC text.
pub fn instant(micros: i64) -> String {
    let mut text = String::new();
    freshet_query::format::datetime(&mut text, micros - micros.rem_euclid(temporal::SECOND), 0);
    text
}
