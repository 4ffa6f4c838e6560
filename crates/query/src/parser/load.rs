//! The pieces of SQL that loads over HTTP have: the column list and the conditions of a stream
//! load, and the INSERT of an Http Stream.

use freshet_base::{Error, Result, bail, err};
use sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::cursor::{Cursor, Source, refuse};
use super::dialect::MySql;
use super::numbers::property;
use super::{Insert, InsertSource, NESTING_MAX, OnDuplicate, Statement, depth};
use crate::session::SqlMode;
use crate::syntax::{Scalar, TableName};

/// The table function that stands for the body of the request.
const FUNCTION: &str = "http_stream";
/// The longest text of a column list or a condition.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The maximum number of columns of a load.
pub const COLUMNS_MAX: usize = 4096;

/// An item of the header `columns`.
#[derive(Clone, PartialEq, Debug)]
pub enum LoadColumn {
    /// The name of a field of the source.
    Field(String),
    /// A column of the table and how it is computed.
    Computed(String, Box<Scalar>),
}

/// The INSERT of an Http Stream.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpStream {
    pub table: TableName,
    /// The target columns; `None` for all of them in order.
    pub columns: Option<Vec<String>>,
    /// WITH LABEL.
    pub label: Option<String>,
    /// Names and values in `http_stream(...)`: the headers of a stream load.
    pub properties: Vec<(String, String)>,
    /// The name by which the SELECT refers to the rows of the body.
    pub(crate) from: String,
    pub(crate) items: Vec<SelectItem>,
    pub(crate) condition: Option<Expr>,
}

/// Parses the header `columns`: names of fields, and `column = expression`.
///
/// # Errors
/// 1064.
pub fn load_columns(text: &str) -> Result<Vec<LoadColumn>> {
    let mut count = 0;
    parsed(text, |cursor| {
        cursor.list(|cursor| {
            count += 1;
            if count > COLUMNS_MAX {
                bail!(TooManyColumns, "a load has at most {COLUMNS_MAX} columns");
            }
            let name = cursor.name()?;
            match cursor.token(&Token::Eq) {
                true => Ok(LoadColumn::Computed(name, Box::new(cursor.expr()?))),
                false => Ok(LoadColumn::Field(name)),
            }
        })
    })
}

/// Parses a condition on rows: the headers `where` and `delete`.
///
/// # Errors
/// 1064.
pub fn load_condition(text: &str) -> Result<Scalar> {
    parsed(text, |cursor| cursor.expr())
}

fn parsed<T>(text: &str, parse: impl FnOnce(&mut Cursor<'_>) -> Result<T>) -> Result<T> {
    if text.len() > TEXT_BYTES_MAX {
        bail!(TooLong, "an expression of {} bytes, the most are {TEXT_BYTES_MAX}", text.len());
    }
    let dialect = MySql { mode: SqlMode::default() };
    let source = Source::new(text);
    let tokens = Tokenizer::new(&dialect, text)
        .tokenize_with_location()
        .map_err(|error| source.syntax(error.location))?;
    depth::check(&tokens)?;
    let parser =
        Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let mut cursor = Cursor::new(parser, &source);
    let found = parse(&mut cursor)?;
    cursor.expect_end()?;
    Ok(found)
}

/// Parses the statement of an Http Stream: `INSERT INTO t [WITH LABEL l] [(columns)] SELECT items
/// FROM http_stream("property" = "value", ..) [WHERE condition]`.
///
/// # Errors
/// 1064, and `NotSupported` for a statement of another form.
pub fn http_stream(sql: &str) -> Result<HttpStream> {
    let mut statements = super::parse(sql, SqlMode::default())?;
    let (Some(parsed), true) = (statements.pop(), statements.is_empty()) else {
        bail!(NotSupported, "the header 'sql' has several statements; it takes one INSERT");
    };
    if parsed.parameters > 0 {
        bail!(NotSupported, "the header 'sql' has placeholders, which get no values there");
    }
    let Statement::Insert(insert) = parsed.statement else { return Err(other_form()) };
    let Insert { table, partitions, columns, label, overwrites, source, on_duplicate, .. } =
        *insert;
    if overwrites {
        return Err(refuse("INSERT OVERWRITE of http_stream; INSERT OVERWRITE from a table"));
    }
    if !partitions.is_empty() {
        return Err(refuse("INSERT ... PARTITION of http_stream; use the header 'partitions'"));
    }
    let InsertSource::Query(select) = source else { return Err(other_form()) };
    if on_duplicate != OnDuplicate::Refuse {
        bail!(NotSupported, "http_stream(...) is for a plain INSERT, without IGNORE and UPDATE");
    }
    let (properties, from, items, condition) = taken(*select.0)?;
    Ok(HttpStream { table, columns, label, properties, from, items, condition })
}

fn other_form() -> Error {
    err!(
        NotSupported,
        "the header 'sql' must be INSERT INTO table [(columns)] SELECT items FROM \
         http_stream(\"format\" = \"csv\", ...) [WHERE condition]"
    )
}

type Taken = (Vec<(String, String)>, String, Vec<SelectItem>, Option<Expr>);

/// The parts of the query over the body, which sees each row by itself.
fn taken(query: Query) -> Result<Taken> {
    let Query { with: None, body, order_by: None, limit_clause: None, .. } = query else {
        return Err(row_by_row());
    };
    let SetExpr::Select(select) = *body else { return Err(other_form()) };
    let Select { distinct, having, qualify, group_by, projection, from, selection, .. } = *select;
    let is_grouped = !matches!(&group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if distinct.is_some() || having.is_some() || qualify.is_some() || is_grouped {
        return Err(row_by_row());
    }
    let [table] = <[_; 1]>::try_from(from).map_err(|_| row_by_row())?;
    if !table.joins.is_empty() {
        return Err(row_by_row());
    }
    let TableFactor::Table { name, alias, args: Some(args), .. } = table.relation else {
        return Err(other_form());
    };
    let is_body = matches!(&name.0[..], [part] if part
        .as_ident()
        .is_some_and(|name| name.value.eq_ignore_ascii_case(FUNCTION)));
    if !is_body {
        return Err(other_form());
    }
    let properties =
        args.args.into_iter().map(|arg| property(FUNCTION, arg)).collect::<Result<_>>()?;
    let name = alias.map_or_else(|| FUNCTION.to_owned(), |alias| alias.name.value);
    Ok((properties, name, projection, selection))
}

fn row_by_row() -> Error {
    err!(
        NotSupported,
        "http_stream(...) is read row by row: a SELECT from it has items and WHERE, and no other \
         tables, groups, order or limit; load the rows into a table first, then query that"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_are_names_and_expressions() {
        let items = load_columns("a, `b c`, d = concat(a, ','), e = a = 1").unwrap();
        let shown = items.iter().map(|item| match item {
            LoadColumn::Field(name) => name.clone(),
            LoadColumn::Computed(name, value) => format!("{name}: {value}"),
        });
        assert_eq!(shown.collect::<Vec<_>>(), ["a", "b c", "d: concat(a, ',')", "e: a = 1"]);
        for wrong in ["", "a,", "a b", "a = ", "= 1", "a, b = (1", "a; b"] {
            assert!(load_columns(wrong).is_err(), "{wrong}");
        }
        assert!(load_condition("a > 1 and b is null").is_ok());
        assert!(load_condition("a > 1 and").is_err());
        assert!(load_condition(&"(".repeat(100_000)).is_err());
    }

    #[test]
    fn an_http_stream_is_an_insert_of_a_select() {
        let sql = "insert into d.t with label l (a, b) select c1, c2 + 1 from http_stream(\
                   \"format\" = \"csv\", 'column_separator' = ',', \"skip_lines\" = 1, \
                   \"trim_double_quotes\" = true) where c1 > 0";
        let stream = http_stream(sql).unwrap();
        assert_eq!(stream.table.database.as_deref(), Some("d"));
        assert_eq!(stream.label.as_deref(), Some("l"));
        assert_eq!(stream.columns.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
        let properties = stream.properties.iter().map(|(name, value)| format!("{name}={value}"));
        let expected =
            ["format=csv", "column_separator=,", "skip_lines=1", "trim_double_quotes=true"];
        assert_eq!(properties.collect::<Vec<_>>(), expected);
        assert_eq!((stream.from.as_str(), stream.items.len()), ("http_stream", 2));
        assert!(stream.condition.is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,200}") {
            let _ = (load_columns(&text), load_condition(&text), http_stream(&text));
            let _ = http_stream(&format!("insert into d.t select {text} from http_stream()"));
        }
    }
}
