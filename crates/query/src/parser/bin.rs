//! Statements of Doris about the recycle bin.

use freshet_base::Result;

use super::TableName;
use super::cursor::Cursor;

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
    /// RECOVER PARTITION.
    RecoverPartition {
        name: String,
        /// As of a table.
        id: Option<u64>,
        new_name: Option<String>,
        /// FROM.
        table: TableName,
    },
    /// DROP CATALOG RECYCLE BIN: a partition by its id.
    DropPartition { id: u64 },
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
        Some("PARTITION") => {
            let (name, id) = (cursor.name_or_text()?, cursor.number_opt());
            let new_name = cursor.words("AS").then(|| cursor.name_or_text()).transpose()?;
            cursor.expect_words("FROM")?;
            let table = cursor.table()?;
            Ok(BinStatement::RecoverPartition { name, id, new_name, table })
        }
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
        "partitionid" => Ok(BinStatement::DropPartition { id }),
        _ => Err(cursor.error()),
    }
}
