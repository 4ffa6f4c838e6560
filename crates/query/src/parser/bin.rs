//! Statements of Doris about the recycle bin.

use freshet_base::{Result, err};

use super::TableName;
use super::cursor::{Cursor, refuse};

/// A statement about the recycle bin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BinStatement {
    /// RECOVER TABLE.
    Recover {
        table: TableName,
        /// Its id; otherwise the table of this name that was dropped last.
        id: Option<u64>,
        /// AS.
        new_name: Option<String>,
    },
    /// DROP CATALOG RECYCLE BIN: a table by its id.
    Drop { id: u64 },
}

/// Parses the part after RECOVER.
pub fn recover(cursor: &mut Cursor<'_>) -> Result<BinStatement> {
    match cursor.one_of(&["TABLE", "DATABASE", "PARTITION"]) {
        Some("TABLE") => {}
        Some("DATABASE") => {
            return Err(err!(
                NotSupported,
                "This version of Freshet doesn't yet support 'RECOVER DATABASE': DROP DATABASE \
                 drops its tables for good; drop them one by one to keep them in the recycle bin"
            ));
        }
        Some(what) => return Err(refuse(&format!("RECOVER {what}"))),
        None => return Err(cursor.error()),
    }
    let table = cursor.table()?;
    let id = cursor.number_opt();
    let new_name = cursor.words("AS").then(|| cursor.name()).transpose()?;
    Ok(BinStatement::Recover { table, id, new_name })
}

/// Parses the part after DROP CATALOG RECYCLE BIN.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<BinStatement> {
    cursor.expect_words("WHERE")?;
    let what = cursor.name_or_text()?;
    cursor.expect(&sqlparser::tokenizer::Token::Eq)?;
    let id = cursor.number()?;
    match what.to_ascii_lowercase().as_str() {
        "tableid" => Ok(BinStatement::Drop { id }),
        "dbid" | "partitionid" => Err(refuse(&format!("DROP CATALOG RECYCLE BIN of a {what}"))),
        _ => Err(cursor.error()),
    }
}
