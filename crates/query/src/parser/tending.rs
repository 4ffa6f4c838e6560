//! CHECK, ANALYZE, OPTIMIZE, REPAIR and CHECKSUM TABLE.

use freshet_base::Result;

use super::Statement;
use super::cursor::Cursor;

/// What may stand behind the tables, without effect but for QUICK of CHECKSUM.
const OPTIONS: [&str; 7] =
    ["FOR UPGRADE", "QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM"];

/// What is done for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tending {
    Analyze,
    Check,
    Checksum {
        /// QUICK: none is computed.
        quick: bool,
    },
    Optimize,
    Repair,
}

/// Skips options.
pub fn options(cursor: &mut Cursor<'_>) {
    while cursor.one_of(&OPTIONS).is_some() {}
}

/// Parses the part after `verb`; what is not about tables has no effect.
pub fn tend(cursor: &mut Cursor<'_>, verb: &str) -> Result<Statement> {
    let _ = cursor.words("LOCAL") || cursor.words("NO_WRITE_TO_BINLOG");
    if cursor.one_of(&["TABLE", "TABLES"]).is_none() {
        cursor.skip();
        return Ok(Statement::Nothing("accepted without effect".to_owned()));
    }
    let tables = cursor.list(Cursor::table)?;
    let quick = cursor.peek_word(0).as_deref() == Some("QUICK");
    // Options say how thoroughly, and of which columns statistics are gathered.
    match verb {
        "ANALYZE" => cursor.skip(),
        _ => options(cursor),
    }
    let tending = match verb {
        "ANALYZE" => Tending::Analyze,
        "CHECK" => Tending::Check,
        "CHECKSUM" => Tending::Checksum { quick },
        "OPTIMIZE" => Tending::Optimize,
        _ => Tending::Repair,
    };
    Ok(Statement::Tend(tending, tables))
}
