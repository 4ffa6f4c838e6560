//! A statement whose answers differ.

use std::fmt;

use crate::answer::Difference;

/// A statement that differs, as small as it was made.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its number.
    pub number: u64,
    /// In what.
    pub difference: Difference,
    /// What it is made of.
    pub shape: String,
    /// The statement.
    pub sql: String,
    /// Our answer.
    pub ours: String,
    /// The other.
    pub theirs: String,
    /// Whether both answers are our own.
    pub own: bool,
}

impl Found {
    /// What it is sorted by: the words of an error, or what the statement is made of.
    pub fn cause(&self) -> String {
        match (self.difference, self.ours.strip_prefix("error ")) {
            (Difference::Refused, Some(error)) => words(error),
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

/// An error without the names, types and numbers that it quotes.
fn words(error: &str) -> String {
    let unquoted = error.split(['\'', '"', '`']).step_by(2).collect::<Vec<_>>().join("..");
    let letters = unquoted.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    letters.take(12).collect::<Vec<_>>().join(" ")
}
