//! Statements of Doris about loads and settings of the server, FLUSH and LOCK.

use freshet_base::Result;
use sqlparser::tokenizer::Token;

use super::Statement;
use super::alter::AlterAction;
use super::cursor::{Cursor, refuse};
use super::partition;
use super::show::{self, ShowWhat, shown};
use crate::syntax::TableName;

/// CANCEL LOAD: which loads are aborted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelLoad {
    /// FROM.
    pub database: Option<String>,
    /// The label, or a pattern of LIKE.
    pub label: String,
    /// LIKE.
    pub is_pattern: bool,
}

/// Parses the part after ADMIN.
pub fn admin(cursor: &mut Cursor<'_>) -> Result<Statement> {
    const SHOWS: [&str; 2] = ["SHOW FRONTEND CONFIG", "SHOW ALL FRONTENDS CONFIG"];
    const SETS: [&str; 2] = ["SET FRONTEND CONFIG", "SET ALL FRONTENDS CONFIG"];
    if cursor.one_of(&SHOWS).is_some() {
        return shown(cursor, ShowWhat::Config).map(|show| Statement::Show(Box::new(show)));
    }
    if cursor.one_of(&SETS).is_some() {
        return cursor.properties().map(Statement::SetConfig);
    }
    if cursor.peek_word(0).as_deref() == Some("SHOW")
        && cursor.peek_word(1).as_deref() == Some("REPLICA")
    {
        cursor.words("SHOW");
        let what = show::replicas(cursor)?.ok_or_else(|| cursor.error())?;
        return shown(cursor, what).map(|show| Statement::Show(Box::new(show)));
    }
    const OTHERS: [&str; 9] =
        ["SHOW", "SET", "CHECK", "REPAIR", "CANCEL", "COMPACT", "CLEAN", "REBALANCE", "DIAGNOSE"];
    let what = cursor.one_of(&OTHERS);
    match what {
        Some(what) => Err(refuse(&format!("ADMIN {what} of that"))),
        None => Err(cursor.error()),
    }
}

/// Parses the part after CANCEL.
pub fn cancel(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if !cursor.words("LOAD") {
        let known = ["ALTER", "DECOMMISSION", "BACKUP", "RESTORE", "EXPORT", "WARM", "BUILD"];
        return match cursor.one_of(&known) {
            Some("ALTER") => cancel_alter(cursor),
            Some(what) => Err(refuse(&format!("CANCEL {what}"))),
            None => Err(cursor.error()),
        };
    }
    let database = match cursor.words("FROM") {
        true => Some(cursor.name()?),
        false => None,
    };
    cursor.expect_words("WHERE")?;
    cursor.expect_words("LABEL")?;
    let is_pattern = cursor.words("LIKE");
    if !is_pattern {
        cursor.expect(&Token::Eq)?;
    }
    let label = cursor.text()?;
    Ok(Statement::CancelLoad(CancelLoad { database, label, is_pattern }))
}

/// CANCEL ALTER TABLE COLUMN FROM a table.
fn cancel_alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("TABLE")?;
    if !cursor.words("COLUMN") {
        return Err(refuse("CANCEL ALTER TABLE of that"));
    }
    cursor.expect_words("FROM")?;
    cursor.table().map(Statement::CancelAlter)
}

/// Parses the part after CLEAN.
pub fn clean(cursor: &mut Cursor<'_>) -> Result<Statement> {
    match cursor.one_of(&["LABEL", "ALL", "PROFILE", "QUERY STATS"]) {
        Some("LABEL") => {
            let label = match cursor.peek_word(0).as_deref() {
                Some("FROM" | "IN") => None,
                _ => Some(cursor.name_or_text()?),
            };
            cursor.one_of(&["FROM", "IN"]).ok_or_else(|| cursor.error())?;
            Ok(Statement::CleanLabels { label, database: cursor.name()? })
        }
        Some(what) => Err(refuse(&format!("CLEAN {what}"))),
        None => Err(cursor.error()),
    }
}

/// Parses the part after LOCK.
pub fn lock(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.one_of(&["TABLES", "TABLE"]).is_none() {
        return nothing(cursor, "LOCK");
    }
    cursor.list(locked).map(Statement::LockTables)
}

/// Parses `table [[AS] alias] READ [LOCAL]`, or WRITE.
fn locked(cursor: &mut Cursor<'_>) -> Result<TableName> {
    const MODES: [&str; 4] = ["READ LOCAL", "READ", "LOW_PRIORITY WRITE", "WRITE"];
    let table = cursor.table()?;
    if cursor.one_of(&MODES).is_none() {
        cursor.words("AS");
        cursor.name()?;
        cursor.one_of(&MODES).ok_or_else(|| cursor.error())?;
    }
    Ok(table)
}

/// The rest of a statement that does nothing here, behind its first word.
///
/// # Errors
/// What is not built or refreshed by itself.
pub fn nothing(cursor: &mut Cursor<'_>, word: &str) -> Result<Statement> {
    if word == "REFRESH" && cursor.one_of(&["CATALOG", "DATABASE", "TABLE"]).is_none() {
        return Err(refuse("REFRESH of that"));
    }
    cursor.skip();
    Ok(Statement::Nothing(word.to_owned()))
}

/// Parses the part after BUILD: INDEX, its name or none for all, ON a table, PARTITION.
pub fn build(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("INDEX")?;
    let index = match cursor.words("ON") {
        true => None,
        false => {
            let name = cursor.name()?;
            cursor.expect_words("ON")?;
            Some(name)
        }
    };
    let table = cursor.table()?;
    let partitions = match cursor.one_of(&["PARTITIONS", "PARTITION"]) {
        Some(_) => partition::names(cursor)?,
        None => Vec::new(),
    };
    Ok(Statement::AlterTable(table, AlterAction::BuildIndex { index, partitions }))
}

/// Parses the part after FLUSH.
pub fn flush(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let _ = cursor.words("LOCAL") || cursor.words("NO_WRITE_TO_BINLOG");
    if cursor.words("TABLES") || cursor.words("TABLE") {
        let mut tables = Vec::new();
        let named = !cursor.at_end() && cursor.peek_word(0).as_deref() != Some("WITH");
        if named {
            tables = cursor.list(Cursor::table)?;
        }
        // WITH READ LOCK has no effect: tables are not locked.
        cursor.skip();
        return Ok(Statement::FlushTables(tables));
    }
    nothing(cursor, "FLUSH")
}
