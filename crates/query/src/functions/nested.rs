//! Functions of ARRAY, MAP, STRUCT and VARIANT that DataFusion lacks, or has with another meaning.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, ListArray,
    StringViewArray, StructArray, UInt32Array, make_comparator, new_empty_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast, sum, take};
use arrow::datatypes::{DataType, Decimal128Type, Field, Fields, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Operator, ScalarUDF, binary_expr};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use freshet_base::err;
use freshet_schema::nested::{ITEM, KEY, VALUE};
use serde_json::Value;

use super::json_text::print;
use super::vector::Vector;
use crate::convert;
use crate::error::external;

/// `element_at(container, key)`, for which `container[key]` stands.
pub const ELEMENT_AT: &str = "element_at";
/// `mysql_elements(array)`: what EXPLODE takes.
pub const ELEMENTS: &str = "mysql_elements";
/// `mysql_entries(map)`: an array of its keys and values.
pub const ENTRIES: &str = "mysql_entries";
/// `mysql_positions(array)`: an array of its elements and their places, from 0 on.
pub const POSITIONS: &str = "mysql_positions";
/// The field that has the place.
pub const POSITION: &str = "pos";

pub fn all() -> Vec<ScalarUDF> {
    vec![
        Vector::udf(ELEMENT_AT, (2, 2), element_type, element_at),
        Vector::udf("struct_element", (2, 2), element_type, element_at),
        Vector::udf("array_size", (1, 1), size_type, size),
        Vector::udf("array_slice", (2, 3), slice_type, slice),
        Vector::udf("array_sum", (1, 1), sum_type, total),
        Vector::udf(ELEMENTS, (1, 1), elements_type, elements),
        Vector::udf(ENTRIES, (1, 1), entries_type, entries),
        Vector::udf(POSITIONS, (1, 1), positions_type, positions),
    ]
}

/// Plans `left op right` of which one is nested: what is of one kind may be equal, and no more.
///
/// # Errors
/// For other operators, and for operands that cannot be compared.
pub fn compared(
    expr: RawBinaryExpr,
    (left, right): (&DataType, &DataType),
) -> Result<PlannerResult<RawBinaryExpr>> {
    let op = match expr.op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Spaceship => Operator::IsNotDistinctFrom,
        other => {
            return Err(external(err!(
                NotSupported,
                "This version of Freshet doesn't yet support '{other} between values of type {} \
                 and {}'",
                name_of(left),
                name_of(right)
            )));
        }
    };
    let is_null = |ty: &DataType| *ty == DataType::Null;
    let is_of_kind = std::mem::discriminant(left) == std::mem::discriminant(right);
    if !is_null(left) && !is_null(right) && !is_of_kind || has_map(left) || has_map(right) {
        return Err(external(err!(
            NotSupported,
            "This version of Freshet doesn't yet support 'comparison of {} and {}'; compare \
             elements, or CAST(.. AS CHAR) of both",
            name_of(left),
            name_of(right)
        )));
    }
    Ok(PlannerResult::Planned(binary_expr(expr.left, op, expr.right)))
}

/// # Errors
/// When one of the types has no order: `operation` needs one.
pub fn check_ordered(operation: &str, types: &[DataType]) -> Result<()> {
    match types.iter().find(|ty| ty.is_nested()) {
        Some(ty) => Err(external(err!(
            NotSupported,
            "This version of Freshet doesn't yet support '{operation} of values of type {}'; \
             compare elements",
            name_of(ty)
        ))),
        None => Ok(()),
    }
}

/// # Errors
/// When the first value cannot be equal to the others as one of its type.
pub fn check_alike(operation: &str, types: &[DataType]) -> Result<()> {
    let is_null = |ty: &&DataType| **ty == DataType::Null;
    let kinds = types.iter().filter(|ty| !is_null(ty)).collect::<Vec<_>>();
    let is_of_kind = |ty: &&&DataType| {
        std::mem::discriminant(**ty) == std::mem::discriminant(kinds[0]) && !has_map(ty)
    };
    if !kinds.iter().any(|ty| ty.is_nested()) || kinds.iter().all(|ty| is_of_kind(&ty)) {
        return Ok(());
    }
    let other = kinds.iter().find(|ty| !is_of_kind(ty)).unwrap_or(&kinds[0]);
    Err(external(err!(
        NotSupported,
        "This version of Freshet doesn't yet support '{operation} of {} and {}'; compare elements, \
         or CAST(.. AS CHAR) of both",
        name_of(kinds[0]),
        name_of(other)
    )))
}

/// The name of a type in messages.
pub fn name_of(ty: &DataType) -> String {
    match ty {
        DataType::List(item) => format!("array<{}>", name_of(item.data_type())),
        DataType::Map(..) => "map".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Decimal256(..) => "largeint".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "datetime".to_owned(),
        ty if convert::is_text(ty) => "text".to_owned(),
        ty => ty.to_string().to_lowercase(),
    }
}

/// Whether a type is or has a MAP, whose values have no order.
pub fn has_map(ty: &DataType) -> bool {
    match ty {
        DataType::Map(..) => true,
        DataType::List(item) => has_map(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        _ => false,
    }
}

fn refused<T>(function: &str, ty: &DataType) -> Result<T> {
    Err(external(err!(
        WrongArguments,
        "Incorrect arguments to {function}: it is not of values of type {}",
        name_of(ty)
    )))
}

/// The type of a field of a STRUCT, by its name or its place from 1 on.
fn field_type(fields: &Fields, wanted: Option<&ScalarValue>) -> Result<DataType> {
    let text = match wanted {
        Some(ScalarValue::Int64(Some(place))) => place.to_string(),
        Some(name) => name.try_as_str().flatten().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    match place_of(fields, &text) {
        Some(at) => Ok(fields[at].data_type().clone()),
        None => {
            let names = fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
            Err(external(err!(
                WrongArguments,
                "a STRUCT has no field '{text}', but {}; the name is a literal",
                names.join(", ")
            )))
        }
    }
}

fn place_of(fields: &Fields, wanted: &str) -> Option<usize> {
    let by_place = wanted.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
    by_place
        .filter(|at| *at < fields.len())
        .or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(wanted)))
}

fn element_type(types: &[&DataType], literals: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types[0] {
        DataType::List(item) => Ok(item.data_type().clone()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => Ok(fields[1].data_type().clone()),
            other => refused("subscripts", other),
        },
        DataType::Struct(fields) => field_type(fields, literals[1]),
        ty if convert::is_text(ty) && types[1].is_numeric() => Err(external(err!(
            NotSupported,
            "This version of Freshet doesn't yet support 'numbers as subscripts of JSON and \
             VARIANT'; use JSON_EXTRACT(value, '$[0]')"
        ))),
        ty if convert::is_text(ty) || *ty == DataType::Null => Ok(DataType::Utf8View),
        ty => refused("subscripts", ty),
    }
}

/// The ends of the values of a row inside those of its column.
fn ends(offsets: &[i32], row: usize) -> Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

fn element_at(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let (container, key) = (&arrays[0], &arrays[1]);
    match container.data_type() {
        DataType::List(_) => {
            let list = container.as_list::<i32>();
            let places = match key.data_type() {
                // What is too large is no place.
                DataType::UInt64 => cast(key, &DataType::Int64)?.as_primitive().clone(),
                _ => convert::int(key)?,
            };
            let element = |row: usize| {
                let inside = ends(list.value_offsets(), row);
                let place = (list.is_valid(row) && places.is_valid(row)).then(|| places.value(row));
                let at = match usize::try_from(place?.unsigned_abs()).ok()? {
                    0 => return None,
                    back if place < Some(0) => inside.end.checked_sub(back)?,
                    place => inside.start.checked_add(place - 1)?,
                };
                inside.contains(&at).then_some(at as u32)
            };
            let found = (0..list.len()).map(element).collect::<UInt32Array>();
            Ok(take(list.values(), &found, None)?)
        }
        DataType::Map(..) => {
            let map = container.as_map();
            let wanted = cast(key, map.keys().data_type())?;
            let compare = make_comparator(map.keys(), &wanted, SortOptions::default())?;
            let element = |row: usize| {
                let mut inside = ends(map.value_offsets(), row);
                let is_asked = map.is_valid(row) && wanted.is_valid(row);
                inside.find(|at| is_asked && compare(*at, row).is_eq()).map(|at| at as u32)
            };
            let found = (0..map.len()).map(element).collect::<UInt32Array>();
            Ok(take(map.values(), &found, None)?)
        }
        DataType::Struct(_) if container.is_empty() => Ok(new_empty_array(ty)),
        DataType::Struct(fields) => {
            let name = convert::text(&key.slice(0, 1))?;
            let at = place_of(fields, name.value(0)).expect("the type knows the field");
            // A field of NULL is NULL, whatever stands below.
            let rows =
                (0..container.len()).map(|row| container.is_valid(row).then_some(row as u32));
            let rows = rows.collect::<UInt32Array>();
            Ok(take(container.as_struct().column(at), &rows, None)?)
        }
        _ => {
            let (documents, keys) = (convert::text(container)?, convert::text(key)?);
            let members = documents.iter().zip(&keys).map(|(document, key)| {
                let document = serde_json::from_str::<Value>(document?).ok()?;
                member(&document, key?)
            });
            Ok(Arc::new(members.collect::<StringViewArray>()))
        }
    }
}

/// The text of a member of a document: that of a string without quotes.
fn member(document: &Value, key: &str) -> Option<String> {
    match document.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => {
            let mut text = String::new();
            print(&mut text, other).ok()?;
            Some(text)
        }
    }
}

fn size_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types[0] {
        DataType::List(_) | DataType::Map(..) | DataType::Null => Ok(DataType::Int64),
        ty => refused("array_size", ty),
    }
}

fn size(arrays: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let offsets = match arrays[0].data_type() {
        DataType::List(_) => arrays[0].as_list::<i32>().value_offsets(),
        DataType::Map(..) => arrays[0].as_map().value_offsets(),
        _ => return Ok(cast(&arrays[0], &DataType::Int64)?),
    };
    let size = |row: usize| arrays[0].is_valid(row).then(|| ends(offsets, row).len() as i64);
    Ok(Arc::new((0..arrays[0].len()).map(size).collect::<Int64Array>()))
}

fn slice_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types[0] {
        DataType::List(_) | DataType::Null => Ok(types[0].clone()),
        ty => refused("array_slice", ty),
    }
}

/// `array_slice(array, from[, length])`: `from` counts from 1, and from the end if it is negative.
fn slice(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let DataType::List(item) = ty else { return Ok(Arc::clone(&arrays[0])) };
    let list = arrays[0].as_list::<i32>();
    let from = convert::int(&arrays[1])?;
    let lengths = arrays.get(2).map(convert::int).transpose()?;
    let (mut places, mut offsets, mut valid) = (Vec::new(), vec![0_i32], Vec::new());
    for row in 0..list.len() {
        let is_known = from.is_valid(row) && lengths.as_ref().is_none_or(|of| of.is_valid(row));
        let is_valid = list.is_valid(row) && is_known;
        valid.push(is_valid);
        if is_valid {
            let inside = ends(list.value_offsets(), row);
            let count = inside.len() as i64;
            let first = match from.value(row) {
                0 => count,
                place if place < 0 => count.saturating_add(place),
                place => place - 1,
            };
            let length = lengths.as_ref().map_or(count, |of| of.value(row).max(0));
            let first = if first < 0 { count } else { first.min(count) };
            let last = first.saturating_add(length).min(count);
            let part = inside.start + first as usize..inside.start + last as usize;
            places.extend(part.map(|at| at as u32));
        }
        offsets.push(places.len() as i32);
    }
    let values = take(list.values(), &UInt32Array::from(places), None)?;
    let (item, offsets) = (Arc::clone(item), OffsetBuffer::new(offsets.into()));
    Ok(Arc::new(ListArray::try_new(item, offsets, values, Some(valid.into()))?))
}

fn elements_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types[0] {
        DataType::List(_) => Ok(types[0].clone()),
        DataType::Null => Ok(DataType::List(Arc::new(Field::new(ITEM, DataType::Null, true)))),
        DataType::Map(..) => Err(external(err!(
            NotSupported,
            "This version of Freshet doesn't yet support 'EXPLODE of a MAP as one column'; write \
             LATERAL VIEW explode_map(..) v AS key, value"
        ))),
        ty => refused("explode", ty),
    }
}

fn elements(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    Ok(match arrays[0].data_type() {
        DataType::List(_) => Arc::clone(&arrays[0]),
        _ => new_null_array(ty, arrays[0].len()),
    })
}

fn list_of(fields: Vec<Field>) -> DataType {
    DataType::List(Arc::new(Field::new(ITEM, DataType::Struct(fields.into()), true)))
}

fn entries_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types[0] {
        DataType::Map(entries, _) => {
            Ok(DataType::List(Arc::new(Field::new(ITEM, entries.data_type().clone(), true))))
        }
        DataType::Null => {
            let field = |name| Field::new(name, DataType::Null, true);
            Ok(list_of(vec![field(KEY), field(VALUE)]))
        }
        ty => refused("explode_map", ty),
    }
}

fn entries(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let (DataType::Map(..), DataType::List(item)) = (arrays[0].data_type(), ty) else {
        return Ok(new_null_array(ty, arrays[0].len()));
    };
    let map = arrays[0].as_map();
    let entries = Arc::new(map.entries().clone());
    let (item, ends) = (Arc::clone(item), map.offsets().clone());
    Ok(Arc::new(ListArray::try_new(item, ends, entries, map.nulls().cloned())?))
}

fn positions_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    let item = match types[0] {
        DataType::List(item) => item.data_type().clone(),
        DataType::Null => DataType::Null,
        ty => return refused("posexplode", ty),
    };
    let place = Field::new(POSITION, DataType::Int64, true);
    Ok(list_of(vec![place, Field::new("col", item, true)]))
}

fn positions(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let (DataType::List(_), DataType::List(item)) = (arrays[0].data_type(), ty) else {
        return Ok(new_null_array(ty, arrays[0].len()));
    };
    let DataType::Struct(fields) = item.data_type() else { return refused("posexplode", ty) };
    let list = arrays[0].as_list::<i32>();
    let mut places = vec![0_i64; list.values().len()];
    for row in 0..list.len() {
        let inside = places[ends(list.value_offsets(), row)].iter_mut();
        inside.zip(0..).for_each(|(place, at)| *place = at);
    }
    let places: ArrayRef = Arc::new(Int64Array::from(places));
    let both = vec![places, Arc::clone(list.values())];
    let values = Arc::new(StructArray::try_new(fields.clone(), both, None)?);
    let (item, ends) = (Arc::clone(item), list.offsets().clone());
    Ok(Arc::new(ListArray::try_new(item, ends, values, list.nulls().cloned())?))
}

fn sum_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types[0] {
        DataType::List(item) => match item.data_type() {
            DataType::Decimal128(_, scale) => Ok(DataType::Decimal128(38, *scale)),
            ty if ty.is_integer() => Ok(DataType::Int64),
            ty if ty.is_numeric() || *ty == DataType::Null => Ok(DataType::Float64),
            ty => refused("array_sum", ty),
        },
        DataType::Null => Ok(DataType::Float64),
        ty => refused("array_sum", ty),
    }
}

fn total(arrays: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let DataType::List(_) = arrays[0].data_type() else { return Ok(cast(&arrays[0], ty)?) };
    let list = arrays[0].as_list::<i32>();
    let values = cast(list.values(), ty)?;
    let rows = (0..list.len()).map(|row| match list.is_valid(row) {
        true => ends(list.value_offsets(), row),
        false => 0..0,
    });
    let part = |inside: Range<usize>| values.slice(inside.start, inside.len());
    Ok(match ty {
        DataType::Int64 => {
            let sums = rows.map(|inside| sum(part(inside).as_primitive::<Int64Type>()));
            Arc::new(sums.collect::<Int64Array>())
        }
        DataType::Float64 => {
            let sums = rows.map(|inside| sum(part(inside).as_primitive::<Float64Type>()));
            Arc::new(sums.collect::<Float64Array>())
        }
        _ => {
            let sums = rows.map(|inside| sum(part(inside).as_primitive::<Decimal128Type>()));
            Arc::new(sums.collect::<Decimal128Array>().with_data_type(ty.clone()))
        }
    })
}
