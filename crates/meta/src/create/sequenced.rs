//! The sequence column of a table with a UNIQUE KEY (RFC 0032).

use freshet_base::{ColumnId, Result, bail, err};
use freshet_schema::{COLUMNS_MAX, Column, ColumnType, FSP_MAX, KeyModel, hidden_columns};

use crate::properties::{SEQUENCE_COL, SEQUENCE_TYPE};
use crate::spec::TableSpec;

/// The sequence column that the properties ask for, once the hidden columns stand behind the
/// others.
///
/// # Errors
/// In the words of Doris, for a column that there is none and types that are none.
pub(super) fn of_table(
    spec: &TableSpec,
    model: KeyModel,
    columns: &mut Vec<Column>,
) -> Result<Option<ColumnId>> {
    // Tables of other models have no such properties.
    if model != KeyModel::Unique {
        return Ok(None);
    }
    let property = |key: &str| {
        let mut pairs = spec.properties.iter().rev();
        pairs.find(|(known, _)| known == key).map(|(_, value)| value.trim())
    };
    let (by, ty) = match (property(SEQUENCE_COL), property(SEQUENCE_TYPE)) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => bail!(
            Unknown,
            "{SEQUENCE_COL} and {SEQUENCE_TYPE} can not be both: the one names a column of the \
             table, the other makes a hidden one"
        ),
        (Some(name), None) => (Some(of_column(name, columns)?), None),
        (None, Some(text)) => (None, Some(named_type(text)?)),
    };
    let first = columns.iter().map(|column| column.id).max().expect("a table has columns").next();
    columns.extend(hidden_columns(first, ty));
    check_count(&spec.name, columns)?;
    Ok(Some(by.unwrap_or(first)))
}

/// Checks that a table has not too many columns with the hidden ones.
///
/// # Errors
/// If it has.
pub(crate) fn check_count(table: &str, columns: &[Column]) -> Result<()> {
    if columns.len() > COLUMNS_MAX {
        bail!(
            Unknown,
            "Too many columns: table '{table}' has {} with those of its sequence, limit \
             {COLUMNS_MAX}",
            columns.len()
        );
    }
    Ok(())
}

/// The type of a hidden sequence column.
///
/// # Errors
/// For a text that names none.
pub(crate) fn named_type(text: &str) -> Result<ColumnType> {
    sequence_type(text).ok_or_else(|| {
        err!(
            Unknown,
            "Sequence type only support integer types and date types, {SEQUENCE_TYPE} is '{text}'"
        )
    })
}

fn of_column(name: &str, columns: &[Column]) -> Result<ColumnId> {
    let Some(at) = super::position(columns, name) else {
        bail!(Unknown, "The specified sequence column[{name}] not exists");
    };
    let column = &columns[at];
    if !column.ty.is_sequence() {
        bail!(
            Unknown,
            "Sequence type only support integer types and date types, column[{}] is {}",
            column.name,
            column.ty
        );
    }
    if column.generated.is_some() {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'a generated sequence column': '{}'",
            column.name
        );
    }
    Ok(column.id)
}

/// The type that a text names, as Doris writes it: `int`, `DATEV2`, `datetime(3)`.
fn sequence_type(text: &str) -> Option<ColumnType> {
    let text = text.to_ascii_lowercase();
    let (name, digits) = match text.split_once('(') {
        None => (text.as_str(), None),
        Some((name, rest)) => (name.trim(), Some(rest.strip_suffix(')')?.trim().parse().ok()?)),
    };
    let unsigned = false;
    let ty = match name {
        "tinyint" => ColumnType::TinyInt { unsigned },
        "smallint" => ColumnType::SmallInt { unsigned },
        "int" | "integer" => ColumnType::Int { unsigned },
        "bigint" => ColumnType::BigInt { unsigned },
        "largeint" => ColumnType::LargeInt,
        "date" | "datev2" => ColumnType::Date,
        "datetime" | "datetimev2" => {
            let fsp = digits.unwrap_or(0);
            return (fsp <= FSP_MAX).then_some(ColumnType::DateTime { fsp });
        }
        _ => return None,
    };
    // The width of what is shown, which says nothing.
    (digits.is_none() || ty != ColumnType::Date).then_some(ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_in_doris() {
        let int = ColumnType::Int { unsigned: false };
        let named = [
            ("int", Some(int)),
            ("INT(11)", Some(int)),
            ("Date", Some(ColumnType::Date)),
            ("datetime", Some(ColumnType::DateTime { fsp: 0 })),
            ("DATETIMEV2(6)", Some(ColumnType::DateTime { fsp: 6 })),
            ("datetime(7)", None),
            ("varchar(10)", None),
            ("double", None),
            ("int(", None),
            ("", None),
        ];
        for (text, ty) in named {
            assert_eq!(sequence_type(text), ty, "{text}");
        }
    }
}
