//! A statement with different results.

use std::fmt;

use crate::answer::Difference;

/// A statement with different results, simplified as far as possible.
#[derive(Clone, Debug)]
pub struct Found {
    /// The number of the statement.
    pub number: u64,
    /// How the results differ.
    pub difference: Difference,
    /// The shape of the statement: its text with classes in place of literals and columns.
    pub shape: String,
    pub sql: String,
    /// The result of Freshet.
    pub ours: String,
    /// The other result.
    pub theirs: String,
    /// Whether both results are from Freshet.
    pub own: bool,
}

impl Found {
    /// The key for grouping in the report: the words of an error message, or else the shape.
    pub fn cause(&self) -> String {
        match (self.difference, self.ours.strip_prefix("error ")) {
            (Difference::OursFails, Some(error)) => words(error),
            _ => self.shape.clone(),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  #{} {}", self.number, self.sql)?;
        writeln!(f, "    freshet: {}", self.ours)?;
        write!(f, "    other:   {}", self.theirs)
    }
}

/// An error message without the names, types and numbers it quotes.
fn words(error: &str) -> String {
    let unquoted = error.split(['\'', '"', '`']).step_by(2).collect::<Vec<_>>().join("..");
    let letters = unquoted.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    letters.take(12).collect::<Vec<_>>().join(" ")
}
