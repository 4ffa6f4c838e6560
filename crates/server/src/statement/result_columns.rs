//! The columns of a table or view that hold what a query returns.

use freshet_meta::ColumnSpec;
use freshet_query::origin::flags;
use freshet_query::result::{ResultColumn, ResultType};
use freshet_schema::{CHAR_LEN_MAX, Collation, ColumnType};

use super::nested;

/// The column of a table or view that has the values of a result column.
pub fn column_spec(column: &ResultColumn) -> ColumnSpec {
    let unsigned = column.flags & flags::UNSIGNED != 0;
    if let Some(ty) = &column.nested {
        let nullable = column.flags & flags::NOT_NULL == 0;
        return ColumnSpec { nullable, ..nested::spec(&column.name, ty) };
    }
    let characters = (column.length / 4).clamp(1, 65_533);
    let fsp = column.decimals.min(6);
    let ty = match column.ty {
        ResultType::Tiny if column.length == 1 => ColumnType::Boolean,
        ResultType::Tiny => ColumnType::TinyInt { unsigned },
        ResultType::Short => ColumnType::SmallInt { unsigned },
        ResultType::Int24 => ColumnType::MediumInt { unsigned },
        ResultType::Long => ColumnType::Int { unsigned },
        ResultType::LongLong => ColumnType::BigInt { unsigned },
        ResultType::Float => ColumnType::Float,
        ResultType::Double => ColumnType::Double,
        ResultType::Decimal => {
            let marks = if column.decimals > 0 { 2 } else { 1 };
            let precision = column.length.saturating_sub(marks).clamp(1, 38);
            ColumnType::Decimal { precision: precision as u8, scale: column.decimals }
        }
        ResultType::Date => ColumnType::Date,
        ResultType::DateTime => ColumnType::DateTime { fsp },
        ResultType::Timestamp => ColumnType::Timestamp { fsp },
        ResultType::Time => ColumnType::Time { fsp },
        ResultType::Year => ColumnType::Year,
        ResultType::Bit => ColumnType::Bit { len: column.length.clamp(1, 64) as u8 },
        ResultType::Json => ColumnType::Json,
        ResultType::Blob if column.binary => ColumnType::Blob,
        ResultType::VarString if column.binary => {
            ColumnType::VarBinary { len: column.length.clamp(1, 65_533) }
        }
        ResultType::String if column.binary => {
            ColumnType::Binary { len: column.length.min(CHAR_LEN_MAX) }
        }
        ResultType::VarString if !column.org_name.is_empty() => {
            ColumnType::VarChar { len: characters }
        }
        // Those of an expression, and of a view, which has no list.
        ResultType::String if column.flags & (flags::ENUM | flags::SET) != 0 => {
            ColumnType::VarChar { len: characters }
        }
        ResultType::String => ColumnType::Char { len: characters.min(255) },
        ResultType::Blob | ResultType::VarString | ResultType::Null => ColumnType::Text,
    };
    let nullable = column.flags & flags::NOT_NULL == 0;
    let collation = column.derived.filter(|_| ty.is_text() && !ty.is_document());
    let collation = collation.map(|derived| match derived.collation {
        Collation::Binary => Collation::Utf8mb4Bin,
        collation => collation,
    });
    ColumnSpec { nullable, collation, ..ColumnSpec::new(&column.name, ty) }
}
