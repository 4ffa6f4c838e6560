use freshet_base::Result;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::partition;
use crate::change::{Assignments, alias_count, new_value, place_of_new};
use crate::syntax::{Scalar, Select, TableName};

#[derive(Clone, PartialEq, Debug)]
pub struct Insert {
    pub table: TableName,
    /// PARTITION: those that take rows; empty for all. [`crate::snapshot::temporary_names`] says
    /// whether they are temporary ones.
    pub partitions: Vec<String>,
    /// The target columns; `None` for all of them in order.
    pub columns: Option<Vec<String>>,
    /// WITH LABEL.
    pub label: Option<String>,
    /// OVERWRITE: the rows that were there go, of the table or of its `partitions`.
    pub overwrites: bool,
    /// PARTITION(*) of OVERWRITE: of the partitions that the rows find.
    pub finds_partitions: bool,
    pub source: InsertSource,
    /// IGNORE: values that do not fit are adjusted.
    pub ignores: bool,
    pub on_duplicate: OnDuplicate,
    /// How many columns of the new row get names by `AS n (a, b)`, where the statement does not
    /// list its columns: [`crate::change::by_place`] says which they are.
    pub named_by_place: Option<usize>,
}

/// What happens to a row whose key exists.
#[derive(Clone, PartialEq, Debug)]
pub enum OnDuplicate {
    /// INSERT.
    Refuse,
    /// INSERT IGNORE.
    Skip,
    /// REPLACE.
    Replace,
    /// ON DUPLICATE KEY UPDATE.
    Update(Assignments),
}

/// The source of the inserted rows.
#[derive(Clone, PartialEq, Debug)]
pub enum InsertSource {
    /// Rows of expressions; `None` stands for DEFAULT.
    Values(Vec<Vec<Option<Scalar>>>),
    /// The rows of a query.
    Query(Select),
}

/// Parses the part after INSERT.
pub fn insert(cursor: &mut Cursor<'_>) -> Result<Insert> {
    cursor.one_of(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"]);
    let on_duplicate = match cursor.words("IGNORE") {
        true => OnDuplicate::Skip,
        false => OnDuplicate::Refuse,
    };
    rows(cursor, on_duplicate)
}

/// Parses the part after REPLACE.
pub fn replace(cursor: &mut Cursor<'_>) -> Result<Insert> {
    cursor.one_of(&["LOW_PRIORITY", "DELAYED"]);
    rows(cursor, OnDuplicate::Replace)
}

fn rows(cursor: &mut Cursor<'_>, mut on_duplicate: OnDuplicate) -> Result<Insert> {
    let ignores = on_duplicate == OnDuplicate::Skip;
    let overwrites = cursor.words("OVERWRITE");
    if overwrites && on_duplicate != OnDuplicate::Refuse {
        return Err(refuse("INSERT IGNORE OVERWRITE and REPLACE OVERWRITE"));
    }
    cursor.words("INTO");
    cursor.words("TABLE");
    let table = cursor.table()?;
    let says_partitions = cursor.one_of(&["PARTITION", "PARTITIONS"]).is_some();
    let finds_partitions = says_partitions && overwrites && partition::all_in_parens(cursor);
    let partitions = match says_partitions && !finds_partitions {
        true => partition::names(cursor)?,
        false => Vec::new(),
    };
    let mut label = label_of(cursor)?;
    let mut columns = None;
    if matches!(cursor.peek().token, Token::LParen) && !is_query(cursor.peek_word(1)) {
        columns = Some(names(cursor)?);
    }
    if label.is_none() {
        label = label_of(cursor)?;
    }
    let source = source(cursor, &mut columns)?;
    let (mut alias, mut aliases) = (None, Vec::new());
    if cursor.words("AS") {
        alias = Some(cursor.name()?);
        if matches!(cursor.peek().token, Token::LParen) {
            aliases = cursor.in_parens(Cursor::name)?;
        }
    }
    let named_by_place = (columns.is_none() && !aliases.is_empty()).then_some(aliases.len());
    if !aliases.is_empty() && columns.as_ref().is_some_and(|listed| listed.len() != aliases.len()) {
        return Err(alias_count());
    }
    let can_update = !overwrites && !matches!(on_duplicate, OnDuplicate::Replace);
    if can_update && cursor.words("ON DUPLICATE KEY UPDATE") {
        let set = cursor.list(assignment)?;
        // What a column of the alias is called, and the column that it stands for.
        let by_place = || (0..aliases.len()).map(place_of_new).collect();
        let names = columns.clone().unwrap_or_else(by_place);
        let aliased = aliases.iter().cloned().zip(names).collect::<Vec<_>>();
        let of_new = |(column, value): (String, Option<Scalar>)| {
            let value =
                value.map(|value| new_value(value, &table.table, alias.as_deref(), &aliased));
            (column, value)
        };
        on_duplicate = OnDuplicate::Update(set.into_iter().map(of_new).collect());
    }
    Ok(Insert {
        table,
        partitions,
        columns,
        label,
        overwrites,
        finds_partitions,
        source,
        ignores,
        on_duplicate,
        named_by_place,
    })
}

fn is_query(word: Option<String>) -> bool {
    word.is_some_and(|word| word == "SELECT" || word == "WITH")
}

/// Parses `(a, t.b)`, which may be empty.
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.expect(&Token::LParen)?;
    if cursor.token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let names = cursor.list(|cursor| Ok(cursor.table()?.table))?;
    cursor.expect(&Token::RParen)?;
    Ok(names)
}

fn label_of(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if !cursor.words("WITH LABEL") {
        return Ok(None);
    }
    cursor.name_or_text().map(Some)
}

fn source(cursor: &mut Cursor<'_>, columns: &mut Option<Vec<String>>) -> Result<InsertSource> {
    if cursor.one_of(&["VALUES", "VALUE"]).is_some() {
        let rows = cursor.list(|cursor| {
            cursor.words("ROW");
            cursor.expect(&Token::LParen)?;
            if cursor.token(&Token::RParen) {
                return Ok(Vec::new());
            }
            let row = cursor.list(value)?;
            cursor.expect(&Token::RParen)?;
            Ok(row)
        })?;
        return Ok(InsertSource::Values(rows));
    }
    if cursor.words("SET") {
        let mut names = Vec::new();
        let row = cursor.list(|cursor| {
            names.push(cursor.table()?.table);
            cursor.expect(&Token::Eq)?;
            value(cursor)
        })?;
        *columns = Some(names);
        return Ok(InsertSource::Values(vec![row]));
    }
    cursor.query().map(InsertSource::Query)
}

/// Parses `column = value`.
pub fn assignment(cursor: &mut Cursor<'_>) -> Result<(String, Option<Scalar>)> {
    let column = cursor.table()?.table;
    cursor.expect(&Token::Eq)?;
    Ok((column, value(cursor)?))
}

fn value(cursor: &mut Cursor<'_>) -> Result<Option<Scalar>> {
    let parens = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen);
    if !parens && cursor.words("DEFAULT") {
        return Ok(None);
    }
    cursor.expr().map(Some)
}
