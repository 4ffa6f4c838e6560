//! JSON_SCHEMA_VALID and JSON_SCHEMA_VALIDATION_REPORT: whether a document is what a JSON Schema of
//! draft 4 describes. References lead to other places of the same schema only. What one call does
//! is bounded, since constraints call it where nothing can end it.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;

use datafusion::common::{DataFusionError, Result};
use freshet_base::err;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value, json};

use super::json_text::{document, json as printed};
use super::row::{Out, Row};
use crate::error::external;
use crate::interrupt::CancellationTicker;

/// The schemas inside one another, by references too.
const LEVELS_MAX: usize = 256;
/// The steps of one call: schemas, comparisons, bytes that patterns look at.
const STEPS_MAX: usize = 10_000_000;
/// The steps that a pattern takes to be compiled, and for each byte of a text.
const COMPILE_STEPS: usize = 10_000;
const BYTE_STEPS: usize = 8;
/// The length of a pattern, and maximum memory of a compiled one.
const PATTERN_LENGTH_MAX: usize = 1024;
const PATTERN_BYTES_MAX: usize = 128 << 10;
/// Patterns that a thread keeps compiled.
const PATTERNS_MAX: usize = 8;

thread_local! {
    /// Patterns that were compiled, the latest last.
    static PATTERNS: RefCell<VecDeque<(String, Regex)>> = const { RefCell::new(VecDeque::new()) };
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
    Checker::new(&schema).check((&schema, Place::ROOT), (&document, Place::ROOT))
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
    steps: usize,
    levels: usize,
}

impl<'s> Checker<'s> {
    fn new(root: &'s Value) -> Self {
        Self { root, work: CancellationTicker::default(), steps: 0, levels: 0 }
    }

    /// Counts steps.
    ///
    /// # Errors
    /// 3170 for too many, and those of cancellation.
    fn done(&mut self, steps: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > STEPS_MAX {
            return Err(external(err!(
                TooLarge,
                "A JSON Schema takes more than {STEPS_MAX} steps to check a document: write a \
                 smaller one, or check parts of the document"
            )));
        }
        self.work.done(steps)
    }

    /// Whether a pattern is found in a text.
    fn matches(&mut self, pattern: &str, text: &str) -> Result<bool> {
        self.done(1 + pattern.len() + BYTE_STEPS * text.len())?;
        let known = PATTERNS.with_borrow(|known| {
            let found = known.iter().find(|(known, _)| known == pattern);
            found.map(|(_, regex)| regex.is_match(text))
        });
        if let Some(is_found) = known {
            return Ok(is_found);
        }
        self.done(COMPILE_STEPS)?;
        let regex = compiled(pattern)?;
        let is_found = regex.is_match(text);
        PATTERNS.with_borrow_mut(|known| {
            if known.len() >= PATTERNS_MAX {
                known.pop_front();
            }
            known.push_back((pattern.to_owned(), regex));
        });
        Ok(is_found)
    }

    fn check(
        &mut self,
        (schema, place): Placed<'_>,
        document: Placed<'_>,
    ) -> Result<Option<Misfit>> {
        self.done(1)?;
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
            Value::String(text) => self.text(schema, text)?,
            Value::Number(number) => of_number(schema, number),
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
            let mut said = Vec::new();
            said.extend(own.map(|(name, schema)| (name, schema, &known_place)));
            for (pattern, schema) in patterns.into_iter().flatten() {
                if self.matches(pattern, name)? {
                    said.push((pattern, schema, &patterns_place));
                }
            }
            for (name_of, schema, within) in said {
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
                for before in &items[..at] {
                    if self.same(before, item)? {
                        return Ok(Some("uniqueItems"));
                    }
                }
            }
        }
        Ok(None)
    }

    fn text(&mut self, schema: &Map<String, Value>, text: &str) -> Result<Option<&'static str>> {
        let signs = || text.chars().count();
        if count(schema, "minLength").is_some_and(|least| signs() < least) {
            return Ok(Some("minLength"));
        }
        if count(schema, "maxLength").is_some_and(|most| signs() > most) {
            return Ok(Some("maxLength"));
        }
        match schema.get("pattern").and_then(Value::as_str) {
            Some(pattern) if !self.matches(pattern, text)? => Ok(Some("pattern")),
            _ => Ok(None),
        }
    }

    /// Whether two values are the same; numbers are by their value.
    fn same(&mut self, left: &Value, right: &Value) -> Result<bool> {
        self.done(1)?;
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                Ok(compared(left, right) == Some(Ordering::Equal))
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (left, right) in left.iter().zip(right) {
                    if !self.same(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
                for (name, left) in left {
                    let Some(right) = right.get(name) else { return Ok(false) };
                    if !self.same(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Array(_) | Value::Object(_), _) => Ok(false),
            (left, right) => Ok(left == right),
        }
    }

    /// The keyword that is not satisfied of those that any value may have.
    fn combined(
        &mut self,
        (schema, place): (&Map<String, Value>, Place<'_>),
        (value, at): Placed<'_>,
    ) -> Result<Option<&'static str>> {
        if let Some(Value::Array(known)) = schema.get("enum") {
            let mut is_known = false;
            for known in known {
                is_known = is_known || self.same(known, value)?;
            }
            if !is_known {
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

/// How two numbers are beside each other.
fn compared(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// A pattern of ECMAScript, as far as it is one without looking around and back.
fn compiled(pattern: &str) -> Result<Regex> {
    if pattern.len() > PATTERN_LENGTH_MAX {
        return Err(refused(&format!("a pattern of more than {PATTERN_LENGTH_MAX} bytes")));
    }
    let built = RegexBuilder::new(&of_ascii(pattern))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build();
    built.map_err(|_| refused(&format!("pattern '{pattern}'")))
}

/// The pattern with classes as ECMAScript has them: of ASCII.
fn of_ascii(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            out.push(sign);
            continue;
        }
        match signs.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('W') => out.push_str("[^0-9A-Za-z_]"),
            // It escapes itself where it has no meaning.
            Some('/') => out.push('/'),
            other => {
                out.push(sign);
                out.extend(other);
            }
        }
    }
    out
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

fn of_number(schema: &Map<String, Value>, number: &Number) -> Option<&'static str> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_number);
    let excludes = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    match bound("minimum").and_then(|least| compared(number, least)) {
        Some(Ordering::Less) => return Some("minimum"),
        Some(Ordering::Equal) if excludes("exclusiveMinimum") => return Some("exclusiveMinimum"),
        _ => {}
    }
    match bound("maximum").and_then(|most| compared(number, most)) {
        Some(Ordering::Greater) => return Some("maximum"),
        Some(Ordering::Equal) if excludes("exclusiveMaximum") => return Some("exclusiveMaximum"),
        _ => {}
    }
    let step = bound("multipleOf")?;
    let is_multiple = match (number.as_i128(), step.as_i128()) {
        (Some(number), Some(step)) => step <= 0 || number % step == 0,
        _ => {
            let (number, step) = (number.as_f64()?, step.as_f64()?);
            step <= 0.0 || (number / step).fract() == 0.0
        }
    };
    (!is_multiple).then_some("multipleOf")
}

#[cfg(test)]
mod tests;
