//! GLOBAL, CLUSTERED and LOCAL INDEX of PolarDB-X.

use freshet_base::{Result, bail};
use freshet_meta::{BucketsSpec, DeclaredKeySpec, GlobalIndexSpec, TableSpec};
use freshet_schema::TableForm;
use sqlparser::tokenizer::Token;

use super::constraint::{KeyPart, sized_key_part};
use super::cursor::{Cursor, refuse};
use super::placement::of_index;

/// Parses the word that says where an index is, if one comes next that is not its name.
pub fn scope(cursor: &mut Cursor<'_>) -> Option<&'static str> {
    let is_name = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen)
        || cursor.peek_word(1).as_deref() == Some("USING");
    if is_name { None } else { cursor.one_of(&["GLOBAL", "CLUSTERED", "LOCAL"]) }
}

/// An index behind this word, as far as the word tells; `None` for one like all others.
pub fn index(scope: &str) -> Option<GlobalIndexSpec> {
    (scope != "LOCAL").then(|| GlobalIndexSpec {
        clustered: scope == "CLUSTERED",
        covering: Vec::new(),
        placement: None,
        partition_by: None,
        buckets: BucketsSpec::Unset,
    })
}

/// Parses the columns of a key in parentheses.
///
/// # Errors
/// 1235 for first characters of a column in a unique key that is global.
pub fn key_columns(cursor: &mut Cursor<'_>, key: &mut DeclaredKeySpec) -> Result<()> {
    let parts = cursor.in_parens(sized_key_part)?;
    for KeyPart { column, length, is_descending } in parts {
        if length.is_some() && key.kind.is_unique() && key.global.is_some() {
            bail!(
                NotSupported,
                "A UNIQUE GLOBAL INDEX has no prefix of a column: leave the length of '{column}' \
                 out"
            );
        }
        key.first.extend(length.map(|length| (column.clone(), length)));
        key.descending.extend(is_descending.then(|| column.clone()));
        key.columns.push(column);
    }
    Ok(())
}

/// Parses COVERING, or the clause that says where entries of an index are, if one comes next;
/// whether one did.
///
/// # Errors
/// 1235 for COVERING of an index that is not global, and for clauses that are no division.
pub fn option(cursor: &mut Cursor<'_>, global: &mut Option<GlobalIndexSpec>) -> Result<bool> {
    const CLAUSES: [&str; 6] =
        ["PARTITION", "DBPARTITION", "TBPARTITION", "SUBPARTITION", "AUTO", "SINGLE"];
    let word = cursor.peek_word(0).unwrap_or_default();
    let is_covering = word == "COVERING";
    if !is_covering && !CLAUSES.contains(&word.as_str()) {
        return Ok(false);
    }
    let Some(global) = global else {
        // Behind an index of the table it is a clause of the table, as in MySQL.
        return if is_covering {
            Err(refuse("COVERING of an INDEX that is not GLOBAL"))
        } else {
            Ok(false)
        };
    };
    if is_covering {
        cursor.words("COVERING");
        if !global.covering.is_empty() {
            bail!(Syntax, "An index has one list of columns COVERING");
        }
        global.covering = cursor.in_parens(Cursor::name)?;
        return Ok(true);
    }
    if global.placement.is_some() {
        bail!(Syntax, "An index has one clause that says where its entries are");
    }
    let mut parsed = TableSpec::new("", TableForm::MySql, Vec::new());
    if !of_index(cursor, &mut parsed)? {
        return Err(cursor.error());
    }
    if parsed.form == TableForm::Olap || word == "SINGLE" || word == "AUTO" {
        return Err(refuse(
            "a clause of a GLOBAL INDEX that is not PARTITION BY HASH, KEY, RANGE or LIST",
        ));
    }
    global.placement = parsed.placement;
    global.partition_by = parsed.partition_by.map(Box::new);
    global.buckets = parsed.buckets;
    Ok(true)
}
