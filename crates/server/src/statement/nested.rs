//! The types of nested values of queries as those of columns.

use arrow::datatypes::DataType;
use freshet_meta::ColumnSpec;
use freshet_schema::{ColumnType, DECIMAL_PRECISION_MAX};

/// The column of CREATE TABLE .. AS SELECT for values of this type.
pub fn spec(name: &str, ty: &DataType) -> ColumnSpec {
    let inside = |elements: Vec<ColumnSpec>, ty| {
        let spec = ColumnSpec::new(name, ty);
        ColumnSpec { elements, ..spec }
    };
    match ty {
        DataType::List(item) => inside(vec![spec("", item.data_type())], ColumnType::Array),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let both = fields.iter().map(|field| spec("", field.data_type()));
                inside(both.collect(), ColumnType::Map)
            }
            _ => ColumnSpec::new(name, ColumnType::Text),
        },
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| spec(field.name(), field.data_type()));
            inside(fields.collect(), ColumnType::Struct)
        }
        scalar => ColumnSpec::new(name, scalar_type(scalar)),
    }
}

fn scalar_type(ty: &DataType) -> ColumnType {
    let unsigned = ty.is_unsigned_integer();
    match ty {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Int8 | DataType::UInt8 => ColumnType::TinyInt { unsigned },
        DataType::Int16 | DataType::UInt16 => ColumnType::SmallInt { unsigned },
        DataType::Int32 | DataType::UInt32 => ColumnType::Int { unsigned },
        DataType::Int64 | DataType::UInt64 => ColumnType::BigInt { unsigned },
        DataType::Float32 => ColumnType::Float,
        DataType::Float64 => ColumnType::Double,
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            let precision = (*precision).min(DECIMAL_PRECISION_MAX);
            ColumnType::Decimal { precision, scale: scale.unsigned_abs() }
        }
        DataType::Decimal256(_, 0) => ColumnType::LargeInt,
        DataType::Date32 => ColumnType::Date,
        DataType::Timestamp(..) => ColumnType::DateTime { fsp: 6 },
        _ => ColumnType::Text,
    }
}
