use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result};
use serde_json::Value;

use super::json_text::{document, json};
use super::like::Pattern;
use super::regexp;
use super::row::{Out, Row};

/// `JSON_SEARCH(document, 'one' | 'all', text[, escape[, path, ...]])`: the paths of strings that
/// match the LIKE pattern `text`.
pub fn search(row: &Row<'_>) -> Result<Option<Out>> {
    if (0..3).any(|arg| row.null(arg)) || (4..row.count()).any(|arg| row.null(arg)) {
        return Ok(None);
    }
    let document = document(row, 0)?;
    let pattern = match row.count() > 3 && !row.null(3) {
        true => regexp::with_escape(row.text(2), row.text(3)),
        false => row.text(2).to_owned(),
    };
    let mut search = Search {
        pattern: Pattern::new(&pattern),
        below: (4..row.count()).map(|arg| row.text(arg)).collect(),
        one: row.text(1).eq_ignore_ascii_case("one"),
        bytes_left: row.bytes_max(),
        found: Vec::new(),
    };
    match search.within(&document, &mut String::from("$")) {
        ControlFlow::Break(Full::TooLong) => return Ok(Some(Out::TooLong)),
        ControlFlow::Break(Full::Unwanted(error)) => return Err(error),
        ControlFlow::Break(Full::Found) | ControlFlow::Continue(()) => {}
    }
    let mut found = search.found;
    Ok(match found.len() {
        0 => None,
        1 => json(row, &Value::String(found.remove(0))),
        _ => json(row, &found.into_iter().map(Value::String).collect()),
    })
}

struct Search<'a> {
    pattern: Pattern,
    below: Vec<&'a str>,
    one: bool,
    /// The remaining limit on the total length of the paths.
    bytes_left: usize,
    found: Vec<String>,
}

/// Why a search ends early.
#[derive(Debug)]
enum Full {
    Found,
    TooLong,
    Unwanted(DataFusionError),
}

/// Whether the path `at` equals `path` or is below it.
fn is_below(at: &str, path: &str) -> bool {
    at.strip_prefix(path.trim()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl Search<'_> {
    fn within(&mut self, value: &Value, at: &mut String) -> ControlFlow<Full> {
        let kept = at.len();
        match value {
            Value::String(text) => match self.pattern.matches(text) {
                Ok(true) => self.keep(at)?,
                Ok(false) => {}
                Err(error) => return ControlFlow::Break(Full::Unwanted(error)),
            },
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    at.push_str(&format!("[{index}]"));
                    self.within(item, at)?;
                    at.truncate(kept);
                }
            }
            Value::Object(members) => {
                for (key, item) in members {
                    at.push_str(&leg(key));
                    self.within(item, at)?;
                    at.truncate(kept);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn keep(&mut self, at: &str) -> ControlFlow<Full> {
        if !self.below.is_empty() && !self.below.iter().any(|path| is_below(at, path)) {
            return ControlFlow::Continue(());
        }
        let Some(left) = self.bytes_left.checked_sub(at.len()) else {
            return ControlFlow::Break(Full::TooLong);
        };
        self.bytes_left = left;
        self.found.push(at.to_owned());
        if self.one { ControlFlow::Break(Full::Found) } else { ControlFlow::Continue(()) }
    }
}

/// A key as a path component, quoted where necessary.
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
        let mut search = Search {
            pattern: Pattern::new("x%"),
            below: Vec::new(),
            one: false,
            bytes_left: 100,
            found: Vec::new(),
        };
        let ended = search.within(&document, &mut String::from("$"));
        assert!(ended.is_continue());
        assert_eq!(search.found, [r#"$."a b"[0]"#, r#"$."a b"[1].c"#]);
        assert!(is_below("$[1].x", "$[1]"));
        assert!(!is_below("$[10]", "$[1]"));
    }
}
