//! What SHOW answers: names of columns, and rows of texts.

use freshet_query::result::ResultColumn;
use freshet_query::temporal;

/// One row of an answer.
pub type Row = Vec<Option<String>>;

/// An answer: names of columns, and rows.
pub struct Listing {
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Its rows, each with a cell for each column.
    pub rows: Vec<Row>,
}

impl Listing {
    /// An answer with these columns and no row yet; a `#` marks those that hold integers.
    pub fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| match name.strip_prefix('#') {
            Some(name) => ResultColumn::integer(name),
            None => ResultColumn::text(*name),
        };
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Option<String>>) {
        let row = cells.into_iter().collect::<Row>();
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// Adds a row without NULL.
    pub fn add<const N: usize>(&mut self, cells: [&str; N]) {
        self.push(cells.into_iter().map(|cell| Some(cell.to_owned())));
    }
}

/// `Some` of a text, for rows.
pub fn some(text: impl ToString) -> Option<String> {
    Some(text.to_string())
}

/// An instant as text, in UTC.
pub fn instant(micros: i64) -> String {
    let mut text = String::new();
    freshet_query::format::datetime(&mut text, micros - micros.rem_euclid(temporal::SECOND), 0);
    text
}
