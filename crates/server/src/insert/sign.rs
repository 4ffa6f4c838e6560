//! `__DORIS_DELETE_SIGN__` among the columns of an INSERT into a table with a UNIQUE KEY: rows in
//! which it is not 0 delete their key. Where the table has a sequence column it is a column of its
//! own, since such rows are kept.

use freshet_schema::{DELETE_SIGN, KeyModel, Table};

/// Whether an INSERT of these columns has rows that may delete.
pub fn names_sign<N: AsRef<str>>(columns: Option<&[N]>) -> bool {
    columns.is_some_and(|columns| columns.iter().any(is_sign))
}

/// The position of the sign among the columns that an INSERT names, if it is none of the table's.
pub fn sign_among<N: AsRef<str>>(table: &Table, columns: Option<&[N]>) -> Option<usize> {
    let takes_it = table.key_model == KeyModel::Unique && table.schema().delete_sign().is_none();
    columns.filter(|_| takes_it)?.iter().position(is_sign)
}

fn is_sign<N: AsRef<str>>(name: &N) -> bool {
    name.as_ref().eq_ignore_ascii_case(DELETE_SIGN)
}

/// The other columns.
pub(super) fn without<N: AsRef<str>>(columns: &[N], sign: Option<usize>) -> Vec<&str> {
    let others = columns.iter().enumerate().filter(|(at, _)| Some(*at) != sign);
    others.map(|(_, name)| name.as_ref()).collect()
}
