//! JSON_SCHEMA_VALID and JSON_SCHEMA_VALIDATION_REPORT: whether a document is what a JSON Schema of
//! draft 4 describes. References lead to other places of the same schema only.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use datafusion::common::{DataFusionError, Result};
use freshet_base::err;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::json::same;
use super::json_text::{document, json as printed};
use super::row::{Out, Row};
use crate::error::external;
use crate::interrupt::CancellationTicker;

/// The schemas inside one another, by references too.
const LEVELS_MAX: usize = 256;
/// Maximum memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Patterns that are kept compiled.
const PATTERNS_MAX: usize = 32;

thread_local! {
    /// Patterns that were compiled, the latest last; `None` for one that is none, which says
    /// nothing, as in MySQL.
    static PATTERNS: RefCell<VecDeque<(String, Option<Regex>)>> =
        const { RefCell::new(VecDeque::new()) };
}

/// `JSON_SCHEMA_VALID(schema, document)`.
pub fn valid(row: &Row<'_>) -> Result<Option<Out>> {
    Ok(Some(Out::Int(misfit(row, "json_schema_valid")?.is_none().into())))
}

/// `JSON_SCHEMA_VALIDATION_REPORT(schema, document)`.
pub fn report(row: &Row<'_>) -> Result<Option<Out>> {
    let report = match misfit(row, "json_schema_validation_report")? {
        None => json!({ "valid": true }),
        Some(Misfit { document, schema, keyword }) => json!({
            "valid": false,
            "reason": format!(
                "The JSON document location '{document}' failed requirement '{keyword}' at JSON \
                 Schema location '{schema}'"
            ),
            "schema-location": schema,
            "document-location": document,
            "schema-failed-keyword": keyword,
        }),
    };
    Ok(printed(row, &report))
}

fn misfit(row: &Row<'_>, function: &str) -> Result<Option<Misfit>> {
    let (schema, document) = (document(row, 0)?, document(row, 1)?);
    if !schema.is_object() {
        return Err(external(err!(
            InvalidJsonType,
            "Invalid JSON type in argument 1 to function {function}; an object is required."
        )));
    }
    Checker { root: &schema, work: CancellationTicker::default(), levels: 0 }
        .check((&schema, Place::ROOT), (&document, Place::ROOT))
}

/// Where a document is not what the schema says.
#[derive(PartialEq, Debug)]
struct Misfit {
    document: String,
    schema: String,
    keyword: &'static str,
}

/// A part of a document or schema, shown as the fragment of its address.
#[derive(Clone, Copy)]
struct Place<'a> {
    step: Step<'a>,
    within: Option<&'a Place<'a>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Item(usize),
}

impl<'a> Place<'a> {
    const ROOT: Place<'static> = Place { step: Step::Root, within: None };

    fn key(&'a self, key: &'a str) -> Self {
        Place { step: Step::Key(key), within: Some(self) }
    }

    fn item(&'a self, at: usize) -> Self {
        Place { step: Step::Item(at), within: Some(self) }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(within) = self.within {
            within.fmt(f)?;
        }
        match self.step {
            Step::Root => f.write_str("#"),
            Step::Key(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Item(at) => write!(f, "/{at}"),
        }
    }
}

/// A value and its place.
type Placed<'a> = (&'a Value, Place<'a>);

struct Checker<'s> {
    root: &'s Value,
    work: CancellationTicker,
    levels: usize,
}

impl<'s> Checker<'s> {
    fn check(
        &mut self,
        (schema, place): Placed<'_>,
        document: Placed<'_>,
    ) -> Result<Option<Misfit>> {
        self.work.done(1)?;
        let Value::Object(keywords) = schema else { return Ok(None) };
        if self.levels >= LEVELS_MAX {
            return Err(refused(&format!("more than {LEVELS_MAX} schemas inside one another")));
        }
        self.levels += 1;
        let found = match keywords.get("$ref") {
            Some(Value::String(address)) => {
                let target = self.referred(address)?;
                // It says where it is written itself.
                let place = Place { step: Step::Key("$ref"), within: Some(&place) };
                target.map_or(Ok(None), |target| self.check((target, place), document))
            }
            _ => self.keywords((keywords, place), document),
        };
        self.levels -= 1;
        found
    }

    /// What a reference leads to; `None` where there is nothing, which allows everything.
    fn referred(&self, address: &str) -> Result<Option<&'s Value>> {
        let Some(pointer) = address.strip_prefix('#') else {
            return Err(refused(&format!("reference '{address}' to another document")));
        };
        Ok(self.root.pointer(pointer))
    }

    fn keywords(
        &mut self,
        (schema, place): (&Map<String, Value>, Place<'_>),
        (value, at): Placed<'_>,
    ) -> Result<Option<Misfit>> {
        let failed =
            |keyword| -> Result<Option<Misfit>> { Ok(Some(misfit_at(keyword, at, place))) };
        if schema.get("type").is_some_and(|wanted| !is_of_type(wanted, value)) {
            return failed("type");
        }
        let inner = match value {
            Value::Object(members) => self.members((schema, place), (members, at))?,
            Value::Array(items) => self.items((schema, place), (items, at))?,
            _ => None,
        };
        if inner.is_some() {
            return Ok(inner);
        }
        let own = match value {
            Value::Object(members) => self.object((schema, place), members, (value, at))?,
            Value::Array(items) => self.array(schema, items)?,
            Value::String(text) => of_text(schema, text),
            Value::Number(number) => number.as_f64().and_then(|number| of_number(schema, number)),
            Value::Null | Value::Bool(_) => None,
        };
        if let Some(keyword) = own {
            return failed(keyword);
        }
        match self.combined((schema, place), (value, at))? {
            Some(keyword) => failed(keyword),
            None => Ok(None),
        }
    }

    /// The first member that is not what is said of it.
    fn members(
        &mut self,
        (schema, place): (&Map<String, Value>, Place<'_>),
        (members, at): (&Map<String, Value>, Place<'_>),
    ) -> Result<Option<Misfit>> {
        let known = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let (known_place, patterns_place) =
            (place.key("properties"), place.key("patternProperties"));
        for (name, member) in members {
            let mut is_known = false;
            let own = known.and_then(|known| known.get_key_value(name));
            let matching = patterns.into_iter().flatten();
            let matching = matching.filter(|(pattern, _)| matches(pattern, name));
            let said = own.map(|(name, schema)| (name, schema, &known_place));
            let said = said.into_iter();
            for (name_of, schema, within) in
                said.chain(matching.map(|(pattern, schema)| (pattern, schema, &patterns_place)))
            {
                is_known = true;
                let member = (member, at.key(name));
                let found = self.check((schema, within.key(name_of)), member)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            let others = schema.get("additionalProperties").filter(|_| !is_known);
            let Some(others) = others else { continue };
            if *others == Value::Bool(false) {
                return Ok(Some(misfit_at("additionalProperties", at.key(name), place)));
            }
            let others = (others, place.key("additionalProperties"));
            let found = self.check(others, (member, at.key(name)))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The keyword that an object as a whole does not satisfy.
    fn object(
        &mut self,
        (schema, place): (&Map<String, Value>, Place<'_>),
        members: &Map<String, Value>,
        whole: Placed<'_>,
    ) -> Result<Option<&'static str>> {
        let has = |name: &Value| name.as_str().is_none_or(|name| members.contains_key(name));
        let required = schema.get("required").and_then(Value::as_array);
        if required.is_some_and(|names| !names.iter().all(has)) {
            return Ok(Some("required"));
        }
        if count(schema, "minProperties").is_some_and(|least| members.len() < least) {
            return Ok(Some("minProperties"));
        }
        if count(schema, "maxProperties").is_some_and(|most| members.len() > most) {
            return Ok(Some("maxProperties"));
        }
        let dependencies = schema.get("dependencies").and_then(Value::as_object);
        for (name, wanted) in dependencies.into_iter().flatten() {
            if !members.contains_key(name) {
                continue;
            }
            let holds = match wanted {
                Value::Array(names) => names.iter().all(has),
                schema => self.check((schema, place.key(name)), whole)?.is_none(),
            };
            if !holds {
                return Ok(Some("dependencies"));
            }
        }
        Ok(None)
    }

    /// The first item that is not what is said of it.
    fn items(
        &mut self,
        (schema, place): (&Map<String, Value>, Place<'_>),
        (items, at): (&[Value], Place<'_>),
    ) -> Result<Option<Misfit>> {
        let items_place = place.key("items");
        for (number, item) in items.iter().enumerate() {
            let (said, place) = match schema.get("items") {
                Some(Value::Array(tuple)) => match tuple.get(number) {
                    Some(said) => (said, items_place.item(number)),
                    None => match schema.get("additionalItems") {
                        Some(Value::Bool(false)) => {
                            return Ok(Some(misfit_at("additionalItems", at.item(number), place)));
                        }
                        Some(said) => (said, place.key("additionalItems")),
                        None => return Ok(None),
                    },
                },
                Some(said) => (said, items_place),
                None => return Ok(None),
            };
            let found = self.check((said, place), (item, at.item(number)))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The keyword that an array as a whole does not satisfy.
    fn array(
        &mut self,
        schema: &Map<String, Value>,
        items: &[Value],
    ) -> Result<Option<&'static str>> {
        if count(schema, "minItems").is_some_and(|least| items.len() < least) {
            return Ok(Some("minItems"));
        }
        if count(schema, "maxItems").is_some_and(|most| items.len() > most) {
            return Ok(Some("maxItems"));
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            for (at, item) in items.iter().enumerate() {
                self.work.done(at)?;
                if items[..at].iter().any(|before| same(before, item)) {
                    return Ok(Some("uniqueItems"));
                }
            }
        }
        Ok(None)
    }

    /// The keyword that is not satisfied of those that any value may have.
    fn combined(
        &mut self,
        (schema, place): (&Map<String, Value>, Place<'_>),
        (value, at): Placed<'_>,
    ) -> Result<Option<&'static str>> {
        if let Some(Value::Array(known)) = schema.get("enum") {
            self.work.done(known.len())?;
            if !known.iter().any(|known| same(known, value)) {
                return Ok(Some("enum"));
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(Value::Array(schemas)) = schema.get(keyword) else { continue };
            let within = place.key(keyword);
            let mut fits = 0;
            for (number, schema) in schemas.iter().enumerate() {
                let found = self.check((schema, within.item(number)), (value, at))?;
                fits += usize::from(found.is_none());
            }
            let holds = match keyword {
                "allOf" => fits == schemas.len(),
                "anyOf" => fits > 0,
                _ => fits == 1,
            };
            if !holds {
                return Ok(Some(keyword));
            }
        }
        if let Some(not) = schema.get("not").filter(|not| not.is_object())
            && self.check((not, place.key("not")), (value, at))?.is_none()
        {
            return Ok(Some("not"));
        }
        Ok(None)
    }
}

fn misfit_at(keyword: &'static str, document: Place<'_>, schema: Place<'_>) -> Misfit {
    Misfit { document: document.to_string(), schema: schema.to_string(), keyword }
}

fn refused(what: &str) -> DataFusionError {
    external(err!(
        NotSupported,
        "This version of Freshet doesn't yet support '{what}' in a JSON Schema"
    ))
}

fn is_of_type(wanted: &Value, value: &Value) -> bool {
    let is = |wanted: &str| match (wanted, value) {
        ("integer", Value::Number(number)) => !number.is_f64(),
        ("number", Value::Number(_))
        | ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        _ => false,
    };
    match wanted {
        Value::String(wanted) => is(wanted),
        Value::Array(any) => any.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

/// A number of members, items or characters.
fn count(schema: &Map<String, Value>, keyword: &str) -> Option<usize> {
    usize::try_from(schema.get(keyword)?.as_u64()?).ok()
}

fn of_text(schema: &Map<String, Value>, text: &str) -> Option<&'static str> {
    let signs = || text.chars().count();
    if count(schema, "minLength").is_some_and(|least| signs() < least) {
        return Some("minLength");
    }
    if count(schema, "maxLength").is_some_and(|most| signs() > most) {
        return Some("maxLength");
    }
    let pattern = schema.get("pattern").and_then(Value::as_str);
    pattern.is_some_and(|pattern| !matches(pattern, text)).then_some("pattern")
}

fn of_number(schema: &Map<String, Value>, number: f64) -> Option<&'static str> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let excludes = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    if let Some(least) = bound("minimum")
        && (number < least || number == least && excludes("exclusiveMinimum"))
    {
        return Some(if number < least { "minimum" } else { "exclusiveMinimum" });
    }
    if let Some(most) = bound("maximum")
        && (number > most || number == most && excludes("exclusiveMaximum"))
    {
        return Some(if number > most { "maximum" } else { "exclusiveMaximum" });
    }
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    step.is_some_and(|step| (number / step).fract() != 0.0).then_some("multipleOf")
}

/// Whether a pattern is found in a text. One that is no pattern is found in each.
fn matches(pattern: &str, text: &str) -> bool {
    PATTERNS.with_borrow_mut(|known| {
        if let Some((_, regex)) = known.iter().find(|(known, _)| known == pattern) {
            return regex.as_ref().is_none_or(|regex| regex.is_match(text));
        }
        let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().ok();
        let found = regex.as_ref().is_none_or(|regex| regex.is_match(text));
        if known.len() >= PATTERNS_MAX {
            known.pop_front();
        }
        known.push_back((pattern.to_owned(), regex));
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keyword that the document does not satisfy, and both places.
    fn found(schema: &str, document: &str) -> Option<(&'static str, String, String)> {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        let (schema, document) = (parse(schema), parse(document));
        let mut checker = Checker { root: &schema, work: CancellationTicker::default(), levels: 0 };
        let found = checker.check((&schema, Place::ROOT), (&document, Place::ROOT)).unwrap();
        found.map(|Misfit { document, schema, keyword }| (keyword, document, schema))
    }

    fn keyword(schema: &str, document: &str) -> &'static str {
        found(schema, document).map_or("", |(keyword, ..)| keyword)
    }

    #[test]
    fn places_are_told_of_both() {
        const SCHEMA: &str = r#"{"type": "object", "properties": {"a/b": {"items": {"minimum": 2}}},
            "required": ["a/b"]}"#;
        assert_eq!(found(SCHEMA, r#"{"a/b": [2, 3]}"#), None);
        let places = |keyword, document: &str, schema: &str| {
            Some((keyword, document.to_owned(), schema.to_owned()))
        };
        let item = places("minimum", "#/a~1b/1", "#/properties/a~1b/items");
        assert_eq!(found(SCHEMA, r#"{"a/b": [2, 1]}"#), item);
        assert_eq!(found(SCHEMA, "{}"), places("required", "#", "#"));
    }

    #[test]
    fn each_keyword_has_what_fits_and_what_does_not() {
        for (schema, fits, other) in [
            (r#"{"type": ["integer", "null"]}"#, "1", "1.5"),
            (r#"{"enum": [1, "a", null]}"#, "1.0", "2"),
            (r#"{"multipleOf": 0.5}"#, "1.5", "1.25"),
            (r#"{"minimum": 1}"#, "1", "0"),
            (r#"{"maximum": 1}"#, "1", "2"),
            (r#"{"minLength": 2}"#, "\"\u{e4}\u{e4}\"", "\"\u{e4}\""),
            (r#"{"maxLength": 1}"#, "\"\u{e4}\"", "\"ab\""),
            (r#"{"pattern": "^a+$"}"#, "\"aa\"", "\"ab\""),
            (r#"{"minItems": 1}"#, "[1]", "[]"),
            (r#"{"maxItems": 1}"#, "[1]", "[1, 2]"),
            (r#"{"uniqueItems": true}"#, "[1, 2]", "[1, 2, 1.0]"),
            (r#"{"items": [{}], "additionalItems": false}"#, "[1]", "[1, 2]"),
            (r#"{"minProperties": 1}"#, r#"{"a": 1}"#, "{}"),
            (r#"{"maxProperties": 1}"#, r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#),
            (r#"{"required": ["a"]}"#, r#"{"a": null}"#, r#"{"b": 1}"#),
            (r#"{"dependencies": {"a": ["b"]}}"#, r#"{"b": 1}"#, r#"{"a": 1}"#),
            (
                r#"{"properties": {"a": {}}, "patternProperties": {"^x": {}},
                    "additionalProperties": false}"#,
                r#"{"a": 1, "xy": 2}"#,
                r#"{"b": 1}"#,
            ),
            (r#"{"allOf": [{"minimum": 1}, {"maximum": 2}]}"#, "1", "3"),
            (r#"{"anyOf": [{"minimum": 5}, {"maximum": 2}]}"#, "1", "3"),
            (r#"{"oneOf": [{"minimum": 1}, {"maximum": 2}]}"#, "3", "1"),
            (r#"{"not": {"type": "string"}}"#, "1", "\"a\""),
        ] {
            assert_eq!(keyword(schema, fits), "", "{schema} {fits}");
            let failed = keyword(schema, other);
            assert!(!failed.is_empty() && schema.contains(failed), "{schema} {other}: {failed}");
        }
        assert_eq!(keyword(r#"{"minimum": 1, "exclusiveMinimum": true}"#, "1"), "exclusiveMinimum");
        assert_eq!(keyword(r#"{"maximum": 1, "exclusiveMaximum": true}"#, "1"), "exclusiveMaximum");
    }

    #[test]
    fn references_lead_inside_and_end() {
        const TREE: &str = r##"{"type": "object", "properties": {"inner": {"$ref": "#"}},
            "additionalProperties": false}"##;
        assert_eq!(keyword(TREE, r#"{"inner": {"inner": {}}}"#), "");
        assert_eq!(keyword(TREE, r#"{"inner": {"x": {}}}"#), "additionalProperties");
        let named = r##"{"definitions": {"n": {"minimum": 3}}, "$ref": "#/definitions/n"}"##;
        assert_eq!(keyword(named, "2"), "minimum");
        for endless in [r##"{"$ref": "#"}"##, r#"{"$ref": "http://a/b"}"#] {
            let schema = serde_json::from_str::<Value>(endless).unwrap();
            let mut checker =
                Checker { root: &schema, work: CancellationTicker::default(), levels: 0 };
            let placed = || (&Value::Null, Place::ROOT);
            assert!(checker.check((&schema, Place::ROOT), placed()).is_err(), "{endless}");
        }
    }
}
