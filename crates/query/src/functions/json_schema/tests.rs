//! What fits a schema, and what is refused.

use super::*;

/// The keyword that the document does not satisfy, and both places.
fn found(schema: &str, document: &str) -> Option<(&'static str, String, String)> {
    let parse = |text| serde_json::from_str::<Value>(text).unwrap();
    let (schema, document) = (parse(schema), parse(document));
    let mut checker = Checker::new(&schema);
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
        let mut checker = Checker::new(&schema);
        let placed = || (&Value::Null, Place::ROOT);
        assert!(checker.check((&schema, Place::ROOT), placed()).is_err(), "{endless}");
    }
}

#[test]
fn numbers_are_exact_and_classes_of_ascii() {
    for (schema, other) in [
        (r#"{"maximum": 9007199254740992}"#, "9007199254740993"),
        (r#"{"enum": [9007199254740993]}"#, "9007199254740992"),
        (r#"{"enum": [[1, {"a": 2}]]}"#, r#"[1, {"a": 3}]"#),
        (r#"{"pattern": "^\\d[\\w]\\/$"}"#, "\"\u{663}a/\""),
    ] {
        assert_ne!(keyword(schema, other), "", "{schema}");
    }
    assert_eq!(keyword(r#"{"multipleOf": 3}"#, "9007199254740993"), "");
    assert_eq!(keyword(r#"{"enum": [[1, {"a": 2}]]}"#, r#"[1.0, {"a": 2.0}]"#), "");
    assert_eq!(keyword(r#"{"pattern": "^\\d[\\w]\\/$"}"#, "\"1a/\""), "");
}

#[test]
fn what_takes_long_is_refused() {
    let twice = |n: usize| {
        let below = format!(r##"{{"$ref": "#/definitions/a{}"}}"##, n.saturating_sub(1));
        format!(r#""a{n}": {{"allOf": [{below}, {below}]}}"#)
    };
    let chain = (1..60).map(twice).collect::<Vec<_>>().join(", ");
    let doubling =
        format!(r##"{{"definitions": {{"a0": {{}}, {chain}}}, "$ref": "#/definitions/a59"}}"##);
    let long = format!("\"{}\"", "a".repeat(2 << 20));
    let patterns = (0..2_000).map(|n| format!(r#""x{n}": {{}}"#)).collect::<Vec<_>>();
    let patterns = format!(r#"{{"patternProperties": {{{}}}}}"#, patterns.join(", "));
    let of_pattern = |pattern: &str| format!(r#"{{"pattern": "{pattern}"}}"#);
    for (schema, document) in [
        (doubling, "1"),
        (of_pattern("b$"), long.as_str()),
        (patterns, r#"{"a": 1}"#),
        (of_pattern(&"a".repeat(2_000)), "\"a\""),
        (of_pattern("^(?!admin)"), "\"a\""),
        (of_pattern("[01]*1[01]{30000}"), "\"1\""),
    ] {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        let (schema, document) = (parse(&schema), parse(document));
        let mut checker = Checker::new(&schema);
        assert!(checker.check((&schema, Place::ROOT), (&document, Place::ROOT)).is_err());
    }
}
