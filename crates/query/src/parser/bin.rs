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
    /// RECOVER DATABASE.
    RecoverDatabase {
        name: String,
        /// As of a table.
        id: Option<u64>,
        new_name: Option<String>,
    },
    /// DROP CATALOG RECYCLE BIN: a table by its id.
    Drop { id: u64 },
    /// DROP CATALOG RECYCLE BIN: a database by its id.
    DropDatabase { id: u64 },
}

/// Parses the part after RECOVER.
pub fn recover(cursor: &mut Cursor<'_>) -> Result<BinStatement> {
    match cursor.one_of(&["TABLE", "DATABASE", "SCHEMA", "PARTITION"]) {
        Some("TABLE") => {
            let (table, id) = (cursor.table()?, cursor.number_opt());
            Ok(BinStatement::Recover { table, id, new_name: new_name(cursor)? })
        }
        Some("PARTITION") => Err(err!(
            NotSupported,
            "This version of Freshet doesn't yet support 'RECOVER PARTITION': DROP PARTITION is \
             final"
        )),
        Some(_) => {
            let (name, id) = (cursor.name()?, cursor.number_opt());
            Ok(BinStatement::RecoverDatabase { name, id, new_name: new_name(cursor)? })
        }
        None => Err(cursor.error()),
    }
}

/// Parses AS and a name, if that comes next.
fn new_name(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    cursor.words("AS").then(|| cursor.name()).transpose()
}

/// Parses the part after DROP CATALOG RECYCLE BIN.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<BinStatement> {
    cursor.expect_words("WHERE")?;
    let what = cursor.name_or_text()?;
    cursor.expect(&sqlparser::tokenizer::Token::Eq)?;
    let id = cursor.number()?;
    match what.to_ascii_lowercase().as_str() {
        "tableid" => Ok(BinStatement::Drop { id }),
        "dbid" => Ok(BinStatement::DropDatabase { id }),
        "partitionid" => Err(refuse(&format!("DROP CATALOG RECYCLE BIN of a {what}"))),
        _ => Err(cursor.error()),
    }
}
