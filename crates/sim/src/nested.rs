//! Columns whose values consist of values: each is made of a number, so that another one, or a text
//! that is cut or mixed up, is detected.

use arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use freshet_meta::ColumnSpec;
use freshet_schema::ColumnType;

const INT: ColumnType = ColumnType::Int { unsigned: false };

/// Whether a table with this name has such columns from its start.
pub fn is_in(table: &str) -> bool {
    matches!(table, "t1" | "s0" | "p1")
}

/// The type of a column by the number in its name, and what that consists of.
pub fn type_of(column: &str) -> (ColumnType, Vec<ColumnSpec>) {
    let number = column.trim_start_matches('c').parse::<u32>().unwrap_or(0);
    match number % 8 {
        1 => (ColumnType::Array, vec![ColumnSpec::new("", INT)]),
        2 => {
            let key = ColumnSpec::new("", ColumnType::VarChar { len: 9 });
            (ColumnType::Map, vec![key, ColumnSpec::new("", INT)])
        }
        3 => {
            let text = ColumnSpec::new("b", ColumnType::Text);
            (ColumnType::Struct, vec![ColumnSpec::new("a", INT), text])
        }
        4 => (ColumnType::Variant, Vec::new()),
        _ => (INT, Vec::new()),
    }
}

/// The value of a number, as it is stored.
pub fn shown(ty: ColumnType, number: i32) -> String {
    let many = "x".repeat(number.unsigned_abs() as usize % 40);
    match ty {
        ColumnType::Array => format!("[{number}, null, {number}]"),
        ColumnType::Map => format!("{{\"k\":{number}, \"l\":null}}"),
        ColumnType::Struct => format!("{{\"a\":{number}, \"b\":\"{many}\"}}"),
        ColumnType::Variant => format!("{{\"v\": {number}, \"w\": [\"{many}\"]}}"),
        _ => number.to_string(),
    }
}

fn is_made(ty: ColumnType) -> bool {
    ty.is_nested() || ty.is_json()
}

/// The cells of numbers, in a column of a type.
pub fn cells(ty: ColumnType, numbers: &Int32Array) -> ArrayRef {
    if !is_made(ty) {
        return cast(numbers, &ty.arrow()).expect("numbers are taken by every type");
    }
    let texts = numbers.iter().map(|number| number.map(|number| shown(ty, number)));
    let texts = texts.collect::<StringViewArray>();
    cast(&texts, &ty.arrow()).expect("such a value is a text")
}

/// The numbers of cells.
///
/// # Panics
/// When a cell is none that [`cells`] makes.
pub fn numbers(ty: ColumnType, cells: &ArrayRef) -> Int32Array {
    let as_type = |wanted| cast(cells, &wanted).expect("cells are numbers, or made of them");
    if !is_made(ty) {
        return as_type(DataType::Int32).as_primitive::<Int32Type>().clone();
    }
    let number = |text: &str| {
        let digits = text.trim_start_matches(|sign: char| !sign.is_ascii_digit());
        let end = digits.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(digits.len());
        let number = digits[..end].parse().expect("a value has a number");
        assert_eq!(text, shown(ty, number), "a value is whole");
        number
    };
    as_type(DataType::Utf8View).as_string_view().iter().map(|text| text.map(number)).collect()
}
