//! JSON paths: `$.key`, `$."key"`, `$[0]`, `$[last]`, `$[0 to last-1]`, `$[*]`, `$.*`, `$**.key`.

use std::collections::HashSet;

use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Leg {
    Key(String),
    Index(usize),
    FromEnd(usize),
    /// From one item to another one.
    Range(Place, Place),
    AnyKey,
    AnyIndex,
    Deep,
}

/// The place of an item in an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    FromStart(usize),
    /// 0 is the last one.
    FromEnd(usize),
}

impl Place {
    /// Parses `2`, `last` or `last-2`.
    fn parse(text: &str) -> Option<Self> {
        let Some(back) = text.strip_prefix("last") else {
            return text.parse().ok().map(Self::FromStart);
        };
        match back.trim() {
            "" => Some(Self::FromEnd(0)),
            back => back.strip_prefix('-')?.trim().parse().ok().map(Self::FromEnd),
        }
    }

    fn leg(self) -> Leg {
        match self {
            Self::FromStart(at) => Leg::Index(at),
            Self::FromEnd(back) => Leg::FromEnd(back),
        }
    }
}

/// The items of an array of this length between two places.
fn between(len: usize, from: Place, to: Place) -> std::ops::Range<usize> {
    let start = match from {
        Place::FromStart(at) => at.min(len),
        Place::FromEnd(back) => len.saturating_sub(back.saturating_add(1)),
    };
    let end = match to {
        Place::FromStart(at) => at.saturating_add(1).min(len),
        Place::FromEnd(back) => len.saturating_sub(back),
    };
    start..end.max(start)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path(Vec<Leg>);

impl Path {
    /// Parses a path; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().strip_prefix('$')?.trim_start();
        let mut legs = Vec::new();
        while !rest.is_empty() {
            let (leg, after) = if let Some(after) = rest.strip_prefix("**") {
                (Leg::Deep, after)
            } else if let Some(after) = rest.strip_prefix('.') {
                key(after.trim_start())?
            } else {
                index(rest.strip_prefix('[')?)?
            };
            legs.push(leg);
            rest = after.trim_start();
        }
        (legs.last() != Some(&Leg::Deep)).then_some(Self(legs))
    }

    /// Whether it may match more than one value.
    pub fn is_wild(&self) -> bool {
        self.0
            .iter()
            .any(|leg| matches!(leg, Leg::AnyKey | Leg::AnyIndex | Leg::Range(..) | Leg::Deep))
    }

    /// The matching values of a document, in order and without duplicates.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        self.0.iter().fold(vec![document], |found, leg| match leg {
            Leg::Deep => {
                let mut all = Vec::new();
                let mut seen = HashSet::new();
                found.into_iter().for_each(|value| below(value, &mut seen, &mut all));
                all
            }
            leg => found.into_iter().flat_map(|value| step(value, leg)).collect(),
        })
    }

    /// Sets the value at the path: an existing one if `replace`, a missing one if `insert`.
    pub fn set(&self, document: &mut Value, new: Value, insert: bool, replace: bool) {
        let Some((last, parents)) = self.0.split_last() else {
            if replace {
                *document = new;
            }
            return;
        };
        let Some(parent) = descend(document, parents) else { return };
        match (parent, last) {
            (Value::Object(members), Leg::Key(key)) => {
                let wanted = if members.contains_key(key) { replace } else { insert };
                if wanted {
                    members.insert(key.clone(), new);
                }
            }
            (Value::Array(items), leg) => match position(items.len(), leg) {
                Some(at) if replace => items[at] = new,
                None if insert && matches!(leg, Leg::Index(_)) => items.push(new),
                _ => {}
            },
            _ => {}
        }
    }

    /// Appends to the array at the path; another value there is first wrapped in an array.
    pub fn append(&self, document: &mut Value, new: Value) {
        match descend(document, &self.0) {
            Some(Value::Array(items)) => items.push(new),
            Some(other) => *other = Value::Array(vec![other.take(), new]),
            None => {}
        }
    }

    /// Inserts a value before the array item at the path, or at the end of the array.
    pub fn insert(&self, document: &mut Value, new: Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        if let Some(Value::Array(items)) = descend(document, parents) {
            let at = position(items.len(), last).unwrap_or(items.len());
            items.insert(at, new);
        }
    }

    /// Removes the value at the path.
    pub fn remove(&self, document: &mut Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        match (descend(document, parents), last) {
            (Some(Value::Object(members)), Leg::Key(key)) => {
                members.remove(key);
            }
            (Some(Value::Array(items)), leg) => {
                if let Some(at) = position(items.len(), leg) {
                    items.remove(at);
                }
            }
            _ => {}
        }
    }
}

fn key(text: &str) -> Option<(Leg, &str)> {
    if let Some(after) = text.strip_prefix('*') {
        return Some((Leg::AnyKey, after));
    }
    if text.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let key = values.next()?.ok()?;
        return Some((Leg::Key(key), &text[values.byte_offset()..]));
    }
    let end =
        text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
    (end > 0).then(|| (Leg::Key(text[..end].to_owned()), &text[end..]))
}

fn index(text: &str) -> Option<(Leg, &str)> {
    let (inside, after) = text.split_once(']')?;
    let inside = inside.trim();
    let leg = if inside == "*" {
        Leg::AnyIndex
    } else if let Some((from, to)) = inside.split_once(" to ") {
        let (from, to) = (Place::parse(from.trim())?, Place::parse(to.trim())?);
        let is_backward = match (from, to) {
            (Place::FromStart(from), Place::FromStart(to)) => from > to,
            (Place::FromEnd(from), Place::FromEnd(to)) => from < to,
            _ => false,
        };
        if is_backward {
            return None;
        }
        Leg::Range(from, to)
    } else {
        Place::parse(inside)?.leg()
    };
    Some((leg, after))
}

fn position(len: usize, leg: &Leg) -> Option<usize> {
    match leg {
        Leg::Index(at) => (*at < len).then_some(*at),
        Leg::FromEnd(back) => len.checked_sub(back + 1),
        _ => None,
    }
}

/// Collects a value and its descendants, skipping values that were already visited.
fn below<'a>(value: &'a Value, seen: &mut HashSet<*const Value>, all: &mut Vec<&'a Value>) {
    if !seen.insert(std::ptr::from_ref(value)) {
        return;
    }
    all.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| below(item, seen, all)),
        Value::Object(members) => members.values().for_each(|item| below(item, seen, all)),
        _ => {}
    }
}

fn step<'a>(value: &'a Value, leg: &Leg) -> Vec<&'a Value> {
    match (leg, value) {
        (Leg::Key(key), Value::Object(members)) => members.get(key).into_iter().collect(),
        (Leg::AnyKey, Value::Object(members)) => members.values().collect(),
        (Leg::AnyIndex, Value::Array(items)) => items.iter().collect(),
        (Leg::Index(_) | Leg::FromEnd(_), Value::Array(items)) => {
            position(items.len(), leg).map(|at| &items[at]).into_iter().collect()
        }
        (Leg::Range(from, to), Value::Array(items)) => {
            items[between(items.len(), *from, *to)].iter().collect()
        }
        // A scalar acts as an array of itself.
        (Leg::Index(0) | Leg::FromEnd(0), other) => vec![other],
        (Leg::Range(from, to), other) if !between(1, *from, *to).is_empty() => vec![other],
        _ => Vec::new(),
    }
}

fn descend<'a>(mut value: &'a mut Value, legs: &[Leg]) -> Option<&'a mut Value> {
    for leg in legs {
        value = match (value, leg) {
            (Value::Object(members), Leg::Key(key)) => members.get_mut(key)?,
            (Value::Array(items), leg) => {
                let at = position(items.len(), leg)?;
                &mut items[at]
            }
            // A scalar acts as an array of itself.
            (scalar, Leg::Index(0) | Leg::FromEnd(0)) => scalar,
            _ => return None,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_values() {
        let document: Value =
            serde_json::from_str(r#"{"a":{"b":[10,20,30]},"x y":1,"c":[{"b":2}]}"#).unwrap();
        for (path, wanted) in [
            ("$.a.b[1]", "[20]"),
            ("$.a.b[last]", "[30]"),
            ("$.a.b[last-1]", "[20]"),
            ("$.\"x y\"", "[1]"),
            ("$.a.b[*]", "[10,20,30]"),
            ("$**.b", "[[10,20,30],2]"),
            ("$.nothing", "[]"),
            ("$**.a**.b", "[[10,20,30]]"),
            ("$.a.b[0 to 1]", "[10,20]"),
            ("$.a.b[last-1 to last]", "[20,30]"),
            ("$.a.b[1 to 9]", "[20,30]"),
            ("$.a.b[last - 7 to 0]", "[10]"),
            ("$.a.b[2 to last-1]", "[]"),
            ("$.a.b[5 to 9]", "[]"),
            ("$.c[0 to 1].b", "[2]"),
            ("$.a.b[0][0 to 1]", "[10]"),
        ] {
            let found = Path::parse(path).unwrap().find(&document);
            assert_eq!(serde_json::to_string(&found).unwrap(), wanted, "{path}");
        }
        assert_eq!(Path::parse("a.b"), None);
        assert_eq!(Path::parse("$."), None);
        assert_eq!(Path::parse("$**"), None);
        assert_eq!(Path::parse("$[2 to 1]"), None);
        assert_eq!(Path::parse("$[last to last-1]"), None);
    }

    #[test]
    fn values_are_put_replaced_and_removed() {
        let mut document: Value = serde_json::from_str(r#"{"a":[1]}"#).unwrap();
        Path::parse("$.b").unwrap().set(&mut document, 2.into(), true, false);
        Path::parse("$.a[0]").unwrap().set(&mut document, 9.into(), false, true);
        Path::parse("$.a[7]").unwrap().set(&mut document, 8.into(), true, false);
        assert_eq!(document.to_string(), r#"{"a":[9,8],"b":2}"#);
        Path::parse("$.a[0]").unwrap().remove(&mut document);
        assert_eq!(document.to_string(), r#"{"a":[8],"b":2}"#);
    }
}
