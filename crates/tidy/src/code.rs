//! Rules about Rust code: how a crate introduces itself, `unwrap()`, and whose types stay inside.

use crate::graph::ENGINE;
use crate::mask::mask;
use crate::reach::Reached;
use crate::rust::{in_any, line_of, test_ranges};
use crate::{Finding, Tree};

/// Whether the crate documentation mentions invariants and tests.
fn introduces_itself(text: &str) -> bool {
    let is_introduction = |line: &&str| line.starts_with("//!");
    let introduction: String = text.lines().take_while(is_introduction).collect();
    introduction.contains("nvariant") && introduction.contains("test")
}

/// Where types of a library that others must not see are handed on.
fn reexports(masked: &str) -> impl Iterator<Item = (usize, &str)> {
    ENGINE.iter().flat_map(|name| masked.match_indices(name)).filter(|(at, _)| {
        let before = masked[..*at].trim_end_matches("::");
        before.ends_with("pub use ")
    })
}

/// No `unwrap()` outside tests, no re-exports of the query engine, and every crate has
/// documentation.
pub fn check(tree: &Tree, reached: &Reached) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in tree.with_extension("rs") {
        if path.ends_with("src/lib.rs") && !introduces_itself(&file.text) {
            let advice = "open with `//!`: what it is, what it is not, invariants, how to test it";
            findings.push(Finding::new(path, 1, "crate-doc", advice));
        }
        if reached.is_test(path) {
            continue;
        }
        let masked = mask(&file.text);
        for (at, _) in reexports(&masked) {
            let advice = "types of this library stay inside; wrap what others need";
            findings.push(Finding::new(path, line_of(&masked, at), "reexport", advice));
        }
        let tests = test_ranges(&masked);
        for (at, _) in masked.match_indices(".unwrap()").filter(|(at, _)| !in_any(&tests, *at)) {
            let advice = "`unwrap()` outside tests; use `?`, or `expect(\"why it holds\")`";
            findings.push(Finding::new(path, line_of(&masked, at), "unwrap", advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach;

    #[track_caller]
    fn unwraps(path: &str, text: &str, lines: &[usize]) {
        let tree = Tree::of(&[(path, text)]);
        let findings = check(&tree, &reach::modules(&tree));
        let found: Vec<_> =
            findings.iter().filter(|f| f.rule == "unwrap").map(|f| f.line).collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn unwrap_is_found_in_code_only() {
        unwraps("crates/a/src/lib.rs", "//! a\nfn f() {\n    g().unwrap();\n}\n", &[3]);
        unwraps("crates/a/src/lib.rs", "//! a.unwrap()\nconst A: &str = \".unwrap()\";\n", &[]);
        unwraps("crates/a/tests/x.rs", "fn f() { g().unwrap() }\n", &[]);
        let test =
            "#[cfg(test)]\nmod tests {\n    fn f() { g().unwrap() }\n}\nfn h() { g().unwrap() }\n";
        unwraps("crates/a/src/main.rs", test, &[5]);
    }

    #[test]
    fn the_query_engine_is_not_handed_on() {
        let rules = |text: &str| {
            let tree = Tree::of(&[("crates/a/src/b.rs", text)]);
            check(&tree, &reach::modules(&tree)).into_iter().map(|f| f.rule).collect::<Vec<_>>()
        };
        assert_eq!(rules("use datafusion::catalog::TableProvider;\n"), [] as [&str; 0]);
        assert_eq!(rules("pub use datafusion::catalog::TableProvider;\n"), ["reexport"]);
        assert_eq!(rules("pub use ::sqlparser::ast;\n"), ["reexport"]);
    }

    #[test]
    fn a_crate_says_what_it_is() {
        let rules = |text: &str| {
            let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
            check(&tree, &reach::modules(&tree)).into_iter().map(|f| f.rule).collect::<Vec<_>>()
        };
        assert_eq!(rules("mod b;\n"), ["crate-doc"]);
        assert_eq!(rules("//! A crate.\n"), ["crate-doc"]);
        assert_eq!(rules("//! A crate. Invariants: none.\n//! To test: look.\n"), [""; 0]);
    }
}
