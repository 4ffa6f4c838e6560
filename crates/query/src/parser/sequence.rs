//! Statements about the sequences of PolarDB-X.

use freshet_base::Result;
use freshet_schema::{SequenceChange, SequenceKind};

use super::cursor::Cursor;
use crate::syntax::TableName;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SequenceStatement {
    Create {
        name: TableName,
        options: SequenceChange,
        if_not_exists: bool,
    },
    Alter {
        name: TableName,
        change: SequenceChange,
    },
    Drop {
        names: Vec<TableName>,
        if_exists: bool,
    },
    Rename {
        from: TableName,
        to: TableName,
    },
    /// All of a kind in a database become others.
    Convert {
        from: SequenceKind,
        to: SequenceKind,
        database: Option<String>,
    },
}

/// Parses the part after CREATE, if it is about a sequence.
pub fn create(cursor: &mut Cursor<'_>) -> Result<Option<SequenceStatement>> {
    let kind = match cursor.peek_word(1).as_deref() {
        Some("SEQUENCE") => kind(cursor),
        _ => None,
    };
    if !cursor.words("SEQUENCE") {
        return match kind {
            Some(_) => Err(cursor.error()),
            None => Ok(None),
        };
    }
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = cursor.table()?;
    let mut given = options(cursor)?;
    given.kind = kind;
    Ok(Some(SequenceStatement::Create { name, options: given, if_not_exists }))
}

/// Parses the part after ALTER SEQUENCE.
pub fn alter(cursor: &mut Cursor<'_>) -> Result<SequenceStatement> {
    let name = cursor.table()?;
    let changed = match cursor.words("CHANGE TO") {
        true => Some(kind(cursor).ok_or_else(|| cursor.error())?),
        false => None,
    };
    let mut change = options(cursor)?;
    change.kind = changed;
    if change == SequenceChange::default() {
        return Err(cursor.error());
    }
    Ok(SequenceStatement::Alter { name, change })
}

/// Parses the part after DROP SEQUENCE.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<SequenceStatement> {
    let if_exists = cursor.words("IF EXISTS");
    Ok(SequenceStatement::Drop { names: cursor.list(Cursor::table)?, if_exists })
}

/// Parses the part after RENAME SEQUENCE.
pub fn rename(cursor: &mut Cursor<'_>) -> Result<SequenceStatement> {
    let from = cursor.table()?;
    cursor.expect_words("TO")?;
    Ok(SequenceStatement::Rename { from, to: cursor.table()? })
}

/// Parses the part after CONVERT.
pub fn convert(cursor: &mut Cursor<'_>) -> Result<SequenceStatement> {
    cursor.expect_words("ALL SEQUENCES FROM")?;
    let from = kind(cursor).ok_or_else(|| cursor.error())?;
    cursor.expect_words("TO")?;
    let to = kind(cursor).ok_or_else(|| cursor.error())?;
    let database = match cursor.words("FOR") {
        true => Some(cursor.name()?),
        false => None,
    };
    Ok(SequenceStatement::Convert { from, to, database })
}

/// Parses the kind of a sequence, if one comes next.
pub fn kind(cursor: &mut Cursor<'_>) -> Option<SequenceKind> {
    Some(match cursor.one_of(&["NEW", "GROUP", "SIMPLE", "TIME"])? {
        "NEW" => SequenceKind::New,
        "GROUP" => SequenceKind::Group,
        "SIMPLE" => SequenceKind::Simple,
        _ => SequenceKind::Time,
    })
}

/// Parses options in any order, each at most once.
fn options(cursor: &mut Cursor<'_>) -> Result<SequenceChange> {
    let mut given = SequenceChange::default();
    loop {
        let known = if cursor.words("START") {
            cursor.words("WITH");
            given.start.replace(cursor.number()?).is_some()
        } else if cursor.words("INCREMENT") {
            cursor.words("BY");
            given.increment.replace(cursor.number()?).is_some()
        } else if cursor.words("MAXVALUE") {
            given.max.replace(cursor.number()?).is_some()
        } else if cursor.words("CYCLE") {
            given.cycle.replace(true).is_some()
        } else if cursor.words("NOCYCLE") {
            given.cycle.replace(false).is_some()
        } else if units(cursor)? || cache(cursor)? {
            false
        } else {
            return Ok(given);
        };
        if known {
            return Err(cursor.error());
        }
    }
}

/// Parses `CACHE n` or `NOCACHE`, which have no effect: values are reserved in blocks that grow as
/// they are used up. Whether one came next.
fn cache(cursor: &mut Cursor<'_>) -> Result<bool> {
    if !cursor.words("CACHE") {
        return Ok(cursor.words("NOCACHE"));
    }
    cursor.number()?;
    Ok(true)
}

/// Parses `UNIT COUNT n INDEX i`, which divides a sequence between instances of PolarDB-X; here it
/// has no effect. Whether it came next.
pub fn units(cursor: &mut Cursor<'_>) -> Result<bool> {
    if !cursor.words("UNIT COUNT") {
        return Ok(false);
    }
    cursor.number()?;
    cursor.expect_words("INDEX")?;
    cursor.number()?;
    Ok(true)
}
