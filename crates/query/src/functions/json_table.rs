//! The rows of JSON_TABLE: each row is an array of the texts of its cells, which the query takes
//! apart again.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility,
};
use freshet_base::{ColumnId, err};
use freshet_schema::{Column, ColumnType, Literal, Rules, value};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json_path::Path;
use super::json_text::print;
use super::row::{Kind, Out, RowFunction};
use super::udf::{FunctionImpl, Udf};
use crate::convert;
use crate::error::{BatchTooLarge, external};
use crate::evaluation::BATCH_BYTES_MAX;

/// The function that makes the rows of a document.
pub const ROWS: &str = "mysql_json_rows";
/// The function that takes a cell of a row.
pub const CELL: &str = "mysql_json_cell";

/// COLUMNS, and the path whose values become rows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    pub path: String,
    pub columns: Vec<Part>,
}

/// What COLUMNS lists.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Part {
    /// FOR ORDINALITY.
    Ordinality,
    /// A column with a path.
    Value(Cell),
    /// NESTED PATH.
    Nested(Level),
}

/// A column with a path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub name: String,
    pub path: String,
    pub ty: ColumnType,
    /// EXISTS PATH: whether there is a value.
    pub exists: bool,
    pub on_empty: Otherwise,
    pub on_error: Otherwise,
}

/// What stands in place of a value that is missing, or that the column cannot hold.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Otherwise {
    Null,
    Error,
    /// JSON.
    Default(Value),
}

type Cells = Vec<Option<String>>;

impl Level {
    /// The number of columns, those of nested paths among them.
    pub fn width(&self) -> usize {
        let width = |part: &Part| match part {
            Part::Nested(level) => level.width(),
            Part::Ordinality | Part::Value(_) => 1,
        };
        self.columns.iter().map(width).sum()
    }

    /// The rows of a document. Where a nested path has no values its columns are NULL; the rows of
    /// several of them stand below each other.
    fn rows(&self, document: &Value) -> Result<Vec<Cells>> {
        let mut rows = Vec::new();
        for (at, item) in path(&self.path)?.find(document).into_iter().enumerate() {
            let mut own = vec![None; self.width()];
            let mut nested = Vec::new();
            let mut place = 0;
            for part in &self.columns {
                match part {
                    Part::Ordinality => own[place] = Some((at + 1).to_string()),
                    Part::Value(cell) => own[place] = cell.of(item)?,
                    Part::Nested(level) => nested.push((place, level.rows(item)?)),
                }
                place += match part {
                    Part::Nested(level) => level.width(),
                    Part::Ordinality | Part::Value(_) => 1,
                };
            }
            if nested.iter().all(|(_, rows)| rows.is_empty()) {
                rows.push(own);
                continue;
            }
            for (place, inner) in nested
                .into_iter()
                .flat_map(|(place, inner)| inner.into_iter().map(move |cells| (place, cells)))
            {
                let mut row = own.clone();
                row.splice(place..place + inner.len(), inner);
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

fn path(text: &str) -> Result<Path> {
    Path::parse(text).ok_or_else(|| exec_datafusion_err!("Invalid JSON path expression '{text}'"))
}

impl Cell {
    fn of(&self, item: &Value) -> Result<Option<String>> {
        let found = path(&self.path)?.find(item);
        if self.exists {
            return Ok(Some(u8::from(!found.is_empty()).to_string()));
        }
        match found[..] {
            [] => self.otherwise(&self.on_empty, "Missing value"),
            [value] => match self.stored(value) {
                Some(cell) => Ok(cell),
                None => self.otherwise(&self.on_error, "Invalid value"),
            },
            // Several values are no single one.
            _ => self.otherwise(&self.on_error, "More than one value"),
        }
    }

    fn otherwise(&self, otherwise: &Otherwise, what: &str) -> Result<Option<String>> {
        let refused = || {
            let message = err!(JsonTableValue, "{what} for JSON_TABLE column '{}'", self.name);
            Err(external(message))
        };
        match otherwise {
            Otherwise::Null => Ok(None),
            Otherwise::Error => refused(),
            Otherwise::Default(value) => self.stored(value).map_or_else(refused, Ok),
        }
    }

    /// The text of a value as the column holds it; `None` if it cannot.
    fn stored(&self, value: &Value) -> Option<Option<String>> {
        if self.ty.is_json() {
            let mut text = String::new();
            print(&mut text, value).ok()?;
            return Some(Some(text));
        }
        let number;
        let literal = match value {
            Value::Null => return Some(None),
            Value::Array(_) | Value::Object(_) => return None,
            Value::Bool(flag) if self.ty.is_numeric() => Literal::Int((*flag).into()),
            Value::Bool(true) => Literal::Text(b"true"),
            Value::Bool(false) => Literal::Text(b"false"),
            Value::String(text) => Literal::Text(text.as_bytes()),
            Value::Number(found) => {
                number = found.to_string();
                Literal::Number(number.as_bytes())
            }
        };
        let column = Column::new(ColumnId(1), &*self.name, self.ty);
        let column = Column { length_unit: freshet_schema::LengthUnit::Characters, ..column };
        let mut cell = Vec::new();
        if value::put(&column, literal, &Rules::default(), &mut cell).is_err() {
            return None;
        }
        if !self.ty.is_text() && !self.ty.is_binary() {
            return Some(Some(value::cell_text(self.ty, &cell)));
        }
        let (Literal::Text(text) | Literal::Number(text)) = literal else { return None };
        Some(Some(String::from_utf8_lossy(text).into_owned()))
    }
}

/// `mysql_json_rows(document, level)`: a list of rows; NULL where there are none.
#[derive(Debug)]
struct JsonRows;

impl FunctionImpl for JsonRows {
    fn field(&self, name: &str, _args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let item = Field::new_list_field(DataType::Utf8View, true);
        Ok(Field::new(name, DataType::List(Arc::new(item)), true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let [document, ColumnarValue::Scalar(level)] = &args.args[..] else {
            return Err(exec_datafusion_err!("the columns of JSON_TABLE are constant"));
        };
        let level = level.try_as_str().flatten().unwrap_or_default();
        let level = serde_json::from_str::<Level>(level)
            .map_err(|error| exec_datafusion_err!("the columns of JSON_TABLE: {error}"))?;
        let documents = convert::text(&document.to_array(rows)?)?;
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        let mut bytes = 0;
        for row in 0..rows {
            if documents.is_null(row) {
                lists.append_null();
                continue;
            }
            let document =
                serde_json::from_str::<Value>(documents.value(row)).map_err(|error| {
                    let message =
                        "Invalid JSON text in argument 1 to function json_table".to_owned();
                    external(err!(InvalidJson, "{message}: {error}"))
                })?;
            let made = level.rows(&document)?;
            for cells in &made {
                let text = serde_json::to_string(cells).expect("texts are JSON");
                bytes += text.len();
                if bytes > BATCH_BYTES_MAX {
                    return Err(BatchTooLarge::error(BATCH_BYTES_MAX));
                }
                lists.values().append_value(text);
            }
            lists.append(!made.is_empty());
        }
        Ok(Arc::new(lists.finish()))
    }
}

pub fn all() -> Vec<ScalarUDF> {
    // A document is taken apart when the query runs, and not while it is planned.
    let rows = Udf::scalar(ROWS, (2, 2), Volatility::Volatile, JsonRows);
    let cell = RowFunction::new(CELL, &[Kind::Text, Kind::Int], (2, 2), Kind::Text, |row| {
        let cells = serde_json::from_str::<Cells>(row.text(0)).ok()?;
        let at = usize::try_from(row.int(1)).ok()?;
        cells.into_iter().nth(at).flatten().map(Out::Text)
    });
    vec![rows, cell.udf()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(path: &str, ty: ColumnType) -> Part {
        let (name, path) = ("c".to_owned(), path.to_owned());
        let (on_empty, on_error) = (Otherwise::Null, Otherwise::Null);
        Part::Value(Cell { name, path, ty, exists: false, on_empty, on_error })
    }

    fn rows(level: &Level, document: &str) -> Vec<Vec<String>> {
        let rows = level.rows(&serde_json::from_str(document).unwrap()).unwrap();
        let shown = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
        rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect()
    }

    #[test]
    fn nested_paths_multiply_rows_and_stand_below_each_other() {
        let int = ColumnType::Int { unsigned: false };
        let nested = |path: &str| {
            let columns = vec![Part::Ordinality, value("$", int)];
            Part::Nested(Level { path: path.to_owned(), columns })
        };
        let columns = vec![value("$.a", int), nested("$.b[*]"), nested("$.c[*]")];
        let level = Level { path: "$[*]".to_owned(), columns };
        assert_eq!(
            rows(&level, r#"[{"a":1,"b":[10,"x"],"c":[20]},{"a":"2"},{"b":[]}]"#),
            [
                ["1", "1", "10", "NULL", "NULL"],
                ["1", "2", "NULL", "NULL", "NULL"],
                ["1", "NULL", "NULL", "1", "20"],
                ["2", "NULL", "NULL", "NULL", "NULL"],
                ["NULL", "NULL", "NULL", "NULL", "NULL"],
            ]
        );
    }

    #[test]
    fn a_column_holds_what_its_type_holds() {
        let of = |ty, document: &str| {
            let level = Level { path: "$".to_owned(), columns: vec![value("$", ty)] };
            rows(&level, document).remove(0).remove(0)
        };
        assert_eq!(of(ColumnType::TinyInt { unsigned: false }, "127.4"), "127");
        assert_eq!(of(ColumnType::TinyInt { unsigned: false }, "128"), "NULL");
        assert_eq!(of(ColumnType::Decimal { precision: 5, scale: 2 }, "\"1.239\""), "1.24");
        assert_eq!(of(ColumnType::VarChar { len: 2 }, "\"ab\""), "ab");
        assert_eq!(of(ColumnType::VarChar { len: 2 }, "\"abc\""), "NULL");
        assert_eq!(of(ColumnType::VarChar { len: 9 }, "[1]"), "NULL");
        assert_eq!(of(ColumnType::Json, "{\"a\":[1]}"), "{\"a\": [1]}");
        assert_eq!(of(ColumnType::Json, "null"), "null");
        assert_eq!(of(ColumnType::Date, "\"2024-02-30\""), "NULL");
        assert_eq!(of(ColumnType::Time { fsp: 0 }, "\"10:00\""), "10:00:00");
        assert_eq!(of(ColumnType::Int { unsigned: false }, "true"), "1");
    }

    #[test]
    fn errors_name_the_column() {
        let Part::Value(mut cell) = value("$.x", ColumnType::Date) else { unreachable!() };
        cell.on_empty = Otherwise::Error;
        let missing = cell.of(&Value::Null).unwrap_err().to_string();
        assert!(missing.contains("Missing value for JSON_TABLE column 'c'"), "{missing}");
        cell.on_empty = Otherwise::Default("2024-01-01".into());
        assert_eq!(cell.of(&Value::Null).unwrap().as_deref(), Some("2024-01-01"));
    }
}
