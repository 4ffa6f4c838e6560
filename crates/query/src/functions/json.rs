//! Functions of JSON text.

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use serde_json::Value;

use super::json_path::Path;
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
fn document(row: &Row<'_>, arg: usize) -> Result<Value> {
    serde_json::from_str(row.text(arg))
        .map_err(|error| exec_datafusion_err!("Invalid JSON text in argument {}: {error}", arg + 1))
}

fn path(row: &Row<'_>, arg: usize) -> Result<Path> {
    Path::parse(row.text(arg))
        .ok_or_else(|| exec_datafusion_err!("Invalid JSON path expression '{}'", row.text(arg)))
}

fn json(value: &Value) -> Option<Out> {
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

/// `JSON_SEARCH(document, 'one' | 'all', text)`: paths of strings that are like the text.
fn search(row: &Row<'_>) -> Result<Option<Out>> {
    let document = document(row, 0)?;
    let mut found = Vec::new();
    search_in(&document, &mut String::from("$"), row.text(2), &mut found);
    if row.text(1).eq_ignore_ascii_case("one") {
        found.truncate(1);
    }
    Ok(match found.len() {
        0 => None,
        1 => json(&Value::String(found.remove(0))),
        _ => json(&found.into_iter().map(Value::String).collect()),
    })
}

fn search_in(value: &Value, at: &mut String, pattern: &str, found: &mut Vec<String>) {
    let kept = at.len();
    match value {
        Value::String(text) if super::regexp::is_like(text, pattern) => found.push(at.clone()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("[{index}]"));
                search_in(item, at, pattern, found);
                at.truncate(kept);
            }
        }
        Value::Object(members) => {
            for (key, item) in members {
                at.push_str(&format!(".{key}"));
                search_in(item, at, pattern, found);
                at.truncate(kept);
            }
        }
        _ => {}
    }
}

/// `mysql_json_value(value)`: a value as a JSON literal, its JSON where it is JSON already.
fn literal(row: &Row<'_>, arg: usize) -> Value {
    if row.null(arg) {
        return Value::Null;
    }
    serde_json::from_str(row.text(arg)).unwrap_or_else(|_| Value::String(row.text(arg).to_owned()))
}

fn array(row: &Row<'_>) -> Option<Out> {
    json(&(0..row.count()).map(|arg| literal(row, arg)).collect())
}

fn object(row: &Row<'_>) -> Result<Option<Out>> {
    let mut members = serde_json::Map::new();
    for pair in (0..row.count()).step_by(2) {
        if row.null(pair) || pair + 1 == row.count() {
            return Err(exec_datafusion_err!("JSON documents may not contain NULL member names."));
        }
        let key = match literal(row, pair) {
            Value::String(key) => key,
            other => printed(&other),
        };
        members.insert(key, literal(row, pair + 1));
    }
    Ok(json(&Value::Object(members)))
}

/// `JSON_SET`, `JSON_INSERT`, `JSON_REPLACE` and `JSON_REMOVE` change what a path names.
fn change(row: &Row<'_>, insert: bool, replace: bool) -> Result<Option<Out>> {
    let mut document = document(row, 0)?;
    for pair in (1..row.count()).step_by(2) {
        path(row, pair)?.set(&mut document, literal(row, pair + 1), insert, replace);
    }
    Ok(json(&document))
}

fn remove(row: &Row<'_>) -> Result<Option<Out>> {
    let mut document = document(row, 0)?;
    for arg in 1..row.count() {
        path(row, arg)?.remove(&mut document);
    }
    Ok(json(&document))
}

/// The functions of this file.
pub fn all() -> Vec<ScalarUDF> {
    let try_fn = |name, arity, kind, body| RowFunction::fallible(name, T, arity, kind, body);
    [
        try_fn("json_extract", (2, MANY), Kind::Text, extract),
        try_fn("json_unquote", (1, 1), Kind::Text, unquote),
        RowFunction::new("json_quote", T, (1, 1), Kind::Text, |row| {
            json(&Value::String(row.text(0).to_owned()))
        }),
        RowFunction::new("json_valid", T, (1, 1), Kind::Int, |row| {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(row.text(0)).is_ok();
            Some(Out::Int(valid.into()))
        }),
        RowFunction::new("mysql_json_text", T, (1, 1), Kind::Text, |row| {
            let text = row.text(0);
            // What a JSON function made is taken as it is.
            let nested = text.starts_with(['{', '['])
                && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            if nested {
                Some(Out::Text(text.to_owned()))
            } else {
                json(&Value::String(text.into()))
            }
        }),
        try_fn("json_length", (1, 2), Kind::Int, length),
        try_fn("json_depth", (1, 1), Kind::Int, |row| Ok(int(depth(&document(row, 0)?)))),
        try_fn("json_keys", (1, 2), Kind::Text, keys),
        try_fn("json_type", (1, 1), Kind::Text, |row| {
            Ok(Some(Out::Text(type_name(&document(row, 0)?).to_owned())))
        }),
        try_fn("json_contains", (2, 3), Kind::Int, json_contains),
        try_fn("json_contains_path", (3, MANY), Kind::Int, contains_path),
        try_fn("json_search", (3, 3), Kind::Text, search),
        RowFunction::new("mysql_json_array", T, (0, MANY), Kind::Text, array).sees_null(),
        RowFunction::fallible("mysql_json_object", T, (0, MANY), Kind::Text, object).sees_null(),
        RowFunction::fallible("mysql_json_set", T, (3, MANY), Kind::Text, |row| {
            change(row, true, true)
        }),
        RowFunction::fallible("mysql_json_insert", T, (3, MANY), Kind::Text, |row| {
            change(row, true, false)
        }),
        RowFunction::fallible("mysql_json_replace", T, (3, MANY), Kind::Text, |row| {
            change(row, false, true)
        }),
        try_fn("json_remove", (2, MANY), Kind::Text, remove),
        try_fn("mysql_json", (1, 1), Kind::Text, |row| Ok(json(&document(row, 0)?))),
        try_fn("json_pretty", (1, 1), Kind::Text, |row| {
            let document = document(row, 0)?;
            Ok(serde_json::to_string_pretty(&document).ok().map(Out::Text))
        }),
    ]
    .into_iter()
    .map(RowFunction::udf)
    .collect()
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
}
