//! What INSERTs of literals have in common whose digests are the same.

use std::sync::Arc;

/// What stands for the text of an INSERT where its digest is looked for.
#[derive(Debug)]
pub enum InsertShape {
    /// It has to be read.
    Unknown,
    /// The text up to its rows, which has so many bytes.
    Head(usize),
    /// The text without its rows.
    Kept(Arc<[u8]>),
}

impl InsertShape {
    /// The shape of this text; `None` if that is not known.
    pub fn of<'a>(&'a self, sql: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::Unknown => None,
            Self::Head(bytes) => Some(&sql[..*bytes]),
            Self::Kept(shape) => Some(shape),
        }
    }
}
