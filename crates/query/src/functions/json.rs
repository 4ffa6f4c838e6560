use std::fmt;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use serde_json::Value;

use super::json_path::Path;
use super::json_text::{Limited, document, json, parsed, print, print_array, print_text};
use super::row::{Kind, MANY, Out, Row, RowFunction, Source};
use super::{json_schema, json_search};
use crate::interrupt::CancellationTicker;

const T: &[Kind] = &[Kind::Text];

/// An argument as a JSON value: JSON is parsed; text, numbers and booleans become the corresponding
/// value.
fn value(row: &Row<'_>, arg: usize) -> Result<Value> {
    if row.null(arg) {
        return Ok(Value::Null);
    }
    let text = row.text(arg);
    let value = match row.source(arg) {
        Source::Text | Source::Bytes => None,
        Source::Bool => Some(Value::Bool(text == "1")),
        Source::Json | Source::Number => parsed(row, text)?.ok(),
    };
    Ok(value.unwrap_or_else(|| Value::String(text.to_owned())))
}

fn path(row: &Row<'_>, arg: usize) -> Result<Path> {
    Path::parse(row.text(arg))
        .ok_or_else(|| exec_datafusion_err!("Invalid JSON path expression '{}'", row.text(arg)))
}

fn int(value: usize) -> Option<Out> {
    Some(Out::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// `JSON_EXTRACT(document, path, ...)`.
fn extract(row: &Row<'_>) -> Result<Option<Out>> {
    let document = document(row, 0)?;
    let mut many = row.count() > 2;
    let mut out = Limited::of(row);
    let mut found = Vec::new();
    for arg in 1..row.count() {
        let path = path(row, arg)?;
        many |= path.is_wild();
        let here = path.find(&document);
        row.hold_more(size_of_val(&here[..]))?;
        found.extend(here);
    }
    let written = match found.len() {
        0 => return Ok(None),
        1 if !many => print(&mut out, found[0]),
        _ => print_array(&mut out, found.into_iter()),
    };
    Ok(out.out(written))
}

fn unquote(row: &Row<'_>) -> Result<Option<Out>> {
    let text = row.text(0);
    if !text.starts_with('"') {
        return Ok(Some(Out::Text(text.to_owned())));
    }
    Ok(match document(row, 0)? {
        Value::String(inner) => Some(Out::Text(inner)),
        _ => Some(Out::Text(text.to_owned())),
    })
}

/// The part of the document in argument 0 that the optional path in `arg` selects.
fn at_path(row: &Row<'_>, arg: usize) -> Result<Option<Value>> {
    let document = document(row, 0)?;
    if row.count() <= arg {
        return Ok(Some(document));
    }
    Ok(path(row, arg)?.find(&document).first().map(|value| (*value).clone()))
}

fn length(row: &Row<'_>) -> Result<Option<Out>> {
    Ok(at_path(row, 1)?.and_then(|value| match value {
        Value::Array(items) => int(items.len()),
        Value::Object(members) => int(members.len()),
        _ => int(1),
    }))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

fn keys(row: &Row<'_>) -> Result<Option<Out>> {
    Ok(at_path(row, 1)?.and_then(|value| match value {
        Value::Object(members) => {
            let mut keys = members.keys().collect::<Vec<_>>();
            keys.sort_by_key(|key| (key.len(), *key));
            json(row, &keys.into_iter().cloned().collect())
        }
        _ => None,
    }))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "BOOLEAN",
        Value::Number(number) if number.is_f64() => "DOUBLE",
        Value::Number(number) if number.is_i64() => "INTEGER",
        Value::Number(_) => "UNSIGNED INTEGER",
        Value::String(_) => "STRING",
        Value::Array(_) => "ARRAY",
        Value::Object(_) => "OBJECT",
    }
}

/// Whether `target` contains `candidate`, in the sense of JSON_CONTAINS.
fn contains(target: &Value, candidate: &Value, work: &mut CancellationTicker) -> Result<bool> {
    work.done(1)?;
    Ok(match (target, candidate) {
        (Value::Array(items), Value::Array(wanted)) => {
            for wanted in wanted {
                if !any_contains(items, wanted, work)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Array(items), scalar) => any_contains(items, scalar, work)?,
        (Value::Object(members), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                let Some(item) = members.get(key) else { return Ok(false) };
                if !contains(item, wanted, work)? {
                    return Ok(false);
                }
            }
            true
        }
        (a, b) => same(a, b),
    })
}

fn any_contains(items: &[Value], wanted: &Value, work: &mut CancellationTicker) -> Result<bool> {
    for item in items {
        if contains(item, wanted, work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn json_contains(row: &Row<'_>) -> Result<Option<Out>> {
    let candidate = document(row, 1)?;
    let Some(target) = at_path(row, 2)? else { return Ok(None) };
    Ok(Some(Out::Int(contains(&target, &candidate, &mut CancellationTicker::default())?.into())))
}

/// `JSON_CONTAINS_PATH(document, 'one' | 'all', path, ...)`.
fn contains_path(row: &Row<'_>) -> Result<Option<Out>> {
    let document = document(row, 0)?;
    let all = row.text(1).eq_ignore_ascii_case("all");
    let mut found = all;
    for arg in 2..row.count() {
        let here = !path(row, arg)?.find(&document).is_empty();
        found = if all { found && here } else { found || here };
    }
    Ok(Some(Out::Int(found.into())))
}

fn array(row: &Row<'_>) -> Result<Option<Out>> {
    let items = (0..row.count()).map(|arg| value(row, arg)).collect::<Result<_>>()?;
    Ok(json(row, &Value::Array(items)))
}

fn object(row: &Row<'_>) -> Result<Option<Out>> {
    let mut members = serde_json::Map::new();
    for pair in (0..row.count()).step_by(2) {
        if row.null(pair) || pair + 1 == row.count() {
            return Err(exec_datafusion_err!("JSON documents may not contain NULL member names."));
        }
        members.insert(row.text(pair).to_owned(), value(row, pair + 1)?);
    }
    Ok(json(row, &Value::Object(members)))
}

/// `JSON_SET`, `JSON_INSERT` and `JSON_REPLACE`: set the values at paths.
fn change(row: &Row<'_>, insert: bool, replace: bool) -> Result<Option<Out>> {
    each_pair(row, |path, document, value| path.set(document, value, insert, replace))
}

fn remove(row: &Row<'_>) -> Result<Option<Out>> {
    let mut document = document(row, 0)?;
    for arg in 1..row.count() {
        path(row, arg)?.remove(&mut document);
    }
    Ok(json(row, &document))
}

/// `JSON_ARRAY_APPEND` and `JSON_ARRAY_INSERT`: add values to arrays.
fn extend(row: &Row<'_>, put: fn(&Path, &mut Value, Value)) -> Result<Option<Out>> {
    each_pair(row, put)
}

/// Applies `put` to the document for each pair of path and value.
fn each_pair(row: &Row<'_>, put: impl Fn(&Path, &mut Value, Value)) -> Result<Option<Out>> {
    if row.null(0) {
        return Ok(None);
    }
    let mut document = document(row, 0)?;
    for pair in (1..row.count()).step_by(2) {
        if row.null(pair) || pair + 1 == row.count() {
            return Ok(None);
        }
        put(&path(row, pair)?, &mut document, value(row, pair + 1)?);
    }
    Ok(json(row, &document))
}

fn merge(row: &Row<'_>, both: fn(Value, Value) -> Value) -> Result<Option<Out>> {
    let mut merged = document(row, 0)?;
    for arg in 1..row.count() {
        merged = both(merged, document(row, arg)?);
    }
    Ok(json(row, &merged))
}

/// `JSON_MERGE_PATCH`: members of the second document win, and NULL removes (RFC 7396).
fn patched(target: Value, patch: Value) -> Value {
    let Value::Object(changes) = patch else { return patch };
    let mut members = match target {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    for (key, change) in changes {
        if change.is_null() {
            members.remove(&key);
        } else {
            let before = members.remove(&key).unwrap_or(Value::Null);
            members.insert(key, patched(before, change));
        }
    }
    Value::Object(members)
}

/// `JSON_MERGE_PRESERVE`: members with the same key are combined in an array.
fn merged(left: Value, right: Value) -> Value {
    let items = |value| match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    match (left, right) {
        (Value::Object(mut members), Value::Object(others)) => {
            for (key, other) in others {
                let both = match members.remove(&key) {
                    Some(member) => merged(member, other),
                    None => other,
                };
                members.insert(key, both);
            }
            Value::Object(members)
        }
        (left, right) => {
            let mut all = items(left);
            all.extend(items(right));
            Value::Array(all)
        }
    }
}

/// `JSON_OVERLAPS`: whether two documents have a member or an item in common or are equal.
fn overlaps(left: &Value, right: &Value) -> Result<bool> {
    let mut work = CancellationTicker::default();
    Ok(match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().any(|(key, item)| b.get(key).is_some_and(|other| same(item, other)))
        }
        (Value::Array(items), Value::Array(others)) => {
            for item in items {
                work.done(others.len())?;
                if others.iter().any(|other| same(item, other)) {
                    return Ok(true);
                }
            }
            false
        }
        (Value::Array(items), other) | (other, Value::Array(items)) => {
            items.iter().any(|item| same(item, other))
        }
        (a, b) => same(a, b),
    })
}

/// `value MEMBER OF(document)`: whether it is an item of an array, or a document that is none.
fn member_of(row: &Row<'_>) -> Result<Option<Out>> {
    let (wanted, document) = (value(row, 0)?, document(row, 1)?);
    let found = match &document {
        Value::Array(items) => items.iter().any(|item| same(item, &wanted)),
        scalar => same(scalar, &wanted),
    };
    Ok(Some(Out::Int(found.into())))
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// A JSON value as a number: booleans are 1 and 0, strings are converted by their numeric prefix.
fn number(row: &Row<'_>) -> Result<Option<Out>> {
    Ok(match value(row, 0)? {
        Value::Bool(value) => Some(f64::from(u8::from(value))),
        Value::String(text) => Some(crate::convert::number_prefix(&text)),
        Value::Number(number) => number.as_f64(),
        Value::Null => None,
        Value::Array(_) | Value::Object(_) => Some(0.0),
    }
    .map(Out::Double))
}

fn asking() -> Vec<RowFunction> {
    let ask = |name, arity, kind, body| RowFunction::fallible(name, T, arity, kind, body);
    vec![
        ask("json_extract", (2, MANY), Kind::Json, extract),
        ask("json_unquote", (1, 1), Kind::Text, unquote),
        RowFunction::new("json_quote", T, (1, 1), Kind::Text, |row| {
            let mut out = Limited::of(row);
            let written = print_text(&mut out, row.text(0));
            out.out(written)
        }),
        RowFunction::new("json_valid", T, (1, 1), Kind::Int, |row| {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(row.text(0)).is_ok();
            Some(Out::Int(valid.into()))
        }),
        ask("json_length", (1, 2), Kind::Int, length),
        ask("json_depth", (1, 1), Kind::Int, |row| Ok(int(depth(&document(row, 0)?)))),
        ask("json_keys", (1, 2), Kind::Json, keys),
        ask("json_type", (1, 1), Kind::Text, |row| {
            Ok(Some(Out::Text(type_name(&document(row, 0)?).to_owned())))
        }),
        ask("json_contains", (2, 3), Kind::Int, json_contains),
        ask("json_contains_path", (3, MANY), Kind::Int, contains_path),
        ask("json_overlaps", (2, 2), Kind::Int, |row| {
            let found = overlaps(&document(row, 0)?, &document(row, 1)?)?;
            Ok(Some(Out::Int(found.into())))
        }),
        ask("mysql_member_of", (2, 2), Kind::Int, member_of),
        // A document is stored as its text, of which no part is free.
        RowFunction::fallible("json_storage_size", T, (1, 1), Kind::Int, |row| {
            document(row, 0)?;
            Ok(int(row.text(0).len()))
        }),
        RowFunction::fallible("json_storage_free", T, (1, 1), Kind::Int, |row| {
            document(row, 0)?;
            Ok(int(0))
        }),
        ask("json_schema_valid", (2, 2), Kind::Int, json_schema::valid),
        ask("json_schema_validation_report", (2, 2), Kind::Json, json_schema::report),
        ask("json_search", (3, MANY), Kind::Json, json_search::search).sees_null(),
        ask("mysql_json_item", (1, 1), Kind::Text, |row| Ok(json(row, &value(row, 0)?)))
            .sees_null(),
        ask("mysql_json_number", (1, 1), Kind::Double, number),
        ask("json_pretty", (1, 1), Kind::Text, |row| {
            let mut out = Limited::of(row);
            let written = serde_json::to_writer_pretty(&mut out, &document(row, 0)?);
            Ok(out.out(written.map_err(|_| fmt::Error)))
        }),
    ]
}

fn making() -> Vec<RowFunction> {
    let make =
        |name, arity, body| RowFunction::fallible(name, T, arity, Kind::Json, body).sees_null();
    let strict = |name, arity, body| RowFunction::fallible(name, T, arity, Kind::Json, body);
    vec![
        make("json_array", (0, MANY), array),
        make("json_object", (0, MANY), object),
        make("json_set", (3, MANY), |row| change(row, true, true)),
        make("json_insert", (3, MANY), |row| change(row, true, false)),
        make("json_replace", (3, MANY), |row| change(row, false, true)),
        make("json_array_append", (3, MANY), |row| extend(row, Path::append)),
        make("json_array_insert", (3, MANY), |row| extend(row, Path::insert)),
        strict("json_remove", (2, MANY), remove),
        strict("json_merge_patch", (2, MANY), |row| merge(row, patched)),
        strict("json_merge_preserve", (2, MANY), |row| merge(row, merged)),
        strict("json_merge", (2, MANY), |row| merge(row, merged)),
        strict("mysql_json", (1, 1), |row| Ok(json(row, &document(row, 0)?))),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    asking().into_iter().chain(making()).map(RowFunction::udf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_contains_its_parts() {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        let holds =
            |a: &Value, b: &Value| contains(a, b, &mut CancellationTicker::default()).unwrap();
        assert!(holds(&parse("[1,2,[3]]"), &parse("[2,1]")));
        assert!(holds(&parse(r#"{"a":1,"b":2}"#), &parse(r#"{"a":1.0}"#)));
        assert!(!holds(&parse("[1]"), &parse("2")));
    }

    #[test]
    fn documents_merge_by_patch_or_keep_both() {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        let (a, b) = (parse(r#"{"a":1,"b":2}"#), parse(r#"{"a":[3],"b":null,"c":4}"#));
        assert_eq!(patched(a.clone(), b.clone()).to_string(), r#"{"a":[3],"c":4}"#);
        assert_eq!(merged(a, b).to_string(), r#"{"a":[1,3],"b":[2,null],"c":4}"#);
        assert!(overlaps(&parse("[1,2]"), &parse("[2.0,3]")).unwrap());
        assert!(!overlaps(&parse(r#"{"a":1}"#), &parse(r#"{"a":2}"#)).unwrap());
    }
}
