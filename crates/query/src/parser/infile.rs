//! Parses LOAD DATA, and the clauses FIELDS and LINES, which INTO OUTFILE has as well.

use freshet_base::{Result, bail, err};
use freshet_schema::{FieldFormat, bytes_of_hex};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::insert;
use super::partition;
use super::prepare::user_variable;
use crate::change::Assignments;
use crate::syntax::TableName;

/// The most fields of a row, as a table of MySQL has columns.
const FIELDS_MAX: usize = 4096;

/// Where a field of a file goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldTarget {
    Column(String),
    /// A user variable in lower case.
    Variable(String),
}

/// What happens to rows whose key exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnSameKey {
    /// The statement fails, or LOAD DATA LOCAL leaves the row out.
    Unsaid,
    Ignore,
    Replace,
}

impl OnSameKey {
    /// Parses IGNORE or REPLACE, if one comes next.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Self {
        match cursor.one_of(&["REPLACE", "IGNORE"]) {
            Some("REPLACE") => Self::Replace,
            Some(_) => Self::Ignore,
            None => Self::Unsaid,
        }
    }
}

/// LOAD DATA.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadData {
    /// LOCAL: the file is the client's.
    pub is_local: bool,
    pub file: String,
    pub on_same_key: OnSameKey,
    pub table: TableName,
    /// PARTITION: those that take rows; empty for all.
    pub partitions: Vec<String>,
    /// CHARACTER SET, in lower case.
    pub charset: Option<String>,
    pub format: FieldFormat,
    /// IGNORE n LINES.
    pub lines_to_skip: u64,
    /// `None`: the columns of the table.
    pub fields: Option<Vec<FieldTarget>>,
    pub set: Assignments,
}

/// Parses the part after LOAD.
pub fn load(cursor: &mut Cursor<'_>) -> Result<LoadData> {
    if !cursor.words("DATA") {
        return Err(refuse("LOAD other than LOAD DATA"));
    }
    let _ = cursor.words("LOW_PRIORITY") || cursor.words("CONCURRENT");
    let is_local = cursor.words("LOCAL");
    cursor.expect_words("INFILE")?;
    let file = cursor.text()?;
    let on_same_key = OnSameKey::parse(cursor);
    cursor.expect_words("INTO TABLE")?;
    let table = cursor.table()?;
    let partitions = match cursor.words("PARTITION") {
        true => partition::names(cursor)?,
        false => Vec::new(),
    };
    let charset = charset(cursor)?;
    let format = format(cursor)?;
    check(&format)?;
    let mut lines_to_skip = 0;
    if cursor.words("IGNORE") {
        lines_to_skip = cursor.number()?;
        cursor.one_of(&["LINES", "ROWS"]).ok_or_else(|| cursor.error())?;
    }
    let fields = fields(cursor)?;
    let set = match cursor.words("SET") {
        true => cursor.list(insert::assignment)?,
        false => Vec::new(),
    };
    Ok(LoadData {
        is_local,
        file,
        on_same_key,
        table,
        partitions,
        charset,
        format,
        lines_to_skip,
        fields,
        set,
    })
}

/// Parses `CHARACTER SET name`, if it comes next.
pub fn charset(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if !cursor.words("CHARACTER SET") && !cursor.words("CHARSET") {
        return Ok(None);
    }
    Ok(Some(cursor.name_or_text()?.to_lowercase()))
}

/// Parses the clauses FIELDS and LINES, which are optional.
pub fn format(cursor: &mut Cursor<'_>) -> Result<FieldFormat> {
    let mut format = FieldFormat::default();
    if cursor.words("FIELDS") || cursor.words("COLUMNS") {
        let mut any = false;
        loop {
            if cursor.words("TERMINATED BY") {
                format.separator = bytes(cursor)?;
            } else if cursor.words("OPTIONALLY ENCLOSED BY") {
                (format.enclose, format.encloses_texts_only) = (byte(cursor)?, true);
            } else if cursor.words("ENCLOSED BY") {
                (format.enclose, format.encloses_texts_only) = (byte(cursor)?, false);
            } else if cursor.words("ESCAPED BY") {
                format.escape = byte(cursor)?;
            } else if any {
                break;
            } else {
                return Err(cursor.error());
            }
            any = true;
        }
    }
    if cursor.words("LINES") {
        let mut any = false;
        loop {
            if cursor.words("STARTING BY") {
                format.starting = bytes(cursor)?;
            } else if cursor.words("TERMINATED BY") {
                format.delimiter = bytes(cursor)?;
            } else if any {
                break;
            } else {
                return Err(cursor.error());
            }
            any = true;
        }
    }
    Ok(format)
}

/// Refuses formats in which the length of a field says where it ends.
fn check(format: &FieldFormat) -> Result<()> {
    if format.separator.is_empty() && format.enclose.is_none() {
        return Err(refuse("LOAD DATA of fields of fixed width"));
    }
    if format.delimiter.is_empty() {
        return Err(refuse("LOAD DATA with LINES TERMINATED BY ''"));
    }
    if format.delimiter == format.separator {
        return Err(refuse("LOAD DATA of lines that end as fields do"));
    }
    Ok(())
}

/// Parses a text, which may be given by its bytes.
fn bytes(cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
    if let Token::HexStringLiteral(digits) = &cursor.peek().token {
        let bytes = bytes_of_hex(digits).ok_or_else(|| cursor.error())?;
        cursor.parser.advance_token();
        return Ok(bytes);
    }
    cursor.text().map(String::into_bytes)
}

/// Parses a text of one byte, or of none.
fn byte(cursor: &mut Cursor<'_>) -> Result<Option<u8>> {
    match bytes(cursor)?.as_slice() {
        [] => Ok(None),
        [byte] => Ok(Some(*byte)),
        _ => Err(err!(
            WrongFieldTerminators,
            "Field separator argument is not what is expected; check the manual"
        )),
    }
}

/// Parses `(a, @b, ...)`, if it comes next; an empty list is none.
fn fields(cursor: &mut Cursor<'_>) -> Result<Option<Vec<FieldTarget>>> {
    if !cursor.token(&Token::LParen) || cursor.token(&Token::RParen) {
        return Ok(None);
    }
    let fields = cursor.list(|cursor| match user_variable(cursor)? {
        Some(variable) => Ok(FieldTarget::Variable(variable)),
        None => Ok(FieldTarget::Column(cursor.table()?.table)),
    })?;
    cursor.expect(&Token::RParen)?;
    if fields.len() > FIELDS_MAX {
        bail!(TooManyColumns, "Too many columns");
    }
    Ok(Some(fields))
}
