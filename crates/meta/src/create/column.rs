//! Validation of a column.

use freshet_base::{ColumnId, Result, bail};
use freshet_schema::sketch::SketchKind;
use freshet_schema::value;
use freshet_schema::{
    CHECK_BYTES_MAX, Collation, Column, ColumnType, DefaultValue, LengthUnit, LobSize, Rules,
    TableForm,
};

use super::collation::of_column;
use super::sizes::check_type;
use super::{check_comment, check_written, labels, nested};
use crate::names;
use crate::spec::{ColumnSpec, DefaultSpec};

/// The column for the specification `written`, with this id; `collation` is that of texts that name
/// none.
pub(crate) fn column(
    written: &ColumnSpec,
    id: ColumnId,
    form: TableForm,
    collation: Collation,
) -> Result<Column> {
    names::check_column(&written.name)?;
    check_comment(&written.comment, &format!("column '{}'", written.name))?;
    check_type(&written.name, written.ty)?;
    check_written(written, form)?;
    let collation = of_column(written, form, collation);
    labels::check(written, collation)?;
    let mut column = Column {
        non_negative: written.non_negative,
        nullable: written.nullable,
        comment: written.comment.clone(),
        collation,
        length_unit: match form {
            TableForm::Olap => LengthUnit::Bytes,
            TableForm::MySql => LengthUnit::Characters,
        },
        aggregate: written.aggregate,
        on_update_now: written.on_update_now,
        labels: written.labels.as_slice().into(),
        elements: nested::elements(written, form)?,
        lob_size: match (form, written.ty) {
            (TableForm::MySql, ColumnType::Text | ColumnType::Blob) => written.lob_size,
            _ => LobSize::Plain,
        },
        ..Column::new(id, &written.name, written.ty)
    };
    if let Some(kind) = column.ty.sketch() {
        check_sketch(&column, form)?;
        // As in Doris, where what is joined is at least empty.
        column.nullable &= column.aggregate.is_none() && kind == SketchKind::Bitmap;
    }
    column.keyed_by_weights = column.ty.is_collated() && !column.collation.is_by_bytes();
    column.default = new_default(&written.default, &column)?;
    check_on_update(&column)?;
    if written.auto_increment {
        check_generated(written)?;
        column.auto_increment = Some(1);
    }
    if let DefaultSpec::Computed { before, .. } = &written.default {
        column.before.clone_from(before);
    }
    if matches!(column.ty, ColumnType::Enum { .. }) && !column.nullable && column.default.is_none()
    {
        column.before = column.labels.first().cloned();
    }
    if column.ty.is_nested() && !column.nullable && column.default.is_none() {
        column.before = Some(value::nested::empty(&column));
    }
    Ok(column)
}

impl ColumnSpec {
    /// The column of a table of this form and collation, without an id.
    ///
    /// # Errors
    /// Those of CREATE TABLE.
    pub fn column(&self, form: TableForm, collation: Collation) -> Result<Column> {
        column(self, ColumnId(0), form, collation)
    }
}

/// Sketches are of tables in the syntax of Doris.
fn check_sketch(column: &Column, form: TableForm) -> Result<()> {
    let Column { name, ty, .. } = column;
    if form != TableForm::Olap {
        bail!(
            NotSupported,
            "column '{name}' of type {ty} wants a table with an AGGREGATE, UNIQUE or DUPLICATE \
             KEY, or DISTRIBUTED BY"
        );
    }
    Ok(())
}

fn check_on_update(column: &Column) -> Result<()> {
    let Column { name, ty, on_update_now, aggregate, .. } = column;
    let is_instant = matches!(ty, ColumnType::DateTime { .. } | ColumnType::Timestamp { .. });
    if *on_update_now && !is_instant {
        bail!(
            InvalidOnUpdate,
            "Invalid ON UPDATE clause for '{name}' column: it is of DATETIME and TIMESTAMP, and \
             not of {ty}"
        );
    }
    if *on_update_now && aggregate.is_some() {
        bail!(
            InvalidOnUpdate,
            "Invalid ON UPDATE clause for '{name}' column: nothing updates a table with an \
             AGGREGATE KEY"
        );
    }
    Ok(())
}

fn check_generated(written: &ColumnSpec) -> Result<()> {
    let ColumnSpec { name, ty, .. } = written;
    if ty.generated_ids().is_none() {
        bail!(
            WrongColumn,
            "Incorrect column specifier for column '{name}': AUTO_INCREMENT is of integers up to \
             BIGINT, and not of {ty}"
        );
    }
    if written.default != DefaultSpec::Unset {
        bail!(InvalidDefault, "Invalid default value for '{name}': its values are generated");
    }
    Ok(())
}

/// What a DEFAULT clause gives to a column.
///
/// # Errors
/// 1067 for what the column cannot hold.
pub(crate) fn new_default(written: &DefaultSpec, column: &Column) -> Result<Option<DefaultValue>> {
    let name = &column.name;
    match written {
        DefaultSpec::Unset => Ok(None),
        DefaultSpec::Null if column.nullable => Ok(None),
        DefaultSpec::Null => {
            bail!(InvalidDefault, "Invalid default value for '{name}': it takes no NULL")
        }
        DefaultSpec::Value(value) | DefaultSpec::Computed { default: value, .. } => {
            let value = &default_of(value, column.ty);
            let column = Column { default: Some(value.clone()), ..column.clone() };
            check_default(value, &column)?;
            Ok(column.default)
        }
    }
}

/// A number is the default of a BIT by its bits; texts are by their bytes. 0 is the zero date.
fn default_of(value: &DefaultValue, ty: ColumnType) -> DefaultValue {
    match (value, ty) {
        (DefaultValue::Literal(digits), _) if digits == "0" && ty.is_temporal() => {
            DefaultValue::Literal("0000-00-00 00:00:00".to_owned())
        }
        (DefaultValue::Literal(digits), ColumnType::Bit { .. }) => match digits.parse::<u64>() {
            Ok(number) => DefaultValue::Bits(format!("{number:X}")),
            Err(_) => value.clone(),
        },
        _ => value.clone(),
    }
}

fn is_taken(column: &Column) -> bool {
    value::put_default(column, 0, &Rules::default(), &mut Vec::new()).is_ok()
}

/// Whether a column may have an expression as its default, whatever the value is.
fn check_expression(text: &str, column: &Column) -> Result<()> {
    let Column { name, ty, .. } = column;
    if ty.sketch().is_some() || ty.is_nested() {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'expressions as defaults of type {ty}': \
             column '{name}'"
        );
    }
    if text.len() > CHECK_BYTES_MAX {
        bail!(
            TooLong,
            "The default of column '{name}' has {} bytes, limit {CHECK_BYTES_MAX}",
            text.len()
        );
    }
    Ok(())
}

/// Checks that the column can hold its default.
fn check_default(value: &DefaultValue, column: &Column) -> Result<()> {
    let (fits, shown) = match value {
        DefaultValue::CurrentTimestamp => {
            let of_time =
                matches!(column.ty, ColumnType::DateTime { .. } | ColumnType::Timestamp { .. });
            (of_time, "CURRENT_TIMESTAMP".to_owned())
        }
        DefaultValue::CurrentDate => (column.ty == ColumnType::Date, "CURRENT_DATE".to_owned()),
        DefaultValue::Literal(text) => (is_taken(column), format!("'{text}'")),
        DefaultValue::Bits(digits) => (is_taken(column), format!("0x{digits}")),
        DefaultValue::Expression(text) => return check_expression(text, column),
    };
    if !fits {
        let (name, ty) = (&column.name, column.type_text());
        bail!(InvalidDefault, "Invalid default value for '{name}': {ty} cannot hold {shown}");
    }
    Ok(())
}
