//! JSON_TABLE becomes a derived table, which may refer to the tables before it:
//! `SELECT cast(cell(unnest(rows(document, columns)), 0)) AS name, ..`.

use freshet_base::{Result, bail, err};
use freshet_schema::ColumnType;
use sqlparser::ast::{
    Expr, Ident, JsonTableColumn, JsonTableColumnErrorHandling, SelectItem, SetExpr, TableFactor,
    Value, ValueWithSpan,
};

use super::derived::selecting_all;
use super::select::lower_columns;
use super::values::{call, int, take, text};
use crate::functions::json_path::Path;
use crate::functions::json_table::{CELL, Cell, Level, Otherwise, Part, ROWS};
use crate::parser::{self, Statement};

/// The most columns of one JSON_TABLE.
const COLUMNS_MAX: usize = 1_000;

/// Rewrites JSON_TABLE, whose document has been rewritten.
///
/// # Errors
/// Invalid paths, unknown types; a missing alias.
pub fn table(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::JsonTable { json_expr, json_path, columns, alias } = factor else {
        return Ok(());
    };
    let Some(mut alias) = alias.take() else {
        bail!(DerivedAlias, "Every table function must have an alias.");
    };
    lower_columns(&mut alias);
    let mut named = Vec::new();
    let level = level(json_path, columns, &mut named)?;
    if named.len() > COLUMNS_MAX {
        bail!(TooManyColumns, "Too many columns: a JSON_TABLE has {COLUMNS_MAX} at most");
    }
    let columns = serde_json::to_string(&level)
        .map_err(|error| err!(Internal, "columns of JSON_TABLE: {error}"))?;
    let rows = call("unnest", vec![call(ROWS, vec![take(json_expr), text(columns)])]);
    let item = |(at, (name, ty)): (usize, (String, ColumnType))| SelectItem::ExprWithAlias {
        expr: typed(call(CELL, vec![rows.clone(), int(at)]), ty),
        alias: Ident::with_quote('`', name.to_lowercase()),
    };
    let mut subquery = selecting_all();
    if let SetExpr::Select(select) = &mut *subquery.body {
        select.projection = named.into_iter().enumerate().map(item).collect();
        select.from.clear();
    }
    *factor = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
    Ok(())
}

/// The columns below a path; `named` gets the names and types of all of them, in order.
fn level(
    path: &ValueWithSpan,
    columns: &[JsonTableColumn],
    named: &mut Vec<(String, ColumnType)>,
) -> Result<Level> {
    let mut parts = Vec::with_capacity(columns.len());
    for column in columns {
        parts.push(match column {
            JsonTableColumn::ForOrdinality(name) => {
                named.push((name.value.clone(), ColumnType::Int { unsigned: false }));
                Part::Ordinality
            }
            JsonTableColumn::Nested(nested) => {
                Part::Nested(level(&nested.path, &nested.columns, named)?)
            }
            JsonTableColumn::Named(column) => {
                let ty = type_of(&column.r#type.to_string())?;
                named.push((column.name.value.clone(), ty));
                Part::Value(Cell {
                    name: column.name.value.clone(),
                    path: checked(&column.path)?,
                    ty,
                    exists: column.exists,
                    on_empty: otherwise(column.on_empty.as_ref())?,
                    on_error: otherwise(column.on_error.as_ref())?,
                })
            }
        });
    }
    Ok(Level { path: checked(path)?, columns: parts })
}

fn written(value: &ValueWithSpan) -> Result<String> {
    let text = value.value.clone().into_string();
    text.ok_or_else(|| err!(Syntax, "You have an error in your SQL syntax; near '{value}'"))
}

fn checked(path: &ValueWithSpan) -> Result<String> {
    let text = written(path)?;
    if Path::parse(&text).is_none() {
        bail!(InvalidJsonPath, "Invalid JSON path expression '{text}'");
    }
    Ok(text)
}

fn otherwise(handling: Option<&JsonTableColumnErrorHandling>) -> Result<Otherwise> {
    Ok(match handling {
        None | Some(JsonTableColumnErrorHandling::Null) => Otherwise::Null,
        Some(JsonTableColumnErrorHandling::Error) => Otherwise::Error,
        Some(JsonTableColumnErrorHandling::Default(value)) => {
            let text = match &value.value {
                Value::Number(digits, _) => digits.clone(),
                _ => written(value)?,
            };
            let parsed = serde_json::from_str(&text).map_err(|error| {
                err!(InvalidJson, "Invalid default value in JSON_TABLE: {error}: '{text}'")
            })?;
            Otherwise::Default(parsed)
        }
    })
}

/// The type that a column of a table has of this text.
fn type_of(written: &str) -> Result<ColumnType> {
    let create = format!("CREATE TABLE t (c {written})");
    match parser::parse(&create, Default::default())?.remove(0).statement {
        Statement::CreateTable(create) if create.spec.columns[0].ty.is_nested() => bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'JSON_TABLE columns of type {written}'"
        ),
        Statement::CreateTable(create) => Ok(create.spec.columns[0].ty),
        _ => bail!(Syntax, "You have an error in your SQL syntax; near '{written}'"),
    }
}

/// The value of a cell, whose text is one of this type.
fn typed(cell: Expr, ty: ColumnType) -> Expr {
    match ty {
        ColumnType::Double => call("mysql_double", vec![cell]),
        ColumnType::Float => call("mysql_float", vec![cell]),
        ColumnType::Decimal { precision, scale } => {
            call("mysql_decimal", vec![cell, int(precision), int(scale)])
        }
        ColumnType::Date => call("mysql_date", vec![cell]),
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            call("mysql_datetime_digits", vec![cell, int(fsp)])
        }
        ColumnType::Time { fsp } => call("mysql_time_digits", vec![cell, int(fsp)]),
        ty if ty.is_json() => call("mysql_json", vec![cell]),
        _ if ty.is_binary() => call("mysql_binary", vec![cell]),
        _ if ty.is_text() || ty == ColumnType::LargeInt => cell,
        _ if ty.is_unsigned() => call("mysql_unsigned", vec![cell]),
        _ => call("mysql_signed", vec![cell]),
    }
}
