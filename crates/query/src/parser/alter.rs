use freshet_base::Result;
use freshet_meta::{ColumnPlace, SchemaChange};
use sqlparser::tokenizer::Token;

use super::create::column;
use super::cursor::{Cursor, refuse};
use crate::syntax::TableName;

/// The action of an ALTER TABLE.
#[derive(Clone, PartialEq, Debug)]
pub enum AlterAction {
    /// ADD, DROP and RENAME COLUMN, in the order of the text.
    Columns(Vec<SchemaChange>),
    /// SET ("key" = "value").
    Set(Vec<(String, String)>),
    Rename(TableName),
    /// AUTO_INCREMENT: the next generated id.
    Counter(u64),
    /// DISABLE or ENABLE KEYS, which has no effect; tools write it around the rows of a dump.
    Keys,
}

/// Parses the part after ALTER TABLE.
pub fn alter_table(cursor: &mut Cursor<'_>) -> Result<(TableName, AlterAction)> {
    let table = cursor.table()?;
    if cursor.words("SET") {
        return Ok((table, AlterAction::Set(cursor.properties()?)));
    }
    let column_next = cursor.peek_word(1).as_deref() == Some("COLUMN");
    if !column_next && cursor.words("RENAME") {
        let _ = cursor.words("TO") || cursor.words("AS");
        return Ok((table, AlterAction::Rename(cursor.table()?)));
    }
    if cursor.words("AUTO_INCREMENT") {
        cursor.token(&Token::Eq);
        return Ok((table, AlterAction::Counter(cursor.number()?)));
    }
    if cursor.one_of(&["DISABLE KEYS", "ENABLE KEYS"]).is_some() {
        return Ok((table, AlterAction::Keys));
    }
    let mut changes = Vec::new();
    cursor.list(|cursor| change(cursor, &mut changes))?;
    Ok((table, AlterAction::Columns(changes)))
}

/// Parses the part after RENAME: pairs of old and new names.
pub fn rename_tables(cursor: &mut Cursor<'_>) -> Result<Vec<(TableName, TableName)>> {
    if cursor.words("USER") {
        return Err(refuse("RENAME USER"));
    }
    if !cursor.words("TABLES") {
        cursor.expect_words("TABLE")?;
    }
    cursor.list(|cursor| {
        let from = cursor.table()?;
        cursor.expect_words("TO")?;
        Ok((from, cursor.table()?))
    })
}

fn change(cursor: &mut Cursor<'_>, changes: &mut Vec<SchemaChange>) -> Result<()> {
    if cursor.words("ADD") {
        return add(cursor, changes);
    }
    if cursor.words("DROP") {
        let refused = ["PARTITION", "INDEX", "KEY", "PRIMARY", "CONSTRAINT", "ROLLUP", "FOREIGN"];
        if let Some(what) = cursor.one_of(&refused) {
            return Err(refuse(&format!("ALTER TABLE ... DROP {what}")));
        }
        cursor.words("COLUMN");
        changes.push(SchemaChange::DropColumn { name: cursor.name()? });
        return Ok(());
    }
    if cursor.words("RENAME COLUMN") {
        let from = cursor.name()?;
        cursor.words("TO");
        changes.push(SchemaChange::RenameColumn { from, to: cursor.name()? });
        return Ok(());
    }
    let known = [
        "MODIFY",
        "CHANGE",
        "ORDER BY",
        "ALTER",
        "ENGINE",
        "CONVERT",
        "REPLACE",
        "COMMENT",
        "DISABLE",
        "ENABLE",
        "AUTO_INCREMENT",
        "PARTITION",
    ];
    match cursor.one_of(&known) {
        Some(what) => Err(refuse(&format!("ALTER TABLE ... {what}"))),
        None => Err(cursor.error()),
    }
}

fn add(cursor: &mut Cursor<'_>, changes: &mut Vec<SchemaChange>) -> Result<()> {
    let refused = [
        "PARTITION",
        "TEMPORARY",
        "INDEX",
        "KEY",
        "PRIMARY",
        "UNIQUE",
        "CONSTRAINT",
        "ROLLUP",
        "FULLTEXT",
        "FOREIGN",
    ];
    if let Some(what) = cursor.one_of(&refused) {
        return Err(refuse(&format!("ALTER TABLE ... ADD {what}")));
    }
    cursor.words("COLUMN");
    let mut keys = Vec::new();
    let mut declared = Vec::new();
    if cursor.token(&Token::LParen) {
        let columns = cursor.list(|cursor| column(cursor, &mut declared, &mut keys))?;
        cursor.expect(&Token::RParen)?;
        let last = |column| SchemaChange::AddColumn { column, place: ColumnPlace::Last };
        changes.extend(columns.into_iter().map(last));
    } else {
        let column = column(cursor, &mut declared, &mut keys)?;
        let place = if cursor.words("FIRST") {
            ColumnPlace::First
        } else if cursor.words("AFTER") {
            ColumnPlace::After(cursor.name()?)
        } else {
            ColumnPlace::Last
        };
        changes.push(SchemaChange::AddColumn { column, place });
    }
    if !keys.is_empty() || !declared.is_empty() {
        return Err(refuse("ALTER TABLE ... ADD COLUMN ... KEY"));
    }
    Ok(())
}
