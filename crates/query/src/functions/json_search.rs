//! JSON_SEARCH.

use datafusion::common::Result;
use serde_json::Value;

use super::json::{document, json};
use super::regexp;
use super::row::{Out, Row};

/// `JSON_SEARCH(document, 'one' | 'all', text[, escape[, path, ...]])`: where strings stand that
/// are like the text.
pub fn search(row: &Row<'_>) -> Result<Option<Out>> {
    if (0..3).any(|arg| row.null(arg)) || (4..row.count()).any(|arg| row.null(arg)) {
        return Ok(None);
    }
    let document = document(row, 0)?;
    let pattern = match row.count() > 3 && !row.null(3) {
        true => regexp::with_escape(row.text(2), row.text(3)),
        false => row.text(2).to_owned(),
    };
    let mut found = Vec::new();
    search_in(&document, &mut String::from("$"), &pattern, &mut found);
    found.retain(|at| row.count() < 5 || (4..row.count()).any(|arg| is_below(at, row.text(arg))));
    if row.text(1).eq_ignore_ascii_case("one") {
        found.truncate(1);
    }
    Ok(match found.len() {
        0 => None,
        1 => json(&Value::String(found.remove(0))),
        _ => json(&found.into_iter().map(Value::String).collect()),
    })
}

/// Whether the place `at` is the one that `path` names, or inside it.
fn is_below(at: &str, path: &str) -> bool {
    at.strip_prefix(path.trim()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn search_in(value: &Value, at: &mut String, pattern: &str, found: &mut Vec<String>) {
    let kept = at.len();
    match value {
        Value::String(text) if regexp::is_like(text, pattern) => found.push(at.clone()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("[{index}]"));
                search_in(item, at, pattern, found);
                at.truncate(kept);
            }
        }
        Value::Object(members) => {
            for (key, item) in members {
                at.push_str(&leg(key));
                search_in(item, at, pattern, found);
                at.truncate(kept);
            }
        }
        _ => {}
    }
}

/// A key as the leg of a path, in quotes where it is no name.
fn leg(key: &str) -> String {
    let is_name = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_name { format!(".{key}") } else { format!(".{}", Value::String(key.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_told_as_paths() {
        let document = serde_json::from_str(r#"{"a b": ["x", {"c": "xy"}]}"#).unwrap();
        let mut found = Vec::new();
        search_in(&document, &mut String::from("$"), "x%", &mut found);
        assert_eq!(found, [r#"$."a b"[0]"#, r#"$."a b"[1].c"#]);
        assert!(is_below("$[1].x", "$[1]"));
        assert!(!is_below("$[10]", "$[1]"));
    }
}
