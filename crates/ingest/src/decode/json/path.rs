//! Paths into a JSON document: `$`, `$.a.b`, `$.a[0]`, `$["a"]`.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JsonPath {
    steps: Vec<Step>,
}

impl JsonPath {
    /// Parses a path; `None` if it is invalid or uses an unsupported form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix("[\"").or_else(|| rest.strip_prefix(".[\"")) {
                let (key, behind) = quoted.split_once("\"]")?;
                steps.push(Step::Key(key.to_owned()));
                rest = behind;
            } else if let Some(indexed) = rest.strip_prefix('[') {
                let (index, behind) = indexed.split_once(']')?;
                steps.push(Step::Index(index.trim().parse().ok()?));
                rest = behind;
            } else {
                let named = rest.strip_prefix('.').unwrap_or(rest);
                let end = named.find(['.', '[']).unwrap_or(named.len());
                let (key, behind) = named.split_at(end);
                let key = key.trim_matches('"');
                if key.is_empty() || key == "*" {
                    return None;
                }
                steps.push(Step::Key(key.to_owned()));
                rest = behind;
            }
        }
        Some(Self { steps })
    }

    /// Whether it refers to the entire document.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The last key in it, by which a value is called.
    pub fn last_key(&self) -> Option<&str> {
        let keys = self.steps.iter().rev();
        keys.filter_map(|step| if let Step::Key(key) = step { Some(key) } else { None })
            .map(String::as_str)
            .next()
    }

    /// Parses the header `jsonpaths`, a JSON array of paths.
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        let paths: Vec<String> = serde_json::from_str(text).ok()?;
        paths.iter().map(|path| Self::parse(path)).collect()
    }

    /// The text of the value at the path; `None` if the document has no such value.
    pub fn select<'a>(&self, document: &'a str) -> Option<&'a str> {
        let mut place = document.trim();
        for step in &self.steps {
            let mut deserializer = serde_json::Deserializer::from_str(place);
            place = StepSeed(step).deserialize(&mut deserializer).ok()??.get();
        }
        Some(place)
    }
}

/// Finds the value of one step in a document.
struct StepSeed<'s>(&'s Step);

impl<'de> DeserializeSeed<'de> for StepSeed<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StepSeed<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Key(key)) = map.next_key()? {
            if matches!(self.0, Step::Key(wanted) if *wanted == key) {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let mut at = 0;
        while let Some(value) = seq.next_element::<&RawValue>()? {
            if matches!(self.0, Step::Index(wanted) if *wanted == at) {
                found = Some(value);
            }
            at += 1;
        }
        Ok(found)
    }
}

/// A string that borrows from the document unless it contains escapes.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_places() {
        let document = r#"{"a": {"b": [1, {"c d": "x"}]}, "e": null, "a.b": 5}"#;
        let select = |path: &str| JsonPath::parse(path).unwrap().select(document);
        assert_eq!(select("$"), Some(document));
        assert_eq!(select("$.a.b[0]"), Some("1"));
        assert_eq!(select("a.b[1].\"c d\""), Some("\"x\""));
        assert_eq!(select("$.e"), Some("null"));
        assert_eq!(select("$[\"a.b\"]"), Some("5"));
        assert_eq!(select("$.a.x"), None);
        assert_eq!(select("$.e.x"), None);
        assert_eq!(select("$.a.b[7]"), None);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["$.", "$.a[", "$.a[x]", "$..a", "$.*"] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
        assert_eq!(JsonPath::parse_list("[\"$.a\", \"$.b\"]").map(|paths| paths.len()), Some(2));
        assert_eq!(JsonPath::parse_list("$.a"), None);
    }
}
