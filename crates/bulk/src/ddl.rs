//! Runs the definitions that a dump has beside its rows.

use std::path::PathBuf;
use std::time::Duration;

use crate::connection::{Connection, SqlError};
use crate::exit::{Failure, Result};
use crate::schema::quoted;

const TABLE_EXISTS: u16 = 1050;
/// Histories know a table by the second it was created in: one that is dropped and created again
/// must have another.
const TABLE_AGE_MIN: Duration = Duration::from_millis(1100);

/// Runs the statements of files in a database. A table that is there stays as it is, so that the
/// same command can be run again.
///
/// # Errors
/// When a file cannot be read, or the server refuses a statement.
pub fn run(connection: &mut Connection, database: &str, files: &[PathBuf]) -> Result<()> {
    let create = format!("CREATE DATABASE IF NOT EXISTS {}", quoted(database));
    let mut all = vec![("--database".to_owned(), create)];
    all.push(("--database".to_owned(), format!("USE {}", quoted(database))));
    for path in files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(Failure::of(&shown))?;
        all.extend(statements(&text).into_iter().map(|sql| (shown.clone(), sql.to_owned())));
    }
    if all.iter().any(|(_, sql)| sql.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("DROP")))
    {
        std::thread::sleep(TABLE_AGE_MIN);
    }
    for (place, sql) in all {
        match connection.execute(&sql) {
            Ok(_) | Err(SqlError::Refused { errno: TABLE_EXISTS, .. }) => {}
            Err(error) => return Err(Failure::failed(format!("{place}: {error}"))),
        }
    }
    Ok(())
}

/// The statements of a text, which end with semicolons outside of quotes and comments.
fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (bytes, mut from, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b';' => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            quote @ (b'\'' | b'"' | b'`') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' && quote != b'`' { 2 } else { 1 };
                }
            }
            b'-' if bytes[at..].starts_with(b"-- ") => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.push(text[from..].trim());
    found.retain(|sql| !sql.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_outside_of_quotes() {
        let text = "DROP TABLE a;\nCREATE TABLE `a;` (b INT COMMENT 'it''s; \\'')\n;\n-- c; d\n\
            SELECT \"\u{e9};\"";
        let expected = [
            "DROP TABLE a",
            "CREATE TABLE `a;` (b INT COMMENT 'it''s; \\'')",
            "-- c; d\nSELECT \"\u{e9};\"",
        ];
        assert_eq!(statements(text), expected);
        assert_eq!(statements("SELECT 'open; \\"), ["SELECT 'open; \\"]);
    }
}
