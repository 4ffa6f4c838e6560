//! `DEFAULT(column)`: what the table says of the column, whatever row is looked at.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility, lit,
};
use freshet_base::err;
use freshet_schema::value::literal_text;
use freshet_schema::{Column, DefaultValue};

use super::udf::{FunctionImpl, Udf, repeated};
use crate::convert;
use crate::error::external;
use crate::origin::ColumnOrigin;

pub const DEFAULT_OF: &str = "mysql_default";

/// The metadata key of a column's default in its field: what follows tells the kinds apart. A
/// column that has none has no such key.
const KEY: &str = "freshet.default";
const NULL: &str = "null";
const COMPUTED: &str = "computed";
const LITERAL: &str = "=";

/// Says in the metadata of a column's field what its default is.
pub fn say(column: &Column, metadata: &mut HashMap<String, String>) {
    let said = match &column.default {
        None if column.nullable => NULL.to_owned(),
        None => return,
        Some(DefaultValue::Literal(text)) => format!("{LITERAL}{}", literal_text(column, text)),
        Some(_) => COMPUTED.to_owned(),
    };
    metadata.insert(KEY.to_owned(), said);
}

/// The literal in a field's metadata; `None` for NULL.
fn literal_of(field: &Field) -> Option<&str> {
    field.metadata().get(KEY)?.strip_prefix(LITERAL)
}

#[derive(Debug)]
struct DefaultOf;

impl FunctionImpl for DefaultOf {
    fn field(&self, _name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let field = &args.arg_fields[0];
        let Some(origin) = ColumnOrigin::decode(field) else {
            return Err(external(err!(
                Syntax,
                "You have an error in your SQL syntax; DEFAULT() is of a column of a table"
            )));
        };
        let column = origin.column;
        match field.metadata().get(KEY) {
            None => Err(external(err!(NoDefault, "Field '{column}' doesn't have a default value"))),
            Some(said) if said == COMPUTED => Err(external(err!(
                NotSupported,
                "DEFAULT({column}) is not supported: its default is computed; write what it \
                 computes"
            ))),
            Some(_) => Ok(field.as_ref().clone().with_nullable(true)),
        }
    }

    /// The literal itself: a plan may lose the metadata of columns that it knows to be constant.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let (_, field) = args[0].to_field(info.schema())?;
        let value = ScalarValue::try_from_array(&value(&field)?, 0)?;
        Ok(ExprSimplifyResult::Simplified(lit(value)))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        repeated(&value(&args.arg_fields[0])?, rows)
    }
}

/// One value.
fn value(field: &Field) -> Result<ArrayRef> {
    let text: ArrayRef = Arc::new(StringViewArray::from(vec![literal_of(field)]));
    Ok(match field.data_type() {
        DataType::Date32 => Arc::new(convert::date(&text)?),
        DataType::Timestamp(..) => Arc::new(convert::datetime(&text)?),
        DataType::Duration(_) => Arc::new(convert::time(&text)?),
        DataType::Decimal128(precision, scale) => convert::decimal(&text, *precision, *scale)?,
        ty => cast(&text, ty)?,
    })
}

pub fn all() -> Vec<ScalarUDF> {
    vec![Udf::scalar(DEFAULT_OF, (1, 1), Volatility::Immutable, DefaultOf)]
}

#[cfg(test)]
mod tests {
    use freshet_base::ColumnId;
    use freshet_schema::ColumnType;

    use super::*;

    fn field(ty: ColumnType, nullable: bool, default: Option<DefaultValue>) -> Field {
        let column = Column { nullable, default, ..Column::new(ColumnId(1), "c", ty) };
        let mut metadata = HashMap::new();
        say(&column, &mut metadata);
        Field::new("c", ty.arrow(), nullable).with_metadata(metadata)
    }

    #[test]
    fn defaults_are_values_of_their_type() {
        let shown = |ty, text: &str| {
            let field = field(ty, true, Some(DefaultValue::Literal(text.to_owned())));
            let value = value(&field).unwrap();
            assert_eq!(value.data_type(), field.data_type());
            convert::text(&value).unwrap().value(0).to_owned()
        };
        assert_eq!(shown(ColumnType::Int { unsigned: false }, "-5"), "-5");
        assert_eq!(shown(ColumnType::Decimal { precision: 5, scale: 2 }, "1.5"), "1.50");
        assert_eq!(shown(ColumnType::Date, "2024-01-02"), "2024-01-02");
        assert_eq!(shown(ColumnType::VarChar { len: 9 }, "=x"), "=x");
        assert_eq!(shown(ColumnType::Boolean, "1"), "1");
    }

    #[test]
    fn columns_without_a_literal_say_why() {
        let int = ColumnType::Int { unsigned: false };
        let said = |nullable, default| field(int, nullable, default).metadata().get(KEY).cloned();
        assert_eq!(said(true, None).as_deref(), Some(NULL));
        assert_eq!(said(false, None), None);
        assert_eq!(said(true, Some(DefaultValue::CurrentDate)).as_deref(), Some(COMPUTED));
        assert!(value(&field(int, true, None)).unwrap().is_null(0));
    }
}
