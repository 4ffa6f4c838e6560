//! FULLTEXT KEY and SPATIAL KEY, of which dumps have some: they are read, and no index is made.

use freshet_base::{Result, err};
use freshet_schema::Column;

use crate::spec::UnkeptKeySpec;

/// Checks such a key of a table that has these columns; returns a warning that it is not kept.
///
/// # Errors
/// 1072 for a column that is not there.
pub fn unkept(written: &UnkeptKeySpec, columns: &[Column]) -> Result<String> {
    let UnkeptKeySpec { word, name, columns: named } = written;
    let is_there = |name: &&String| columns.iter().any(|one| one.name.eq_ignore_ascii_case(name));
    if let Some(name) = named.iter().find(|name| !is_there(name)) {
        return Err(err!(KeyColumnMissing, "Key column '{name}' doesn't exist in table"));
    }
    let shown = match name {
        Some(name) => format!("'{name}'"),
        None => format!("({})", named.join(", ")),
    };
    let instead = match *word {
        "FULLTEXT" => "LIKE and REGEXP read all rows instead of MATCH .. AGAINST",
        _ => "conditions read all rows",
    };
    Ok(format!("{word} KEY {shown} is not kept, and no index is made: {instead}"))
}
