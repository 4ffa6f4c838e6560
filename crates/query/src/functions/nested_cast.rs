//! CAST to ARRAY, MAP and STRUCT: the text of a value is read as a column of the type would read
//! it.

use std::collections::HashSet;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ScalarUDF;
use freshet_base::{ColumnId, Result as Outcome, bail, err};
use freshet_meta::ColumnSpec;
use freshet_schema::nested::{self, NESTING_MAX, can_be_inside};
use freshet_schema::{Column, ColumnType, LengthUnit};

use super::vector::Vector;
use crate::convert;
use crate::error::external;
use crate::parser::{self, Statement};

/// `mysql_nested(value, type)`.
pub const NESTED: &str = "mysql_nested";

pub fn all() -> Vec<ScalarUDF> {
    vec![Vector::udf(NESTED, (2, 2), type_of, read)]
}

/// The column of a type as it is written.
///
/// # Errors
/// What no column has as its type.
pub fn column_of(written: &str) -> Outcome<Column> {
    let create = format!("CREATE TABLE t (c {written})");
    match parser::parse(&create, Default::default())?.remove(0).statement {
        Statement::CreateTable(create) => column(&create.spec.columns[0], 0),
        _ => bail!(Syntax, "You have an error in your SQL syntax; near '{written}'"),
    }
}

fn column(spec: &ColumnSpec, depth: usize) -> Outcome<Column> {
    let is_inside = depth == 0 || spec.ty.is_nested() || can_be_inside(spec.ty);
    if !is_inside || depth > NESTING_MAX {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support '{} inside ARRAY, MAP and STRUCT'",
            spec.ty
        );
    }
    let names = || spec.elements.iter().map(|element| element.name.to_lowercase());
    let mut known = HashSet::new();
    if spec.ty == ColumnType::Struct
        && let Some(name) = names().find(|name| !known.insert(name.clone()))
    {
        bail!(DuplicateColumn, "Duplicate field name '{name}' in a STRUCT");
    }
    let elements = spec.elements.iter().map(|element| column(element, depth + 1));
    Ok(Column {
        non_negative: spec.non_negative,
        length_unit: LengthUnit::Characters,
        elements: elements.collect::<Outcome<Vec<_>>>()?.into(),
        ..Column::new(ColumnId(0), spec.name.to_lowercase(), spec.ty)
    })
}

fn type_of(_: &[&DataType], literals: &[Option<&ScalarValue>]) -> Result<DataType> {
    let written = literals[1].and_then(|written| written.try_as_str().flatten());
    let written = written.ok_or_else(|| external(err!(Internal, "a CAST without its type")))?;
    column_of(written).map(|column| nested::query_type(&column)).map_err(external)
}

/// What is no value of the type becomes NULL.
fn read(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    if arrays[0].is_empty() {
        return Ok(new_null_array(ty, 0));
    }
    let written = convert::text(&arrays[1].slice(0, 1))?;
    let column = column_of(written.value(0)).map_err(external)?;
    let texts = convert::text(&arrays[0])?;
    let values = nested::arrays_or_null(&column, &texts);
    values.map_err(|what| external(err!(WrongArguments, "{what}")))
}
