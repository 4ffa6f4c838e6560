//! Values of ARRAY, MAP and STRUCT columns (RFC 0035).
//!
//! A row has such a value as its text, in the one form that `put` gives it: `[1, 2]`,
//! `{"k":1}`, `{"a":1, "b":"x"}`. Queries get it as a nested array of Arrow, by [`arrays`], and
//! show that by [`Shown`], in the same form: what is shown can be stored again, and is the same
//! bytes then.
//!
//! The text is parsed by its type, so no value nests deeper than its column allows.

mod arrays;
mod parse;
mod show;

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};

use crate::row::{Put, put_bytes};
use crate::value::bad::BadNested;
use crate::{BadValue, Column, ColumnType, Rules, TEXT_BYTES_MAX};

pub use arrays::{arrays, arrays_or_null};
pub use show::Shown;

/// How deep types may stand in one another, as in Doris.
pub const NESTING_MAX: usize = 9;
/// The maximum number of types inside a column's type.
pub const ELEMENTS_OF_TYPE_MAX: usize = 1_000;
/// The maximum number of values in a value, as in Doris.
pub const ELEMENTS_MAX: usize = 1_000_000;

/// The names of what an ARRAY and a MAP consist of.
pub const ITEM: &str = "item";
pub const KEY: &str = "key";
pub const VALUE: &str = "value";

/// Why a nested value cannot be stored.
pub(crate) type Bad = Box<BadNested>;

/// Whether a scalar type can stand inside ARRAY, MAP and STRUCT.
pub const fn can_be_inside(ty: ColumnType) -> bool {
    use ColumnType as T;
    match ty {
        T::Timestamp { .. } | T::Time { .. } | T::Year | T::Bit { .. } => false,
        T::Binary { .. } | T::VarBinary { .. } | T::Blob | T::Enum { .. } | T::Set { .. } => false,
        _ => !ty.is_json() && ty.sketch().is_none(),
    }
}

/// The type as SHOW prints it: `map<varchar(10),array<int>>`.
pub(crate) fn type_text(column: &Column) -> String {
    let mut text = column.ty.to_string();
    for (at, element) in column.elements.iter().enumerate() {
        text.push(if at == 0 { '<' } else { ',' });
        if column.ty == ColumnType::Struct {
            text.push_str(&field_name(&element.name));
            text.push(':');
        }
        text.push_str(&match element.ty {
            ColumnType::Boolean => "boolean".to_owned(),
            _ => element.type_text(),
        });
    }
    text.push('>');
    text
}

/// The name of a field as it is written in a type: in backquotes, where it is no word.
fn field_name(name: &str) -> Cow<'_, str> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_word = name.chars().all(is_of_word) && !name.starts_with(|c: char| c.is_numeric());
    match is_word {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("`{}`", name.replace('`', "``"))),
    }
}

/// The type of a column in queries; its own of what is not nested.
pub fn query_type(column: &Column) -> DataType {
    match (column.ty, &*column.elements) {
        (ColumnType::Array, [item]) => DataType::List(field(item, ITEM, true)),
        (ColumnType::Map, [key, value]) => {
            let entries = Fields::from(vec![field(key, KEY, false), field(value, VALUE, true)]);
            let entries = Field::new("entries", DataType::Struct(entries), false);
            DataType::Map(Arc::new(entries), false)
        }
        (ColumnType::Struct, elements) => {
            let fields = elements.iter().map(|element| field(element, &element.name, true));
            DataType::Struct(fields.collect())
        }
        _ => column.ty.arrow(),
    }
}

fn field(element: &Column, name: &str, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, query_type(element), nullable))
}

/// Appends the cell of a text.
pub(crate) fn put(
    column: &Column,
    text: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let Ok(text) = std::str::from_utf8(text) else { return Err(BadValue::NotUtf8) };
    let Some(value) = parse::parse(column, text, rules).map_err(BadValue::NotNested)? else {
        return if column.nullable { Ok(Put::Null) } else { Err(BadValue::Null) };
    };
    let mut normal = Vec::with_capacity(text.len() + text.len() / 8);
    value.write(column, &mut normal);
    let limit = TEXT_BYTES_MAX as usize;
    if normal.len() > limit {
        return Err(BadValue::too_long(normal.len(), limit));
    }
    put_bytes(out, &normal);
    Ok(Put::Value)
}

/// The value that stands for none in a NOT NULL column without default.
pub fn empty(column: &Column) -> String {
    let text = if column.ty == ColumnType::Array { "[]" } else { "{}" };
    let value = parse::parse(column, text, &Rules::default());
    let mut normal = Vec::new();
    if let Ok(Some(value)) = value {
        value.write(column, &mut normal);
    }
    String::from_utf8(normal).expect("values are written as text")
}

#[cfg(test)]
mod tests;
