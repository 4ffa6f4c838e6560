//! Functions of JSON text.

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use serde_json::Value;

use super::json_path::Path;
use super::json_search;
use super::row::{Kind, MANY, Out, Row, RowFunction};

const T: &[Kind] = &[Kind::Text];

/// JSON as MySQL prints it: a blank behind colons and commas, keys by length and then bytes.
pub fn printed(value: &Value) -> String {
    let mut out = String::new();
    print(&mut out, value);
    out
}

fn print(out: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                print(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members = members.iter().collect::<Vec<_>>();
            members.sort_by(|(a, _), (b, _)| (a.len(), *a).cmp(&(b.len(), *b)));
            out.push('{');
            for (at, (key, item)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push_str(": ");
                print(out, item);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Reads an argument as JSON.
pub fn document(row: &Row<'_>, arg: usize) -> Result<Value> {
    serde_json::from_str(row.text(arg))
        .map_err(|error| exec_datafusion_err!("Invalid JSON text in argument {}: {error}", arg + 1))
}

fn path(row: &Row<'_>, arg: usize) -> Result<Path> {
    Path::parse(row.text(arg))
        .ok_or_else(|| exec_datafusion_err!("Invalid JSON path expression '{}'", row.text(arg)))
}

/// A value as the result of a function.
pub fn json(value: &Value) -> Option<Out> {
    Some(Out::Text(printed(value)))
}

fn int(value: usize) -> Option<Out> {
    Some(Out::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// `JSON_EXTRACT(document, path, ...)`.
fn extract(row: &Row<'_>) -> Result<Option<Out>> {
    let document = document(row, 0)?;
    let mut found = Vec::new();
    let mut many = row.count() > 2;
    for arg in 1..row.count() {
        let path = path(row, arg)?;
        many |= path.is_wild();
        found.extend(path.find(&document).into_iter().cloned());
    }
    Ok(match found.len() {
        0 => None,
        1 if !many => json(&found[0]),
        _ => json(&Value::Array(found)),
    })
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

/// The part of a document that an optional path names.
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
            json(&keys.into_iter().cloned().collect())
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

/// Whether `target` holds all of `candidate`, as JSON_CONTAINS means it.
fn contains(target: &Value, candidate: &Value) -> bool {
    match (target, candidate) {
        (Value::Array(items), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| items.iter().any(|item| contains(item, wanted)))
        }
        (Value::Array(items), scalar) => items.iter().any(|item| contains(item, scalar)),
        (Value::Object(members), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| members.get(key).is_some_and(|item| contains(item, wanted))),
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn json_contains(row: &Row<'_>) -> Result<Option<Out>> {
    let candidate = document(row, 1)?;
    Ok(at_path(row, 2)?.map(|target| Out::Int(contains(&target, &candidate).into())))
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

fn array(row: &Row<'_>) -> Option<Out> {
    json(&(0..row.count()).map(|arg| row.value(arg)).collect())
}

fn object(row: &Row<'_>) -> Result<Option<Out>> {
    let mut members = serde_json::Map::new();
    for pair in (0..row.count()).step_by(2) {
        if row.null(pair) || pair + 1 == row.count() {
            return Err(exec_datafusion_err!("JSON documents may not contain NULL member names."));
        }
        members.insert(row.text(pair).to_owned(), row.value(pair + 1));
    }
    Ok(json(&Value::Object(members)))
}

/// `JSON_SET`, `JSON_INSERT`, `JSON_REPLACE` and `JSON_REMOVE` change what a path names.
fn change(row: &Row<'_>, insert: bool, replace: bool) -> Result<Option<Out>> {
    each_pair(row, |path, document, value| path.set(document, value, insert, replace))
}

fn remove(row: &Row<'_>) -> Result<Option<Out>> {
    let mut document = document(row, 0)?;
    for arg in 1..row.count() {
        path(row, arg)?.remove(&mut document);
    }
    Ok(json(&document))
}

/// `JSON_ARRAY_APPEND` and `JSON_ARRAY_INSERT` put values at the end of, or inside, arrays.
fn extend(row: &Row<'_>, put: fn(&Path, &mut Value, Value)) -> Result<Option<Out>> {
    each_pair(row, put)
}

/// A document, changed by one pair of path and value after the other.
fn each_pair(row: &Row<'_>, put: impl Fn(&Path, &mut Value, Value)) -> Result<Option<Out>> {
    if row.null(0) {
        return Ok(None);
    }
    let mut document = document(row, 0)?;
    for pair in (1..row.count()).step_by(2) {
        if row.null(pair) || pair + 1 == row.count() {
            return Ok(None);
        }
        put(&path(row, pair)?, &mut document, row.value(pair + 1));
    }
    Ok(json(&document))
}

fn merge(row: &Row<'_>, both: fn(Value, Value) -> Value) -> Result<Option<Out>> {
    let mut merged = document(row, 0)?;
    for arg in 1..row.count() {
        merged = both(merged, document(row, arg)?);
    }
    Ok(json(&merged))
}

/// `JSON_MERGE_PATCH`: members of the second win, and NULL removes (RFC 7396).
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

/// `JSON_MERGE_PRESERVE`: what both have becomes an array of both.
fn merged(left: Value, right: Value) -> Value {
    if let (Value::Object(mut members), Value::Object(others)) = (left.clone(), right.clone()) {
        for (key, other) in others {
            let both = match members.remove(&key) {
                Some(member) => merged(member, other),
                None => other,
            };
            members.insert(key, both);
        }
        return Value::Object(members);
    }
    let items = |value| match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    let mut all = items(left);
    all.extend(items(right));
    Value::Array(all)
}

/// `JSON_OVERLAPS`: whether two documents have a member, an item or themselves in common.
fn overlaps(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().any(|(key, item)| b.get(key).is_some_and(|other| same(item, other)))
        }
        (Value::Array(items), Value::Array(others)) => {
            items.iter().any(|item| others.iter().any(|other| same(item, other)))
        }
        (Value::Array(items), other) | (other, Value::Array(items)) => {
            items.iter().any(|item| same(item, other))
        }
        (a, b) => same(a, b),
    }
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// A JSON value in a calculation: truth values are 1 and 0, strings the number they start with.
fn number(row: &Row<'_>) -> Option<Out> {
    Some(Out::Double(match row.value(0) {
        Value::Bool(value) => f64::from(u8::from(value)),
        Value::String(text) => crate::convert::number_prefix(&text),
        Value::Number(number) => number.as_f64()?,
        Value::Null => return None,
        Value::Array(_) | Value::Object(_) => 0.0,
    }))
}

fn asking() -> Vec<RowFunction> {
    let ask = |name, arity, kind, body| RowFunction::fallible(name, T, arity, kind, body);
    vec![
        ask("json_extract", (2, MANY), Kind::Json, extract),
        ask("json_unquote", (1, 1), Kind::Text, unquote),
        RowFunction::new("json_quote", T, (1, 1), Kind::Text, |row| {
            json(&Value::String(row.text(0).to_owned()))
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
            let found = overlaps(&document(row, 0)?, &document(row, 1)?);
            Ok(Some(Out::Int(found.into())))
        }),
        ask("json_search", (3, MANY), Kind::Json, json_search::search).sees_null(),
        RowFunction::new("mysql_json_item", T, (1, 1), Kind::Text, |row| json(&row.value(0)))
            .sees_null(),
        RowFunction::new("mysql_json_number", T, (1, 1), Kind::Double, number),
        ask("json_pretty", (1, 1), Kind::Text, |row| {
            let document = document(row, 0)?;
            Ok(serde_json::to_string_pretty(&document).ok().map(Out::Text))
        }),
    ]
}

fn making() -> Vec<RowFunction> {
    let make =
        |name, arity, body| RowFunction::fallible(name, T, arity, Kind::Json, body).sees_null();
    let strict = |name, arity, body| RowFunction::fallible(name, T, arity, Kind::Json, body);
    vec![
        RowFunction::new("json_array", T, (0, MANY), Kind::Json, array).sees_null(),
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
        strict("mysql_json", (1, 1), |row| Ok(json(&document(row, 0)?))),
    ]
}

/// The functions of this file.
pub fn all() -> Vec<ScalarUDF> {
    asking().into_iter().chain(making()).map(RowFunction::udf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_prints_as_in_mysql() {
        let value = serde_json::from_str(r#"{"bb":1,"a":[1,2.5,"x"],"c":null}"#).unwrap();
        assert_eq!(printed(&value), r#"{"a": [1, 2.5, "x"], "c": null, "bb": 1}"#);
        assert_eq!(depth(&value), 3);
    }

    #[test]
    fn an_array_contains_its_parts() {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        assert!(contains(&parse("[1,2,[3]]"), &parse("[2,1]")));
        assert!(contains(&parse(r#"{"a":1,"b":2}"#), &parse(r#"{"a":1.0}"#)));
        assert!(!contains(&parse("[1]"), &parse("2")));
    }

    #[test]
    fn documents_merge_by_patch_or_keep_both() {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        let (a, b) = (parse(r#"{"a":1,"b":2}"#), parse(r#"{"a":[3],"b":null,"c":4}"#));
        assert_eq!(patched(a.clone(), b.clone()).to_string(), r#"{"a":[3],"c":4}"#);
        assert_eq!(merged(a, b).to_string(), r#"{"a":[1,3],"b":[2,null],"c":4}"#);
        assert!(overlaps(&parse("[1,2]"), &parse("[2.0,3]")));
        assert!(!overlaps(&parse(r#"{"a":1}"#), &parse(r#"{"a":2}"#)));
    }
}
