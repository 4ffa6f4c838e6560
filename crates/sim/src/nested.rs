//! Columns whose values consist of values: each is made of a number, so that another one, or a text
//! that is cut or mixed up, is detected.

use std::fmt::Write;

use arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use freshet_meta::ColumnSpec;
use freshet_schema::ColumnType;

const INT: ColumnType = ColumnType::Int { unsigned: false };

/// What texts in values are cut from, to different lengths.
const LETTERS: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

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
    let mut text = String::new();
    show(ty, number, &mut text);
    text
}

/// Writes what [`shown`] gives to the end of `out`.
fn show(ty: ColumnType, number: i32, out: &mut String) {
    let many = &LETTERS[..number.unsigned_abs() as usize % LETTERS.len()];
    let written = match ty {
        ColumnType::Array => write!(out, "[{number}, null, {number}]"),
        ColumnType::Map => write!(out, "{{\"k\":{number}, \"l\":null}}"),
        ColumnType::Struct => write!(out, "{{\"a\":{number}, \"b\":\"{many}\"}}"),
        ColumnType::Variant => write!(out, "{{\"v\": {number}, \"w\": [\"{many}\"]}}"),
        _ => write!(out, "{number}"),
    };
    written.expect("a text takes all that is written to it");
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
    let mut whole = String::new();
    let mut number = |text: &str| {
        let digits = text.trim_start_matches(|sign: char| !sign.is_ascii_digit());
        let end = digits.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(digits.len());
        let number = digits[..end].parse().expect("a value has a number");
        whole.clear();
        show(ty, number, &mut whole);
        assert_eq!(text, whole, "a value is whole");
        number
    };
    let texts = as_type(DataType::Utf8View);
    texts.as_string_view().iter().map(|text| text.map(&mut number)).collect()
}
