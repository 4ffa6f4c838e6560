//! What ARRAY, MAP and STRUCT columns consist of.

use std::collections::HashSet;
use std::sync::Arc;

use freshet_base::{ColumnId, Result, bail};
use freshet_schema::value::nested::{
    ELEMENTS_OF_TYPE_MAX, ITEM, KEY, NESTING_MAX, VALUE, can_be_inside,
};
use freshet_schema::{Column, ColumnType, LengthUnit, TableForm};

use super::sizes::check_type;
use crate::names;
use crate::spec::ColumnSpec;

/// The elements of a column as it is written; none of a type that has none.
///
/// # Errors
/// What cannot stand in another type, too many types, and too many in one another.
pub(super) fn elements(written: &ColumnSpec, form: TableForm) -> Result<Arc<[Column]>> {
    let mut left = ELEMENTS_OF_TYPE_MAX;
    inside(written, (&written.name, form), 0, &mut left)
}

fn inside(
    written: &ColumnSpec,
    of: (&str, TableForm),
    depth: usize,
    left: &mut usize,
) -> Result<Arc<[Column]>> {
    if !written.ty.is_nested() {
        return Ok(Arc::default());
    }
    if depth == NESTING_MAX {
        bail!(
            Unknown,
            "Type exceeds the maximum nesting depth of {NESTING_MAX}: column '{}'",
            of.0
        );
    }
    let mut names = HashSet::new();
    let elements = written.elements.iter().enumerate().map(|(at, element)| {
        let name = match written.ty {
            ColumnType::Array => ITEM.to_owned(),
            ColumnType::Map => if at == 0 { KEY } else { VALUE }.to_owned(),
            _ => element.name.to_lowercase(),
        };
        names::check_column(&name)?;
        if !names.insert(name.clone()) {
            bail!(DuplicateColumn, "Duplicate field name '{name}' in column '{}'", of.0);
        }
        check_element(element.ty, of.0)?;
        if written.ty == ColumnType::Map && at == 0 && element.ty.is_nested() {
            bail!(NotSupported, "The keys of a MAP are scalars: column '{}'", of.0);
        }
        if *left == 0 {
            bail!(
                Unknown,
                "Column '{}' consists of too many types, limit {ELEMENTS_OF_TYPE_MAX}",
                of.0
            );
        }
        *left -= 1;
        Ok(Column {
            non_negative: element.non_negative,
            length_unit: match of.1 {
                TableForm::Olap => LengthUnit::Bytes,
                TableForm::MySql => LengthUnit::Characters,
            },
            elements: inside(element, of, depth + 1, left)?,
            ..Column::new(ColumnId(0), name, element.ty)
        })
    });
    elements.collect()
}

/// Refuses a column that no key or index can have.
pub(super) fn check_key(column: &Column) -> Result<()> {
    if column.ty.is_nested() {
        bail!(
            NotSupported,
            "Column '{}' of type {} cannot be in a key or index",
            column.name,
            column.type_text()
        );
    }
    Ok(())
}

fn check_element(ty: ColumnType, column: &str) -> Result<()> {
    check_type(column, ty)?;
    if !can_be_inside(ty) {
        let instead = match ty {
            ColumnType::Timestamp { .. } => "; use DATETIME",
            ColumnType::Json | ColumnType::Variant => "; use STRING, or JSON for the column",
            ColumnType::Enum { .. } | ColumnType::Set { .. } => "; use VARCHAR",
            _ => "",
        };
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support '{ty} inside ARRAY, MAP and STRUCT' \
             (column '{column}'){instead}"
        );
    }
    Ok(())
}
